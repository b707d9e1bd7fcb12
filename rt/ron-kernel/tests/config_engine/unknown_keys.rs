//! Keys nobody knows, in every layer, and exactly what the operator reads.

use insta::assert_snapshot;

use crate::fixture::{bad, load};

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
fn control_characters_in_a_key_do_not_reach_the_terminal() {
    let report = bad("[node]\n\"a\\u001b[31m\" = 1\n");
    assert!(!report.contains('\u{1b}'), "{report:?}");
}
