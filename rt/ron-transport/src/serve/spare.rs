//! Spare places: a few connections beyond the caps, so that a health check is answered while others hold every place.
//!
//! Every connection with a spare place may be ended for a newcomer, whatever it is doing, and none lives long. So these
//! places cannot be held: a health check, which asks at once, has its answer before the next ones come.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use ron_kernel::lock::Ranked;
use tokio::sync::Notify;

use super::{
    connection::{self, Accepted},
    server::Shared,
};
use crate::{
    caps::{ClientKey, ConnCaps, ConnPermit},
    locks,
    service::Service,
};

/// How long a connection has a spare place, from its first byte to its last.
const LIFE: Duration = Duration::from_secs(2);
/// How many connections there may be for each place, those included that were told to end and have not yet.
const ENDING: usize = 4;

/// The spare places of a server.
#[derive(Debug)]
pub(super) struct Spare {
    places: Arc<Ranked<Places>>,
    /// Gives the permits that a connection parks with; their number is bounded by `places`.
    uncounted: ConnCaps,
}

#[derive(Debug, Default)]
struct Places {
    limit: usize,
    /// Connections that have a place or were told to end and have not yet.
    open: usize,
    next_id: u64,
    /// Those that have a place, the oldest first: at most `limit`.
    taken: VecDeque<Taken>,
}

#[derive(Debug)]
struct Taken {
    id: u64,
    client: ClientKey,
    evicted: Arc<Notify>,
}

/// A spare place, given back on drop.
#[derive(Debug)]
pub(super) struct SparePlace {
    places: Arc<Ranked<Places>>,
    id: u64,
    evicted: Arc<Notify>,
}

impl Spare {
    /// Makes this many spare places.
    pub(super) fn new(limit: usize) -> Self {
        let places = Arc::new(Ranked::new(&locks::SPARE_PLACES, Places { limit, ..Places::default() }));
        Self { places, uncounted: ConnCaps::new(usize::MAX, usize::MAX) }
    }

    pub(super) fn set_limit(&self, limit: usize) {
        self.places.lock().limit = limit;
    }

    /// The permit of a connection and its spare place; `None` if there are no spare places, or if too many connections
    /// that were told to end have not ended.
    pub(super) fn try_admit(&self, client: ClientKey) -> Option<(ConnPermit, SparePlace)> {
        let (id, evicted) = self.places.lock().take(client)?;
        let place = SparePlace { places: Arc::clone(&self.places), id, evicted };
        Some((self.uncounted.try_admit(client).ok()?, place))
    }
}

impl Places {
    fn take(&mut self, client: ClientKey) -> Option<(u64, Arc<Notify>)> {
        if self.open >= self.limit.saturating_mul(ENDING) {
            return None;
        }
        while self.taken.len() >= self.limit {
            self.evict_one();
        }
        let (id, evicted) = (self.next_id, Arc::new(Notify::new()));
        self.next_id += 1;
        self.open += 1;
        self.taken.push_back(Taken { id, client, evicted: Arc::clone(&evicted) });
        Some((id, evicted))
    }

    /// Ends the oldest connection of the client that has the most.
    fn evict_one(&mut self) {
        let mut counts: HashMap<ClientKey, usize> = HashMap::new();
        for taken in &self.taken {
            *counts.entry(taken.client).or_default() += 1;
        }
        let most = counts.values().copied().max();
        let oldest = self.taken.iter().position(|taken| counts.get(&taken.client).copied() == most);
        if let Some(taken) = oldest.and_then(|oldest| self.taken.remove(oldest)) {
            taken.evicted.notify_one();
        }
    }
}

impl Drop for SparePlace {
    fn drop(&mut self) {
        let mut places = self.places.lock();
        places.open = places.open.saturating_sub(1);
        places.taken.retain(|taken| taken.id != self.id);
    }
}

/// Serves a connection that has a spare place.
pub(super) async fn run<S: Service>(server: Arc<Shared<S>>, accepted: Accepted, place: SparePlace) {
    tokio::select! {
        biased;
        () = Box::pin(connection::run(Arc::clone(&server), accepted)) => {}
        () = place.evicted.notified() => server.count_evicted(),
        () = tokio::time::sleep(LIFE) => {}
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::net::{IpAddr, Ipv4Addr};

    use futures_util::FutureExt as _;

    use super::*;

    fn client(last: u8) -> ClientKey {
        IpAddr::from(Ipv4Addr::new(192, 0, 2, last)).into()
    }

    fn is_evicted(place: &SparePlace) -> bool {
        place.evicted.notified().now_or_never().is_some()
    }

    #[test]
    fn the_newcomer_has_the_place_of_the_oldest_of_the_largest_client() {
        let spare = Spare::new(3);
        let admit = |last| spare.try_admit(client(last)).unwrap().1;
        let (other, first, second) = (admit(1), admit(2), admit(2));
        let _newcomer = admit(3);
        assert_eq!([&other, &first, &second].map(is_evicted), [false, true, false]);
    }

    #[test]
    fn connections_that_do_not_end_are_bounded_too() {
        let spare = Spare::new(2);
        let mut open: Vec<_> = (0..2 * ENDING).map(|_| spare.try_admit(client(1)).unwrap()).collect();
        assert!(spare.try_admit(client(2)).is_none());
        open.pop();
        assert!(spare.try_admit(client(2)).is_some());
        drop(open);
        assert_eq!(spare.places.lock().open, 0);
        assert!(Spare::new(0).try_admit(client(1)).is_none());
    }
}
