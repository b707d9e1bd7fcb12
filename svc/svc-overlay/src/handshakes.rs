//! The places of handshakes: shared by address, so that connections that say nothing keep no newcomer out.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed},
    },
};

use ron_kernel::lock::Ranked;
use ron_transport::caps::ClientKey;
use tokio::sync::Notify;

use crate::locks;

/// Handshakes of connections that others began, so many at a time. A connection that finds no place takes that of another: the
/// oldest of the address that has the most.
#[derive(Debug)]
pub(crate) struct Handshakes {
    /// Nothing else is locked under it.
    places: Ranked<Places>,
    most: AtomicUsize,
    /// How many were ever dropped for others.
    displaced: AtomicU64,
}

#[derive(Debug, Default)]
struct Places {
    /// In the order they were taken; a number is used once.
    taken: std::collections::BTreeMap<u64, Taken>,
    /// Number of handshakes per client address.
    counts: HashMap<ClientKey, usize>,
    next: u64,
}

#[derive(Debug)]
struct Taken {
    client: ClientKey,
    displaced: Arc<Notify>,
}

/// One place. It is given back when this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    all: Arc<Handshakes>,
    number: u64,
    displaced: Arc<Notify>,
}

impl Handshakes {
    /// So many places, at least one.
    pub(crate) fn new(most: usize) -> Arc<Self> {
        let places = Ranked::new(&locks::HANDSHAKES, Places::default());
        Arc::new(Self { places, most: AtomicUsize::new(most.max(1)), displaced: AtomicU64::new(0) })
    }

    /// Another number of places from now on, at least one. Those that are taken stay.
    pub(crate) fn set_most(&self, most: usize) {
        self.most.store(most.max(1), Relaxed);
    }

    /// How many connections ever were dropped for others.
    pub(crate) fn displaced(&self) -> u64 {
        self.displaced.load(Relaxed)
    }

    /// A place for a connection from this address; the second part says whether another was dropped.
    pub(crate) fn take(self: &Arc<Self>, client: ClientKey) -> (Place, bool) {
        let mut places = self.places.lock();
        let is_full = places.taken.len() >= self.most.load(Relaxed);
        if is_full {
            self.displaced.fetch_add(1, Relaxed);
            places.displace_for(client);
        }
        let (number, displaced) = (places.next, Arc::new(Notify::new()));
        places.next += 1;
        *places.counts.entry(client).or_default() += 1;
        places.taken.insert(number, Taken { client, displaced: Arc::clone(&displaced) });
        (Place { all: Arc::clone(self), number, displaced }, is_full)
    }
}

impl Places {
    /// The oldest of the address that has the most makes way; the newcomer counts for its own address.
    fn displace_for(&mut self, newcomer: ClientKey) {
        let count = |client: &ClientKey| {
            self.counts.get(client).copied().unwrap_or(0) + usize::from(*client == newcomer)
        };
        let most = self.taken.values().map(|taken| count(&taken.client)).max();
        let oldest = self.taken.iter().find(|(_, taken)| Some(count(&taken.client)) == most);
        if let Some(number) = oldest.map(|(number, _)| *number) {
            self.remove(number).into_iter().for_each(|taken| taken.displaced.notify_one());
        }
    }

    fn remove(&mut self, number: u64) -> Option<Taken> {
        let taken = self.taken.remove(&number)?;
        if let Some(count) = self.counts.get_mut(&taken.client) {
            *count -= 1;
            if *count == 0 {
                self.counts.remove(&taken.client);
            }
        }
        Some(taken)
    }
}

impl Place {
    /// Ends when a newcomer has taken the place.
    ///
    /// Cancel safe.
    pub(crate) async fn displaced(&self) {
        self.displaced.notified().await;
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.all.places.lock().remove(self.number);
    }
}

#[cfg(test)]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use super::*;

    fn client(number: u8) -> ClientKey {
        IpAddr::V4(Ipv4Addr::new(192, 0, 2, number)).into()
    }

    fn is_displaced(place: &Place) -> bool {
        !place.all.places.lock().taken.contains_key(&place.number)
    }

    #[test]
    fn a_flood_from_one_address_displaces_its_own_oldest() {
        let handshakes = Handshakes::new(4);
        let quiet = handshakes.take(client(1)).0;
        let mut flood: Vec<_> = (0..3).map(|_| handshakes.take(client(2)).0).collect();
        for _ in 0..20 {
            let (place, displaced) = handshakes.take(client(2));
            assert!(displaced && is_displaced(&flood[0]));
            drop(flood.remove(0));
            flood.push(place);
            assert!(!is_displaced(&quiet));
        }
        let newcomer = handshakes.take(client(3)).0;
        assert!(is_displaced(&flood[0]) && !is_displaced(&newcomer) && !is_displaced(&quiet));
    }

    #[test]
    fn a_place_that_is_given_back_is_free_and_nobody_is_forgotten() {
        let handshakes = Handshakes::new(2);
        drop(handshakes.take(client(1)));
        let places: Vec<_> = (1..=2).map(|number| handshakes.take(client(number))).collect();
        assert!(places.iter().all(|(_, displaced)| !displaced));
        drop(places);
        assert!(handshakes.places.lock().counts.is_empty());
    }
    #[test]
    fn another_number_of_places_counts_for_the_next_who_comes() {
        let handshakes = Handshakes::new(1);
        let first = handshakes.take(client(1)).0;
        handshakes.set_most(2);
        let (second, displaced) = handshakes.take(client(2));
        assert!(!displaced && !is_displaced(&first));
        handshakes.set_most(0);
        let (_third, displaced) = handshakes.take(client(3));
        assert!(displaced && is_displaced(&first) && !is_displaced(&second));
    }
}
