//! How fast a shard takes publications in: as fast as most of those they are pushed to take them.
//!
//! One slow peer among many slows nobody down: its own box fills, and refuses. When most boxes fill, the node has more
//! than it can pass on, and whoever sends is slowed down instead.

/// Counts what is on its way to each peer.
#[derive(Debug)]
pub(super) struct Pace {
    /// So much on its way to a peer is much.
    high: u32,
    pushed: u32,
    pushed_to_busy: u32,
}

impl Pace {
    /// For peers to which at most `budget` publications of a topic are on their way.
    pub(super) fn new(budget: u32) -> Self {
        Self { high: (budget / 2).max(1), pushed: 0, pushed_to_busy: 0 }
    }

    /// How many publications to take in before looking.
    pub(super) fn slice(&self) -> usize {
        usize::try_from(self.high / 2).unwrap_or(1).clamp(1, 64)
    }

    /// A publication is pushed to a peer that so much is on its way to.
    pub(super) fn push(&mut self, on_the_way: u32) {
        self.pushed += 1;
        self.pushed_to_busy += u32::from(on_the_way >= self.high);
    }

    /// Whether most were pushed to peers that had much already, since it was last asked.
    pub(super) fn is_crowded(&mut self) -> bool {
        let crowded = self.pushed_to_busy * 2 > self.pushed;
        (self.pushed, self.pushed_to_busy) = (0, 0);
        crowded
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_busy_peer_among_many_is_no_crowd_and_most_of_them_are() {
        let mut pace = Pace::new(16);
        for peer in 0..50 {
            pace.push(if peer == 0 { 16 } else { 7 });
        }
        assert!(!pace.is_crowded());
        for peer in 0..50 {
            pace.push(if peer < 26 { 8 } else { 0 });
        }
        assert!(pace.is_crowded());
        assert!(!pace.is_crowded(), "asked anew");
    }
}
