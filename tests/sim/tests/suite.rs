//! Every scenario of the suite, with every seed: the accounts balance, and the bounds are kept.
//!
//! With `OMNIGATE_FULL_PROOFS=1` each scenario is tried with ten times as many seeds.

use sim::{Report, Scenario, run, suite};

fn full() -> u64 {
    if std::env::var_os("OMNIGATE_FULL_PROOFS").is_some_and(|value| value == "1") { 10 } else { 1 }
}

fn try_all(is_chosen: impl Fn(&Scenario) -> bool) {
    let mut bad: Vec<Report> = Vec::new();
    for scenario in suite().iter().filter(|scenario| is_chosen(scenario)) {
        let reports = (0..scenario.seeds * full()).map(|seed| run(scenario, seed, false));
        bad.extend(reports.filter(|report| !report.is_good()));
    }
    let texts: Vec<_> = bad.iter().take(5).map(Report::to_string).collect();
    assert!(bad.is_empty(), "{} bad runs, the first of them:\n{}", bad.len(), texts.join("\n"));
}

#[test]
fn the_suite_tries_a_thousand_seeds_or_more() {
    let seeds: u64 = suite().iter().map(|scenario| scenario.seeds).sum();
    assert!(seeds >= 1000, "{seeds}");
}

#[test]
fn without_faults_everything_is_delivered_at_little_cost() {
    try_all(|scenario| scenario.bounds.all_delivered);
}

#[test]
fn under_faults_what_is_owed_is_delivered_or_named() {
    try_all(|scenario| !scenario.bounds.all_delivered && scenario.nodes < 1000);
}

#[test]
fn so_it_is_among_a_thousand_nodes() {
    try_all(|scenario| !scenario.bounds.all_delivered && scenario.nodes >= 1000);
}

#[test]
fn a_seed_gives_the_same_run_again() {
    let storm = suite().into_iter().find(|scenario| scenario.name == "storm-20").expect("in the suite");
    assert_eq!(run(&storm, 3, false).to_string(), run(&storm, 3, false).to_string());
    assert_ne!(run(&storm, 3, false).frames, run(&storm, 4, false).frames);
}
