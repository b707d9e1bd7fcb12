//! Which gateway holds how many slots: the part that all gateways share.
//!
//! The sum of what is held never exceeds the slots of the upstream, whatever gateways believe. A gateway that does not come
//! back loses its slots after [`Held::LASTS`]. A gateway that cannot reach the book keeps what it has; so when the book comes
//! back after a while, or without its data, nobody gets more than it has until all have had the time to come back.

use std::{collections::BTreeMap, time::Duration};

use types::Moment;

/// The slots of one gateway.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Held {
    /// The number of slots.
    pub slots: u32,
    /// When others may have them, unless the gateway has come back before.
    pub until: Moment,
}

impl Held {
    /// For how long slots are held without a word from their gateway.
    pub const LASTS: Duration = Duration::from_millis(1500);
}

/// The slots of an upstream, and who holds them.
#[derive(Clone, Debug)]
pub struct SlotBook {
    slots: u32,
    held: BTreeMap<u64, Held>,
    /// When the last gateway came, and since when they have been coming without a long pause.
    last: Moment,
    since: Moment,
}

impl SlotBook {
    /// A book of so many slots that nobody holds.
    #[must_use]
    pub const fn new(slots: u32) -> Self {
        Self { slots, held: BTreeMap::new(), last: Moment::ORIGIN, since: Moment::ORIGIN }
    }

    /// Gives a gateway that has `has` slots as many as it should have, as far as others do not hold them; it gives back at
    /// once what it has beyond that. Returns how many it holds from now on.
    pub fn renew(&mut self, gateway: u64, has: u32, target: u32, now: Moment) -> u32 {
        if self.last == Moment::ORIGIN || now.since(self.last) >= Held::LASTS {
            self.since = now;
        }
        self.last = now;
        // Until all that may have slots have said so, none gets more.
        let target = if now.since(self.since) < Held::LASTS { target.min(has) } else { target };
        self.held.retain(|_, held| now < held.until);
        self.held.remove(&gateway);
        let slots = target.min(self.slots - self.taken());
        self.held.insert(gateway, Held { slots, until: now.after(Held::LASTS) });
        slots
    }

    /// The slots that are held, those of gateways that have not come back included until they end.
    #[must_use]
    pub fn taken(&self) -> u32 {
        self.held.values().map(|held| held.slots).sum()
    }
}
