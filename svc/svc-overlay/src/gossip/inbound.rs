//! What a reader gathers and hands over to the shards.

use std::sync::Arc;

use oap::{ErrorCode, Message, Topic};
use ron_kernel::queue::SendError;
use tokio::sync::OwnedSemaphorePermit;
use types::Moment;

use super::{GOSSIP_INGRESS, shard_of};
use crate::session::Conn;

/// Messages that are handed over at a time.
const BATCH: usize = 64;
/// When a refused peer should try again.
const RETRY_MS: u32 = 100;
/// The same while the node refuses all publications.
const SHED_RETRY_MS: u32 = 1000;

/// Messages of one peer for one shard.
#[derive(Debug)]
pub(super) struct Batch {
    pub(super) conn: Arc<Conn>,
    pub(super) messages: Vec<Message>,
    /// Time at which it was queued.
    pub(super) since: Moment,
    /// The peer may send as many more once this is dropped.
    pub(super) permits: Option<OwnedSemaphorePermit>,
}

/// The messages that a reader has collected for a shard.
#[derive(Debug)]
pub(crate) struct Inbound {
    shards: Box<[Vec<Message>]>,
    last: Option<(Topic, usize)>,
    count: usize,
}

impl Inbound {
    pub(super) fn new(shards: usize) -> Self {
        Self { shards: (0..shards).map(|_| Vec::new()).collect(), last: None, count: 0 }
    }

    /// Which shard a topic belongs to.
    pub(crate) fn shard_of(&mut self, topic: &Topic) -> usize {
        match &self.last {
            Some((last, shard)) if last == topic => *shard,
            _ => {
                let shard = shard_of(topic, self.shards.len());
                self.last = Some((topic.clone(), shard));
                shard
            }
        }
    }

    /// Adds a message for a shard.
    pub(crate) fn add(&mut self, shard: usize, message: Message) {
        self.shards[shard].push(message);
        self.count += 1;
    }

    /// Whether there is nothing to hand over.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether it is time to hand over.
    pub(crate) fn is_full(&self) -> bool {
        self.count >= BATCH
    }

    /// Hands everything over, once the peer has permits for it. A shard whose queue is full or closed refuses, and the peer is
    /// told.
    ///
    /// Not cancel safe: dropped, what was gathered is lost with the session.
    pub(crate) async fn hand_over(&mut self, conn: &Arc<Conn>) {
        if self.is_empty() {
            return;
        }
        conn.shared().metrics.received(self.count as u64);
        self.count = 0;
        for shard in 0..self.shards.len() {
            if self.shards[shard].is_empty() {
                continue;
            }
            let messages = std::mem::take(&mut self.shards[shard]);
            let wanted = messages.len().min(conn.ingress_limit);
            let permits =
                Arc::clone(&conn.ingress).acquire_many_owned(u32::try_from(wanted).unwrap_or(1)).await;
            let since = conn.shared().clock.now();
            let batch = Batch { conn: Arc::clone(conn), messages, since, permits: permits.ok() };
            match conn.shared().gossip.shards[shard].ingress.try_send(batch) {
                Ok(()) => {}
                Err(SendError::Busy(batch)) => refuse_for_now(conn, batch.messages),
                Err(SendError::Closed(batch)) => refuse_for_good(conn, batch.messages),
            }
        }
    }
}

/// Refuses what there is no room for. Announcements and the like come again by themselves.
fn refuse_for_now(conn: &Conn, messages: Vec<Message>) {
    for message in messages {
        conn.shared().metrics.rejected("busy");
        refuse(conn, message, (ErrorCode::Busy, "too much is waiting to be looked at"), RETRY_MS);
    }
}

/// Refuses a publication while a condition with the effect `shed_writes` stands. It was never taken on, so it is no loss: the
/// peer keeps it, and offers it again.
pub(crate) fn refuse_while_shedding(conn: &Conn, message: Message) {
    conn.shared().metrics.rejected("shed");
    refuse(conn, message, (ErrorCode::Busy, "publications are refused for now"), SHED_RETRY_MS);
}

/// Refuses what comes when the shards of a node that drains have ended.
fn refuse_for_good(conn: &Conn, messages: Vec<Message>) {
    for message in messages {
        if let Message::Publish(publication) = &message {
            let id = publication.id.clone();
            conn.shared().losses.add(id, GOSSIP_INGRESS.name, Some(conn.peer), "closed");
        }
        refuse(conn, message, (ErrorCode::Draining, "the node stops"), 0);
    }
}

/// Tells the peer that a publication was not taken on.
fn refuse(conn: &Conn, message: Message, (code, why): (ErrorCode, &str), retry_after_ms: u32) {
    if let Message::Publish(publication) = message {
        conn.refuse(code, why, Some(publication.id), retry_after_ms);
    }
}
