//! The client side of HTTP/1.1: one connection, driven by whoever uses it.
//!
//! There is no task per connection. While a request is out, its future moves the bytes; while its response streams,
//! the response's body does; in between the connection sleeps in its pool. So a request crosses no task border on
//! its way to the server and back.
//!
//! Heads are read by the `httparse` library. The rest is ours, because a library that has to serve everybody hands each
//! request to a dispatcher and its response back through channels, which costs a proxy a fifth of its own time.

mod head;

use std::{
    future::poll_fn,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
    time::Duration,
};

use bytes::Bytes;
use http::{Method, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use tokio::task::coop;

use super::{Home, LargeHead, MAX_INTERIM, RequestWatch, SendFault, Unanswered, stall::StallWatch};
use crate::{
    Body, BodyError, Request, Response,
    h1::{
        chunks::Found,
        inbox::{Inbox, Unasked},
        outbox::{Outbox, Unfinished},
    },
    stream::Stream,
    tls::TlsStream,
    tunnel::Tunnel,
    wire::Wire,
};
use head::{Ends, Head, MAX_FIELDS, Nonsense};

/// The longest head of a response.
const MAX_HEAD: usize = 128 * 1024;

/// A connection to a server, ready for one request at a time. Boxed, because it moves between its pool, its request
/// and its response, and is large.
#[derive(Debug)]
pub struct HttpConn(Box<Inner>);

#[derive(Debug)]
struct Inner {
    wire: Wire,
    inbox: Inbox,
    outbox: Outbox,
    /// What the server sent between two requests.
    unasked: Unasked,
    /// Why the server takes no more; what it has to say is heard all the same.
    cut_short: Option<std::io::Error>,
    /// Whether the request's own body broke off, which is not the server's fault.
    request_broke_off: bool,
    /// Interim responses to the present request.
    interim: usize,
    /// Whether the server takes another request after the present one.
    stays: bool,
    /// How long a response's body may make its reader wait.
    stall_limit: Option<Duration>,
}

/// A server that broke off.
#[derive(Debug, thiserror::Error)]
enum BrokeOff {
    #[error("the server closed the connection without an answer")]
    NoAnswer,
    #[error("the server closed the connection in the middle of its answer")]
    Midway,
    #[error("the server sent too many interim responses before its answer")]
    Interim,
}

impl HttpConn {
    /// Speaks HTTP/1.1 on a connected stream.
    #[must_use]
    pub fn open(stream: Stream) -> Self {
        Self::over(Wire::Plain(stream))
    }

    /// Opens an HTTP/1.1 connection over TLS.
    #[must_use]
    pub fn open_tls(stream: TlsStream<Stream>) -> Self {
        Self::over(Wire::Tls(Box::new(stream)))
    }

    fn over(wire: Wire) -> Self {
        let (inbox, outbox) = (Inbox::new(), Outbox::default());
        let unasked = Unasked::Nothing;
        Self(Box::new(Inner {
            wire,
            inbox,
            outbox,
            unasked,
            cut_short: None,
            request_broke_off: false,
            interim: 0,
            stays: true,
            stall_limit: None,
        }))
    }

    /// Ends a response's body with an error if a reader waits so long for more of it; without this, readers wait for
    /// ever. Time in which nobody reads does not count, nor that in which the server still takes the request. Holds for
    /// all later requests.
    pub fn set_stall(&mut self, limit: Duration) {
        self.0.stall_limit = Some(limit);
    }

    /// Whether the server has not closed the connection while it slept. Gives buffers up, because who asks this does not
    /// need the connection at once.
    pub fn is_alive(&mut self) -> bool {
        self.0.inbox.rest();
        self.0.outbox.rest();
        self.0.listen(&mut Context::from_waker(Waker::noop())) == Unasked::Nothing
    }

    /// Whether the server has said something that nobody asked for, behind the end of a response. What has not arrived yet
    /// is not waited for.
    pub fn went_on(&mut self) -> bool {
        self.0.listen(&mut Context::from_waker(Waker::noop())) == Unasked::More
    }

    /// Sends a request and waits for the response's head. The connection goes to `home` once the body has ended. Only the
    /// body is taken from the request, so its head is there for another try.
    ///
    /// A 101 response ends HTTP on this connection: its body is the [`Tunnel`] to what follows. Whether the server was
    /// asked for that is the caller's to know.
    ///
    /// Cancel safe: dropping the future, or the response's body, closes the connection.
    ///
    /// # Errors
    /// [`SendFault`].
    pub fn send(
        self,
        request: &mut Request,
        home: Arc<dyn Home>,
    ) -> impl Future<Output = Result<Response, SendFault>> + Send {
        self.send_for(request, home, None)
    }

    /// The same for a caller that may leave before the answer: `watch` takes the connection over then, instead of its being
    /// closed.
    ///
    /// Cancel safe, as [`send`](Self::send).
    ///
    /// # Errors
    /// [`SendFault`].
    pub async fn send_for(
        mut self,
        request: &mut Request,
        home: Arc<dyn Home>,
        watch: Option<&mut (dyn RequestWatch + '_)>,
    ) -> Result<Response, SendFault> {
        let began = poll_fn(|cx| Poll::Ready(self.0.begin(request, cx))).await;
        if !began {
            return Err(SendFault::Unsent(Box::new(std::mem::take(request))));
        }
        let method = request.method();
        let mut waiting = Waiting { conn: Some(self), method, home: &home, watch };
        let answered = poll_fn(|cx| waiting.poll_head(cx)).await;
        // Nobody leaves it any more.
        let conn = waiting.conn.take();
        drop(waiting);
        let (Some(conn), head) = (conn, answered?) else { return Err(SendFault::broken(BrokeOff::NoAnswer)) };
        conn.begun(head, home).await
    }

    /// The response to a request by `method` that has been sent.
    async fn answer(mut self, method: Method, home: Arc<dyn Home>) -> Result<Response, SendFault> {
        let head = poll_fn(|cx| self.0.poll_head(&method, None, cx)).await?;
        self.begun(head, home).await
    }

    /// The response with this head, unless its body is broken from the start, as far as that can be seen without waiting.
    async fn begun(mut self, mut head: Head, home: Arc<dyn Home>) -> Result<Response, SendFault> {
        poll_fn(|cx| Poll::Ready(self.0.look_at_body(&mut head.ends, cx))).await?;
        Ok(self.into_response(head, home))
    }

    fn into_response(mut self, head: Head, home: Arc<dyn Home>) -> Response {
        let Head { parts, ends, stays } = head;
        self.0.stays = stays;
        let body = if parts.status == StatusCode::SWITCHING_PROTOCOLS {
            let Inner { wire, mut inbox, .. } = *self.0;
            Body::tunnel(Tunnel::new(wire, inbox.take_all()))
        } else {
            self.into_body(ends, home)
        };
        Response::from_parts(parts, body)
    }

    /// The body of a response that ends so. What is there as a whole needs no connection any more.
    fn into_body(mut self, ends: Ends, home: Arc<dyn Home>) -> Body {
        if let Ends::After(length) = ends
            && let Ok(length) = usize::try_from(length)
            && length <= self.0.inbox.bytes().len()
        {
            let bytes = self.0.inbox.take(length);
            self.go_home(&*home);
            return bytes.into();
        }
        let stall = self.0.stall_limit.map(StallWatch::new);
        Body::streaming(ResponseBody { ends, conn: Some(self), home, stall })
    }

    /// Goes home if it can be used again.
    fn go_home(self, home: &dyn Home) {
        let Inner { stays, inbox, outbox, cut_short, .. } = &*self.0;
        if !inbox.bytes().is_empty() {
            home.went_on();
        } else if *stays && outbox.is_done() && cut_short.is_none() {
            home.put_back(self);
        }
    }
}

/// A request that is out, and whose caller waits for the head of the answer.
struct Waiting<'a, 'l> {
    /// Gone once the head is there.
    conn: Option<HttpConn>,
    method: &'a Method,
    home: &'a Arc<dyn Home>,
    watch: Option<&'a mut (dyn RequestWatch + 'l)>,
}

impl Waiting<'_, '_> {
    fn poll_head(&mut self, cx: &mut Context<'_>) -> Poll<Result<Head, SendFault>> {
        match &mut self.conn {
            Some(conn) => conn.0.poll_head(self.method, self.watch.as_deref_mut(), cx),
            None => Poll::Ready(Err(SendFault::broken(BrokeOff::NoAnswer))),
        }
    }
}

impl Drop for Waiting<'_, '_> {
    fn drop(&mut self) {
        if let (Some(mut conn), Some(watch)) = (self.conn.take(), &mut self.watch) {
            if !conn.0.outbox.is_done() {
                // The rest of the request will never come; the server may be at work all the same.
                conn.0.cut_short = Some(std::io::ErrorKind::BrokenPipe.into());
                conn.0.outbox = Outbox::default();
            }
            let (method, home) = (self.method.clone(), Arc::clone(self.home));
            watch.left(Unanswered::new(async move { conn.answer(method, home).await.ok() }));
        }
    }
}

impl Inner {
    /// What came while nobody asked. Once something did, the connection is of no more use.
    fn listen(&mut self, cx: &mut Context<'_>) -> Unasked {
        if self.unasked == Unasked::Nothing {
            self.unasked = self.inbox.listen(&mut self.wire, cx);
        }
        self.unasked
    }

    /// Gets a request ready to be written; false if the server is gone.
    fn begin(&mut self, request: &mut Request, cx: &mut Context<'_>) -> bool {
        if self.listen(cx) != Unasked::Nothing {
            return false;
        }
        self.interim = 0;
        let announced = head::write(request, self.outbox.head());
        let body = std::mem::take(request.body_mut());
        if let Some(announced) = announced {
            self.outbox.follow(body, announced);
        }
        true
    }

    /// Moves the request to the server; an error if its own body failed.
    fn send_on(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        if self.cut_short.is_some() || self.outbox.is_done() {
            return Ok(());
        }
        match self.outbox.poll_send(&mut self.wire, cx) {
            Poll::Ready(Err(Unfinished::Body(error))) => {
                self.request_broke_off = true;
                Err(error)
            }
            // It may have answered before it closed.
            Poll::Ready(Err(Unfinished::Wire(error))) => {
                self.cut_short = Some(error);
                Ok(())
            }
            Poll::Ready(Ok(())) | Poll::Pending => Ok(()),
        }
    }

    /// The head of the answer to a request by `method`, as soon as it is there.
    fn poll_head(
        &mut self,
        method: &Method,
        mut watch: Option<&mut (dyn RequestWatch + '_)>,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Head, SendFault>> {
        self.send_on(cx).map_err(SendFault::broken)?;
        let mut seen = 0;
        loop {
            let bytes = self.inbox.bytes();
            if let Some(end) = head::find_end(bytes, seen) {
                let head = head::read(&self.inbox.take(end), method).map_err(|nonsense| match nonsense {
                    Nonsense::TooManyFields => SendFault::broken(LargeHead::Fields(MAX_FIELDS)),
                    nonsense => SendFault::broken(nonsense),
                })?;
                seen = 0;
                let status = head.parts.status;
                if status.is_informational() && status != StatusCode::SWITCHING_PROTOCOLS {
                    self.interim += 1;
                    if self.interim > MAX_INTERIM {
                        return Poll::Ready(Err(SendFault::broken(BrokeOff::Interim)));
                    }
                    if let Some(watch) = &mut watch {
                        watch.interim(&head.parts);
                    }
                    continue;
                }
                return Poll::Ready(Ok(head));
            }
            seen = bytes.len();
            if seen > MAX_HEAD {
                return Poll::Ready(Err(SendFault::broken(LargeHead::Bytes(MAX_HEAD))));
            }
            match ready!(self.inbox.poll_fill(&mut self.wire, cx)) {
                Ok(0) => return Poll::Ready(Err(self.unanswered(BrokeOff::NoAnswer.into()))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Err(self.unanswered(error.into()))),
            }
        }
    }

    /// Looks at the beginning of a response's body, as far as it is here: nobody has been told of the response yet.
    fn look_at_body(&mut self, ends: &mut Ends, cx: &mut Context<'_>) -> Result<(), SendFault> {
        if matches!(ends, Ends::After(0) | Ends::WithConnection) {
            return Ok(());
        }
        if self.inbox.bytes().is_empty() {
            match self.inbox.poll_fill(&mut self.wire, cx) {
                Poll::Pending => return Ok(()),
                Poll::Ready(Ok(0)) => return Err(SendFault::broken(BrokeOff::Midway)),
                Poll::Ready(read) => drop(read.map_err(SendFault::broken)?),
            }
        }
        match ends {
            Ends::WithChunks(chunks) => chunks.begin(&mut self.inbox).map_err(SendFault::broken),
            _ => Ok(()),
        }
    }

    /// The server ended before it answered; if it had stopped taking the request before, that is why.
    fn unanswered(&mut self, ended: Box<dyn std::error::Error + Send + Sync>) -> SendFault {
        SendFault::Broken(self.cut_short.take().map_or(ended, Into::into))
    }

    /// The next piece of a response's body.
    fn poll_piece(
        &mut self,
        ends: &mut Ends,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.send_on(cx)?;
        loop {
            match ends.next(&mut self.inbox)? {
                Found::Data(data) => return Poll::Ready(Some(Ok(Frame::data(data)))),
                Found::Trailers(trailers) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Found::End => return Poll::Ready(None),
                Found::Nothing => {}
            }
            let read = ready!(self.inbox.poll_fill(&mut self.wire, cx)).map_err(BodyError::new)?;
            if read == 0 {
                let whole = matches!(ends, Ends::WithConnection);
                let midway = || Err(BodyError::new(BrokeOff::Midway));
                return Poll::Ready((!whole).then(midway));
            }
        }
    }
}

impl Ends {
    /// Takes what is next of a body that ends so out of `inbox`.
    fn next(&mut self, inbox: &mut Inbox) -> Result<Found, BodyError> {
        let here = inbox.bytes().len();
        match self {
            Self::After(0) => Ok(Found::End),
            Self::WithChunks(chunks) => chunks.next(inbox).map_err(BodyError::new),
            _ if here == 0 => Ok(Found::Nothing),
            Self::After(left) => {
                let taken = usize::try_from(*left).unwrap_or(usize::MAX).min(here);
                *left -= taken as u64;
                Ok(Found::Data(inbox.take(taken)))
            }
            Self::WithConnection => Ok(Found::Data(inbox.take_all())),
        }
    }
}

/// A response's body, which drives its connection.
struct ResponseBody {
    ends: Ends,
    /// Gone once the body has ended.
    conn: Option<HttpConn>,
    home: Arc<dyn Home>,
    stall: Option<StallWatch>,
}

impl ResponseBody {
    /// Watches the outcome of a poll: a wait that lasts too long becomes an error, and closes the connection.
    fn watch<T>(
        &mut self,
        polled: Poll<Option<Result<T, BodyError>>>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<T, BodyError>>> {
        let Some(stall) = &mut self.stall else {
            return polled;
        };
        if polled.is_ready() {
            stall.progressed();
            return polled;
        }
        let writes = self.conn.as_ref().map_or(0, |conn| conn.0.outbox.writes());
        stall.poll_wait(writes, cx).map(|stalled| {
            // A server that still waits for the rest of the request has not stalled; its client has.
            if self.conn.take().is_none_or(|conn| conn.0.outbox.is_done()) {
                self.home.stalled();
            }
            Some(Err(BodyError::new(stalled)))
        })
    }

    /// Closes the connection of a body that failed, and says so if the server is to blame.
    fn break_off(&mut self, why: &BodyError) {
        if self.conn.take().is_none_or(|conn| !conn.0.request_broke_off) {
            self.home.broke_off(why);
        }
    }

    fn go_home(&mut self) {
        if let Some(conn) = self.conn.take() {
            conn.go_home(&*self.home);
        }
    }
}

impl HttpBody for ResponseBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let Some(conn) = &mut this.conn else { return Poll::Ready(None) };
        // What has been read may be thousands of small chunks: other tasks of the core have their turn in between.
        let turn = ready!(coop::poll_proceed(cx));
        let piece = conn.0.poll_piece(&mut this.ends, cx);
        if piece.is_ready() {
            turn.made_progress();
        }
        match &piece {
            Poll::Ready(Some(Err(why))) => this.break_off(why),
            Poll::Ready(None) => this.go_home(),
            // A reader that knows the length never asks for the end.
            Poll::Ready(_) if matches!(this.ends, Ends::After(0)) => this.go_home(),
            _ => {}
        }
        this.watch(piece, cx)
    }

    fn is_end_stream(&self) -> bool {
        self.conn.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        match self.ends {
            Ends::After(left) => SizeHint::with_exact(left),
            Ends::WithChunks(_) | Ends::WithConnection => SizeHint::new(),
        }
    }
}
