//! What the edge must show: no wrong byte, no mixture of generations, no bomb's weight, no trace, no torn object.
//!
//! Each proof runs in a small size with the other tests. Set `OMNIGATE_FULL_PROOFS=1` for the full sizes, which take
//! minutes, and `OMNIGATE_PROOF_SEED` to repeat a run with the seed that it printed:
//!
//! ```sh
//! OMNIGATE_FULL_PROOFS=1 cargo test -p omnigate --test e2e -- edge_proofs:: --nocapture --test-threads 1
//! ```

mod amnesia;
mod bit_flips;
mod bombs;
mod edge_node;
mod kills;
mod making;
mod origin;
mod readers;
mod single_flight;
mod swaps;
mod wire;

/// The size of a proof.
fn size(small: usize, full: usize) -> usize {
    if std::env::var_os("OMNIGATE_FULL_PROOFS").is_some() { full } else { small }
}

/// Chance that can be repeated.
struct Chance(u64);

impl Chance {
    /// From the seed that is asked for, or a new one; it is printed.
    fn new(proof: &str) -> Self {
        let asked = std::env::var("OMNIGATE_PROOF_SEED").ok().and_then(|seed| seed.parse().ok());
        let now = std::time::UNIX_EPOCH.elapsed().unwrap().as_nanos();
        let seed = asked.unwrap_or(u64::try_from(now & u128::from(u64::MAX)).unwrap());
        println!("{proof}: OMNIGATE_PROOF_SEED={seed}");
        Self(seed | 1)
    }

    /// A number below `end`.
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from((self.0 >> 11) % end as u64).unwrap()
    }

    /// One of some things.
    fn one_of<'a, T>(&mut self, all: &'a [T]) -> &'a T {
        &all[self.below(all.len())]
    }
}
