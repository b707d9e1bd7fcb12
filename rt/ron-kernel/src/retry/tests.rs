//! Calls that fail on purpose, on a paused clock: the number of tries, the waits, and each way to give up.

use std::{cell::Cell, fmt, time::Duration};

use types::Moment;

use super::*;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Fault {
    Passing(u32),
    Lasting,
}

impl Retryable for Fault {
    fn retryable(&self) -> bool {
        matches!(self, Self::Passing(_))
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self:?}")
    }
}

const fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

const SPREAD: Backoff = Backoff::Spread { min: ms(50), max: ms(100), cap: ms(150) };
const EXACT: Backoff = Backoff::Added { base: ms(50), cap: ms(800), jitter: false };

struct Rig {
    policy: RetryPolicy,
    budget: RetryBudget,
    clock: Clock,
    counter: Counter,
    rng: fastrand::Rng,
    started: Vec<Moment>,
}

impl Rig {
    fn new(max_tries: u32, backoff: Backoff) -> Self {
        Self {
            policy: RetryPolicy { max_tries, backoff },
            budget: RetryBudget::new(0, 1_000),
            clock: Clock::start(),
            counter: Counter::default(),
            rng: fastrand::Rng::with_seed(42),
            started: Vec::new(),
        }
    }

    /// Runs a call whose first `failures` tries fail with `fault`.
    async fn call(
        &mut self,
        deadline: Deadline,
        failures: u32,
        fault: Option<Fault>,
    ) -> Result<u32, RetryError<Fault>> {
        let Self { policy, budget, clock, counter, rng, started } = self;
        retry(policy, budget, deadline, *clock, counter, rng, |attempt| {
            started.push(clock.now());
            let fault = fault.clone().unwrap_or(Fault::Passing(attempt));
            async move { if attempt > failures { Ok(attempt) } else { Err(fault) } }
        })
        .await
    }

    /// The waits between the tries that were made.
    fn waits(&self) -> Vec<Duration> {
        self.started.windows(2).map(|pair| pair[1].since(pair[0])).collect()
    }
}

#[tokio::test(start_paused = true)]
async fn a_call_that_succeeds_at_once_is_not_tried_again() {
    let mut rig = Rig::new(3, SPREAD);
    assert_eq!(rig.call(Deadline::NEVER, 0, None).await, Ok(1));
    assert_eq!((rig.started.len(), rig.counter.get()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn the_last_try_can_still_succeed() {
    let mut rig = Rig::new(3, SPREAD);
    assert_eq!(rig.call(Deadline::NEVER, 2, None).await, Ok(3));
    assert_eq!((rig.started.len(), rig.counter.get()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn one_failure_more_than_tries_is_the_end() {
    let mut rig = Rig::new(3, SPREAD);
    let given_up = rig.call(Deadline::NEVER, 3, None).await.map_err(|error| error.to_string());
    assert_eq!(given_up, Err("gave up after 3 tries: Passing(3)".to_owned()));
    assert_eq!((rig.started.len(), rig.counter.get()), (3, 2));
}

#[tokio::test(start_paused = true)]
async fn no_tries_at_all_still_means_one() {
    for max_tries in [0, 1] {
        let mut rig = Rig::new(max_tries, SPREAD);
        let last = Fault::Passing(1);
        assert_eq!(rig.call(Deadline::NEVER, 9, None).await, Err(RetryError::Exhausted { tries: 1, last }));
    }
}

#[tokio::test(start_paused = true)]
async fn the_waits_lie_within_the_bounds_of_the_backoff() {
    for seed in 0..50 {
        let mut rig = Rig::new(4, SPREAD);
        rig.rng = fastrand::Rng::with_seed(seed);
        assert!(rig.call(Deadline::NEVER, 9, None).await.is_err());
        let waits = rig.waits();
        assert_eq!(waits.len(), 3, "seed {seed}");
        for (wait, least, longest) in [(waits[0], 50, 100), (waits[1], 75, 150), (waits[2], 75, 150)] {
            // Tokio's timer rounds up to its own millisecond.
            assert!((ms(least)..=ms(longest + 1)).contains(&wait), "seed {seed}: {wait:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn waits_without_jitter_are_exact() {
    let mut rig = Rig::new(4, EXACT);
    assert!(rig.call(Deadline::NEVER, 9, None).await.is_err());
    assert_eq!(rig.waits(), [ms(50), ms(100), ms(200)]);
}

#[tokio::test(start_paused = true)]
async fn a_lasting_fault_is_not_retried() {
    let mut rig = Rig::new(3, SPREAD);
    let given_up = rig.call(Deadline::NEVER, 9, Some(Fault::Lasting)).await;
    assert_eq!(given_up, Err(RetryError::Permanent { last: Fault::Lasting }));
    assert_eq!((rig.started.len(), rig.counter.get()), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_wait_that_would_reach_the_deadline_is_not_begun() {
    // Waits of 50 and 100 ms: the third try would start at 150.
    for (budget, tries) in [(150, 2), (151, 3)] {
        let mut rig = Rig::new(3, EXACT);
        let begun = rig.clock.now();
        let deadline = rig.clock.within(ms(budget));
        let given_up = rig.call(deadline, 9, None).await.expect_err("it never succeeds");
        assert_eq!(rig.started.len(), tries, "{given_up}");
        assert_eq!(
            matches!(given_up, RetryError::Deadline { last: Fault::Passing(2) }),
            tries == 2,
            "{given_up}"
        );
        assert!(rig.clock.now().since(begun) < ms(budget), "gave up before the deadline, not at it");
        assert_eq!(rig.counter.get(), tries as u64 - 1);
    }
}

#[tokio::test(start_paused = true)]
async fn a_spent_budget_ends_the_call_at_once() {
    let mut rig = Rig::new(3, EXACT);
    rig.budget = RetryBudget::new(0, 1);
    let begun = rig.clock.now();
    let given_up = rig.call(Deadline::NEVER, 9, None).await.expect_err("it never succeeds");
    assert_eq!(given_up, RetryError::BudgetSpent { last: Fault::Passing(2) });
    assert_eq!(given_up.into_last(), Fault::Passing(2));
    assert_eq!(rig.clock.now().since(begun), ms(50), "it did not wait for a retry it cannot pay for");
    assert_eq!(rig.counter.get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_wait_refused_by_the_deadline_costs_nothing() {
    let mut rig = Rig::new(3, EXACT);
    rig.budget = RetryBudget::new(0, 1);
    let deadline = rig.clock.within(ms(50));
    assert!(matches!(rig.call(deadline, 9, None).await, Err(RetryError::Deadline { .. })));
    assert!(rig.budget.withdraw(rig.clock.now()));
}

#[tokio::test(start_paused = true)]
async fn over_a_long_run_of_failing_calls_retries_stay_within_the_budget() {
    const CALLS: u64 = 5_000;
    let mut rig = Rig::new(3, Backoff::Added { base: ms(1), cap: ms(1), jitter: false });
    rig.budget = RetryBudget::new(100, 2);
    let begun = rig.clock.now();
    for _ in 0..CALLS {
        assert!(rig.call(Deadline::NEVER, 9, None).await.is_err());
        tokio::time::advance(ms(1)).await;
    }
    let seconds = rig.clock.now().since(begun).as_secs();
    let (retries, share, floor) = (rig.counter.get(), CALLS / 10, 2 * (seconds + 1));
    assert!(retries <= share + floor, "{retries} retries in {seconds} s");
    assert!(retries >= share, "the budget is there to be used: {retries} retries");
}

#[tokio::test(start_paused = true)]
async fn dropping_the_call_stops_it_wherever_it_is() {
    let (mut rig, tries) = (Rig::new(3, EXACT), Cell::new(0));
    let clock = rig.clock;
    let call =
        retry(&rig.policy, &rig.budget, Deadline::NEVER, clock, &rig.counter, &mut rig.rng, |attempt| {
            tries.set(attempt);
            async move { Err::<(), _>(Fault::Passing(attempt)) }
        });
    let cut_off = clock.by(clock.within(ms(70)), call).await;
    assert_eq!(cut_off, None, "cut off during its second wait");
    clock.sleep_until(clock.now().after(ms(1_000))).await;
    assert_eq!((tries.get(), rig.counter.get()), (2, 2));
}
