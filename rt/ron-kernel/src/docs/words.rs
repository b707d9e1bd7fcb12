//! Declarations in words.

use std::time::Duration;

use crate::topology::{Escalation, Plane, Policy, Restart, Stage};

/// The stages in which a node stops, in order.
pub(super) const STAGES: [Stage; 5] =
    [Stage::Readiness, Stage::Intake, Stage::Workers, Stage::Writers, Stage::Support];

pub(super) fn code(name: &str) -> String {
    format!("`{name}`")
}

pub(super) fn duration(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

pub(super) const fn plane(plane: Plane) -> &'static str {
    match plane {
        Plane::Control => "control",
        Plane::Data => "data",
    }
}

pub(super) const fn stage(stage: Stage) -> &'static str {
    match stage {
        Stage::Readiness => "readiness",
        Stage::Intake => "intake",
        Stage::Workers => "workers",
        Stage::Writers => "writers",
        Stage::Support => "support",
    }
}

pub(super) const fn what_happens_at(stage: Stage) -> &'static str {
    match stage {
        Stage::Readiness => "readiness says no, while everything still works",
        Stage::Intake => "nothing new is taken in",
        Stage::Workers => "what was taken in is finished",
        Stage::Writers => "what was produced is flushed",
        Stage::Support => "what the others relied on ends",
    }
}

pub(super) fn restart(restart: Restart) -> String {
    let then = match restart.escalation() {
        Escalation::Degrade(effect) => format!("the service degrades ({})", effect.as_str()),
        Escalation::FailClosed => "the node drains and exits".to_owned(),
    };
    match restart {
        Restart::Never(_) => format!("never restarted: {then}"),
        Restart::OnFailure { base, cap, per_minute, .. } => {
            let (base, cap) = (duration(base), duration(cap));
            format!(
                "restarted after up to {base}, doubling to {cap}, {per_minute} times a minute; then {then}"
            )
        }
    }
}

pub(super) const fn policy(policy: Policy) -> &'static str {
    match policy {
        Policy::RejectNew => "RejectNew",
        Policy::DropOldest => "DropOldest",
        Policy::RetryOnce { .. } => "RetryOnce",
        Policy::Await { .. } => "Await",
        Policy::Broadcast => "Broadcast",
        Policy::Watch => "Watch",
    }
}

pub(super) fn when_full(policy: Policy) -> String {
    match policy {
        Policy::RejectNew => "the newcomer is refused as busy".to_owned(),
        Policy::DropOldest => "the oldest goes back to its owner".to_owned(),
        Policy::RetryOnce { min, max } => {
            format!("one more try after {} to {}, then refused as busy", duration(min), duration(max))
        }
        Policy::Await { deadline } => {
            format!("the sender waits up to {}, then is refused as busy", duration(deadline))
        }
        Policy::Broadcast => "a slow subscriber loses the oldest and is told how many".to_owned(),
        Policy::Watch => "never: the newest value replaces the last".to_owned(),
    }
}

pub(super) const fn counted_by(policy: Policy) -> &'static str {
    match policy {
        Policy::RejectNew | Policy::RetryOnce { .. } | Policy::Await { .. } => {
            "`queue_dropped_total`, `busy_rejections_total`"
        }
        Policy::DropOldest => "`queue_dropped_total`",
        Policy::Broadcast => "`bus_lagged_total`",
        Policy::Watch => "nothing",
    }
}
