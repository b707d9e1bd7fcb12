//! The audit trail of commands that make, or take away, what opens a node: one line in the form of `admin.audit_log`.

use std::{path::Path, time::Duration};

use serde_json::Value;

use crate::{admin::append_to_trail, failure::Failure};

/// Adds a line to the trail, if there is one: `action`, and what it was about. Called before the result is printed, so that
/// nothing is handed out that the trail does not know of.
pub(super) fn note(file: Option<&Path>, action: &str, about: &[(&str, String)]) -> Result<(), Failure> {
    let Some(file) = file else { return Ok(()) };
    let actor = format!("user {} at the command line", rustix::process::getuid().as_raw());
    let always = [("action", action.to_owned()), ("actor", actor), ("outcome", "done".to_owned())];
    let told = about.iter().filter(|(_, value)| !value.is_empty()).cloned();
    let fields =
        always.into_iter().chain(told).map(|(key, value)| (key.to_owned(), Value::from(value))).collect();
    append_to_trail(file, Duration::from_secs(super::now()?), fields).map_err(|error| {
        Failure::failed(format!("the audit log {} cannot be written: {error}", file.display()))
            .help("name a file in a folder that you may write to; nothing was printed")
    })
}
