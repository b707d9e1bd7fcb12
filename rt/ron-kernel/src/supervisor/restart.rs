//! When a failed task may start again: a pure decision over the failures of the last minute.

use std::{collections::VecDeque, time::Duration};

use types::Moment;

use crate::topology::Restart;

const WINDOW: Duration = Duration::from_secs(60);

/// The failures of one task in the last minute, never more than its policy allows.
#[derive(Debug)]
pub(super) struct RestartBudget {
    policy: Restart,
    recent: VecDeque<Moment>,
}

impl RestartBudget {
    pub(super) fn new(policy: Restart) -> Self {
        Self { policy, recent: VecDeque::new() }
    }

    /// How long to wait before the next start, or `None` if the task is to be given up. `chance` is any random
    /// number; it spreads restarts between half the backoff and all of it.
    pub(super) fn next(&mut self, now: Moment, chance: u64) -> Option<Duration> {
        let Restart::OnFailure { base, cap, per_minute, .. } = self.policy else {
            return None;
        };
        while self.recent.front().is_some_and(|at| now.since(*at) >= WINDOW) {
            self.recent.pop_front();
        }
        if self.recent.len() >= usize::try_from(per_minute).unwrap_or(usize::MAX) {
            return None;
        }
        let doublings = u32::try_from(self.recent.len()).unwrap_or(u32::MAX).min(16);
        self.recent.push_back(now);
        let full = base.saturating_mul(1 << doublings).min(cap);
        let half = full / 2;
        let spread = u64::try_from(half.as_nanos()).unwrap_or(u64::MAX).saturating_add(1);
        Some(half + Duration::from_nanos(chance % spread))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{readiness::Effect, topology::Escalation};
    use proptest::prelude::*;

    const THEN: Escalation = Escalation::Degrade(Effect::Down);

    #[test]
    fn five_failures_in_a_minute_are_forgiven_and_the_sixth_is_not() {
        let mut budget = RestartBudget::new(Restart::usual(THEN));
        let now = Moment::from_nanos(1);
        let waits: Vec<_> = (0..5).map(|_| budget.next(now, u64::MAX)).collect();
        assert!(waits.iter().all(Option::is_some));
        assert_eq!(budget.next(now, 0), None);
        assert!(budget.next(now.after(WINDOW), 0).is_some());
    }

    #[test]
    fn a_task_that_runs_once_is_given_up_at_its_first_failure() {
        assert_eq!(RestartBudget::new(Restart::Never(THEN)).next(Moment::ORIGIN, 0), None);
    }

    proptest! {
        #[test]
        fn waits_double_within_their_bounds(chance: u64) {
            let mut budget = RestartBudget::new(Restart::usual(THEN));
            for n in 0..5u32 {
                let full = (Duration::from_millis(100) * (1 << n)).min(Duration::from_secs(5));
                let wait = budget.next(Moment::ORIGIN, chance).expect("within the budget");
                prop_assert!(wait >= full / 2 && wait <= full, "{wait:?} of {full:?}");
            }
        }
    }
}
