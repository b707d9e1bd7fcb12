//! One engine, spoken to as its neighbours would.

use std::time::Duration;

use bytes::Bytes;
use gossip::{Action, Claim, Engine, Event, Gap, LossReason, PeerKey, Settings, Signatures, Verdict};
use oap::{Entry, Head, IHave, Message, MessageId, Proof, Publication, Topic};
use types::{Moment, NodeId};

/// An engine that takes part in a topic, its clock, and what it asked for since that was last looked at.
pub(crate) struct Bench {
    pub(crate) engine: Engine,
    pub(crate) now: Moment,
    pub(crate) actions: Vec<Action>,
}

pub(crate) fn topic() -> Topic {
    Topic::new("news").expect("a good name")
}

pub(crate) fn node(number: u8) -> NodeId {
    NodeId::new([number; 32])
}

pub(crate) fn entry(publisher: u8, seq: u64) -> Entry {
    Entry { publisher: node(publisher), incarnation: 1, seq }
}

/// A publication as a neighbour passes it on, with its publisher's word for its number.
pub(crate) fn publication(publisher: u8, seq: u64) -> Publication {
    let proof = Some(proof(entry(publisher, seq)).into());
    Publication { proof, ..unproven(publisher, seq) }
}

/// A publication as a neighbour passes it on.
pub(crate) fn unproven(publisher: u8, seq: u64) -> Publication {
    let id = entry(publisher, seq).in_topic(&topic());
    Publication { hops: 1, ..Publication::new(id, Bytes::from(format!("{publisher} says {seq}"))) }
}

/// What only the publisher can make, as far as these tests go.
pub(crate) fn proof(entry: Entry) -> Proof {
    let mut signature = [0; 64];
    signature[..8].copy_from_slice(&entry.seq.to_be_bytes());
    signature[8..16].copy_from_slice(&entry.incarnation.to_be_bytes());
    Proof { key: *entry.publisher.as_bytes(), signature }
}

/// Signs heads with [`proof`], and checks them. Only publications of node 97 have to be signed. Node 99 is listed.
struct Proofs;

impl Signatures for Proofs {
    fn sign(&self, _: &Publication) -> Option<[u8; 64]> {
        None
    }

    fn verify(&self, publication: &Publication) -> bool {
        publication.id.publisher != node(97) || publication.signature == Some([97; 64])
    }

    fn sign_head(&self, head: &MessageId) -> Proof {
        proof(head.entry())
    }

    fn verify_head(&self, head: &MessageId, proof: &Proof) -> bool {
        *proof == self::proof(head.entry())
    }

    fn is_known(&self, _: &Topic, publisher: NodeId) -> bool {
        publisher != node(98)
    }

    fn is_listed(&self, publisher: NodeId) -> bool {
        publisher == node(99)
    }
}

impl Bench {
    /// Node 0, which takes part in the topic.
    pub(crate) fn new(settings: Settings) -> Self {
        let engine = Engine::new(node(0), 1, settings, Box::new(Proofs), 7).expect("sound settings");
        let mut bench = Self { engine, now: Moment::ORIGIN, actions: Vec::new() };
        bench.tell(Event::Subscribe { topic: topic(), claim: Claim::Own });
        bench
    }

    pub(crate) fn tell(&mut self, event: Event) {
        self.engine.on(event, self.now, &mut self.actions);
        self.engine.settle(&mut self.actions);
    }

    /// A neighbour that takes part.
    pub(crate) fn join(&mut self, number: u8) {
        self.connect(number);
        self.hear(number, Message::Subscribe(topic()));
    }

    /// A neighbour.
    pub(crate) fn connect(&mut self, number: u8) {
        self.tell(Event::PeerUp { peer: PeerKey(number.into()), node: node(number) });
    }

    pub(crate) fn hear(&mut self, from: u8, message: Message) {
        self.tell(Event::Message { from: PeerKey(from.into()), message });
    }

    pub(crate) fn hear_publication(&mut self, from: u8, publisher: u8, seq: u64) {
        self.hear(from, Message::Publish(publication(publisher, seq)));
    }

    pub(crate) fn hear_heads(&mut self, from: u8, heads: &[Entry]) {
        let heads = heads.iter().map(|entry| Head { entry: *entry, proof: proof(*entry) }).collect();
        self.hear(from, Message::IHave(IHave { topic: topic(), entries: Vec::new(), heads }));
    }

    /// A neighbour claims to have these, and nobody proves it.
    pub(crate) fn hear_entries(&mut self, from: u8, entries: &[Entry]) {
        let entries = entries.to_vec();
        self.hear(from, Message::IHave(IHave { topic: topic(), entries, heads: Vec::new() }));
    }

    pub(crate) fn publish(&mut self, ticket: u64) {
        self.tell(Event::Publish { ticket, topic: topic(), body: Bytes::from_static(b"hello") });
    }

    pub(crate) fn sent(&mut self, to: u8, publications: u32) {
        self.tell(Event::Sent { peer: PeerKey(to.into()), topic: topic(), publications, announcements: 100 });
    }

    /// Lets time pass in small steps, as the timers ask.
    pub(crate) fn pass(&mut self, time: Duration) {
        let end = self.now.after(time);
        while self.now < end {
            self.now = self.now.after(Duration::from_millis(10)).min(end);
            self.tell(Event::Tick);
        }
    }

    pub(crate) fn take(&mut self) -> Vec<Action> {
        std::mem::take(&mut self.actions)
    }

    /// What was to be sent to a neighbour.
    pub(crate) fn said_to(&mut self, number: u8) -> Vec<Message> {
        let to_it = |action: &Action| match action {
            Action::Send { to, packet, .. } if *to == PeerKey(number.into()) => {
                Some(packet.message().clone())
            }
            _ => None,
        };
        self.actions.iter().filter_map(to_it).collect()
    }

    /// Publisher and number of what was delivered.
    pub(crate) fn delivered(&self) -> Vec<(NodeId, u64)> {
        let id = |action: &Action| match action {
            Action::Deliver { packet, .. } => packet.publication().map(|it| (it.id.publisher, it.id.seq)),
            _ => None,
        };
        self.actions.iter().filter_map(id).collect()
    }

    pub(crate) fn gaps(&self) -> Vec<Gap> {
        let gap = |action: &Action| match action {
            Action::Gap(gap) => Some(gap.clone()),
            _ => None,
        };
        self.actions.iter().filter_map(gap).collect()
    }

    pub(crate) fn verdicts(&self) -> Vec<(u64, Verdict)> {
        let verdict = |action: &Action| match action {
            Action::Verdict { ticket, verdict, .. } => Some((*ticket, *verdict)),
            _ => None,
        };
        self.actions.iter().filter_map(verdict).collect()
    }

    pub(crate) fn losses(&self) -> Vec<LossReason> {
        let loss = |action: &Action| match action {
            Action::Lost(loss) => Some(loss.reason),
            _ => None,
        };
        self.actions.iter().filter_map(loss).collect()
    }

    /// What was lost on the way to a neighbour: publisher, numbers, and why.
    pub(crate) fn lost_to(&self, number: u8) -> Vec<(NodeId, std::ops::RangeInclusive<u64>, LossReason)> {
        let loss = |action: &Action| match action {
            Action::Lost(loss) if loss.peer == node(number) => {
                Some((loss.id.publisher, loss.id.seq..=loss.last, loss.reason))
            }
            _ => None,
        };
        self.actions.iter().filter_map(loss).collect()
    }

    pub(crate) fn is_misbehaviour_seen(&self) -> bool {
        self.actions.iter().any(|action| matches!(action, Action::Misbehaved { .. }))
    }
}
