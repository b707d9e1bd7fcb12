//! One shard: an engine, the peers it pushes to, the subscribers it delivers to, and the task that drives it.

mod wishes;

use std::{
    collections::{BTreeSet, HashMap},
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use gossip::{Action, AnnouncePace, Engine, Event, Lane, Packet, PeerKey, PeerPatterns, Verdict};
use oap::{ErrorCode, Message, Topic};
use ron_kernel::{
    metrics::QueueMetrics,
    supervisor::{TaskCtx, TaskFault, TaskResult},
    topology::{Plane, Stage, TaskSpec},
};
use tokio::sync::oneshot;
use types::Moment;

use super::{
    Batch, By, Command, Feedback, GOSSIP_EGRESS, GOSSIP_INGRESS, Handle, Published, Pushed, Receivers,
    feedback::Note, pace::Pace, shard_of, signatures::Keys, subscribers::Subscribers,
};
use crate::{
    error::OverlayError,
    listener::RESTART,
    metrics::TopicLimit,
    outbox::Refused,
    session::{Conn, OutFrame, reject_label},
    shared::Shared,
    toll::Party,
};

/// The task that drives a gossip engine.
pub(crate) const SHARD: TaskSpec = TaskSpec {
    name: "gossip_shard",
    plane: Plane::Data,
    restart: RESTART,
    stop: Stage::Workers,
    doc: "runs the gossip engine of its topics: pushes, announces, requests and delivers publications",
};

/// Commands and batches taken at a time before what follows from them is done.
const TURN: usize = 16;
/// How long a topic that nobody wants any more is taken part in, so that a subscriber that comes back can go on.
const KEPT_FOR: Duration = Duration::from_secs(60);
/// How long a shard that is told to end waits for the verdicts of what was published here, and with a successor for what is
/// about to be.
const LAST_VERDICTS: Duration = Duration::from_millis(500);
/// How long most peers may keep a shard from taking more in; then it goes on, and refuses.
const CROWDED: Duration = Duration::from_millis(20);

/// Starts all shards.
pub(super) fn start(shared: &Arc<Shared>) {
    let on_each = Arc::clone(shared);
    shared.scope.task_per_core(&SHARD, move |core, ctx| run(Arc::clone(&on_each), core.index(), ctx));
}

async fn run(shared: Arc<Shared>, index: usize, ctx: TaskCtx) -> TaskResult {
    let receivers = shared.gossip.shards[index].take_receivers();
    let receivers = receivers.ok_or_else(|| TaskFault::new("the shard runs already"))?;
    let mut held = Held { shared: Arc::clone(&shared), index, receivers: Some(receivers) };
    let mut shard = Shard::new(&shared, index).map_err(TaskFault::new)?;
    shard.recall();
    if let Some(receivers) = &mut held.receivers {
        shard.work(receivers, &ctx).await;
    }
    Ok(())
}

/// Gives the queues' ends back however the task ends, so that it can be started again.
struct Held {
    shared: Arc<Shared>,
    index: usize,
    receivers: Option<Receivers>,
}

impl Drop for Held {
    fn drop(&mut self) {
        if let Some(receivers) = self.receivers.take() {
            self.shared.gossip.shards[self.index].give_back(receivers);
        }
    }
}

/// A peer as a shard sees it.
struct PeerSlot {
    conn: Arc<Conn>,
    /// What is to be put into its box.
    pending: Vec<OutFrame>,
    /// Publications of this shard in its box.
    on_the_way: u32,
}

struct Shard {
    shared: Arc<Shared>,
    index: u16,
    engine: Engine,
    /// The peers, indexed by their small numbers.
    peers: Vec<Option<PeerSlot>>,
    /// Peers with something pending.
    touched: Vec<usize>,
    subscribers: Subscribers,
    /// Topics of the configuration.
    configured: Vec<Topic>,
    /// The patterns that peers have subscribed to.
    patterns: PeerPatterns,
    /// Peers want others than those that topics are compared with.
    has_news: bool,
    /// When patterns are looked at next.
    look_at: Option<Moment>,
    /// How often peers are told of changes.
    announcing: AnnouncePace,
    /// When peers were last told all of them, and not only what is new.
    told_at: Option<Moment>,
    /// Topics that patterns mean and there was no room for.
    refused: BTreeSet<Topic>,
    tickets: HashMap<u64, oneshot::Sender<Result<Published, OverlayError>>>,
    next_ticket: u64,
    timer: Option<Moment>,
    /// When the first topic is left that nobody wants any more.
    leaving: Option<Moment>,
    actions: Vec<Action>,
    notes: Vec<Note>,
    pace: Pace,
    egress: QueueMetrics,
    /// What it has to account for at its end belongs to what a drain cost.
    _party: Party,
}

impl Shard {
    fn new(shared: &Arc<Shared>, index: usize) -> Result<Self, gossip::SettingsError> {
        let settings = shared.gossip.settings.clone();
        let (pace, relayed) = (Pace::new(settings.burst_budget), wishes::relayed_max(&settings));
        let incarnation = shared.lives.next();
        let keys = Box::new(Keys(Arc::clone(shared)));
        let engine = Engine::new(shared.me, incarnation, settings, keys, fastrand::u64(..))?;
        shared.gossip.shards[index].feedback.open();
        shared.gossip.shards[index].life.store(incarnation, Relaxed);
        Ok(Self {
            shared: Arc::clone(shared),
            index: u16::try_from(index).unwrap_or(u16::MAX),
            engine,
            peers: Vec::new(),
            touched: Vec::new(),
            subscribers: Subscribers::new(
                u16::try_from(index).unwrap_or(u16::MAX),
                incarnation,
                shared.gossip.retained,
                Arc::clone(&shared.supplies),
                relayed,
            ),
            configured: Vec::new(),
            patterns: PeerPatterns::default(),
            announcing: AnnouncePace::default(),
            has_news: false,
            look_at: None,
            told_at: None,
            refused: BTreeSet::new(),
            tickets: HashMap::new(),
            next_ticket: 0,
            timer: None,
            leaving: None,
            actions: Vec::new(),
            notes: Vec::new(),
            pace,
            egress: shared.scope.metrics().queue(GOSSIP_EGRESS.name, "gossip"),
            _party: shared.losses.party(),
        })
    }

    /// Takes part in what the configuration says, and gets to know who is connected already: after a restart.
    fn recall(&mut self) {
        let (now, count) = (self.shared.clock.now(), self.shared.gossip.shards.len());
        let topics = self.shared.settings.load().topics.clone();
        self.follow(
            topics.into_iter().filter(|topic| shard_of(topic, count) == usize::from(self.index)).collect(),
            now,
        );
        for (slot, conn) in self.shared.peers.all() {
            self.up(conn, slot, Vec::new(), now);
        }
    }

    async fn work(&mut self, receivers: &mut Receivers, ctx: &TaskCtx) {
        let clock = self.shared.clock;
        let feedback = self.feedback();
        let mut end = None;
        // Whoever has published something is told what became of it, if that is known soon, and whoever was accepted while
        // a successor took over may still publish.
        let is_awaited =
            |shard: &Self| !shard.tickets.is_empty() || shard.shared.scope.shutdown().has_successor();
        while end.is_none_or(|end| clock.now() < end && is_awaited(self)) {
            let timer = self.timer.unwrap_or(Moment::END);
            let leaving = self.leaving.unwrap_or(Moment::END);
            let looking = self.look_at.unwrap_or(Moment::END);
            tokio::select! {
                biased;
                () = ctx.stopping(), if end.is_none() => end = Some(clock.now().after(LAST_VERDICTS)),
                () = clock.sleep_until(end.unwrap_or(Moment::END)), if end.is_some() => break,
                command = receivers.commands.recv() => match command {
                    Some(command) => self.obey_in_order(command, receivers, &feedback).await,
                    None => break,
                },
                () = feedback.told() => {}
                batch = receivers.ingress.recv() => match batch {
                    Some(batch) => self.take_in(batch, &feedback).await,
                    None => break,
                },
                () = clock.sleep_until(timer), if self.timer.is_some() => self.event(Event::Tick, clock.now()),
                () = clock.sleep_until(leaving), if self.leaving.is_some() => self.leave_unwanted(clock.now()),
                () = clock.sleep_until(looking), if self.look_at.is_some() => self.look_at_patterns(clock.now()),
            }
            for _ in 0..TURN {
                let Some(command) = receivers.commands.try_recv() else { break };
                self.obey_in_order(command, receivers, &feedback).await;
            }
            let now = clock.now();
            self.forget_departed(now);
            self.follow_told(now);
            self.hear(&feedback, now);
            // Else feedback, which comes as long as anything is on its way, would keep what has come in waiting.
            if let Some(batch) = receivers.ingress.try_recv() {
                self.take_in(batch, &feedback).await;
                // The runtime would let a shard whose queue is never empty take a hundred batches in a row. If each
                // publication has a proof to be checked, that keeps everything else on the core waiting for a second.
                tokio::task::yield_now().await;
            }
            self.settle(now);
        }
        self.finish(receivers, &feedback).await;
    }

    /// The node drains: what has come in is still passed on, and nothing more is taken in.
    async fn finish(&mut self, receivers: &mut Receivers, feedback: &Feedback) {
        receivers.ingress.close();
        while let Some(batch) = receivers.ingress.try_recv() {
            self.take_in(batch, feedback).await;
        }
        receivers.commands.close();
        while let Some(command) = receivers.commands.try_recv() {
            if let Command::Publish { done, .. } = command {
                let _ = done.send(Err(OverlayError::Canceled));
            }
        }
        for (_, done) in self.tickets.drain() {
            let _ = done.send(Err(OverlayError::Canceled));
        }
    }

    /// Nothing follows any more: writers write what is in the boxes, and what would have come after it is named.
    fn account(&mut self) {
        let (now, feedback) = (self.shared.clock.now(), self.feedback());
        self.engine.conclude(now, &mut self.actions);
        self.settle(now);
        // What a writer gives up from here on it names itself.
        feedback.close();
        self.hear(&feedback, now);
        self.settle(now);
        self.engine.give_up(&mut self.actions);
        self.act(now);
    }

    fn feedback(&self) -> Arc<Feedback> {
        Arc::clone(&self.handle().feedback)
    }

    fn handle(&self) -> &Handle {
        &self.shared.gossip.shards[usize::from(self.index)]
    }

    /// Does what is asked. What a peer said before it went is taken in first: readers hand it over before that is told.
    async fn obey_in_order(&mut self, command: Command, receivers: &mut Receivers, feedback: &Feedback) {
        if matches!(command, Command::Down { .. }) {
            for _ in 0..GOSSIP_INGRESS.capacity {
                let Some(batch) = receivers.ingress.try_recv() else { break };
                self.take_in(batch, feedback).await;
            }
        }
        self.obey(command, self.shared.clock.now());
    }

    fn obey(&mut self, command: Command, now: Moment) {
        match command {
            Command::Up { conn, slot, topics } => self.up(conn, slot, topics, now),
            Command::Down { number, slot } => self.down(number, slot, now),
            Command::Publish { topic, body, by, since, done } => {
                self.handle().waiting[1].taken(now.since(since));
                if !self.before_publishing(&topic, by, now) {
                    // Whoever asked may have gone.
                    let _ = done.send(Err(OverlayError::TooManyTopics));
                    return;
                }
                let ticket = self.next_ticket;
                self.next_ticket += 1;
                self.tickets.insert(ticket, done);
                self.event(Event::Publish { ticket, topic, body }, now);
            }
            Command::Subscribe { topic, sink, by, after } => {
                if by != By::Node && !self.has_room(&topic, by.claim()) {
                    self.shared.metrics.topic_refused(TopicLimit::Application);
                    return self.subscribers.turn_away(&sink, &topic);
                }
                let is_new = !self.takes_part(&topic);
                self.subscribers.add(topic.clone(), sink, after);
                // What the node's operator wants is the node's own, whoever wanted it before.
                if is_new || by == By::Node {
                    self.event(Event::Subscribe { topic, claim: by.claim() }, now);
                }
            }
            Command::Join { filter, holder, sink, after, done } => {
                let joined = self.join(&filter, holder, sink, after, now);
                // Whoever asked may have gone, and is among the departed then.
                let _ = done.send(joined);
            }
            Command::Leave => self.forget_departed(now),
            Command::Follow => self.follow_told(now),
        }
    }

    fn up(&mut self, conn: Arc<Conn>, slot: u32, topics: Vec<Topic>, now: Moment) {
        let (peer, node, at) = (PeerKey(slot), conn.peer, slot as usize);
        if self.peers.get(at).is_some_and(Option::is_some) {
            // Known already, from before this task was started again.
            return;
        }
        if self.peers.len() <= at {
            self.peers.resize_with(at + 1, || None);
        }
        self.peers[at] = Some(PeerSlot { conn, pending: Vec::new(), on_the_way: 0 });
        self.event(Event::PeerUp { peer, node }, now);
        for topic in topics {
            self.notice(&topic, Some(peer), now);
            self.event(Event::Message { from: peer, message: Message::Subscribe(topic) }, now);
        }
        self.look_soon(now);
    }

    fn down(&mut self, number: u64, slot: u32, now: Moment) {
        let at = slot as usize;
        if self.known(slot, number).is_none() {
            return;
        }
        // What its writer has told, and what was about to be sent to it, is accounted for while it is known whose it was.
        let feedback = self.feedback();
        self.hear(&feedback, now);
        self.act(now);
        self.hand_out();
        self.peers[at] = None;
        self.subscribers.forget_source(PeerKey(slot));
        if self.patterns.gone(PeerKey(slot)) {
            self.wanted_has_changed(now);
        }
        self.event(Event::PeerDown { peer: PeerKey(slot) }, now);
    }

    /// The peer of that number, if the session is still the same one.
    fn known(&mut self, slot: u32, number: u64) -> Option<&mut PeerSlot> {
        self.peers.get_mut(slot as usize)?.as_mut().filter(|peer| peer.conn.number == number)
    }

    /// Takes messages of a peer in, as fast as most of those they are pushed to take them.
    async fn take_in(&mut self, batch: Batch, feedback: &Feedback) {
        let Batch { conn, messages, since, permits } = batch;
        self.handle().waiting[0].taken(self.shared.clock.now().since(since));
        let slot = conn.slot();
        if self.known(slot, conn.number).is_none() {
            return;
        }
        let slice = self.pace.slice();
        let mut messages = messages.into_iter().peekable();
        while messages.peek().is_some() {
            let now = self.shared.clock.now();
            for message in messages.by_ref().take(slice) {
                if let Message::Patterns(list) = message {
                    self.hear_patterns(PeerKey(slot), list, now);
                    continue;
                }
                if let Message::Subscribe(topic) = &message {
                    self.notice(topic, Some(PeerKey(slot)), now);
                }
                self.engine.on(Event::Message { from: PeerKey(slot), message }, now, &mut self.actions);
            }
            self.act(now);
            self.hand_out();
            if self.pace.is_crowded() {
                let _ = tokio::time::timeout(CROWDED, feedback.told()).await;
                self.hear(feedback, self.shared.clock.now());
            }
        }
        drop(permits);
    }

    /// Hears what writers have to tell.
    fn hear(&mut self, feedback: &Feedback, now: Moment) {
        let mut notes = std::mem::take(&mut self.notes);
        feedback.take(&mut notes);
        for note in notes.drain(..) {
            match note {
                Note::Sent { slot, number, topic, publications, announcements } => {
                    let Some(peer) = self.known(slot, number) else { continue };
                    peer.on_the_way = peer.on_the_way.saturating_sub(publications);
                    let peer = PeerKey(slot);
                    self.event(Event::Sent { peer, topic, publications, announcements }, now);
                }
                Note::TopicsTold { slot, number, count } => {
                    if self.known(slot, number).is_some() {
                        self.event(Event::TopicsTold { peer: PeerKey(slot), count }, now);
                    }
                }
                Note::Refused { slot, number, packet } => self.refused(slot, number, packet, now),
            }
        }
        self.notes = notes;
    }

    fn refused(&mut self, slot: u32, number: u64, packet: Packet, now: Moment) {
        let Some(peer) = self.known(slot, number) else { return };
        if packet.publication().is_some() {
            peer.on_the_way = peer.on_the_way.saturating_sub(1);
        }
        self.event(Event::Refused { peer: PeerKey(slot), packet }, now);
    }

    fn event(&mut self, event: Event, now: Moment) {
        if matches!(event, Event::Tick) {
            self.timer = None;
        }
        self.engine.on(event, now, &mut self.actions);
    }

    /// Does what has to be done, until nothing follows from it any more.
    fn settle(&mut self, now: Moment) {
        loop {
            self.engine.settle(&mut self.actions);
            self.act(now);
            self.hand_out();
            // What a full queue refuses may have the engine set its timer.
            self.engine.settle(&mut self.actions);
            if self.actions.is_empty() {
                return;
            }
        }
    }

    fn act(&mut self, now: Moment) {
        let mut actions = std::mem::take(&mut self.actions);
        for action in actions.drain(..) {
            match action {
                Action::Send { to, packet, lane } => self.send(to, packet, lane, now),
                Action::Deliver { packet, hops, late } => {
                    let (metrics, losses) = (&self.shared.metrics, &self.shared.losses);
                    self.subscribers.deliver(&packet, hops, late, metrics, losses);
                }
                Action::Gap(gap) => {
                    if self.subscribers.is_told_of(&gap.topic) {
                        self.shared.losses.add_gap(&gap);
                    }
                    self.subscribers.gap(&gap, &self.shared.metrics);
                }
                Action::Lost(loss) => {
                    let (queue, reason) = (loss.queue.name(), loss.reason.name());
                    self.shared.losses.add_run(loss.id, loss.last, queue, Some(loss.peer), reason);
                }
                Action::Verdict { ticket, id, verdict } => self.verdict(ticket, id, verdict),
                Action::NoRoomForPeer { .. } => self.shared.metrics.topic_refused(TopicLimit::Peer),
                Action::Misbehaved { peer, code, rule } => self.misbehaved(peer, code, rule),
                Action::SetTimer { at } => self.timer = Some(at),
                Action::Outlived { incarnation } => self.outlived(incarnation),
                Action::SubscribeRefused { topic } => {
                    tracing::warn!(%topic, "there is no room to participate in this topic");
                    self.subscribers.refuse(&topic);
                    self.subscribers.end(&topic);
                }
            }
        }
        // Back, so that its room is used again; whatever came meanwhile stays.
        actions.append(&mut self.actions);
        self.actions = actions;
    }

    fn send(&mut self, to: PeerKey, packet: Packet, lane: Lane, now: Moment) {
        let at = to.0 as usize;
        let Some(peer) = self.peers.get_mut(at).and_then(Option::as_mut) else { return };
        // Encoded once, however many it goes to.
        let bytes = peer.conn.with_checksum(packet.bytes().clone());
        if lane == Lane::Control {
            return peer.conn.control_bytes(bytes, packet.may_be_dropped(), now);
        }
        if packet.publication().is_some() {
            self.pace.push(peer.on_the_way);
            peer.on_the_way += 1;
        }
        if peer.pending.is_empty() {
            self.touched.push(at);
        }
        let flow = packet.topic().map_or(0, |topic| shard_of(topic, usize::MAX) as u64);
        let pushed = Some(Pushed { packet, shard: self.index });
        peer.pending.push(OutFrame { bytes, pushed, flow, since: now });
    }

    /// Puts what is pending into the peers' boxes.
    fn hand_out(&mut self) {
        let mut back = Vec::new();
        for at in self.touched.drain(..) {
            let Some(peer) = self.peers.get_mut(at).and_then(Option::as_mut) else { continue };
            let conn = &peer.conn;
            conn.outbox.gossip(&mut peer.pending, |refused| {
                let frame = match refused {
                    Refused::Busy(frame) => {
                        self.egress.busy.inc();
                        frame
                    }
                    Refused::Displaced(frame) => frame,
                    Refused::Closed(frame) => {
                        frame.pushed.iter().for_each(|pushed| pushed.closed(conn));
                        return;
                    }
                };
                self.egress.dropped.inc();
                back.extend(frame.pushed.map(|pushed| (conn.slot(), conn.number, pushed.packet)));
            });
        }
        let now = if back.is_empty() { return } else { self.shared.clock.now() };
        for (slot, number, packet) in back {
            self.refused(slot, number, packet, now);
        }
    }

    fn verdict(&mut self, ticket: u64, id: Option<oap::MessageId>, verdict: Verdict) {
        let metrics = &self.shared.metrics;
        let outcome = match (verdict, id) {
            (Verdict::Accepted, Some(id)) => Ok(Published { id, accepted: true }),
            (Verdict::LocalOnly, Some(id)) => Ok(Published { id, accepted: false }),
            (Verdict::TooLarge, _) => Err(OverlayError::FrameTooLarge),
            _ => Err(OverlayError::Busy),
        };
        metrics.published(match &outcome {
            Ok(published) if published.accepted => "accepted",
            Ok(_) => "local_only",
            Err(_) => "refused",
        });
        if let Some(done) = self.tickets.remove(&ticket) {
            // Whoever asked may have gone.
            let _ = done.send(outcome);
        }
    }

    /// Peers know a life of this node that is not before the present one: its clock went back, and it had not kept count.
    fn outlived(&self, incarnation: u64) {
        self.shared.lives.pass(incarnation);
        self.shared.metrics.outlived.inc();
        tracing::warn!(
            incarnation,
            "peers know a later incarnation of this node: its clock was set back, its data was restored, or another node has the same key; it continues after that incarnation"
        );
    }

    fn misbehaved(&self, peer: PeerKey, code: ErrorCode, rule: &'static str) {
        self.shared.metrics.rejected(reject_label(code));
        if let Some(peer) = self.peers.get(peer.0 as usize).and_then(Option::as_ref) {
            tracing::warn!(peer = %peer.conn.peer, code = code.name(), "a peer broke a rule that no correct peer breaks: {rule}");
            peer.conn.dismiss(code, rule);
        }
    }
}

/// However its task ends, what a shard owed is named.
impl Drop for Shard {
    fn drop(&mut self) {
        // One that has just failed is not to be relied on for its accounts.
        if !std::thread::panicking() {
            self.account();
        }
    }
}
