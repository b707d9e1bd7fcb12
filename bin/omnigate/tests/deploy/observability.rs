//! Prometheus takes the rules and the dashboard's questions, and the rules fire when they should.

use std::{fs, process::Command};

use serde_json::Value;

use crate::{
    cli_run::{omnigate, run},
    repository, tool,
};

fn promtool(args: &[&str]) -> String {
    tool(Command::new("promtool").args(args).current_dir(repository("deploy/observability")), "prometheus")
}

#[test]
fn the_dashboard_and_the_alerts_are_fresh() {
    let ran = run(omnigate(&repository(""), &["docs", "dashboards", "--check"]));
    assert_eq!(ran.code, Some(0), "run `omnigate docs dashboards`: {}", ran.err);
}

#[test]
fn prometheus_takes_every_alert_rule() {
    let said = promtool(&["check", "rules", "omnigate-alerts.yml"]);
    assert!(said.contains("SUCCESS"), "{said}");
}

#[test]
fn alerts_fire_when_they_should_and_not_before() {
    let said = promtool(&["test", "rules", "omnigate-alerts.test.yml"]);
    assert!(said.contains("SUCCESS"), "{said}");
}

/// Each question becomes a recording rule, which is how promtool reads one.
#[test]
fn prometheus_understands_every_question_of_the_dashboard() {
    let board = fs::read_to_string(repository("deploy/observability/omnigate-dashboard.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let questions: Vec<&str> = targets.map(|target| target["expr"].as_str().unwrap()).collect();
    assert!(questions.len() > 40, "only {} questions", questions.len());
    let mut rules = String::from("groups:\n  - name: questions\n    rules:\n");
    for (at, question) in questions.iter().enumerate() {
        let asked = question.replace("$__rate_interval", "5m").replace('\'', "''");
        rules += &format!("      - record: question:{at}\n        expr: '{asked}'\n");
    }
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("questions.yml");
    fs::write(&file, rules).unwrap();
    let said = promtool(&["check", "rules", file.to_str().unwrap()]);
    assert!(said.contains(&format!("{} rules found", questions.len())), "{said}");
}

#[test]
fn panels_do_not_lie_over_each_other() {
    let board = fs::read_to_string(repository("deploy/observability/omnigate-dashboard.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let mut taken = std::collections::HashSet::new();
    for panel in board["panels"].as_array().unwrap() {
        let at = |key: &str| panel["gridPos"][key].as_u64().unwrap();
        assert!(at("x") + at("w") <= 24, "{}", panel["title"]);
        for (x, y) in
            (at("x")..at("x") + at("w")).flat_map(|x| (at("y")..at("y") + at("h")).map(move |y| (x, y)))
        {
            assert!(taken.insert((x, y)), "{} lies over another", panel["title"]);
        }
    }
}
