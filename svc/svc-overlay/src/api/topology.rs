//! What the listener for applications runs, declared.

use std::time::Duration;

use ron_kernel::topology::{ChildSpec, Plane, Stage, TimeoutSpec, Topology, joined};
use ron_transport::{
    locks::LOCKS,
    serve::{CONNECTION, H2_STREAM, LISTENER, Roles, TIMEOUTS},
};

use super::{events::KEEP_ALIVE, metrics::METRICS, socket::AUTH_WAIT};
use crate::locks::API_PLACES;

/// The task of one WebSocket.
pub(super) const SOCKET: ChildSpec = ChildSpec {
    kind: "socket",
    plane: Plane::Data,
    stop: Stage::Writers,
    bound: "api.max_subscribers, with those of event streams",
    doc: "reads the messages of one WebSocket client, and sends it the events of its subscriptions",
};

/// The parts of the HTTP server.
pub(super) const ROLES: Roles = Roles {
    listener: &LISTENER,
    worker: None,
    connection: &CONNECTION,
    stream: &H2_STREAM,
    drains_requests: true,
};

/// Everything the listener for applications is made of.
pub static API_TOPOLOGY: Topology = Topology {
    service: "overlay_api",
    purpose: "Publish and subscribe for applications: HTTP, event streams and WebSockets, by capability tokens.",
    last_reviewed: "2026-11-18",
    invariants: &[
        "Nothing is published, and nothing is heard of, without a token that covers the topic, or on this machine alone.",
        "A web page of an origin that is not listed reaches nothing.",
        "Each subscriber has a box of its own, bounded in events and bytes; one that does not read delays nobody and is told what it missed.",
        "A token that expires or is revoked ends what was opened with it, within the time between two signs of life.",
        "Subscribers are bounded on the node, by address and by token; publications by token, by address and by how many wait.",
        "Each token, or each address without one, has a share of the topics and of the patterns that peers are told of.",
    ],
    tasks: &[LISTENER],
    children: &[CONNECTION, H2_STREAM, SOCKET],
    queues: &[],
    locks: &joined::<_, { LOCKS.len() + 1 }>(&[API_PLACES], &LOCKS),
    timeouts: &ALL_TIMEOUTS,
    metrics: &METRICS,
    trade_offs: &[
        "A WebSocket is read and written by one task, beside the one of its connection: a byte is copied once more, and the HTTP server stays as it is.",
        "A pattern means the topics that this node and its neighbours take part in; topics that nobody here has heard of are not looked for.",
        "Where a subscriber of several topics was is one number for each core, so how many it missed is told as at most so many.",
    ],
};

const ALL_TIMEOUTS: [TimeoutSpec; TIMEOUTS.len() + 3] = joined(
    &TIMEOUTS,
    &[
        TimeoutSpec {
            name: "api.publish_timeout",
            default: Duration::from_secs(5),
            doc: "from the end of a publication's body to its verdict; then 504",
        },
        TimeoutSpec {
            name: "keep_alive",
            default: KEEP_ALIVE,
            doc: "silence of a stream; then a comment or a ping keeps it alive, and its token is checked again",
        },
        TimeoutSpec {
            name: "auth_wait",
            default: AUTH_WAIT,
            doc: "from the beginning of a WebSocket to its token; then it closes",
        },
    ],
);
