//! What a resolved configuration tells: its entries, what changed, and the store that holds it.

use std::sync::Arc;

use insta::assert_snapshot;
use ron_kernel::config::{Change, ConfigStore, Snapshot};

use crate::fixture::{Gateway, good, load};

fn shown(snapshot: &Snapshot) -> String {
    let lines: Vec<String> =
        snapshot.entries().map(|(path, value, origin)| format!("{path} = {value}  # {origin}")).collect();
    lines.join("\n")
}

#[test]
fn every_resolved_value_is_listed_with_its_origin_in_the_order_of_the_schema() {
    let file = r#"
[gateway]
weights.internal = 10
[[gateway.route]]
path = "/"
upstream = "a.b"
[gateway.upstream."a.b"]
endpoints = ["one", { url = "two", weight = 1 }]
"#;
    let env = [("OMNIGATE_GATEWAY__BANNER", "hi\nyou")];
    assert_snapshot!(shown(&load(file, &env, &[("node.name", "a")]).unwrap()), @r#"
    node.name = "a"  # flag node.name
    node.danger_ok = false  # default
    gateway.listen = "127.0.0.1:8080"  # default
    gateway.max_conns = 1024  # default
    gateway.read_timeout = "5s"  # default
    gateway.format = "text"  # default
    gateway.share = 0.5  # default
    gateway.greet = ["you", "all"]  # default
    gateway.weights.anon = 1  # default
    gateway.weights.authed = 5  # default
    gateway.weights.internal = 10  # omnigate.toml, line 3
    gateway.admin_token = "<hidden>"  # default
    gateway.banner = "hi\nyou"  # environment variable OMNIGATE_GATEWAY__BANNER
    gateway.limits.max_body_bytes = "1MiB"  # default
    gateway.limits.decode_ratio_max = 7  # default
    gateway.store.kind = "memory"  # default
    gateway.store.entries = 16  # default
    gateway.route[0].path = "/"  # omnigate.toml, line 5
    gateway.route[0].upstream = "a.b"  # omnigate.toml, line 6
    gateway.route[0].strip = false  # default
    gateway.upstream."a.b".endpoints[0] = "one"  # omnigate.toml, line 8
    gateway.upstream."a.b".endpoints[1].url = "two"  # omnigate.toml, line 8
    gateway.upstream."a.b".endpoints[1].weight = 1  # omnigate.toml, line 8
    gateway.upstream."a.b".timeout = "0s"  # default
    gateway.upstream."a.b".keys = []  # default
    "#);
}

fn changes(from: &str, to: &str) -> Vec<(String, bool)> {
    good(to).diff(&good(from)).into_iter().map(|Change { path, restart }| (path, restart)).collect()
}

#[test]
fn a_change_says_whether_it_needs_a_restart() {
    let to = "[node]\nname = \"b\"\n[gateway]\nmax_conns = 2\nlimits.decode_ratio_max = 3\nlisten = \"127.0.0.1:1\"\n";
    let expected = [
        ("gateway.limits.decode_ratio_max", true),
        ("gateway.listen", true),
        ("gateway.max_conns", false),
        ("node.name", true),
    ];
    assert_eq!(changes("", to), expected.map(|(path, restart)| (path.to_owned(), restart)));
}

#[test]
fn the_same_value_written_in_another_way_is_no_change() {
    let (one, two) = (
        "read_timeout = \"2s\"\nlimits.max_body_bytes = 1024",
        "limits.max_body_bytes = \"1KiB\"\nread_timeout = \"2000ms\"",
    );
    assert!(changes(&format!("[gateway]\n{one}"), &format!("# moved\n[gateway]\n{two}")).is_empty());
}

#[test]
fn what_appears_in_a_list_or_map_and_what_disappears_is_a_change() {
    let full = "[gateway]\nbanner = \"x\"\n[gateway.upstream.api]\ntimeout = \"1s\"\n[[gateway.route]]\npath = \"/\"\nupstream = \"api\"\n";
    let expected = [
        "gateway.banner",
        "gateway.route[0].path",
        "gateway.route[0].strip",
        "gateway.route[0].upstream",
        "gateway.upstream.api.endpoints",
        "gateway.upstream.api.keys",
        "gateway.upstream.api.timeout",
    ];
    let paths = |from, to| changes(from, to).into_iter().map(|(path, _)| path).collect::<Vec<_>>();
    assert_eq!(paths("", full), expected);
    assert_eq!(paths(full, ""), expected);
    assert!(paths(full, full).is_empty());
}

#[test]
fn the_store_counts_generations_and_remembers_only_the_latest_refusal() {
    let store = ConfigStore::new(&good(""));
    assert_eq!((store.current().generation(), store.last_error().is_none()), (1, true));

    store.reject(load("[nod]\n", &[], &[]).unwrap_err());
    store.reject(load("[gatway]\n", &[], &[]).unwrap_err());
    assert_eq!(store.last_error().unwrap().problems()[0].path, "gatway");
    assert_eq!(store.current().generation(), 1, "a refusal leaves the current snapshot");

    let before = store.current();
    let old = store.replace(&good("[gateway]\nmax_conns = 5\n"));
    assert!(Arc::ptr_eq(&before, &old));
    assert_eq!(before.get::<Gateway>().max_conns, 1024, "who holds the old one keeps it");
    assert_eq!((store.current().generation(), store.current().get::<Gateway>().max_conns), (2, 5));
    assert!(store.last_error().is_none());
}

#[test]
fn replacing_from_many_threads_loses_no_generation() {
    let store = ConfigStore::new(&good(""));
    let next = good("[gateway]\nmax_conns = 5\n");
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| (0..100).for_each(|_| drop(store.replace(&next))));
        }
    });
    assert_eq!(store.current().generation(), 401);
}

#[test]
fn each_configuration_in_force_has_the_next_generation_and_a_refused_one_has_none() {
    let store = ConfigStore::new(&good(""));
    assert_eq!(store.current().generation(), 1);
    store.reject(load("[gateway]\nmax_conns = \"many\"\n", &[], &[]).unwrap_err());
    assert_eq!(store.current().generation(), 1, "a refused configuration is no new one");
    store.replace(&good(""));
    store.replace(&good(""));
    assert_eq!(store.current().generation(), 3);
}
