//! The locks of the edge beside those of its packs and damages, in the order in which they nest.

use ron_kernel::topology::LockSpec;

const fn lock(name: &'static str, rank: u8, doc: &'static str) -> LockSpec {
    LockSpec { name, rank, doc }
}

pub(crate) const FLIGHTS: LockSpec =
    lock("flights", 30, "work in progress that several requests wait for, by name");
pub(crate) const FILL_LANES: LockSpec = lock(
    "fill_lanes",
    40,
    "the jobs, places and breakers of all origins; a job is queued and taken under it",
);
pub(crate) const ORIGIN_CONNECTIONS: LockSpec =
    lock("origin_connections", 50, "the idle connections to all origins");
pub(crate) const URL_INDEX: LockSpec =
    lock("url_index", 60, "the database of URLs; held while it is written, on a blocking thread");
pub(crate) const OVERLOAD: LockSpec = lock(
    "overload",
    70,
    "what was counted up to the last look; held while the condition is raised, by one task",
);
/// Above all others, because bytes that are sent give back their part of the budget wherever they are dropped.
pub(crate) const FILL_BUDGET: LockSpec =
    lock("fill_budget", 198, "the bytes of all fills, and which fills wait for some");
