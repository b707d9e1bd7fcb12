//! The rate limiter against its definition, against another implementation, and under several threads.

use std::{
    num::NonZeroU32,
    sync::atomic::{AtomicU32, Ordering},
    time::Duration,
};

use governor::{
    Quota, RateLimiter,
    clock::{Clock, FakeRelativeClock},
};
use proptest::prelude::*;
use quota::{Bucket, Exhausted, InvalidRate, Rate};
use types::{Moment, Reason, Refusal};

const SECOND: u64 = 1_000_000_000;

fn at(nanos: u64) -> Moment {
    Moment::from_nanos(nanos)
}

/// Rates from one a day to a million a second.
fn rates() -> impl Strategy<Value = Rate> {
    let per = prop::sample::select(vec![1, 7, 60, 86_400]);
    (1..1_000_000_u32, per, 1..200_u32).prop_map(|(count, per, burst)| {
        Rate::new(count, Duration::from_secs(per), burst).expect("it comes back within a century")
    })
}

/// Moments that grow by steps around the rate's interval, and now and then by a lot or not at all.
fn arrivals(rate: Rate) -> impl Strategy<Value = Vec<u64>> {
    let interval = interval(&rate);
    let step = prop_oneof![4 => 0..=interval * 2, 2 => Just(0), 1 => Just(interval), 1 => 0..interval * 300];
    prop::collection::vec(step, 1..400).prop_map(|steps| {
        let sum = |now: &mut u64, step| {
            *now += step;
            Some(*now)
        };
        steps.into_iter().scan(5 * SECOND, sum).collect()
    })
}

fn interval(rate: &Rate) -> u64 {
    let nanos = rate.window().as_nanos() / u128::from(rate.burst());
    u64::try_from(nanos).expect("below a century")
}

proptest! {
    #[test]
    fn it_decides_as_another_implementation_does(
        (rate, arrivals) in rates().prop_flat_map(|rate| (Just(rate), arrivals(rate))),
    ) {
        let clock = FakeRelativeClock::default();
        let burst = NonZeroU32::new(rate.burst()).expect("a burst");
        let quota = Quota::with_period(Duration::from_nanos(interval(&rate))).expect("a period").allow_burst(burst);
        let oracle = RateLimiter::direct_with_clock(quota, clock.clone());
        let bucket = Bucket::default();
        let mut last = 0;
        for now in arrivals {
            clock.advance(Duration::from_nanos(now - last));
            last = now;
            let theirs = oracle.check().map_err(|until| until.wait_time_from(clock.now()));
            let ours = bucket.check(&rate, at(now)).map(|_| ()).map_err(|exhausted| exhausted.wait);
            prop_assert_eq!(ours, theirs, "at {}", now);
        }
    }

    #[test]
    fn no_window_has_more_than_the_burst_and_the_rate_allow(
        (rate, arrivals) in rates().prop_flat_map(|rate| (Just(rate), arrivals(rate))),
    ) {
        let bucket = Bucket::default();
        let passed: Vec<u64> =
            arrivals.into_iter().filter(|now| bucket.check(&rate, at(*now)).is_ok()).collect();
        for (first, from) in passed.iter().enumerate() {
            for (last, until) in passed.iter().enumerate().skip(first) {
                let allowed = u64::from(rate.burst()) + (until - from) / interval(&rate);
                prop_assert!((last - first + 1) as u64 <= allowed, "from {} until {}", from, until);
            }
        }
    }

    #[test]
    fn who_waits_as_told_gets_through_and_not_a_nanosecond_earlier(
        rate in rates(),
        requests in 1..500_u32,
        start in 0..u64::MAX / 4,
    ) {
        let (mut tat, mut now) = (Moment::ORIGIN, at(start));
        for _ in 0..requests {
            match rate.check(tat, now) {
                Ok(passed) => tat = passed.tat,
                Err(Exhausted { wait }) => {
                    let early = at(now.after(wait).as_nanos() - 1);
                    prop_assert!(rate.check(tat, early).is_err());
                    now = now.after(wait);
                    tat = rate.check(tat, now).expect("it waited as it was told").tat;
                }
            }
        }
    }

    #[test]
    fn what_remains_is_what_gets_through(rate in rates(), used in 0..50_u64, later in 0..SECOND) {
        let mut tat = Moment::ORIGIN;
        let start = at(9 * SECOND);
        for _ in 0..used {
            tat = rate.check(tat, start).map_or(tat, |passed| passed.tat);
        }
        let now = at(start.as_nanos() + later);
        if let Ok(first) = rate.check(tat, now) {
            let (mut tat, mut more) = (first.tat, 0);
            while let Ok(passed) = rate.check(tat, now) {
                tat = passed.tat;
                more += 1;
                prop_assert_eq!(passed.remaining, first.remaining - more);
            }
            prop_assert_eq!(more, first.remaining);
            prop_assert_eq!(now.after(first.whole_in), first.tat);
        }
    }

    #[test]
    fn a_refunded_request_never_was(rate in rates(), gap in 0..SECOND, at_once in 1..10_u32) {
        let (with, without) = (Bucket::default(), Bucket::default());
        let now = at(3 * SECOND);
        for bucket in [&with, &without] {
            for _ in 0..at_once {
                let _ = bucket.check(&rate, now);
            }
        }
        let later = now.after(Duration::from_nanos(gap));
        if with.check(&rate, later).is_ok() {
            with.refund(&rate);
        }
        // What had come back before is not given a second time.
        prop_assert_eq!(with.check(&rate, later), without.check(&rate, later));
    }

    #[test]
    fn after_any_change_of_rate_the_wait_is_at_most_one_interval_of_the_new_one(
        old in rates(),
        new in rates(),
        used in 1..300_u32,
    ) {
        let bucket = Bucket::default();
        let now = at(SECOND);
        for _ in 0..used {
            let _ = bucket.check(&old, now);
        }
        match bucket.check(&new, now) {
            Ok(passed) => prop_assert!(passed.remaining < new.burst()),
            Err(Exhausted { wait }) => {
                prop_assert!(wait <= Duration::from_nanos(interval(&new)));
                prop_assert!(bucket.check(&new, now.after(wait)).is_ok(), "who waits as told gets through");
            }
        }
    }
}

#[test]
fn a_change_of_rate_keeps_the_time_that_is_owed() {
    let (slow, fast) = (Rate::per_second(1, 4).expect("a rate"), Rate::per_second(2, 8).expect("a rate"));
    let bucket = Bucket::default();
    for _ in 0..3 {
        bucket.check(&slow, at(SECOND)).expect("three of four");
    }
    // Three seconds are owed: six requests of the faster rate, which leaves two of eight.
    assert_eq!(bucket.check(&fast, at(SECOND)).map(|passed| passed.remaining), Ok(1));
}

#[test]
fn a_rate_needs_numbers_that_make_one() {
    let second = Duration::from_secs(1);
    assert_eq!(Rate::new(0, second, 1), Err(InvalidRate));
    assert_eq!(Rate::new(1, second, 0), Err(InvalidRate));
    assert!(Rate::new(1, second, 1).is_ok());
    assert!(Rate::new(u32::MAX, Duration::ZERO, u32::MAX).is_ok());
    let century = 100 * 365 * 24 * 3600;
    assert!(Rate::new(1, Duration::from_secs(century), 1).is_ok());
    assert_eq!(Rate::new(1, Duration::from_secs(century), 2), Err(InvalidRate));
    assert_eq!(Rate::new(1, Duration::MAX, u32::MAX), Err(InvalidRate));
}

#[test]
fn an_interval_is_rounded_up() {
    let third = Rate::per_second(3, 1).expect("a rate");
    let bucket = Bucket::default();
    bucket.check(&third, at(SECOND)).expect("the first");
    assert!(bucket.check(&third, at(SECOND + 333_333_333)).is_err());
    assert!(bucket.check(&third, at(SECOND + 333_333_334)).is_ok());
}

#[test]
fn a_bucket_is_whole_again_to_the_nanosecond() {
    let (rate, bucket) = (Rate::per_second(10, 5).expect("a rate"), Bucket::default());
    assert!(bucket.is_whole(Moment::ORIGIN));
    let passed = bucket.check(&rate, at(SECOND)).expect("the first");
    assert_eq!(passed.whole_in, Duration::from_millis(100));
    assert!(!bucket.is_whole(at(passed.tat.as_nanos() - 1)));
    assert!(bucket.is_whole(passed.tat));
}

#[test]
fn threads_together_get_what_one_would() {
    let (rate, bucket) = (Rate::per_second(1, 1000).expect("a rate"), Bucket::default());
    let passed = AtomicU32::new(0);
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..500 {
                    let ok = bucket.check(&rate, at(SECOND)).is_ok();
                    passed.fetch_add(u32::from(ok), Ordering::Relaxed);
                }
            });
        }
    });
    assert_eq!(passed.into_inner(), 1000);
}

#[test]
fn a_refusal_says_when_to_come_back() {
    let refusal = Refusal::from(Exhausted { wait: Duration::from_millis(20) });
    assert_eq!((refusal.reason, refusal.retry_after), (Reason::Quota, Some(Duration::from_millis(20))));
}

#[test]
fn the_end_of_time_is_no_special_case() {
    let rate = Rate::per_second(1, 1).expect("a rate");
    assert!(rate.check(Moment::ORIGIN, Moment::END).is_ok());
    assert!(rate.check(Moment::END, Moment::ORIGIN).is_err());
}
