//! The simulated world: nodes with real engines, links between them, and one clock.

use std::{collections::VecDeque, time::Duration};

use bytes::Bytes;
use gossip::{Action, Claim, Engine, Event, Kind, Lane, Packet, PeerKey, Unsigned, Verdict};
use oap::Topic;
use types::{Moment, NodeId};

use crate::{
    graph,
    ledger::Ledger,
    network::{Agenda, Direction, over_the_wire},
    scenario::Scenario,
};

/// What is still to happen.
#[derive(Debug)]
pub(crate) enum Happening {
    /// A frame arrives, unless the link was broken meanwhile.
    Arrive { link: usize, end: usize, epoch: u32, packet: Packet },
    /// A frame leaves for a slow end.
    Depart { link: usize, end: usize, epoch: u32 },
    /// A node's timer, unless another was set.
    Tick { node: usize, generation: u64 },
    /// A node publishes.
    Publish { node: usize, counts: bool },
    /// A link breaks.
    Break { link: usize },
    /// A link comes back, if both ends are there and nothing lies between them.
    Mend { link: usize },
    /// An end notices that a link is broken.
    Notice { link: usize, end: usize, epoch: u32 },
    /// A node is gone.
    Crash { node: usize },
    /// A node comes back, having forgotten everything.
    Restart { node: usize },
    /// The network falls into two parts.
    Split { side: Vec<bool> },
    /// A part of a split is noticed: links on which nothing arrives are given up.
    GiveUp,
    /// The parts come together.
    Heal,
}

pub(crate) struct Node {
    pub(crate) engine: Engine,
    pub(crate) id: NodeId,
    pub(crate) incarnation: u64,
    pub(crate) alive: bool,
    /// Link and end, by [`PeerKey`].
    pub(crate) links: Vec<(usize, usize)>,
    generation: u64,
}

pub(crate) struct Link {
    /// The nodes at its ends.
    pub(crate) nodes: [usize; 2],
    /// What each node calls the other.
    keys: [PeerKey; 2],
    /// Towards each end.
    towards: [Direction; 2],
    pub(crate) up: bool,
    /// Frames vanish, and nobody is told.
    pub(crate) blocked: bool,
    /// What each node believes.
    believed_up: [bool; 2],
    epoch: u32,
}

/// Nodes, links, time, chance and accounts.
pub(crate) struct World<'a> {
    pub(crate) scenario: &'a Scenario,
    pub(crate) rng: fastrand::Rng,
    pub(crate) now: Moment,
    pub(crate) nodes: Vec<Node>,
    pub(crate) links: Vec<Link>,
    pub(crate) agenda: Agenda<Happening>,
    pub(crate) ledger: Ledger,
    pub(crate) events: u64,
    pub(crate) frames: u64,
    topic: Topic,
    trace: bool,
}

impl<'a> World<'a> {
    /// A world at its first moment: everybody is connected and takes part.
    pub(crate) fn new(scenario: &'a Scenario, seed: u64, trace: bool) -> Self {
        let mut rng = fastrand::Rng::with_seed(seed);
        let pairs = graph::regular(scenario.nodes, scenario.degree, &mut rng);
        let mut world = Self {
            scenario,
            now: Moment::ORIGIN,
            nodes: Vec::new(),
            links: Vec::new(),
            agenda: Agenda::default(),
            ledger: Ledger::new(scenario.nodes),
            events: 0,
            frames: 0,
            topic: Topic::new("sim/news").expect("a good name"),
            trace,
            rng,
        };
        for number in 0..scenario.nodes {
            let id = NodeId::of_key(
                &[u8::try_from(number % 251).unwrap_or(0); 32].map(|byte| byte ^ world.rng.u8(..)),
            );
            let engine = world.engine(id, 1);
            world.nodes.push(Node {
                engine,
                id,
                incarnation: 1,
                alive: true,
                links: Vec::new(),
                generation: 0,
            });
        }
        let mut slow: Vec<_> = (0..scenario.nodes).collect();
        world.rng.shuffle(&mut slow);
        slow.truncate(scenario.slow);
        for (a, b) in pairs {
            world.connect(a, b, &slow);
        }
        for node in 0..scenario.nodes {
            let topic = world.topic.clone();
            world.tell(node, Event::Subscribe { topic, claim: Claim::Own });
        }
        for link in 0..world.links.len() {
            world.mend(link);
        }
        world
    }

    /// Lets everything happen up to a moment.
    pub(crate) fn run_until(&mut self, until: Moment) {
        while let Some((at, happening)) = self.agenda.next(until) {
            self.now = self.now.max(at);
            self.events += 1;
            self.happen(happening);
        }
        self.now = until;
    }

    fn happen(&mut self, happening: Happening) {
        match happening {
            Happening::Arrive { link, end, epoch, packet } => self.arrive(link, end, epoch, &packet),
            Happening::Depart { link, end, epoch } => self.depart(link, end, epoch),
            Happening::Tick { node, generation } if self.nodes[node].generation == generation => {
                self.tell(node, Event::Tick);
            }
            Happening::Publish { node, counts } => self.publish(node, counts),
            Happening::Notice { link, end, epoch } if self.links[link].epoch == epoch => {
                self.notice(link, end);
            }
            Happening::Tick { .. } | Happening::Notice { .. } => {}
            fault => self.fault(fault),
        }
    }

    fn connect(&mut self, a: usize, b: usize, slow: &[usize]) {
        let (least, most) = self.scenario.latency_ms;
        let latency = Duration::from_micros(self.rng.u64(least * 1000..=most * 1000));
        let pace = |node: usize| match slow.contains(&node) {
            true => Duration::from_millis(self.scenario.slow_ms),
            false => Duration::ZERO,
        };
        let towards = [a, b].map(|node| Direction::new(latency, pace(node)));
        let keys =
            [a, b].map(|node| PeerKey(u32::try_from(self.nodes[node].links.len()).unwrap_or(u32::MAX)));
        let link = self.links.len();
        self.nodes[a].links.push((link, 0));
        self.nodes[b].links.push((link, 1));
        self.links.push(Link {
            nodes: [a, b],
            keys,
            towards,
            up: false,
            blocked: false,
            believed_up: [false; 2],
            epoch: 0,
        });
    }

    pub(crate) fn engine(&mut self, id: NodeId, incarnation: u64) -> Engine {
        let seed = self.rng.u64(..);
        Engine::new(id, incarnation, self.scenario.settings(), Box::new(Unsigned), seed)
            .expect("sound settings")
    }

    fn publish(&mut self, node: usize, counts: bool) {
        if !self.nodes[node].alive {
            return;
        }
        let (topic, ticket) = (self.topic.clone(), u64::from(counts));
        let body = Bytes::from(vec![self.rng.u8(..); self.scenario.body]);
        let life = self.life(node);
        let seq = self.ledger.count(life) + 1;
        self.ledger.published(node, life, seq, counts, self.now);
        self.tell(node, Event::Publish { ticket, topic, body });
    }

    /// What everything is published in.
    pub(crate) fn topic(&self) -> Topic {
        self.topic.clone()
    }

    /// Who a node is at present.
    pub(crate) fn life(&self, node: usize) -> (NodeId, u64) {
        (self.nodes[node].id, self.nodes[node].incarnation)
    }

    /// Tells a node's engine something, and does what it asks for.
    pub(crate) fn tell(&mut self, node: usize, event: Event) {
        let mut events = VecDeque::from([event]);
        let mut actions = Vec::new();
        while let Some(event) = events.pop_front() {
            if self.trace {
                eprintln!("{:>12?} node {node} <- {event:?}", self.now.since(Moment::ORIGIN));
            }
            self.nodes[node].engine.on(event, self.now, &mut actions);
            self.nodes[node].engine.settle(&mut actions);
            for action in actions.drain(..) {
                if self.trace {
                    eprintln!("{:>12?} node {node} -> {action:?}", self.now.since(Moment::ORIGIN));
                }
                events.extend(self.act(node, action));
            }
        }
    }

    /// Does what an engine asks for. What comes of it at once is told to the engine.
    fn act(&mut self, node: usize, action: Action) -> Option<Event> {
        match action {
            Action::Send { to, packet, lane } => return self.send(node, to, packet, lane),
            Action::Deliver { packet, hops, .. } => {
                let id = &packet.publication()?.id;
                self.ledger.delivered(node, (id.publisher, id.incarnation), id.seq, hops, self.now);
            }
            Action::Gap(gap) => self.ledger.named(node, &gap),
            Action::Verdict { verdict: Verdict::Busy, .. } => self.ledger.withdrawn(self.life(node)),
            Action::Verdict { id, verdict, .. } => {
                let id = id.filter(|_| verdict == Verdict::Accepted)?;
                self.ledger.accepted((id.publisher, id.incarnation), id.seq);
            }
            Action::SetTimer { at } => {
                self.nodes[node].generation += 1;
                let generation = self.nodes[node].generation;
                self.agenda.plan(at, Happening::Tick { node, generation });
            }
            Action::Misbehaved { .. }
            | Action::NoRoomForPeer { .. }
            | Action::SubscribeRefused { .. }
            | Action::Outlived { .. } => {
                self.ledger.violations.push(format!("node {node}: {action:?}"));
            }
            Action::Lost(loss) => self.ledger.lost(node, &loss),
        }
        None
    }

    fn send(&mut self, node: usize, to: PeerKey, packet: Packet, lane: Lane) -> Option<Event> {
        let (number, own_end) = self.nodes[node].links[to.0 as usize];
        let link = &mut self.links[number];
        let end = 1 - own_end;
        let towards = &mut link.towards[end];
        if !link.up || towards.pace.is_zero() {
            let event = sent(to, &packet);
            self.transmit(number, end, packet);
            return event;
        }
        if let Some(packet) = towards.queue(packet, lane == Lane::Control) {
            return Some(Event::Refused { peer: to, packet });
        }
        if !std::mem::replace(&mut towards.busy, true) {
            let (at, epoch) = (self.now.after(towards.pace), link.epoch);
            self.agenda.plan(at, Happening::Depart { link: number, end, epoch });
        }
        None
    }

    /// A frame leaves for a slow end, and the next one follows.
    fn depart(&mut self, number: usize, end: usize, epoch: u32) {
        let link = &mut self.links[number];
        if link.epoch != epoch {
            return;
        }
        let packet = link.towards[end].take();
        link.towards[end].busy = !link.towards[end].lanes.is_empty();
        if link.towards[end].busy {
            let at = self.now.after(link.towards[end].pace);
            self.agenda.plan(at, Happening::Depart { link: number, end, epoch });
        }
        let (node, key) = (link.nodes[1 - end], link.keys[1 - end]);
        if let Some(packet) = packet {
            let event = sent(key, &packet);
            self.transmit(number, end, packet);
            event.into_iter().for_each(|event| self.tell(node, event));
        }
    }

    fn transmit(&mut self, number: usize, end: usize, packet: Packet) {
        self.frames += 1;
        let jitter = Duration::from_micros(self.rng.u64(..1000));
        let is_lost = self.rng.f64() < self.scenario.loss;
        let link = &mut self.links[number];
        if link.up && !link.blocked && !is_lost {
            let at = link.towards[end].arrival(self.now, jitter);
            self.agenda.plan(at, Happening::Arrive { link: number, end, epoch: link.epoch, packet });
        }
    }

    fn arrive(&mut self, number: usize, end: usize, epoch: u32, packet: &Packet) {
        let link = &self.links[number];
        let (node, from) = (link.nodes[end], link.keys[end]);
        if link.epoch != epoch || link.blocked || !self.nodes[node].alive {
            return;
        }
        if let Some(publication) = packet.publication() {
            self.ledger.copied((publication.id.publisher, publication.id.incarnation), publication.id.seq);
        }
        let message = match self.frames.is_multiple_of(self.scenario.encode_every) {
            true => over_the_wire(packet),
            false => packet.message().clone(),
        };
        self.tell(node, Event::Message { from, message });
    }

    /// A link breaks: nothing arrives any more, and whoever is at its ends notices now or later.
    pub(crate) fn break_link(&mut self, number: usize, notice_after: Duration) {
        let link = &mut self.links[number];
        link.up = false;
        link.epoch += 1;
        for towards in &mut link.towards {
            towards.lanes.drain().for_each(drop);
            towards.busy = false;
        }
        let epoch = link.epoch;
        for end in 0..2 {
            self.agenda.plan(self.now.after(notice_after), Happening::Notice { link: number, end, epoch });
        }
    }

    fn notice(&mut self, number: usize, end: usize) {
        let link = &mut self.links[number];
        let (node, peer) = (link.nodes[end], link.keys[end]);
        if std::mem::take(&mut link.believed_up[end]) && self.nodes[node].alive {
            self.tell(node, Event::PeerDown { peer });
        }
    }

    /// A link comes up, if both ends are there and nothing lies between them.
    pub(crate) fn mend(&mut self, number: usize) {
        let link = &self.links[number];
        if link.up || link.blocked || !link.nodes.iter().all(|node| self.nodes[*node].alive) {
            return;
        }
        for end in 0..2 {
            self.notice(number, end);
        }
        let link = &mut self.links[number];
        link.up = true;
        link.epoch += 1;
        link.believed_up = [true; 2];
        let (nodes, keys) = (link.nodes, link.keys);
        for end in 0..2 {
            let node = self.nodes[nodes[1 - end]].id;
            self.tell(nodes[end], Event::PeerUp { peer: keys[end], node });
        }
    }
}

fn sent(peer: PeerKey, packet: &Packet) -> Option<Event> {
    let (publications, announcements) = match packet.kind() {
        Kind::Publication => (1, 0),
        Kind::Announcement => (0, 1),
        Kind::Membership => return Some(Event::TopicsTold { peer, count: 1 }),
        Kind::Control => return None,
    };
    Some(Event::Sent { peer, topic: packet.topic()?.clone(), publications, announcements })
}

impl Node {
    /// A new life of the node.
    pub(crate) fn revive(&mut self, engine: Engine, incarnation: u64) {
        self.engine = engine;
        self.incarnation = incarnation;
        self.alive = true;
        // Timers of the life before must not fire in this one.
        self.generation += 1;
    }
}

impl Link {
    /// A node at its end is gone, and believes nothing.
    pub(crate) fn forget_belief_of(&mut self, node: usize) {
        for end in 0..2 {
            self.believed_up[end] &= self.nodes[end] != node;
        }
    }
}
