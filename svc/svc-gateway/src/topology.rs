//! What the gateway runs, declared.

use std::time::Duration;

use ron_kernel::topology::{MetricSpec, TimeoutSpec, Topology, joined};
use ron_transport::{
    client::H2_UPSTREAM,
    locks::LOCKS,
    serve::{CONNECTION, H2_STREAM, LISTENER, TIMEOUTS, WORKER},
};

use crate::{
    access_log::{ACCESS_LOG_QUEUE, ACCESS_LOG_WRITER},
    acme::{self, ACME_RENEWER},
    admission::{self, SCHED, WORK},
    cache::{self, CACHE_FETCH, CACHE_FILL, CACHE_REVALIDATE, CACHE_WRITER, CACHE_WRITES},
    fleet::{self, QUOTA_KEEPER, QUOTA_LEASES},
    jwt::VERIFIER_KEY_REFRESHER,
    locks,
    mirror::MIRRORED,
    passwords::PASSWORD_QUEUE,
    redirect::REDIRECT_LISTENER,
    shared,
    sweeper::POOL_SWEEPER,
    transfer::TRANSFER_WATCH,
    upstream::{self, ABANDONED, UPSTREAM_WATCH, WAITING_QUEUE},
};

/// Everything the gateway is made of.
pub static TOPOLOGY: Topology = Topology {
    service: "gateway",
    purpose: "The HTTP reverse proxy: routes requests to upstreams and streams the responses back.",
    last_reviewed: "2026-11-18",
    invariants: &[
        "A request never leaves the core that owns its connection.",
        "Before a request is admitted, no signature is verified and no server is contacted. Only small bodies are read \
         before, within a memory budget. Passwords are checked before, two at once, on threads of the blocking pool.",
        "When slots are short, the tenant furthest below its share is next, and tenants above their share are refused \
         first.",
        "Connections are limited in total and per client before a byte is read.",
        "Every wait for a client or an upstream has a timeout.",
        "A refusal states its reason in a problem document and is counted by that reason.",
        "Idle upstream connections are limited per core and endpoint, in number and in age; all connections are \
         limited per endpoint.",
        "Streams hold no slot, but a share of each server's connections: all streams together half, and one tenant \
         half of what is free of that.",
        "A request is sent again only if nothing of it was sent, or if its method is idempotent and it has no body.",
        "A partial response never looks complete: if the server breaks off or stalls, the client's connection is \
         closed.",
        "A stored response is sent with the body that was stored with it, verified when it is read from the disk, or \
         not at all.",
        "Serving never waits for a CA: certificates are obtained in the background, one at a time, and an outage of \
         the CA does not affect the certificates in use.",
        "A copy of a request (`mirror`) is sent once, holds no slot, and neither delays nor changes the response to \
         the request.",
        "No request waits for the store of shared limits; while it does not answer, this gateway keeps its last share of \
         each.",
        "A drain finishes the requests in flight before it closes a connection.",
    ],
    tasks: &[
        LISTENER,
        WORKER,
        REDIRECT_LISTENER,
        POOL_SWEEPER,
        TRANSFER_WATCH,
        UPSTREAM_WATCH,
        VERIFIER_KEY_REFRESHER,
        ACME_RENEWER,
        ACCESS_LOG_WRITER,
        CACHE_WRITER,
        QUOTA_KEEPER,
    ],
    children: &[
        CONNECTION,
        H2_STREAM,
        H2_UPSTREAM,
        ABANDONED,
        MIRRORED,
        CACHE_FETCH,
        CACHE_FILL,
        CACHE_REVALIDATE,
    ],
    queues: &[WORK, SCHED, WAITING_QUEUE, PASSWORD_QUEUE, ACCESS_LOG_QUEUE, CACHE_WRITES, QUOTA_LEASES],
    locks: &joined::<_, { locks::ALL.len() + LOCKS.len() }>(&locks::ALL, &LOCKS),
    timeouts: &joined::<_, { TIMEOUTS.len() + OWN_TIMEOUTS.len() }>(&TIMEOUTS, OWN_TIMEOUTS),
    metrics: &joined::<_, { admission::METRICS.len() + OWN_METRICS.len() }>(
        &admission::METRICS,
        &OWN_METRICS,
    ),
    trade_offs: &[
        "Upstream connections belong to one core, at the price of more connections. A core uses another core's \
         connection only when the server has reached its limit.",
        "Over HTTP/1.1 a request is written without a copy, so it is still there for another try. Over HTTP/2 its head \
         is copied, because the library keeps what it sends.",
        "The state of a server that all cores share is a few atomics that every request changes.",
        "A worker owns a core's connections, so there are as many as `node.cores`, and not eight at most.",
        "Full queues are counted by queue; `http_requests_total` with the status 429 tells on which routes.",
    ],
};

/// The timeouts of the gateway, besides those of the HTTP server.
const OWN_TIMEOUTS: &[TimeoutSpec] = &[
    TimeoutSpec {
        name: "upstream.<name>.timeout",
        default: Duration::from_secs(5),
        doc: "from a request's head to the upstream's response head, all tries included; then 504; and each wait for \
              more of the response's body; then the client's connection ends",
    },
    TimeoutSpec {
        name: "upstream.<name>.finish_abandoned",
        default: Duration::from_secs(1),
        doc: "a server that is busy with a request whose client has left; then its connection closes, and the slot is free",
    },
    TimeoutSpec {
        name: "upstream.<name>.connect_timeout",
        default: Duration::from_secs(1),
        doc: "a server that accepts no connection; then the next one is tried",
    },
    TimeoutSpec {
        name: "upstream.<name>.health.timeout",
        default: Duration::from_secs(1),
        doc: "a server that does not answer its health check; then the check has failed",
    },
    TimeoutSpec {
        name: "acme.dns_hook_timeout",
        default: Duration::from_secs(120),
        doc: "one run of the program that changes a DNS zone; then it is killed, and the attempt has failed",
    },
    TimeoutSpec {
        name: "quotas.store",
        default: Duration::from_millis(500),
        doc: "the store of shared limits: connecting, the handshake, and each batch of questions; then the connection closes, \
              and this gateway's last shares count",
    },
    TimeoutSpec {
        name: "tunnel_idle_timeout",
        default: Duration::from_secs(60),
        doc: "an upgraded connection on which no byte passes, or one end does not read; then it closes",
    },
    TimeoutSpec {
        name: "upstream.<name>.idle_timeout",
        default: Duration::from_secs(60),
        doc: "an idle upstream connection; then it closes, at the next check every 10 s",
    },
];

/// The metrics of the gateway, besides those of admission.
const OWN_METRICS: [MetricSpec; shared::METRICS.len() + upstream::METRICS.len() + LATER_METRICS.len()] =
    joined(
        &joined::<_, { shared::METRICS.len() + upstream::METRICS.len() }>(
            &shared::METRICS,
            &upstream::METRICS,
        ),
        &LATER_METRICS,
    );

/// Those of the cache, of certificates and of shared limits.
const LATER_METRICS: [MetricSpec; cache::METRICS.len() + acme::METRICS.len() + fleet::METRICS.len()] = joined(
    &joined::<_, { cache::METRICS.len() + acme::METRICS.len() }>(&cache::METRICS, &acme::METRICS),
    &fleet::METRICS,
);
