//! A connection's stream and what was read of it, shared between the serve loop and the body of the present request.
//!
//! There is no task or channel between the two: whoever wants more of a body reads the socket itself. The lock is held for
//! a read or a write, never across an await, and is contended only when a service reads a body on another thread.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, Waker, ready},
};

use bytes::{Buf as _, Bytes};
use http_body::{Frame, SizeHint};
use ron_kernel::lock::Ranked;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    task::coop,
};
use types::{Reason, Refusal};

use super::BUFFER;
use crate::{
    BodyError,
    body::RequestSource,
    h1::{
        Flaw,
        chunks::Found,
        inbox::Inbox,
        request::{BadHead, HeadLimits, HeadScan, RequestHead, Rest},
    },
    locks,
    serve::{Activity, metered::Metered},
    stream::HangUp,
};

/// What a client is told that waits to be asked for its body.
const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";

/// A connection between its serve loop and the bodies of its requests.
pub(super) struct Link<IO> {
    activity: Arc<Activity>,
    /// `None` once the serve loop has taken it back.
    inbound: Ranked<Option<Inbound<IO>>>,
}

/// The reading side of a connection, and its stream.
struct Inbound<IO> {
    io: Metered<IO>,
    inbox: Inbox,
    scan: HeadScan,
    /// What is still to come of the present request's body.
    rest: Rest,
    /// Whether the client waits to be asked for the body.
    expects_continue: bool,
    /// What is left to be written of interim responses; empty if it only has to be flushed.
    interim: Option<Bytes>,
    /// Whether a service holds the present request's body, and who waits until it does not.
    held: bool,
    waits_for_release: Option<Waker>,
}

/// What is there of a request's body when its head is.
pub(super) enum FirstLook {
    /// There is no body.
    Empty,
    /// The whole body.
    Whole(Bytes),
    /// It is to come, with so many bytes if that is known.
    ToCome(u64),
}

impl<IO> Link<IO> {
    pub(super) fn new(io: IO, ahead: Bytes, activity: &Arc<Activity>) -> Self {
        let inbound = Inbound {
            io: Metered::new(io, Bytes::new(), Arc::clone(activity)),
            inbox: Inbox::with(ahead, BUFFER),
            scan: HeadScan::default(),
            rest: Rest::ENDED,
            expects_continue: false,
            interim: None,
            held: false,
            waits_for_release: None,
        };
        Self {
            activity: Arc::clone(activity),
            inbound: Ranked::new(&locks::CONNECTION_INBOUND, Some(inbound)),
        }
    }

    /// Takes the stream back, and what the client sent that nobody has seen. A body that a service still holds has ended.
    pub(super) fn take(&self) -> Option<(IO, Bytes)> {
        let inbound = self.inbound.lock().take()?;
        let Inbound { io, mut inbox, .. } = inbound;
        Some((io.into_parts().0, inbox.take_all()))
    }

    fn with<T>(&self, act: impl FnOnce(&mut Inbound<IO>) -> T) -> Option<T> {
        self.inbound.lock().as_mut().map(act)
    }
}

impl<IO: AsyncRead + AsyncWrite + HangUp + Unpin> Link<IO> {
    /// The head of the next request; `None` if the client has left.
    pub(super) fn poll_head(
        &self,
        limits: HeadLimits,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<RequestHead>, BadHead>> {
        self.with(|inbound| inbound.poll_head(limits, &self.activity, cx)).unwrap_or(Poll::Ready(Ok(None)))
    }

    /// Looks at the body of the request whose head was taken last; one of up to `small` bytes that has arrived is taken.
    pub(super) fn look_at_body(&self, small: u64) -> FirstLook {
        self.with(|inbound| inbound.look_at_body(small)).unwrap_or(FirstLook::Empty)
    }

    /// Ready if the client has left while its request is being answered.
    pub(super) fn poll_left(&self, cx: &mut Context<'_>) -> Poll<()> {
        self.with(|inbound| inbound.poll_left(&self.activity, cx)).unwrap_or(Poll::Ready(()))
    }

    /// Throws the rest of a body away that no service wants. Returns whether that was all of it, so that another request can
    /// follow. A body that a service holds may still end.
    pub(super) fn drain(&self, cx: &mut Context<'_>) -> bool {
        self.with(|inbound| inbound.held || inbound.drain(cx)).unwrap_or(false)
    }

    /// Ready once no service holds the present request's body.
    pub(super) fn poll_released(&self, cx: &mut Context<'_>) -> Poll<()> {
        let polled = self.with(|inbound| {
            if !inbound.held {
                return Poll::Ready(());
            }
            inbound.waits_for_release = Some(cx.waker().clone());
            Poll::Pending
        });
        polled.unwrap_or(Poll::Ready(()))
    }

    /// Notes that a service has the present request's body.
    pub(super) fn hand_out_body(&self) {
        self.with(|inbound| inbound.held = true);
    }

    /// Has the client see that a response broke off which it would otherwise take for whole.
    pub(super) fn reset_on_drop(&self) {
        self.with(|inbound| inbound.io.get_ref().reset_on_drop());
    }

    /// Has interim responses written before the answer, as far as that is possible now.
    pub(super) fn send_interim(&self, heads: Vec<u8>, cx: &mut Context<'_>) {
        self.with(|inbound| {
            inbound.add_interim(heads.into());
            // What goes wrong here is heard by whoever writes the response.
            let _ = inbound.poll_interim(cx);
        });
    }

    /// Goes on with interim responses that could not be written at once.
    pub(super) fn poll_interim(&self, cx: &mut Context<'_>) {
        self.with(|inbound| inbound.interim.is_some().then(|| inbound.poll_interim(cx)));
    }

    /// Has interim responses written right before the answer.
    pub(super) fn add_interim(&self, heads: Vec<u8>) {
        self.with(|inbound| inbound.add_interim(heads.into()));
    }

    /// Notes that the client no longer waits to be asked for its body, because it has its answer.
    pub(super) fn answer_begins(&self) {
        self.with(|inbound| inbound.expects_continue = false);
    }
}

impl<IO: AsyncRead + AsyncWrite + HangUp + Unpin> Inbound<IO> {
    fn poll_head(
        &mut self,
        limits: HeadLimits,
        activity: &Activity,
        cx: &mut Context<'_>,
    ) -> Poll<Result<Option<RequestHead>, BadHead>> {
        loop {
            if let Some(head) = self.scan.take(&mut self.inbox, limits)? {
                self.rest = head.body.into();
                self.expects_continue = head.expects_continue;
                return Poll::Ready(Ok(Some(head)));
            }
            if self.scan.has_begun() || !self.inbox.bytes().is_empty() {
                // It may have arrived behind the request before, when it was not yet this one's turn.
                activity.head_waits();
            }
            match ready!(self.inbox.poll_fill(&mut self.io, cx)) {
                Ok(0) | Err(_) => return Poll::Ready(Ok(None)),
                Ok(_) => {}
            }
        }
    }

    fn look_at_body(&mut self, small: u64) -> FirstLook {
        let Rest::Sized(length) = self.rest else { return FirstLook::ToCome(0) };
        if length == 0 {
            return FirstLook::Empty;
        }
        if length > small {
            return FirstLook::ToCome(length);
        }
        let Ok(whole) = usize::try_from(length) else { return FirstLook::ToCome(length) };
        if self.inbox.bytes().len() < whole && !self.expects_continue {
            // It may have arrived in a segment of its own. What goes wrong here is heard again.
            let _ = self.inbox.poll_fill(&mut self.io, &mut Context::from_waker(Waker::noop()));
        }
        if self.inbox.bytes().len() < whole {
            return FirstLook::ToCome(length);
        }
        (self.rest, self.expects_continue) = (Rest::ENDED, false);
        FirstLook::Whole(self.inbox.take(whole))
    }

    fn poll_left(&mut self, activity: &Activity, cx: &mut Context<'_>) -> Poll<()> {
        if self.rest.has_ended() && self.inbox.bytes().is_empty() {
            return match ready!(self.inbox.poll_fill(&mut self.io, cx)) {
                Ok(0) | Err(_) => Poll::Ready(()),
                Ok(_) => Poll::Pending,
            };
        }
        // The end of the stream is not read as long as bytes before it wait: a next request, or a body that nobody wants. So
        // the socket is asked now and then.
        if activity.takes_look() && self.io.get_ref().has_hung_up() { Poll::Ready(()) } else { Poll::Pending }
    }

    fn drain(&mut self, cx: &mut Context<'_>) -> bool {
        if self.expects_continue && !self.rest.has_ended() {
            // It was never asked for.
            return false;
        }
        let mut has_read = false;
        loop {
            match self.rest.next(&mut self.inbox) {
                Ok(Found::End) => return true,
                Ok(Found::Trailers(_)) => {}
                Ok(Found::Data(_)) => {}
                Ok(Found::Nothing) if !has_read => {
                    has_read = true;
                    if !matches!(self.inbox.poll_fill(&mut self.io, cx), Poll::Ready(Ok(1..))) {
                        return false;
                    }
                }
                Ok(Found::Nothing) | Err(_) => return false,
            }
        }
    }

    /// The next piece of the body.
    fn poll_frame(&mut self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        loop {
            match self.rest.next(&mut self.inbox) {
                Ok(Found::Data(data)) => {
                    // The client has not waited.
                    self.expects_continue = false;
                    return Poll::Ready(Some(Ok(Frame::data(data))));
                }
                Ok(Found::Trailers(trailers)) => return Poll::Ready(Some(Ok(Frame::trailers(trailers)))),
                Ok(Found::End) => return Poll::Ready(None),
                Ok(Found::Nothing) => {}
                Err(flaw) => return Poll::Ready(Some(Err(self.broken(flaw)))),
            }
            if std::mem::take(&mut self.expects_continue) {
                self.add_interim(Bytes::from_static(CONTINUE));
            }
            // What goes wrong here is heard by whoever writes the response.
            let _ = self.poll_interim(cx);
            match ready!(self.inbox.poll_fill(&mut self.io, cx)) {
                Ok(0) => return Poll::Ready(Some(Err(self.broke_off(io::ErrorKind::UnexpectedEof.into())))),
                Ok(_) => {}
                Err(error) => return Poll::Ready(Some(Err(self.broke_off(error)))),
            }
        }
    }

    fn broken(&mut self, flaw: Flaw) -> BodyError {
        self.rest = Rest::Broken;
        BodyError::new(Refusal::new(Reason::Malformed, flaw.to_string()))
    }

    fn broke_off(&mut self, error: io::Error) -> BodyError {
        self.rest = Rest::Broken;
        BodyError::new(error)
    }

    /// Has an interim response written behind those that are not out yet.
    fn add_interim(&mut self, head: Bytes) {
        self.interim = Some(match self.interim.take() {
            Some(before) if !before.is_empty() => [before, head].concat().into(),
            _ => head,
        });
    }

    /// Writes what is left of interim responses.
    fn poll_interim(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while let Some(rest) = &mut self.interim {
            if rest.is_empty() {
                ready!(Pin::new(&mut self.io).poll_flush(cx))?;
                self.interim = None;
                break;
            }
            match ready!(Pin::new(&mut self.io).poll_write(cx, rest))? {
                0 => return Poll::Ready(Err(io::ErrorKind::WriteZero.into())),
                written => rest.advance(written),
            }
        }
        Poll::Ready(Ok(()))
    }
}

impl<IO: AsyncRead + AsyncWrite + HangUp + Unpin + Send> RequestSource for Link<IO> {
    fn poll_frame(&self, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        // What has been read may be thousands of small chunks: other tasks of the core have their turn in between.
        let turn = ready!(coop::poll_proceed(cx));
        let ended = || Poll::Ready(Some(Err(BodyError::new("the connection has ended"))));
        let frame = self.with(|inbound| inbound.poll_frame(cx)).unwrap_or_else(ended);
        if frame.is_ready() {
            turn.made_progress();
        }
        frame
    }

    fn is_end_stream(&self) -> bool {
        self.with(|inbound| inbound.rest.has_ended()).unwrap_or(true)
    }

    fn size_hint(&self) -> SizeHint {
        let hint = self.with(|inbound| match inbound.rest {
            Rest::Sized(left) => SizeHint::with_exact(left),
            Rest::Chunked(_) | Rest::Broken => SizeHint::new(),
        });
        hint.unwrap_or_default()
    }

    fn release(&self) {
        let waits = self.with(|inbound| {
            inbound.held = false;
            inbound.waits_for_release.take()
        });
        waits.flatten().iter().for_each(Waker::wake_by_ref);
    }
}

/// The writing side of a link.
pub(super) struct Outward<'a, IO>(pub(super) &'a Link<IO>);

impl<IO: AsyncRead + AsyncWrite + HangUp + Unpin> Outward<'_, IO> {
    fn poll<T>(
        &self,
        cx: &mut Context<'_>,
        act: impl FnOnce(Pin<&mut Metered<IO>>, &mut Context<'_>) -> Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        let polled = self.0.with(|inbound| {
            ready!(inbound.poll_interim(cx))?;
            act(Pin::new(&mut inbound.io), cx)
        });
        polled.unwrap_or_else(|| Poll::Ready(Err(io::ErrorKind::NotConnected.into())))
    }
}

impl<IO: AsyncRead + AsyncWrite + HangUp + Unpin> AsyncWrite for Outward<'_, IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.poll(cx, |io, cx| io.poll_write(cx, buf))
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.poll(cx, |io, cx| io.poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll(cx, |io, cx| io.poll_flush(cx))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.poll_flush(cx)
    }
}
