//! What upstreams say of themselves to whoever watches.

use ron_kernel::breaker::State;
use types::Moment;

use super::{
    group::{Group, Upstreams},
    metrics::standing_name,
    server::Server,
};
use crate::status::{ServerError, ServerStatus, UpstreamStatus};

impl Upstreams {
    /// Every upstream at this moment, by name.
    pub(crate) fn status(&self) -> Vec<UpstreamStatus> {
        let now = self.clock().now();
        self.groups().values().map(|group| upstream(group, now)).collect()
    }
}

fn upstream(group: &Group, now: Moment) -> UpstreamStatus {
    UpstreamStatus {
        name: group.name.clone(),
        servers: group.members().iter().map(|member| server(&member.server, now)).collect(),
        failures: group.metrics.failures().collect(),
        latency: group.metrics.latency.counts().to_vec(),
    }
}

fn server(server: &Server, now: Moment) -> ServerStatus {
    ServerStatus {
        endpoint: server.endpoint.to_string(),
        state: standing_name(server.standing(now)),
        breaker: match server.breaker.state() {
            State::Closed => "closed",
            State::Open => "open",
            State::HalfOpen => "half_open",
        },
        weight: server.weight(),
        busy: server.busy(),
        connections: server.seats.open(),
        waiting: server.seats.waiting(),
        last_error: server.last_failure().map(|last| ServerError {
            cause: last.cause.to_string(),
            ago_ms: u64::try_from(now.since(last.at).as_millis()).unwrap_or(u64::MAX),
            count: last.count,
        }),
    }
}
