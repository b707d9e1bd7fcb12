//! One look at the node: everything that moves, as compact JSON. What does not move is in `/topology`.

use std::cmp::Reverse;

use ron_kernel::{
    Scope,
    metrics::{LatencyHistogram, RouteMetrics},
    topology::Topology,
};
use serde_json::{Map, Value, json};
use types::{Moment, Reason};

use super::Part;
use crate::admin::{events::phase_name, readyz};

/// Routes that are listed, the busiest first.
const LISTED: usize = 40;

/// Looks at a node.
#[derive(Debug)]
pub(super) struct Looker {
    scope: Scope,
    node: String,
    topologies: Vec<&'static Topology>,
    parts: Vec<Box<dyn Part>>,
    began: Moment,
}

impl Looker {
    pub(super) fn new(
        scope: &Scope,
        node: String,
        topologies: Vec<&'static Topology>,
        parts: Vec<Box<dyn Part>>,
    ) -> Self {
        Self { began: scope.clock().now(), scope: scope.clone(), node, topologies, parts }
    }

    /// The node as it is now. Counts are totals: the page takes differences.
    pub(super) fn look(&self) -> Value {
        let (scope, clock) = (&self.scope, self.scope.clock());
        let mut seen = json!({
            "t": u64::try_from(clock.unix().as_millis()).unwrap_or(u64::MAX),
            "node": self.node,
            "version": env!("CARGO_PKG_VERSION"),
            "up_s": clock.now().since(self.began).as_secs(),
            "phase": phase_name(scope.shutdown().phase()),
            "cores": scope.planes().cores().iter().map(|core| core.load()).collect::<Vec<_>>(),
            "ready": readyz::summary(scope, None, true),
            "services": self.services(),
            "latency_bounds_us": LatencyHistogram::BOUNDS_US,
            "routes": self.routes(),
        });
        for part in &self.parts {
            seen[part.name()] = part.look();
        }
        seen
    }

    fn services(&self) -> Value {
        let (tasks, children) = (self.scope.supervisor().tasks(), self.scope.supervisor().children());
        let one = |topology: &&'static Topology| {
            let name = topology.service;
            let tasks = tasks.iter().filter(|task| task.service == name);
            let children = children.iter().filter(|(service, ..)| *service == name);
            let shown = json!({
                "status": readyz::summary(&self.scope, Some(name), false)["status"].take(),
                "queues": self.queues(topology),
                "rejected": self.rejected(name),
                "tasks": tasks.map(|t| json!([t.name, t.state.as_str(), t.restarts])).collect::<Vec<_>>(),
                "children": children.map(|(_, kind, live)| ((*kind).to_owned(), json!(live))).collect::<Map<_, _>>(),
            });
            (name.to_owned(), shown)
        };
        Value::Object(self.topologies.iter().map(one).collect())
    }

    /// Each queue's depth, as last sampled, and what did not get through; nothing of those that were never made.
    fn queues(&self, topology: &'static Topology) -> Value {
        let families = self.scope.all_metrics().families();
        let one = |name: &'static str| {
            let labels = vec![("service", topology.service.into()), ("queue", name.into())];
            // Looked up, not made. Each in a statement of its own: what is found holds a lock until its end.
            let depth = families.queue_depth.get(&labels)?.get();
            let dropped = families.queue_dropped.get(&labels).map(|dropped| dropped.get());
            Some((name.to_owned(), json!([depth, dropped])))
        };
        Value::Object(topology.queues.iter().filter_map(|queue| one(queue.name)).collect())
    }

    /// Refusals by reason, of those that occurred.
    fn rejected(&self, service: &'static str) -> Value {
        let family = &self.scope.all_metrics().families().rejected;
        let one = |reason: Reason| {
            let labels = vec![("service", service.into()), ("reason", reason.as_str().into())];
            let count = family.get(&labels)?.get();
            (count > 0).then(|| (reason.as_str().to_owned(), json!(count)))
        };
        Value::Object(Reason::ALL.into_iter().filter_map(one).collect())
    }

    fn routes(&self) -> Vec<Value> {
        let routes = self.scope.all_metrics().routes();
        let mut counted: Vec<(u64, RouteMetrics)> =
            routes.into_iter().map(|route| (route.latency().iter().sum(), route)).collect();
        counted.retain(|(answered, _)| *answered > 0);
        counted.sort_by_key(|(answered, _)| Reverse(*answered));
        let shown = |(_, route): &(u64, RouteMetrics)| {
            json!({
                "service": route.service(),
                "route": route.name(),
                "status": route.by_status_class(),
                "latency": route.latency(),
                "inflight": route.in_flight(),
            })
        };
        counted.iter().take(LISTED).map(shown).collect()
    }
}
