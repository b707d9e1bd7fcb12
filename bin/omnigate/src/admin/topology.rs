//! What the admin listener and the node's own tasks are made of, declared.

use std::time::Duration;

use ron_kernel::{
    readiness::Effect,
    topology::{ChildSpec, Escalation, Plane, Restart, Stage, TaskSpec, TimeoutSpec, Topology, joined},
};
use ron_transport::{
    locks::LOCKS,
    serve::{Roles, TIMEOUTS},
};

use crate::node::{ANNOUNCER, READY_WITHIN, SNAPSHOT_ANNOUNCER, SNAPSHOT_COLLECTOR, UPGRADER};

use super::{
    audit_file::{AUDIT_QUEUE, AUDIT_WRITER},
    console::{FEED, MAX_VIEWERS, SNAPSHOTS},
    events::MAX_SUBSCRIBERS,
    locks,
    service::{MAX_CONNS, SPARE_CONNS},
};

/// The admin listener outlives the others, so that it can say how the drain goes.
const LISTENER: TaskSpec = TaskSpec {
    name: "listener",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "accepts operators' connections, also while the rest of the node drains",
};

const CONNECTION: ChildSpec = ChildSpec {
    kind: "connection",
    plane: Plane::Data,
    stop: Stage::Support,
    bound: "64 in all, and 16 more for health checks",
    doc: "one operator's connection",
};

const H2_STREAM: ChildSpec = ChildSpec {
    kind: "h2_stream",
    plane: Plane::Data,
    stop: Stage::Support,
    bound: "the stream limit of each HTTP/2 connection",
    doc: "one request on an HTTP/2 connection",
};

/// The parts of the HTTP server, which stop last and hold no drain up.
pub(super) const ROLES: Roles = Roles {
    listener: &LISTENER,
    worker: None,
    connection: &CONNECTION,
    stream: &H2_STREAM,
    drains_requests: false,
};

// The texts above and below state these numbers.
const _: () = assert!(MAX_CONNS == 64 && SPARE_CONNS == 16 && MAX_SUBSCRIBERS == 16 && MAX_VIEWERS == 16);

/// Everything the admin service is made of.
pub(crate) static TOPOLOGY: Topology = Topology {
    service: "admin",
    purpose: "The operators' side of a node: metrics, health, readiness, topology, events, console, shutdown, upgrade.",
    last_reviewed: "2026-11-16",
    invariants: &[
        "It answers until everything else has stopped: `/readyz` returns 503 while the node drains.",
        "Without a token it listens on this machine only, and refuses requests that a web page could forge.",
        "No answer holds a secret.",
        "A client that holds all 64 connections cannot block `/healthz` and `/readyz`: 16 spare connections are \
         accepted for them, for two seconds each, and a new one replaces the oldest.",
        "Every request that changes something, and every request that is refused because of its sender, is in the \
         audit trail. In a flood of refusals, 20 in ten seconds are written, and the number of the rest.",
        "The console changes nothing, and its page runs only its own scripts.",
        "What the console shows is computed once a second for all viewers, at most 16, and not at all without one.",
        "At most 16 event streams are open; a reader that falls behind is told how many events it missed.",
        "If the new process of an upgrade does not become ready, this process continues unchanged.",
    ],
    tasks: &[LISTENER, FEED, AUDIT_WRITER, UPGRADER, ANNOUNCER, SNAPSHOT_ANNOUNCER, SNAPSHOT_COLLECTOR],
    children: &[CONNECTION, H2_STREAM],
    queues: &[SNAPSHOTS, AUDIT_QUEUE],
    locks: &joined::<_, { locks::OWN.len() + LOCKS.len() }>(&locks::OWN, &LOCKS),
    timeouts: &joined::<_, { TIMEOUTS.len() + OWN_TIMEOUTS.len() }>(&TIMEOUTS, OWN_TIMEOUTS),
    metrics: &[],
    trade_offs: &[
        "Admin connections are on the data plane: a core that blocks delays them too, and the other cores name it.",
        "Event streams have no history: what happened before the subscription is in the log.",
    ],
};

/// Those beside the HTTP server's.
const OWN_TIMEOUTS: &[TimeoutSpec] = &[
    TimeoutSpec {
        name: "keep_alive",
        default: Duration::from_secs(15),
        doc: "silence on an event stream, after which a comment keeps it alive",
    },
    TimeoutSpec {
        name: "ready_within",
        default: READY_WITHIN,
        doc: "from SIGUSR2 until the successor is ready; otherwise it is terminated and this process continues",
    },
];
