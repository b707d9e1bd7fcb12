//! Runs that are longer than every window and table: repair works after any number of publications as it does at first.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::RangeInclusive,
    time::Duration,
};

use crate::support::{Bench, entry, node};
use gossip::{Action, GapReason, PeerKey, Settings};
use oap::{Entry, Message};
use proptest::prelude::*;

/// The neighbour that publishes and answers.
const PUBLISHER: u8 = 1;

/// A bench, and a neighbour that publishes and answers for what it still holds.
struct Link {
    bench: Bench,
    published: u64,
    /// How many of its publications the neighbour holds.
    held: u64,
    /// Frames of the neighbour do not arrive.
    cut: bool,
    delivered: BTreeSet<u64>,
    gaps: Vec<(RangeInclusive<u64>, GapReason)>,
}

impl Link {
    fn new(settings: Settings, held: u64) -> Self {
        let mut bench = Bench::new(settings);
        bench.join(PUBLISHER);
        Self { bench, published: 0, held, cut: false, delivered: BTreeSet::new(), gaps: Vec::new() }
    }

    fn publish(&mut self, count: u64) {
        for _ in 0..count {
            self.published += 1;
            if !self.cut {
                self.bench.hear_publication(PUBLISHER, PUBLISHER, self.published);
                self.answer();
            }
        }
    }

    /// Time passes, with the neighbour's heartbeats and its answers.
    fn pass(&mut self, time: Duration) {
        let end = self.bench.now.after(time);
        while self.bench.now < end {
            if !self.cut && self.published > 0 {
                self.bench.hear_heads(PUBLISHER, &[entry(PUBLISHER, self.published)]);
            }
            for _ in 0..100 {
                self.bench.pass(Duration::from_millis(10));
                self.answer();
            }
        }
    }

    /// Takes account of what the engine did, and answers what it asks for.
    fn answer(&mut self) {
        let mut wanted: VecDeque<Entry> = self.look();
        while let Some(Entry { seq, .. }) = wanted.pop_front() {
            let is_held = seq <= self.published && seq + self.held > self.published;
            if is_held && !self.cut {
                self.bench.hear_publication(PUBLISHER, PUBLISHER, seq);
                wanted.extend(self.look());
            }
        }
    }

    fn look(&mut self) -> VecDeque<Entry> {
        let mut wanted = VecDeque::new();
        for action in self.bench.take() {
            match action {
                Action::Deliver { packet, .. } => {
                    let id = &packet.publication().expect("a publication").id;
                    assert!(self.delivered.insert(id.seq), "{} was delivered twice", id.seq);
                }
                Action::Gap(gap) => {
                    assert_eq!(gap.publisher, node(PUBLISHER));
                    self.gaps.push((gap.from..=gap.to, gap.reason));
                }
                Action::Send { to: PeerKey(1), packet, .. } => match packet.message() {
                    Message::IWant(want) => wanted.extend(want.entries.iter().copied()),
                    Message::Graft(graft) => wanted.extend(graft.missing),
                    _ => {}
                },
                _ => {}
            }
        }
        wanted
    }

    fn unexplained(&self) -> Vec<u64> {
        let is_named = |seq: &u64| self.gaps.iter().any(|(gap, _)| gap.contains(seq));
        (1..=self.published).filter(|seq| !self.delivered.contains(seq) && !is_named(seq)).collect()
    }
}

#[test]
fn a_cut_is_repaired_after_any_number_of_publications() {
    for before in [10, 1_000, 4_096, 5_000, 32_767, 32_768, 32_769, 100_000] {
        let mut link = Link::new(Settings::default(), 8192);
        link.publish(before);
        link.cut = true;
        link.publish(50);
        link.cut = false;
        link.pass(Duration::from_secs(20));
        link.publish(2);
        assert_eq!(link.gaps, [], "after {before}");
        assert_eq!(link.delivered.len() as u64, before + 52, "after {before}");
    }
}

#[test]
fn a_cut_as_long_as_the_window_and_a_longer_one_are_repaired() {
    let window = Settings::default().dedupe_window as u64;
    for cut in [window - 1, window, window + 1, 3 * window] {
        let mut link = Link::new(Settings::default(), u64::MAX >> 1);
        link.publish(3 * window + 7);
        link.cut = true;
        link.publish(cut);
        link.cut = false;
        link.pass(Duration::from_secs(30));
        assert_eq!(link.gaps, [], "of {cut}");
        assert_eq!(link.delivered.len() as u64, link.published);
    }
}

#[test]
fn publications_that_nobody_holds_do_not_keep_those_behind_them_from_being_asked_for() {
    let mut link = Link::new(Settings::default(), 100);
    link.publish(5_000);
    link.cut = true;
    link.publish(1_000);
    link.cut = false;
    link.pass(Settings::default().patience * 2);
    assert_eq!(link.unexplained(), []);
    assert!((5_901..=6_000).all(|seq| link.delivered.contains(&seq)), "{:?}", link.gaps);
}

#[derive(Clone, Debug)]
enum Step {
    Publish(u64),
    Cut(bool),
    Wait(u64),
    Reconnect,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (1..90u64).prop_map(Step::Publish),
        2 => any::<bool>().prop_map(Step::Cut),
        2 => (1..4000u64).prop_map(Step::Wait),
        1 => Just(Step::Reconnect),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, failure_persistence: None, ..ProptestConfig::default() })]

    /// The window is 64 wide and wraps many times; whatever happened before, a cut of what is held is repaired.
    #[test]
    fn from_any_state_what_is_held_is_delivered_once_the_link_heals(
        steps in prop::collection::vec(step(), 1..120),
        last_cut in 1..60u64,
    ) {
        let settings = Settings {
            dedupe_window: 64,
            history: 8,
            pull_batch: 8,
            cache_messages: 16,
            patience: Duration::from_secs(2),
            ..Settings::default()
        };
        let mut link = Link::new(settings, 60);
        for step in steps {
            match step {
                Step::Publish(count) => link.publish(count),
                Step::Cut(cut) => link.cut = cut,
                Step::Wait(ms) => link.pass(Duration::from_millis(ms)),
                Step::Reconnect => {
                    link.bench.tell(gossip::Event::PeerDown { peer: PeerKey(PUBLISHER.into()) });
                    link.bench.join(PUBLISHER);
                }
            }
        }
        link.cut = false;
        link.publish(1);
        link.pass(Duration::from_secs(6));
        prop_assert_eq!(link.unexplained(), []);
        let settled = link.published;
        link.cut = true;
        link.publish(last_cut);
        link.cut = false;
        link.pass(Duration::from_secs(6));
        prop_assert_eq!(link.unexplained(), []);
        let healed = (settled + 1..=link.published).all(|seq| link.delivered.contains(&seq));
        prop_assert!(healed, "{} to {}: {:?}", settled + 1, link.published, link.gaps);
        prop_assert_eq!(link.bench.engine.stats().searching, 0);
    }
}
