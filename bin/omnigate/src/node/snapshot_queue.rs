//! Which announced snapshots are fetched next: few at a time, nodes in turn, so that one whose rows do not come keeps nobody
//! else's from being counted.

use std::collections::{BTreeMap, VecDeque};

use types::{NodeId, ObjectId};

/// Snapshots whose rows are fetched at a time.
pub(super) const AT_ONCE: usize = 8;
/// Snapshots of one node that are fetched at once.
const AT_ONCE_OF_ONE: usize = 2;
/// Snapshots of one node that wait. One too many is passed over, and taken when it is announced again.
const WAITING_OF_ONE: usize = 16;

/// A snapshot that was announced, whose seal is good.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Announced {
    /// What the announcement is remembered by.
    pub(super) word: ObjectId,
    /// The object that holds the rows of the snapshot.
    pub(super) object: ObjectId,
    /// The node's word for them.
    pub(super) seal: Vec<u8>,
}

/// The snapshots that wait and those that are being fetched. Bounded by the nodes that count.
#[derive(Debug, Default)]
pub(super) struct SnapshotQueue {
    nodes: BTreeMap<NodeId, Line>,
    /// Number of snapshots that are being fetched.
    under_way: usize,
    /// The node that was served last.
    last: Option<NodeId>,
}

/// The snapshots of one node.
#[derive(Debug, Default)]
struct Line {
    waiting: VecDeque<Announced>,
    under_way: Vec<ObjectId>,
}

impl SnapshotQueue {
    /// Whether an announcement waits or is being fetched.
    pub(super) fn has(&self, word: &ObjectId) -> bool {
        let in_line = |line: &Line| {
            line.under_way.contains(word) || line.waiting.iter().any(|waiting| waiting.word == *word)
        };
        self.nodes.values().any(in_line)
    }

    /// A node's snapshot is to be fetched. False if as many of that node wait as may.
    pub(super) fn add(&mut self, node: NodeId, announced: Announced) -> bool {
        let line = self.nodes.entry(node).or_default();
        let fits = line.waiting.len() < WAITING_OF_ONE;
        if fits {
            line.waiting.push_back(announced);
        }
        fits
    }

    /// The next one to fetch, if another may be fetched now: of the node after the one that was served last.
    pub(super) fn next(&mut self) -> Option<(NodeId, Announced)> {
        if self.under_way >= AT_ONCE {
            return None;
        }
        let is_due = |line: &Line| !line.waiting.is_empty() && line.under_way.len() < AT_ONCE_OF_ONE;
        let after = |node: &NodeId| self.last.is_none_or(|last| *node > last);
        let due = |(node, line): (&NodeId, &Line)| is_due(line).then_some(*node);
        let node = self.nodes.iter().filter(|(node, _)| after(node)).find_map(due);
        let node = node.or_else(|| self.nodes.iter().find_map(due))?;
        let line = self.nodes.get_mut(&node)?;
        let announced = line.waiting.pop_front()?;
        line.under_way.push(announced.word);
        self.under_way += 1;
        self.last = Some(node);
        Some((node, announced))
    }

    /// The rows of a node's snapshot have come, or will not.
    pub(super) fn ended(&mut self, node: NodeId, word: &ObjectId) {
        let Some(line) = self.nodes.get_mut(&node) else { return };
        let before = line.under_way.len();
        line.under_way.retain(|under_way| under_way != word);
        self.under_way -= before - line.under_way.len();
        if line.waiting.is_empty() && line.under_way.is_empty() {
            self.nodes.remove(&node);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u8) -> NodeId {
        NodeId::new([number; 32])
    }

    fn announced(node: u8, number: u8) -> Announced {
        let mut word = [node; 32];
        word[0] = number;
        Announced { word: ObjectId::new(word), object: ObjectId::new([number; 32]), seal: Vec::new() }
    }

    #[test]
    fn a_node_whose_rows_never_come_leaves_the_places_of_the_others() {
        let mut queue = SnapshotQueue::default();
        let fits = |queue: &mut SnapshotQueue, number| queue.add(node(1), announced(1, number));
        let taken = (0..40).filter(|number| fits(&mut queue, *number)).count();
        assert_eq!(taken, WAITING_OF_ONE);
        assert!(queue.add(node(2), announced(2, 0)));
        let fetched: Vec<_> = std::iter::from_fn(|| queue.next()).map(|(node, _)| node).collect();
        assert_eq!(fetched, [node(1), node(2), node(1)], "in turn, and no more of one than its share");
        queue.ended(node(2), &announced(2, 0).word);
        assert!(queue.add(node(2), announced(2, 1)));
        assert_eq!(queue.next(), Some((node(2), announced(2, 1))));
    }

    #[test]
    fn no_more_are_fetched_at_a_time_than_may_be_and_each_once() {
        let mut queue = SnapshotQueue::default();
        for number in 1..=9 {
            assert!(
                queue.add(node(number), announced(number, 0))
                    && queue.add(node(number), announced(number, 1))
            );
        }
        let first: Vec<_> = std::iter::from_fn(|| queue.next()).collect();
        assert_eq!(first.len(), AT_ONCE);
        assert!(first.iter().all(|(_, one)| queue.has(&one.word)));
        let mut all = first.clone();
        for (node, one) in &first {
            queue.ended(*node, &one.word);
            assert!(!queue.has(&one.word));
        }
        while let Some((node, one)) = queue.next() {
            queue.ended(node, &one.word);
            all.push((node, one));
        }
        all.sort_by_key(|(_, one)| one.word);
        all.dedup();
        assert_eq!((all.len(), queue.nodes.len(), queue.under_way), (18, 0, 0));
    }
}
