//! Random events for a gossip engine: it neither panics nor delivers twice, says only what can be said, keeps its bounds,
//! and in the end everything it was told of is delivered or named.

#![no_main]

use bytes::Bytes;
use gossip::{Action, Claim, Engine, Event, PeerKey, Settings, Unsigned};
use libfuzzer_sys::fuzz_target;
use oap::{Accepted, Entry, Graft, Head, IHave, IWant, Message, MessageId, Proof, Publication, Topic};
use std::{collections::BTreeSet, time::Duration};
use types::{Moment, NodeId};

fuzz_target!(|input: &[u8]| {
    let mut run = Run::new();
    for step in input.chunks_exact(4).take(2000) {
        run.apply(step[0], step[1], step[2], step[3]);
    }
    run.finish();
});

/// Whoever is to check it takes everything.
const PROOF: Proof = Proof { key: [0; 32], signature: [0; 64] };

struct Run {
    engine: Engine,
    topics: [Topic; 2],
    now: Moment,
    up: BTreeSet<u32>,
    delivered: BTreeSet<(NodeId, u64, Topic, u64)>,
}

fn settings() -> Settings {
    Settings {
        burst_budget: 3,
        backlog: 5,
        cache_messages: 16,
        cache_bytes: 4096,
        dedupe_window: 64,
        history: 8,
        max_topics: 2,
        max_publishers: 5,
        max_unacked: 4,
        patience: Duration::from_secs(2),
        ..Settings::default()
    }
}

fn node(number: u8) -> NodeId {
    NodeId::new([number; 32])
}

impl Run {
    fn new() -> Self {
        let engine = Engine::new(node(0), 3, settings(), Box::new(Unsigned), 1).expect("sound settings");
        let topics = ["a", "b"].map(|name| Topic::new(name).expect("a good name"));
        let mut run =
            Self { engine, topics, now: Moment::ORIGIN, up: BTreeSet::new(), delivered: BTreeSet::new() };
        run.tell(Event::Subscribe { topic: run.topics[0].clone(), claim: Claim::Own });
        run
    }

    fn apply(&mut self, what: u8, a: u8, b: u8, c: u8) {
        let peer = PeerKey(u32::from(a % 6));
        let topic = self.topics[usize::from(b & 1)].clone();
        // Small numbers, numbers far apart, and numbers beyond all reason.
        let seq = if b & 0x80 == 0 { u64::from(c) } else { u64::from(c) << (b >> 1 & 63) };
        let entry = Entry { publisher: node(a >> 4), incarnation: u64::from(b >> 6), seq };
        let event = match what % 16 {
            0 if self.up.insert(peer.0) => Event::PeerUp { peer, node: node(a % 6 + 1) },
            1 if self.up.remove(&peer.0) => Event::PeerDown { peer },
            2..=5 => {
                let id = MessageId { topic, ..entry.in_topic(&self.topics[0]) };
                let mut publication = Publication::new(id, Bytes::from(vec![c; usize::from(b)]));
                publication.hops = c & 1;
                publication.proof = (c & 2 == 0).then(|| PROOF.into());
                publication.digest[0] ^= u8::from(what & 0xf0 == 0xf0);
                Event::Message { from: peer, message: Message::Publish(publication) }
            }
            6 | 7 => {
                let head = Head { entry, proof: PROOF };
                let (entries, heads) =
                    if what & 0x10 == 0 { (vec![], vec![head]) } else { (vec![entry], vec![]) };
                let have = IHave { topic, entries, heads };
                Event::Message { from: peer, message: Message::IHave(have) }
            }
            8 => Event::Message {
                from: peer,
                message: Message::IWant(IWant { topic, entries: vec![entry; 3] }),
            },
            9 => {
                Event::Message { from: peer, message: Message::Graft(Graft { topic, missing: Some(entry) }) }
            }
            10 if c & 1 == 0 => Event::Message { from: peer, message: Message::Prune(topic) },
            10 => Event::Message { from: peer, message: Message::Unsubscribe(topic) },
            11 => Event::Message { from: peer, message: Message::Subscribe(topic) },
            12 => {
                let accepted = Accepted { topic, incarnation: 3, seqs: vec![seq, 1] };
                Event::Message { from: peer, message: Message::Accepted(accepted) }
            }
            13 if c & 1 == 0 => Event::Sent { peer, topic, publications: c.into(), announcements: 1 },
            13 if c & 2 == 0 => Event::TopicsTold { peer, count: c.into() },
            13 => Event::Publish { ticket: c.into(), topic, body: Bytes::from(vec![b; usize::from(c)]) },
            14 if c & 8 == 0 => {
                let claim = [Claim::Own, Claim::Application(a.into()), Claim::Peers][usize::from(c % 3)];
                Event::Subscribe { topic, claim }
            }
            14 => Event::Unsubscribe { topic },
            _ => {
                self.now = self.now.after(Duration::from_millis(u64::from(c) * 10));
                Event::Tick
            }
        };
        self.tell(event);
    }

    fn tell(&mut self, event: Event) {
        // Whoever takes part anew may be delivered what was delivered before.
        if let Event::Unsubscribe { topic } = &event {
            self.delivered.retain(|(.., of, _)| of != topic);
        }
        let mut actions = Vec::new();
        self.engine.on(event, self.now, &mut actions);
        self.engine.settle(&mut actions);
        for action in actions {
            match action {
                Action::Send { packet, .. } => packet.message().check().expect("only what can be said"),
                Action::Deliver { packet, .. } => {
                    let id = packet.publication().expect("only publications are delivered").id.clone();
                    assert!(self.delivered.insert((id.publisher, id.incarnation, id.topic, id.seq)), "twice");
                }
                Action::Gap(gap) => assert!(0 < gap.from && gap.from <= gap.to),
                Action::SetTimer { at } => assert!(at >= self.now, "a timer that is over"),
                _ => {}
            }
        }
        let stats = self.engine.stats();
        assert!(stats.cached_messages <= 16 && stats.cached_bytes <= 4096 + 66_000);
        assert!(stats.topics <= 2 && stats.publishers <= 10 && stats.unacked <= 8);
    }

    fn finish(&mut self) {
        for _ in 0..100 {
            self.now = self.now.after(Duration::from_millis(100));
            self.tell(Event::Tick);
        }
        assert_eq!((self.engine.stats().searching, self.engine.stats().unacked), (0, 0));
    }
}
