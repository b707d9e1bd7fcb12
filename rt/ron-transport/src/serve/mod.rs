//! The HTTP serve loop that every listener shares: HTTP/1.1 and HTTP/2, without TLS or over TLS.
//!
//! A connection is accepted on the control plane, placed on the core with the fewest, and stays there. Between
//! requests it costs next to nothing: after two idle seconds its HTTP machinery is put away and only the socket
//! waits ("parked"). Timeouts are judged from what the connection did ([`Activity`]), by one timer each.

mod activity;
mod adapter;
mod close;
mod connection;
mod greeting;
mod h1;
mod h2;
mod limits;
mod listener;
mod metered;
mod pace;
mod server;
mod spare;
mod waits;
mod workers;

use std::time::Duration;

pub use activity::Activity;
pub use limits::HttpLimits;
pub(crate) use limits::more_time_for;
pub(crate) use pace::Pace;
pub use server::{HttpServer, ListenPlan, Roles};
pub(crate) use waits::Slowness;

use ron_kernel::{
    readiness::Effect,
    topology::{ChildSpec, Escalation, Plane, Restart, Stage, TaskSpec, TimeoutSpec},
};

/// The task that accepts connections; part of the topology of every service that listens.
pub const LISTENER: TaskSpec = TaskSpec {
    name: "listener",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Down)),
    stop: Stage::Intake,
    doc: "accepts connections, applies the caps, and places each on the core with the fewest",
};

/// Who answers for the connections of a core; part of the topology of services whose [`Roles`] say so.
pub const WORKER: TaskSpec = TaskSpec {
    name: "worker",
    plane: Plane::Data,
    restart: Restart::usual(Escalation::Degrade(Effect::ShedWrites)),
    stop: Stage::Writers,
    doc: "one per core; owns its connections: if it fails they end, and new connections go to other cores until it is restarted",
};

/// A connection; part of the topology of every service that listens.
pub const CONNECTION: ChildSpec = ChildSpec {
    kind: "connection",
    plane: Plane::Data,
    stop: Stage::Writers,
    bound: "max_conns in all, a quarter of that per client",
    doc: "one client connection; idle ones close only after the work in flight is done",
};

/// A stream of an HTTP/2 connection; part of the topology of every service that listens.
pub const H2_STREAM: ChildSpec = ChildSpec {
    kind: "h2_stream",
    plane: Plane::Data,
    stop: Stage::Writers,
    bound: "the stream limit of each HTTP/2 connection",
    doc: "one request on an HTTP/2 connection",
};

/// The timeouts of a listener; part of the topology of every service that listens.
pub const TIMEOUTS: [TimeoutSpec; 8] = [
    TimeoutSpec {
        name: "handshake_timeout",
        default: Duration::from_secs(3),
        doc: "TLS handshake and PROXY header; then the connection closes",
    },
    TimeoutSpec {
        name: "read_timeout",
        default: Duration::from_secs(5),
        doc: "a whole request head, and each wait for more of a body; then 408",
    },
    TimeoutSpec {
        name: "write_timeout",
        default: Duration::from_secs(5),
        doc: "each wait for the client to read more of a response; then the connection closes",
    },
    TimeoutSpec {
        name: "min_rate_grace",
        default: Duration::from_secs(10),
        doc: "waits for a client beyond what the minimum rate allows; then 408, or the connection closes in mid-response",
    },
    TimeoutSpec {
        name: "request_timeout",
        default: Duration::from_secs(300),
        doc: "from the first byte of a request's head to the last byte of its body, and 1 s more per 16 KiB of it; then 408",
    },
    TimeoutSpec {
        name: "max_conn_age",
        default: Duration::from_secs(3600),
        doc: "the age of a connection, varied by up to 10 % at random; then it accepts no more requests",
    },
    TimeoutSpec {
        name: "idle_timeout",
        default: Duration::from_secs(60),
        doc: "between requests; then the connection closes",
    },
    TimeoutSpec {
        name: "park_after",
        default: Duration::from_secs(2),
        doc: "between requests; then the connection releases its buffers",
    },
];
