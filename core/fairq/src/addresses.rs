//! What each address of a tenant has in the queue, so that none keeps the others from their tenant's slots.

use std::collections::HashMap;

/// Tickets that wait and slots that were given through the queue, by address. No longer than these together.
#[derive(Debug, Default)]
pub(crate) struct Addresses {
    counts: HashMap<u64, u32>,
    all: u32,
}

impl Addresses {
    /// A ticket of this address comes to wait. Whether its address has more than half of what its tenant has, this one
    /// included, and more than one.
    pub(crate) fn enter(&mut self, address: Option<u64>) -> bool {
        let Some(address) = address else { return false };
        let count = self.counts.entry(address).or_default();
        *count += 1;
        self.all += 1;
        *count > 1 && u64::from(*count) * 2 > u64::from(self.all)
    }

    /// Whether all that the tenant has in the queue is of one address.
    pub(crate) fn is_one(&self) -> bool {
        self.counts.len() <= 1
    }

    /// A ticket of this address gave up, or its slot came back.
    pub(crate) fn leave(&mut self, address: Option<u64>) {
        let Some(address) = address else { return };
        if let Some(count) = self.counts.get_mut(&address) {
            *count -= 1;
            self.all -= 1;
            if *count == 0 {
                self.counts.remove(&address);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_ahead_until_it_has_more_than_half() {
        let mut addresses = Addresses::default();
        let entered = [1, 1, 2, 2, 3, 1, 1, 1].map(|address| addresses.enter(Some(address)));
        assert_eq!(entered, [false, true, false, false, false, false, true, true]);
        assert!(!addresses.enter(None));
        (0..4).for_each(|_| addresses.leave(Some(1)));
        assert!(!addresses.enter(Some(1)));
        [1, 1, 2, 2, 3].iter().for_each(|address| addresses.leave(Some(*address)));
        assert_eq!((addresses.counts.len(), addresses.all), (0, 0));
    }
}
