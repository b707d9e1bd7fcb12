//! `omnigate config diff`: what a configuration would change in the running node.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use ron_kernel::{
    ExitCode,
    config::{HIDDEN, Snapshot},
};
use serde_json::{Value, json};

use super::{config::listed, overlay::admin_client::AdminClient};
use crate::{config_file::ConfigSource, failure::Failure};

/// How long the node may take to answer.
const PATIENCE: Duration = Duration::from_secs(10);

/// A setting that differs.
struct Difference<'v> {
    key: &'v str,
    /// In the running node; `None` if it does not have the setting.
    running: Option<&'v Value>,
    /// In the configuration; `None` if it does not have the setting.
    given: Option<&'v Value>,
    /// Whether the node has to be restarted for it.
    restart: bool,
}

/// Prints what differs, as `diff` does: exit code 0 if nothing, 1 if something, and 2 if that cannot be told.
pub(super) fn run(source: &ConfigSource, as_json: bool) -> Result<ExitCode, Failure> {
    let snapshot = source.load()?;
    let unknown = |failure: Failure| Failure::bad_config(failure.to_string().trim_start_matches("error: "));
    let running =
        AdminClient::of(source).and_then(|client| client.within(PATIENCE).get("/config")).map_err(unknown)?;
    let given = listed(&snapshot);
    let differences = differences(&running["settings"], &given, &snapshot);
    super::print(&if as_json { as_list(&differences) } else { as_text(&differences) })?;
    let secrets = secrets(&given);
    if !secrets.is_empty() {
        eprintln!(
            "note: the node shows neither secrets nor what references stand for, so these are not compared: {}",
            secrets.join(", ")
        );
    }
    Ok(if differences.is_empty() { ExitCode::Clean } else { ExitCode::Failed })
}

/// What differs, by key. What comes from a variable or a flag, there or here, is left out: no file changes the one, and the
/// other is not the node's.
fn differences<'v>(running: &'v Value, given: &'v Value, snapshot: &Snapshot) -> Vec<Difference<'v>> {
    let (running, given) = (by_key(running), by_key(given));
    let overridden: BTreeSet<&str> = [&running, &given]
        .iter()
        .flat_map(|side| side.iter())
        .filter(|(_, (_, own))| !own)
        .map(|(key, _)| *key)
        .collect();
    let keys: BTreeSet<&str> = running.keys().chain(given.keys()).copied().collect();
    let value =
        |side: &BTreeMap<&'v str, (&'v Value, bool)>, key: &str| side.get(key).map(|(value, _)| *value);
    let mut found = Vec::new();
    for key in keys.into_iter().filter(|key| !overridden.contains(key)) {
        let (running, given) = (value(&running, key), value(&given, key));
        if running != given {
            found.push(Difference { key, running, given, restart: snapshot.needs_restart(key) });
        }
    }
    found
}

/// The values of a listing, and whether each may differ: not if a variable or a flag sets it.
fn by_key(listing: &Value) -> BTreeMap<&str, (&Value, bool)> {
    let entries = listing.as_array().into_iter().flatten();
    let entry = |entry: &'_ Value| {
        let origin = entry["origin"].as_str().unwrap_or_default().to_owned();
        !(origin == "--set" || origin.starts_with("env "))
    };
    entries.filter_map(|found| Some((found["key"].as_str()?, (&found["value"], entry(found))))).collect()
}

/// The keys whose values are hidden, or are references to variables and files.
fn secrets(listing: &Value) -> Vec<&str> {
    let entries = listing.as_array().into_iter().flatten();
    let is_hidden = |entry: &&Value| entry["value"] == HIDDEN || entry["value"].to_string().contains("${");
    entries.filter(is_hidden).filter_map(|entry| entry["key"].as_str()).collect()
}

fn as_text(differences: &[Difference<'_>]) -> String {
    let mut text = String::new();
    for Difference { key, running, given, restart } in differences {
        let note = if *restart { "   # after a restart" } else { "" };
        for (sign, value) in [('-', running), ('+', given)] {
            if let Some(value) = value {
                text.push_str(&format!("{sign} {key} = {value}{}\n", if sign == '+' { note } else { "" }));
            }
        }
    }
    text
}

fn as_list(differences: &[Difference<'_>]) -> String {
    let entry = |it: &Difference<'_>| json!({ "key": it.key, "running": it.running, "given": it.given, "restart": it.restart });
    super::pretty(&Value::Array(differences.iter().map(entry).collect()))
}

#[cfg(test)]
mod tests {
    use ron_kernel::config::{Loader, Sources};

    use super::*;
    use crate::config_file::schema;

    fn listing(entries: &[(&str, Value, &str)]) -> Value {
        let entry = |(key, value, origin): &(&str, Value, &str)| json!({ "key": key, "value": value, "origin": origin });
        Value::Array(entries.iter().map(entry).collect())
    }

    #[test]
    fn settings_that_differ_are_found_and_overridden_ones_are_left_out() {
        let running = listing(&[
            ("gateway.max_conns", json!(5), "omnigate.toml:2"),
            ("gateway.listen", json!("a"), "--set"),
            ("node.name", json!("n"), "env OMNIGATE_NODE__NAME"),
            ("admin.listen", json!("a"), "default"),
            ("gateway.route[0].path", json!("/"), "omnigate.toml:5"),
            ("node.cores", json!(0), "default"),
        ]);
        let given = listing(&[
            ("gateway.max_conns", json!(9), "new.toml:2"),
            ("gateway.listen", json!("b"), "new.toml:3"),
            ("node.name", json!("m"), "new.toml:4"),
            ("admin.listen", json!("b"), "--set"),
            ("node.cores", json!(4), "new.toml:5"),
            ("admin.token", json!(HIDDEN), "new.toml:6"),
            ("overlay.peers", json!(["${PEER}"]), "new.toml:7"),
        ]);
        let loader = Loader::new(schema(), "TEST_");
        let snapshot = loader.load(Sources::default()).unwrap_or_else(|report| panic!("{report}"));
        let found = differences(&running, &given, &snapshot);
        assert_eq!(
            as_text(&found),
            "+ admin.token = \"<hidden>\"\n- gateway.max_conns = 5\n+ gateway.max_conns = 9\n- gateway.route[0].path = \"/\"\n\
             - node.cores = 0\n+ node.cores = 4   # after a restart\n+ overlay.peers = [\"${PEER}\"]\n"
        );
        assert_eq!(secrets(&given), ["admin.token", "overlay.peers"]);
        assert!(differences(&running, &running, &snapshot).is_empty());
    }
}
