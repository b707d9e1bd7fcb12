//! A peer that takes less than there is: of everything that was to be pushed to it, it got each publication or that is named.

use std::{
    collections::{BTreeSet, VecDeque},
    time::Duration,
};

use crate::support::{Bench, entry, node, topic};
use gossip::{Action, Event, Kind, Lane, LossReason, Packet, PeerKey, Settings};
use oap::{ErrorCode, Fault, IWant, Message};
use proptest::prelude::*;

/// Two on their way, three behind them, eight kept.
fn small() -> Settings {
    Settings { burst_budget: 2, backlog: 3, cache_messages: 8, ..Settings::default() }
}

/// A bench, its slow neighbour, and what is in the neighbour's queue.
struct Slow {
    bench: Bench,
    queue: VecDeque<Packet>,
    got: BTreeSet<u64>,
    named: Vec<u64>,
    published: u64,
}

const SLOW: u8 = 1;

impl Slow {
    fn new(settings: Settings) -> Self {
        let mut bench = Bench::new(settings);
        bench.join(SLOW);
        bench.join(2);
        let mut slow =
            Self { bench, queue: VecDeque::new(), got: BTreeSet::new(), named: Vec::new(), published: 0 };
        slow.look();
        slow
    }

    /// Another neighbour publishes.
    fn publish(&mut self, count: u64) {
        for _ in 0..count {
            self.published += 1;
            self.bench.hear_publication(2, 2, self.published);
            self.look();
        }
    }

    /// What the engine asked for since.
    fn look(&mut self) {
        for action in self.bench.take() {
            match action {
                Action::Send { to, packet, lane: Lane::Gossip } if to == PeerKey(SLOW.into()) => {
                    // What tells of topics is not what is looked at.
                    self.queue.extend(Some(packet).filter(|packet| packet.kind() != Kind::Membership));
                }
                Action::Lost(loss) if loss.peer == node(SLOW) => {
                    assert_eq!(loss.id.publisher, node(2));
                    assert_eq!(loss.count(), (loss.id.seq..=loss.last).count() as u64);
                    self.named.extend(loss.id.seq..=loss.last);
                }
                _ => {}
            }
        }
    }

    /// The peer takes what is first in its queue.
    fn take(&mut self) {
        let Some(packet) = self.queue.pop_front() else { return };
        self.got.extend(packet.publication().map(|publication| publication.id.seq));
        let (publications, announcements) = match packet.message() {
            Message::Publish(_) => (1, 0),
            Message::IHave(_) => (0, 1),
            _ => (0, 0),
        };
        let peer = PeerKey(SLOW.into());
        self.bench.tell(Event::Sent { peer, topic: topic(), publications, announcements });
        self.look();
    }

    /// The queue gives up what is first in it.
    fn refuse(&mut self) {
        let Some(packet) = self.queue.pop_front() else { return };
        self.bench.tell(Event::Refused { peer: PeerKey(SLOW.into()), packet });
        self.look();
    }

    /// The peer takes what is first in its queue, and says that it cannot if that is a publication.
    fn send_back(&mut self) {
        if self.queue.front().is_none_or(|packet| packet.publication().is_none()) {
            return self.take();
        }
        let Some(packet) = self.queue.pop_front() else { return };
        let Some(publication) = packet.publication() else { return };
        let peer = PeerKey(SLOW.into());
        self.bench.tell(Event::Sent { peer, topic: topic(), publications: 1, announcements: 0 });
        let fault = Fault { about: Some(publication.id.clone()), ..Fault::new(ErrorCode::Busy, "") };
        self.bench.hear(SLOW, Message::Error(fault));
        self.look();
    }

    fn ask(&mut self, seqs: impl Iterator<Item = u64>) {
        let entries: Vec<_> = seqs.map(|seq| entry(2, seq)).collect();
        if !entries.is_empty() {
            self.bench.hear(SLOW, Message::IWant(IWant { topic: topic(), entries }));
            self.look();
        }
    }

    fn pass(&mut self, time: Duration) {
        self.bench.pass(time);
        self.look();
    }

    /// The peer takes everything that is sent to it from now on, and asks for what it is told of and has not got.
    fn recover(&mut self) {
        for _ in 0..10 {
            while !self.queue.is_empty() {
                let told = match self.queue[0].message() {
                    Message::IHave(have) => have.heads.iter().map(|head| head.entry.seq).max().unwrap_or(0),
                    _ => 0,
                };
                self.take();
                let got = self.got.clone();
                self.ask((1..=told).filter(|seq| !got.contains(seq)));
            }
            self.pass(Duration::from_secs(1));
        }
    }

    /// The peer goes; what is in its queue is the caller's to name.
    fn leave(&mut self) {
        let left: Vec<_> = self.queue.drain(..).collect();
        self.named.extend(left.iter().filter_map(Packet::publication).map(|publication| publication.id.seq));
        self.bench.tell(Event::PeerDown { peer: PeerKey(SLOW.into()) });
        self.look();
    }

    /// What it neither got nor is named.
    fn unexplained(&self) -> Vec<u64> {
        (1..=self.published).filter(|seq| !self.got.contains(seq) && !self.named.contains(seq)).collect()
    }
}

#[test]
fn what_the_budget_has_no_room_for_is_named_when_it_is_not_kept_any_more() {
    let mut slow = Slow::new(small());
    slow.publish(10);
    slow.pass(Settings::default().heartbeat * 2);
    assert_eq!(slow.named, [], "all of it waits or can be asked for");
    slow.publish(5);
    slow.pass(Settings::default().heartbeat * 2);
    // Kept are 8 to 15; on their way or waiting for that are 1 to 5.
    assert_eq!(slow.named, [6, 7]);
    slow.ask(6..=7);
    assert_eq!(slow.named, [6, 7], "and not again");
}

#[test]
fn what_waits_for_its_turn_and_is_not_kept_until_then_is_named() {
    let mut slow = Slow::new(small());
    slow.publish(15);
    (0..2).for_each(|_| slow.take());
    assert_eq!(slow.got.iter().copied().collect::<Vec<_>>(), [1, 2]);
    assert_eq!(slow.named, [3, 4, 5]);
}

#[test]
fn what_is_asked_for_while_it_is_kept_is_not_named() {
    let mut slow = Slow::new(small());
    slow.publish(8);
    (0..6).for_each(|_| slow.take());
    slow.ask(6..=8);
    (0..6).for_each(|_| slow.take());
    slow.publish(20);
    assert_eq!(slow.got.range(..=8).count(), 8);
    assert!(slow.named.iter().all(|seq| *seq > 8), "{:?}", slow.named);
}

#[test]
fn when_the_peer_goes_or_the_node_stops_what_waits_for_it_is_named_in_runs() {
    let losses = |stop: fn(&mut Bench)| {
        let mut slow = Slow::new(small());
        slow.publish(10);
        stop(&mut slow.bench);
        slow.bench.lost_to(SLOW)
    };
    let expected = [(node(2), 6..=10, LossReason::Budget), (node(2), 3..=5, LossReason::Closed)];
    assert_eq!(losses(|bench| bench.tell(Event::PeerDown { peer: PeerKey(SLOW.into()) })), expected);
    assert_eq!(losses(|bench| bench.engine.give_up(&mut bench.actions)), expected);
}

#[test]
fn who_leaves_a_topic_misses_nothing_of_it() {
    let mut slow = Slow::new(small());
    slow.publish(10);
    slow.bench.hear(SLOW, Message::Unsubscribe(topic()));
    slow.leave();
    assert_eq!(slow.named, [1, 2], "what was in its queue");
}

#[test]
fn a_peer_cannot_have_named_what_never_was() {
    let mut slow = Slow::new(small());
    slow.publish(1);
    for id in [entry(2, 9), entry(9, 1), entry(2, 0)] {
        let fault = Fault { about: Some(id.in_topic(&topic())), ..Fault::new(ErrorCode::Busy, "") };
        slow.bench.hear(SLOW, Message::Error(fault));
    }
    slow.take();
    slow.leave();
    assert_eq!(slow.named, []);
}

#[test]
fn what_waits_is_sent_also_if_everything_before_it_was_given_up() {
    let mut slow = Slow::new(small());
    slow.publish(5);
    (0..2).for_each(|_| slow.refuse());
    assert!(slow.queue.is_empty(), "nothing is on its way whose departure could move the rest");
    slow.recover();
    assert_eq!(slow.got.iter().copied().collect::<Vec<_>>(), [1, 2, 3, 4, 5]);
    assert_eq!(slow.named, []);
}

#[derive(Clone, Debug)]
enum Step {
    Publish(u64),
    Take(usize),
    Refuse(usize),
    SendBack,
    Ask(u64),
    Wait(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..6u64).prop_map(Step::Publish),
        3 => (1..5usize).prop_map(Step::Take),
        1 => (1..3usize).prop_map(Step::Refuse),
        1 => Just(Step::SendBack),
        1 => (1..80u64).prop_map(Step::Ask),
        2 => (1..1500u64).prop_map(Step::Wait),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn whatever_a_slow_peer_does_it_got_each_publication_or_that_is_named(
        steps in prop::collection::vec(step(), 1..80),
        recovers in any::<bool>(),
    ) {
        let mut slow = Slow::new(small());
        let mut asked = recovers;
        for step in steps {
            match step {
                Step::Publish(count) => slow.publish(count),
                Step::Take(count) => (0..count).for_each(|_| slow.take()),
                Step::Refuse(count) => (0..count).for_each(|_| slow.refuse()),
                Step::SendBack => slow.send_back(),
                Step::Ask(upto) => {
                    asked = true;
                    let got = slow.got.clone();
                    slow.ask((1..=upto.min(slow.published)).filter(|seq| !got.contains(seq)));
                }
                Step::Wait(ms) => slow.pass(Duration::from_millis(ms)),
            }
        }
        if recovers {
            slow.recover();
            prop_assert_eq!(slow.unexplained(), [], "before it goes");
        }
        slow.leave();
        prop_assert_eq!(slow.unexplained(), []);
        // Whoever asks for what is on its way may get one copy and lose another.
        if !asked {
            prop_assert_eq!(slow.got.len() + slow.named.len(), usize::try_from(slow.published).unwrap_or(0));
        }
    }
}
