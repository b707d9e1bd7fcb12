//! The engine: what it knows, and who deals with which event.

use std::{collections::BTreeMap, fmt};

use oap::{Accepted, Message, MessageId, Topic};
use types::{Moment, NodeId};

use crate::{
    cache::Cache,
    effort::{Departed, Effort},
    event::{Action, Event, Loss, LossReason, PeerKey, Queue},
    members::Acks,
    missed::Runs,
    packet::{Kind, Packet},
    publishers::EVICTIONS_PER_FRAME,
    repair::Wants,
    rng::Rng,
    settings::{Settings, SettingsError},
    signatures::Signatures,
    timers::{Timer, Timers},
    topic::TopicState,
    track::Track,
    untold::Untold,
};

/// Topics that were forgotten whose numbers are kept, for each topic that there is room for.
const NUMBERS_PER_TOPIC: usize = 64;

/// Gossip of any number of topics, without I/O: it is told what happens, and says what is to be done.
pub struct Engine {
    pub(crate) me: NodeId,
    pub(crate) incarnation: u64,
    pub(crate) settings: Settings,
    pub(crate) signatures: Box<dyn Signatures>,
    pub(crate) rng: Rng,
    /// The connected peers, indexed by [`PeerKey`].
    pub(crate) peers: Vec<Option<NodeId>>,
    /// What each may cost, by [`PeerKey`].
    pub(crate) efforts: Vec<Effort>,
    /// What was left to peers that have gone.
    pub(crate) departed: Departed,
    /// The topics that each is still to be told of, by [`PeerKey`].
    pub(crate) untold: Vec<Untold>,
    pub(crate) tell_at: Option<Moment>,
    /// Places are used again once a topic is gone.
    pub(crate) topics: Vec<TopicState>,
    pub(crate) by_name: BTreeMap<Topic, usize>,
    /// The numbers of this node's last publications in topics that were forgotten: numbers never start again within one life.
    pub(crate) numbers: BTreeMap<Topic, u64>,
    free_topics: Vec<usize>,
    last_topic: usize,
    pub(crate) cache: Cache,
    pub(crate) timers: Timers,
    armed: Option<Moment>,
    pub(crate) acks: Vec<Acks>,
    /// What is to be asked for at the end of a batch: of many publishers, in one message.
    pub(crate) wants: Vec<Wants>,
    pub(crate) next_uid: u64,
    /// How many more times the present message may look for a publisher that makes room.
    pub(crate) evictions_left: u32,
}

/// How much state an engine holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Topics, joined or asked for by peers.
    pub topics: usize,
    /// Peers of all topics that are pushed to.
    pub eager: usize,
    /// Peers of all topics that are announced to.
    pub lazy: usize,
    /// Number of publishers that have state.
    pub publishers: usize,
    /// Publishers some of whose publications are being looked for.
    pub searching: usize,
    /// Publications that wait for their verdict.
    pub unacked: usize,
    /// Publications kept for peers that ask.
    pub cached_messages: usize,
    /// Total size of the cached frames, in bytes.
    pub cached_bytes: usize,
}

impl Engine {
    /// An engine of the node `me` in its life `incarnation`, which is higher than that of any life before.
    ///
    /// # Errors
    /// [`SettingsError`] if the settings contradict each other.
    pub fn new(
        me: NodeId,
        incarnation: u64,
        settings: Settings,
        signatures: Box<dyn Signatures>,
        seed: u64,
    ) -> Result<Self, SettingsError> {
        let settings = settings.checked()?;
        Ok(Self {
            me,
            incarnation,
            signatures,
            rng: Rng::new(seed),
            peers: Vec::new(),
            efforts: Vec::new(),
            departed: Departed::default(),
            untold: Vec::new(),
            tell_at: None,
            topics: Vec::new(),
            by_name: BTreeMap::new(),
            numbers: BTreeMap::new(),
            free_topics: Vec::new(),
            last_topic: 0,
            cache: Cache::new(settings.cache_limits(), seed),
            timers: Timers::default(),
            armed: None,
            acks: Vec::new(),
            wants: Vec::new(),
            next_uid: 0,
            evictions_left: EVICTIONS_PER_FRAME,
            settings,
        })
    }

    /// Something happened at `now`; what is to be done is added to `out`. [`Engine::settle`] follows, at the latest when
    /// no more events are waiting.
    pub fn on(&mut self, event: Event, now: Moment, out: &mut Vec<Action>) {
        match event {
            Event::PeerUp { peer, node } => self.peer_up(peer, node, now, out),
            Event::PeerDown { peer } => self.peer_down(peer, out),
            Event::Message { from, message } => self.message(from, message, now, out),
            Event::Publish { ticket, topic, body } => self.publish(ticket, &topic, body, now, out),
            Event::Subscribe { topic, claim } => self.subscribe(&topic, claim, now, out),
            Event::Unsubscribe { topic } => self.unsubscribe(&topic, out),
            Event::TopicsTold { peer, count } => self.topics_told(peer, count, out),
            Event::Tick => self.tick(now, out),
            Event::Sent { peer, topic, publications, announcements } => {
                self.sent(peer, &topic, (publications, announcements), now, out);
            }
            Event::Refused { peer, packet } => self.refused(peer, &packet, now, out),
        }
    }

    /// Ends a batch of events: what was gathered over them is sent, and the timer is set.
    pub fn settle(&mut self, out: &mut Vec<Action>) {
        for Acks { peer, topic, incarnation, seqs } in self.acks.drain(..) {
            let accepted = Message::Accepted(Accepted { topic, incarnation, seqs });
            send(out, peer, Packet::new(accepted));
        }
        for wants in self.wants.drain(..) {
            wants.place(out);
        }
        let first = self.timers.first();
        if first != self.armed {
            self.armed = first;
            out.extend(first.map(|at| Action::SetTimer { at }));
        }
    }

    /// The node stops and publishes nothing more: peers are told how far it has got in each topic.
    pub fn conclude(&mut self, now: Moment, out: &mut Vec<Action>) {
        for ix in 0..self.topics.len() {
            self.tell_last_head(ix, now, out);
        }
    }

    /// The node stops: names what waits for peers, or is owed to them, and will not be sent.
    pub fn give_up(&mut self, out: &mut Vec<Action>) {
        for topic in &mut self.topics {
            for (_, member) in topic.members.iter_mut() {
                if let Some(node) = self.peers.get(member.peer.0 as usize).copied().flatten() {
                    out.extend(member.take_unsent().losses(&topic.name, node));
                }
            }
        }
    }

    /// The topics that it knows: joined, published in, or asked for by peers.
    pub fn topic_names(&self) -> impl Iterator<Item = &Topic> {
        self.by_name.keys()
    }

    /// Returns the number of known topics.
    #[must_use]
    pub fn topic_count(&self) -> usize {
        self.by_name.len()
    }

    /// Returns true if the topic is known.
    #[must_use]
    pub fn knows_topic(&self, name: &Topic) -> bool {
        self.by_name.contains_key(name)
    }

    /// How much it holds. Looks at every topic, so not for every event.
    #[must_use]
    pub fn stats(&self) -> Stats {
        let topics = self.topics.iter();
        Stats {
            topics: self.by_name.len(),
            eager: topics.clone().map(|topic| topic.members.eager_len()).sum(),
            lazy: topics.clone().map(|topic| topic.members.len() - topic.members.eager_len()).sum(),
            publishers: topics.clone().map(|topic| topic.tracks.len()).sum(),
            searching: topics.clone().map(|topic| topic.searching).sum(),
            unacked: topics.map(|topic| topic.unacked.len()).sum(),
            cached_messages: self.cache.len(),
            cached_bytes: self.cache.bytes(),
        }
    }

    fn message(&mut self, from: PeerKey, message: Message, now: Moment, out: &mut Vec<Action>) {
        let Some(node) = self.node(from) else { return };
        match message {
            Message::Publish(publication) => self.receive(from, node, publication, now, out),
            Message::IHave(have) => self.announced(from, &have, now, out),
            Message::IWant(want) => {
                let most = self.effort(from).map_or(0, |left| left.take_lookups(want.entries.len(), now));
                self.asked(from, &want.topic, &want.entries[..most], out);
            }
            Message::Graft(graft) => self.grafted(from, &graft, out),
            Message::Prune(topic) => self.pruned(from, &topic),
            Message::Subscribe(topic) => self.peer_joined(from, &topic, now, out),
            Message::Unsubscribe(topic) => self.peer_left(from, &topic, out),
            Message::Accepted(accepted) => self.accepted(&accepted, out),
            Message::Error(fault) => {
                // A peer says that it did not take a publication.
                if let Some(id) = fault.about
                    && let Some(ix) = self.find(&id.topic)
                {
                    self.missed(ix, from, &id, LossReason::Refused, out);
                }
            }
            _ => {}
        }
    }

    fn tick(&mut self, now: Moment, out: &mut Vec<Action>) {
        self.armed = None;
        while let Some(timer) = self.timers.take_due(now) {
            match timer {
                Timer::Announce(ix) => self.announce(ix, now, out),
                Timer::Beat(ix) => self.beat(ix, now, out),
                Timer::Verdict(ix) => self.give_up_waiting(ix, now, out),
                Timer::Sign(ix) => self.sign_if_quiet(ix, now, out),
                Timer::Tell => self.tell_again(out),
                Timer::Search(ix, at) => self.search(ix, at, now, out),
            }
        }
    }

    fn sent(&mut self, peer: PeerKey, topic: &Topic, counts: (u32, u32), now: Moment, out: &mut Vec<Action>) {
        let Some(ix) = self.find(topic) else { return };
        let Some(member) = self.topics[ix].members.get_mut(peer) else { return };
        member.in_flight = member.in_flight.saturating_sub(counts.0);
        member.announcing = member.announcing.saturating_sub(counts.1);
        self.send_backlog(ix, peer, out);
        let member = self.topics[ix].members.get_mut(peer);
        if member.is_some_and(|member| member.owed && member.backlog.is_empty()) {
            self.announce_soon(ix, now);
        }
    }

    /// Sends a peer what waits for it, as far as its budget goes.
    pub(crate) fn send_backlog(&mut self, ix: usize, peer: PeerKey, out: &mut Vec<Action>) {
        let Some(node) = self.node(peer) else { return };
        let topic = &mut self.topics[ix];
        let Some(member) = topic.members.get_mut(peer) else { return };
        let mut evicted = Runs::default();
        while member.in_flight < self.settings.burst_budget {
            let Some((origin, seq)) = member.backlog.pop_front() else { break };
            if let Some(packet) = self.cache.get(origin.uid, seq) {
                member.in_flight += 1;
                send(out, peer, packet.clone());
            } else if member.missed.name(&origin, seq, LossReason::Evicted) {
                // Others may have kept it, so the peer is told that there is something to ask for.
                member.owed = true;
                evicted.add(&origin, seq, LossReason::Evicted);
            }
        }
        out.extend(evicted.losses(&topic.name, node));
    }

    fn refused(&mut self, peer: PeerKey, packet: &Packet, now: Moment, out: &mut Vec<Action>) {
        let Some(topic) = packet.topic() else { return };
        if packet.kind() == Kind::Membership {
            return self.topic_not_told(peer, topic, now);
        }
        let Some(ix) = self.find(topic) else { return };
        let Some(member) = self.topics[ix].members.get_mut(peer) else { return };
        match packet.kind() {
            Kind::Publication => member.in_flight = member.in_flight.saturating_sub(1),
            Kind::Announcement => member.announcing = member.announcing.saturating_sub(1),
            Kind::Membership | Kind::Control => {}
        }
        member.owed = true;
        let is_idle = member.is_idle();
        if let Some(publication) = packet.publication() {
            self.missed(ix, peer, &publication.id, LossReason::Full, out);
        }
        if is_idle {
            // Nothing is on its way that would be reported as sent, so only a timer gets this peer going again.
            self.announce_by(ix, now.after(self.settings.pull_timeout));
        }
    }

    /// What a peer may still cost.
    pub(crate) fn effort(&mut self, peer: PeerKey) -> Option<&mut Effort> {
        self.efforts.get_mut(peer.0 as usize)
    }

    /// Who a peer is, while it is up.
    pub(crate) fn node(&self, peer: PeerKey) -> Option<NodeId> {
        self.peers.get(peer.0 as usize).copied().flatten()
    }

    /// The place of a topic that is known.
    pub(crate) fn find(&mut self, name: &Topic) -> Option<usize> {
        if self.topics.get(self.last_topic).is_some_and(|topic| topic.name == *name) {
            return Some(self.last_topic);
        }
        self.last_topic = *self.by_name.get(name)?;
        Some(self.last_topic)
    }

    /// Whether there is no room for another topic.
    pub(crate) fn is_full(&self) -> bool {
        self.by_name.len() >= self.settings.max_topics
    }

    /// The place of a topic, which is made known if there is room.
    pub(crate) fn open(&mut self, name: &Topic) -> Option<usize> {
        if let Some(ix) = self.find(name) {
            return Some(ix);
        }
        if self.is_full() {
            return None;
        }
        let topic = TopicState::new(name.clone());
        let ix = match self.free_topics.pop() {
            Some(ix) => {
                self.topics[ix] = topic;
                ix
            }
            None => {
                self.topics.push(topic);
                self.topics.len() - 1
            }
        };
        self.by_name.insert(name.clone(), ix);
        Some(ix)
    }

    /// The number of this node's last publication in a topic, in its present life; zero if there is none.
    pub(crate) fn own_number(&self, name: &Topic) -> u64 {
        let present = self.by_name.get(name).map_or(0, |ix| self.topics[*ix].seq);
        present.max(self.numbers.get(name).copied().unwrap_or(0))
    }

    /// Forgets a topic in which only this node ever published, once nobody takes part in it and nothing was published for as long
    /// as publishers are remembered. Its number stays, in a hundredth of the memory. Whether it was forgotten.
    pub(crate) fn forget_if_idle(&mut self, ix: usize, now: Moment) -> bool {
        let topic = &self.topics[ix];
        let is_recent = |track: &Track| now.since(track.heard_at) < self.settings.remember;
        let is_used = topic.joined || !topic.members.is_empty() || !topic.unacked.is_empty();
        if is_used
            || topic.seq == 0
            || topic.tracks.iter().any(|(_, track)| is_recent(track))
            || self.numbers.len() >= self.settings.max_topics.saturating_mul(NUMBERS_PER_TOPIC)
        {
            return false;
        }
        self.numbers.insert(topic.name.clone(), topic.seq);
        for at in 0..self.topics[ix].tracks.places() {
            self.remove_track(ix, at);
        }
        self.topics[ix].seq = 0;
        self.close_if_unused(ix);
        true
    }

    /// Forgets a topic that nobody takes part in and nothing was published in.
    pub(crate) fn close_if_unused(&mut self, ix: usize) {
        let topic = &mut self.topics[ix];
        if topic.is_live() || !topic.members.is_empty() || self.by_name.remove(&topic.name).is_none() {
            return;
        }
        self.timers.set(Timer::Announce(ix), &mut topic.announce_at, None);
        self.timers.set(Timer::Beat(ix), &mut topic.beat_at, None);
        self.timers.set(Timer::Verdict(ix), &mut topic.verdict_at, None);
        self.timers.set(Timer::Sign(ix), &mut topic.sign_at, None);
        self.free_topics.push(ix);
        if self.last_topic == ix {
            self.last_topic = usize::MAX;
        }
    }
}

impl fmt::Debug for Engine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Engine").field("me", &self.me).field("stats", &self.stats()).finish_non_exhaustive()
    }
}

pub(crate) fn send(out: &mut Vec<Action>, to: PeerKey, packet: Packet) {
    let lane = packet.lane();
    out.push(Action::Send { to, packet, lane });
}

/// One publication is lost.
pub(crate) fn lost(id: MessageId, queue: Queue, peer: NodeId, reason: LossReason) -> Action {
    Action::Lost(Loss { last: id.seq, id, queue, peer, reason })
}
