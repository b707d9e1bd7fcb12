//! `omnigate fairness`: shows on this machine that a flood does not hurt a neighbour.

use std::io::IsTerminal;

use indicatif::{ProgressBar, ProgressStyle};

use crate::{
    failure::Failure,
    fairness::{self, Plan},
};

/// Runs the proof, shows what came of it, and fails if it does not hold.
pub(super) fn run(plan: &Plan, as_json: bool) -> Result<(), Failure> {
    if let Some(gateway) = plan.attack {
        return fairness::attack(plan, gateway);
    }
    let bar = progress_bar();
    let report = fairness::prove(plan, |what, done, all| {
        bar.set_length(all);
        bar.set_position(done);
        if bar.is_hidden() {
            eprintln!("{done}/{all} {what}");
        } else {
            bar.set_message(what.to_owned());
        }
    });
    bar.finish_and_clear();
    let report = report?;
    super::print(&if as_json { super::pretty(&report.json()) } else { report.to_string() })?;
    if report.holds() {
        return Ok(());
    }
    Err(Failure::failed("a flood affected another tenant")
        .help("run it on a machine that does nothing else; --length 10s gives steadier figures"))
}

/// A bar on a terminal; hidden elsewhere, where plain lines tell as much.
fn progress_bar() -> ProgressBar {
    if !std::io::stderr().is_terminal() {
        return ProgressBar::hidden();
    }
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} {msg}");
    ProgressBar::new(0).with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
