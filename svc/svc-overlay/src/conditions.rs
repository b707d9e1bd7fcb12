//! What readiness has to say of the overlay: that publications wait too long to be looked at, that too few peers are connected,
//! that newcomers find no place, that a topic misses much of what is published, and that the clock is behind. Only the first
//! has an effect: new publications are refused until the queue is short again.
//!
//! [`Judge`] decides from what it is shown four times a second. What begins has to last, or to be much, before it is told, and
//! what has ended is told once it has stayed so.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use oap::Topic;
use ron_kernel::{
    Scope,
    lock::Ranked,
    readiness::{Condition, Effect},
};
use types::Moment;

use crate::locks;

/// A queue in which everything waits for so long is a standing one: the shard takes less than comes in.
const WAITS_LONG: Duration = Duration::from_millis(100);
/// It is a standing queue no more once something waits for less than this.
const WAITS_LITTLE: Duration = Duration::from_millis(25);
/// A standing queue is an overload after so long.
const OVERLOADED_AFTER: Duration = Duration::from_secs(3);
/// A node with too few sessions is isolated after so long.
const ISOLATED_AFTER: Duration = Duration::from_secs(10);
/// How long handshakes and topics are looked at before they are judged.
const WINDOW: Duration = Duration::from_secs(10);
/// Handshakes that were dropped for new ones in a window; fewer are no flood.
const DISPLACED_MANY: u64 = 32;
/// A topic that misses so many publications in a window, and one in [`STARVED_PART`], is starved.
const STARVED_MANY: u64 = 10;
const STARVED_PART: u64 = 10;
/// It recovers once it misses no more than one in so many.
const FED_PART: u64 = 50;
/// One gap counts for no more than so many: a publisher can sign a number as high as it likes.
const GAP_COUNTS: u64 = 1024;
/// A clock that is behind by less than this is not worth a word.
const BEHIND_MUCH: Duration = Duration::from_secs(1);
/// How long a cause has to be gone.
const SETTLE: Duration = Duration::from_secs(5);

/// How many publications of a topic subscribers of this node were told of, and how many they were told are missing.
#[derive(Debug, Default)]
pub(crate) struct Supply {
    delivered: AtomicU64,
    missing: AtomicU64,
}

impl Supply {
    /// Records that a publication arrived.
    pub(crate) fn came(&self) {
        self.delivered.fetch_add(1, Relaxed);
    }

    /// So many in a row will not come.
    pub(crate) fn misses(&self, count: u64) {
        self.missing.fetch_add(count.min(GAP_COUNTS), Relaxed);
    }

    fn counts(&self) -> (u64, u64) {
        (self.delivered.load(Relaxed), self.missing.load(Relaxed))
    }
}

/// The topics that subscribers of this node hear of; as many as the node takes part in.
#[derive(Debug)]
pub(crate) struct Supplies {
    topics: Ranked<BTreeMap<Topic, Arc<Supply>>>,
}

impl Default for Supplies {
    fn default() -> Self {
        Self { topics: Ranked::new(&locks::TOPIC_SUPPLIES, BTreeMap::new()) }
    }
}

impl Supplies {
    /// The counters of a topic.
    pub(crate) fn of(&self, topic: &Topic) -> Arc<Supply> {
        Arc::clone(self.topics.lock().entry(topic.clone()).or_default())
    }

    /// Nobody hears of the topic any more.
    pub(crate) fn forget(&self, topic: &Topic) {
        self.topics.lock().remove(topic);
    }

    pub(crate) fn counts(&self) -> Counts {
        self.topics.lock().iter().map(|(topic, supply)| (topic.clone(), supply.counts())).collect()
    }
}

/// What there is to be seen at one moment.
#[derive(Debug)]
pub(crate) struct Sight {
    /// The least time that publications wait for their shard, at the shard where that is the longest.
    pub(crate) wait: Duration,
    /// Fewer connected peers than this are too few; 0 if the node does without.
    pub(crate) min_peers: usize,
    /// The number of peers that are connected.
    pub(crate) peers: usize,
    /// Number of handshakes that were ever dropped for others.
    pub(crate) displaced: u64,
    /// How far the clock is behind the node's lives.
    pub(crate) behind: Duration,
}

/// The conditions, and what was seen so far.
#[derive(Debug)]
pub(crate) struct Conditions {
    overload: Condition,
    isolated: Condition,
    handshakes: Condition,
    starved: Condition,
    clock: Condition,
    judge: Ranked<Judge>,
}

impl Conditions {
    pub(crate) fn new(scope: &Scope) -> Self {
        Self {
            overload: scope.condition("overload", Effect::ShedWrites, SETTLE),
            isolated: scope.condition("isolated", Effect::Report, SETTLE),
            handshakes: scope.condition("handshakes_crowded", Effect::Report, SETTLE),
            starved: scope.condition("topic_starved", Effect::Report, SETTLE),
            clock: scope.condition("clock_behind", Effect::Report, SETTLE),
            judge: Ranked::new(&locks::JUDGE, Judge::default()),
        }
    }

    /// Looks, and says what has changed.
    pub(crate) fn look(&self, sight: &Sight, supplies: &Supplies, now: Moment) {
        let changes = self.judge.lock().look(sight, || supplies.counts(), now);
        for change in changes {
            let (condition, reason) = match change {
                Change::Overload(reason) => (&self.overload, reason),
                Change::Isolated(reason) => (&self.isolated, reason),
                Change::Handshakes(reason) => (&self.handshakes, reason),
                Change::Starved(reason) => (&self.starved, reason),
                Change::Clock(reason) => (&self.clock, reason),
            };
            match reason {
                Some(reason) => condition.raise(reason),
                None => condition.clear(),
            }
        }
    }
}

/// A condition that begins, with its reason, or ends.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Change {
    Overload(Option<String>),
    Isolated(Option<String>),
    Handshakes(Option<String>),
    Starved(Option<String>),
    Clock(Option<String>),
}

/// Publications that came and that are missing, by topic.
pub(crate) type Counts = BTreeMap<Topic, (u64, u64)>;

/// Decides which conditions stand.
#[derive(Debug, Default)]
struct Judge {
    /// Since when there is a standing queue; absent while there is none.
    queued_since: Option<Moment>,
    is_overloaded: bool,
    /// Since when there are too few sessions; absent while there are enough.
    alone_since: Option<Moment>,
    is_isolated: bool,
    /// When the present window began, and what was counted then.
    window: Option<(Moment, u64, Counts)>,
    is_crowded: bool,
    starved: Vec<Topic>,
    is_behind: bool,
}

impl Judge {
    fn look(&mut self, sight: &Sight, counts: impl Fn() -> Counts, now: Moment) -> Vec<Change> {
        let mut changes: Vec<Change> = Vec::new();
        changes.extend(self.judge_wait(sight.wait, now));
        changes.extend(self.judge_peers(sight, now));
        changes.extend(self.judge_clock(sight.behind));
        match self.window.take() {
            None => self.window = Some((now, sight.displaced, counts())),
            Some((began, displaced, before)) if now.since(began) >= WINDOW => {
                let after = counts();
                changes.extend(self.judge_handshakes(sight.displaced.saturating_sub(displaced)));
                changes.extend(self.judge_topics(&before, &after));
                self.window = Some((now, sight.displaced, after));
            }
            present => self.window = present,
        }
        changes
    }

    fn judge_wait(&mut self, wait: Duration, now: Moment) -> Option<Change> {
        // Once it is an overload, it ends well below where it began.
        let enough = if self.is_overloaded { WAITS_LITTLE } else { WAITS_LONG };
        let since = *self.queued_since.get_or_insert(now);
        if wait < enough {
            self.queued_since = None;
        }
        let is_overloaded = wait >= enough && (self.is_overloaded || now.since(since) >= OVERLOADED_AFTER);
        let has_changed = std::mem::replace(&mut self.is_overloaded, is_overloaded) != is_overloaded;
        let reason = || format!("publications wait for {} ms before they are looked at", wait.as_millis());
        has_changed.then(|| Change::Overload(is_overloaded.then(reason)))
    }

    fn judge_peers(&mut self, sight: &Sight, now: Moment) -> Option<Change> {
        let is_alone = sight.peers < sight.min_peers;
        let since = *self.alone_since.get_or_insert(now);
        if !is_alone {
            self.alone_since = None;
        }
        let is_isolated = is_alone && now.since(since) >= ISOLATED_AFTER;
        let has_changed = std::mem::replace(&mut self.is_isolated, is_isolated) != is_isolated;
        let reason = || match sight.peers {
            0 => "no peer is connected, and what is published here is known here only".to_owned(),
            some => {
                format!("{some} peers are connected, fewer than `overlay.min_peers`, {}", sight.min_peers)
            }
        };
        has_changed.then(|| Change::Isolated(is_isolated.then(reason)))
    }

    fn judge_clock(&mut self, behind: Duration) -> Option<Change> {
        let is_behind = behind >= BEHIND_MUCH;
        let has_changed = std::mem::replace(&mut self.is_behind, is_behind) != is_behind;
        let reason = || format!("the clock is {} s behind this node's lives", behind.as_secs());
        has_changed.then(|| Change::Clock(is_behind.then(reason)))
    }

    fn judge_handshakes(&mut self, displaced: u64) -> Option<Change> {
        let is_crowded = displaced >= DISPLACED_MANY;
        let has_changed = std::mem::replace(&mut self.is_crowded, is_crowded) != is_crowded;
        let reason =
            || format!("{displaced} handshakes had to make way for others in {} s", WINDOW.as_secs());
        has_changed.then(|| Change::Handshakes(is_crowded.then(reason)))
    }

    fn judge_topics(&mut self, before: &Counts, after: &Counts) -> Option<Change> {
        let is_starved = |topic: &Topic, after: &(u64, u64)| {
            let before = before.get(topic).copied().unwrap_or_default();
            let missing = after.1.saturating_sub(before.1);
            let all = after.0.saturating_sub(before.0).saturating_add(missing);
            match self.starved.contains(topic) {
                true => missing.saturating_mul(FED_PART) > all,
                false => missing >= STARVED_MANY && missing.saturating_mul(STARVED_PART) > all,
            }
        };
        let starved = after.iter().filter(|(topic, counts)| is_starved(topic, counts));
        let starved: Vec<_> = starved.map(|(topic, _)| topic.clone()).collect();
        if starved == self.starved {
            return None;
        }
        self.starved = starved;
        let first = self.starved.first().map(|topic| match self.starved.len() {
            1 => format!("publications of topic {topic} are missing here"),
            more => format!("publications of topic {topic} and {} more are missing here", more - 1),
        });
        Some(Change::Starved(first))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FINE: Sight =
        Sight { wait: Duration::ZERO, min_peers: 1, peers: 1, displaced: 0, behind: Duration::ZERO };

    fn at(seconds: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_secs(seconds))
    }

    fn topic() -> Topic {
        Topic::new("news").expect("a good name")
    }

    /// What changes when one topic has these counts.
    fn look(judge: &mut Judge, sight: &Sight, counts: (u64, u64), second: u64) -> Vec<Change> {
        judge.look(sight, || BTreeMap::from([(topic(), counts)]), at(second))
    }

    #[test]
    fn a_node_without_peers_is_isolated_once_that_has_lasted() {
        let (mut judge, alone) = (Judge::default(), Sight { peers: 0, ..FINE });
        assert_eq!(look(&mut judge, &alone, (0, 0), 0), []);
        assert_eq!(look(&mut judge, &FINE, (0, 0), 5), [], "it had a peer meanwhile");
        assert_eq!(look(&mut judge, &alone, (0, 0), 6), []);
        assert_eq!(look(&mut judge, &alone, (0, 0), 15), []);
        assert!(matches!(look(&mut judge, &alone, (0, 0), 16)[..], [Change::Isolated(Some(_))]));
        assert_eq!(look(&mut judge, &alone, (0, 0), 17), [], "told once");
        assert_eq!(look(&mut judge, &FINE, (0, 0), 18), [Change::Isolated(None)]);
        let content = Sight { min_peers: 0, ..alone };
        (20..99).for_each(|second| assert_eq!(look(&mut judge, &content, (0, 0), second), []));
    }

    #[test]
    fn a_node_with_fewer_peers_than_it_should_have_is_isolated_and_says_how_many() {
        let (mut judge, few) = (Judge::default(), Sight { min_peers: 3, peers: 2, ..FINE });
        assert_eq!(look(&mut judge, &few, (0, 0), 0), []);
        let reason = "2 peers are connected, fewer than `overlay.min_peers`, 3".to_owned();
        assert_eq!(look(&mut judge, &few, (0, 0), 10), [Change::Isolated(Some(reason))]);
        let enough = Sight { peers: 3, ..few };
        assert_eq!(look(&mut judge, &enough, (0, 0), 11), [Change::Isolated(None)]);
    }

    #[test]
    fn a_standing_queue_is_an_overload_once_it_has_lasted_and_until_it_is_short() {
        let mut judge = Judge::default();
        let waits = |millis| Sight { wait: Duration::from_millis(millis), ..FINE };
        assert_eq!(look(&mut judge, &waits(100), (0, 0), 0), []);
        assert_eq!(look(&mut judge, &waits(99), (0, 0), 2), [], "it was shorter meanwhile");
        assert_eq!(look(&mut judge, &waits(100), (0, 0), 3), []);
        assert_eq!(look(&mut judge, &waits(900), (0, 0), 5), []);
        let reason = "publications wait for 700 ms before they are looked at".to_owned();
        assert_eq!(look(&mut judge, &waits(700), (0, 0), 6), [Change::Overload(Some(reason))]);
        assert_eq!(look(&mut judge, &waits(25), (0, 0), 7), [], "shorter, and still a queue");
        assert_eq!(look(&mut judge, &waits(24), (0, 0), 8), [Change::Overload(None)]);
        assert_eq!(look(&mut judge, &waits(99), (0, 0), 20), []);
    }

    #[test]
    fn handshakes_that_make_way_are_told_when_they_are_many_in_a_window() {
        let mut judge = Judge::default();
        let seen = |displaced: u64| Sight { displaced, ..FINE };
        assert_eq!(look(&mut judge, &seen(5), (0, 0), 0), []);
        assert_eq!(look(&mut judge, &seen(36), (0, 0), 10), [], "one too few");
        assert!(matches!(look(&mut judge, &seen(68), (0, 0), 20)[..], [Change::Handshakes(Some(_))]));
        assert_eq!(look(&mut judge, &seen(99), (0, 0), 30), [Change::Handshakes(None)]);
    }

    #[test]
    fn a_topic_is_starved_by_a_tenth_and_recovers_below_a_fiftieth() {
        let mut judge = Judge::default();
        assert_eq!(look(&mut judge, &FINE, (1000, 500), 0), [], "what was before does not count");
        assert_eq!(look(&mut judge, &FINE, (1000, 509), 10), [], "too few");
        assert_eq!(look(&mut judge, &FINE, (1900, 609), 20), [], "not more than a tenth");
        let changes = look(&mut judge, &FINE, (2000, 621), 30);
        assert!(
            matches!(&changes[..], [Change::Starved(Some(reason))] if reason.contains("news")),
            "{changes:?}"
        );
        assert_eq!(look(&mut judge, &FINE, (2097, 624), 40), [], "still more than a fiftieth");
        assert_eq!(look(&mut judge, &FINE, (2195, 626), 50), [Change::Starved(None)]);
    }

    #[test]
    fn one_gap_of_any_size_counts_for_a_bounded_number() {
        let supply = Supply::default();
        supply.misses(u64::MAX);
        supply.misses(u64::MAX);
        supply.came();
        assert_eq!(supply.counts(), (1, 2 * GAP_COUNTS));
    }

    #[test]
    fn a_clock_that_is_behind_is_told_until_it_has_caught_up() {
        let mut judge = Judge::default();
        let behind = |millis| Sight { behind: Duration::from_millis(millis), ..FINE };
        assert_eq!(look(&mut judge, &behind(999), (0, 0), 0), []);
        assert!(matches!(look(&mut judge, &behind(7_200_000), (0, 0), 1)[..], [Change::Clock(Some(_))]));
        assert_eq!(look(&mut judge, &behind(1000), (0, 0), 2), []);
        assert_eq!(look(&mut judge, &behind(0), (0, 0), 3), [Change::Clock(None)]);
    }
}
