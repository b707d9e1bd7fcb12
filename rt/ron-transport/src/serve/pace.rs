//! The minimum transfer rate of a client.
//!
//! Only the time in which we wait for the client counts, and the bytes that it moves pay for that time. What is not paid
//! for is the client's debt. A debt beyond the grace period means that the client was slower than the minimum rate, on
//! average, over a stretch of at least that length. Bytes never pay in advance, so a fast start does not allow a slow
//! rest.

use std::time::Duration;

use super::HttpLimits;

/// The time that a client made us wait in one transfer and that its bytes have not paid for.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pace {
    debt: Duration,
}

impl Pace {
    /// Adds time in which we waited for the client.
    pub(crate) fn waited(&mut self, wait: Duration) {
        self.debt = self.debt.saturating_add(wait);
    }

    /// Lets bytes that the client sent or took pay for the time waited.
    pub(crate) fn moved(&mut self, bytes: u64, limits: &HttpLimits) {
        if !self.debt.is_zero() {
            self.debt = self.debt.saturating_sub(time_for(bytes, limits.min_rate));
        }
    }

    /// How much longer the client may make us wait; `Duration::MAX` if there is no minimum rate.
    pub(crate) fn left(&self, grace: Duration, limits: &HttpLimits) -> Duration {
        if limits.min_rate == 0 { Duration::MAX } else { grace.saturating_sub(self.debt) }
    }
}

/// How long so many bytes may take at the minimum rate; no time at all if there is none.
pub(super) fn time_for(bytes: u64, min_rate: u64) -> Duration {
    const NANOS: u64 = 1_000_000_000;
    let nanos = u128::from(bytes) * u128::from(NANOS) / u128::from(min_rate.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_secs(10);

    fn limits(min_rate: u64) -> HttpLimits {
        HttpLimits { min_rate, ..HttpLimits::default() }
    }

    #[test]
    fn bytes_pay_for_the_time_waited_and_not_in_advance() {
        let limits = limits(100);
        let mut pace = Pace::default();
        pace.moved(1_000_000, &limits);
        pace.waited(Duration::from_secs(4));
        assert_eq!(pace.left(GRACE, &limits), Duration::from_secs(6));
        pace.moved(150, &limits);
        assert_eq!(pace.left(GRACE, &limits), Duration::from_millis(7500));
        pace.waited(Duration::from_secs(60));
        assert_eq!(pace.left(GRACE, &limits), Duration::ZERO);
    }

    #[test]
    fn without_a_minimum_rate_nothing_is_owed() {
        let mut pace = Pace::default();
        pace.waited(Duration::from_secs(3600));
        assert_eq!(pace.left(GRACE, &limits(0)), Duration::MAX);
        pace.moved(u64::MAX, &limits(1));
    }
}
