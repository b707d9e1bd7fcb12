//! Every kind of mistake, and exactly what the operator reads.

use insta::assert_snapshot;
use ron_kernel::config::{
    Checks, Loader, MAX_FILE_BYTES, MAX_PROBLEMS, Origin, Problems, Schema, Severity, Sources, Table,
};

use crate::fixture::{Gateway, bad, good, load};

#[test]
fn an_unknown_key_is_shown_with_its_line_and_what_was_meant() {
    assert_snapshot!(bad("[node]\nname = \"a\"\n\n[gateway]\n  max_cons = 10\n"), @r"
    error: unknown key `max_cons`
     --> omnigate.toml:5:3
      |
    5 |   max_cons = 10
      |   ^^^^^^^^
      |
      = help: did you mean `max_conns`?
    ");
}

#[test]
fn an_unknown_key_far_from_any_lists_what_is_allowed() {
    assert_snapshot!(bad("[gateway.limits]\ncolour = 1\n"), @r"
    error: unknown key `colour`
     --> omnigate.toml:2:1
      |
    2 | colour = 1
      | ^^^^^^
      |
      = help: allowed here: `max_body_bytes`, `decode_ratio_max`
    ");
}

#[test]
fn a_key_of_another_table_is_sent_there() {
    assert_snapshot!(bad("[node]\nmax_conns = 10\n"), @r"
    error: unknown key `max_conns`
     --> omnigate.toml:2:1
      |
    2 | max_conns = 10
      | ^^^^^^^^^
      |
      = help: `max_conns` belongs in `[gateway]`
    ");
}

#[test]
fn an_unknown_table_is_shown_with_what_was_meant() {
    assert_snapshot!(bad("[gatewy]\nmax_conns = 10\n"), @r"
    error: unknown table `gatewy`
     --> omnigate.toml:1:2
      |
    1 | [gatewy]
      |  ^^^^^^
      |
      = help: did you mean `gateway`?
    ");
}

#[test]
fn unknown_keys_are_found_inside_lists_and_maps_and_inline_tables() {
    assert_snapshot!(bad(r#"
[gateway]
limits = { max_body = 1 }
[[gateway.route]]
path = "/"
upstram = "api"
[gateway.upstream.api]
timeuot = "5s"
endpoints = [{ url = "a", weigth = 1 }]
"#), @r#"
    error: unknown key `max_body`
     --> omnigate.toml:3:12
      |
    3 | limits = { max_body = 1 }
      |            ^^^^^^^^
      |
      = help: did you mean `max_body_bytes`?

    error: unknown key `upstram`
     --> omnigate.toml:6:1
      |
    6 | upstram = "api"
      | ^^^^^^^
      |
      = help: did you mean `upstream`?

    error: unknown key `timeuot`
     --> omnigate.toml:8:1
      |
    8 | timeuot = "5s"
      | ^^^^^^^
      |
      = help: did you mean `timeout`?

    error: unknown key `weigth`
     --> omnigate.toml:9:27
      |
    9 | endpoints = [{ url = "a", weigth = 1 }]
      |                           ^^^^^^
      |
      = help: did you mean `weight`?
    "#);
}

#[test]
fn wrong_types_say_what_was_found_and_what_is_allowed() {
    assert_snapshot!(bad(r#"
[gateway]
max_conns = "many"
share = true
greet = "you"
limits = 5
route = { path = "/" }
banner = 1
listen = ["a"]
"#), @r#"
    error: `gateway.max_conns`: expected an integer, found a string
     --> omnigate.toml:3:13
      |
    3 | max_conns = "many"
      |             ^^^^^^

    error: `gateway.share`: expected a number, found a boolean
     --> omnigate.toml:4:9
      |
    4 | share = true
      |         ^^^^

    error: `gateway.greet`: expected a list, found a string
     --> omnigate.toml:5:9
      |
    5 | greet = "you"
      |         ^^^^^

    error: `gateway.limits`: expected a table, found an integer
     --> omnigate.toml:6:10
      |
    6 | limits = 5
      |          ^

    error: `gateway.route`: expected a list, found a table
     --> omnigate.toml:7:9
      |
    7 | route = { path = "/" }
      |         ^^^^^^^^^^^^^^
      |
      = help: write each table of the list under `[[gateway.route]]`

    error: `gateway.banner`: expected a string, found an integer
     --> omnigate.toml:8:10
      |
    8 | banner = 1
      |          ^

    error: `gateway.listen`: expected a string, found a list
     --> omnigate.toml:9:10
      |
    9 | listen = ["a"]
      |          ^^^^^
    "#);
}

#[test]
fn values_of_the_right_type_must_be_in_range_and_well_formed() {
    assert_snapshot!(bad(r#"
[gateway]
max_conns = -1
read_timeout = 5
weights = { anon = 70000 }
greet = ["a", 1]
limits = { max_body_bytes = "1 elephant", decode_ratio_max = 2.5 }
[gateway.upstream.api]
timeout = "5 parsecs"
"#), @r#"
    error: `gateway.max_conns`: must be between 0 and 4294967295
     --> omnigate.toml:3:13
      |
    3 | max_conns = -1
      |             ^^

    error: `gateway.read_timeout`: expected a duration such as "5s", found an integer
     --> omnigate.toml:4:16
      |
    4 | read_timeout = 5
      |                ^
      |
      = help: a duration needs its unit, in quotes: "5s", "250ms"

    error: `gateway.weights.anon`: must be between 0 and 65535
     --> omnigate.toml:5:20
      |
    5 | weights = { anon = 70000 }
      |                    ^^^^^

    error: `gateway.greet[1]`: expected a string, found an integer
     --> omnigate.toml:6:15
      |
    6 | greet = ["a", 1]
      |               ^

    error: `gateway.limits.max_body_bytes`: not a size
     --> omnigate.toml:7:29
      |
    7 | limits = { max_body_bytes = "1 elephant", decode_ratio_max = 2.5 }
      |                             ^^^^^^^^^^^^
      |
      = help: write a size such as "64KiB" or "1MiB", or a whole number of bytes

    error: `gateway.limits.decode_ratio_max`: expected an integer, found a fraction
     --> omnigate.toml:7:62
      |
    7 | limits = { max_body_bytes = "1 elephant", decode_ratio_max = 2.5 }
      |                                                              ^^^

    error: `gateway.upstream.api.timeout`: not a duration
     --> omnigate.toml:9:11
      |
    9 | timeout = "5 parsecs"
      |           ^^^^^^^^^^^
      |
      = help: write a number with a unit, such as "5s" or "250ms"
    "#);
}

#[test]
fn an_enum_lists_its_values() {
    assert_snapshot!(bad("[gateway]\nformat = \"jsn\"\n"), @r#"
    error: `gateway.format`: unknown value `jsn`
     --> omnigate.toml:2:10
      |
    2 | format = "jsn"
      |          ^^^^^
      |
      = help: did you mean `json`? allowed: `text`, `json`
    "#);
}

#[test]
fn a_tagged_table_is_held_to_its_variant() {
    assert_snapshot!(bad("[gateway.store]\nkind = \"memory\"\nentries = 1\nurl = \"x\"\n"), @r#"
    error: unknown key `url`
     --> omnigate.toml:4:1
      |
    4 | url = "x"
      | ^^^
      |
      = help: allowed here: `kind`, `entries`
    "#);
    assert_snapshot!(bad("[gateway.store]\nkind = \"disk\"\n"), @r#"
    error: `gateway.store.kind`: unknown value `disk`
     --> omnigate.toml:2:8
      |
    2 | kind = "disk"
      |        ^^^^^^
      |
      = help: allowed: `memory`, `remote`
    "#);
}

#[test]
fn a_missing_key_is_shown_at_the_table_that_lacks_it() {
    assert_snapshot!(bad("[[gateway.route]]\npath = \"/\"\n"), @r"
    error: missing key `upstream` in `gateway.route[0]`
     --> omnigate.toml:1:1
      |
    1 | [[gateway.route]]
      | ^^^^^^^^^^^^^^^^^
      |
      = help: `upstream` is a string
    ");
}

#[test]
fn a_value_only_its_type_can_judge_is_shown_at_its_line() {
    assert_snapshot!(bad("[gateway]\nlisten = \"nowhere\"\n"), @r#"
    error: `gateway.listen`: invalid socket address syntax
     --> omnigate.toml:2:10
      |
    2 | listen = "nowhere"
      |          ^^^^^^^^^
    "#);
}

#[test]
fn every_syntax_error_is_shown_at_its_position() {
    assert_snapshot!(bad("[node]\nname = tru\n[gateway]\nshare =\n"), @r"
    error: not valid TOML: invalid boolean, expected `true`
     --> omnigate.toml:2:8
      |
    2 | name = tru
      |        ^^^

    error: not valid TOML: string values must be quoted, expected literal string
     --> omnigate.toml:4:8
      |
    4 | share =
      |        ^
    ");
}

#[test]
fn values_no_setting_can_hold_are_refused() {
    assert_snapshot!(bad("[node]\nname = 2020-01-01\n[gateway]\nshare = nan\nmax_conns = 99999999999999999999\n"), @r"
    error: no setting takes a bare date: put it in quotes
     --> omnigate.toml:2:8
      |
    2 | name = 2020-01-01
      |        ^^^^^^^^^^

    error: this number is not finite
     --> omnigate.toml:4:9
      |
    4 | share = nan
      |         ^^^

    error: this integer does not fit in 64 bits
     --> omnigate.toml:5:13
      |
    5 | max_conns = 99999999999999999999
      |             ^^^^^^^^^^^^^^^^^^^^
    ");
}

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
fn a_variable_or_flag_is_named_instead_of_a_line() {
    let env = [
        ("OMNIGATE_GATEWAY__MAX_CONS", "1"),
        ("OMNIGATE_GATEWAY_MAX_CONNS", "1"),
        ("OMNIGATE_COLOUR", "red"),
    ];
    let flags = [("gateway.max_cnns", "1"), ("gateway.read_timeout", "soon")];
    assert_snapshot!(load("", &env, &flags).unwrap_err(), @r#"
    error: unknown setting `colour`
    --> environment variable OMNIGATE_COLOUR
     = help: allowed here: `node`, `gateway`

    error: unknown setting `gateway_max_conns`
    --> environment variable OMNIGATE_GATEWAY_MAX_CONNS
     = help: did you mean `OMNIGATE_GATEWAY__MAX_CONNS`?

    error: unknown setting `gateway.max_cons`
    --> environment variable OMNIGATE_GATEWAY__MAX_CONS
     = help: did you mean `OMNIGATE_GATEWAY__MAX_CONNS`?

    error: unknown setting `gateway.max_cnns`
    --> flag gateway.max_cnns
     = help: did you mean `gateway.max_conns`?

    error: `gateway.read_timeout`: not a duration
    --> flag gateway.read_timeout
     = help: write a number with a unit, such as "5s" or "250ms"
    "#);
}

#[test]
fn problems_of_all_layers_and_tables_come_at_once_even_where_a_higher_layer_wins() {
    let file = "[gateway]\nmax_conns = \"x\"\nfoo = 1\nbar = 2\n[nod]\n[node]\nname = 1\n";
    let report = load(
        file,
        &[("OMNIGATE_GATEWAY__MAX_CONNS", "10")],
        &[("node.nme", "x")],
    )
    .unwrap_err();
    let found: Vec<(&str, &Origin)> = report
        .problems()
        .iter()
        .map(|p| (p.path.as_str(), &p.origin))
        .collect();
    let line = |line| Origin::File { line };
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
        (
            "limits.max_body_bytes = \"64MiB\"",
            "limits.max_body_bytes = 67108865",
        ),
        ("read_timeout = \"60s\"", "read_timeout = \"60001ms\""),
    ];
    for (safe, past) in guarded {
        assert!(
            good(&format!("[gateway]\n{safe}\n")).warnings().is_empty(),
            "{safe}"
        );
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
        Loader::new(Schema::new().table::<Picky>(), "OMNIGATE_").load(Sources {
            file,
            ..Sources::default()
        })
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
