//! First in, first out over small dense indices, with O(1) removal from the middle.

/// A doubly linked list whose nodes live in a vector, at the index their owner was given elsewhere. Grows to the
/// highest index seen.
#[derive(Debug)]
pub(crate) struct Order<T> {
    nodes: Vec<Option<Node<T>>>,
    first: Option<usize>,
    last: Option<usize>,
    len: usize,
}

#[derive(Debug)]
struct Node<T> {
    value: T,
    before: Option<usize>,
    after: Option<usize>,
}

impl<T> Order<T> {
    pub(crate) fn new() -> Self {
        Self { nodes: Vec::new(), first: None, last: None, len: 0 }
    }

    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// `index` must not be in the list; if it is, it moves to the end and its old value is lost.
    pub(crate) fn push_back(&mut self, index: usize, value: T) {
        self.remove(index);
        if self.nodes.len() <= index {
            self.nodes.resize_with(index + 1, || None);
        }
        let before = self.last.replace(index);
        match before.and_then(|before| self.node(before)) {
            Some(node) => node.after = Some(index),
            None => self.first = Some(index),
        }
        self.nodes[index] = Some(Node { value, before, after: None });
        self.len += 1;
    }

    pub(crate) fn pop_front(&mut self) -> Option<T> {
        self.remove(self.first?)
    }

    /// Looks at every value, first to last.
    pub(crate) fn each(&self, mut look: impl FnMut(&T)) {
        let mut next = self.first;
        while let Some(node) = next.and_then(|index| self.nodes.get(index)?.as_ref()) {
            look(&node.value);
            next = node.after;
        }
    }

    pub(crate) fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        self.node(index).map(|node| &mut node.value)
    }

    pub(crate) fn remove(&mut self, index: usize) -> Option<T> {
        let Node { value, before, after } = self.nodes.get_mut(index)?.take()?;
        match before.and_then(|before| self.node(before)) {
            Some(node) => node.after = after,
            None => self.first = after,
        }
        match after.and_then(|after| self.node(after)) {
            Some(node) => node.before = before,
            None => self.last = before,
        }
        self.len -= 1;
        Some(value)
    }

    fn node(&mut self, index: usize) -> Option<&mut Node<T>> {
        self.nodes.get_mut(index)?.as_mut()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Order;
    use proptest::prelude::*;

    #[test]
    fn removal_from_either_end_and_the_middle_keeps_the_order() {
        let mut order = Order::new();
        for (index, value) in [(4, 'a'), (0, 'b'), (2, 'c'), (1, 'd')] {
            order.push_back(index, value);
        }
        assert_eq!(order.remove(2), Some('c'));
        assert_eq!(order.remove(4), Some('a'));
        assert_eq!(order.remove(1), Some('d'));
        assert_eq!(order.remove(1), None);
        order.push_back(2, 'e');
        assert_eq!([order.pop_front(), order.pop_front(), order.pop_front()], [Some('b'), Some('e'), None]);
        assert_eq!(order.len(), 0);
    }

    proptest! {
        #[test]
        fn it_behaves_like_a_vector_searched_by_index(steps in prop::collection::vec((0_usize..6, 0_u8..4), 0..80)) {
            let (mut order, mut naive) = (Order::new(), Vec::<(usize, u8)>::new());
            for (index, action) in steps {
                let at = naive.iter().position(|&(known, _)| known == index);
                if action < 2 {
                    at.map(|at| naive.remove(at));
                    naive.push((index, action));
                    order.push_back(index, action);
                } else if action == 2 {
                    prop_assert_eq!(order.remove(index), at.map(|at| naive.remove(at).1));
                } else {
                    let first = (!naive.is_empty()).then(|| naive.remove(0).1);
                    prop_assert_eq!(order.pop_front(), first);
                }
                prop_assert_eq!(order.len(), naive.len());
            }
        }
    }
}
