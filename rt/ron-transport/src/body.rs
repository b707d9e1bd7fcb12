//! The one body type that crosses crate borders: requests in, responses out.

mod watch;

use std::{
    fmt,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use hyper::body::Incoming;
use types::{Reason, Refusal};

use crate::{UploadWatch, field_values, serve::Activity, tunnel::Tunnel};
use watch::{Polled, Watch};

/// The reason why a body ended early.
#[derive(Debug, thiserror::Error)]
#[error("the body ended early: {0}")]
pub struct BodyError(Box<dyn std::error::Error + Send + Sync>);

impl BodyError {
    /// A body that ended because of `cause`.
    pub fn new(cause: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self(cause.into())
    }

    /// What a client is told whose own request's body ended so.
    #[must_use]
    pub fn refusal(&self) -> Refusal {
        if let Some(refusal) = self.0.downcast_ref::<Refusal>() {
            return refusal.clone();
        }
        match self.0.downcast_ref::<Self>() {
            Some(cause) => cause.refusal(),
            None => Refusal::new(Reason::Malformed, "the body of the request broke off"),
        }
    }
}

/// A streaming body of any origin.
type Streaming = Pin<Box<dyn HttpBody<Data = Bytes, Error = BodyError> + Send>>;

/// The largest request body that is looked at before it is read.
pub(crate) const SMALL: u64 = 16 * 1024;

/// A request's or response's body.
#[derive(Default)]
pub struct Body {
    kind: Kind,
    /// Let go with the last byte; see [`Body::holding`].
    held: Option<Box<dyn Send>>,
}

#[derive(Default)]
enum Kind {
    #[default]
    Empty,
    Full(Bytes),
    /// From a client, whose progress is watched. The watch is boxed, because every body has room for the largest kind, and moves with
    /// its request and its response from hand to hand.
    Watched(Source, Box<Watch>),
    Streaming(Streaming),
    /// No bytes, but what comes after a response that ends HTTP on its connection.
    Tunnel(Box<Tunnel>),
}

/// What a request's body is read from.
enum Source {
    /// A stream of an HTTP/2 connection.
    Stream(Incoming),
    /// The body is read from an HTTP/1.1 connection.
    Connection(OnConnection),
}

/// The connection that a request's body comes on.
pub(crate) trait RequestSource: Send + Sync {
    /// The next part of the body.
    fn poll_frame(&self, cx: &mut Context<'_>) -> Polled;

    /// Whether all of it has been read.
    fn is_end_stream(&self) -> bool;

    /// Returns the expected size of the rest of the body.
    fn size_hint(&self) -> SizeHint;

    /// Nobody wants more of it.
    fn release(&self);
}

/// A connection whose present request's body is held.
struct OnConnection(Arc<dyn RequestSource>);

impl Drop for OnConnection {
    fn drop(&mut self) {
        self.0.release();
    }
}

impl Source {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Polled {
        match self {
            Self::Stream(incoming) => Pin::new(incoming).poll_frame(cx).map_err(BodyError::new),
            Self::Connection(OnConnection(source)) => source.poll_frame(cx),
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Stream(incoming) => incoming.is_end_stream(),
            Self::Connection(OnConnection(source)) => source.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            Self::Stream(incoming) => incoming.size_hint(),
            Self::Connection(OnConnection(source)) => source.size_hint(),
        }
    }
}

const _: () = assert!(size_of::<Body>() <= 80, "a body is cheap to move");

impl Body {
    /// No bytes at all.
    #[must_use]
    pub const fn empty() -> Self {
        Self::of(Kind::Empty)
    }

    /// Any other body, boxed.
    pub fn streaming<B>(body: B) -> Self
    where
        B: HttpBody<Data = Bytes, Error = BodyError> + Send + 'static,
    {
        Self::of(Kind::Streaming(Box::pin(body)))
    }

    /// Tells from now on whose turn it is, of a request's body that is still on its way; `None` if it is here or there is
    /// none. To be asked for before the body is put into another one.
    pub fn watch_upload(&mut self) -> Option<UploadWatch> {
        match &mut self.kind {
            Kind::Watched(_, watch) => Some(watch.watch_upload()),
            _ => None,
        }
    }

    /// Lets a request's body take any time: neither the minimum rate nor the total time of a request holds for it, and its
    /// client may be silent for as long as a connection may idle. For bodies that are streams of messages.
    pub fn allow_any_time(&mut self) {
        if let Kind::Watched(_, watch) = &mut self.kind {
            watch.allow_any_time();
        }
    }

    /// Whether all of it is here, so that nobody needs to be waited for.
    #[must_use]
    pub const fn is_whole(&self) -> bool {
        matches!(self.kind, Kind::Empty | Kind::Full(_))
    }

    /// The bytes of a body that is here as a whole; `None` for any other.
    #[must_use]
    pub fn whole(&self) -> Option<Bytes> {
        match &self.kind {
            Kind::Empty => Some(Bytes::new()),
            Kind::Full(bytes) => Some(bytes.clone()),
            Kind::Watched(..) | Kind::Streaming(_) | Kind::Tunnel(_) => None,
        }
    }

    /// A copy, of a body that is here as a whole; a request with such a body can be sent twice.
    #[must_use]
    pub fn try_clone(&self) -> Option<Self> {
        match &self.kind {
            _ if self.held.is_some() => None,
            Kind::Empty => Some(Self::empty()),
            Kind::Full(bytes) => Some(Self::of(Kind::Full(bytes.clone()))),
            Kind::Watched(..) | Kind::Streaming(_) | Kind::Tunnel(_) => None,
        }
    }

    /// The body of a 101 response: the serve loop relays once the response's head is sent.
    #[must_use]
    pub fn tunnel(tunnel: Tunnel) -> Self {
        Self::of(Kind::Tunnel(Box::new(tunnel)))
    }

    /// Takes the tunnel out of a 101 response's body.
    pub fn take_tunnel(&mut self) -> Option<Tunnel> {
        match std::mem::take(&mut self.kind) {
            Kind::Tunnel(tunnel) => Some(*tunnel),
            other => {
                self.kind = other;
                None
            }
        }
    }

    /// The body of a request on an HTTP/1.1 connection, of which so much is announced; 0 if that is not known. The
    /// connection's timeouts watch its arrival.
    pub(crate) fn from_source(
        source: Arc<dyn RequestSource>,
        activity: &Arc<Activity>,
        announced: u64,
    ) -> Self {
        let watch = Watch::begin(activity, announced, None);
        Self::of(Kind::Watched(Source::Connection(OnConnection(source)), Box::new(watch)))
    }

    /// The body of a request on HTTP/2, whose arrival the timeouts watch. A small one that came along with its head is taken at once, and is then nobody's to wait for; `may_look` if that does not tell the client to send it.
    pub(crate) fn watched(mut incoming: Incoming, activity: &Arc<Activity>, may_look: bool) -> Self {
        if incoming.is_end_stream() {
            return Self::empty();
        }
        let announced = incoming.size_hint().exact().unwrap_or_default();
        let mut ahead = None;
        if may_look && (1..=SMALL).contains(&announced) {
            let mut cx = Context::from_waker(Waker::noop());
            if let Poll::Ready(frame) = Pin::new(&mut incoming).poll_frame(&mut cx) {
                match frame.map(|frame| frame.map(Frame::into_data)) {
                    Some(Ok(Ok(data))) if incoming.is_end_stream() => return data.into(),
                    Some(Ok(Ok(data))) => ahead = Some(Ok(Frame::data(data))),
                    Some(Ok(Err(trailers))) => ahead = Some(Ok(trailers)),
                    Some(Err(error)) => ahead = Some(Err(BodyError::new(error))),
                    None => {}
                }
            }
        }
        let watch = Watch::begin(activity, announced, ahead);
        Self::of(Kind::Watched(Source::Stream(incoming), Box::new(watch)))
    }

    /// The same body, which keeps `guard` until its last byte was read, it broke, or nobody wants it any more.
    #[must_use]
    pub fn holding(mut self, guard: impl Send + 'static) -> Self {
        self.held = Some(match self.held.take() {
            None => Box::new(guard),
            Some(other) => Box::new((guard, other)),
        });
        self
    }

    /// The same for a body that is here as a whole, which keeps `guard` for as long as anybody has its bytes: they may wait to
    /// be written long after they were read.
    #[must_use]
    pub fn bytes_holding(self, guard: impl Send + 'static) -> Self {
        struct Guarded<G>(Bytes, G);
        impl<G> AsRef<[u8]> for Guarded<G> {
            fn as_ref(&self) -> &[u8] {
                &self.0
            }
        }
        match self.kind {
            Kind::Full(bytes) => {
                Self { kind: Kind::Full(Bytes::from_owner(Guarded(bytes, guard))), held: self.held }
            }
            kind => Self { kind, held: self.held }.holding(guard),
        }
    }

    const fn of(kind: Kind) -> Self {
        Self { kind, held: None }
    }
}

impl From<Bytes> for Body {
    fn from(bytes: Bytes) -> Self {
        if bytes.is_empty() { Self::empty() } else { Self::of(Kind::Full(bytes)) }
    }
}

impl From<String> for Body {
    fn from(text: String) -> Self {
        Bytes::from(text).into()
    }
}

impl From<&'static str> for Body {
    fn from(text: &'static str) -> Self {
        Bytes::from_static(text.as_bytes()).into()
    }
}

impl Kind {
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Polled {
        match self {
            Self::Empty | Self::Tunnel(_) => Poll::Ready(None),
            Self::Full(_) => match std::mem::take(self) {
                Self::Full(bytes) => Poll::Ready(Some(Ok(Frame::data(bytes)))),
                _ => Poll::Ready(None),
            },
            Self::Watched(source, watch) => {
                let frame = match watch.ahead.take() {
                    Some(ahead) => Poll::Ready(Some(ahead)),
                    None => source.poll_frame(cx),
                };
                watch.polled(frame.map(|frame| frame.map(checked)), cx)
            }
            Self::Streaming(body) => body.as_mut().poll_frame(cx),
        }
    }
}

/// A part of a request's body, unless it is malformed.
fn checked(part: Result<Frame<Bytes>, BodyError>) -> Result<Frame<Bytes>, BodyError> {
    let part = part?;
    if part.trailers_ref().is_some_and(field_values::have_blanks) {
        let refusal = Refusal::new(Reason::Malformed, "a trailer's value begins or ends with a blank");
        return Err(BodyError::new(refusal));
    }
    Ok(part)
}

impl HttpBody for Body {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let frame = this.kind.poll_frame(cx);
        if let Poll::Ready(None | Some(Err(_))) = frame {
            this.held = None;
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        match &self.kind {
            Kind::Empty | Kind::Tunnel(_) => true,
            Kind::Full(bytes) => bytes.is_empty(),
            Kind::Watched(source, watch) => watch.ahead.is_none() && source.is_end_stream(),
            Kind::Streaming(body) => body.is_end_stream(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.kind {
            Kind::Empty | Kind::Tunnel(_) => SizeHint::with_exact(0),
            Kind::Full(bytes) => SizeHint::with_exact(bytes.len() as u64),
            Kind::Watched(source, watch) => watch.hint(&source.size_hint()),
            Kind::Streaming(body) => body.size_hint(),
        }
    }
}

impl fmt::Debug for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match &self.kind {
            Kind::Empty => "empty",
            Kind::Full(_) => "full",
            Kind::Watched(..) => "incoming",
            Kind::Streaming(_) => "streaming",
            Kind::Tunnel(_) => "tunnel",
        };
        write!(f, "Body({kind})")
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use http_body_util::BodyExt;

    #[tokio::test]
    async fn what_a_body_holds_is_let_go_at_its_end_and_not_before() {
        let guard = Arc::new(());
        let mut body = Body::from("bytes").holding(Arc::clone(&guard));
        assert!(body.frame().await.unwrap().is_ok());
        assert_eq!(Arc::strong_count(&guard), 2);
        assert!(body.frame().await.is_none());
        assert_eq!(Arc::strong_count(&guard), 1);
    }

    #[tokio::test]
    async fn what_bytes_hold_is_let_go_with_the_last_of_them() {
        let guard = Arc::new(());
        let mut body = Body::from("bytes").bytes_holding(Arc::clone(&guard));
        assert_eq!(body.size_hint().exact(), Some(5));
        let data = body.frame().await.unwrap().unwrap().into_data().unwrap();
        drop(body);
        let rest = data.slice(3..);
        drop(data);
        assert_eq!((&rest[..], Arc::strong_count(&guard)), (&b"es"[..], 2));
        drop(rest);
        assert_eq!(Arc::strong_count(&guard), 1);
        drop(Body::empty().bytes_holding(Arc::clone(&guard)));
        assert_eq!(Arc::strong_count(&guard), 1);
    }

    #[test]
    fn what_a_body_holds_goes_with_a_body_that_nobody_reads() {
        let (first, second) = (Arc::new(()), Arc::new(()));
        drop(Body::from("bytes").holding(Arc::clone(&first)).holding(Arc::clone(&second)));
        assert_eq!((Arc::strong_count(&first), Arc::strong_count(&second)), (1, 1));
    }
}
