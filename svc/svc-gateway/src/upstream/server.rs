//! What all cores know of one server: its load, its failures, its health. Atomics alone, read at every choice.

use std::{
    sync::{
        Arc, OnceLock, Weak,
        atomic::{AtomicU8, AtomicU32, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ron_kernel::{
    blame::{Blame, ClientId, Failure},
    breaker::{Admit, Breaker, Outcome, State, Ticket},
    failures::{FailureLog, LastFailure},
    metrics::QueueMetrics,
};
use ron_transport::addr::{Endpoint, Host, Target};
use types::Moment;

use super::{
    seats::Seats,
    streams::{ServerStreams, StreamRefusals},
};
use crate::{
    config::{EjectConfig, EndpointConfig, HealthConfig, UpstreamConfig},
    pool::{Idle, Lent, Pool},
};

const UNKNOWN: u8 = 0;
const HEALTHY: u8 = 1;
const UNHEALTHY: u8 = 2;

/// One server, as all cores see it.
#[derive(Debug)]
pub(crate) struct Server {
    /// The upstream that it belongs to.
    upstream: Box<str>,
    /// The address that is dialled.
    pub(crate) endpoint: Endpoint,
    /// What its certificate has to be for.
    pub(crate) name: String,
    pub(crate) breaker: Breaker,
    blame: Blame,
    failures: FailureLog,
    pub(crate) seats: Seats,
    pub(crate) streams: ServerStreams,
    weight: AtomicU32,
    /// Number of connections in use.
    busy: AtomicUsize,
    health: AtomicU8,
    /// When its next health check is due, in nanoseconds of the clock; in the past while one is in progress.
    next_check: AtomicU64,
    /// Health checks in a row that speak against `health`.
    contradictions: AtomicU32,
    /// Failures and bad answers in a row.
    bad_in_a_row: AtomicU32,
    /// Left out until then, in nanoseconds of the clock.
    ejected_until: AtomicU64,
    /// How often it was left out since it last did well for as long as it had been left out.
    ejections: AtomicU32,
    /// By core. Set once, right after the server was made.
    pools: OnceLock<Box<[Weak<Pool>]>>,
}

/// Why a server is not used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Standing {
    /// The server is in use.
    Usable,
    /// The circuit breaker is not closed.
    Open,
    /// It does not pass its health checks.
    Unhealthy,
    /// It answered worse than the others.
    Ejected,
}

impl Server {
    /// A server of an upstream at `endpoint`, configured as `origin`, which may have a name where the other has an address.
    pub(super) fn new(
        upstream: &str,
        endpoint: Endpoint,
        origin: &EndpointConfig,
        config: &UpstreamConfig,
        queue: QueueMetrics,
        stream_refusals: StreamRefusals,
    ) -> Self {
        Self {
            upstream: upstream.into(),
            endpoint,
            name: match origin.url.target() {
                Target::Tcp { host: Host::Ip(ip), .. } => ip.to_string(),
                Target::Tcp { host: Host::Name(name), .. } => name.trim_end_matches('.').to_owned(),
                Target::Unix(_) => "localhost".to_owned(),
            },
            breaker: Breaker::new(config.breaker.policy()),
            blame: Blame::default(),
            failures: FailureLog::default(),
            seats: Seats::new(config.max_conns, config.max_waiting, queue),
            streams: ServerStreams::new(config.protocol, stream_refusals),
            weight: AtomicU32::new(origin.weight),
            busy: AtomicUsize::new(0),
            health: AtomicU8::new(UNKNOWN),
            next_check: AtomicU64::new(0),
            contradictions: AtomicU32::new(0),
            bad_in_a_row: AtomicU32::new(0),
            ejected_until: AtomicU64::new(0),
            ejections: AtomicU32::new(0),
            pools: OnceLock::new(),
        }
    }

    /// Where idle connections are, by core.
    pub(super) fn set_pools(&self, pools: &[Arc<Pool>]) {
        let set = self.pools.set(pools.iter().map(Arc::downgrade).collect());
        debug_assert!(set.is_ok(), "a server gets its pools once");
    }

    /// Other settings from now on; what is known of the server stays.
    pub(super) fn set_config(&self, weight: u32, config: &UpstreamConfig) {
        self.weight.store(weight, Ordering::Relaxed);
        self.breaker.set_policy(config.breaker.policy());
        self.seats.set_limits(config.max_conns, config.max_waiting);
        if !config.health.is_on() {
            self.health.store(UNKNOWN, Ordering::Relaxed);
        }
    }

    pub(crate) fn weight(&self) -> u32 {
        self.weight.load(Ordering::Relaxed)
    }

    /// Returns the number of connections in use.
    pub(crate) fn busy(&self) -> usize {
        self.busy.load(Ordering::Relaxed)
    }

    /// A connection is in use from now on.
    pub(crate) fn began(&self) {
        self.busy.fetch_add(1, Ordering::Relaxed);
    }

    /// A connection is not in use any more.
    pub(crate) fn ended(&self) {
        self.busy.fetch_sub(1, Ordering::Relaxed);
    }

    /// An idle connection of any core.
    pub(super) fn idle_anywhere(&self) -> Option<Idle> {
        let pools = self.pools.get()?.iter();
        pools.filter_map(Weak::upgrade).find_map(|pool| pool.take_unchecked())
    }

    /// A connection of any core that others use too.
    pub(super) fn shared_anywhere(&self, now: Moment) -> Option<Lent> {
        let pools = self.pools.get()?.iter();
        pools.filter_map(Weak::upgrade).find_map(|pool| pool.shared.any(now))
    }

    /// Whether, and why not, it is used at `now`.
    pub(crate) fn standing(&self, now: Moment) -> Standing {
        if self.breaker.state() != State::Closed {
            Standing::Open
        } else if self.health.load(Ordering::Relaxed) == UNHEALTHY {
            Standing::Unhealthy
        } else if self.ejected_until.load(Ordering::Relaxed) > now.as_nanos() {
            Standing::Ejected
        } else {
            Standing::Usable
        }
    }

    /// Whether a request of this client may be what the open breaker is tested with.
    pub(crate) fn may_test(&self, client: ClientId, now: Moment) -> bool {
        self.blame.may_test(client, now)
    }

    /// Whether the failures of the server say something to this client; see [`Blame::concerns`].
    pub(crate) fn concerns(&self, client: ClientId) -> bool {
        self.blame.concerns(client)
    }

    /// Whether it is known to be healthy and has passed its last health check.
    pub(super) fn passes_checks(&self) -> bool {
        self.health.load(Ordering::Relaxed) == HEALTHY && self.contradictions.load(Ordering::Relaxed) == 0
    }

    /// What a client's request that went well says of the server.
    pub(super) fn answered(&self, client: ClientId, now: Moment) {
        self.blame.answered(client, now);
    }

    /// What a client's request that did not go well says of the server; see [`Blame`].
    pub(super) fn judge(&self, verdict: Verdict, failure: Failure, client: ClientId, now: Moment) -> Judged {
        let counts = self.blame.counts(failure, client, now);
        let is_test = self.breaker.state() != State::Closed;
        match (is_test, verdict, failure) {
            (false, ..) => {
                if counts {
                    Judged::Counts
                } else {
                    Judged::SaysNothing
                }
            }
            (true, Verdict::Failed, Failure::Answer) if !self.blame.test_decides(client, now) => {
                Judged::TestAgain
            }
            (true, ..) => Judged::Counts,
        }
    }

    /// Has the next request test the open breaker in the place of one whose end says nothing.
    pub(super) fn test_again(&self, ticket: Ticket) {
        self.breaker.retry_probe(ticket);
    }

    /// Books how a request to it went.
    pub(crate) fn record(&self, ticket: Ticket, verdict: Verdict, now: Moment) -> Option<State> {
        let outcome = match verdict {
            Verdict::Good | Verdict::Bad => Outcome::Success,
            Verdict::Failed => Outcome::Failure,
        };
        if verdict != Verdict::Good {
            self.bad_in_a_row.fetch_add(1, Ordering::Relaxed);
        } else if self.bad_in_a_row.load(Ordering::Relaxed) != 0 {
            self.bad_in_a_row.store(0, Ordering::Relaxed);
        }
        self.breaker.record(ticket, outcome, now)
    }

    /// Books a response to a client that began well and was broken off.
    pub(crate) fn broke_off(&self, client: ClientId, why: &str, now: Moment) {
        self.failed(why, now);
        self.blame.take_back(client);
        if self.breaker.state() == State::Closed
            && self.judge(Verdict::Failed, Failure::Answer, client, now) == Judged::Counts
            && let Admit::Pass(ticket) = self.breaker.check(now)
            && let Some(state) = self.record(ticket, Verdict::Failed, now)
        {
            self.tell_breaker(state);
        }
    }

    /// Keeps why a request to it failed, and writes it to the log unless it was written a moment ago.
    pub(crate) fn failed(&self, cause: &str, now: Moment) {
        if let Some(unwritten) = self.failures.note(cause, now) {
            let (upstream, server) = (&*self.upstream, &self.endpoint);
            tracing::warn!(upstream, %server, cause, unwritten, "a request to a server failed");
        }
    }

    /// Keeps what speaks against it without a line in the log: an answer that is passed on, or a health check, which is
    /// written when it changes the server's health.
    pub(super) fn did_badly(&self, why: &str, now: Moment) {
        self.failures.keep(why, now);
    }

    /// Why a request to it failed last; `None` if none has.
    pub(crate) fn last_failure(&self) -> Option<LastFailure> {
        self.failures.last()
    }

    /// Writes that its breaker has opened or closed, and why.
    pub(super) fn tell_breaker(&self, state: State) {
        let (upstream, server) = (&*self.upstream, &self.endpoint);
        if state == State::Open {
            let cause = &*self.cause();
            tracing::warn!(upstream, %server, cause, "its breaker opened");
        } else {
            tracing::warn!(upstream, %server, "its breaker closed");
        }
    }

    /// Writes that the server is ejected for a while, and why.
    pub(super) fn tell_ejected(&self) {
        let (upstream, server, cause) = (&*self.upstream, &self.endpoint, &*self.cause());
        tracing::warn!(upstream, %server, cause, "the server is ejected for a while");
    }

    fn cause(&self) -> Arc<str> {
        self.last_failure().map_or_else(|| "unknown".into(), |last| last.cause)
    }

    /// Leaves it out for a while, if it has done badly often enough and `others` says that it may.
    pub(crate) fn eject_if_bad(
        &self,
        config: &EjectConfig,
        now: Moment,
        allowed: impl FnOnce() -> bool,
    ) -> bool {
        let bad = self.bad_in_a_row.load(Ordering::Relaxed);
        if config.consecutive == 0 || bad < config.consecutive || !allowed() {
            return false;
        }
        let (before, base) = (self.ejected_until.load(Ordering::Relaxed), config.base.as_duration());
        let behaved_for = now.since(Moment::from_nanos(before));
        let times = match self.ejections.load(Ordering::Relaxed) {
            times if behaved_for < base.saturating_mul(times) => times.saturating_add(1),
            _ => 1,
        };
        let until = now.after(base.saturating_mul(times)).as_nanos();
        // Of two cores that see the same bad answer, one books it.
        let swap = self.ejected_until.compare_exchange(before, until, Ordering::Relaxed, Ordering::Relaxed);
        if swap.is_ok() {
            self.ejections.store(times, Ordering::Relaxed);
            self.bad_in_a_row.store(0, Ordering::Relaxed);
        }
        swap.is_ok()
    }

    /// Notes when its next health check is due.
    pub(super) fn set_next_check(&self, at: Moment) {
        self.next_check.store(at.as_nanos(), Ordering::Relaxed);
    }

    /// How long until a health check can test its open breaker; `None` if one is about to, or does.
    pub(super) fn next_test_by_check(&self, now: Moment) -> Option<Duration> {
        let check = Moment::from_nanos(self.next_check.load(Ordering::Relaxed));
        let is_half_open = self.breaker.state() == State::HalfOpen;
        let probe = self.breaker.next_probe().filter(|_| check > now || !is_half_open);
        let wait = probe.map_or(check, |probe| probe.max(check)).since(now);
        (wait > Duration::ZERO).then_some(wait)
    }

    /// Learns from a health check. Returns whether it is healthy now, if that changed. Called by one task alone.
    pub(crate) fn checked(&self, well: bool, config: &HealthConfig) -> Option<bool> {
        let (health, wanted) = (self.health.load(Ordering::Relaxed), if well { HEALTHY } else { UNHEALTHY });
        let needed = match health {
            UNKNOWN => 1,
            _ if well => config.healthy_after,
            _ => config.unhealthy_after,
        };
        if health == wanted {
            self.contradictions.store(0, Ordering::Relaxed);
            return None;
        }
        if self.contradictions.fetch_add(1, Ordering::Relaxed) + 1 < needed {
            return None;
        }
        self.contradictions.store(0, Ordering::Relaxed);
        self.health.store(wanted, Ordering::Relaxed);
        Some(well)
    }
}

/// What a failed request says of its server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// The failure counts against the server.
    Counts,
    /// It may be the client's doing.
    SaysNothing,
    /// The same of the test of an open breaker: another client has to test it.
    TestAgain,
}

/// How a request to a server went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It answered, with less than 500.
    Good,
    /// It did its work, but what it answered is a fault of its own.
    Bad,
    /// It could not be reached, broke off, was late, or says that it cannot answer.
    Failed,
}

impl Verdict {
    /// What an answer's status says of the server.
    pub(crate) fn of_status(status: http::StatusCode) -> Self {
        match status.as_u16() {
            502..=504 => Self::Failed,
            500.. => Self::Bad,
            _ => Self::Good,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_kernel::metrics::{Counter, Gauge};
    use std::time::Duration;

    impl Server {
        /// A server nobody listens at.
        pub(crate) fn example(weight: u32, config: &UpstreamConfig) -> Self {
            let (depth, dropped, busy) = (Gauge::default(), Counter::default(), Counter::default());
            let queue = QueueMetrics { depth, dropped, busy };
            let origin = EndpointConfig { weight, .."http://127.0.0.1:9".parse().unwrap() };
            Self::new("example", origin.url.clone(), &origin, config, queue, StreamRefusals::default())
        }

        /// Books a request that went so.
        pub(crate) fn went(&self, verdict: Verdict, now: Moment) {
            if let Admit::Pass(ticket) | Admit::Probe(ticket) = self.breaker.check(now) {
                self.record(ticket, verdict, now);
            }
        }
    }

    fn at(seconds: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_secs(seconds))
    }

    #[test]
    fn the_first_health_check_decides_alone_and_later_ones_only_in_a_row() {
        let config = UpstreamConfig::default();
        let (server, health) = (Server::example(1, &config), &config.health);
        assert_eq!(server.standing(at(0)), Standing::Usable, "unknown is usable");
        assert_eq!(server.checked(false, health), Some(false));
        assert_eq!(server.standing(at(0)), Standing::Unhealthy);
        let checks = [true, false, true, true].map(|well| server.checked(well, health));
        assert_eq!(checks, [None, None, None, Some(true)]);
        let checks = [false, false, true, false, false, false].map(|well| server.checked(well, health));
        assert_eq!(checks, [None, None, None, None, None, Some(false)]);
    }

    #[test]
    fn a_server_is_left_out_longer_each_time_until_it_behaves() {
        let config = UpstreamConfig::default();
        let server = Server::example(1, &config);
        let eject = |now| {
            (0..5).for_each(|_| server.went(Verdict::Bad, now));
            assert!(server.eject_if_bad(&config.eject, now, || true));
            Moment::from_nanos(server.ejected_until.load(Ordering::Relaxed)).since(now)
        };
        assert_eq!(eject(at(0)), Duration::from_secs(10));
        assert_eq!(server.standing(at(9)), Standing::Ejected);
        assert_eq!(server.standing(at(10)), Standing::Usable);
        assert_eq!(eject(at(12)), Duration::from_secs(20));
        assert_eq!(eject(at(40)), Duration::from_secs(30));
        assert_eq!(eject(at(70 + 30)), Duration::from_secs(10), "it behaved for as long as it was left out");
    }

    #[test]
    fn a_good_answer_ends_a_row_of_bad_ones_and_others_may_forbid_it() {
        let config = UpstreamConfig::default();
        let server = Server::example(1, &config);
        for verdict in [Verdict::Bad, Verdict::Bad, Verdict::Bad, Verdict::Bad, Verdict::Good, Verdict::Bad] {
            server.went(verdict, at(0));
        }
        assert!(!server.eject_if_bad(&config.eject, at(0), || true));
        (0..4).for_each(|_| server.went(Verdict::Bad, at(0)));
        assert!(!server.eject_if_bad(&config.eject, at(0), || false));
        assert_eq!(server.standing(at(0)), Standing::Usable);
    }

    #[test]
    fn only_what_says_that_the_server_cannot_answer_counts_for_the_breaker() {
        let verdict = |status: u16| Verdict::of_status(http::StatusCode::from_u16(status).unwrap());
        for (status, expected) in [
            (200, Verdict::Good),
            (499, Verdict::Good),
            (500, Verdict::Bad),
            (501, Verdict::Bad),
            (502, Verdict::Failed),
            (504, Verdict::Failed),
            (505, Verdict::Bad),
        ] {
            assert_eq!(verdict(status), expected, "{status}");
        }
    }
}
