//! A time by two clocks.

/// A time by the machine's clock, which can be set, and by one that always goes on.
///
/// Responses tell their times by the first. How long one has been stored here is told by both: if somebody moves the machine's
/// clock back, it gets no younger, and if the machine slept, it is older than the other clock knows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Time {
    /// Seconds since 1970, by the machine's clock.
    pub unix: u64,
    /// Seconds by a clock that never goes back, from wherever it began.
    pub steady: u64,
}

impl Time {
    /// The seconds from an earlier time to this one, by the clock by which more have passed.
    #[must_use]
    pub fn since(self, earlier: Self) -> u64 {
        self.unix.saturating_sub(earlier.unix).max(self.steady.saturating_sub(earlier.steady))
    }

    /// The time at this one's clocks at which the machine's clock said `unix`, if nobody has set it since.
    #[must_use]
    pub fn when(self, unix: u64) -> Self {
        Self { unix, steady: self.steady.saturating_sub(self.unix.saturating_sub(unix)) }
    }
}

impl From<u64> for Time {
    /// A time at which both clocks say the same.
    fn from(seconds: u64) -> Self {
        Self { unix: seconds, steady: seconds }
    }
}
