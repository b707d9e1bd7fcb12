//! One gateway's part of a limit that several gateways share.
//!
//! The state of a shared limit, one theoretical arrival time, is kept in a store. A gateway never asks the store for one
//! request. It leases requests ("tokens") in batches, in the background, and gives out what it has:
//!
//! 1. **Stock**: tokens that it has leased. They end [`LIFETIME`] after they were asked for.
//! 2. **Credit**: without stock, up to its even part of the burst, `⌈burst / gateways⌉`. What it gave out on credit is a
//!    debt, and the next tokens that it leases pay it first.
//! 3. **Last share**: if the store has not answered for [`PATIENCE`], the gateway is *cut off*, and judges requests by a
//!    rate of its own: as many as it was leased in a recent second, and at least its even part of the rate.
//! 4. Otherwise the limit is used up, and the request is refused.
//!
//! A gateway leases ahead what it needs for about [`AHEAD_FOR`], going by its recent use. A limit that is seldom used is
//! not leased ahead at all: it is used on credit, and the debt is paid.
//!
//! # The worst overshoot
//!
//! Of a limit with rate `r` and burst `B`, `n` gateways together let pass in any window of `t` at most
//!
//! ```text
//! B + r·t                       the limit itself
//!   + r·LIFETIME                tokens that were leased before the window began
//!   + Σ cᵢ                      credit; cᵢ = ⌈B/n⌉, or B until gateway i has heard from the store how many there are
//!   + Σ (cᵢ + sᵢ·dᵢ)            for each time d that gateway i was cut off; sᵢ ≤ r is its last share
//!   + Σ cᵢ                      once more for each gateway that was restarted
//!   + B                         for each time that the store lost its data
//! ```
//!
//! Proof: the store gives out at most `B + r·(t + LIFETIME)` tokens from [`LIFETIME`] before the window to its end, and all
//! that are spent in the window are among them. Each request that is not paid with a token is on credit, of which a gateway
//! has at most `cᵢ` that is not paid, or is judged by the last share, which is a GCRA with the rate `sᵢ` and the burst `cᵢ`.
//! If all gateways lose the store at once, their shares add up to about `2·r` at most: what each was leased is a part of
//! `r`, and so is the even part. The test `lease` holds the formula against simulated gateways and stores.

use std::time::Duration;

use types::Moment;

use crate::gcra::{Exhausted, Grant, Passed, Rate};

/// For how long leased tokens may be used, from when they were asked for.
pub const LIFETIME: Duration = Duration::from_millis(500);
/// How long a gateway waits for an answer of the store before it goes by its last share.
pub const PATIENCE: Duration = Duration::from_millis(100);
/// For how long a gateway leases ahead.
const AHEAD_FOR: Duration = Duration::from_millis(200);
/// A debt that is small is paid so long after the last question.
const PAY_AFTER: Duration = Duration::from_secs(1);
/// The shortest and the longest time for which a limit that is used up is not asked for again.
const HOLD: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));
/// The period over which a share is measured.
const SHARE_OVER: Duration = Duration::from_secs(1);
/// For how long a fleet counts as large as it was, though the store names fewer gateways.
const SHRINKS_AFTER: Duration = Duration::from_secs(30);
/// The most gateways that are counted.
const MAX_GATEWAYS: u32 = 10_000;

/// One gateway's part of one limit. Who shares it between threads puts it behind a lock.
#[derive(Debug)]
pub struct Lease {
    rate: Rate,
    /// Tokens of the last batch, and what is left of earlier ones, which is used first.
    fresh: Batch,
    older: Batch,
    /// Requests that were given out on credit and are not paid yet.
    debt: u32,
    /// Requests since the store was last asked, refused ones included, and when the first and the last one were.
    demand: u32,
    demand_since: Moment,
    used_at: Moment,
    /// How many tokens are kept in stock.
    ahead: u32,
    /// How many tokens the last question was for, and when it was asked.
    wanted: u32,
    asked_at: Moment,
    /// Since when the store owes an answer.
    waits_since: Option<Moment>,
    /// Until when the limit is not asked for, because it was used up.
    hold_until: Moment,
    /// When the store has another token, going by its last answer.
    next_at: Moment,
    /// How many tokens the store had left.
    left: u32,
    /// The state of the rate that is used while the gateway is cut off.
    own_tat: Moment,
    leased: Recent,
}

/// Tokens that end together.
#[derive(Clone, Copy, Debug, Default)]
struct Batch {
    tokens: u32,
    until: Moment,
}

/// A question to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The limit as it is in force at this gateway.
    pub rate: Rate,
    /// How many tokens are wanted; at least 1.
    pub tokens: u32,
}

impl Lease {
    /// The part of a gateway that has not used the limit yet.
    #[must_use]
    pub fn new(rate: &Rate) -> Self {
        Self {
            rate: *rate,
            fresh: Batch::default(),
            older: Batch::default(),
            debt: 0,
            demand: 0,
            demand_since: Moment::ORIGIN,
            used_at: Moment::ORIGIN,
            ahead: 0,
            wanted: 0,
            asked_at: Moment::ORIGIN,
            waits_since: None,
            hold_until: Moment::ORIGIN,
            next_at: Moment::ORIGIN,
            left: rate.burst(),
            own_tat: Moment::ORIGIN,
            leased: Recent::default(),
        }
    }

    /// Judges one request, in a fleet of so many gateways. It never waits: what has to be asked for is asked for later, see
    /// [`Lease::is_urgent`].
    ///
    /// # Errors
    /// [`Exhausted`] if nothing can be given out now.
    pub fn check(&mut self, rate: &Rate, gateways: u32, now: Moment) -> Result<Passed, Exhausted> {
        self.rate = *rate;
        if self.demand == 0 {
            self.demand_since = now;
        }
        (self.demand, self.used_at) = (self.demand.saturating_add(1), now);
        self.drop_expired(now);
        let credit = credit(rate, gateways);
        if self.take_token() || self.take_credit(credit) {
            return Ok(self.passed(credit, now));
        }
        if self.is_cut_off(now) {
            let passed = self.share(gateways).check(self.own_tat, now)?;
            self.own_tat = passed.tat;
            return Ok(passed);
        }
        // The store may have a token earlier than that; it is asked again at most that much later.
        Err(Exhausted { wait: self.next_at.since(now).max(HOLD.0) })
    }

    /// Gives back a request that passed and then was not used.
    pub fn refund(&mut self, gateways: u32, now: Moment) {
        self.drop_expired(now);
        if self.debt > 0 {
            self.debt -= 1;
        } else if self.fresh.tokens > 0 {
            self.fresh.tokens += 1;
        } else if self.is_cut_off(now) {
            self.own_tat = self.share(gateways).refund(self.own_tat);
        }
    }

    /// Whether the store should be asked at once: a quarter of the credit is used, or half of the stock. Not while it owes
    /// an answer, nor soon after it had nothing.
    #[must_use]
    pub fn is_urgent(&self, gateways: u32, now: Moment) -> bool {
        let is_due = self.waits_since.is_none() && now >= self.hold_until;
        let is_in_debt = u64::from(self.debt) * 4 >= u64::from(credit(&self.rate, gateways));
        is_due && (is_in_debt || u64::from(self.stock()) * 2 < u64::from(self.ahead))
    }

    /// Notes that the store will be asked. If it has not answered [`PATIENCE`] after the first such note, the gateway is cut
    /// off.
    pub fn waits(&mut self, now: Moment) {
        self.waits_since.get_or_insert(now);
    }

    /// Whether the store owes an answer, or is about to be asked.
    #[must_use]
    pub const fn is_waiting(&self) -> bool {
        self.waits_since.is_some()
    }

    /// Whether the limit was not used lately.
    #[must_use]
    pub fn is_idle(&self, now: Moment) -> bool {
        now.since(self.used_at) >= PAY_AFTER
    }

    /// Whether a debt has waited long enough to be paid, however small it is.
    #[must_use]
    pub fn is_overdue(&self, now: Moment) -> bool {
        self.debt > 0 && now >= self.hold_until && now.since(self.asked_at) >= PAY_AFTER
    }

    /// What to ask the store for now; `None` if nothing is needed.
    pub fn ask(&mut self, now: Moment) -> Option<Ask> {
        self.drop_expired(now);
        self.ahead = self.expected(now);
        self.wanted = self.debt.saturating_add(self.ahead.saturating_sub(self.stock()));
        (self.demand, self.asked_at) = (0, now);
        if self.wanted == 0 {
            self.waits_since = None;
            return None;
        }
        self.waits(now);
        Some(Ask { rate: self.rate, tokens: self.wanted })
    }

    /// Takes the answer to a question that was asked at `asked`. Of a grant, the state is of no use here.
    pub fn answer(&mut self, grant: &Grant, asked: Moment, now: Moment) {
        self.waits_since = None;
        self.left = grant.left;
        self.leased.add(grant.tokens, now);
        let paid = self.debt.min(grant.tokens);
        self.debt -= paid;
        let fresh = grant.tokens - paid;
        if fresh > 0 {
            self.older = self.older.with(self.fresh);
            self.fresh = Batch { tokens: fresh, until: asked.after(LIFETIME) };
        }
        let is_short = grant.tokens < self.wanted;
        let wait = grant.wait.min(self.rate.interval());
        self.hold_until = if is_short { now.after(wait.clamp(HOLD.0, HOLD.1)) } else { now };
        self.next_at = if is_short { now.after(wait) } else { now };
    }

    /// Whether the store has owed an answer for too long.
    #[must_use]
    pub fn is_cut_off(&self, now: Moment) -> bool {
        self.waits_since.is_some_and(|since| now.since(since) >= PATIENCE)
    }

    /// Whether nobody could tell the difference between this and a new one, but for tokens that end soon anyway.
    #[must_use]
    pub fn is_settled(&self, now: Moment) -> bool {
        self.debt == 0 && self.waits_since.is_none() && self.own_tat <= now && self.hold_until <= now
    }

    /// The rate by which requests are judged while the gateway is cut off: what it was leased in a recent second, at least
    /// its even part and at most the whole rate.
    #[must_use]
    pub fn share(&self, gateways: u32) -> Rate {
        let whole = nanos(self.rate.interval());
        let even = whole.saturating_mul(u64::from(gateways.clamp(1, MAX_GATEWAYS)));
        let lately = nanos(SHARE_OVER).checked_div(u64::from(self.leased.last)).unwrap_or(u64::MAX);
        Rate::with(lately.clamp(whole, even), credit(&self.rate, gateways))
    }

    /// How many tokens the next [`AHEAD_FOR`] will take, going by the demand since the last question; one request alone says
    /// nothing. It grows by half at a time, so that a short burst does not lease what others could use.
    fn expected(&self, now: Moment) -> u32 {
        let (more, elapsed) = (self.demand.saturating_sub(1), now.since(self.demand_since));
        let lately = u128::from(more) * AHEAD_FOR.as_nanos() / elapsed.as_nanos().max(1);
        let at_rate = AHEAD_FOR.as_nanos() / self.rate.interval().as_nanos().max(1);
        let most = lately.min(at_rate).min(u128::from(self.rate.burst() / 2));
        u32::try_from(most).unwrap_or(u32::MAX).min(more.saturating_mul(3))
    }

    fn stock(&self) -> u32 {
        self.older.tokens.saturating_add(self.fresh.tokens)
    }

    fn drop_expired(&mut self, now: Moment) {
        for batch in [&mut self.older, &mut self.fresh] {
            if now >= batch.until {
                *batch = Batch::default();
            }
        }
    }

    fn take_token(&mut self) -> bool {
        let batch = if self.older.tokens > 0 { &mut self.older } else { &mut self.fresh };
        let left = batch.tokens.checked_sub(1);
        batch.tokens = left.unwrap_or(0);
        left.is_some()
    }

    fn take_credit(&mut self, credit: u32) -> bool {
        let has_credit = self.debt < credit;
        self.debt += u32::from(has_credit);
        has_credit
    }

    /// What a client is told that got through: what is left here and was left at the store.
    fn passed(&self, credit: u32, now: Moment) -> Passed {
        let here = self.stock().saturating_add(credit.saturating_sub(self.debt));
        let remaining = here.saturating_add(self.left).min(self.rate.burst() - 1);
        let whole_in = self.rate.interval().saturating_mul(self.rate.burst() - remaining);
        Passed { tat: now.after(whole_in), remaining, whole_in }
    }
}

/// How many requests a gateway may give out before it has leased any: its even part of the burst.
fn credit(rate: &Rate, gateways: u32) -> u32 {
    rate.burst().div_ceil(gateways.clamp(1, MAX_GATEWAYS))
}

fn nanos(duration: Duration) -> u64 {
    u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)
}

impl Batch {
    /// Both together, until the first of them ends.
    fn with(self, later: Self) -> Self {
        match (self.tokens, later.tokens) {
            (0, _) => later,
            (_, 0) => self,
            (a, b) => Self { tokens: a.saturating_add(b), until: self.until.min(later.until) },
        }
    }
}

/// How many tokens were leased in the last whole period in which there were answers.
#[derive(Clone, Copy, Debug, Default)]
struct Recent {
    since: Moment,
    current: u32,
    last: u32,
}

impl Recent {
    fn add(&mut self, tokens: u32, now: Moment) {
        let age = now.since(self.since);
        if age >= SHARE_OVER {
            self.last = if age < SHARE_OVER * 2 { self.current } else { 0 };
            (self.since, self.current) = (now, 0);
        }
        self.current = self.current.saturating_add(tokens);
    }
}

/// How many gateways there are, as the store tells it. A store that has lost its data names too few at first, so a smaller
/// number counts only after a while.
#[derive(Clone, Copy, Debug)]
pub struct FleetSize {
    size: u32,
    confirmed: Moment,
}

impl Default for FleetSize {
    fn default() -> Self {
        Self { size: 1, confirmed: Moment::ORIGIN }
    }
}

impl FleetSize {
    /// Takes the number that the store named. Returns the number to go by.
    pub fn hear(&mut self, gateways: u32, now: Moment) -> u32 {
        let gateways = gateways.clamp(1, MAX_GATEWAYS);
        if gateways >= self.size || now.since(self.confirmed) >= SHRINKS_AFTER {
            *self = Self { size: gateways, confirmed: now };
        }
        self.size
    }
}
