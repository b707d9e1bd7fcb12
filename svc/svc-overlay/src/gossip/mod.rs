//! Gossip: engines that topics are spread over by their names, each with a task, and what goes in and out of them.
//!
//! ```text
//! readers ─▶ gossip_ingress ─▶ shard: engine ─▶ outboxes ─▶ writers
//! publishers, sessions ─▶ gossip_commands ─▶ │ └─▶ subscribers
//!                          writers ─▶ feedback ┘
//! ```

mod feedback;
mod inbound;
mod pace;
mod retention;
mod shard;
mod signatures;
mod subscribers;
mod waiting;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use gossip::{Claim, Settings};
use oap::Topic;
use ron_kernel::{
    Clock, Scope,
    lock::Ranked,
    queue::{Receiver, SendError, Sender},
    topology::{Policy, QueueSpec},
};
use tokio::sync::oneshot;
use topics::Filter;
use types::Moment;

use feedback::Feedback;
pub(crate) use feedback::Pushed;
use inbound::Batch;
pub(crate) use inbound::{Inbound, refuse_while_shedding};
use retention::Retained;
pub(crate) use retention::digits;
pub use retention::{EventId, InvalidEventId};
pub(crate) use shard::SHARD;
pub(crate) use subscribers::{After, Due, Heard, Joined, Place, SUBSCRIBER, Sink};
pub use subscribers::{Delivery, Gap};
use waiting::Waiting;

use crate::{OverlayConfig, error::OverlayError, locks, session::Conn, shared::Shared};

/// The queue from readers to a shard.
pub(crate) const GOSSIP_INGRESS: QueueSpec = QueueSpec {
    name: "gossip_ingress",
    capacity: 512,
    policy: Policy::RejectNew,
    from: "reader",
    to: "gossip_shard",
    doc: "gossip messages of one read of one peer, at most 64 at a time; a full queue refuses them with busy, and what is lost is reported",
};

/// The queue from a shard to a peer.
pub(crate) const GOSSIP_EGRESS: QueueSpec = QueueSpec {
    name: "gossip_egress",
    capacity: crate::shared::EGRESS_FRAMES,
    policy: Policy::RejectNew,
    from: "gossip_shard",
    to: "writer",
    doc: "publications and announcements for one peer, 8 MiB at most; a permit first, for which they wait five seconds at most; gossip.egress_policy = \"drop_oldest\" turns the policy round",
};

/// What the rest of the node asks of gossip.
pub(crate) const COMMANDS: QueueSpec = QueueSpec {
    name: "gossip_commands",
    capacity: 256,
    policy: Policy::Await { deadline: Duration::from_secs(5) },
    from: "sessions, publishers and subscribers of this node",
    to: "gossip_shard",
    doc: "sessions that begin and end, publications and subscriptions of this node",
};

/// Gossip of a node.
#[derive(Debug)]
pub(crate) struct Gossip {
    shards: Box<[Handle]>,
    settings: Settings,
    /// Links that patterns of subscribers here go over; zero for none.
    pattern_hops: u8,
    retained: Retained,
    clock: Clock,
}

/// The ends of a shard that others hold.
#[derive(Debug)]
struct Handle {
    ingress: Sender<Batch>,
    commands: Sender<Command>,
    feedback: Arc<Feedback>,
    /// The life that the shard's events are numbered in; zero before its task has begun.
    life: AtomicU64,
    /// How long what others hand over waits: in the ingress queue, and in that of commands.
    waiting: [Waiting; 2],
    /// Subscribers that have gone and are still known; no more than there are.
    departed: Ranked<Vec<u64>>,
    /// The topics of the configuration that the shard has not heard of yet.
    followed: Ranked<Option<Vec<Topic>>>,
    /// The other ends, while the shard's task is not running.
    receivers: Ranked<Option<Receivers>>,
}

/// The ends that a shard's task holds.
#[derive(Debug)]
struct Receivers {
    ingress: Receiver<Batch>,
    commands: Receiver<Command>,
}

/// What became of a publication of this node.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Published {
    /// The id of the publication.
    pub id: oap::MessageId,
    /// Whether a neighbour has taken it on; else it is known here only.
    pub accepted: bool,
}

/// The client that publishes or subscribes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum By {
    /// The node itself, or its operator.
    Node,
    /// The application of this number. Topics are left for the node and for other applications. Peers hear of what it publishes
    /// in, so that those whose subscribers mean it by a pattern take part.
    Application(u64),
}

impl By {
    /// On whose behalf the engine takes part in a topic.
    const fn claim(self) -> Claim {
        match self {
            Self::Node => Claim::Own,
            Self::Application(number) => Claim::Application(number),
        }
    }
}

/// What a shard is asked to do.
#[derive(Debug)]
enum Command {
    Up {
        conn: Arc<Conn>,
        slot: u32,
        topics: Vec<Topic>,
    },
    Down {
        number: u64,
        slot: u32,
    },
    Publish {
        topic: Topic,
        body: Bytes,
        by: By,
        /// Time at which the publication was requested.
        since: Moment,
        done: oneshot::Sender<Result<Published, OverlayError>>,
    },
    Subscribe {
        topic: Topic,
        sink: Sink,
        by: By,
        /// What the subscriber heard last, if it comes back.
        after: Option<EventId>,
    },
    /// Somebody subscribes to those of these topics that are of this shard, and by patterns.
    Join {
        filter: Arc<Filter>,
        /// The number of the application.
        holder: u64,
        sink: Sink,
        after: After,
        done: oneshot::Sender<Result<Joined, OverlayError>>,
    },
    /// A subscriber is among the departed.
    Leave,
    /// The configuration has other topics.
    Follow,
}

impl Gossip {
    /// The queues of one shard per core. Nobody works on them before [`Gossip::start`].
    pub(crate) fn new(scope: &Scope, config: &OverlayConfig) -> Self {
        let make = |_| {
            let (ingress, batches) = scope.queue(&GOSSIP_INGRESS, "gossip");
            let (commands, asked) = scope.queue(&COMMANDS, "publish");
            let receivers = Receivers { ingress: batches, commands: asked };
            Handle {
                ingress,
                commands,
                feedback: Arc::default(),
                life: AtomicU64::new(0),
                waiting: Default::default(),
                departed: Ranked::new(&locks::DEPARTED, Vec::new()),
                followed: Ranked::new(&locks::FOLLOWED, None),
                receivers: Ranked::new(&locks::SHARD_RECEIVERS, Some(receivers)),
            }
        };
        Self {
            shards: scope.planes().cores().iter().map(make).collect(),
            settings: config.gossip.engine(),
            pattern_hops: config.gossip.pattern_hops,
            clock: scope.clock(),
            retained: Retained {
                events: config.gossip.retain_events,
                bytes: config.gossip.retain_bytes.as_usize(),
                all_bytes: config.gossip.retain_all_bytes.as_usize(),
            },
        }
    }

    /// Starts the shards' tasks.
    pub(crate) fn start(shared: &Arc<Shared>) {
        shard::start(shared);
    }

    /// Returns the number of shards.
    pub(crate) fn shards(&self) -> usize {
        self.shards.len()
    }

    /// The life that a shard's events are numbered in; [`None`] if there is no such shard.
    pub(crate) fn life_of(&self, shard: u16) -> Option<u64> {
        self.shards.get(usize::from(shard)).map(|shard| shard.life.load(Relaxed))
    }

    /// Where a reader gathers what it hands over.
    pub(crate) fn inbound(&self) -> Inbound {
        Inbound::new(self.shards.len())
    }

    /// The least time that something waited since this was last asked, in the queue where that is the longest.
    pub(crate) fn wait(&self) -> Duration {
        let waits = self.shards.iter().flat_map(|shard| {
            let [ingress, commands] = &shard.waiting;
            let ingress = ingress.least(shard.ingress.len(), GOSSIP_INGRESS.capacity);
            [ingress, commands.least(shard.commands.len(), COMMANDS.capacity)]
        });
        waits.max().unwrap_or_default()
    }

    /// Where messages about a topic go.
    fn shard_of(&self, topic: &Topic) -> usize {
        shard_of(topic, self.shards.len())
    }

    /// A session begins; every shard is told.
    ///
    /// Not cancel safe: dropped, some shards know and others do not.
    pub(crate) async fn up(&self, conn: &Arc<Conn>, slot: u32, topics: Vec<Topic>) {
        for (index, shard) in self.shards.iter().enumerate() {
            let topics = topics.iter().filter(|topic| self.shard_of(topic) == index).cloned().collect();
            let command = Command::Up { conn: Arc::clone(conn), slot, topics };
            self.must_send(shard, command).await;
        }
    }

    /// A session has ended; every shard is told.
    ///
    /// Not cancel safe: dropped, some shards know and others do not.
    pub(crate) async fn down(&self, conn: &Conn, slot: u32) {
        for shard in &self.shards {
            self.must_send(shard, Command::Down { number: conn.number, slot }).await;
        }
    }

    /// Shards that did not hear of a session or of its end would be wrong for good, so this waits for as long as it takes.
    async fn must_send(&self, shard: &Handle, mut command: Command) {
        while let Err(SendError::Busy(again)) = shard.commands.send(command).await {
            command = again;
        }
    }

    /// Publishes, and tells what became of it. Of what an application publishes in, peers hear for a while.
    ///
    /// Cancel safe in that the publication goes its way; nobody hears of it.
    pub(crate) async fn publish(&self, topic: Topic, body: Bytes, by: By) -> Result<Published, OverlayError> {
        let (done, outcome) = oneshot::channel();
        let shard = &self.shards[self.shard_of(&topic)];
        let since = self.clock.now();
        shard.commands.send(Command::Publish { topic, body, by, since, done }).await?;
        outcome.await.map_err(|_| OverlayError::Canceled)?
    }

    /// Has a subscriber hear of a topic.
    pub(crate) async fn subscribe(
        &self,
        topic: Topic,
        sink: Sink,
        by: By,
        after: Option<EventId>,
    ) -> Result<(), OverlayError> {
        let shard = &self.shards[self.shard_of(&topic)];
        Ok(shard.commands.send(Command::Subscribe { topic, sink, by, after }).await?)
    }

    /// Has an application hear of several topics, and of those that patterns mean: at each shard that may have some. The first
    /// shard, which tells peers of patterns, refuses those that it cannot tell of.
    ///
    /// Not cancel safe: dropped, some shards know and others do not, until they are told that the subscriber has gone.
    pub(crate) async fn join(
        &self,
        filter: &Arc<Filter>,
        holder: u64,
        sink: impl Fn(u16) -> Sink,
        after: impl Fn(u16) -> After,
    ) -> Result<Vec<Joined>, OverlayError> {
        let topics: Vec<Topic> = filter.exact().filter_map(|name| Topic::new(name).ok()).collect();
        let mut joined = Vec::new();
        for (index, shard) in (0_u16..).zip(&self.shards) {
            let has_one = topics.iter().any(|topic| self.shard_of(topic) == usize::from(index));
            if !has_one && !filter.is_wild() {
                continue;
            }
            let (done, outcome) = oneshot::channel();
            let (filter, sink, after) = (Arc::clone(filter), sink(index), after(index));
            shard.commands.send(Command::Join { filter, holder, sink, after, done }).await?;
            joined.push(outcome.await.map_err(|_| OverlayError::Canceled)??);
        }
        Ok(joined)
    }

    /// The subscriber of one topic has gone.
    pub(crate) fn leave_topic(&self, topic: &Topic, sink: u64) {
        self.shards[self.shard_of(topic)].departs(sink);
    }

    /// A subscriber of many topics has gone.
    pub(crate) fn leave_all(&self, sink: u64) {
        self.shards.iter().for_each(|shard| shard.departs(sink));
    }

    /// Takes part in these topics of the configuration from now on.
    pub(crate) fn follow(&self, topics: &[Topic]) {
        for (index, shard) in self.shards.iter().enumerate() {
            let topics = topics.iter().filter(|topic| self.shard_of(topic) == index).cloned().collect();
            shard.follows(topics);
        }
    }

    /// Packets have been written; returns how many.
    pub(crate) fn sent(&self, conn: &Conn, packets: impl Iterator<Item = Pushed>) -> u64 {
        feedback::sent(self, conn, packets)
    }
}

/// FNV-1a, mixed: its upper bits alone hardly differ between names that differ in their last bytes.
fn shard_of(topic: &Topic, shards: usize) -> usize {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
    let hash = topic.as_str().bytes().fold(0xcbf2_9ce4_8422_2325, step);
    let mixed = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    usize::try_from((mixed ^ (mixed >> 33)) % shards as u64).unwrap_or(0)
}

impl Handle {
    /// A subscriber has gone. A shard that cannot be told now, because much is asked of it, looks when it gets to that.
    fn departs(&self, sink: u64) {
        self.departed.lock().push(sink);
        let _ = self.commands.try_send(Command::Leave);
    }

    /// The configuration has these topics from now on. A shard that cannot be told now looks when it gets to that, so that
    /// no reload is lost.
    fn follows(&self, topics: Vec<Topic>) {
        *self.followed.lock() = Some(topics);
        let _ = self.commands.try_send(Command::Follow);
    }

    fn take_followed(&self) -> Option<Vec<Topic>> {
        self.followed.lock().take()
    }

    fn take_departed(&self) -> Vec<u64> {
        std::mem::take(&mut *self.departed.lock())
    }

    fn take_receivers(&self) -> Option<Receivers> {
        self.receivers.lock().take()
    }

    fn give_back(&self, receivers: Receivers) {
        *self.receivers.lock() = Some(receivers);
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_kernel::Kernel;

    #[test]
    fn topics_with_similar_names_are_spread_over_all_shards() {
        for shards in [2, 3, 4, 8, 16] {
            for make in [
                |number: u32| format!("room.{number:04}"),
                |number| format!("room.{number}"),
                |number| format!("{number:x}"),
                |number| format!("user.{number}.inbox"),
            ] {
                let mut count = vec![0; shards];
                for number in 0..1600 {
                    count[shard_of(&Topic::new(&make(number)).unwrap(), shards)] += 1;
                }
                let fair = 1600 / shards;
                assert!(
                    count.iter().all(|count| (fair / 2..fair * 2).contains(count)),
                    "{}: {count:?}",
                    make(7)
                );
            }
        }
    }

    #[test]
    fn a_shard_that_cannot_be_told_of_new_topics_finds_the_latest_of_them_later() {
        let kernel = Kernel::builder("test").build().unwrap();
        let gossip = Gossip::new(&kernel.scope(&crate::TOPOLOGY), &OverlayConfig::default());
        let topics = ["news", "weather"].map(|name| Topic::new(name).unwrap());
        for shard in &gossip.shards {
            while shard.commands.try_send(Command::Leave).is_ok() {}
        }
        gossip.follow(&topics[..1]);
        gossip.follow(&topics);
        let mut heard: Vec<_> =
            gossip.shards.iter().flat_map(|shard| shard.take_followed().unwrap()).collect();
        heard.sort();
        assert_eq!(heard, topics);
        assert!(gossip.shards.iter().all(|shard| shard.take_followed().is_none()), "each is heard once");
    }
}
