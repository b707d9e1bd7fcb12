//! Rehearsals: a task is ended as a crash would end it, so that an operator sees what becomes of it.

use std::sync::atomic::{AtomicBool, Ordering};

use http::StatusCode;
use ron_kernel::Scope;
use ron_transport::Response;
use serde_json::json;
use types::{Reason, Refusal};

use super::reply;

/// Whether tasks may be ended from outside, and the ending of them.
#[derive(Debug)]
pub(super) struct Rehearsal {
    allowed: AtomicBool,
}

impl Rehearsal {
    pub(super) fn new(allowed: bool) -> Self {
        Self { allowed: AtomicBool::new(allowed) }
    }

    /// Allows it from now on, or no longer.
    pub(super) fn allow(&self, allowed: bool) {
        self.allowed.store(allowed, Ordering::Relaxed);
    }

    /// Ends the task that is named as `service/task`; its supervisor does the rest.
    pub(super) fn end(&self, scope: &Scope, named: &str) -> Result<Response, Refusal> {
        if !self.allowed.load(Ordering::Relaxed) {
            return Err(Refusal::new(Reason::Forbidden, "set `admin.rehearse = true` to allow this"));
        }
        // One of several is `worker#2`, which a path cannot say as it is.
        let named = named.replace("%23", "#");
        let ended =
            named.split_once('/').is_some_and(|(service, task)| scope.supervisor().kill(service, task));
        if !ended {
            let detail = format!("no task `{named}` runs; /topology lists them, to be named as service/task");
            return Err(Refusal::new(Reason::NotFound, detail));
        }
        tracing::warn!(task = named, "a task was ended to rehearse a crash");
        Ok(reply::json(StatusCode::ACCEPTED, &json!({ "status": "ended", "task": named })))
    }
}
