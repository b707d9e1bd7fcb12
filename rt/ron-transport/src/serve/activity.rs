//! What a connection is doing, written by its I/O and its requests, read by its one timer.
//!
//! The hot path only stores timestamps; whether something took too long is judged when the timer fires, and the
//! timer is then set for the next moment at which it could matter. So a healthy connection pays for no timer.

use std::{
    sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

use ron_kernel::Clock;
use types::Moment;

use super::HttpLimits;

/// A timestamp that may be unset; zero stands for that, because no connection exists at the clock's origin.
#[derive(Debug, Default)]
struct Since(AtomicU64);

impl Since {
    fn begin(&self, now: Moment) {
        let _ = self
            .0
            .compare_exchange(0, now.as_nanos().max(1), Ordering::Relaxed, Ordering::Relaxed);
    }

    fn end(&self) {
        // A load is cheaper than a store that takes the cache line away from nobody in particular.
        if self.0.load(Ordering::Relaxed) != 0 {
            self.0.store(0, Ordering::Relaxed);
        }
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
    last_io: AtomicU64,
    head: Since,
    body_wait: Since,
    write_stall: Since,
    requests: AtomicU32,
    unsent: AtomicU32,
    ended: AtomicBool,
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
    pub(super) fn new(clock: Clock) -> Self {
        let last_io = AtomicU64::new(clock.now().as_nanos());
        Self {
            clock,
            last_io,
            head: Since::default(),
            body_wait: Since::default(),
            write_stall: Since::default(),
            requests: AtomicU32::new(0),
            unsent: AtomicU32::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// Bytes arrived; without a request in flight they begin a head.
    pub(super) fn read(&self) {
        let now = self.clock.now();
        self.last_io.store(now.as_nanos(), Ordering::Relaxed);
        if self.requests.load(Ordering::Relaxed) == 0 {
            self.head.begin(now);
        }
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
        let now = self.clock.now();
        if stalled {
            self.write_stall.begin(now);
        } else {
            self.last_io.store(now.as_nanos(), Ordering::Relaxed);
            self.write_stall.end();
        }
    }

    /// A request's head is complete.
    pub(super) fn request_began(&self) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.head.end();
    }

    /// A request's response is complete, or given up.
    pub(super) fn request_ended(&self) {
        self.requests.fetch_sub(1, Ordering::Relaxed);
        self.body_wait.end();
    }

    /// A request's body was asked for more.
    pub(crate) fn body_polled(&self, pending: bool) {
        if pending {
            self.body_wait.begin(self.clock.now());
        } else {
            self.body_wait.end();
        }
    }

    /// A response has handed a frame over, which the connection has not come back for yet.
    pub(super) fn frame_handed_over(&self) {
        self.unsent.fetch_add(1, Ordering::Relaxed);
    }

    /// The connection came back for more after a frame, or gave the response up.
    pub(super) fn frame_taken(&self) {
        self.unsent.fetch_sub(1, Ordering::Relaxed);
    }

    /// Judges the connection at `now`.
    pub(super) fn judge(&self, now: Moment, limits: &HttpLimits) -> Verdict {
        let last_io = Moment::from_nanos(self.last_io.load(Ordering::Relaxed));
        let busy = self.requests.load(Ordering::Relaxed) > 0;
        let unsent = self.unsent.load(Ordering::Relaxed) > 0;
        // On HTTP/2 a client can stop us by flow control alone: the socket is writable, but no frame is taken.
        let stall = self.write_stall.get().or_else(|| unsent.then_some(last_io));
        let mut next = now.after(
            limits
                .read_timeout
                .min(limits.write_timeout)
                .min(limits.park_after),
        );
        let mut over = |since: Option<Moment>, allowed: Duration| {
            let until = since?.after(allowed);
            next = next.min(until);
            (now >= until).then_some(())
        };
        if over(stall, limits.write_timeout).is_some() {
            return Verdict::WriteTooSlow;
        }
        if busy {
            return over(self.body_wait.get(), limits.read_timeout)
                .map_or(Verdict::Wait(next), |()| Verdict::BodyTooSlow);
        }
        if let Some(began) = self.head.get() {
            return over(Some(began), limits.read_timeout)
                .map_or(Verdict::Wait(next), |()| Verdict::HeadTooSlow);
        }
        if over(Some(last_io), limits.idle_timeout).is_some() {
            return Verdict::IdleTooLong;
        }
        over(Some(last_io), limits.park_after).map_or(Verdict::Wait(next), |()| Verdict::Park)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn after(activity: &Activity, secs: f64) -> Verdict {
        tokio::time::advance(Duration::from_secs_f64(secs)).await;
        activity.judge(activity.clock.now(), &HttpLimits::default())
    }

    /// A connection on a clock that has been running for a while.
    async fn activity() -> Activity {
        let clock = Clock::start();
        tokio::time::advance(Duration::from_secs(1)).await;
        Activity::new(clock)
    }

    #[tokio::test(start_paused = true)]
    async fn a_connection_parks_after_two_idle_seconds_and_closes_after_sixty() {
        let a = activity().await;
        assert!(matches!(after(&a, 1.999).await, Verdict::Wait(_)));
        assert_eq!(after(&a, 0.001).await, Verdict::Park);
        assert_eq!(after(&a, 57.999).await, Verdict::Park);
        assert_eq!(after(&a, 0.001).await, Verdict::IdleTooLong);
    }

    #[tokio::test(start_paused = true)]
    async fn a_trickled_head_does_not_gain_time_by_trickling() {
        let a = activity().await;
        for _ in 0..4 {
            a.read();
            assert!(matches!(after(&a, 1.2).await, Verdict::Wait(_)));
        }
        a.read();
        assert_eq!(after(&a, 0.2).await, Verdict::HeadTooSlow);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_long_as_long_as_it_moves() {
        let a = activity().await;
        a.request_began();
        for _ in 0..10 {
            a.body_polled(true);
            assert!(matches!(after(&a, 4.9).await, Verdict::Wait(_)));
            a.body_polled(false);
        }
        a.body_polled(true);
        assert_eq!(after(&a, 5.0).await, Verdict::BodyTooSlow);
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_takes_nothing_is_found_by_socket_or_by_frame() {
        let a = activity().await;
        a.request_began();
        a.wrote(true);
        assert!(matches!(after(&a, 4.9).await, Verdict::Wait(_)));
        assert_eq!(after(&a, 0.1).await, Verdict::WriteTooSlow);
        a.wrote(false);
        assert!(matches!(after(&a, 0.0).await, Verdict::Wait(_)));
        a.frame_handed_over();
        assert_eq!(after(&a, 5.0).await, Verdict::WriteTooSlow);
        a.frame_taken();
        assert!(matches!(after(&a, 0.0).await, Verdict::Wait(_)));
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_upstream_is_not_the_clients_fault() {
        let a = activity().await;
        a.request_began();
        assert!(matches!(after(&a, 3600.0).await, Verdict::Wait(_)));
        a.request_ended();
    }

    #[tokio::test(start_paused = true)]
    async fn the_timer_is_set_for_the_exact_moment_that_matters() {
        let a = activity().await;
        a.read();
        let began = a.clock.now();
        let Verdict::Wait(_) = after(&a, 4.0).await else {
            panic!("too early")
        };
        let Verdict::Wait(next) = after(&a, 0.0).await else {
            panic!("too early")
        };
        assert_eq!(next, began.after(Duration::from_secs(5)));
    }
}
