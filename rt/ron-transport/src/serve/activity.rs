//! What a connection is doing, written by its I/O and its requests, read by its one timer.
//!
//! The hot path only stores timestamps; whether something took too long is judged when the timer fires, and the
//! timer is then set for the next moment at which it could matter. So a healthy connection pays for no timer.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use ron_kernel::{Clock, InFlight, InFlightShard, metrics::ServiceMetrics};
use types::Moment;

use super::{HttpLimits, Pace, Slowness, h1::BUFFER, pace::time_for, waits::Waits};

/// How long a service has to answer a request whose body is too slow, before the connection is cut.
const REACTION: Duration = Duration::from_secs(1);

/// A timestamp that may be unset; zero stands for that, because no connection exists at the clock's origin.
#[derive(Debug, Default)]
struct Since(AtomicU64);

impl Since {
    fn begin(&self, now: Moment) {
        let _ = self.0.compare_exchange(0, now.as_nanos().max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    /// Returns the time that the timer was set to.
    fn end(&self) -> Option<Moment> {
        // A load is cheaper than a store that takes the cache line away from nobody in particular.
        let was_set = self.get();
        if was_set.is_some() {
            self.0.store(0, Ordering::Relaxed);
        }
        was_set
    }

    fn get(&self) -> Option<Moment> {
        let nanos = self.0.load(Ordering::Relaxed);
        (nanos != 0).then(|| Moment::from_nanos(nanos))
    }
}

/// The current activity of a connection.
#[derive(Debug)]
pub struct Activity {
    clock: Clock,
    /// How much longer a slow client may take than the limits say, in 2560th parts; see [`Self::spread`].
    patience: u8,
    protocol: Protocol,
    /// The requests of all connections, which a drain waits for.
    work: InFlight,
    limits: Arc<HttpLimits>,
    metrics: ServiceMetrics,
    /// The last sign that the connection is in use.
    last_use: AtomicU64,
    head: Since,
    write_stall: Since,
    /// Nanoseconds of write stalls that the bytes written have not paid for; see [`Pace`].
    write_debt: AtomicU64,
    /// When the request that began last had its first byte.
    first_byte: AtomicU64,
    bodies: Waits,
    frames: Waits,
    /// Requests in flight and request bodies still held.
    requests: AtomicU32,
    writes: AtomicU32,
    /// Bytes read since the client last got on with a request.
    idle_bytes: AtomicU64,
    flooded: AtomicBool,
    ended: AtomicBool,
    left_unread: AtomicBool,
    /// Whether the connection's timer has fired since [`takes_look`](Self::takes_look) was asked.
    look: AtomicBool,
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

/// The result of a check by the timer.
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
    /// A client that takes its response at less than the minimum rate.
    WriteBelowMinRate,
}

impl Activity {
    pub(super) fn new(
        clock: Clock,
        protocol: Protocol,
        work: InFlight,
        limits: Arc<HttpLimits>,
        metrics: ServiceMetrics,
        patience: u8,
    ) -> Self {
        Self {
            clock,
            patience,
            protocol,
            work,
            limits,
            metrics,
            last_use: AtomicU64::new(clock.now().as_nanos()),
            head: Since::default(),
            write_stall: Since::default(),
            write_debt: AtomicU64::new(0),
            first_byte: AtomicU64::new(0),
            bodies: Waits::default(),
            frames: Waits::default(),
            requests: AtomicU32::new(0),
            writes: AtomicU32::new(0),
            idle_bytes: AtomicU64::new(0),
            flooded: AtomicBool::new(false),
            ended: AtomicBool::new(false),
            left_unread: AtomicBool::new(false),
            look: AtomicBool::new(false),
        }
    }

    /// The time that a slow client has on this connection: a limit and up to a tenth of it. So hundreds that came together
    /// are not all cut off, and do not all come back, at the same moment.
    fn spread(&self, limit: Duration) -> Duration {
        limit.saturating_add(limit / 2560 * u32::from(self.patience))
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

    /// Part of a head is here, and the rest is waited for.
    pub(super) fn head_waits(&self) {
        if self.head.get().is_none() {
            self.head.begin(self.clock.now());
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

    /// So many bytes went out; `None` if the socket takes none.
    pub(super) fn wrote(&self, bytes: Option<usize>) {
        let Some(bytes) = bytes else {
            self.write_stall.begin(self.clock.now());
            return;
        };
        if self.protocol != Protocol::Http1 {
            self.writes.fetch_add(1, Ordering::Relaxed);
        }
        if self.stall_ended() && self.protocol == Protocol::Http1 {
            // Without a stall the request's end, a moment ago, is use enough.
            self.used(self.clock.now());
        }
        let debt = self.write_debt.load(Ordering::Relaxed);
        if debt > 0 {
            let paid = nanos(time_for(bytes as u64, self.limits.min_rate));
            self.write_debt.store(debt.saturating_sub(paid), Ordering::Relaxed);
        }
    }

    /// The socket takes bytes again. Returns whether it had stalled.
    fn stall_ended(&self) -> bool {
        let Some(since) = self.write_stall.end() else { return false };
        let waited = nanos(self.clock.now().since(since));
        self.write_debt.fetch_add(waited, Ordering::Relaxed);
        true
    }

    /// When the present write stall has lasted too long for the minimum rate.
    fn rate_until(&self, stall: Moment) -> Moment {
        if self.limits.min_rate == 0 {
            return Moment::END;
        }
        let debt = Duration::from_nanos(self.write_debt.load(Ordering::Relaxed));
        stall.after(self.spread(self.limits.min_rate_grace).saturating_sub(debt))
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
            self.stall_ended();
        }
    }

    /// A request's head is complete. What it returns is to be told at the request's end.
    pub(super) fn request_began(&self) -> InFlightShard {
        self.hold();
        let first_byte = self.head.end().unwrap_or_else(|| self.clock.now());
        self.first_byte.store(first_byte.as_nanos(), Ordering::Relaxed);
        self.got_on();
        self.work.begin()
    }

    /// A request's response is complete, or given up.
    pub(super) fn request_ended(&self, work: InFlightShard) {
        self.work.end(work);
        self.release();
    }

    pub(crate) fn now(&self) -> Moment {
        self.clock.now()
    }

    /// The body of the request that began last is held, so the connection cannot be idle. Returns by when all of it has to
    /// be here.
    pub(crate) fn body_began(&self) -> Moment {
        self.hold();
        self.limits.request_until(Moment::from_nanos(self.first_byte.load(Ordering::Relaxed)))
    }

    /// A request's body is waited for; returns since when, to be told at the wait's end.
    pub(crate) fn body_waits(&self, pace: &Pace) -> Moment {
        let now = self.clock.now();
        self.bodies.begin(now, self.own_until(now, pace));
        now
    }

    /// When the wait of one transfer that began at `since` has lasted too long by itself.
    fn own_until(&self, since: Moment, pace: &Pace) -> Moment {
        let limits = &self.limits;
        let (grace, longest) = match self.protocol {
            Protocol::Http1 => (self.spread(limits.min_rate_grace), Duration::MAX),
            Protocol::Http2 { .. } => (limits.longest_wait(), limits.longest_wait()),
        };
        since.after(pace.left(grace, limits).min(longest))
    }

    /// When the wait for a client that sends a body has lasted too long, and why.
    pub(crate) fn body_until(&self) -> Option<(Moment, Slowness)> {
        self.bodies.until(self.spread(self.limits.read_timeout), self.shared_grace(), &self.limits)
    }

    /// The grace period of all streams together; `None` where there is only one.
    fn shared_grace(&self) -> Option<Duration> {
        (self.protocol != Protocol::Http1).then(|| self.spread(self.limits.min_rate_grace))
    }

    /// How long a client may be silent inside a body that may take any time.
    pub(crate) fn longest_silence(&self) -> Duration {
        self.limits.idle_timeout.max(self.limits.read_timeout)
    }

    /// So many bytes of a request's body have come.
    pub(crate) fn body_arrived(&self, waited_since: Option<Moment>, bytes: usize, pace: &mut Pace) {
        self.got_on();
        // On HTTP/1 the next wait starts again; only streams that share a connection need to know of each other.
        if waited_since.is_some() || self.protocol != Protocol::Http1 {
            let now = self.clock.now();
            if let Some(since) = waited_since {
                pace.waited(now.since(since));
            }
            self.bodies.progress(waited_since, bytes as u64, now, &self.limits);
        }
        pace.moved(bytes as u64, &self.limits);
    }

    /// A request's body was given up, because its client is too slow. The rest of it may be on its way.
    pub(crate) fn body_too_slow(&self, why: Slowness) {
        self.left_unread.store(true, Ordering::Relaxed);
        let op = match why {
            Slowness::Stalled => "read",
            Slowness::BelowMinRate => "read_rate",
            Slowness::Overtime => "request",
        };
        self.metrics.io_timeouts(op).inc();
    }

    /// A request's body that was waited for since `since` no longer is.
    pub(crate) fn body_given_up(&self, since: Moment) {
        self.bodies.give_up(since, self.clock.now());
    }

    /// A request's body is no longer wanted, or has ended, with so much of it unread.
    pub(crate) fn body_ended(&self, unread: u64) {
        if self.protocol != Protocol::Http1 {
            self.bodies.completed();
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
    pub(super) fn frame_handed_over(&self, pace: &Pace) -> Moment {
        let now = self.clock.now();
        self.frames.begin(now, self.own_until(now, pace));
        now
    }

    /// The connection came back for more after a frame of so many bytes: the client takes what it is sent.
    pub(super) fn frame_taken(&self, since: Moment, bytes: usize, pace: &mut Pace) {
        self.got_on();
        let now = self.clock.now();
        pace.waited(now.since(since));
        pace.moved(bytes as u64, &self.limits);
        self.frames.progress(Some(since), bytes as u64, now, &self.limits);
    }

    /// The response was given up before its frame was taken.
    pub(super) fn frame_dropped(&self, since: Moment) {
        self.frames.give_up(since, self.clock.now());
    }

    /// A response has ended.
    pub(super) fn frames_ended(&self) {
        self.frames.completed();
    }

    /// Whether a request is in flight or its body still held.
    pub(super) fn is_busy(&self) -> bool {
        self.requests.load(Ordering::Relaxed) > 0
    }

    /// When the first byte of a head arrived whose rest has not; `None` if there is no such head.
    pub(super) fn head_began(&self) -> Option<Moment> {
        self.head.get()
    }

    /// When the connection last had a request.
    pub(super) fn last_use(&self) -> Moment {
        Moment::from_nanos(self.last_use.load(Ordering::Relaxed))
    }

    /// Whether the connection was judged since this was asked last: then it is time to look whether the client is there.
    pub(super) fn takes_look(&self) -> bool {
        let takes_look = self.look.load(Ordering::Relaxed);
        if takes_look {
            self.look.store(false, Ordering::Relaxed);
        }
        takes_look
    }

    /// Judges the connection at `now`.
    pub(super) fn judge(&self, now: Moment) -> Verdict {
        self.look.store(true, Ordering::Relaxed);
        let limits = &*self.limits;
        let mut next = now.after(limits.first_look());
        let mut over = |until: Option<Moment>| {
            next = next.min(until.unwrap_or(Moment::END));
            until.is_some_and(|until| now >= until)
        };
        let stall = self.write_stall.get();
        let write_timeout = self.spread(limits.write_timeout);
        let frames = self.frames.until(write_timeout, self.shared_grace(), limits);
        let of = |slowness| frames.filter(|(_, why)| *why == slowness).map(|(until, _)| until);
        if over(stall.map(|since| since.after(write_timeout))) || over(of(Slowness::Stalled)) {
            return Verdict::WriteTooSlow;
        }
        if over(stall.map(|since| self.rate_until(since))) || over(of(Slowness::BelowMinRate)) {
            return Verdict::WriteBelowMinRate;
        }
        if self.is_busy() {
            // Whoever reads the body hears first that it is too slow, and can still answer.
            let late = over(self.body_until().map(|(until, _)| until.after(REACTION)));
            return if late { Verdict::BodyTooSlow } else { Verdict::Wait(next) };
        }
        if stall.is_some() {
            // The last of a response is still here, though the response itself counts as sent.
            return Verdict::Wait(next);
        }
        if let Some(began) = self.head.get() {
            let late = over(Some(began.after(self.spread(limits.read_timeout))));
            return if late { Verdict::HeadTooSlow } else { Verdict::Wait(next) };
        }
        let last_use = self.last_use();
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

/// Whole nanoseconds of a duration, saturating.
fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests;
