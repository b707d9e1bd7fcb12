//! Fair choice among a handful: the classes of the queue, and the two lanes of a class.

use crate::cost::Account;
use types::Moment;

/// One of the handful.
#[derive(Debug)]
pub(crate) struct Contender {
    pub(crate) account: Account,
    /// It was able to be served at the last choice, so its credit is alive.
    active: bool,
    /// It became able to be served without debt, and has not been served since: it goes first.
    fresh: bool,
}

/// One of the handful as it stands at a choice.
pub(crate) struct Standing<'a> {
    pub(crate) contender: &'a mut Contender,
    pub(crate) weight: u64,
    pub(crate) eligible: bool,
}

impl Contender {
    pub(crate) fn new(stamp: u64, now: Moment) -> Self {
        Self { account: Account::new(stamp, now), active: false, fresh: false }
    }

    /// Nothing of it waits any more: its credit dies.
    pub(crate) fn retire(&mut self) {
        self.active = false;
    }

    /// Records that the contender was served.
    pub(crate) fn served(&mut self) {
        self.fresh = false;
    }

    fn stand(&mut self, clock: u64, weight: u64, now: Moment) -> u64 {
        self.account.bound(clock);
        let standing = self.account.standing(weight, now);
        if self.active {
            return standing;
        }
        self.active = true;
        self.fresh = standing <= clock;
        if self.fresh {
            self.account.stamp += clock - standing;
        }
        standing.max(clock)
    }
}

/// Chooses the contender that has had the least for its weight, new ones without debt first, and sets the clock to
/// its position.
pub(crate) fn choose<'a>(
    clock: &mut u64,
    now: Moment,
    contenders: impl Iterator<Item = Standing<'a>>,
) -> Option<usize> {
    let mut best: Option<((bool, u64), usize)> = None;
    for (index, Standing { contender, weight, eligible }) in contenders.enumerate() {
        if !eligible {
            contender.retire();
            continue;
        }
        let standing = contender.stand(*clock, weight, now);
        let rank = (!contender.fresh, standing);
        if best.is_none_or(|(least, _)| rank < least) {
            best = Some((rank, index));
        }
    }
    let ((in_turn, standing), index) = best?;
    if in_turn {
        *clock = standing;
    }
    Some(index)
}
