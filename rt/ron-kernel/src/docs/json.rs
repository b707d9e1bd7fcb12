//! `/topology`: what services declare, and what of it is alive, as JSON.

use std::time::Duration;

use serde_json::{Value, json};

use super::words::{plane, policy, stage, when_full};
use crate::{
    supervisor::TaskReport,
    topology::{ChildSpec, Escalation, Policy, QueueSpec, Restart, TaskSpec, Topology},
};

/// What is known of the running node. The default knows nothing: the answer is then the declaration alone.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Every supervised task, as [`crate::supervisor::Supervisor::tasks`] reports them.
    pub tasks: Vec<TaskReport>,
    /// Live children by service and kind, as [`crate::supervisor::Supervisor::children`] reports them.
    pub children: Vec<(&'static str, &'static str, usize)>,
    /// Depths by service and queue.
    pub depths: Vec<(&'static str, &'static str, usize)>,
}

/// All services as one JSON document. Durations are in milliseconds; what is not known is `null`.
#[must_use]
pub fn topology_json(topologies: &[&Topology], live: &Live) -> Value {
    let services: Vec<_> = topologies.iter().map(|topology| service(topology, live)).collect();
    json!({ "services": services })
}

fn service(topology: &Topology, live: &Live) -> Value {
    let name = topology.service;
    let all = |values: &mut dyn Iterator<Item = Value>| Value::Array(values.collect());
    json!({
        "service": name,
        "purpose": topology.purpose,
        "last_reviewed": topology.last_reviewed,
        "invariants": topology.invariants,
        "tasks": all(&mut topology.tasks.iter().map(|spec| task(name, spec, live))),
        "children": all(&mut topology.children.iter().map(|spec| child(name, spec, live))),
        "queues": all(&mut topology.queues.iter().map(|spec| queue(name, spec, live))),
        "locks": all(&mut topology.locks.iter().map(|l| json!({ "name": l.name, "rank": l.rank, "doc": l.doc }))),
        "timeouts": all(&mut topology.timeouts.iter().map(|t| {
            json!({ "name": t.name, "default_ms": millis(t.default), "doc": t.doc })
        })),
        "metrics": all(&mut topology.metrics.iter().map(|m| {
            json!({ "name": m.name, "labels": m.labels, "doc": m.doc })
        })),
        "trade_offs": topology.trade_offs,
    })
}

fn task(service: &str, spec: &TaskSpec, live: &Live) -> Value {
    // A task that runs several times is reported once for each: `worker#2`.
    let is_this = |report: &&TaskReport| {
        let rest = report.name.strip_prefix(spec.name);
        report.service == service && rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('#'))
    };
    let instances: Vec<_> = live
        .tasks
        .iter()
        .filter(is_this)
        .map(|r| json!({ "name": r.name, "state": r.state.as_str(), "restarts": r.restarts }))
        .collect();
    json!({
        "name": spec.name,
        "plane": plane(spec.plane),
        "restart": restart(spec.restart),
        "stop": stage(spec.stop),
        "doc": spec.doc,
        "instances": instances,
    })
}

fn restart(restart: Restart) -> Value {
    let then = match restart.escalation() {
        Escalation::Degrade(effect) => json!({ "degrade": effect.as_str() }),
        Escalation::FailClosed => json!("fail_closed"),
    };
    match restart {
        Restart::Never(_) => json!({ "when": "never", "then": then }),
        Restart::OnFailure { base, cap, per_minute, .. } => json!({
            "when": "on_failure",
            "base_ms": millis(base),
            "cap_ms": millis(cap),
            "per_minute": per_minute,
            "then": then,
        }),
    }
}

fn child(service: &str, spec: &ChildSpec, live: &Live) -> Value {
    json!({
        "kind": spec.kind,
        "plane": plane(spec.plane),
        "stop": stage(spec.stop),
        "bound": spec.bound,
        "doc": spec.doc,
        "live": known(&live.children, service, spec.kind),
    })
}

fn queue(service: &str, spec: &QueueSpec, live: &Live) -> Value {
    let waits = match spec.policy {
        Policy::RetryOnce { min, max } => json!({ "min_ms": millis(min), "max_ms": millis(max) }),
        Policy::Await { deadline } => json!({ "max_ms": millis(deadline) }),
        Policy::RejectNew | Policy::DropOldest | Policy::Broadcast | Policy::Watch => Value::Null,
    };
    json!({
        "name": spec.name,
        "policy": policy(spec.policy),
        "waits": waits,
        "when_full": when_full(spec.policy),
        "capacity": spec.capacity,
        "from": spec.from,
        "to": spec.to,
        "doc": spec.doc,
        "depth": known(&live.depths, service, spec.name),
    })
}

fn known(counts: &[(&str, &str, usize)], service: &str, name: &str) -> Option<usize> {
    counts.iter().find(|(of, what, _)| *of == service && *what == name).map(|(_, _, count)| *count)
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}
