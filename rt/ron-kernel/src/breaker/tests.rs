//! The breaker at both sides of each threshold, and under many threads at once.

mod model;

use std::sync::atomic::AtomicUsize;

use super::*;

const POLICY: BreakerPolicy = BreakerPolicy {
    error_permille: 500,
    window: Duration::from_secs(10),
    min_samples: 4,
    consecutive: 3,
    open_for: Duration::from_secs(5),
    open_cap: Duration::from_secs(15),
};

/// Only the rule of the share.
const BY_SHARE: BreakerPolicy = BreakerPolicy { consecutive: 0, ..POLICY };
/// Only the rule of failures in a row.
const BY_ROW: BreakerPolicy = BreakerPolicy { error_permille: 0, ..POLICY };

fn at(millis: u64) -> Moment {
    Moment::ORIGIN.after(Duration::from_millis(millis))
}

fn pass(breaker: &Breaker, now: Moment) -> Ticket {
    match breaker.check(now) {
        Admit::Pass(ticket) => ticket,
        other => panic!("expected to pass at {now:?}, got {other:?}"),
    }
}

fn probe(breaker: &Breaker, now: Moment) -> Ticket {
    match breaker.check(now) {
        Admit::Probe(ticket) => ticket,
        other => panic!("expected to probe at {now:?}, got {other:?}"),
    }
}

fn report(breaker: &Breaker, outcome: Outcome, now: Moment) -> Option<State> {
    breaker.record(pass(breaker, now), outcome, now)
}

/// A breaker that opened at `now`.
fn opened(policy: BreakerPolicy, now: Moment) -> Breaker {
    let breaker = Breaker::new(policy);
    let tickets: Vec<_> = (0..policy.consecutive).map(|_| pass(&breaker, now)).collect();
    let last = tickets.into_iter().map(|ticket| breaker.record(ticket, Outcome::Failure, now)).last();
    assert_eq!(last, Some(Some(State::Open)));
    breaker
}

fn refused(millis: u64) -> Admit {
    Admit::Open { retry_after: Duration::from_millis(millis) }
}

#[test]
fn the_time_of_the_next_probe_is_told_without_taking_it() {
    let breaker = Breaker::new(BY_ROW);
    assert_eq!(breaker.next_probe(), None);
    for _ in 0..3 {
        let ticket = pass(&breaker, at(0));
        breaker.record(ticket, Outcome::Failure, at(0));
    }
    assert_eq!((breaker.next_probe(), breaker.next_probe()), (Some(at(5_000)), Some(at(5_000))));
    let ticket = probe(&breaker, at(5_000));
    assert_eq!(breaker.next_probe(), Some(at(10_000)), "in the place of one that does not come back");
    breaker.record(ticket, Outcome::Success, at(5_001));
    assert_eq!(breaker.next_probe(), None);
}

#[test]
fn the_last_failure_of_a_row_opens_it_and_the_one_before_does_not() {
    let breaker = Breaker::new(BY_ROW);
    for _ in 0..2 {
        assert_eq!(report(&breaker, Outcome::Failure, at(0)), None);
    }
    assert_eq!(report(&breaker, Outcome::Success, at(0)), None, "a success breaks the row");
    for _ in 0..2 {
        assert_eq!(report(&breaker, Outcome::Failure, at(0)), None);
    }
    assert_eq!(report(&breaker, Outcome::Failure, at(0)), Some(State::Open));
}

#[test]
fn the_share_counts_from_the_least_number_of_samples_on() {
    let breaker = Breaker::new(BY_SHARE);
    for _ in 0..3 {
        assert_eq!(report(&breaker, Outcome::Failure, at(0)), None, "too few to judge");
    }
    assert_eq!(report(&breaker, Outcome::Failure, at(0)), Some(State::Open));
}

#[test]
fn a_share_just_below_the_limit_keeps_it_closed() {
    let breaker = Breaker::new(BY_SHARE);
    for _ in 0..501 {
        report(&breaker, Outcome::Success, at(0));
    }
    for _ in 0..500 {
        assert_eq!(report(&breaker, Outcome::Failure, at(0)), None);
    }
    assert_eq!(report(&breaker, Outcome::Failure, at(0)), Some(State::Open), "501 of 1002 is half");
}

#[test]
fn old_failures_leave_the_window() {
    let breaker = Breaker::new(BY_SHARE);
    for _ in 0..3 {
        report(&breaker, Outcome::Failure, at(4_999));
    }
    assert_eq!(report(&breaker, Outcome::Failure, at(10_000)), None);
}

#[test]
fn an_open_breaker_refuses_until_its_time_and_then_lets_one_probe_pass() {
    let breaker = opened(POLICY, at(100));
    assert_eq!(breaker.check(at(100)), refused(5_000));
    assert_eq!(breaker.check(at(5_099)), refused(1));
    assert_eq!(breaker.state(), State::Open);
    let _probe = probe(&breaker, at(5_100));
    assert_eq!(breaker.state(), State::HalfOpen);
    assert_eq!(breaker.check(at(5_100)), refused(5_000));
}

#[test]
fn a_probe_that_succeeds_closes_it_and_nothing_is_held_against_it() {
    let breaker = opened(POLICY, at(0));
    let probe = probe(&breaker, at(5_000));
    assert_eq!(breaker.record(probe, Outcome::Success, at(5_010)), Some(State::Closed));
    for _ in 0..2 {
        assert_eq!(report(&breaker, Outcome::Failure, at(5_020)), None);
    }
    assert_eq!(report(&breaker, Outcome::Failure, at(5_020)), Some(State::Open));
}

#[test]
fn failed_probes_double_the_open_time_up_to_the_cap() {
    let breaker = opened(POLICY, at(0));
    let mut now = at(0);
    for open_secs in [5, 10, 15, 15] {
        assert_eq!(breaker.check(now), refused(open_secs * 1_000));
        now = now.after(Duration::from_secs(open_secs));
        assert_eq!(breaker.record(probe(&breaker, now), Outcome::Failure, now), Some(State::Open));
    }
    let probe = probe(&breaker, now.after(Duration::from_secs(15)));
    breaker.record(probe, Outcome::Success, now);
    for _ in 0..3 {
        report(&breaker, Outcome::Failure, now);
    }
    assert_eq!(breaker.check(now), refused(5_000), "closing forgets the failed probes");
}

#[test]
fn a_lost_probe_is_replaced_and_its_late_result_ignored() {
    let breaker = opened(POLICY, at(0));
    let lost = probe(&breaker, at(5_000));
    assert_eq!(breaker.check(at(9_999)), refused(1));
    let second = probe(&breaker, at(10_000));
    assert_eq!(breaker.record(lost, Outcome::Success, at(10_001)), None);
    assert_eq!(breaker.state(), State::HalfOpen);
    assert_eq!(breaker.record(second, Outcome::Success, at(10_002)), Some(State::Closed));
}

#[test]
fn results_of_requests_admitted_before_it_opened_change_nothing() {
    let breaker = Breaker::new(POLICY);
    let [early, earlier] = [pass(&breaker, at(0)), pass(&breaker, at(0))];
    for _ in 0..3 {
        report(&breaker, Outcome::Failure, at(0));
    }
    assert_eq!(breaker.record(early, Outcome::Success, at(10)), None);
    assert_eq!(breaker.state(), State::Open);
    let _probe = probe(&breaker, at(5_000));
    assert_eq!(breaker.record(earlier, Outcome::Success, at(5_001)), None);
    assert_eq!(breaker.state(), State::HalfOpen);
}

#[test]
fn a_new_policy_applies_to_a_running_breaker_and_keeps_its_state() {
    let breaker = opened(POLICY, at(0));
    breaker.set_policy(BreakerPolicy { open_for: Duration::from_secs(1), consecutive: 1, ..POLICY });
    assert_eq!(breaker.check(at(0)), refused(5_000), "the promise made when it opened stands");
    let probe = probe(&breaker, at(5_000));
    breaker.record(probe, Outcome::Success, at(5_000));
    assert_eq!(report(&breaker, Outcome::Failure, at(5_000)), Some(State::Open));
    assert_eq!(breaker.check(at(5_000)), refused(1_000));
}

#[test]
fn another_window_starts_counting_anew() {
    let breaker = Breaker::new(BY_SHARE);
    for _ in 0..3 {
        report(&breaker, Outcome::Failure, at(0));
    }
    breaker.set_policy(BreakerPolicy { window: Duration::from_secs(20), ..BY_SHARE });
    assert_eq!(report(&breaker, Outcome::Failure, at(0)), None);
}

#[test]
fn a_time_between_milliseconds_is_never_early() {
    let opened_at = Moment::from_nanos(1);
    let breaker = opened(POLICY, opened_at);
    let end = opened_at.after(POLICY.open_for);
    assert!(matches!(breaker.check(end), Admit::Open { retry_after } if !retry_after.is_zero()));
    let Admit::Open { retry_after } = breaker.check(end) else { panic!("still open") };
    let _probe = probe(&breaker, end.after(retry_after));
}

#[test]
fn exactly_one_of_many_racing_requests_becomes_the_probe() {
    for round in 0..200 {
        let breaker = opened(POLICY, at(0));
        let start = std::sync::Barrier::new(8);
        let probes = AtomicUsize::new(0);
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    start.wait();
                    match breaker.check(at(5_000)) {
                        Admit::Probe(_) => drop(probes.fetch_add(1, Ordering::Relaxed)),
                        refusal => assert_eq!(refusal, refused(5_000)),
                    }
                });
            }
        });
        assert_eq!(probes.into_inner(), 1, "round {round}");
    }
}

#[test]
fn racing_failures_open_it_once() {
    let breaker = Breaker::new(POLICY);
    let opened = AtomicUsize::new(0);
    let shares: Vec<Vec<_>> = (0..8).map(|_| (0..50).map(|_| pass(&breaker, at(0))).collect()).collect();
    std::thread::scope(|s| {
        for tickets in shares {
            let (breaker, opened) = (&breaker, &opened);
            s.spawn(move || {
                for ticket in tickets {
                    let changed = breaker.record(ticket, Outcome::Failure, at(0)).is_some();
                    opened.fetch_add(usize::from(changed), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!((opened.into_inner(), breaker.state()), (1, State::Open));
}

#[test]
fn a_probe_that_says_nothing_is_made_again_at_once_and_costs_no_strike() {
    let breaker = opened(BY_ROW, at(0));
    let now = Moment::from_nanos(5_000_000_001);
    breaker.retry_probe(probe(&breaker, now));
    assert_eq!(breaker.state(), State::Open);
    let again = probe(&breaker, now);
    assert_eq!(breaker.record(again, Outcome::Failure, at(5_001)), Some(State::Open));
    assert_eq!(breaker.check(at(5_001)), refused(10_000), "the first strike doubles the time");
    let late = probe(&breaker, at(15_001));
    assert_eq!(breaker.record(late, Outcome::Success, at(15_001)), Some(State::Closed));
    breaker.retry_probe(pass(&breaker, at(15_002)));
    assert_eq!(breaker.state(), State::Closed, "only a probe is made again");
}
