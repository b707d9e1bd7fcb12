//! What the overlay runs, declared.

use std::time::Duration;

use ron_kernel::topology::{LockSpec, TimeoutSpec, Topology, joined};
use ron_transport::locks::{CONNECTION_CAPS, RESOLVER};

use crate::{
    dialer::{CFG_SNAPSHOT, DIALER},
    gossip::{COMMANDS, GOSSIP_EGRESS, GOSSIP_INGRESS, SHARD, SUBSCRIBER},
    listener::{GREETER, INGRESS_WORK, LISTENER},
    locks,
    losses::METRICS_BUFFER,
    metrics::METRICS,
    objects::{OBJECT_STREAM, STREAM},
    peers::PEER_INDEX,
    quic::{QUIC_DRIVER, QUIC_LISTENER},
    session::{CONNECTION, LINGER, PERMIT_WAIT, READER, WRITER},
};

/// Everything the overlay is made of.
pub static TOPOLOGY: Topology = Topology {
    service: "overlay",
    purpose: "The gossip overlay between nodes: sessions, publications and objects, with every loss accounted for.",
    last_reviewed: "2026-11-18",
    invariants: &[
        "A connection has exactly one reader and one writer; the reader never writes.",
        "A publication that was accepted is delivered or reported: in the loss report of the node that lost it, and as \
         a gap to subscribers.",
        "A node that is not admitted learns nothing about this node beyond the handshake.",
        "One slow peer delays nobody else: its frames wait in its own bounded queue, and are refused there.",
        "User frames are never sent twice on one socket.",
        "Without TLS, the node listens on and dials only addresses of this machine.",
        "With amnesia nothing is written: the node's key lasts as long as the process.",
    ],
    tasks: &[LISTENER, QUIC_LISTENER, GREETER, SHARD],
    children: &[CONNECTION, READER, WRITER, DIALER, STREAM, QUIC_DRIVER],
    queues: &[INGRESS_WORK, GOSSIP_INGRESS, GOSSIP_EGRESS, COMMANDS, SUBSCRIBER, OBJECT_STREAM],
    locks: &joined::<_, { OTHER_LOCKS.len() + locks::OWN.len() }>(&OTHER_LOCKS, &locks::OWN),
    timeouts: &TIMEOUTS,
    metrics: &METRICS,
    trade_offs: &[
        "A full queue to a peer rejects the new publication; with `gossip.egress_policy = \"drop_oldest\"` it drops \
         the oldest one instead.",
        "A publication waits for a slow peer for five seconds at most; a peer that missed it requests it once it \
         catches up.",
        "Topics are spread over tasks by their names, so one very busy topic uses one core.",
        "Over QUIC the library has queues of its own between a socket and its connections, in packets; what a peer may send before it is read is bounded, 1 MiB for each connection.",
        "A second connection between two nodes costs a handshake; the one that the lower node id dialled stays.",
        "Deadlines are the callers': publications over HTTP honour those of the request, and every other wait can be given up at any time without a loss.",
    ],
};

/// Those of its peers, dialers and losses, and of the transport below.
const OTHER_LOCKS: [LockSpec; 5] = [CFG_SNAPSHOT, PEER_INDEX, METRICS_BUFFER, CONNECTION_CAPS, RESOLVER];

const TIMEOUTS: [TimeoutSpec; 6] = [
    TimeoutSpec {
        name: "handshake_timeout",
        default: Duration::from_secs(3),
        doc: "from the connection to the end of both HELLOs; then it closes",
    },
    TimeoutSpec {
        name: "timeouts.read",
        default: Duration::from_secs(5),
        doc: "from the first byte of a frame to its last; then the connection closes",
    },
    TimeoutSpec {
        name: "timeouts.write",
        default: Duration::from_secs(5),
        doc: "each wait for the peer to read more; then the connection closes",
    },
    TimeoutSpec {
        name: "timeouts.idle",
        default: Duration::from_secs(30),
        doc: "silence of a peer, which gets a PING after half of it; then the connection closes (15 s on a micronode)",
    },
    TimeoutSpec {
        name: "permit_wait",
        default: PERMIT_WAIT,
        doc: "a publication that waits for a permit of its peer; then it is given up as backpressure",
    },
    TimeoutSpec {
        name: "linger",
        default: LINGER,
        doc: "from the end of a session until its socket is closed: queued frames are written, and the peer's end is read",
    },
];
