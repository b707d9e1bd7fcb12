//! Who is connected: one session per peer, and which one stays if there are two.

use std::{collections::HashMap, sync::Arc};

use ron_kernel::{Scope, lock::Ranked, topology::LockSpec};
use tokio::sync::Notify;
use types::NodeId;

use crate::session::{CloseReason, Conn};

/// The lock of the index of peers.
pub(crate) const PEER_INDEX: LockSpec = LockSpec {
    name: "peer_index",
    rank: 20,
    doc: "the connected peers: changed when a session begins or ends, read by operators and dialers; held for one look-up",
};

/// The sessions of a node, by peer.
#[derive(Debug)]
pub(crate) struct Peers {
    me: NodeId,
    index: Ranked<Index>,
    changed: Notify,
}

#[derive(Debug, Default)]
struct Index {
    by_node: HashMap<NodeId, Entry>,
    /// Numbers that were given back, to be given again.
    free: Vec<u32>,
    next: u32,
}

#[derive(Clone, Debug)]
struct Entry {
    slot: u32,
    conn: Arc<Conn>,
}

/// A session has its place in the index.
#[derive(Debug)]
pub(crate) struct Joined {
    /// The peer's small number, its own until it leaves.
    pub(crate) slot: u32,
}

impl Peers {
    pub(crate) fn new(scope: &Scope, me: NodeId) -> Self {
        Self { me, index: scope.lock(&PEER_INDEX, Index::default()), changed: Notify::new() }
    }

    /// Gives a session its place. If the peer has one already, the connection that the lower node id dialled stays; of two
    /// dialled by the same node the newer one does, because that node has given up the older.
    ///
    /// # Errors
    /// The other session stays.
    pub(crate) fn join(&self, conn: &Arc<Conn>) -> Result<Joined, CloseReason> {
        let (slot, replaced) = {
            let mut index = self.index.lock();
            let replaced = match index.by_node.get(&conn.peer) {
                Some(present)
                    if present.conn.ending.reason().is_none() && !self.supersedes(conn, &present.conn) =>
                {
                    return Err(CloseReason::Duplicate);
                }
                _ => index.by_node.remove(&conn.peer),
            };
            let slot = index.free.pop().unwrap_or_else(|| {
                index.next += 1;
                index.next - 1
            });
            index.by_node.insert(conn.peer, Entry { slot, conn: Arc::clone(conn) });
            (slot, replaced)
        };
        self.changed.notify_waiters();
        if let Some(replaced) = replaced {
            replaced.conn.close(CloseReason::Duplicate);
        }
        Ok(Joined { slot })
    }

    fn supersedes(&self, newer: &Conn, present: &Conn) -> bool {
        let by_lower = |conn: &Conn| conn.dialled == (self.me < conn.peer);
        newer.dialled == present.dialled || by_lower(newer)
    }

    /// A session has ended, and nothing of it is left that goes by the number.
    pub(crate) fn leave(&self, conn: &Conn, joined: Joined) {
        {
            let mut index = self.index.lock();
            index.free.push(joined.slot);
            if index.by_node.get(&conn.peer).is_some_and(|entry| entry.conn.number == conn.number) {
                index.by_node.remove(&conn.peer);
            }
        }
        self.changed.notify_waiters();
    }

    /// The session with a peer.
    pub(crate) fn get(&self, node: &NodeId) -> Option<Arc<Conn>> {
        self.index.lock().by_node.get(node).map(|entry| Arc::clone(&entry.conn))
    }

    /// All sessions with the peers' small numbers, in no order.
    pub(crate) fn all(&self) -> Vec<(u32, Arc<Conn>)> {
        let index = self.index.lock();
        index.by_node.values().map(|entry| (entry.slot, Arc::clone(&entry.conn))).collect()
    }

    /// Publications that wait for all of them together. Four times a second, so without a list of them.
    pub(crate) fn queued(&self) -> usize {
        self.index.lock().by_node.values().map(|entry| entry.conn.outbox.queued()).sum()
    }

    /// Returns the number of connected peers.
    pub(crate) fn count(&self) -> usize {
        self.index.lock().by_node.len()
    }

    /// Resolves once there is no session with a peer.
    ///
    /// Cancel safe.
    pub(crate) async fn absent(&self, node: &NodeId) {
        loop {
            let mut changed = std::pin::pin!(self.changed.notified());
            changed.as_mut().enable();
            if self.get(node).is_none() {
                return;
            }
            changed.await;
        }
    }
}
