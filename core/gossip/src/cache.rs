//! Publications kept for peers that ask: bounded by number and by bytes, with shares for all publishers.
//!
//! What is older than peers ask for goes first. If nothing is, the publisher and topic that takes the most makes room, so that one
//! that publishes much does not keep others from being repaired.

use std::{
    collections::{BTreeSet, HashMap, VecDeque},
    hash::{BuildHasher, Hasher},
    time::Duration,
};

use types::Moment;

use crate::{packet::Packet, rng::mix};

/// The track's uid and the publication's number.
type Key = (u64, u64);

/// The kept publications.
#[derive(Debug)]
pub(crate) struct Cache {
    kept: HashMap<Key, Packet, Mixing>,
    /// By the track's uid; none is empty.
    shares: HashMap<u64, Share, Mixing>,
    /// The oldest publication of each share.
    by_age: BTreeSet<(Moment, u64)>,
    /// The weights of all shares, with their uids; the last one makes room.
    by_weight: BTreeSet<(usize, u64)>,
    bytes: usize,
    limits: CacheLimits,
}

/// Limits of a cache: what it keeps at most, and for how long a share is protected.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CacheLimits {
    pub(crate) messages: usize,
    pub(crate) bytes: usize,
    /// How old a publication is at which it goes before any other share has to make room.
    pub(crate) fresh: Duration,
}

/// What is kept of one publisher in one topic.
#[derive(Debug, Default)]
struct Share {
    /// The numbers in the order they came, and when.
    order: VecDeque<(Moment, u64)>,
    weight: usize,
}

impl Cache {
    pub(crate) fn new(limits: CacheLimits, seed: u64) -> Self {
        Self {
            kept: HashMap::with_hasher(Mixing(seed)),
            shares: HashMap::with_hasher(Mixing(seed)),
            by_age: BTreeSet::new(),
            by_weight: BTreeSet::new(),
            bytes: 0,
            limits,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.kept.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, uid: u64, seq: u64) -> Option<&Packet> {
        self.kept.get(&(uid, seq))
    }

    /// Keeps a publication, and drops those that it has no room beside.
    pub(crate) fn insert(&mut self, uid: u64, seq: u64, packet: Packet, now: Moment) {
        if self.kept.contains_key(&(uid, seq)) {
            return;
        }
        let weight = self.weight(&packet);
        self.bytes += size(&packet);
        self.kept.insert((uid, seq), packet);
        let share = self.shares.entry(uid).or_default();
        if share.order.is_empty() {
            self.by_age.insert((now, uid));
        }
        self.by_weight.remove(&(share.weight, uid));
        share.order.push_back((now, seq));
        share.weight += weight;
        self.by_weight.insert((share.weight, uid));
        while self.len() > 1 && (self.len() > self.limits.messages || self.bytes > self.limits.bytes) {
            self.make_room(now);
        }
    }

    /// Drops the oldest publication of all if it is old, else the oldest of the largest share.
    fn make_room(&mut self, now: Moment) {
        let oldest = self.by_age.first().filter(|(at, _)| now.since(*at) >= self.limits.fresh);
        let uid = oldest.or(self.by_weight.last().map(|(_, uid)| (now, *uid)).as_ref()).map(|(_, uid)| *uid);
        uid.into_iter().for_each(|uid| self.drop_oldest(uid));
    }

    fn drop_oldest(&mut self, uid: u64) {
        let Some(share) = self.shares.get_mut(&uid) else { return };
        self.by_weight.remove(&(share.weight, uid));
        let Some((at, seq)) = share.order.pop_front() else { return };
        self.by_age.remove(&(at, uid));
        if let Some(packet) = self.kept.remove(&(uid, seq)) {
            self.bytes -= size(&packet);
            share.weight -= size(&packet) + each(self.limits);
        }
        match share.order.front() {
            Some((at, _)) => {
                self.by_age.insert((*at, uid));
                self.by_weight.insert((share.weight, uid));
            }
            None => drop(self.shares.remove(&uid)),
        }
    }

    /// What a publication takes of the room: its bytes, and its part of the number that fits.
    fn weight(&self, packet: &Packet) -> usize {
        size(packet) + each(self.limits)
    }
}

/// The bytes that one publication counts for beside its own, so that many small ones weigh as much as few large ones.
fn each(limits: CacheLimits) -> usize {
    limits.bytes / limits.messages
}

fn size(packet: &Packet) -> usize {
    packet.bytes().len()
}

/// Hashes pairs of numbers by mixing them with the engine's seed: the same order of everything under the same seed.
#[derive(Clone, Debug)]
struct Mixing(u64);

struct Mixed(u64);

impl BuildHasher for Mixing {
    type Hasher = Mixed;

    fn build_hasher(&self) -> Mixed {
        Mixed(self.0)
    }
}

impl Hasher for Mixed {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.write_u64(u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mix(self.0.rotate_left(23) ^ number);
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use oap::{Entry, Publication, Topic};

    use super::*;

    fn packet(len: usize) -> Packet {
        let entry = Entry { publisher: types::NodeId::new([1; 32]), incarnation: 1, seq: 1 };
        let id = entry.in_topic(&Topic::new("news").expect("a good name"));
        Packet::of(Publication::new(id, Bytes::from(vec![0; len])))
    }

    fn at(seconds: u64) -> Moment {
        Moment::ORIGIN.after(Duration::from_secs(seconds))
    }

    fn cache(messages: usize, bytes: usize) -> Cache {
        Cache::new(CacheLimits { messages, bytes, fresh: Duration::from_secs(60) }, 7)
    }

    fn kept(cache: &Cache, uid: u64) -> Vec<u64> {
        (0..10_000).filter(|seq| cache.get(uid, *seq).is_some()).collect()
    }

    #[test]
    fn who_publishes_much_takes_no_room_of_others() {
        let mut cache = cache(1000, 1 << 20);
        for second in 0..50 {
            cache.insert(1, second, packet(5), at(second));
            for number in 0..90 {
                cache.insert(2, second * 90 + number, packet(60_000), at(second));
            }
            assert!(cache.bytes() <= 1 << 20);
        }
        assert_eq!(kept(&cache, 1).len(), 50);
        // Of the one that publishes much, the latest are kept.
        let last = kept(&cache, 2);
        assert!(last.len() > 10 && *last.last().expect("some") == 50 * 90 - 1, "{last:?}");
        assert_eq!(last[last.len() - 1] - last[0] + 1, last.len() as u64);
    }

    #[test]
    fn many_small_publications_take_no_room_of_few_large_ones() {
        let mut cache = cache(100, 1 << 20);
        (0..5).for_each(|seq| cache.insert(1, seq, packet(60_000), at(0)));
        (0..1000).for_each(|seq| cache.insert(2, seq, packet(1), at(1)));
        assert_eq!((kept(&cache, 1).len(), cache.len()), (5, 100));
    }

    #[test]
    fn what_is_old_goes_before_what_a_busy_publisher_needs() {
        let mut cache = cache(100, 1 << 20);
        for uid in 0..100 {
            cache.insert(uid, 1, packet(5), at(0));
        }
        for seq in 2..100 {
            cache.insert(7, seq, packet(5), at(61));
        }
        assert_eq!((kept(&cache, 7), cache.len()), ((2..100).collect(), 100));
    }

    proptest::proptest! {
        /// Whatever comes, in whatever order: no limit is passed, the accounts are right, and the latest is kept.
        #[test]
        fn limits_hold_and_accounts_are_right(
            steps in proptest::collection::vec((0_u64..4, 0_u64..50, 0_usize..3000, 0_u64..30), 0..200),
        ) {
            let (mut cache, mut now) = (cache(20, 9000), 0);
            for (uid, seq, len, passed) in steps {
                now += passed;
                cache.insert(uid, seq, packet(len), at(now));
                let bytes: usize = cache.kept.values().map(size).sum();
                proptest::prop_assert!(cache.len() <= 20 && (bytes <= 9000 || cache.len() == 1));
                proptest::prop_assert_eq!(bytes, cache.bytes());
                let weight: usize = cache.kept.values().map(|packet| cache.weight(packet)).sum();
                proptest::prop_assert_eq!(weight, cache.shares.values().map(|share| share.weight).sum());
                let held: usize = cache.shares.values().map(|share| share.order.len()).sum();
                proptest::prop_assert_eq!(held, cache.len());
                proptest::prop_assert_eq!(cache.by_age.len(), cache.shares.len());
                proptest::prop_assert_eq!(cache.by_weight.len(), cache.shares.len());
            }
        }
    }
}
