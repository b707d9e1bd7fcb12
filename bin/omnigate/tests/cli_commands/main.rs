//! The commands that do their work and end: what each prints, where, and with which exit code.

#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, and nothing here runs on a runtime"
)]

#[path = "../../../../tests/e2e/support/bundle.rs"]
mod bundle;
mod cas;
mod check;
#[path = "../cli_run/mod.rs"]
mod cli_run;
mod config;
mod docs_examples;
mod epoch;
mod epoch_chain;
mod epoch_claims;
mod epoch_left_out;
mod epoch_settled;
mod epoch_strangers;
mod epoch_usage;
mod generated;
mod ledger;
mod node;
mod pack;
mod password;
mod token;

use cli_run::{Ran, omnigate, run};
use std::path::Path;

/// Runs the program with these arguments in `dir`.
fn cli(dir: &Path, args: &[&str]) -> Ran {
    run(omnigate(dir, args))
}

/// Succeeded, with nothing to complain about.
#[track_caller]
fn assert_clean(ran: &Ran) {
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "printed: {}", ran.out);
}

/// Failed with this code and exactly these words.
#[track_caller]
fn assert_refused(ran: &Ran, code: i32, words: &str) {
    assert_eq!(ran.err, words);
    assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""));
}
