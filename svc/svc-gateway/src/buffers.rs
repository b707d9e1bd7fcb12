//! Bytes that the gateway buffers so that a slow client holds no slot, and the memory for them.
//!
//! A small request body is read before the request is admitted: see [`read_ahead`]. The rest of an answer that its client
//! does not read is read from the server: see [`crate::transfer`].

mod frames;

use std::{
    future::poll_fn,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use ron_kernel::Clock;
use ron_transport::{Body, BodyError, Request};
use types::{Deadline, Reason, Refusal};

use crate::tenant::Tenant;

pub(crate) use frames::Frames;

/// A tenant's part of the memory is one of so many at most: one tenant must not keep the others from being buffered. See
/// [`share`].
const PARTS: u64 = 4;
/// How long a body of unknown length is read ahead. Its client may wait for the answer before it sends the rest.
const UNDECLARED: Duration = Duration::from_secs(1);

/// The memory for buffered bytes, of all tenants together and of each.
#[derive(Debug)]
pub(crate) struct BufferMemory {
    limit: AtomicU64,
    held: AtomicU64,
}

/// A part of the memory, given back when dropped.
#[derive(Debug)]
pub(crate) struct Reserved {
    memory: Arc<BufferMemory>,
    tenant: Arc<Tenant>,
    bytes: u64,
}

impl BufferMemory {
    pub(crate) fn new(limit: u64) -> Arc<Self> {
        Arc::new(Self { limit: AtomicU64::new(limit), held: AtomicU64::new(0) })
    }

    /// Changes the limit; what is held beyond a lower one is given back as transfers end.
    pub(crate) fn set_limit(&self, limit: u64) {
        self.limit.store(limit, Ordering::Relaxed);
    }

    /// Bytes that are reserved now.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Relaxed)
    }

    /// Reserves memory for a tenant; `None` if it has its part already, or there is no more.
    pub(crate) fn reserve(self: &Arc<Self>, tenant: &Arc<Tenant>, bytes: u64) -> Option<Reserved> {
        let limit = self.limit.load(Ordering::Relaxed);
        let part = share(limit, self.held(), tenant.buffered.load(Ordering::Relaxed)).min(limit / PARTS);
        if !take(&tenant.buffered, bytes, part) {
            return None;
        }
        if !take(&self.held, bytes, limit) {
            tenant.buffered.fetch_sub(bytes, Ordering::Relaxed);
            return None;
        }
        Some(Reserved { memory: Arc::clone(self), tenant: Arc::clone(tenant), bytes })
    }

    /// Nothing yet, which [grows](Reserved::grow) with what arrives.
    pub(crate) fn reserve_nothing(self: &Arc<Self>, tenant: &Arc<Tenant>) -> Reserved {
        Reserved { memory: Arc::clone(self), tenant: Arc::clone(tenant), bytes: 0 }
    }
}

impl Reserved {
    /// Reserves so many bytes in all; false if there are not as many. A tenant is always granted one reservation, however little
    /// memory there is, if it has nothing else. All of these together take as much again as the limit allows.
    pub(crate) fn grow(&mut self, bytes: u64) -> bool {
        let Some(more) = bytes.checked_sub(self.bytes).filter(|more| *more > 0) else { return true };
        if let Some(mut reserved) = self.memory.reserve(&self.tenant, more) {
            reserved.bytes = 0;
            self.bytes = bytes;
            return true;
        }
        let (tenant, memory) = (&self.tenant.buffered, &self.memory);
        if tenant.compare_exchange(self.bytes, bytes, Ordering::Relaxed, Ordering::Relaxed).is_err() {
            return false;
        }
        if !take(&memory.held, more, memory.limit.load(Ordering::Relaxed).saturating_mul(2)) {
            tenant.fetch_sub(more, Ordering::Relaxed);
            return false;
        }
        self.bytes = bytes;
        true
    }

    /// Gives back what is beyond so many bytes.
    pub(crate) fn shrink(&mut self, bytes: u64) {
        let less = self.bytes.saturating_sub(bytes);
        self.memory.held.fetch_sub(less, Ordering::Relaxed);
        self.tenant.buffered.fetch_sub(less, Ordering::Relaxed);
        self.bytes -= less;
    }

    /// Returns the number of reserved bytes.
    pub(crate) const fn bytes(&self) -> u64 {
        self.bytes
    }
}

/// How much of a limited memory one may have that has `own` of what is `held` in all: half of what the others leave, so that
/// whoever comes next finds some.
pub(crate) const fn share(limit: u64, held: u64, own: u64) -> u64 {
    limit.saturating_sub(held.saturating_sub(own)) / 2
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.memory.held.fetch_sub(self.bytes, Ordering::Relaxed);
        self.tenant.buffered.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Takes `more`, unless that is beyond the limit.
pub(crate) fn take(held: &AtomicU64, more: u64, limit: u64) -> bool {
    let fits = |held: u64| held.checked_add(more).filter(|held| *held <= limit);
    held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
}

/// Reads a request's body into memory if it is small: up to `most` bytes of it. A body that is declared longer is left alone;
/// one of unknown length is read for a second at most. What is not read then, follows what is.
///
/// Cancel safe: the request is of no use afterwards.
///
/// # Errors
/// `request_timeout` if the body does not arrive before `deadline`, `malformed` if it breaks off.
pub(crate) async fn read_ahead(
    request: &mut Request,
    most: u64,
    reserved: Reserved,
    clock: Clock,
    deadline: Deadline,
) -> Result<(), Refusal> {
    let declared = request.body().size_hint().exact().is_some();
    let until = if declared { deadline } else { deadline.tightened(clock.within(UNDECLARED)) };
    let mut ahead = Ahead::new(std::mem::take(request.body_mut()), reserved);
    match clock.by(until, ahead.fill(most)).await {
        Some(Ok(())) => {}
        Some(Err(error)) => return Err(error.refusal()),
        None if declared || deadline.has_passed(clock.now()) => {
            return Err(Refusal::new(
                Reason::RequestTimeout,
                "the body of the request did not arrive in time",
            ));
        }
        None => {}
    }
    *request.body_mut() = ahead.into_body();
    Ok(())
}

/// Whether a body of this length is read ahead with `most` bytes of memory.
pub(crate) fn is_small(body: &Body, most: u64) -> bool {
    !body.is_whole() && most > 0 && body.size_hint().exact().is_none_or(|length| length <= most)
}

/// A body of which the beginning is here.
struct Ahead {
    frames: Frames,
    /// `None` once all of it is here.
    rest: Option<Body>,
    reserved: Reserved,
}

impl Ahead {
    fn new(body: Body, reserved: Reserved) -> Self {
        Self { frames: Frames::default(), rest: Some(body), reserved }
    }

    /// Reads until the body has ended or `most` bytes are here.
    ///
    /// Cancel safe: what was read is kept.
    async fn fill(&mut self, most: u64) -> Result<(), BodyError> {
        while let Some(rest) = self.rest.as_mut().filter(|_| self.frames.bytes() < most) {
            match poll_fn(|cx| Pin::new(&mut *rest).poll_frame(cx)).await.transpose()? {
                Some(frame) => {
                    self.frames.push(Ok(frame));
                    if rest.is_end_stream() {
                        self.rest = None;
                    }
                }
                None => self.rest = None,
            }
        }
        Ok(())
    }

    fn into_body(self) -> Body {
        if self.rest.is_some() {
            return Body::streaming(self);
        }
        let Self { frames, rest, reserved } = self;
        match frames.into_data() {
            Ok(bytes) => Body::from(bytes).holding(reserved),
            Err(frames) => Body::streaming(Self { frames, rest, reserved }),
        }
    }
}

impl HttpBody for Ahead {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(frame) = this.frames.pop() {
            return Poll::Ready(Some(frame));
        }
        match &mut this.rest {
            Some(rest) => Pin::new(rest).poll_frame(cx),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.frames.is_empty() && self.rest.as_ref().is_none_or(HttpBody::is_end_stream)
    }

    fn size_hint(&self) -> SizeHint {
        match self.rest.as_ref().map(HttpBody::size_hint) {
            None => SizeHint::with_exact(self.frames.bytes()),
            Some(rest) => rest
                .exact()
                .map_or_else(SizeHint::new, |rest| SizeHint::with_exact(rest + self.frames.bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whoever_comes_next_finds_some_memory() {
        let (mut held, mut parts) = (0, Vec::new());
        for _ in 0..5 {
            let part = share(1024, held, 0);
            parts.push(part);
            held += part;
        }
        assert_eq!(parts, [512, 256, 128, 64, 32]);
        assert_eq!(share(1024, 768, 512), 384, "what others have counts, and its own does not");
        assert_eq!(share(1024, 4096, 0), 0, "a limit that was lowered");
    }
}
