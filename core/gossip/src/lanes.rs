//! What a connection's writer sends next: control first, then publications and objects four bytes to one, and
//! publications fairly between topics.

use std::collections::{BTreeMap, VecDeque};

/// How many bytes of publications are sent for each byte of objects, while there are both.
pub const GOSSIP_PER_BULK: i64 = 4;

/// How many bytes a topic may send before it is another one's turn.
const QUANTUM: u32 = 4096;

/// The most bytes of objects at a time that publications are given back fourfold.
const BULK_DEBT_MAX: i64 = 64 * 1024;

/// What waits to be sent on one connection. `K` tells flows apart (topics), `T` is what is sent.
///
/// Objects do not wait here: they are pulled a chunk at a time, when [`Lanes::next`] says so.
#[derive(Debug)]
pub struct Lanes<K, T> {
    control: VecDeque<T>,
    control_max: usize,
    flows: Vec<Flow<K, T>>,
    places: BTreeMap<K, usize>,
    /// Places of the flows that have something, the next one first.
    turns: VecDeque<usize>,
    free: Vec<usize>,
    waiting: usize,
    gossip_max: usize,
    full: WhenFull,
    /// Bytes of publications sent, less four times those of objects.
    balance: i64,
}

/// What happens to a publication that finds the lane full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhenFull {
    /// The new publication is rejected.
    RejectNew,
    /// The oldest of the topic with the most waiting is evicted.
    DropOldest,
}

/// The result of queueing a publication.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Pushed<T> {
    /// The publication is queued.
    Queued,
    /// It waits, and this one does not any more.
    Shed(T),
    /// The queue is full; the publication is returned.
    Refused(T),
}

/// The next item to send.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next<T> {
    /// A control item, which goes before publications.
    Control(T),
    /// A publication or announcement.
    Gossip(T),
    /// A chunk of some object, to be reported with [`Lanes::bulk_sent`].
    Bulk,
}

#[derive(Debug)]
struct Flow<K, T> {
    key: K,
    waiting: VecDeque<(T, u32)>,
    deficit: u32,
}

impl<K: Ord + Clone, T> Lanes<K, T> {
    /// Lanes with so much room, in frames.
    #[must_use]
    pub fn new(control_max: usize, gossip_max: usize, full: WhenFull) -> Self {
        Self {
            control: VecDeque::new(),
            control_max,
            flows: Vec::new(),
            places: BTreeMap::new(),
            turns: VecDeque::new(),
            free: Vec::new(),
            waiting: 0,
            gossip_max,
            full,
            balance: 0,
        }
    }

    /// Returns the number of queued publications.
    #[must_use]
    pub fn gossip_len(&self) -> usize {
        self.waiting
    }

    /// Control frames that wait.
    #[must_use]
    pub fn control_len(&self) -> usize {
        self.control.len()
    }

    /// Returns true if nothing is queued.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.control.is_empty() && self.waiting == 0
    }

    /// A control frame is to be sent.
    ///
    /// # Errors
    /// The frame itself if there is no room.
    pub fn push_control(&mut self, item: T) -> Result<(), T> {
        if self.control.len() >= self.control_max {
            return Err(item);
        }
        self.control.push_back(item);
        Ok(())
    }

    /// A publication of `bytes` is to be sent.
    pub fn push_gossip(&mut self, key: &K, item: T, bytes: u32) -> Pushed<T> {
        let is_full = self.waiting >= self.gossip_max;
        let shed = if is_full && self.full == WhenFull::DropOldest { self.drop_oldest() } else { None };
        if is_full && shed.is_none() {
            return Pushed::Refused(item);
        }
        let at = self.flow(key);
        self.flows[at].waiting.push_back((item, bytes));
        self.waiting += 1;
        shed.map_or(Pushed::Queued, Pushed::Shed)
    }

    /// What is to be sent now. `bulk` says whether a chunk of some object could be.
    pub fn next(&mut self, bulk: bool) -> Option<Next<T>> {
        if let Some(item) = self.control.pop_front() {
            return Some(Next::Control(item));
        }
        if !bulk {
            // A lane that has nothing to send leaves no claim behind.
            self.balance = self.balance.min(0);
        } else if self.waiting == 0 || self.balance >= 0 {
            return Some(Next::Bulk);
        }
        self.next_gossip().map(Next::Gossip)
    }

    /// So many bytes of an object were sent.
    pub fn bulk_sent(&mut self, bytes: u32) {
        let floor = -GOSSIP_PER_BULK * BULK_DEBT_MAX;
        self.balance = (self.balance - GOSSIP_PER_BULK * i64::from(bytes)).max(floor);
    }

    /// Takes out everything that waits, control first.
    pub fn drain(&mut self) -> impl Iterator<Item = T> + '_ {
        std::iter::from_fn(move || self.control.pop_front().or_else(|| self.next_gossip()))
    }

    /// Deficit round robin: the flow whose turn it is sends until its turn's bytes are used up.
    fn next_gossip(&mut self) -> Option<T> {
        loop {
            let at = *self.turns.front()?;
            let flow = &mut self.flows[at];
            let bytes = flow.waiting.front().map(|(_, bytes)| *bytes)?;
            if flow.deficit >= bytes || self.turns.len() == 1 {
                flow.deficit = flow.deficit.saturating_sub(bytes);
                return self.take_front(at);
            }
            flow.deficit = flow.deficit.saturating_add(QUANTUM);
            self.turns.rotate_left(1);
        }
    }

    fn take_front(&mut self, at: usize) -> Option<T> {
        let (item, bytes) = self.flows[at].waiting.pop_front()?;
        self.waiting -= 1;
        self.balance = self.balance.saturating_add(i64::from(bytes));
        self.retire_if_empty(at);
        Some(item)
    }

    fn drop_oldest(&mut self) -> Option<T> {
        let longest = self.turns.iter().copied().max_by_key(|at| self.flows[*at].waiting.len())?;
        let (item, _) = self.flows[longest].waiting.pop_front()?;
        self.waiting -= 1;
        self.retire_if_empty(longest);
        Some(item)
    }

    /// A flow that empties loses its turn and what was left of it.
    fn retire_if_empty(&mut self, at: usize) {
        let flow = &mut self.flows[at];
        if flow.waiting.is_empty() {
            flow.deficit = 0;
            self.places.remove(&flow.key);
            self.turns.retain(|turn| *turn != at);
            self.free.push(at);
        }
    }

    fn flow(&mut self, key: &K) -> usize {
        if let Some(at) = self.places.get(key) {
            return *at;
        }
        let at = match self.free.pop() {
            Some(at) => {
                self.flows[at].key = key.clone();
                at
            }
            None => {
                self.flows.push(Flow { key: key.clone(), waiting: VecDeque::new(), deficit: 0 });
                self.flows.len() - 1
            }
        };
        self.places.insert(key.clone(), at);
        self.turns.push_back(at);
        at
    }
}
