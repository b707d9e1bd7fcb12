//! What a connection is doing, written by its I/O and its requests, read by its one timer.
//!
//! The hot path only stores timestamps; whether something took too long is judged when the timer fires, and the
//! timer is then set for the next moment at which it could matter. So a healthy connection pays for no timer.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    task::Waker,
    time::Duration,
};

use ron_kernel::{Clock, InFlight, InFlightShard};
use types::Moment;

use super::{HttpLimits, h1::BUFFER, waits::Waits};

/// A timestamp that may be unset; zero stands for that, because no connection exists at the clock's origin.
#[derive(Debug, Default)]
struct Since(AtomicU64);

impl Since {
    fn begin(&self, now: Moment) {
        let _ = self.0.compare_exchange(0, now.as_nanos().max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Whether it was set.
    fn end(&self) -> bool {
        // A load is cheaper than a store that takes the cache line away from nobody in particular.
        let was_set = self.0.load(Ordering::Relaxed) != 0;
        if was_set {
            self.0.store(0, Ordering::Relaxed);
        }
        was_set
    }

    fn get(&self) -> Option<Moment> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos != 0).then(|| Moment::from_nanos(nanos))
    }
}

/// What a connection is doing.
#[derive(Debug)]
pub struct Activity {
    clock: Clock,
    protocol: Protocol,
    /// The requests of all connections, which a drain waits for.
    work: InFlight,
    /// The last sign that the connection is in use.
    last_use: AtomicU64,
    head: Since,
    write_stall: Since,
    bodies: Waits,
    frames: Waits,
    /// Requests in flight and request bodies still held.
    requests: AtomicU32,
    /// Requests that have begun so far, and those that were answered; they wrap around.
    begun: AtomicU32,
    answered: AtomicU32,
    /// Whom to wake at the end of a request, and whether there is anybody.
    reader: Mutex<Option<Waker>>,
    reader_waits: AtomicBool,
    writes: AtomicU32,
    /// Bytes read since the client last got on with a request.
    idle_bytes: AtomicU64,
    flooded: AtomicBool,
    ended: AtomicBool,
    left_unread: AtomicBool,
}

/// What the bytes on a connection mean.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// Bytes without a request in flight begin one.
    Http1,
    /// Bytes may be anything: pings and window updates are no sign of use, and only so many are borne between two
    /// steps of any request.
    Http2 { max_idle_bytes: u64 },
}

/// What the timer finds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    /// Nothing before this moment.
    Wait(Moment),
    /// Idle for long enough to give its buffers back.
    Park,
    /// Idle for too long.
    IdleTooLong,
    /// A head that does not arrive.
    HeadTooSlow,
    /// A body that does not arrive.
    BodyTooSlow,
    /// A client that does not take its response.
    WriteTooSlow,
}

impl Activity {
    pub(super) fn new(clock: Clock, protocol: Protocol, work: InFlight) -> Self {
        Self {
            clock,
            protocol,
            work,
            last_use: AtomicU64::new(clock.now().as_nanos()),
            head: Since::default(),
            write_stall: Since::default(),
            bodies: Waits::default(),
            frames: Waits::default(),
            requests: AtomicU32::new(0),
            begun: AtomicU32::new(0),
            answered: AtomicU32::new(0),
            reader: Mutex::default(),
            reader_waits: AtomicBool::new(false),
            writes: AtomicU32::new(0),
            idle_bytes: AtomicU64::new(0),
            flooded: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            left_unread: AtomicBool::new(false),
        }
    }

    /// Bytes arrived. Returns whether the client may go on sending.
    pub(super) fn read(&self, bytes: usize) -> bool {
        match self.protocol {
            Protocol::Http1 => {
                let now = self.clock.now();
                self.used(now);
                if !self.is_busy() {
                    self.head.begin(now);
                }
                true
            }
            Protocol::Http2 { max_idle_bytes } => {
                let before = self.idle_bytes.fetch_add(bytes as u64, Ordering::Relaxed);
                let within = before.saturating_add(bytes as u64) <= max_idle_bytes;
                if !within {
                    self.flooded.store(true, Ordering::Relaxed);
                }
                within
            }
        }
    }

    /// Whether the client sent too much that belongs to no request.
    pub(super) fn was_flooded(&self) -> bool {
        self.flooded.load(Ordering::Relaxed)
    }

    /// The client has sent its last byte.
    pub(super) fn read_ended(&self) {
        self.ended.store(true, Ordering::Relaxed);
    }

    /// Whether the client has sent its last byte.
    pub(super) fn has_ended(&self) -> bool {
        self.ended.load(Ordering::Relaxed)
    }

    /// Bytes went out, or the socket takes none.
    pub(super) fn wrote(&self, stalled: bool) {
        if !stalled && self.protocol != Protocol::Http1 {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        if stalled {
            self.write_stall.begin(self.clock.now());
        } else if self.write_stall.end() && self.protocol == Protocol::Http1 {
            // Without a stall the request's end, a moment ago, is use enough.
            self.used(self.clock.now());
        }
    }

    /// How often bytes went out on HTTP/2, which keeps the last of a response to itself.
    pub(super) fn writes(&self) -> u32 {
        self.writes.load(Ordering::Relaxed)
    }

    /// Whether the socket takes no more.
    pub(super) fn is_stalled(&self) -> bool {
        self.write_stall.get().is_some()
    }

    /// Everything is out, or the socket takes no more of what the layer above has let go of.
    pub(super) fn flushed(&self, stalled: bool) {
        if stalled {
            self.write_stall.begin(self.clock.now());
        } else {
            self.write_stall.end();
        }
    }

    /// A request's head is complete. What it returns is to be told at the request's end.
    pub(super) fn request_began(&self) -> InFlightShard {
        self.hold();
        self.head.end();
        self.got_on();
        count(&self.begun);
        self.work.begin()
    }

    /// A request's response is complete, or given up.
    pub(super) fn request_ended(&self, work: InFlightShard) {
        count(&self.answered);
        // Only a reader in the same task sets it, so a load and a store do.
        if self.reader_waits.load(Ordering::Relaxed) {
            self.reader_waits.store(false, Ordering::Relaxed);
            let reader = self.reader.lock().unwrap_or_else(PoisonError::into_inner).take();
            reader.iter().for_each(Waker::wake_by_ref);
        }
        self.work.end(work);
        self.release();
    }

    /// Has the reader woken at the end of the request in flight.
    pub(super) fn reader_waits(&self, reader: &Waker) {
        *self.reader.lock().unwrap_or_else(PoisonError::into_inner) = Some(reader.clone());
        self.reader_waits.store(true, Ordering::Relaxed);
    }

    /// How many requests have begun on an HTTP/1 connection; wraps around.
    pub(super) fn begun(&self) -> u32 {
        self.begun.load(Ordering::Relaxed)
    }

    /// How many of them were answered or given up; wraps around.
    pub(super) fn answered(&self) -> u32 {
        self.answered.load(Ordering::Relaxed)
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// A request's body is held, so the connection cannot be idle.
    pub(crate) fn body_began(&self) {
        self.hold();
    }

    /// A request's body is waited for; returns since when, to be told at the wait's end.
    pub(crate) fn body_waits(&self) -> Moment {
        let now = self.clock.now();
        self.bodies.begin(now);
        now
    }

    /// A request's body has come further.
    pub(crate) fn body_arrived(&self, waited_since: Option<Moment>) {
        self.got_on();
        // On HTTP/1 the next wait begins anew; only streams that share a connection need to know of each other.
        if waited_since.is_some() || self.protocol != Protocol::Http1 {
            self.bodies.progress(waited_since, self.clock.now());
        }
    }

    /// A request's body is no longer wanted, or has ended, with so much of it unread.
    pub(crate) fn body_ended(&self, waited_since: Option<Moment>, unread: u64) {
        if let Some(since) = waited_since {
            self.bodies.give_up(since);
        }
        if unread > BUFFER as u64 {
            self.left_unread.store(true, Ordering::Relaxed);
        }
        self.release();
    }

    /// Whether more of a body was left unread than can have arrived already, so that the next request is out of reach.
    pub(super) fn has_left_unread(&self) -> bool {
        self.left_unread.load(Ordering::Relaxed)
    }

    /// A response has handed a frame over, which waits for room; returns since when, to be told at the wait's end.
    pub(super) fn frame_handed_over(&self) -> Moment {
        let now = self.clock.now();
        self.frames.begin(now);
        now
    }

    /// The connection came back for more after a frame: the client takes what it is sent.
    pub(super) fn frame_taken(&self, since: Moment) {
        self.got_on();
        self.frames.progress(Some(since), self.clock.now());
    }

    /// The response was given up before its frame was taken.
    pub(super) fn frame_dropped(&self, since: Moment) {
        self.frames.give_up(since);
    }

    /// Whether a request is in flight or its body still held.
    pub(super) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// Whether part of a head has arrived.
    pub(super) fn awaits_head(&self) -> bool {
        self.head.get().is_some()
    }

    /// Judges the connection at `now`.
    pub(super) fn judge(&self, now: Moment, limits: &HttpLimits) -> Verdict {
        let mut next = now.after(limits.first_look());
        let mut over = |until: Option<Moment>| {
            next = next.min(until.unwrap_or(Moment::END));
            until.is_some_and(|until| now >= until)
        };
        let stall = self.write_stall.get();
        let frames = self.frames.until(limits.write_timeout, limits.idle_timeout);
        if over(stall.map(|since| since.after(limits.write_timeout))) || over(frames) {
            return Verdict::WriteTooSlow;
        }
        if self.is_busy() {
            let late = over(self.bodies.until(limits.read_timeout, limits.idle_timeout));
            return if late { Verdict::BodyTooSlow } else { Verdict::Wait(next) };
        }
        if stall.is_some() {
            // The last of a response is still here, though the response itself counts as sent.
            return Verdict::Wait(next);
        }
        if let Some(began) = self.head.get() {
            let late = over(Some(began.after(limits.read_timeout)));
            return if late { Verdict::HeadTooSlow } else { Verdict::Wait(next) };
        }
        let last_use = Moment::from_nanos(self.last_use.load(Ordering::Relaxed));
        let idle_for = |allowed: Duration| Some(last_use.after(allowed));
        if over(idle_for(limits.idle_timeout)) {
            Verdict::IdleTooLong
        } else if self.protocol == Protocol::Http1 && over(idle_for(limits.park_after)) {
            Verdict::Park
        } else {
            Verdict::Wait(next)
        }
    }

    fn hold(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
    }

    fn release(&self) {
        if self.requests.fetch_sub(1, Ordering::Relaxed) == 1 {
            self.used(self.clock.now());
        }
    }

    fn used(&self, now: Moment) {
        self.last_use.store(now.as_nanos(), Ordering::Relaxed);
    }

    fn got_on(&self) {
        if self.protocol != Protocol::Http1 {
            self.idle_bytes.store(0, Ordering::Relaxed);
        }
    }
}

/// One more. A load and a store, because only HTTP/1 reads it, where the connection's task is the only writer.
fn count(counter: &AtomicU32) {
    counter.store(counter.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
}

#[cfg(test)]
mod tests;
