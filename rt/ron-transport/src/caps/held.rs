//! Who holds how many places, and which connections are parked.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::Arc,
};

use tokio::sync::Notify;

use super::{CapError, ClientKey};

#[derive(Debug)]
pub(super) struct Held {
    max_total: usize,
    max_per_client: usize,
    open: usize,
    per_client: HashMap<ClientKey, Account>,
    /// The same counts in order, so that a flood at the cap does not scan every client per refusal.
    by_count: BTreeSet<(usize, ClientKey)>,
    /// Of those, the clients that have a parked connection.
    parked_by_count: BTreeSet<(usize, ClientKey)>,
    /// The parked connections, each client's in the order in which they were parked, with whom to tell that one goes.
    parked: BTreeMap<(ClientKey, u64), Arc<Notify>>,
    /// The connections that are not parked and give way, each client's in the order in which they were opened.
    yielding: BTreeMap<(ClientKey, u64), Arc<Notify>>,
    next_id: u64,
}

/// The connections that one client holds.
#[derive(Debug, Default)]
struct Account {
    count: usize,
    parked: usize,
}

impl Held {
    pub(super) fn new(max_total: usize, max_per_client: usize) -> Self {
        Self {
            max_total,
            max_per_client,
            open: 0,
            per_client: HashMap::new(),
            by_count: BTreeSet::new(),
            parked_by_count: BTreeSet::new(),
            parked: BTreeMap::new(),
            yielding: BTreeMap::new(),
            next_id: 0,
        }
    }

    pub(super) fn set_limits(&mut self, max_total: usize, max_per_client: usize) {
        self.max_total = max_total;
        self.max_per_client = max_per_client;
    }

    pub(super) fn open(&self) -> usize {
        self.open
    }

    pub(super) fn clients(&self) -> usize {
        self.per_client.len()
    }

    pub(super) fn count(&self, client: ClientKey) -> usize {
        self.per_client.get(&client).map_or(0, |account| account.count)
    }

    pub(super) fn largest(&self) -> Option<(ClientKey, usize)> {
        self.by_count.last().map(|(count, client)| (*client, *count))
    }

    pub(super) fn check_client(&self, client: ClientKey) -> Result<(), CapError> {
        if client.is_capped() && self.count(client) >= self.max_per_client {
            return Err(CapError::PerClient { limit: self.max_per_client });
        }
        Ok(())
    }

    /// Sees to it that `client` may have one more; gives whom to tell that its place was taken for that.
    pub(super) fn make_room_for(&mut self, client: ClientKey) -> Result<Option<Arc<Notify>>, CapError> {
        let Err(full) = self.check_client(client) else { return self.make_room(client) };
        // Above the caps, one that goes makes no room.
        if self.count(client) > self.max_per_client || self.open > self.max_total {
            return Err(full);
        }
        self.evict_longest_parked(client).map(Some).ok_or(full)
    }

    /// Sees to it that there is room for one more of `newcomer`; gives whom to tell that its place was taken for that.
    ///
    /// A parked connection goes first, unless a client holds more than twice as many as any that has one: otherwise the idle
    /// connections of small clients would make room for all, and those that hold the places would keep them.
    fn make_room(&mut self, newcomer: ClientKey) -> Result<Option<Arc<Notify>>, CapError> {
        if self.open < self.max_total {
            return Ok(None);
        }
        let full = CapError::Total { limit: self.max_total };
        // Above the cap, one that goes makes no room.
        if self.open > self.max_total {
            return Err(full);
        }
        let parked = self.parked_by_count.last().copied();
        let largest = self.largest_that_gives_way().filter(|(count, _)| *count > self.count(newcomer) + 1);
        let told = match (parked, largest) {
            (Some((parked, _)), Some((largest, client))) if largest > 2 * parked => self.evict_newest(client),
            (Some((_, client)), _) => self.evict_longest_parked(client),
            (None, Some((_, client))) => self.evict_newest(client),
            (None, None) => None,
        };
        told.map(Some).ok_or(full)
    }

    /// Of the clients with a cap, the one with the most connections, if it has one that gives way.
    fn largest_that_gives_way(&self) -> Option<(usize, ClientKey)> {
        let (count, client) = *self.by_count.iter().rev().find(|(_, client)| client.is_capped())?;
        self.newest(client).map(|_| (count, client))
    }

    fn newest(&self, client: ClientKey) -> Option<u64> {
        self.yielding.range((client, 0)..=(client, u64::MAX)).next_back().map(|((_, id), _)| *id)
    }

    /// Takes the place of the connection that the client opened last; gives whom to tell.
    fn evict_newest(&mut self, client: ClientKey) -> Option<Arc<Notify>> {
        let told = self.yielding.remove(&(client, self.newest(client)?));
        self.remove(client);
        told
    }

    /// The number of a connection that may come to give way.
    pub(super) fn next_id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id - 1
    }

    /// A newcomer may take the connection's place from now on.
    pub(super) fn give_way(&mut self, client: ClientKey, id: u64, told: Arc<Notify>) {
        self.yielding.insert((client, id), told);
    }

    /// No newcomer may take its place any more; false if one has.
    pub(super) fn give_way_no_more(&mut self, client: ClientKey, id: u64) -> bool {
        self.yielding.remove(&(client, id)).is_some()
    }

    /// Takes the place of the client's connection that has been parked the longest; gives whom to tell.
    fn evict_longest_parked(&mut self, client: ClientKey) -> Option<Arc<Notify>> {
        let ((_, longest), _) = self.parked.range((client, 0)..=(client, u64::MAX)).next()?;
        let told = self.take_parked(client, *longest);
        self.remove(client);
        told
    }

    pub(super) fn add(&mut self, client: ClientKey) {
        self.change(client, |account| account.count += 1);
        self.open += 1;
    }

    pub(super) fn remove(&mut self, client: ClientKey) {
        self.change(client, |account| account.count = account.count.saturating_sub(1));
        self.open = self.open.saturating_sub(1);
    }

    /// Books a connection as parked, under the number that is returned.
    pub(super) fn park(&mut self, client: ClientKey, told: Arc<Notify>) -> u64 {
        let id = self.next_id();
        self.parked.insert((client, id), told);
        self.change(client, |account| account.parked += 1);
        id
    }

    /// Books it as no longer parked; false if its place is gone.
    pub(super) fn unpark(&mut self, client: ClientKey, id: u64) -> bool {
        self.take_parked(client, id).is_some()
    }

    pub(super) fn is_parked(&self, client: ClientKey, id: u64) -> bool {
        self.parked.contains_key(&(client, id))
    }

    fn take_parked(&mut self, client: ClientKey, id: u64) -> Option<Arc<Notify>> {
        let told = self.parked.remove(&(client, id))?;
        self.change(client, |account| account.parked = account.parked.saturating_sub(1));
        Some(told)
    }

    /// Changes a client's account and keeps the orders in step with it.
    fn change(&mut self, client: ClientKey, change: impl FnOnce(&mut Account)) {
        let account = self.per_client.entry(client).or_default();
        let before = account.count;
        change(account);
        let (count, is_parked) = (account.count, account.parked > 0);
        self.by_count.remove(&(before, client));
        self.parked_by_count.remove(&(before, client));
        if count == 0 {
            self.per_client.remove(&client);
            return;
        }
        self.by_count.insert((count, client));
        if is_parked {
            self.parked_by_count.insert((count, client));
        }
    }
}
