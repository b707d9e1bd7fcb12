//! How often one node may begin a session here. Each session begins with allowances that are whole, so a peer that came back all the
//! time would have no limits.

use std::hash::RandomState;

use quota::{Rate, ShardedBook};
use types::{Moment, NodeId};

use crate::allowance::Allowance;

/// Sessions that one node may begin in a second. A node whose sessions do not last pauses for two seconds before it dials again.
const PER_SECOND: u32 = 1;
/// Sessions that it may begin at once.
const AT_ONCE: u32 = 64;
/// Nodes that are counted.
const NODES: usize = 16_384;

/// The sessions that nodes have begun.
#[derive(Debug)]
pub(crate) struct Arrivals {
    rate: Option<Rate>,
    nodes: ShardedBook<NodeId, Allowance, RandomState>,
}

impl Default for Arrivals {
    fn default() -> Self {
        let rate = Rate::per_second(PER_SECOND, AT_ONCE).ok();
        Self { rate, nodes: ShardedBook::new(NODES, RandomState::new()) }
    }
}

impl Arrivals {
    /// Whether a node may begin another session now. One that there is no room to count may.
    pub(crate) fn admit(&self, node: NodeId, now: Moment) -> bool {
        let Some(rate) = &self.rate else { return true };
        let counted = self.nodes.get_or_insert(&node, now, Allowance::default);
        counted.map_or(true, |allowance| allowance.check(rate, now).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_node_that_comes_back_all_the_time_is_let_in_once_a_second() {
        let (arrivals, start) = (Arrivals::default(), Moment::ORIGIN.after(Duration::from_secs(9)));
        let node = |number| NodeId::new([number; 32]);
        let admitted = |now| (0..1000).filter(|_| arrivals.admit(node(1), now)).count();
        assert_eq!(admitted(start), AT_ONCE as usize);
        assert!(arrivals.admit(node(2), start), "another one is not affected");
        assert_eq!(admitted(start.after(Duration::from_secs(10))), 10);
    }
}
