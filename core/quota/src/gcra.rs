//! The generic cell rate algorithm, on integers.
//!
//! The state is the *theoretical arrival time*: when the caller's allowance will be whole. A request moves it on by one
//! interval; a request that would have it further ahead than the burst is refused. So in any window of `t` at most
//! `burst + t / interval` requests pass.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use types::{Moment, Reason, Refusal};

use crate::book::Forgettable;

/// The longest time for a burst to come back, in nanoseconds: a century. It keeps sums of moments from overflowing.
const LONGEST: u64 = 100 * 365 * 24 * 3600 * 1_000_000_000;

/// How many requests are let through: a steady rate, and how many may come at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Nanoseconds between two requests of the steady rate; at least 1.
    interval: u64,
    /// `interval * burst`, at most [`LONGEST`].
    window: u64,
    burst: u32,
}

/// The numbers do not make a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a rate needs a count and a burst of at least 1, and a burst that comes back within a century")]
pub struct InvalidRate;

/// A request got through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passed {
    /// The state from now on.
    pub tat: Moment,
    /// How many more would get through right now.
    pub remaining: u32,
    /// When the allowance is whole again.
    pub whole_in: Duration,
}

/// Several requests that were given out at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// How many were given out.
    pub tokens: u32,
    /// How many more could be.
    pub left: u32,
    /// How long until there is one more; zero if one is left.
    pub wait: Duration,
    /// The state from now on.
    pub tat: Moment,
}

/// The allowance is used up.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("used up for another {wait:?}")]
pub struct Exhausted {
    /// How long to wait for the next request to get through, unless somebody else takes it.
    pub wait: Duration,
}

impl From<Exhausted> for Refusal {
    fn from(exhausted: Exhausted) -> Self {
        Self::from(Reason::Quota).retry_after(exhausted.wait)
    }
}

impl Rate {
    /// `count` requests every `per`, of which `burst` may come at once. An interval that is no whole number of nanoseconds is
    /// rounded up, so that never more than this gets through.
    ///
    /// # Errors
    /// [`InvalidRate`] for a count or burst of 0, and for a burst that takes more than a century to come back.
    pub fn new(count: u32, per: Duration, burst: u32) -> Result<Self, InvalidRate> {
        if count == 0 || burst == 0 {
            return Err(InvalidRate);
        }
        let interval = per.as_nanos().div_ceil(u128::from(count)).max(1);
        let window = interval.saturating_mul(u128::from(burst));
        match (u64::try_from(interval), u64::try_from(window)) {
            (Ok(interval), Ok(window)) if window <= LONGEST => Ok(Self { interval, window, burst }),
            _ => Err(InvalidRate),
        }
    }

    /// `count` requests per second, of which `burst` may come at once.
    ///
    /// # Errors
    /// [`InvalidRate`] for a count or burst of 0.
    pub fn per_second(count: u32, burst: u32) -> Result<Self, InvalidRate> {
        Self::new(count, Duration::from_secs(1), burst)
    }

    /// How many may come at once.
    #[must_use]
    pub const fn burst(&self) -> u32 {
        self.burst
    }

    /// The time between two requests of the steady rate.
    #[must_use]
    pub const fn interval(&self) -> Duration {
        Duration::from_nanos(self.interval)
    }

    /// How long a used-up burst takes to come back.
    #[must_use]
    pub const fn window(&self) -> Duration {
        Duration::from_nanos(self.window)
    }

    /// A rate of the same kind with another interval, in nanoseconds, and another burst.
    pub(crate) fn with(interval: u64, burst: u32) -> Self {
        let (interval, burst) = (interval.clamp(1, LONGEST), burst.max(1));
        let window = interval.saturating_mul(u64::from(burst)).min(LONGEST);
        Self { interval, window, burst }
    }

    /// Gives out up to `wanted` requests at once by the state `tat`, as many as there are.
    #[must_use]
    pub fn grant(&self, tat: Moment, now: Moment, wanted: u32) -> Grant {
        let owed = tat.as_nanos().saturating_sub(now.as_nanos()).min(self.window);
        let whole = |free: u64| u32::try_from(free / self.interval).unwrap_or(u32::MAX);
        let tokens = wanted.min(whole(self.window - owed));
        let owed = owed + u64::from(tokens) * self.interval;
        let free = self.window - owed;
        let wait = Duration::from_nanos(self.interval.saturating_sub(free));
        Grant { tokens, left: whole(free), wait, tat: now.after(Duration::from_nanos(owed)) }
    }

    /// Judges one request at `now` by the state `tat`, which is any moment of the past for a new caller.
    ///
    /// The state says nothing of the rate that made it, so the rate may change at any time: what is owed is kept as time, up
    /// to a whole burst of the new rate.
    ///
    /// # Errors
    /// [`Exhausted`] when the allowance is used up. The state remains as it is.
    pub fn check(&self, tat: Moment, now: Moment) -> Result<Passed, Exhausted> {
        let owed = tat.as_nanos().saturating_sub(now.as_nanos()).min(self.window);
        let free = self.window - owed;
        if free < self.interval {
            return Err(Exhausted { wait: Duration::from_nanos(self.interval - free) });
        }
        let whole_in = Duration::from_nanos(owed + self.interval);
        let remaining = u32::try_from((free - self.interval) / self.interval).unwrap_or(u32::MAX);
        Ok(Passed { tat: now.after(whole_in), remaining, whole_in })
    }

    /// The state `tat` without a request that passed and then was not used.
    #[must_use]
    pub const fn refund(&self, tat: Moment) -> Moment {
        Moment::from_nanos(tat.as_nanos().saturating_sub(self.interval))
    }
}

/// A caller's state, shared by threads: 8 bytes, no lock.
#[derive(Debug, Default)]
pub struct Bucket(AtomicU64);

impl Bucket {
    /// Judges one request at `now`, as [`Rate::check`] does, and keeps the new state.
    ///
    /// # Errors
    /// [`Exhausted`] when the allowance is used up; that costs the caller nothing.
    pub fn check(&self, rate: &Rate, now: Moment) -> Result<Passed, Exhausted> {
        // Relaxed: the number stands for itself, no other memory depends on it.
        let mut seen = self.0.load(Ordering::Relaxed);
        let most = now.as_nanos().saturating_add(rate.window);
        loop {
            let (next, verdict) = match rate.check(Moment::from_nanos(seen), now) {
                Ok(passed) => (passed.tat.as_nanos(), Ok(passed)),
                // A slower rate has left more than a whole burst of this one, which would be owed again at every call.
                Err(exhausted) if seen > most => (most, Err(exhausted)),
                Err(exhausted) => return Err(exhausted),
            };
            match self.0.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return verdict,
                Err(other) => seen = other,
            }
        }
    }

    /// Gives back a request that passed and then was not used, for instance because another limit refused it.
    pub fn refund(&self, rate: &Rate) {
        let update = |tat| Some(rate.refund(Moment::from_nanos(tat)).as_nanos());
        // It always has a new value, so it cannot fail.
        let _ = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, update);
    }

    /// Whether the whole allowance is there.
    #[must_use]
    pub fn is_whole(&self, now: Moment) -> bool {
        self.0.load(Ordering::Relaxed) <= now.as_nanos()
    }
}

impl Forgettable for Bucket {
    /// A whole bucket is like a new one.
    fn is_forgettable(&self, now: Moment) -> bool {
        self.is_whole(now)
    }
}
