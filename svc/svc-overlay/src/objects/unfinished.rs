//! Objects that peers have begun to hand over: what they will take counts against the store before it has come.

use std::{collections::HashMap, sync::Arc};

use ron_kernel::lock::Ranked;
use types::NodeId;

use crate::locks;

/// One peer may have begun objects of this part of the store: one in so many. A single object always may.
const PEER_SHARE: u64 = 4;

/// The lengths of the objects that are on their way in.
#[derive(Debug)]
pub(super) struct Unfinished {
    /// Nothing else is locked under it.
    taken: Ranked<Taken>,
    /// Bytes that the store may hold.
    capacity: u64,
}

#[derive(Debug, Default)]
struct Taken {
    total: u64,
    /// By peer; one that has begun nothing is not in it.
    peers: HashMap<NodeId, u64>,
}

/// Room for one object, given back when this is dropped.
#[derive(Debug)]
pub(super) struct Reserved {
    all: Arc<Unfinished>,
    peer: NodeId,
    len: u64,
}

/// Why there is no room for an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NoRoom {
    /// All that peers have begun would not fit the store.
    Store,
    /// The peer has begun as much as one may.
    Peer,
}

impl Unfinished {
    /// For a store of so many bytes.
    pub(super) fn new(capacity: u64) -> Arc<Self> {
        Arc::new(Self { taken: Ranked::new(&locks::UNFINISHED, Taken::default()), capacity })
    }

    /// Room for an object of so many bytes from a peer.
    pub(super) fn reserve(self: &Arc<Self>, peer: NodeId, len: u64) -> Result<Reserved, NoRoom> {
        let mut taken = self.taken.lock();
        if taken.total.saturating_add(len) > self.capacity {
            return Err(NoRoom::Store);
        }
        let before = taken.peers.get(&peer).copied().unwrap_or(0);
        if before > 0 && before.saturating_add(len) > self.capacity / PEER_SHARE {
            return Err(NoRoom::Peer);
        }
        if len > 0 {
            taken.total += len;
            *taken.peers.entry(peer).or_default() += len;
        }
        Ok(Reserved { all: Arc::clone(self), peer, len })
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        let mut taken = self.all.taken.lock();
        taken.total -= self.len;
        if let Some(bytes) = taken.peers.get_mut(&self.peer) {
            *bytes -= self.len;
            if *bytes == 0 {
                taken.peers.remove(&self.peer);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(number: u8) -> NodeId {
        NodeId::new([number; 32])
    }

    #[test]
    fn what_one_peer_has_begun_leaves_room_for_others_and_comes_back() {
        let unfinished = Unfinished::new(100);
        let first = unfinished.reserve(node(1), 20).expect("room");
        assert_eq!(unfinished.reserve(node(1), 6).err(), Some(NoRoom::Peer));
        let other = unfinished.reserve(node(2), 60).expect("a single object may be larger than the share");
        assert_eq!(unfinished.reserve(node(3), 21).err(), Some(NoRoom::Store));
        drop(first);
        assert!(unfinished.reserve(node(1), 25).is_ok());
        drop(other);
        assert!(unfinished.taken.lock().peers.is_empty());
    }

    #[test]
    fn no_length_is_too_long_to_be_judged() {
        let unfinished = Unfinished::new(100);
        let _one = unfinished.reserve(node(1), 1).expect("room");
        assert_eq!(unfinished.reserve(node(1), u64::MAX).err(), Some(NoRoom::Store));
        assert!(unfinished.reserve(node(2), 0).is_ok());
    }
}
