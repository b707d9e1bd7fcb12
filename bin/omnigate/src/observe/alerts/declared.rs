//! Alerts that follow from what a service declares: tasks that keep failing, queues that lose what they are given.

use ron_kernel::{
    readiness::Effect,
    topology::{Escalation, Policy, QueueSpec, TaskSpec, Topology},
};

use super::{Alert, Severity};

/// Queues in which a loss is the answer to a flood, and judged by the refusals that follow.
const ROOMS: [(&str, &str); 2] = [("gateway", "work"), ("gateway", "sched")];

/// The alerts of one service.
pub(super) fn of(topology: &Topology) -> Vec<Alert> {
    let mut alerts: Vec<Alert> = [Severity::Critical, Severity::Warning, Severity::Info]
        .into_iter()
        .filter_map(|severity| failing_tasks(topology, severity))
        .collect();
    alerts.extend(lossy_queues(topology));
    alerts
}

/// Tasks whose loss is this severe.
fn failing_tasks(topology: &Topology, severity: Severity) -> Option<Alert> {
    let tasks = topology.tasks.iter().filter(|task| severity_of(task) == severity).map(|task| task.name);
    let names = joined(tasks)?;
    let service = topology.service;
    Some(Alert {
        group: service,
        name: "OmnigateTaskFailing",
        expr: format!(
            "sum by (node, service, task) \
             (increase(service_restarts_total{{service=\"{service}\",task=~\"{names}\"}}[10m])) > 2"
        ),
        wait: "0m",
        severity,
        summary: format!("Task {{{{ $labels.task }}}} of {service} on {{{{ $labels.node }}}} keeps failing"),
        action: "read the log for its name: the cause is logged at each restart",
    })
}

fn severity_of(task: &TaskSpec) -> Severity {
    match task.restart.escalation() {
        Escalation::FailClosed | Escalation::Degrade(Effect::Down | Effect::ServiceDown) => {
            Severity::Critical
        }
        Escalation::Degrade(Effect::ShedWrites) => Severity::Warning,
        Escalation::Degrade(_) => Severity::Info,
    }
}

fn lossy_queues(topology: &Topology) -> Option<Alert> {
    let service = topology.service;
    let loses = |queue: &&QueueSpec| {
        !matches!(queue.policy, Policy::Broadcast | Policy::Watch) && !ROOMS.contains(&(service, queue.name))
    };
    let names = joined(topology.queues.iter().filter(loses).map(|queue| queue.name))?;
    Some(Alert {
        group: service,
        name: "OmnigateQueueLosing",
        expr: format!(
            "sum by (node, service, queue) \
             (rate(queue_dropped_total{{service=\"{service}\",queue=~\"{names}\"}}[5m])) > 0"
        ),
        wait: "5m",
        severity: Severity::Warning,
        summary: format!(
            "Queue {{{{ $labels.queue }}}} of {service} on {{{{ $labels.node }}}} is full and loses items"
        ),
        action: "see what drains it in docs/concurrency/: that task is slow, stuck or gone",
    })
}

/// An alternative of a regular expression; none if there are no names.
fn joined<'a>(names: impl Iterator<Item = &'a str>) -> Option<String> {
    let names: Vec<&str> = names.collect();
    (!names.is_empty()).then(|| names.join("|"))
}
