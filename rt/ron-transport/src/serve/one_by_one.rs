//! A stream on which the HTTP/1.1 library sees one request at a time, and none that is framed in two ways.
//!
//! What a client sends ahead waits here until the answer before it is out. So whatever the library writes between the
//! first byte of a head and the beginning of its request is its own refusal of that head; it is kept, for the serve
//! loop has one with a document.

use std::{
    io::{self, IoSlice},
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use super::{Activity, metered::Metered};
use crate::{
    framing::{Flaw, Framing},
    stream::HangUp,
};

/// A metered stream that is read request by request.
#[derive(Debug)]
pub(super) struct OneByOne<IO> {
    io: Metered<IO>,
    activity: Arc<Activity>,
    framing: Framing,
    flaw: Option<Flaw>,
    /// What was read beyond the present request; as much as one read gives.
    held: Bytes,
    /// Whether the library was told to wait although bytes are held.
    waits_for_flush: bool,
    /// Whether the library has written what is not known to be out.
    unflushed: bool,
}

impl<IO> OneByOne<IO> {
    /// A stream of which `ahead` was read before.
    pub(super) fn new(io: IO, ahead: Bytes, activity: Arc<Activity>) -> Self {
        Self {
            io: Metered::new(io, ahead, Arc::clone(&activity)),
            activity,
            framing: Framing::default(),
            flaw: None,
            held: Bytes::new(),
            waits_for_flush: false,
            unflushed: false,
        }
    }

    /// What is wrong with the head that was refused here, if one was. A flaw inside a body is the service's to refuse.
    pub(super) fn flawed_head(&self) -> Option<Flaw> {
        self.flaw.filter(|_| self.framing.is_between() || self.framing.is_in_head())
    }

    /// The stream, and what the client sent that nobody has seen: `unparsed` is what the library left over.
    pub(super) fn into_parts(self, unparsed: &[u8]) -> (IO, Bytes) {
        let (io, ahead) = self.io.into_parts();
        // A copy, because even an empty slice would keep the library's whole buffer.
        let mut unseen = BytesMut::with_capacity(unparsed.len() + self.held.len() + ahead.len());
        for part in [unparsed, &self.held, &ahead] {
            unseen.extend_from_slice(part);
        }
        (io, unseen.freeze())
    }

    /// Whether a request has been given to the library whose answer is not complete.
    fn is_answering(&self) -> bool {
        self.framing.heads() != self.activity.answered()
    }

    /// Whether the library holds a head, or a part of one, for which no request has begun.
    fn is_in_head(&self) -> bool {
        self.framing.is_in_head() || self.framing.heads() != self.activity.begun()
    }

    /// How many of the next bytes the library may see.
    fn admit(&mut self, bytes: &[u8]) -> usize {
        let mut admitted = 0;
        while admitted < bytes.len() {
            match self.framing.take(&bytes[admitted..]) {
                Ok(taken) => admitted += taken,
                Err(flaw) => {
                    self.flaw = Some(flaw);
                    break;
                }
            }
            if self.framing.is_between() {
                break;
            }
        }
        admitted
    }

    /// Has the library wait although bytes are held: until the answer is complete, or until it is out.
    fn wait(&mut self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        if self.is_answering() {
            self.activity.reader_waits(cx.waker());
        }
        self.waits_for_flush = true;
        Poll::Pending
    }

    /// Whether what the library writes is its own answer to a head.
    fn is_own_refusal(&self, bytes: &[u8]) -> bool {
        self.is_in_head() && bytes.starts_with(b"HTTP/1.")
    }
}

impl<IO: HangUp> OneByOne<IO> {
    /// Whether the client has gone while its answer is awaited. The end of the stream is not read as long as bytes before it
    /// wait here or in the socket: a next request, or a body that nobody wants. So the socket is asked now and then.
    ///
    /// # Errors
    /// `ConnectionReset` if it has gone.
    fn check_client(&self) -> io::Result<()> {
        if self.activity.takes_look() && self.is_answering() && self.io.get_ref().has_hung_up() {
            return Err(io::ErrorKind::ConnectionReset.into());
        }
        Ok(())
    }
}

impl<IO: AsyncRead + Unpin> OneByOne<IO> {
    fn poll_held(&mut self, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let piece = self.held.slice(..self.held.len().min(buf.remaining()));
        let admitted = self.admit(&piece);
        if admitted == 0 {
            return Poll::Ready(Err(broken()));
        }
        self.waits_for_flush = false;
        buf.put_slice(&piece[..admitted]);
        self.held.advance(admitted);
        Poll::Ready(self.io.note_read(admitted))
    }

    fn poll_fresh(
        &mut self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
        wait: bool,
    ) -> Poll<io::Result<()>> {
        let before = buf.filled().len();
        ready!(Pin::new(&mut self.io).poll_read(cx, buf))?;
        let fresh = &buf.filled()[before..];
        let admitted = if wait { 0 } else { self.admit(fresh) };
        if admitted == fresh.len() {
            return Poll::Ready(Ok(()));
        }
        self.held = Bytes::copy_from_slice(&fresh[admitted..]);
        buf.set_filled(before + admitted);
        if admitted > 0 {
            Poll::Ready(Ok(()))
        } else if wait {
            self.wait(cx)
        } else {
            Poll::Ready(Err(broken()))
        }
    }
}

/// What the library is told of a flaw; the client is told otherwise.
fn broken() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "the request is not framed in one way")
}

impl<IO: AsyncRead + Unpin> AsyncRead for OneByOne<IO> {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        if this.flaw.is_some() {
            return Poll::Ready(Err(broken()));
        }
        let wait = this.framing.is_between() && (this.unflushed || this.is_answering());
        if this.held.is_empty() {
            // Also while it waits: a client that has gone shows here.
            return this.poll_fresh(cx, buf, wait);
        }
        if wait { this.wait(cx) } else { this.poll_held(buf) }
    }
}

impl<IO: AsyncWrite + HangUp + Unpin> AsyncWrite for OneByOne<IO> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if this.is_own_refusal(buf) {
            return Poll::Ready(Ok(buf.len()));
        }
        this.unflushed = true;
        Pin::new(&mut this.io).poll_write(cx, buf)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        if bufs.first().is_some_and(|head| this.is_own_refusal(head)) {
            return Poll::Ready(Ok(bufs.iter().map(|buf| buf.len()).sum()));
        }
        this.unflushed = true;
        Pin::new(&mut this.io).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        // The library flushes whenever it is polled, whatever it waits for.
        this.check_client()?;
        ready!(Pin::new(&mut this.io).poll_flush(cx))?;
        this.unflushed = false;
        if this.waits_for_flush && !this.is_answering() {
            // The library does not ask again by itself, because it was told to wait.
            this.waits_for_flush = false;
            cx.waker().wake_by_ref();
        }
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().io).poll_shutdown(cx)
    }
}
