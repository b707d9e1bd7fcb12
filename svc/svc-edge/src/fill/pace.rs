//! How slow an origin's body may be: never silent for long, not a trickle as a whole, and not without an end once nobody wants
//! it.

use std::{pin::pin, time::Duration};

use ron_kernel::Clock;
use types::{Deadline, Moment};

use super::failure::Failure;

/// The average rate, in bytes for each millisecond, that a body must keep beyond the longest silence: 8 KB a second. Without it
/// an origin could hold a worker for ever with a byte now and then.
const LEAST_RATE: u64 = 8;

/// For how many times the longest silence a body of a length that is not known is read though nobody wants it. It may have no
/// end.
const UNWANTED: u32 = 10;
/// The same for a body whose length is known.
const UNWANTED_OF_KNOWN_LENGTH: u32 = 100;
/// This part of the longest silence, one in so many, is a fill that nobody wants left alone, and then again before it is asked
/// once more whether it should make way for another.
const MAKES_WAY_AFTER: u32 = 10;
/// At least so long, however short the longest silence is.
const LEAST_PATIENCE: Duration = Duration::from_millis(1);

/// Who wants an object that is on its way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Interest {
    /// Whether somebody waits for it or reads it now.
    pub(super) is_awaited: bool,
    /// How often it was asked for so far.
    pub(super) asked_for: u64,
}

/// A body on its way.
#[derive(Debug)]
pub(super) struct Pace {
    clock: Clock,
    silence: Duration,
    /// How long it is read though nobody wants it.
    unwanted_max: Duration,
    /// When somebody wanted it last.
    wanted_at: Moment,
    /// How often it had been asked for by then.
    asked_for: u64,
    /// When it was last asked whether it should make way for another.
    looked_at: Moment,
    began: Moment,
    received: u64,
}

impl Pace {
    /// A body whose head has just come, and which may be silent for so long.
    pub(super) fn new(clock: Clock, silence: Duration, is_length_known: bool) -> Self {
        let times = if is_length_known { UNWANTED_OF_KNOWN_LENGTH } else { UNWANTED };
        let (now, unwanted_max) = (clock.now(), silence.saturating_mul(times));
        Self {
            clock,
            silence,
            unwanted_max,
            wanted_at: now,
            asked_for: 0,
            looked_at: now,
            began: now,
            received: 0,
        }
    }

    /// Waits for the next part of the body, no longer than the origin may take, and no longer than it is wanted. While nobody
    /// wants it, `makes_way` is asked now and then whether others wait that it should make way for.
    ///
    /// Cancel safe if `part` is.
    ///
    /// # Errors
    /// [`Failure::Late`] and [`Failure::Unwanted`].
    pub(super) async fn wait<T>(
        &mut self,
        part: impl Future<Output = T>,
        interest: impl Fn() -> Interest,
        makes_way: impl Fn() -> bool,
    ) -> Result<T, Failure> {
        let mut part = pin!(part);
        let late = self.deadline(self.clock.now());
        loop {
            let now = self.clock.now();
            self.note(interest(), now);
            let unwanted = Deadline::within(self.wanted_at, self.unwanted_max);
            if unwanted.has_passed(now) {
                return Err(Failure::Unwanted);
            }
            let patience = (self.silence / MAKES_WAY_AFTER).max(LEAST_PATIENCE);
            let look = Deadline::within(self.looked_at.max(self.wanted_at), patience);
            if look.has_passed(now) {
                if makes_way() {
                    return Err(Failure::Unwanted);
                }
                self.looked_at = now;
                continue;
            }
            if let Some(part) = self.clock.by(late.tightened(unwanted).tightened(look), part.as_mut()).await {
                return Ok(part);
            }
            if late.has_passed(self.clock.now()) {
                return Err(Failure::Late);
            }
        }
    }

    fn note(&mut self, interest: Interest, now: Moment) {
        if interest.is_awaited || interest.asked_for != self.asked_for {
            (self.wanted_at, self.asked_for) = (now, interest.asked_for);
        }
    }

    /// So many more bytes have come.
    pub(super) fn received(&mut self, bytes: usize) {
        self.received = self.received.saturating_add(bytes as u64);
    }

    fn deadline(&self, now: Moment) -> Deadline {
        let earned = Duration::from_millis(self.received / LEAST_RATE);
        let average = Deadline::within(self.began, self.silence.saturating_add(earned));
        Deadline::within(now, self.silence).tightened(average)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_body_may_take_long_and_neither_be_silent_nor_trickle() {
        let clock = Clock::start();
        let mut pace = Pace::new(clock, Duration::from_secs(5), true);
        let after = |secs| clock.now().after(Duration::from_secs(secs));
        assert_eq!(pace.deadline(clock.now()).moment(), after(5), "the first part");
        pace.received(1 << 20);
        tokio::time::advance(Duration::from_secs(60)).await;
        assert_eq!(pace.deadline(clock.now()).moment(), after(5), "a minute is no matter after a megabyte");
        let mut slow = Pace::new(clock, Duration::from_secs(5), true);
        slow.received(8);
        tokio::time::advance(Duration::from_secs(4)).await;
        let left = slow.deadline(clock.now()).remaining(clock.now());
        assert_eq!(left, Duration::from_millis(1001), "eight bytes earn a millisecond");
    }

    /// After how many seconds a body that keeps coming is given up, with an interest by the second; a day for never.
    async fn given_up_after(is_length_known: bool, interest: impl Fn(u64) -> Interest) -> u64 {
        given_up_for_others(is_length_known, interest, |_| false).await
    }

    /// The same while others wait for its place, by the second.
    async fn given_up_for_others(
        is_length_known: bool,
        interest: impl Fn(u64) -> Interest,
        others_wait: impl Fn(u64) -> bool,
    ) -> u64 {
        let clock = Clock::start();
        let mut pace = Pace::new(clock, Duration::from_secs(5), is_length_known);
        for second in 0..86_400 {
            let part = tokio::time::sleep(Duration::from_secs(1));
            match pace.wait(part, || interest(second), || others_wait(second)).await {
                Ok(()) => pace.received(1 << 20),
                Err(failure) => {
                    assert!(matches!(failure, Failure::Unwanted), "{failure}");
                    return second;
                }
            }
        }
        86_400
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_nobody_wants_is_given_up_and_each_who_asks_renews_it() {
        let nobody = |_| Interest::default();
        assert_eq!(given_up_after(false, nobody).await, 50);
        assert_eq!(given_up_after(true, nobody).await, 500);
        let until = |end| move |second| Interest { is_awaited: second < end, asked_for: 0 };
        assert_eq!(given_up_after(false, until(0)).await, 50);
        assert_eq!(given_up_after(false, until(1000)).await, 999 + 50);
        assert_eq!(given_up_after(false, until(u64::MAX)).await, 86_400);
        let each = |seconds| move |second| Interest { is_awaited: false, asked_for: second / seconds };
        assert_eq!(given_up_after(false, each(49)).await, 86_400, "it is asked for again in time");
        assert_eq!(given_up_after(false, each(60)).await, 50);
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_nobody_wants_makes_way_while_others_wait() {
        let nobody = |_| Interest::default();
        assert_eq!(given_up_for_others(true, nobody, |_| true).await, 0, "after half a second");
        assert_eq!(given_up_for_others(true, nobody, |second| second >= 100).await, 100);
        let until = |end| move |second| Interest { is_awaited: second < end, asked_for: 0 };
        assert_eq!(given_up_for_others(true, until(100), |_| true).await, 100);
        assert_eq!(given_up_for_others(true, until(u64::MAX), |_| true).await, 86_400, "somebody wants it");
    }
}
