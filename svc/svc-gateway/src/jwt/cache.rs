//! Tokens that were verified already, by their digest: bounded, and shared by all cores.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use aws_lc_rs::digest::{SHA256, digest};
use ron_kernel::lock::{Ranked, RankedGuard};

use super::Claims;
use crate::locks;

/// Parts with a lock of their own, so that cores seldom meet at one.
const SHARDS: usize = 16;

/// The digest that stands for a token. The token itself is a secret and is not kept.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct TokenDigest([u8; 32]);

impl TokenDigest {
    pub(super) fn of(token: &str) -> Self {
        let mut bytes = [0; 32];
        bytes.copy_from_slice(digest(&SHA256, token.as_bytes()).as_ref());
        Self(bytes)
    }
}

/// Verified tokens. What was looked up since it was last considered for removal stays, so that a stream of tokens that
/// are used once does not displace those in use.
#[derive(Debug)]
pub(super) struct TokenCache {
    shards: Box<[Ranked<Shard>]>,
    shard_capacity: usize,
}

#[derive(Default)]
struct Shard {
    entries: HashMap<TokenDigest, Entry>,
    /// The keys of `entries`, each once, in the order in which they are considered for removal.
    order: VecDeque<TokenDigest>,
}

struct Entry {
    claims: Arc<Claims>,
    used: bool,
}

impl TokenCache {
    /// A cache of at most `capacity` tokens, at some 250 bytes each.
    pub(super) fn new(capacity: usize) -> Self {
        let shards = (0..SHARDS).map(|_| Ranked::new(&locks::TOKEN_CACHE, Shard::default())).collect();
        Self { shards, shard_capacity: capacity / SHARDS }
    }

    /// What a verified token says, unless its time is over.
    pub(super) fn get(&self, token: &TokenDigest, unix: Duration) -> Option<Arc<Claims>> {
        let mut shard = self.shard(token);
        let entry = shard.entries.get_mut(token)?;
        if entry.claims.expired(unix) {
            return None;
        }
        entry.used = true;
        Some(Arc::clone(&entry.claims))
    }

    pub(super) fn insert(&self, token: TokenDigest, claims: Arc<Claims>, unix: Duration) {
        if self.shard_capacity == 0 {
            return;
        }
        let mut shard = self.shard(&token);
        if shard.entries.len() >= self.shard_capacity && !shard.entries.contains_key(&token) {
            shard.make_room(unix);
        }
        if shard.entries.insert(token, Entry { claims, used: false }).is_none() {
            shard.order.push_back(token);
        }
    }

    fn shard(&self, token: &TokenDigest) -> RankedGuard<'_, Shard> {
        let index = usize::from(token.0[0]) % SHARDS;
        self.shards[index].lock()
    }
}

impl Shard {
    /// Removes the first that is expired or was not used since its last turn; at most one round.
    fn make_room(&mut self, unix: Duration) {
        while let Some(token) = self.order.pop_front() {
            match self.entries.get_mut(&token) {
                Some(entry) if entry.used && !entry.claims.expired(unix) => {
                    entry.used = false;
                    self.order.push_back(token);
                }
                _ => {
                    self.entries.remove(&token);
                    return;
                }
            }
        }
    }
}

impl std::fmt::Debug for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shard({} tokens)", self.entries.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPACITY: usize = 160;

    fn claims(expires: u64) -> Arc<Claims> {
        Arc::new(Claims { tenant: None, expires: Duration::from_nanos(expires), met: Box::default() })
    }

    fn len(cache: &TokenCache) -> usize {
        let shards = cache.shards.iter().map(Ranked::lock);
        shards
            .map(|shard| {
                assert_eq!(shard.entries.len(), shard.order.len());
                shard.entries.len()
            })
            .sum()
    }

    #[test]
    fn however_many_tokens_come_no_more_than_the_capacity_are_kept() {
        let cache = TokenCache::new(CAPACITY);
        for i in 0..CAPACITY * 10 {
            cache.insert(TokenDigest::of(&format!("token {i}")), claims(u64::MAX), Duration::ZERO);
        }
        assert_eq!(len(&cache), CAPACITY);
    }

    #[test]
    fn a_token_in_use_outlives_a_stream_of_others() {
        let cache = TokenCache::new(CAPACITY);
        let mine = TokenDigest::of("mine");
        cache.insert(mine, claims(u64::MAX), Duration::ZERO);
        for i in 0..CAPACITY * 10 {
            assert!(cache.get(&mine, Duration::ZERO).is_some(), "lost after {i}");
            cache.insert(TokenDigest::of(&format!("token {i}")), claims(u64::MAX), Duration::ZERO);
        }
    }

    #[test]
    fn a_token_dies_at_its_expiry_and_makes_room_first() {
        let cache = TokenCache::new(CAPACITY);
        let mine = TokenDigest::of("mine");
        cache.insert(mine, claims(100), Duration::ZERO);
        assert!(cache.get(&mine, Duration::from_nanos(99)).is_some());
        assert!(cache.get(&mine, Duration::from_nanos(100)).is_none());
    }

    #[test]
    fn a_token_verified_twice_is_kept_once() {
        let cache = TokenCache::new(CAPACITY);
        for _ in 0..3 {
            cache.insert(TokenDigest::of("mine"), claims(u64::MAX), Duration::ZERO);
        }
        assert_eq!(len(&cache), 1);
    }

    #[test]
    fn a_cache_without_room_keeps_nothing() {
        let cache = TokenCache::new(0);
        cache.insert(TokenDigest::of("mine"), claims(u64::MAX), Duration::ZERO);
        assert_eq!(len(&cache), 0);
    }
}
