//! `/topology`: what the node declares itself to be made of, next to how each part is doing now.

use ron_kernel::{
    Scope,
    docs::{Live, topology_json},
    topology::Topology,
};
use serde_json::{Value, json};

/// The whole node.
pub(super) fn topology(scope: &Scope, declared: &[&'static Topology]) -> Value {
    let live = Live {
        tasks: scope.supervisor().tasks(),
        children: scope.supervisor().children(),
        depths: depths(scope, declared),
    };
    let cores: Vec<Value> = scope
        .planes()
        .cores()
        .iter()
        .map(|core| json!({ "core": core.index(), "connections": core.load() }))
        .collect();
    json!({
        "phase": super::events::phase_name(scope.shutdown().phase()),
        "sandbox": crate::sandbox::files_word(),
        "syscalls": crate::sandbox::calls_word(),
        "cores": cores,
        "services": topology_json(declared, &live)["services"].take(),
    })
}

/// The depths of the queues, as last sampled.
fn depths(scope: &Scope, declared: &[&'static Topology]) -> Vec<(&'static str, &'static str, usize)> {
    let gauges = &scope.all_metrics().families().queue_depth;
    let queues = declared.iter().flat_map(|t| t.queues.iter().map(|queue| (t.service, queue.name)));
    queues
        .filter_map(|(service, queue)| {
            let labels = vec![("service", service.into()), ("queue", queue.into())];
            // Looked up, not made: a queue that was never built has no depth.
            let depth = gauges.get(&labels)?.get();
            Some((service, queue, usize::try_from(depth).unwrap_or(0)))
        })
        .collect()
}
