//! What tables say about their own values, and how a report as a whole behaves.

use insta::assert_snapshot;
use ron_kernel::config::{
    Checks, Loader, MAX_FILE_BYTES, MAX_PROBLEMS, Origin, Problems, Schema, Severity, Sources, Table,
};

use crate::fixture::{Gateway, bad, good, load};

#[test]
fn a_semantic_problem_is_shown_at_the_value_it_is_about() {
    assert_snapshot!(bad("[[gateway.route]]\npath = \"/\"\nupstream = \"api\"\n"), @r#"
    error: `gateway.route[0].upstream`: there is no upstream `api`
     --> omnigate.toml:3:12
      |
    3 | upstream = "api"
      |            ^^^^^
      |
      = help: add it under `[gateway.upstream]`
    "#);
}

#[test]
fn problems_of_all_layers_and_tables_come_at_once_even_where_a_higher_layer_wins() {
    let file = "[gateway]\nmax_conns = \"x\"\nfoo = 1\nbar = 2\n[nod]\n[node]\nname = 1\n";
    let report = load(file, &[("OMNIGATE_GATEWAY__MAX_CONNS", "10")], &[("node.nme", "x")]).unwrap_err();
    let found: Vec<(&str, &Origin)> =
        report.problems().iter().map(|p| (p.path.as_str(), &p.origin)).collect();
    let line = |line| Origin::File { file: "omnigate.toml".into(), line };
    let expected = [
        ("gateway.max_conns", &line(2)),
        ("gateway.foo", &line(3)),
        ("gateway.bar", &line(4)),
        ("nod", &line(5)),
        ("node.name", &line(7)),
        ("node.nme", &Origin::Flag("node.nme".into())),
    ];
    assert_eq!(found, expected);
}

#[test]
fn one_bad_table_does_not_hide_the_checks_of_another() {
    let report = load("[node]\nnaem = \"x\"\n[gateway]\nmax_conns = 10001\n", &[], &[]).unwrap_err();
    let paths: Vec<&str> = report.problems().iter().map(|p| p.path.as_str()).collect();
    assert_eq!(paths, ["node.naem", "gateway.max_conns"]);
}

#[test]
fn a_guarded_limit_passes_at_its_safe_maximum_and_not_one_past_it() {
    let guarded = [
        ("max_conns = 10000", "max_conns = 10001"),
        ("limits.max_body_bytes = \"64MiB\"", "limits.max_body_bytes = 67108865"),
        ("read_timeout = \"60s\"", "read_timeout = \"60001ms\""),
    ];
    for (safe, past) in guarded {
        assert!(good(&format!("[gateway]\n{safe}\n")).warnings().is_empty(), "{safe}");
        let report = load(&format!("[gateway]\n{past}\n"), &[], &[]).unwrap_err();
        assert_eq!(report.problems().len(), 1, "{past}");
        assert_eq!(report.problems()[0].severity, Severity::Error);
    }
}

#[test]
fn the_guard_names_the_safe_maximum_and_the_switch() {
    assert_snapshot!(bad("[gateway.limits]\nmax_body_bytes = \"65MiB\"\n"), @r#"
    error: `gateway.limits.max_body_bytes`: 65MiB is above the safe maximum of 64MiB
     --> omnigate.toml:2:18
      |
    2 | max_body_bytes = "65MiB"
      |                  ^^^^^^^
      |
      = help: use at most 64MiB, or accept the risk with `node.danger_ok = true`
    "#);
}

#[test]
fn accepted_danger_turns_the_refusal_into_a_warning() {
    let snapshot = good("[node]\ndanger_ok = true\n[gateway]\nmax_conns = 10001\n");
    assert_eq!(snapshot.get::<Gateway>().max_conns, 10_001);
    assert_snapshot!(snapshot.warnings(), @r"
    warning: `gateway.max_conns`: 10001 is above the safe maximum of 10000, which `node.danger_ok = true` allows
     --> omnigate.toml:4:13
      |
    4 | max_conns = 10001
      |             ^^^^^
    ");
}

#[test]
fn a_warning_does_not_refuse_the_file() {
    assert_snapshot!(good("[node]\nname = \"a b\"").warnings(), @r#"
    warning: `node.name`: a name with spaces is hard to type
     --> omnigate.toml:2:8
      |
    2 | name = "a b"
      |        ^^^^^
    "#);
}

#[test]
fn a_problem_with_a_default_names_its_path_and_one_with_an_absent_key_its_table() {
    #[derive(Clone, Default, PartialEq, serde::Serialize, serde::Deserialize, schemars::JsonSchema)]
    #[serde(default)]
    struct Picky {
        size: u8,
    }
    impl Table for Picky {
        const NAME: &'static str = "picky";

        fn check(&self, _: &Checks, problems: &mut Problems) {
            if self.size == 0 {
                problems.at("size", "must be set");
            }
        }
    }
    let load = |file: &str| {
        let file = Some(("omnigate.toml".into(), file.to_owned()));
        Loader::new(Schema::new().table::<Picky>(), "OMNIGATE_").load(Sources { file, ..Sources::default() })
    };
    assert_snapshot!(load("").unwrap_err(), @r"
    error: `picky.size`: must be set
    --> default of picky.size
    ");
    assert_snapshot!(load("[picky]\n").unwrap_err(), @r"
    error: `picky.size`: must be set
     --> omnigate.toml:1:1
      |
    1 | [picky]
      | ^^^^^^^
    ");
}

#[test]
fn a_long_report_is_cut_and_says_so() {
    let keys: String = (0..MAX_PROBLEMS + 3).map(|n| format!("zz{n:03} = 1\n")).collect();
    let report = load(&format!("[node]\n{keys}"), &[], &[]).unwrap_err();
    assert_eq!(report.problems().len(), MAX_PROBLEMS);
    assert!(report.render(false).ends_with("... and 3 more"));
    let keys: String = (0..MAX_PROBLEMS).map(|n| format!("zz{n:03} = 1\n")).collect();
    assert!(!bad(&format!("[node]\n{keys}")).contains("more\n"));
}

#[test]
fn a_file_of_the_largest_size_is_read_and_one_byte_more_is_refused() {
    let full = "#".repeat(MAX_FILE_BYTES);
    good(&full);
    assert_snapshot!(bad(&format!("{full}#")), @"error: omnigate.toml is larger than 1048576 bytes");
}

#[test]
fn colour_is_given_only_when_asked_for() {
    let report = load("[nod]\n", &[], &[]).unwrap_err();
    assert!(report.render(true).contains('\u{1b}'));
    assert!(!report.render(false).contains('\u{1b}'));
}
