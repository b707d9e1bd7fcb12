//! When a certificate is asked for: ahead of its end, and less and less often while that fails. Pure.
//!
//! All times are Unix time by the machine's clock, which somebody may set; so a decision holds for the time at which it
//! is asked for, and nothing sleeps until the end of a certificate.

use std::time::Duration;

/// The first wait after a failure that is no answer of the CA: it costs nobody anything to look again.
const OUTAGE_FIRST: Duration = Duration::from_secs(5);
/// The longest such wait.
const OUTAGE_LONGEST: Duration = Duration::from_secs(3600);
/// The first wait after the CA refused: CAs count failures, five an hour for a name at the best known one.
const REFUSED_FIRST: Duration = Duration::from_secs(15 * 60);
/// The longest such wait.
const REFUSED_LONGEST: Duration = Duration::from_secs(6 * 3600);
/// The longest that a CA is believed that it wants to be left alone.
pub(super) const RETRY_LONGEST: Duration = Duration::from_secs(7 * 24 * 3600);
/// Waits differ by up to a tenth, so that nodes that failed together do not ask together.
const JITTER: f64 = 0.1;

/// The time in which a certificate is valid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Validity {
    pub(super) not_before: Duration,
    pub(super) not_after: Duration,
}

impl Validity {
    /// When to renew: `before` its end, or a third of its lifetime if that is not set, up to a tenth of that sooner by
    /// `chance` (0 to 1); never in the first half of its lifetime, or a setting that is too long would have it renewed
    /// all the time.
    pub(super) fn renew_at(self, before: Option<Duration>, chance: f64) -> Duration {
        let lifetime = self.not_after.saturating_sub(self.not_before);
        let before = before.unwrap_or(lifetime / 3).mul_f64(1.0 + JITTER * chance);
        self.not_after.saturating_sub(before).max(self.not_before + lifetime / 2)
    }
}

/// Why there is no new certificate, as far as it matters for when to try again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// The CA could not be asked, or failed itself.
    Outage,
    /// The CA refused, or could not check the name.
    Refused,
    /// The CA wants fewer requests.
    RateLimited,
}

/// When the certificate of one name is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Schedule {
    due: Duration,
    /// Before this the CA does not want to be asked, whatever an operator does.
    not_before: Duration,
    /// When the first wait after the last failure is over.
    soonest: Duration,
    failures: u32,
}

impl Schedule {
    /// A certificate that there is none of: asked for at once.
    pub(super) const fn at_once(now: Duration) -> Self {
        Self { due: now, not_before: Duration::ZERO, soonest: now, failures: 0 }
    }

    /// The time of the next attempt.
    pub(super) fn due(&self) -> Duration {
        self.due.max(self.not_before)
    }

    /// The time before which not even an operator has the CA asked, after a failure.
    pub(super) fn soonest(&self) -> Duration {
        self.soonest.max(self.not_before)
    }

    /// Attempts that failed since the last success.
    pub(super) const fn failures(&self) -> u32 {
        self.failures
    }

    /// There is a certificate that is to be renewed at `renew_at`.
    pub(super) fn succeeded(&mut self, renew_at: Duration) {
        *self = Self::at_once(renew_at);
    }

    /// The CA suggests a time; only an earlier one is followed.
    pub(super) fn suggested(&mut self, at: Duration) {
        if self.failures == 0 {
            self.due = self.due.min(at);
        }
    }

    /// An attempt failed at `now`; the CA may have said for how long it does not want to be asked. Waits twice as long each
    /// time, within limits, and up to a tenth longer by `chance` (0 to 1).
    pub(super) fn failed(
        &mut self,
        now: Duration,
        failure: Failure,
        retry_after: Option<Duration>,
        chance: f64,
    ) {
        self.failures = self.failures.saturating_add(1);
        let (first, longest) = match failure {
            Failure::Outage => (OUTAGE_FIRST, OUTAGE_LONGEST),
            Failure::Refused | Failure::RateLimited => (REFUSED_FIRST, REFUSED_LONGEST),
        };
        let doubled = first.saturating_mul(1 << (self.failures - 1).min(16)).min(longest);
        let asked = retry_after.map(|wait| wait.min(RETRY_LONGEST));
        let wait = match failure {
            Failure::RateLimited => asked.unwrap_or(doubled),
            Failure::Outage | Failure::Refused => asked.unwrap_or_default().max(doubled),
        };
        self.due = now + wait.mul_f64(1.0 + JITTER * chance);
        self.soonest = now + first;
        self.not_before = asked.map_or(Duration::ZERO, |wait| now + wait);
        if failure == Failure::RateLimited {
            self.not_before = self.due;
        }
    }

    /// An operator may have changed what made the last attempts fail: waits as after the first failure. Not less, because
    /// configurations are also reloaded by programs, over and over.
    pub(super) fn hurry(&mut self) {
        if self.failures > 0 {
            self.due = self.due.min(self.soonest);
        }
    }

    /// The certificate is needed now, unless attempts have failed already.
    pub(super) fn hasten(&mut self, now: Duration) {
        if self.failures == 0 {
            self.due = self.due.min(now);
        }
    }

    /// The CA cannot be reached: nobody else asks it before `until` either.
    pub(super) fn hold_back(&mut self, until: Duration) {
        self.due = self.due.max(until);
    }
}

/// The position of the name that is asked for next. Of those that are due together, the one that has failed less often comes
/// first: what fails for one name alone must not keep the others from ever being tried.
pub(super) fn first<'s>(schedules: impl Iterator<Item = &'s Schedule>) -> Option<usize> {
    let keyed = schedules.enumerate().map(|(at, schedule)| ((schedule.due(), schedule.failures), at));
    keyed.min().map(|(_, at)| at)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const DAY: Duration = Duration::from_secs(24 * 3600);
    const NINETY_DAYS: Validity =
        Validity { not_before: Duration::ZERO, not_after: Duration::from_secs(90 * 86_400) };

    #[test]
    fn a_name_that_keeps_failing_does_not_keep_the_others_waiting() {
        let mut names = [Schedule::at_once(DAY), Schedule::at_once(DAY), Schedule::at_once(DAY)];
        let mut tried = Vec::new();
        for _ in 0..6 {
            let at = first(names.iter()).unwrap_or_default();
            tried.push(at);
            let now = names[at].due();
            names[at].failed(now, Failure::Outage, None, 0.5);
            let next = names[at].due();
            names.iter_mut().for_each(|name| name.hold_back(next));
        }
        assert_eq!(tried, [0, 1, 2, 0, 1, 2]);
    }

    #[test]
    fn a_certificate_is_renewed_a_third_of_its_lifetime_before_its_end() {
        assert_eq!(NINETY_DAYS.renew_at(None, 0.0), 60 * DAY);
        assert!(NINETY_DAYS.renew_at(None, 1.0).abs_diff(57 * DAY) < Duration::from_secs(1));
        assert_eq!(NINETY_DAYS.renew_at(Some(10 * DAY), 0.0), 80 * DAY);
        assert_eq!(NINETY_DAYS.renew_at(Some(1000 * DAY), 1.0), 45 * DAY, "never in the first half");
        let six_days = Validity { not_before: DAY, not_after: 7 * DAY };
        assert_eq!(six_days.renew_at(None, 0.0), 5 * DAY);
    }

    #[test]
    fn a_name_that_a_ca_refuses_is_tried_fewer_than_five_times_in_any_hour() {
        let mut schedule = Schedule::at_once(Duration::ZERO);
        let mut tries = Vec::new();
        while schedule.due() < 3 * DAY {
            let now = schedule.due();
            tries.push(now);
            schedule.failed(now, Failure::Refused, None, 0.0);
            // Somebody reloads the configuration all the time.
            schedule.hurry();
        }
        for (index, first) in tries.iter().enumerate() {
            let within = tries[index..].iter().filter(|at| **at < *first + Duration::from_secs(3600)).count();
            assert!(within < 5, "{within} tries in the hour after {first:?}");
        }
    }

    #[test]
    fn a_rate_limit_holds_against_an_impatient_operator() {
        let mut schedule = Schedule::at_once(DAY);
        schedule.failed(DAY, Failure::RateLimited, Some(Duration::from_secs(100)), 0.0);
        schedule.hurry();
        assert_eq!(schedule.due(), DAY + Duration::from_secs(100));
        schedule.failed(2 * DAY, Failure::Refused, None, 0.0);
        assert_eq!(schedule.due(), 2 * DAY + 2 * REFUSED_FIRST);
        schedule.hurry();
        assert_eq!(schedule.due(), 2 * DAY + REFUSED_FIRST);
        schedule.failed(3 * DAY, Failure::RateLimited, Some(1000 * DAY), 0.0);
        assert_eq!(schedule.due(), 10 * DAY, "no CA stops us for ever");
    }

    #[test]
    fn a_suggestion_brings_a_renewal_forward_and_never_puts_it_off() {
        let mut schedule = Schedule::at_once(Duration::ZERO);
        schedule.succeeded(60 * DAY);
        schedule.suggested(70 * DAY);
        assert_eq!(schedule.due(), 60 * DAY);
        schedule.suggested(3 * DAY);
        assert_eq!(schedule.due(), 3 * DAY);
    }

    /// What the CA does in one hour of a simulated year.
    #[derive(Clone, Copy, Debug)]
    enum Weather {
        Issues,
        Down,
        Refuses,
        Limits(u32),
    }

    fn weather() -> impl Strategy<Value = Weather> {
        prop_oneof![
            6 => Just(Weather::Issues),
            2 => Just(Weather::Down),
            2 => Just(Weather::Refuses),
            1 => (1_u32..100_000).prop_map(Weather::Limits),
        ]
    }

    proptest! {
        /// On a virtual clock: whatever the CA does, it is asked no more often than the waits allow, never while it wants
        /// to be left alone, and a spell of good weather of a day ends with a valid certificate.
        #[test]
        fn certificates_are_renewed_through_any_weather(
            spells in prop::collection::vec((weather(), 1_u32..60), 1..60),
            lifetime_days in 4_u32..400,
            chance in 0.0_f64..1.0,
        ) {
            let mut schedule = Schedule::at_once(Duration::ZERO);
            let (mut start, mut left_alone_until, mut last_try) = (Duration::ZERO, Duration::ZERO, None::<Duration>);
            let mut valid_until = Duration::ZERO;
            for (weather, days) in spells {
                let end = start + days * DAY;
                while schedule.due() < end {
                    let now = schedule.due().max(start);
                    prop_assert!(now >= left_alone_until, "asked at {now:?}, not before {left_alone_until:?}");
                    if let Some(last) = last_try {
                        prop_assert!(now >= last + Duration::from_secs(1), "asked twice at {now:?}");
                    }
                    last_try = Some(now);
                    match weather {
                        Weather::Issues => {
                            let validity =
                                Validity { not_before: now, not_after: now + lifetime_days * DAY };
                            valid_until = validity.not_after;
                            schedule.succeeded(validity.renew_at(None, chance));
                            prop_assert!(schedule.due() > now && schedule.due() < valid_until);
                        }
                        Weather::Down => schedule.failed(now, Failure::Outage, None, chance),
                        Weather::Refuses => schedule.failed(now, Failure::Refused, None, chance),
                        Weather::Limits(seconds) => {
                            let wait = Duration::from_secs(seconds.into());
                            left_alone_until = now + wait;
                            schedule.failed(now, Failure::RateLimited, Some(wait), chance);
                            schedule.hurry();
                        }
                    }
                    prop_assert!(schedule.due() <= now + 8 * DAY || schedule.failures() == 0);
                }
                // The longest wait that could have begun before the spell is over by then.
                if matches!(weather, Weather::Issues) && days > 8 {
                    prop_assert!(valid_until > end, "no valid certificate after {days} good days");
                }
                start = end;
            }
        }
    }
}
