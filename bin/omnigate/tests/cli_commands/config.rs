//! `omnigate config`: the template, the values in force, the schema and the reference.

use std::{collections::BTreeMap, fs};

use serde_json::Value;

use crate::{assert_clean, assert_refused, cli, omnigate, run};

#[test]
fn the_template_is_right_as_it_is_and_with_every_setting_uncommented() {
    let dir = tempfile::tempdir().unwrap();
    let ran = cli(dir.path(), &["config", "init", "--full"]);
    assert_clean(&ran);
    assert_eq!(ran.out, "wrote omnigate.toml: every setting with its default, commented out\n");
    assert_clean(&cli(dir.path(), &["check"]));

    let file = dir.path().join("omnigate.toml");
    let template = fs::read_to_string(&file).unwrap();
    let uncommented: String =
        template.lines().map(|line| format!("{}\n", line.strip_prefix("# ").unwrap_or(line))).collect();
    assert_ne!(template, uncommented);
    fs::write(&file, uncommented).unwrap();
    let ran = cli(dir.path(), &["check"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(0), "ok: omnigate.toml\n"));
    // Somebody who has set everything, and has no route, is told so; nothing else is wrong.
    let warnings: Vec<&str> = ran.err.lines().filter(|line| line.starts_with("warning:")).collect();
    assert_eq!(warnings, ["warning: `gateway.route`: there is no route, so every request is answered 404"]);
}

#[test]
fn a_file_is_never_overwritten_unasked() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("mine.toml");
    fs::write(&file, "precious").unwrap();
    let words = "error: mine.toml already exists\n \
                 = help: choose another path, or replace it with --force\n";
    assert_refused(&cli(dir.path(), &["config", "init", "mine.toml"]), 1, words);
    assert_eq!(fs::read_to_string(&file).unwrap(), "precious");
    assert_clean(&cli(dir.path(), &["config", "init", "mine.toml", "--force"]));
    assert!(fs::read_to_string(&file).unwrap().contains("[gateway]"));
}

#[test]
fn a_template_for_a_folder_that_is_missing_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let words = "error: the folder of no/such.toml does not exist\n \
                 = help: create it, or choose another path\n";
    assert_refused(&cli(dir.path(), &["config", "init", "no/such.toml"]), 1, words);
}

#[test]
fn every_value_is_shown_with_where_it_came_from() {
    let dir = tempfile::tempdir().unwrap();
    let file = "[gateway]\n\nmax_conns = 12\nread_timeout = \"2s\"\n";
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    let args = ["config", "show", "--set", "node.name=edge-1"];
    let mut command = omnigate(dir.path(), &args);
    command.env("OMNIGATE_GATEWAY__READ_TIMEOUT", "4s").env("OMNIGATE_ADMIN__TOKEN", "s3cret-s3cret-s3cret");
    let ran = run(command);
    assert_clean(&ran);
    assert!(!ran.out.contains("s3cret"), "{}", ran.out);

    let origins: BTreeMap<&str, &str> = ran.out.lines().map(|l| l.split_once("   # ").unwrap()).collect();
    let origins: BTreeMap<&str, &str> =
        origins.into_iter().map(|(key, origin)| (key.trim_end(), origin)).collect();
    for (setting, origin) in [
        ("node.name = \"edge-1\"", "--set"),
        ("node.cores = 0", "default"),
        ("gateway.max_conns = 12", "omnigate.toml:3"),
        ("gateway.read_timeout = \"4s\"", "env OMNIGATE_GATEWAY__READ_TIMEOUT"),
        ("admin.token = \"<hidden>\"", "env OMNIGATE_ADMIN__TOKEN"),
    ] {
        assert_eq!(origins.get(setting), Some(&origin), "{setting} in\n{}", ran.out);
    }
}

#[test]
fn origins_stand_in_one_column() {
    let dir = tempfile::tempdir().unwrap();
    let ran = cli(dir.path(), &["config", "show"]);
    assert_clean(&ran);
    let columns: Vec<_> = ran.out.lines().map(|line| line.find("   # ")).collect();
    assert!(columns.windows(2).all(|pair| pair[0] == pair[1]), "{}", ran.out);
}

#[test]
fn values_are_shown_as_json_of_their_own_type() {
    let dir = tempfile::tempdir().unwrap();
    let ran = cli(dir.path(), &["config", "show", "--json", "--set", "gateway.max_conns=7"]);
    assert_clean(&ran);
    let all: Vec<Value> = serde_json::from_str(&ran.out).unwrap();
    let entry = |key: &str| all.iter().find(|entry| entry["key"] == key).unwrap();
    assert_eq!(entry("gateway.max_conns")["value"], 7);
    assert_eq!(entry("gateway.max_conns")["origin"], "--set");
    assert_eq!(entry("node.danger_ok")["value"], false);
    assert_eq!(entry("gateway.route")["value"], serde_json::json!([]));
}

#[test]
fn a_wrong_configuration_is_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let ran = cli(dir.path(), &["config", "show", "--set", "gateway.max_conns=many"]);
    assert_eq!((ran.code, ran.out.as_str()), (Some(2), ""));
    assert!(ran.err.contains("gateway.max_conns"), "{}", ran.err);
}

#[test]
fn the_schema_and_the_reference_know_every_table() {
    let dir = tempfile::tempdir().unwrap();
    let schema = cli(dir.path(), &["config", "schema"]);
    assert_clean(&schema);
    let schema: Value = serde_json::from_str(&schema.out).unwrap();
    let reference = cli(dir.path(), &["config", "reference"]);
    assert_clean(&reference);
    assert!(reference.out.starts_with("# Configuration\n"));
    for table in ["node", "log", "admin", "auth", "gateway"] {
        assert!(schema["properties"][table].is_object(), "{table}");
        assert!(reference.out.contains(&format!("## `[{table}]`")), "{table}");
    }
    assert!(reference.out.lines().any(|line| line.starts_with("| `token` | secret")));
}

#[test]
fn credentials_that_a_route_adds_for_its_server_are_not_shown() {
    let dir = tempfile::tempdir().unwrap();
    let route = |rest: &str| {
        format!(
            "[[gateway.route]]\npath = \"/\"\nupstream = \"up\"\n\
             request_headers = {{ set = {{ authorization = \"Bearer hunter2\", x-plain = \"seen\" }}{rest} }}\n\
             [gateway.upstream.up]\nendpoints = [\"http://127.0.0.1:1\"]\n"
        )
    };
    let file = dir.path().join("omnigate.toml");
    fs::write(&file, route("")).unwrap();
    let shown = cli(dir.path(), &["config", "show"]).out;
    assert!(!shown.contains("hunter2") && shown.contains("x-plain = \"seen\""), "{shown}");
    fs::write(&file, route(", bad = 1")).unwrap();
    let refused = cli(dir.path(), &["check"]).err;
    assert!(!refused.contains("hunter2") && refused.contains("unknown key `bad`"), "{refused}");
}

#[test]
fn files_and_variables_are_filled_in_and_never_shown() {
    let dir = tempfile::tempdir().unwrap();
    fs::create_dir(dir.path().join("etc")).unwrap();
    fs::write(dir.path().join("etc/token"), "0123456789-hunter2\r\n").unwrap();
    let file = dir.path().join("etc/omnigate.toml");
    fs::write(&file, "[admin]\ntoken = \"${file:token}\"\n[node]\nname = \"${NODE_NAME:-spare}\"\n").unwrap();
    let (check, show) =
        (["check", "--config", "etc/omnigate.toml"], ["config", "show", "--config", "etc/omnigate.toml"]);
    assert_eq!(cli(dir.path(), &check).out, "ok: etc/omnigate.toml\n");
    let shown = cli(dir.path(), &show).out;
    assert!(shown.contains("${NODE_NAME:-spare}") && !shown.contains("hunter2"), "{shown}");
    for (content, told) in [
        ("${file:nowhere}", "/etc/nowhere is not there"),
        ("${NO_SUCH_VARIABLE}", "the environment variable NO_SUCH_VARIABLE is not set"),
    ] {
        fs::write(&file, format!("[node]\nname = \"{content}\"\n")).unwrap();
        let refused = cli(dir.path(), &check);
        assert!(refused.code == Some(2) && refused.err.contains(told), "{}", refused.err);
    }
    fs::write(dir.path().join("etc/large"), "x".repeat(70_000)).unwrap();
    fs::write(&file, "[node]\nname = \"${file:large}\"\n").unwrap();
    let refused = cli(dir.path(), &check).err;
    assert!(refused.contains("/etc/large cannot be read: it is larger than 65536 bytes"), "{refused}");
}

#[test]
fn the_short_file_is_right_and_routes_requests() {
    let dir = tempfile::tempdir().unwrap();
    let ran = cli(dir.path(), &["config", "init"]);
    assert_clean(&ran);
    assert_eq!(ran.out, "wrote omnigate.toml: a route to start from\n");
    let text = fs::read_to_string(dir.path().join("omnigate.toml")).unwrap();
    assert!(text.lines().count() < 30, "{text}");
    let first = text.lines().find(|line| !line.is_empty() && !line.starts_with('#')).unwrap();
    assert_eq!(first, "[[gateway.route]]");
    let ran = cli(dir.path(), &["check"]);
    assert_clean(&ran);
    assert_eq!(ran.out, "ok: omnigate.toml\n");
}

#[test]
fn a_difference_that_cannot_be_told_is_neither_yes_nor_no() {
    let dir = tempfile::tempdir().unwrap();
    let ran = cli(dir.path(), &["config", "diff", "--set", "admin.listen=127.0.0.1:1"]);
    assert_eq!(ran.code, Some(2), "{}", ran.err);
}
