//! What the gateway runs, declared.

use std::time::Duration;

use ron_kernel::topology::{TimeoutSpec, Topology};
use ron_transport::serve::{CONNECTION, H2_STREAM, LISTENER, TIMEOUTS};

use crate::{
    access_log::{ACCESS_LOG_QUEUE, ACCESS_LOG_WRITER},
    redirect::REDIRECT_LISTENER,
    sweeper::POOL_SWEEPER,
};

/// Everything the gateway is made of.
pub static TOPOLOGY: Topology = Topology {
    service: "gateway",
    purpose: "The HTTP front door: routes requests to upstreams and streams the answers back.",
    last_reviewed: "2026-11-15",
    invariants: &[
        "A request never leaves the core that owns its connection.",
        "Connections are capped in all and per client before a byte is read.",
        "Every wait for a client or an upstream has a timeout.",
        "A refusal tells its reason as a problem document and is counted by it.",
        "Idle upstream connections are capped per core and endpoint, in number and in age.",
        "A drain answers what is in flight before it closes a connection.",
    ],
    tasks: &[LISTENER, REDIRECT_LISTENER, POOL_SWEEPER, ACCESS_LOG_WRITER],
    children: &[CONNECTION, H2_STREAM],
    queues: &[ACCESS_LOG_QUEUE],
    locks: &[],
    timeouts: &[
        TIMEOUTS[0],
        TIMEOUTS[1],
        TIMEOUTS[2],
        TIMEOUTS[3],
        TIMEOUTS[4],
        TimeoutSpec {
            name: "upstream.<name>.timeout",
            default: Duration::from_secs(5),
            doc: "from a request's head to the upstream's response head, dialling included; then 504; and each wait for \
                  more of the response's body; then the client's connection ends",
        },
        TimeoutSpec {
            name: "upstream.<name>.idle_timeout",
            default: Duration::from_secs(60),
            doc: "an upstream connection without a request; then it closes, at the next look every 10 s",
        },
    ],
    metrics: &[],
    trade_offs: &[
        "Upstream connections belong to one core: no lock is shared, at the price of more connections upstream.",
        "A request whose idle upstream connection breaks after it was sent is answered 502, not repeated.",
    ],
};
