//! The locks of the overlay beside those of its peers and losses, in the order in which they nest.

use ron_kernel::topology::LockSpec;

const fn lock(name: &'static str, rank: u8, doc: &'static str) -> LockSpec {
    LockSpec { name, rank, doc }
}

pub(crate) const SESSION: LockSpec = lock(
    "session",
    24,
    "the streams of one connection and what they may send; changed by its reader and its writer",
);
pub(crate) const JUDGE: LockSpec =
    lock("judge", 40, "the state of the conditions between two checks; one task uses it");
pub(crate) const TOPIC_SUPPLIES: LockSpec =
    lock("topic_supplies", 42, "how many publications of each topic subscribers have received");
pub(crate) const TRANSFERS: LockSpec = lock("transfers", 50, "which requests wait for objects");
pub(crate) const UNFINISHED: LockSpec =
    lock("unfinished", 52, "how many objects of each peer are on their way in");
pub(crate) const SHARD_RECEIVERS: LockSpec =
    lock("shard_receivers", 60, "the receiving ends of a shard's queues, for its next run if one fails");
pub(crate) const DEPARTED: LockSpec =
    lock("departed", 62, "subscribers that have left and that a shard has not removed yet");
pub(crate) const FOLLOWED: LockSpec =
    lock("followed", 63, "the topics of a new configuration that a shard has not applied yet");
pub(crate) const FEEDBACK: LockSpec = lock("feedback", 64, "what writers tell a shard");
pub(crate) const DRAIN_SUM: LockSpec = lock("drain_sum", 70, "what was lost at the end, by topic");
pub(crate) const HANDSHAKES: LockSpec = lock("handshakes", 80, "the handshakes in progress, by client");
pub(crate) const OAP_SOCKETS: LockSpec =
    lock("oap_sockets", 82, "the sockets of the listener and those that a reload puts in their place");
pub(crate) const QUIC_SOCKET: LockSpec = lock(
    "quic_socket",
    83,
    "the socket for QUIC, until its task takes it; in programs built with the feature `quic`",
);
pub(crate) const API_PLACES: LockSpec = lock(
    "api_places",
    84,
    "the subscriptions over HTTP, by client and token; one of the service `overlay_api`",
);
pub(crate) const PEER_LABELS: LockSpec = lock("peer_labels", 86, "the peers that have a series of their own");
pub(crate) const OUTBOX: LockSpec = lock("outbox", 100, "what waits to be written to one peer");

/// All of them but those of the API.
pub(crate) const OWN: [LockSpec; 15] = [
    SESSION,
    JUDGE,
    TOPIC_SUPPLIES,
    TRANSFERS,
    UNFINISHED,
    SHARD_RECEIVERS,
    DEPARTED,
    FOLLOWED,
    FEEDBACK,
    DRAIN_SUM,
    HANDSHAKES,
    OAP_SOCKETS,
    QUIC_SOCKET,
    PEER_LABELS,
    OUTBOX,
];
