//! What an edge says of itself to whoever watches it: its cache and its packs.

use serde::Serialize;
use serde_json::Value;

use crate::{Edge, preview};

/// An edge at one moment. Counts are totals: who wants a rate takes differences.
#[derive(Debug, Serialize)]
pub struct EdgeStatus {
    /// Whether it fetches what it does not have.
    pub live: bool,
    /// Requests answered with what is here.
    pub hits: u64,
    /// Requests for what is not here.
    pub misses: u64,
    /// Damages found.
    pub quarantined: u64,
    /// Requests that wait for a disk or an origin, or are being sent.
    pub inside: u64,
    /// Answers that are ready in RAM.
    pub ram_entries: u64,
    /// Their bytes.
    pub ram_bytes: u64,
    /// The bytes that there may be.
    pub ram_limit: u64,
    /// The packs, as `/edge/packs` lists them.
    pub packs: Value,
    /// The address of the packs' maps for a browser, if there is one.
    pub maps: Vec<String>,
}

impl Edge {
    /// The edge at this moment.
    #[must_use]
    pub fn status(&self) -> EdgeStatus {
        let shared = self.shared();
        EdgeStatus {
            live: shared.fill.is_some(),
            hits: shared.metrics.hits.get(),
            misses: shared.metrics.misses.get(),
            quarantined: shared.metrics.quarantined.get(),
            inside: shared.ingress.inside().into(),
            ram_entries: shared.ram.entries() as u64,
            ram_bytes: shared.ram.bytes(),
            ram_limit: shared.ram.limit(),
            packs: preview::packs_json(&shared.registry.all())["packs"].take(),
            maps: self.to_look_at(),
        }
    }
}
