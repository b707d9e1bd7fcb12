//! Rendezvous hashing (highest random weight) with bounded loads.
//!
//! Every server has a score for every key, and a key belongs to the server with the highest one. So a server that leaves
//! loses its own keys and moves no others, and one that joins takes its share and moves nothing else. Nothing is stored, and
//! all gateways with the same servers agree.
//!
//! With a bound, a server takes no key while it has more than its share of all load, times a factor (Mirrokni, Thorup and
//! Zadimoghaddam, "Consistent Hashing with Bounded Loads"): the key goes to the server with the next score.

/// A server that may get a key.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Candidate {
    /// Stands for the server: the [`hash`] of its name.
    pub id: u64,
    /// The server's weight relative to the others; one of 0 gets nothing.
    pub weight: u32,
    /// The requests that the server has now.
    pub load: u64,
}

/// How much more than its share of the load a server may have, in percent of its share: 125 for a quarter more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxLoad(u32);

impl MaxLoad {
    /// A bound, if it is one under which every key finds a server: from 101 percent.
    #[must_use]
    pub const fn percent(percent: u32) -> Option<Self> {
        if percent > 100 { Some(Self(percent)) } else { None }
    }

    /// The load from which a server takes no further key, where `total` is the load of all servers and `weights` the sum of
    /// their weights.
    #[must_use]
    pub fn limit(self, weight: u32, total: u64, weights: u64) -> u64 {
        // One more, for the request that is being placed; rounded up, so that the limits together exceed the load.
        let share = (u128::from(total) + 1) * u128::from(weight) * u128::from(self.0);
        let limit = share.div_ceil(100 * u128::from(weights.max(1)));
        u64::try_from(limit).unwrap_or(u64::MAX)
    }
}

/// The position of the server that a key belongs to; `None` if there is no server with a weight.
pub fn choose(
    key: u64,
    servers: impl Iterator<Item = Candidate> + Clone,
    bound: Option<MaxLoad>,
) -> Option<usize> {
    let (total, weights) = servers
        .clone()
        .filter(|server| server.weight > 0)
        .fold((0_u64, 0_u64), |(total, weights), server| {
            (total.saturating_add(server.load), weights + u64::from(server.weight))
        });
    let has_room = |server: &Candidate| {
        bound.is_none_or(|bound| server.load < bound.limit(server.weight, total, weights))
    };
    let mut best: Option<(f64, usize)> = None;
    for (position, server) in servers.enumerate() {
        if server.weight == 0 || !has_room(&server) {
            continue;
        }
        let score = score(key, &server);
        if best.is_none_or(|(highest, _)| score > highest) {
            best = Some((score, position));
        }
    }
    best.map(|(_, position)| position)
}

/// A hash of bytes, the same everywhere and for ever: FNV-1a, and a mixer that makes every bit depend on every other. It
/// resists no attacker: those who choose keys choose servers, which the bound on loads limits.
#[must_use]
pub fn hash(bytes: &[u8]) -> u64 {
    let fnv = |hash: u64, byte: &u8| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
    mixed(bytes.iter().fold(0xcbf2_9ce4_8422_2325, fnv))
}

/// The score of a server for a key: the logarithmic method for weights, under which a server's share of the keys is its
/// share of the weights.
fn score(key: u64, server: &Candidate) -> f64 {
    let bits = mixed(key ^ mixed(server.id)) >> 11;
    // 53 bits fit a double exactly. Between 0 and 1, and neither.
    #[expect(clippy::cast_precision_loss, reason = "53 bits")]
    let draw = (bits as f64 + 0.5) / (1_u64 << 53) as f64;
    f64::from(server.weight) / -draw.ln()
}

/// The finalizer of SplitMix64.
const fn mixed(mut bits: u64) -> u64 {
    bits = (bits ^ (bits >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    bits = (bits ^ (bits >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    bits ^ (bits >> 31)
}
