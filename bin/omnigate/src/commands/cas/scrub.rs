//! `omnigate cas scrub`.

use std::ops::ControlFlow;

use ::cas::{Cas, ScrubReport};
use ron_kernel::ExitCode;
use serde_json::{Value, json};

use super::progress::Progress;
use crate::{
    commands::{pretty, print},
    failure::Failure,
};

/// Checks everything, tells what was found, and ends accordingly.
pub(super) fn run(store: &Cas, as_json: bool) -> Result<ExitCode, Failure> {
    let mut progress = Progress::new("checked", store.stat().object_bytes);
    let report = store.scrub(|done| {
        progress.set(done.bytes_done);
        ControlFlow::Continue(())
    });
    drop(progress);
    print(&if as_json { pretty(&described(&report)) } else { told(&report) })?;
    Ok(if report.is_clean() { ExitCode::Clean } else { ExitCode::Failed })
}

fn told(report: &ScrubReport) -> String {
    let lines = |what: &str, ids: &[types::ObjectId]| -> String {
        ids.iter().map(|id| format!("{what} {id}\n")).collect()
    };
    let unreadable: String =
        report.unreadable.iter().map(|(id, error)| format!("unreadable {id}: {error}\n")).collect();
    format!(
        "{}{}{unreadable}checked {} objects, {} bytes: {} repaired, {} quarantined, {} unreadable\n",
        lines("repaired", &report.repaired),
        lines("quarantined", &report.quarantined),
        report.progress.objects_done,
        report.progress.bytes_done,
        report.repaired.len(),
        report.quarantined.len(),
        report.unreadable.len(),
    )
}

fn described(report: &ScrubReport) -> Value {
    let unreadable = report.unreadable.iter();
    json!({
        "objects": report.progress.objects_done,
        "bytes": report.progress.bytes_done,
        "repaired": report.repaired,
        "quarantined": report.quarantined,
        "unreadable": unreadable.map(|(id, error)| json!({ "id": id, "error": error.to_string() })).collect::<Vec<_>>(),
    })
}
