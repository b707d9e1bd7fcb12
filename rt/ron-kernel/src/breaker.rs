//! A circuit breaker on atomics: it stops calling what keeps failing, and asks with one request whether it still does.
//!
//! *Closed* lets everything pass and counts. Enough failures, as a share of recent results or in a row, make it
//! *open*: nothing passes. When the open time is over, exactly one request, the probe, finds it *half-open*. The
//! probe's success closes it; its failure opens it again for twice as long, up to a cap.
//!
//! Every admission carries a [`Ticket`] of the breaker's current epoch, and each change of state starts a new epoch. A
//! result from an earlier epoch is therefore ignored: a request that was let in before the breaker opened neither
//! closes it nor opens it again.

mod window;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use types::Moment;

use window::Window;

/// When a breaker opens, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BreakerPolicy {
    /// Opens when at least this many of a thousand recent results are failures. Zero turns the rule off.
    pub error_permille: u32,
    /// How far back "recent" reaches: at least half of this, at most all of it.
    pub window: Duration,
    /// The share says nothing before this many results.
    pub min_samples: u32,
    /// Opens after this many failures in a row. Zero turns the rule off.
    pub consecutive: u32,
    /// How long it stays open before the first probe, and how long a probe may take before another replaces it.
    pub open_for: Duration,
    /// The longest it stays open, however many probes have failed.
    pub open_cap: Duration,
}

/// The state of the circuit breaker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// Every request is let through.
    Closed,
    /// No request is let through.
    Open,
    /// Waits for the result of its probe.
    HalfOpen,
}

/// The answer to a request that wants to pass.
#[derive(Debug, PartialEq, Eq)]
pub enum Admit {
    /// Go ahead, and report with the ticket.
    Pass(Ticket),
    /// Go ahead as the one request that decides whether the breaker closes.
    Probe(Ticket),
    /// The breaker is open; do not send the request.
    Open {
        /// When the next probe may pass at the latest.
        retry_after: Duration,
    },
}

/// The result of an admitted request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// The other side did its work, even if its answer was a refusal.
    Success,
    /// The other side failed, or did not answer in time.
    Failure,
}

/// The right to report one result. A ticket that is dropped reports nothing.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "report the result with Breaker::record"]
pub struct Ticket {
    epoch: u64,
}

impl Ticket {
    /// Of a request that passes by the breaker: how it ends says nothing.
    pub const UNCOUNTED: Self = Self { epoch: u64::MAX };
}

/// The breaker. Shared by reference; no call waits for another.
#[derive(Debug)]
pub struct Breaker {
    policy: ArcSwap<BreakerPolicy>,
    /// A packed [`Word`]; every change of state is one compare-and-swap of it.
    word: AtomicU64,
    window: Window,
    failures_in_a_row: AtomicU32,
}

impl Breaker {
    /// Makes a closed breaker.
    #[must_use]
    pub fn new(policy: BreakerPolicy) -> Self {
        Self {
            policy: ArcSwap::from_pointee(policy),
            word: AtomicU64::new(Word::START.pack()),
            window: Window::default(),
            failures_in_a_row: AtomicU32::new(0),
        }
    }

    /// Whether a request may pass at `now`. One atomic load while closed.
    pub fn check(&self, now: Moment) -> Admit {
        let packed = self.word.load(Ordering::Acquire);
        let word = Word::unpack(packed);
        if word.state == State::Closed || word.until() > now {
            return word.answer(now);
        }
        let open_for = self.policy.load().open_for;
        let probing = word.next(State::HalfOpen, word.strikes, now.after(open_for));
        match self.swap(packed, probing) {
            Ok(()) => Admit::Probe(Ticket { epoch: probing.epoch }),
            Err(other) => other.answer(now),
        }
    }

    /// Reports how the request that got `ticket` ended. Returns the new state if this result changed it.
    pub fn record(&self, ticket: Ticket, outcome: Outcome, now: Moment) -> Option<State> {
        let packed = self.word.load(Ordering::Acquire);
        let word = Word::unpack(packed);
        if word.epoch != ticket.epoch {
            return None;
        }
        let policy = self.policy.load();
        let next = match (word.state, outcome) {
            (State::Closed, outcome) => {
                if !self.trips(outcome, &policy, now) {
                    return None;
                }
                word.next(State::Open, 0, now.after(policy.open_for))
            }
            // Only a probe's ticket has the epoch of a half-open breaker.
            (State::HalfOpen, Outcome::Success) => {
                // Before the swap, so that whoever sees the breaker closed sees it forgiven.
                self.forget();
                word.next(State::Closed, 0, Moment::ORIGIN)
            }
            (State::HalfOpen, Outcome::Failure) => {
                let strikes = (word.strikes + 1).min(MAX_STRIKES);
                word.next(State::Open, strikes, now.after(open_time(&policy, strikes)))
            }
            // No ticket is ever given out for an open breaker's epoch.
            (State::Open, _) => return None,
        };
        self.swap(packed, next).is_ok().then_some(next.state)
    }

    /// Takes the probe that got `ticket` back: how it ended says nothing. The breaker is open still, and the next request is the
    /// probe.
    pub fn retry_probe(&self, ticket: Ticket) {
        let packed = self.word.load(Ordering::Acquire);
        let word = Word::unpack(packed);
        if word.epoch == ticket.epoch && word.state == State::HalfOpen {
            // If it fails, somebody else has changed the state meanwhile.
            let _ = self.swap(packed, word.next(State::Open, word.strikes, Moment::ORIGIN));
        }
    }

    /// What the breaker is doing. An open one stays so until a request asks after its time is over.
    #[must_use]
    pub fn state(&self) -> State {
        Word::unpack(self.word.load(Ordering::Acquire)).state
    }

    /// When the next probe may pass, at the latest; `None` while the breaker is closed. Takes no probe.
    #[must_use]
    pub fn next_probe(&self) -> Option<Moment> {
        let word = Word::unpack(self.word.load(Ordering::Acquire));
        (word.state != State::Closed).then(|| word.until())
    }

    /// Puts another policy in force. The state stays; an open time that already runs keeps its end, because callers
    /// were told it. Another window starts counting again.
    pub fn set_policy(&self, policy: BreakerPolicy) {
        let old = self.policy.swap(Arc::new(policy));
        if old.window != policy.window {
            self.window.clear();
        }
    }

    /// Counts a result of the closed breaker; true if it is one failure too many.
    fn trips(&self, outcome: Outcome, policy: &BreakerPolicy, now: Moment) -> bool {
        let recent = self.window.count(outcome, policy.window, now);
        if outcome == Outcome::Success {
            // Reading first keeps the cache line shared while all goes well.
            if self.failures_in_a_row.load(Ordering::Relaxed) != 0 {
                self.failures_in_a_row.store(0, Ordering::Relaxed);
            }
            return false;
        }
        let too_many_in_a_row = policy.consecutive != 0
            && self.failures_in_a_row.fetch_add(1, Ordering::Relaxed).saturating_add(1) >= policy.consecutive;
        let too_large_a_share = policy.error_permille != 0
            && recent.total >= u64::from(policy.min_samples)
            && recent.failures * 1000 >= u64::from(policy.error_permille) * recent.total;
        too_many_in_a_row || too_large_a_share
    }

    fn forget(&self) {
        self.window.clear();
        self.failures_in_a_row.store(0, Ordering::Relaxed);
    }

    fn swap(&self, from: u64, to: Word) -> Result<(), Word> {
        self.word
            .compare_exchange(from, to.pack(), Ordering::AcqRel, Ordering::Acquire)
            .map(drop)
            .map_err(Word::unpack)
    }
}

/// How long the breaker stays open after `strikes` failed probes.
fn open_time(policy: &BreakerPolicy, strikes: u64) -> Duration {
    let doublings = u32::try_from(strikes).unwrap_or(u32::MAX);
    let factor = 1_u32.checked_shl(doublings).unwrap_or(u32::MAX);
    policy.open_for.saturating_mul(factor).min(policy.open_cap.max(policy.open_for))
}

const EPOCH_BITS: u32 = 16;
const STRIKE_BITS: u32 = 5;
const UNTIL_BITS: u32 = 41;
const MAX_STRIKES: u64 = (1 << STRIKE_BITS) - 1;
const _: () = assert!(2 + EPOCH_BITS + STRIKE_BITS + UNTIL_BITS == 64);

/// The state of a breaker, unpacked.
#[derive(Clone, Copy, Debug)]
struct Word {
    state: State,
    /// Counts changes of state. It wraps; a ticket would have to outlive 65,536 changes to be taken for a fresh one.
    epoch: u64,
    /// Probes that failed since it opened.
    strikes: u64,
    /// In milliseconds (69 years fit): open until then, or the probe given up then. No meaning while closed.
    until_millis: u64,
}

impl Word {
    const START: Self = Self { state: State::Closed, epoch: 0, strikes: 0, until_millis: 0 };

    fn next(self, state: State, strikes: u64, until: Moment) -> Self {
        // Rounded up: a caller told to come back then must not be early.
        let until_millis = until.as_nanos().div_ceil(1_000_000).min((1 << UNTIL_BITS) - 1);
        Self { state, epoch: (self.epoch + 1) % (1 << EPOCH_BITS), strikes, until_millis }
    }

    fn until(self) -> Moment {
        Moment::ORIGIN.after(Duration::from_millis(self.until_millis))
    }

    /// The answer that changes nothing.
    fn answer(self, now: Moment) -> Admit {
        match self.state {
            State::Closed => Admit::Pass(Ticket { epoch: self.epoch }),
            State::Open | State::HalfOpen => Admit::Open { retry_after: self.until().since(now) },
        }
    }

    fn pack(self) -> u64 {
        let state = match self.state {
            State::Closed => 0,
            State::Open => 1,
            State::HalfOpen => 2,
        };
        ((state << EPOCH_BITS | self.epoch) << STRIKE_BITS | self.strikes) << UNTIL_BITS | self.until_millis
    }

    fn unpack(packed: u64) -> Self {
        let field = |shift: u32, bits: u32| packed >> shift & ((1 << bits) - 1);
        let state = match field(UNTIL_BITS + STRIKE_BITS + EPOCH_BITS, 2) {
            0 => State::Closed,
            1 => State::Open,
            _ => State::HalfOpen,
        };
        Self {
            state,
            epoch: field(UNTIL_BITS + STRIKE_BITS, EPOCH_BITS),
            strikes: field(UNTIL_BITS, STRIKE_BITS),
            until_millis: field(0, UNTIL_BITS),
        }
    }
}

#[cfg(test)]
mod tests;
