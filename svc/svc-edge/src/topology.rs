//! What the edge runs, declared.

use std::time::Duration;

use ron_kernel::topology::{LockSpec, TimeoutSpec, Topology, joined};
use ron_transport::{
    client::H2_UPSTREAM,
    locks::LOCKS,
    serve::{CONNECTION, H2_STREAM, LISTENER, TIMEOUTS, WORKER},
};

use crate::{
    assets::{FILE_SETTLER, STATE_META, UNSETTLED},
    fill::{FILL_WORKER, INDEX_OWNER, INDEX_QUEUE, WORK},
    locks,
    metrics::METRICS,
    objects::QUARANTINE,
    packs::{PACK_VERIFIER, ROUTING_TABLE},
};

/// Everything the edge is made of.
pub static TOPOLOGY: Topology = Topology {
    service: "edge",
    purpose: "The asset and tile server: serves packs, static files and filled objects, and verifies every byte.",
    last_reviewed: "2026-11-16",
    invariants: &[
        "No byte is served that was not checked against a BLAKE3 tree: when it is read from a disk, or once when it enters RAM.",
        "A response comes from one generation of a pack or file, from its first byte to its last.",
        "A request never leaves the core that owns its connection.",
        "Files, databases and hashing run only on the blocking pool.",
        "In `offline` mode no outgoing connection is opened, and with `node.amnesia` no file is opened for writing.",
        "A refusal states its reason in a problem document and is counted by that reason.",
    ],
    tasks: &[LISTENER, WORKER, PACK_VERIFIER, FILE_SETTLER, FILL_WORKER, INDEX_OWNER],
    children: &[CONNECTION, H2_STREAM, H2_UPSTREAM, QUARANTINE],
    queues: &[WORK, INDEX_QUEUE, UNSETTLED],
    locks: &joined::<_, { OWN_LOCKS.len() + LOCKS.len() }>(&OWN_LOCKS, &LOCKS),
    timeouts: &joined::<_, { TIMEOUTS.len() + OWN_TIMEOUTS.len() }>(&TIMEOUTS, OWN_TIMEOUTS),
    metrics: &METRICS,
    trade_offs: &[
        "A file is hashed when it is first requested, so the first request for a large file waits; all later reads are \
         checked.",
        "A file that is requested within two seconds after it was written is hashed twice; the second hash is the one \
         that later reads are checked against.",
        "A file is re-checked once per second, so a change is seen up to a second late, and hits cost no system call.",
        "An object is stored before it is served, so a miss takes as long as the whole object, and clients never see a \
         part of it. If an origin is streamed, long objects are sent as they arrive, and clients see it if they \
         break off.",
        "A response that is being sent holds no place, so that clients that do not read delay nobody; they hold \
         memory.",
        "Damage in a pack affects only the damaged part; a pack that was written to is no longer served at all.",
    ],
};

/// The locks of the edge, besides those of the HTTP server.
const OWN_LOCKS: [LockSpec; 8] = [
    STATE_META,
    ROUTING_TABLE,
    locks::FLIGHTS,
    locks::FILL_LANES,
    locks::ORIGIN_CONNECTIONS,
    locks::URL_INDEX,
    locks::OVERLOAD,
    locks::FILL_BUDGET,
];

const OWN_TIMEOUTS: &[TimeoutSpec] = &[
    TimeoutSpec {
        name: "ingress.timeout_secs",
        default: Duration::from_secs(5),
        doc: "from a request's head to the response's; then 504; and each wait for more of a file; then the connection ends",
    },
    TimeoutSpec {
        name: "fill_timeout",
        default: Duration::from_secs(5),
        doc: "from a miss to the head of the origin's answer, all tries included, and the longest silence in its body; then 504",
    },
    TimeoutSpec {
        name: "fill.connect_timeout",
        default: Duration::from_secs(1),
        doc: "an origin that accepts no connection; then the try has failed",
    },
];
