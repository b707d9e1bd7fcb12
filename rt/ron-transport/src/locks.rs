//! The locks of the transport, in the order in which they nest: above those of the services that use it.

use ron_kernel::topology::LockSpec;

const fn lock(name: &'static str, rank: u8, doc: &'static str) -> LockSpec {
    LockSpec { name, rank, doc }
}

pub(crate) const LISTENER_SOCKETS: LockSpec =
    lock("listener_sockets", 170, "the sockets of one listener and those that a reload puts in their place");
/// The lock of a [`Resolver`](crate::resolve::Resolver).
pub const RESOLVER: LockSpec =
    lock("resolver", 174, "the addresses of host names, and which names are being resolved");
pub(crate) const CONNECTION_INBOUND: LockSpec = lock(
    "connection_inbound",
    178,
    "the stream of one HTTP/1.1 connection, for its serve loop and the body of its request; held for one read or write",
);
pub(crate) const CONNECTION_WAITS: LockSpec =
    lock("connection_waits", 182, "which requests of one connection wait for its client");
pub(crate) const SPARE_PLACES: LockSpec =
    lock("spare_places", 186, "connections beyond the limit, which are rejected and closed");
/// The lock of [`ConnCaps`](crate::caps::ConnCaps).
pub const CONNECTION_CAPS: LockSpec = lock("connection_caps", 190, "how many connections each client has");
pub(crate) const INTERIM: LockSpec =
    lock("interim", 194, "interim responses of servers that one connection has not sent yet");

/// All of them; part of the topology of every service that listens.
pub const LOCKS: [LockSpec; 7] = [
    LISTENER_SOCKETS,
    RESOLVER,
    CONNECTION_INBOUND,
    CONNECTION_WAITS,
    SPARE_PLACES,
    CONNECTION_CAPS,
    INTERIM,
];
