//! Bodies read from a disk in verified pieces: the next one is read while the last one is sent, never more.
//!
//! The first piece is read before the response's head goes out, so that most damage is an honest refusal. Damage that is
//! found later breaks the connection: the client sees that bytes are missing, and none is wrong.

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
use crate::{
    fill::{BrokenOff, StreamingFill},
    ingress::{Place, Transfer},
};

/// What is read at once. A response holds at most two pieces.
const PIECE: u64 = 256 * 1024;
/// What is read at once for a client that gets much at once, while much is being sent. Such a response holds one piece.
const SMALL_PIECE: u64 = 32 * 1024;

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
    #[error(transparent)]
    Fill(#[from] BrokenOff),
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

    /// A body of these bytes, which are not none. The place is given back once the first piece is here: who does not read
    /// keeps nobody from a disk. Each wait for the disk has `patience`.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The first piece cannot be had; if it is damaged, its owner knows. Or too much is being sent.
    pub(crate) async fn body(
        &self,
        verified: &Arc<Verified>,
        owner: &Arc<dyn Owner>,
        range: Range<u64>,
        patience: Duration,
        place: Place,
    ) -> Result<Body, Refusal> {
        let first = piece_at(&range, place.is_crowded());
        let rest = first.end..range.end;
        let read = self.clone().read(Arc::clone(verified), Arc::clone(owner), first, patience).await;
        let first = read.map_err(|broken| refusal(&broken, &**owner))?;
        let transfer = place.into_transfer()?;
        if rest.is_empty() {
            self.sent.add(first.len() as u64);
            return Ok(Body::from(first).bytes_holding(transfer));
        }
        let (reader, verified, owner) = (self.clone(), Arc::clone(verified), Arc::clone(owner));
        let next = Next::Here(Ok(first));
        let left = range.end - range.start;
        Ok(Body::streaming(VerifiedBody { reader, verified, owner, patience, rest, left, next, transfer }))
    }

    /// A body of an object that is being fetched, from an offset to its end, or to `end` if that is known. The place is given
    /// back at once.
    ///
    /// # Errors
    /// Too much is being sent.
    pub(crate) fn growing(
        &self,
        fill: &Arc<StreamingFill>,
        start: u64,
        end: Option<u64>,
        place: Place,
    ) -> Result<Body, Refusal> {
        let (reader, fill, transfer) = (self.clone(), Arc::clone(fill), place.into_transfer()?);
        Ok(Body::streaming(GrowingBody { reader, fill, at: start, end, next: None, ended: false, transfer }))
    }

    /// The next piece of an object that is being fetched, once it is there; `None` at its end.
    async fn read_growing(
        self,
        fill: Arc<StreamingFill>,
        at: u64,
        end: Option<u64>,
        is_crowded: bool,
    ) -> Result<Option<Bytes>, Broken> {
        let sendable = fill.sendable(at, end).await?;
        if sendable <= at {
            return Ok(None);
        }
        let piece = piece_at(&(at..sendable), is_crowded);
        let read = self.blocking().run("read a piece", move || fill.read(piece)).await;
        Ok(Some(read.map_err(Fault::from)??))
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
fn piece_at(range: &Range<u64>, is_crowded: bool) -> Range<u64> {
    let len = if is_crowded { SMALL_PIECE } else { PIECE };
    let end = (range.start / len + 1) * len;
    range.start..range.end.min(end)
}

/// What the client hears, and the owner, if what was read is not what was stored.
fn refusal(broken: &Broken, owner: &dyn Owner) -> Refusal {
    match broken {
        Broken::Fault(fault) => fault.clone().into(),
        Broken::Fill(broken) => Refusal::new(Reason::BadGateway, broken.to_string()),
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
    /// To be read when it is asked for.
    Unread,
    Nothing,
}

struct VerifiedBody {
    reader: Reader,
    verified: Arc<Verified>,
    owner: Arc<dyn Owner>,
    patience: Duration,
    /// What is not yet being read.
    rest: Range<u64>,
    /// Number of bytes that are not sent yet.
    left: u64,
    next: Next,
    transfer: Transfer,
}

impl VerifiedBody {
    /// Begins with the next piece, if there is one and it is not left until it is asked for.
    fn read_ahead(&mut self, cx: &mut Context<'_>) {
        if self.rest.is_empty() {
            self.next = Next::Nothing;
        } else if self.transfer.is_crowded() {
            self.next = Next::Unread;
        } else {
            self.read_on(cx);
        }
    }

    /// Begins with the next piece.
    fn read_on(&mut self, cx: &mut Context<'_>) {
        let piece = piece_at(&self.rest, self.transfer.is_crowded());
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

impl HttpBody for VerifiedBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if matches!(this.next, Next::Unread) {
            this.read_on(cx);
        }
        let read = match &mut this.next {
            Next::Reading(reading) => ready!(reading.as_mut().poll(cx)),
            Next::Here(_) => match std::mem::replace(&mut this.next, Next::Nothing) {
                Next::Here(read) => read,
                _ => return Poll::Ready(None),
            },
            Next::Unread | Next::Nothing => return Poll::Ready(None),
        };
        Poll::Ready(Some(match read {
            Ok(bytes) => {
                this.left = this.left.saturating_sub(bytes.len() as u64);
                this.reader.sent.add(bytes.len() as u64);
                this.read_ahead(cx);
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

type ReadingMore = Pin<Box<dyn Future<Output = Result<Option<Bytes>, Broken>> + Send>>;

/// A body that is sent while it is fetched. It reads what was spooled of it, and nothing ahead: that was just written.
struct GrowingBody {
    reader: Reader,
    fill: Arc<StreamingFill>,
    /// What is not yet read begins here.
    at: u64,
    /// Where it ends, if that is known.
    end: Option<u64>,
    next: Option<ReadingMore>,
    ended: bool,
    transfer: Transfer,
}

impl HttpBody for GrowingBody {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if this.ended {
            return Poll::Ready(None);
        }
        let next = this.next.get_or_insert_with(|| {
            let (reader, fill) = (this.reader.clone(), Arc::clone(&this.fill));
            Box::pin(reader.read_growing(fill, this.at, this.end, this.transfer.is_crowded()))
        });
        let read = ready!(next.as_mut().poll(cx));
        this.next = None;
        Poll::Ready(match read {
            Ok(Some(bytes)) => {
                this.at += bytes.len() as u64;
                this.ended = this.end == Some(this.at);
                this.reader.sent.add(bytes.len() as u64);
                Some(Ok(Frame::data(bytes)))
            }
            Ok(None) => {
                this.ended = true;
                None
            }
            Err(broken) => {
                this.ended = true;
                tracing::warn!(error = %broken, "a response that was sent while it was fetched broke off");
                Some(Err(BodyError::new(broken)))
            }
        })
    }

    fn is_end_stream(&self) -> bool {
        self.ended
    }

    fn size_hint(&self) -> SizeHint {
        self.end.map_or_else(SizeHint::new, |end| SizeHint::with_exact(end.saturating_sub(self.at)))
    }
}
