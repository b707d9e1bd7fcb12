//! Flags over environment over file over defaults, for every kind of value.

use std::collections::BTreeMap;

use proptest::prelude::*;
use ron_kernel::config::{ByteSize, HumanDuration, Origin};

use crate::fixture::{Endpoint, Format, Gateway, Node, Store, good, load};

const VARIABLE: (&str, &str) = ("OMNIGATE_GATEWAY__MAX_CONNS", "30");
const FLAG: (&str, &str) = ("gateway.max_conns", "40");
const FILE: &str = "[gateway]\nmax_conns = 20\n";

#[test]
fn each_layer_wins_over_every_layer_below_it() {
    let (default, file) = (Origin::Default, Origin::File { file: "omnigate.toml".into(), line: 2 });
    let (env, flag) = (Origin::Env(VARIABLE.0.into()), Origin::Flag(FLAG.0.into()));
    for (text, variable, flagged, value, origin) in [
        ("", false, false, 1024, &default),
        (FILE, false, false, 20, &file),
        ("", true, false, 30, &env),
        ("", false, true, 40, &flag),
        (FILE, true, false, 30, &env),
        (FILE, false, true, 40, &flag),
        ("", true, true, 40, &flag),
        (FILE, true, true, 40, &flag),
    ] {
        let env: &[_] = if variable { &[VARIABLE] } else { &[] };
        let flags: &[_] = if flagged { &[FLAG] } else { &[] };
        let snapshot = load(text, env, flags).unwrap();
        assert_eq!(snapshot.get::<Gateway>().max_conns, value);
        assert_eq!(&snapshot.origin("gateway.max_conns"), origin);
    }
}

#[test]
fn an_empty_file_and_no_file_give_the_defaults() {
    let snapshot = good("");
    assert_eq!(*snapshot.get::<Gateway>(), Gateway::default());
    assert_eq!(*snapshot.get::<Node>(), Node::default());
    assert!(snapshot.entries().all(|(_, _, origin)| *origin == Origin::Default));
}

#[test]
fn a_partial_table_keeps_the_defaults_of_its_other_keys() {
    let gateway = good("[gateway.limits]\nmax_body_bytes = \"2MiB\"\n").get::<Gateway>();
    assert_eq!(gateway.limits.max_body_bytes, ByteSize::mib(2));
    assert_eq!(gateway.limits.decode_ratio_max, 7, "the gateway's default, not the type's");
}

#[test]
fn lists_replace_and_maps_merge_by_key() {
    let gateway =
        good("[gateway]\ngreet = [\"me\"]\nweights = { anon = 2, internal = 9 }\n").get::<Gateway>();
    assert_eq!(gateway.greet, ["me"]);
    let weights =
        [("anon", 2), ("authed", 5), ("internal", 9)].map(|(name, weight)| (name.to_owned(), weight));
    assert_eq!(gateway.weights, BTreeMap::from(weights));
}

#[test]
fn another_variant_of_a_tagged_table_starts_afresh_and_the_same_one_merges() {
    let file = "[gateway.store]\nkind = \"remote\"\nurl = \"a\"\npassword = \"b\"\n";
    assert!(matches!(good(file).get::<Gateway>().store, Store::Remote { .. }));
    // The file gives most of a variant, the environment the rest: a secret belongs there.
    let file = "[gateway.store]\nkind = \"remote\"\nurl = \"a\"\n";
    let snapshot = load(file, &[("OMNIGATE_GATEWAY__STORE__PASSWORD", "hunter2")], &[]).unwrap();
    match &snapshot.get::<Gateway>().store {
        Store::Remote { url, password } => assert_eq!((url.as_str(), password.expose()), ("a", "hunter2")),
        Store::Memory { .. } => panic!("the file chose a remote store"),
    }
    assert_eq!(good("[gateway.store]\nentries = 3\n").get::<Gateway>().store, Store::Memory { entries: 3 });
}

#[test]
fn lists_and_maps_of_tables_are_read() {
    let snapshot = good(
        r#"
[[gateway.route]]
path = "/a"
upstream = "api"
[[gateway.route]]
path = "/b"
upstream = "api"
strip = true
[gateway.upstream.api]
endpoints = ["one", { url = "two", weight = 2 }]
timeout = "250ms"
"#,
    );
    let gateway = snapshot.get::<Gateway>();
    assert_eq!(
        gateway.route.iter().map(|r| (r.path.as_str(), r.strip)).collect::<Vec<_>>(),
        [("/a", false), ("/b", true)]
    );
    let endpoints = vec![Endpoint::Url("one".into()), Endpoint::Weighted { url: "two".into(), weight: 2 }];
    assert_eq!(gateway.upstream["api"].endpoints, endpoints);
    assert_eq!(
        snapshot.origin("gateway.route[1].strip"),
        Origin::File { file: "omnigate.toml".into(), line: 8 }
    );
    assert_eq!(snapshot.origin("gateway.route[0].strip"), Origin::Default, "nobody set it");
    assert_eq!(
        snapshot.origin("gateway.upstream.api.timeout"),
        Origin::File { file: "omnigate.toml".into(), line: 11 }
    );
}

#[test]
fn variables_and_flags_are_read_by_the_type_of_what_they_set() {
    let env = [
        ("OMNIGATE_NODE__NAME", "12"),
        ("OMNIGATE_NODE__danger_ok", "true"),
        ("OMNIGATE_GATEWAY__READ_TIMEOUT", "250ms"),
        ("OMNIGATE_GATEWAY__FORMAT", "json"),
        ("OMNIGATE_GATEWAY__GREET", r#"["a", "b"]"#),
        ("OMNIGATE_GATEWAY__WEIGHTS", "{ anon = 3 }"),
        ("OMNIGATE_GATEWAY__UPSTREAM__API__TIMEOUT", "1s"),
        ("OMNIGATE_CONFIG", "elsewhere.toml"),
        ("PATH", "/bin"),
    ];
    let flags = [
        ("gateway.limits.max_body_bytes", "2048"),
        ("gateway.share", "1"),
        ("gateway.upstream.\"a.b\".timeout", "2s"),
    ];
    let snapshot = load("", &env, &flags).unwrap();
    let gateway = snapshot.get::<Gateway>();
    assert_eq!(snapshot.get::<Node>().name, "12", "a string takes the text as it is");
    assert!(snapshot.get::<Node>().danger_ok);
    assert_eq!(gateway.read_timeout, HumanDuration::from_millis(250));
    assert_eq!(gateway.format, Format::Json);
    assert_eq!(gateway.greet, ["a", "b"]);
    assert_eq!((gateway.weights["anon"], gateway.weights["authed"]), (3, 5));
    assert_eq!(gateway.limits.max_body_bytes, ByteSize::kib(2));
    assert!((gateway.share - 1.0).abs() < f64::EPSILON);
    assert_eq!(gateway.upstream["api"].timeout, HumanDuration::from_secs(1));
    assert_eq!(gateway.upstream["a.b"].timeout, HumanDuration::from_secs(2));
}

#[test]
fn of_two_flags_for_one_path_the_later_wins() {
    let snapshot = load("", &[], &[("gateway.max_conns", "1"), ("gateway.max_conns", "2")]).unwrap();
    assert_eq!(snapshot.get::<Gateway>().max_conns, 2);
}

/// One setting's value in each layer, if the layer sets it.
fn layers<T: std::fmt::Debug + Clone>(
    value: impl Strategy<Value = T> + 'static,
) -> impl Strategy<Value = [Option<T>; 3]> {
    let layer = proptest::option::of(value.boxed());
    [layer.clone(), layer.clone(), layer]
}

fn highest<T: Clone>(layers: &[Option<T>; 3], default: T) -> T {
    layers.iter().rev().flatten().next().cloned().unwrap_or(default)
}

proptest! {
    // Proptest prints the failing case and records its seed.
    #[test]
    fn random_settings_resolve_to_the_highest_layer_that_has_them(
        conns in layers(0_u32..=10_000),
        millis in layers(0_u64..=60_000),
        name in layers("[a-z0-9.\"']{0,12}"),
        format in layers(prop_oneof![Just("text"), Just("json")]),
    ) {
        let texts = |n: usize| [
            ("gateway.max_conns", conns[n].map(|v| v.to_string()), false),
            ("gateway.read_timeout", millis[n].map(|v| format!("{v}ms")), true),
            ("node.name", name[n].clone(), true),
            ("gateway.format", format[n].map(str::to_owned), true),
        ];
        let quote = |text: &str| toml::Value::String(text.to_owned()).to_string();
        let file: String = texts(0).into_iter()
            .filter_map(|(path, text, quoted)| Some((path, text?, quoted)))
            .map(|(path, text, quoted)| format!("{path} = {}\n", if quoted { quote(&text) } else { text }))
            .collect();
        let pairs = |n, name: fn(&str) -> String| -> Vec<(String, String)> {
            texts(n).into_iter().filter_map(|(path, text, _)| Some((name(path), text?))).collect()
        };
        let env = pairs(1, |path| format!("OMNIGATE_{}", path.replace('.', "__").to_uppercase()));
        let flags = pairs(2, str::to_owned);
        let env: Vec<(&str, &str)> = env.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let flags: Vec<(&str, &str)> = flags.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        let snapshot = load(&file, &env, &flags).map_err(|report| TestCaseError::fail(report.to_string()))?;
        let gateway = snapshot.get::<Gateway>();
        prop_assert_eq!(gateway.max_conns, highest(&conns, 1024));
        prop_assert_eq!(gateway.read_timeout, HumanDuration::from_millis(highest(&millis, 5000)));
        prop_assert_eq!(&snapshot.get::<Node>().name, &highest(&name, String::new()));
        prop_assert_eq!(gateway.format == Format::Json, highest(&format, "text") == "json");
    }
}
