//! The locks of the gateway, in the order in which they nest.
//!
//! Each is held for a few instructions, and never while anything is waited for; what blocks is said so. A lock may be taken
//! while locks above it in this list are held: debug builds assert it.

use ron_kernel::topology::LockSpec;

const fn lock(name: &'static str, rank: u8, doc: &'static str) -> LockSpec {
    LockSpec { name, rank, doc }
}

// The lowest of all services: the body of an answer may be the edge's or the overlay's.
pub(crate) const TRANSFER_ANSWER: LockSpec = lock(
    "transfer_answer",
    2,
    "one answer's body, for its client's connection or the task that reads ahead; held for one read, which may take other \
     services' locks",
);
pub(crate) const AUTH_FILES: LockSpec = lock(
    "auth_files",
    10,
    "the revocation list that was taken last; held while the files are read, on a blocking thread",
);
pub(crate) const BUSIEST_LABELS: LockSpec =
    lock("busiest_labels", 20, "which tenants have a series of their own; one task uses it");
pub(crate) const OVERLOAD: LockSpec =
    lock("overload", 30, "the counts at the last check; held while the condition is raised, by one task");
pub(crate) const CACHE_DISK: LockSpec =
    lock("cache_disk", 50, "the log of stored responses; held while it is written, on a blocking thread");
pub(crate) const CACHE_FLIGHTS: LockSpec = lock(
    "cache_flights",
    60,
    "which responses are being fetched, so that other requests wait for the same response",
);
pub(crate) const CACHE_LOADS: LockSpec =
    lock("cache_loads", 62, "which bodies are being read from the disk, so that each is read once");
pub(crate) const CACHE_INDEX: LockSpec = lock(
    "cache_index",
    70,
    "changes of what is stored for a URL, one lock of many by its hash; reading the index takes none of them",
);
pub(crate) const CACHE_TENANTS: LockSpec = lock("cache_tenants", 80, "the shares of all tenants, by tenant");
pub(crate) const CACHE_SHARE: LockSpec =
    lock("cache_share", 82, "what is stored for one tenant, the oldest first");
pub(crate) const CACHE_JOURNAL: LockSpec = lock(
    "cache_journal",
    84,
    "removals that are not on the disk yet; a removal is added under the lock of its URL",
);
pub(crate) const CACHE_FILL: LockSpec =
    lock("cache_fill", 90, "one body that is being stored, and the clients that wait for more of it");
pub(crate) const TRANSFER_LIST: LockSpec = lock("transfer_list", 100, "the transfers of one core");
pub(crate) const TRANSFER_STATE: LockSpec = lock(
    "transfer_state",
    110,
    "one transfer's slot and times, also while its answer is read, which may move its upload",
);
pub(crate) const OCCUPANCY: LockSpec =
    lock("occupancy", 120, "which server's connection a request occupies, and whether as a stream");
pub(crate) const STREAM_SHARES: LockSpec =
    lock("stream_shares", 130, "the streams of one server by tenant; taken under the occupancy that changes");
pub(crate) const POOL_IDLE: LockSpec = lock(
    "pool_idle",
    140,
    "the idle connections of one core to one server; connections are closed after the lock is released",
);
pub(crate) const POOL_SHARED: LockSpec = lock(
    "pool_shared",
    142,
    "the HTTP/2 connections of one core to one server; they are closed after the lock is \
     released",
);
pub(crate) const UPSTREAM_SEATS: LockSpec =
    lock("upstream_seats", 150, "requests that wait for a connection to one server");
pub(crate) const CONN_MEMO: LockSpec = lock("conn_memo", 160, "the last caller of one connection");
pub(crate) const CONN_PROMISES: LockSpec = lock(
    "conn_promises",
    162,
    "the reservations of the clients of one connection; most requests do not need it",
);
pub(crate) const VIEW_MEMORY: LockSpec = lock("view_memory", 164, "the memory of one view's parts");
pub(crate) const TOKEN_CACHE: LockSpec =
    lock("token_cache", 166, "tokens that were verified, one of many shards by their digest");
pub(crate) const PASSWORD_MEMO: LockSpec =
    lock("password_memo", 168, "keyed hashes of passwords that were verified recently");

pub(crate) const PASSWORD_LINE: LockSpec =
    lock("password_line", 170, "requests that wait for a password check, by address");

pub(crate) const QUOTA_LEASE: LockSpec =
    lock("quota_lease", 172, "what this gateway has of one limit that gateways share");

/// All locks of the gateway, in their order.
pub(crate) const ALL: [LockSpec; 26] = [
    TRANSFER_ANSWER,
    AUTH_FILES,
    BUSIEST_LABELS,
    OVERLOAD,
    CACHE_DISK,
    CACHE_FLIGHTS,
    CACHE_LOADS,
    CACHE_INDEX,
    CACHE_TENANTS,
    CACHE_SHARE,
    CACHE_JOURNAL,
    CACHE_FILL,
    TRANSFER_LIST,
    TRANSFER_STATE,
    OCCUPANCY,
    STREAM_SHARES,
    POOL_IDLE,
    POOL_SHARED,
    UPSTREAM_SEATS,
    CONN_MEMO,
    CONN_PROMISES,
    VIEW_MEMORY,
    TOKEN_CACHE,
    PASSWORD_MEMO,
    PASSWORD_LINE,
    QUOTA_LEASE,
];
