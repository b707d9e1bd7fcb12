//! Snapshots of usage between nodes: announced over gossip, fetched as objects, judged by the rewarder.
//!
//! A node that has sealed an epoch puts the rows among the overlay's objects and publishes its word for them, again and
//! again for a while, because who was away should not miss it. Whoever counts the usage of others fetches the rows from
//! any peer that has them; that they are the right ones is for their hash and the node's signature to say.

use std::{
    collections::BTreeMap,
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
use oap::Topic;
use rewards::Epoch;
use ron_accounting::{Announce, MAX_ROW_BYTES, Sealed};
use ron_kernel::{
    Scope,
    lock::Ranked,
    readiness::Effect,
    supervisor::{TaskCtx, TaskFault, TaskResult},
    topology::{Escalation, Plane, Restart, Stage, TaskSpec},
};
use serde_json::{Value, json};
use svc_overlay::{Delivery, Overlay};
use svc_rewarder::Rewarder;
use tokio::sync::{Notify, Semaphore};
use types::{NodeId, ObjectId};

use super::snapshot_queue::{Announced, SnapshotQueue};
use crate::admin::locks::SNAPSHOT_BOARD;

/// The topic in which snapshots are announced.
const TOPIC: &str = "omnigate/accounting";
/// How many of the latest epochs are announced again and again.
const ANNOUNCED: usize = 8;
/// Interval between two announcements of the same snapshot.
const AGAIN_AFTER: Duration = Duration::from_secs(5);
/// How many snapshots are remembered as taken, so that they are not fetched again.
const REMEMBERED: usize = 4096;
/// How long the rows of one may take to come.
const FETCHED_WITHIN: Duration = Duration::from_secs(30);
/// The rows that are held at a time, in MiB: those of the largest snapshot fit.
const ROWS_MIB: usize = (MAX_ROW_BYTES >> 20) + 1;

/// The task that announces this node's snapshots.
pub(crate) const SNAPSHOT_ANNOUNCER: TaskSpec = TaskSpec {
    name: "snapshot_announcer",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Workers,
    doc: "publishes this node's sealed snapshots to its peers, and keeps their rows where peers can fetch them",
};

/// The task that collects the snapshots of others.
pub(crate) const SNAPSHOT_COLLECTOR: TaskSpec = TaskSpec {
    name: "snapshot_collector",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Workers,
    doc: "receives announcements of other nodes' snapshots, verifies their seals, fetches the rows of 8 at a time, 2 of one node, and gives them to the rewarder",
};

/// What this node has to announce, by epoch.
#[derive(Debug)]
pub(super) struct Board {
    posted: Ranked<BTreeMap<Epoch, Posted>>,
    changed: Notify,
}

impl Default for Board {
    fn default() -> Self {
        Self { posted: Ranked::new(&SNAPSHOT_BOARD, BTreeMap::new()), changed: Notify::new() }
    }
}

#[derive(Clone, Debug)]
struct Posted {
    object: ObjectId,
    word: Bytes,
    /// Until they are among the overlay's objects.
    rows: Option<Bytes>,
}

impl Announce for Board {
    fn announce(&self, sealed: &Sealed, rows: &[u8]) {
        let seal = String::from_utf8(sealed.seal.to_bytes()).unwrap_or_default();
        let word = json!({ "object": sealed.object.to_string(), "seal": seal }).to_string();
        let posted =
            Posted { object: sealed.object, word: word.into(), rows: Some(Bytes::copy_from_slice(rows)) };
        let mut board = self.posted.lock();
        board.insert(sealed.seal.snapshot.epoch, posted);
        while board.len() > ANNOUNCED {
            board.pop_first();
        }
        drop(board);
        self.changed.notify_one();
    }
}

impl Board {
    /// The rows are where peers can fetch them.
    fn stored(&self, object: ObjectId) {
        self.posted
            .lock()
            .values_mut()
            .filter(|posted| posted.object == object)
            .for_each(|posted| posted.rows = None);
    }
}

/// Starts announcing what is on the board.
pub(super) fn start_announcer(scope: &Scope, board: Arc<Board>, overlay: &Arc<Overlay>) {
    let overlay = Arc::downgrade(overlay);
    scope.task(&SNAPSHOT_ANNOUNCER, move |ctx| announce(ctx, Arc::clone(&board), overlay.clone()));
}

/// Starts collecting the snapshots of others for the rewarder.
pub(super) fn start_collector(scope: &Scope, overlay: &Arc<Overlay>, rewarder: &Arc<Rewarder>) {
    let (overlay, rewarder) = (Arc::downgrade(overlay), Arc::downgrade(rewarder));
    scope.task(&SNAPSHOT_COLLECTOR, move |ctx| collect(ctx, overlay.clone(), rewarder.clone()));
}

async fn announce(ctx: TaskCtx, board: Arc<Board>, overlay: Weak<Overlay>) -> TaskResult {
    let topic = topic();
    loop {
        tokio::select! {
            () = ctx.stopping() => return Ok(()),
            () = board.changed.notified() => {}
            () = tokio::time::sleep(AGAIN_AFTER) => {}
        }
        let Some(overlay) = overlay.upgrade() else { return Ok(()) };
        let posted: Vec<_> = board.posted.lock().values().cloned().collect();
        for posted in posted {
            if let Some(rows) = posted.rows {
                match store(&overlay, rows).await {
                    Ok(()) => board.stored(posted.object),
                    Err(error) => {
                        tracing::warn!(object = %posted.object, error, "the rows of a snapshot cannot be offered");
                        continue;
                    }
                }
            }
            if let Err(error) = overlay.publish(topic.clone(), posted.word).await {
                tracing::debug!(%error, "a snapshot was not announced; it will be again");
            }
        }
    }
}

/// Puts rows among the overlay's objects.
async fn store(overlay: &Overlay, rows: Bytes) -> Result<(), String> {
    let store = async {
        let mut upload = overlay.objects().create().await?;
        upload.write(rows).await?;
        upload.commit().await
    };
    store.await.map(drop).map_err(|error| error.to_string())
}

async fn collect(ctx: TaskCtx, overlay: Weak<Overlay>, rewarder: Weak<Rewarder>) -> TaskResult {
    let Some(open) = overlay.upgrade() else { return Ok(()) };
    let mut heard = open.subscribe(topic()).await.map_err(TaskFault::new)?;
    let me = open.node();
    drop(open);
    let mut collector = Collector { taken: BTreeMap::new(), queue: SnapshotQueue::default() };
    let room = Arc::new(Semaphore::new(ROWS_MIB));
    let mut fetches = FuturesUnordered::new();
    loop {
        let delivery = tokio::select! {
            biased;
            () = ctx.stopping() => return Ok(()),
            Some((node, word, outcome)) = fetches.next() => {
                collector.ended(node, word, outcome);
                None
            }
            delivery = heard.next() => {
                // A shard of the overlay that fails ends what was subscribed there; started again, this task subscribes again.
                Some(delivery.ok_or_else(|| TaskFault::new("the subscription ended"))?)
            }
        };
        let (Some(overlay), Some(rewarder)) = (overlay.upgrade(), rewarder.upgrade()) else { return Ok(()) };
        // What was missed is announced again.
        if let Some(Delivery::Publication { id, body, .. }) = delivery
            && id.publisher != me
        {
            collector.hear(&body, |seal| rewarder.check_snapshot(seal).map_err(|error| error.to_string()));
        }
        while let Some((node, announced)) = collector.queue.next() {
            let (overlay, rewarder, room) = (Arc::clone(&overlay), Arc::clone(&rewarder), Arc::clone(&room));
            fetches.push(async move {
                let Announced { word, object, seal } = announced;
                let take =
                    tokio::time::timeout(FETCHED_WITHIN, take(&overlay, &rewarder, &room, object, seal));
                let late = |_| Err("its rows did not come in time".to_owned());
                (node, word, take.await.unwrap_or_else(late))
            });
        }
    }
}

/// What was taken, and what is to be.
struct Collector {
    /// The announcements that were taken, numbered in their order.
    taken: BTreeMap<ObjectId, u64>,
    queue: SnapshotQueue,
}

impl Collector {
    /// An announcement was heard. Nothing is fetched whose seal is not good, or would not be counted, and nothing is said
    /// of it: most nodes count for nobody else, and anybody can announce anything.
    fn hear(&mut self, body: &[u8], check: impl FnOnce(&[u8]) -> Result<NodeId, String>) {
        let word = name(body);
        if self.taken.contains_key(&word) || self.queue.has(&word) {
            return;
        }
        let Some((object, seal)) = read(body) else { return };
        match check(&seal) {
            Ok(node) => {
                if !self.queue.add(node, Announced { word, object, seal }) {
                    tracing::debug!(publisher = %node, "a snapshot is passed over until it is announced again");
                }
            }
            Err(error) => tracing::debug!(error, "an announced snapshot is not fetched"),
        }
    }

    /// The rows of a snapshot were taken, or not.
    fn ended(&mut self, node: NodeId, word: ObjectId, outcome: Result<(), String>) {
        self.queue.ended(node, &word);
        match outcome {
            Ok(()) => remember(&mut self.taken, word),
            Err(error) => tracing::warn!(publisher = %node, error, "a snapshot was not taken"),
        }
    }
}

/// Fetches the rows of a snapshot, once there is room for them, and has the rewarder judge it.
async fn take(
    overlay: &Overlay,
    rewarder: &Rewarder,
    room: &Semaphore,
    object: ObjectId,
    seal: Vec<u8>,
) -> Result<(), String> {
    let found = overlay.objects().open(object).await.map_err(|error| error.to_string())?;
    let found = found.ok_or("nobody has its rows")?;
    let len = found.len();
    if usize::try_from(len).map_or(true, |len| len > MAX_ROW_BYTES) {
        return Err(format!("its rows take {len} bytes"));
    }
    let mebibytes = u32::try_from(len >> 20).unwrap_or(u32::MAX).saturating_add(1);
    let _room = room.acquire_many(mebibytes).await.map_err(|error| error.to_string())?;
    let mut rows = Vec::new();
    let mut reader = found.read(0..len).await.map_err(|error| error.to_string())?;
    while let Some(bytes) = reader.next().await.map_err(|error| error.to_string())? {
        rows.extend_from_slice(&bytes);
    }
    rewarder.accept_snapshot(seal, rows).await.map(drop).map_err(|error| error.to_string())
}

/// What an announcement is remembered by: all of it. Two epochs in which a node did the same have the same rows.
fn name(body: &[u8]) -> ObjectId {
    b3tree::Builder::new().update(body).finish().root()
}

/// Remembers an announcement, and forgets one of those remembered longest.
fn remember(taken: &mut BTreeMap<ObjectId, u64>, word: ObjectId) {
    let number = taken.values().max().map_or(0, |last| last + 1);
    taken.insert(word, number);
    if taken.len() > REMEMBERED {
        taken.retain(|_, at| *at + REMEMBERED as u64 > number);
    }
}

/// What an announcement says: where the rows are, and the node's word for them.
fn read(body: &[u8]) -> Option<(ObjectId, Vec<u8>)> {
    let said: Value = serde_json::from_slice(body).ok()?;
    let object = said.get("object")?.as_str()?.parse().ok()?;
    let seal = said.get("seal")?.as_str()?.as_bytes().to_vec();
    Some((object, seal))
}

fn topic() -> Topic {
    TOPIC.parse().expect("a name that is written down here")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_announcement_is_read_as_it_was_written_and_nothing_else_is() {
        let object = ObjectId::new([7; 32]);
        let body = json!({ "object": object.to_string(), "seal": "{}" }).to_string();
        assert_eq!(read(body.as_bytes()), Some((object, b"{}".to_vec())));
        for wrong in ["", "{}", "[1]", r#"{"object":"b3:1","seal":"{}"}"#, r#"{"object":7,"seal":"{}"}"#] {
            assert_eq!(read(wrong.as_bytes()), None, "{wrong}");
        }
    }

    #[test]
    fn another_epoch_with_the_same_rows_is_another_announcement() {
        let object = ObjectId::new([7; 32]).to_string();
        let word = |seal: &str| json!({ "object": object, "seal": seal }).to_string();
        assert_eq!(name(word("epoch 1").as_bytes()), name(word("epoch 1").as_bytes()));
        assert_ne!(name(word("epoch 1").as_bytes()), name(word("epoch 2").as_bytes()));
    }

    #[test]
    fn nothing_is_fetched_whose_seal_is_not_good_and_nothing_twice() {
        let mut collector = Collector { taken: BTreeMap::new(), queue: SnapshotQueue::default() };
        let object = ObjectId::new([7; 32]).to_string();
        let word = |seal: &str| json!({ "object": object, "seal": seal }).to_string();
        let node = NodeId::new([1; 32]);
        let check = |seal: &[u8]| if seal == b"good" { Ok(node) } else { Err("forged".to_owned()) };
        collector.hear(word("bad").as_bytes(), check);
        assert_eq!(collector.queue.next(), None);
        for _ in 0..2 {
            collector.hear(word("good").as_bytes(), check);
        }
        let (whose, announced) = collector.queue.next().expect("its seal is good");
        assert_eq!((whose, collector.queue.next()), (node, None));
        collector.hear(word("good").as_bytes(), check);
        assert_eq!(collector.queue.next(), None, "it is being fetched");
        collector.ended(node, announced.word, Err("the rows did not come".to_owned()));
        collector.hear(word("good").as_bytes(), check);
        let (_, again) = collector.queue.next().expect("it was announced again");
        collector.ended(node, again.word, Ok(()));
        collector.hear(word("good").as_bytes(), check);
        assert_eq!(collector.queue.next(), None, "it was taken");
    }

    #[test]
    fn no_more_snapshots_are_remembered_than_there_is_room_for() {
        let mut taken = BTreeMap::new();
        for number in 0..u16::try_from(REMEMBERED).expect("small") + 9 {
            let mut hash = [0; 32];
            hash[..2].copy_from_slice(&number.to_be_bytes());
            remember(&mut taken, ObjectId::new(hash));
        }
        assert!(taken.len() <= REMEMBERED, "{}", taken.len());
        assert!(!taken.contains_key(&ObjectId::new([0; 32])));
    }
}
