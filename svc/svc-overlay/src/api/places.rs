//! How many may subscribe at once: on this node, from one address, and with one token.

use std::{collections::HashMap, hash::Hash, sync::Arc};

use captoken::TokenId;
use ron_kernel::lock::Ranked;
use ron_transport::caps::ClientKey;

use crate::locks;

/// The maximum numbers of subscribers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct PlaceLimits {
    pub(super) node: usize,
    pub(super) client: usize,
    pub(super) token: usize,
}

/// The limit that is reached.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Full {
    Node,
    Client,
    Token,
}

impl Full {
    pub(super) const ALL: [Self; 3] = [Self::Node, Self::Client, Self::Token];

    /// Returns the name of the limit in metrics.
    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Node => "node",
            Self::Client => "client",
            Self::Token => "token",
        }
    }
}

/// The number of places per client. A client without places takes no memory.
#[derive(Debug, Default)]
struct Held {
    all: usize,
    clients: HashMap<ClientKey, usize>,
    tokens: HashMap<TokenId, usize>,
}

impl Held {
    fn take(&mut self, client: ClientKey, token: Option<TokenId>, limits: PlaceLimits) -> Result<(), Full> {
        let held = |count: Option<&usize>| count.copied().unwrap_or(0);
        // A Unix socket is a local proxy's, which speaks for many.
        if client != ClientKey::Unix && held(self.clients.get(&client)) >= limits.client {
            return Err(Full::Client);
        }
        if token.is_some_and(|token| held(self.tokens.get(&token)) >= limits.token) {
            return Err(Full::Token);
        }
        if self.all >= limits.node {
            return Err(Full::Node);
        }
        self.all += 1;
        *self.clients.entry(client).or_default() += 1;
        if let Some(token) = token {
            *self.tokens.entry(token).or_default() += 1;
        }
        Ok(())
    }

    fn give_back(&mut self, client: ClientKey, token: Option<TokenId>) {
        self.all -= 1;
        less(&mut self.clients, client);
        if let Some(token) = token {
            less(&mut self.tokens, token);
        }
    }
}

fn less<K: Hash + Eq>(counts: &mut HashMap<K, usize>, key: K) {
    if let Some(count) = counts.get_mut(&key) {
        *count -= 1;
        if *count == 0 {
            counts.remove(&key);
        }
    }
}

/// The places of a node.
#[derive(Debug)]
pub(super) struct Places(Ranked<Held>);

impl Default for Places {
    fn default() -> Self {
        Self(Ranked::new(&locks::API_PLACES, Held::default()))
    }
}

/// A place; given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    places: Arc<Places>,
    client: ClientKey,
    token: Option<TokenId>,
}

impl Places {
    /// Takes one of the places of the node, the client and the token until it is dropped.
    pub(super) fn take(
        self: &Arc<Self>,
        client: ClientKey,
        token: Option<TokenId>,
        limits: PlaceLimits,
    ) -> Result<Place, Full> {
        self.0.lock().take(client, token, limits)?;
        Ok(Place { places: Arc::clone(self), client, token })
    }

    /// Returns the number of subscribers.
    pub(super) fn taken(&self) -> usize {
        self.0.lock().all
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.places.0.lock().give_back(self.client, self.token);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LIMITS: PlaceLimits = PlaceLimits { node: 5, client: 3, token: 2 };

    fn client(number: u8) -> ClientKey {
        ClientKey::V4([10, 0, 0, number].into())
    }

    proptest! {
        /// Whoever comes and goes: no limit is ever passed, a refusal is always true, and nothing is left in the end.
        #[test]
        fn limits_hold_and_places_come_back(
            steps in proptest::collection::vec((0_u8..3, proptest::option::of(0_u8..3), any::<bool>()), 0..60),
        ) {
            let places = Arc::<Places>::default();
            let mut held: Vec<(u8, Option<u8>, Place)> = Vec::new();
            for (who, with, goes) in steps {
                if goes && !held.is_empty() {
                    held.remove(usize::from(who) % held.len());
                    continue;
                }
                let token = with.map(|with| TokenId::new([with; TokenId::LEN]));
                let of_client = held.iter().filter(|(other, _, _)| *other == who).count();
                let of_token = held.iter().filter(|(_, other, _)| with.is_some() && *other == with).count();
                match places.take(client(who), token, LIMITS) {
                    Ok(place) => held.push((who, with, place)),
                    Err(Full::Client) => prop_assert_eq!(of_client, LIMITS.client),
                    Err(Full::Token) => prop_assert_eq!(of_token, LIMITS.token),
                    Err(Full::Node) => prop_assert_eq!(held.len(), LIMITS.node),
                }
                prop_assert_eq!(places.taken(), held.len());
                prop_assert!(held.len() <= LIMITS.node);
            }
            held.clear();
            let left = places.0.lock();
            prop_assert!(left.all == 0 && left.clients.is_empty() && left.tokens.is_empty());
        }
    }
}
