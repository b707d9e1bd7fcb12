//! The repository keeps its own rules.

use std::{path::Path, sync::LazyLock};
use tidy::{
    Finding, Tree, Workspace,
    rules::{
        bench_commands, concurrency_pages, conditions, core_purity, crate_list, doc_comments, layers, links,
        locks, log_fields, named_paths, security_page, sources, words, workflow,
    },
};

static ROOT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
static TREE: LazyLock<Tree> = LazyLock::new(|| {
    Tree::load(Path::new(ROOT)).unwrap_or_else(|error| panic!("cannot read the repository: {error}"))
});
static WORKSPACE: LazyLock<Workspace> = LazyLock::new(|| {
    Workspace::read(&TREE).unwrap_or_else(|error| panic!("cannot read the manifests: {error}"))
});

#[track_caller]
fn assert_none(findings: &[Finding]) {
    let lines: Vec<_> = findings.iter().map(Finding::to_string).collect();
    assert!(findings.is_empty(), "{} found:\n{}\n", findings.len(), lines.join("\n"));
}

#[test]
fn the_rules_have_files_to_look_at() {
    assert!(WORKSPACE.members.iter().any(|member| member.layer() == "core"));
    assert!(TREE.text("tests/tidy/tests/tidy.rs").is_some());
    assert!(TREE.ending(".md").count() > 0);
}

/// The README's first command is `cargo run`, which takes the one program there is among the default members.
#[test]
fn cargo_run_without_a_name_runs_the_product() {
    let manifest = TREE.text("Cargo.toml").expect("the root has a manifest");
    let manifest: toml::Table = manifest.parse().expect("cargo has read it");
    let defaults = manifest["workspace"].get("default-members").and_then(toml::Value::as_array);
    assert_eq!(defaults, Some(&vec![toml::Value::from("bin/omnigate")]));
    let product = WORKSPACE.member("omnigate").expect("it is a member");
    let programs = product.manifest.get("bin").and_then(toml::Value::as_array).map_or(1, Vec::len);
    assert_eq!(programs, 1, "cargo cannot know which one is meant");
}

#[test]
fn every_rust_file_opens_with_its_purpose() {
    assert_none(&sources::opens_with_its_purpose(&TREE));
}

#[test]
fn doc_comments_are_sentences() {
    assert_none(&doc_comments::are_sentences(&TREE));
}

#[test]
fn no_code_is_unfinished() {
    assert_none(&sources::finished(&TREE));
}

#[test]
fn no_code_is_unsafe() {
    assert_none(&sources::safe(&TREE));
}

#[test]
fn lint_exceptions_are_expectations() {
    assert_none(&sources::expects_instead_of_allowing(&TREE));
}

#[test]
fn locks_of_services_have_a_rank() {
    assert_none(&locks::ranked(&TREE));
}

#[test]
fn declared_locks_are_on_a_page() {
    assert_none(&locks::listed(&TREE));
}

#[test]
fn ignored_tests_say_why() {
    assert_none(&sources::ignores_no_test_silently(&TREE));
}

#[test]
fn no_rust_file_is_too_long() {
    assert_none(&sources::short_enough(&TREE, sources::LONG_FILES));
}

#[test]
fn core_crates_depend_on_nothing_that_acts() {
    assert_none(&core_purity::depends_on_nothing_that_acts(&WORKSPACE));
}

#[test]
fn core_sources_name_nothing_that_acts() {
    assert_none(&core_purity::names_nothing_that_acts(&TREE));
}

#[test]
fn dependencies_point_downward_and_services_do_not_know_each_other() {
    assert_none(&layers::depends_downward_only(&WORKSPACE));
}

#[test]
fn every_crate_shares_the_lints() {
    assert_none(&layers::shares_the_lints(&WORKSPACE));
}

#[test]
fn every_crate_is_a_member_with_a_purpose() {
    assert_none(&layers::leaves_no_crate_out(&TREE, &WORKSPACE));
    assert_none(&layers::states_the_purpose_of_each_member(&TREE, &WORKSPACE));
}

#[test]
fn the_architecture_page_lists_the_crates_that_exist() {
    assert_none(&crate_list::matches_the_manifest(&TREE, &WORKSPACE));
}

#[test]
fn every_service_has_a_concurrency_page() {
    assert_none(&concurrency_pages::cover_every_service(&TREE, &WORKSPACE));
}

#[test]
fn concurrency_pages_state_who_when_and_what() {
    assert_none(&concurrency_pages::state_who_when_and_what(&TREE));
}

#[test]
fn concurrency_pages_are_reviewed_when_their_service_changes() {
    let newest = |folder: &str| {
        let day = concurrency_pages::newest_commit(Path::new(ROOT), folder);
        if day.is_none() {
            eprintln!(
                "skipped: git tells no history of {folder}, so the review date of its page was not checked"
            );
        }
        day
    };
    assert_none(&concurrency_pages::are_reviewed(&TREE, &WORKSPACE, newest));
}

#[test]
fn links_between_pages_lead_somewhere() {
    assert_none(&links::lead_somewhere(&TREE));
}

#[test]
fn nothing_names_a_private_path_or_host() {
    assert_none(&words::are_fit_to_print(&TREE));
}

#[test]
fn the_runbook_has_every_condition_and_no_other() {
    assert_none(&conditions::are_listed(&TREE));
}

#[test]
fn the_page_about_logs_has_every_field_and_no_other() {
    assert_none(&log_fields::of_events_are_listed(&TREE));
    assert_none(&log_fields::of_the_access_log_are_listed(&TREE));
}

#[test]
fn commands_that_repeat_a_figure_exist() {
    assert_none(&bench_commands::exist(&TREE));
}

#[test]
fn paths_that_the_pages_name_exist() {
    assert_none(&named_paths::exist(&TREE));
    assert_none(&named_paths::of_the_walk_exist(&TREE));
}

#[test]
fn every_defence_names_the_tests_that_hold_it() {
    assert_none(&security_page::names_tests_that_exist(&TREE));
}

#[test]
fn the_workflow_runs_what_ci_runs() {
    assert_none(&workflow::runs_what_ci_runs(&TREE));
}
