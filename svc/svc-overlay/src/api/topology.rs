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
        "Publishing and subscribing need a token that covers the topic; without tokens, they work only on this \
         machine.",
        "Requests of web pages from origins that are not listed are refused.",
        "Each subscriber has its own queue, bounded in events and bytes; a subscriber that does not read delays nobody \
         and is told how many events it missed.",
        "When a token expires or is revoked, the streams that were opened with it end within one keep-alive interval.",
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
        "A pattern matches topics that this node and its neighbours participate in, and topics that become known \
         through announced patterns.",
        "The position of a subscriber to several topics is one number for each core, so the number of missed events is \
         an upper bound.",
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
