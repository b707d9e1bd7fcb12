//! Values of the wrong type, range or form, and exactly what the operator reads.

use insta::assert_snapshot;

use crate::fixture::bad;

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
