//! What the edge runs, declared.

use ron_kernel::topology::Topology;
use ron_transport::{
    client::H2_UPSTREAM,
    serve::{CONNECTION, H2_STREAM, LISTENER, TIMEOUTS},
};

use crate::fill::{FILL_WORKER, INDEX_OWNER, INDEX_QUEUE, WORK};

/// Everything the edge is made of.
pub static TOPOLOGY: Topology = Topology {
    service: "edge",
    purpose: "The asset and tile server: serves packs, static files and filled objects, and verifies every byte.",
    last_reviewed: "2026-11-16",
    invariants: &[
        "No byte is served that was not checked against a BLAKE3 tree: when it is read from a disk, or once when it enters RAM.",
        "A response is of one generation of a pack or file, from its first byte to its last.",
        "A request never leaves the core that owns its connection.",
        "Files, databases and hashing run on the blocking pool alone.",
        "Offline opens no outgoing socket, and amnesia opens no file for writing.",
        "A refusal tells its reason as a problem document and is counted by it.",
    ],
    tasks: &[LISTENER, FILL_WORKER, INDEX_OWNER],
    children: &[CONNECTION, H2_STREAM, H2_UPSTREAM],
    queues: &[WORK, INDEX_QUEUE],
    locks: &[],
    timeouts: &TIMEOUTS,
    metrics: &[],
    trade_offs: &[],
};
