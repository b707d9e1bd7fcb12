//! Bodies read from a disk in verified pieces: the next one is read while the last one is sent, never more.
//!
//! The first piece is read before the response's head goes out, so that most damage is an honest refusal. Damage that is
//! found later breaks the connection: whoever counts the bytes sees that some are missing, and none is wrong.

use std::{
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use cas::{ReadError, Verified};
use http_body::{Body as HttpBody, Frame, SizeHint};
use ron_kernel::{Clock, Fault, Scope, blocking::Blocking, meter::Meter};
use ron_transport::{Body, BodyError};
use types::{Reason, Refusal};

use super::Owner;

/// What is read at once. A request holds at most two pieces.
const PIECE: u64 = 256 * 1024;

/// When to come back for a file that is being changed.
const WHEN_CHANGED: Duration = Duration::from_secs(1);

/// Reads from disks, through the blocking pool.
#[derive(Clone, Debug)]
pub(crate) struct Reader {
    scope: Scope,
    /// Where bytes are booked as they are sent.
    sent: Meter,
}

/// Why a piece could not be read.
#[derive(Debug, thiserror::Error)]
enum Broken {
    #[error(transparent)]
    Read(#[from] ReadError),
    #[error(transparent)]
    Fault(#[from] Fault),
    #[error("it was changed while it was served")]
    Changed,
}

impl Reader {
    pub(crate) fn new(scope: &Scope, sent: Meter) -> Self {
        Self { scope: scope.clone(), sent }
    }

    fn blocking(&self) -> &Blocking {
        self.scope.blocking()
    }

    fn clock(&self) -> Clock {
        self.scope.clock()
    }

    /// A body of these bytes, which are not none. It holds `held` until its end; each wait for the disk has `patience`.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The first piece cannot be had; if it is damaged, its owner knows.
    pub(crate) async fn body(
        &self,
        verified: &Arc<Verified>,
        owner: &Arc<dyn Owner>,
        range: Range<u64>,
        patience: Duration,
        held: impl Send + Unpin + 'static,
    ) -> Result<Body, Refusal> {
        let first = piece_at(&range);
        let rest = first.end..range.end;
        let read = self.clone().read(Arc::clone(verified), Arc::clone(owner), first, patience).await;
        let first = read.map_err(|broken| refusal(&broken, &**owner))?;
        if rest.is_empty() {
            self.sent.add(first.len() as u64);
            return Ok(first.into());
        }
        let (reader, verified, owner) = (self.clone(), Arc::clone(verified), Arc::clone(owner));
        let next = Next::Here(Ok(first));
        let left = range.end - range.start;
        Ok(Body::streaming(VerifiedBody { reader, verified, owner, patience, rest, left, next, _held: held }))
    }

    async fn read(
        self,
        verified: Arc<Verified>,
        owner: Arc<dyn Owner>,
        range: Range<u64>,
        patience: Duration,
    ) -> Result<Bytes, Broken> {
        let read = self.blocking().run("read a piece", move || {
            verified.read(range).map_err(|error| match error {
                ReadError::Corrupt { .. } if owner.has_changed(&verified) => Broken::Changed,
                error => error.into(),
            })
        });
        let read = self.scope.by("read", self.clock().within(patience), read).await?;
        read.map_err(Fault::from)?
    }
}

/// The first piece of a range. Pieces end where groups do, so that none is read twice.
fn piece_at(range: &Range<u64>) -> Range<u64> {
    let end = (range.start / PIECE + 1) * PIECE;
    range.start..range.end.min(end)
}

/// What the client hears, and the owner, if what was read is not what was stored.
fn refusal(broken: &Broken, owner: &dyn Owner) -> Refusal {
    match broken {
        Broken::Fault(fault) => fault.clone().into(),
        Broken::Changed => {
            owner.changed();
            Refusal::new(Reason::NotReady, "the file is being changed").retry_after(WHEN_CHANGED)
        }
        Broken::Read(error @ ReadError::Corrupt { .. }) => {
            owner.damaged(&error.to_string());
            Reason::Quarantined.into()
        }
        Broken::Read(error) => {
            tracing::warn!(%error, "a piece could not be read");
            Refusal::new(Reason::Internal, "it cannot be read from the disk")
        }
    }
}

type Reading = Pin<Box<dyn Future<Output = Result<Bytes, Broken>> + Send>>;

enum Next {
    Here(Result<Bytes, Broken>),
    Reading(Reading),
    Nothing,
}

struct VerifiedBody<H> {
    reader: Reader,
    verified: Arc<Verified>,
    owner: Arc<dyn Owner>,
    patience: Duration,
    /// What is not yet being read.
    rest: Range<u64>,
    /// What is not yet sent.
    left: u64,
    next: Next,
    _held: H,
}

impl<H> VerifiedBody<H> {
    /// Begins with the next piece, if there is one.
    fn read_on(&mut self, cx: &mut Context<'_>) {
        if self.rest.is_empty() {
            self.next = Next::Nothing;
            return;
        }
        let piece = piece_at(&self.rest);
        self.rest.start = piece.end;
        let reader = self.reader.clone();
        let mut reading: Reading =
            Box::pin(reader.read(Arc::clone(&self.verified), Arc::clone(&self.owner), piece, self.patience));
        // Nothing is read before it is first asked for.
        self.next = match reading.as_mut().poll(cx) {
            Poll::Ready(read) => Next::Here(read),
            Poll::Pending => Next::Reading(reading),
        };
    }
}

impl<H: Send + Unpin> HttpBody for VerifiedBody<H> {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        let read = match &mut this.next {
            Next::Reading(reading) => ready!(reading.as_mut().poll(cx)),
            Next::Here(_) => match std::mem::replace(&mut this.next, Next::Nothing) {
                Next::Here(read) => read,
                _ => return Poll::Ready(None),
            },
            Next::Nothing => return Poll::Ready(None),
        };
        Poll::Ready(Some(match read {
            Ok(bytes) => {
                this.left = this.left.saturating_sub(bytes.len() as u64);
                this.reader.sent.add(bytes.len() as u64);
                this.read_on(cx);
                Ok(Frame::data(bytes))
            }
            Err(broken) => {
                this.next = Next::Nothing;
                let refusal = refusal(&broken, &*this.owner);
                tracing::warn!(%refusal, "a response broke off");
                Err(BodyError::new(broken))
            }
        }))
    }

    fn is_end_stream(&self) -> bool {
        matches!(self.next, Next::Nothing)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
