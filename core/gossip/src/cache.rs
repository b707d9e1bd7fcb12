//! Publications kept for peers that ask: bounded by number and by bytes, the oldest go first.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, Hasher},
};

use crate::{packet::Packet, rng::mix};

/// The track's uid and the publication's number.
type Key = (u64, u64);

/// The kept publications, in the order they came.
#[derive(Debug)]
pub(crate) struct Cache {
    kept: HashMap<Key, Packet, Mixing>,
    order: VecDeque<Key>,
    bytes: usize,
    max_messages: usize,
    max_bytes: usize,
}

impl Cache {
    pub(crate) fn new(max_messages: usize, max_bytes: usize, seed: u64) -> Self {
        Self {
            kept: HashMap::with_hasher(Mixing(seed)),
            order: VecDeque::new(),
            bytes: 0,
            max_messages,
            max_bytes,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.order.len()
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    pub(crate) fn get(&self, uid: u64, seq: u64) -> Option<&Packet> {
        self.kept.get(&(uid, seq))
    }

    /// Keeps a publication, and drops the oldest ones it has no room beside.
    pub(crate) fn insert(&mut self, uid: u64, seq: u64, packet: Packet) {
        let bytes = size(&packet);
        while self.order.len() >= self.max_messages || (self.bytes + bytes > self.max_bytes && self.len() > 0)
        {
            self.drop_oldest();
        }
        if self.kept.insert((uid, seq), packet).is_none() {
            self.order.push_back((uid, seq));
            self.bytes += bytes;
        }
    }

    fn drop_oldest(&mut self) {
        if let Some(packet) = self.order.pop_front().and_then(|key| self.kept.remove(&key)) {
            self.bytes -= size(&packet);
        }
    }
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
