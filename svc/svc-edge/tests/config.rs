//! What the `[edge]` table accepts, and what it makes of it.
#![expect(clippy::unwrap_used, reason = "tests")]

use std::{path::Path, sync::Arc, time::Duration};

use ron_kernel::config::{Loader, Schema, Sources};
use svc_edge::{EdgeConfig, Mode, OriginEtag, OriginScheme};

/// Loads the table from TOML lines; an error is the whole report.
fn load(lines: &str) -> Result<Arc<EdgeConfig>, String> {
    let loader = Loader::new(Schema::new().table::<EdgeConfig>(), "TEST_");
    let file = Some(("test.toml".into(), format!("[edge]\n{lines}\n")));
    let loaded = loader.load(Sources { file, ..Sources::default() });
    loaded.map(|snapshot| snapshot.get::<EdgeConfig>()).map_err(|report| report.render(false))
}

/// Both sides of a boundary: the first is accepted, the second refused with these words.
#[track_caller]
fn assert_boundary(accepted: &str, refused: &str, words: &str) {
    load(accepted).unwrap_or_else(|report| panic!("{accepted} is refused:\n{report}"));
    let report = load(refused).expect_err(refused);
    assert!(report.contains(words), "{refused}: `{words}` is missing in\n{report}");
}

#[test]
fn the_example_of_every_form_is_read() {
    let config = load(
        r#"
        enabled = true
        mode = "live"
        packs = ["./packs/world.pmtiles", { path = "b/c.mbtiles", name = "alps" }]
        roots = ["./public", { path = ".", dotfiles = true, index = "" }]
        allow = ["Tiles.Example.org", { host = "10.0.0.7:8000", scheme = "http", private = true, origin_etag = "any" }]
        cas = { url = "file:./data/cas", max_bytes = "10GiB", ram_bytes = "256MiB" }
        ingress = { timeout_secs = 5, max_inflight = 512, rps_limit = 500, body_bytes = "1MiB", decompress_max_ratio = 10, decompress_abs_bytes = "10MiB" }
        retry = { live_fill = { base_ms = 50, max_ms = 800, max_retries = 2, jitter = true } }
        cors = { allow_origins = [] }"#,
    )
    .unwrap();
    assert_eq!(config.mode, Mode::Live);
    assert_eq!(config.packs.iter().map(svc_edge::PackConfig::name).collect::<Vec<_>>(), ["world", "alps"]);
    assert!(config.roots[1].dotfiles && !config.roots[0].dotfiles && config.roots[0].index == "index.html");
    assert_eq!(config.allow[0].host, "tiles.example.org");
    assert_eq!((config.allow[1].scheme, config.allow[1].origin_etag), (OriginScheme::Http, OriginEtag::Any));
    assert_eq!(config.cas.folder(Path::new("/else")), Path::new("./data/cas"));
}

#[test]
fn what_is_not_said_is_what_the_contract_says() {
    let config = load("").unwrap();
    assert_eq!((config.enabled, config.mode), (false, Mode::Offline));
    assert_eq!(config.fill_timeout.as_duration(), Duration::from_secs(5));
    assert_eq!(config.idle_timeout.as_duration(), Duration::from_secs(60));
    assert_eq!((config.ingress.max_inflight, config.ingress.rps_limit), (512, 500));
    let retry = &config.retry.live_fill;
    assert_eq!((retry.base_ms, retry.max_ms, retry.max_retries, retry.jitter), (50, 800, 2, true));
    assert_eq!(config.cas.folder(Path::new("/data")), Path::new("/data/cas"));
    assert!(config.cors.allow_origins.is_empty());
}

#[test]
fn limits_lie_between_what_works_and_what_is_safe() {
    for (key, least, none) in
        [("ingress.timeout_secs", "1", "0"), ("ingress.max_inflight", "1", "0"), ("fill.workers", "1", "0")]
    {
        let set = |value: &str| format!("{key} = {value}");
        assert_boundary(&set(least), &set(none), "must be at least 1");
    }
    for (key, most, more) in [
        ("ingress.timeout_secs", "60", "61"),
        ("ingress.decompress_max_ratio", "100", "101"),
        ("max_conns", "65536", "65537"),
        ("fill.workers", "512", "513"),
        ("fill_timeout", "\"60s\"", "\"61s\""),
    ] {
        let set = |value: &str| format!("{key} = {value}");
        assert_boundary(&set(most), &set(more), "above the safe maximum");
    }
    assert_boundary("idle_timeout = \"2001ms\"", "idle_timeout = \"2s\"", "must be longer than 2s");
    assert_boundary("retry.live_fill.max_ms = 50", "retry.live_fill.max_ms = 49", "is less than `base_ms`");
    assert_boundary("retry.live_fill.max_retries = 10", "retry.live_fill.max_retries = 11", "at most 10");
    let sizes = |object: u32| format!("fill.max_object_bytes = {object}\nfill.inflight_bytes = 100");
    assert_boundary(&sizes(100), &sizes(101), "must hold one object");
}

#[test]
fn packs_have_names_for_urls_and_each_its_own() {
    assert_boundary(
        "packs = [\"a-b_1.pmtiles\"]",
        "packs = [\"a b.pmtiles\"]",
        "cannot name a pack in a URL",
    );
    assert_boundary("packs = [\"a/x\", \"b/y\"]", "packs = [\"a/x\", \"b/x\"]", "two packs are named `x`");
    let files = |file: &str| format!("packs = [\"a/x\", {{ path = \"b/{file}\", name = \"other\" }}]");
    assert_boundary(&files("y"), &files("x"), "two packs have a file that is called `x`");
    let named = |name: &str| format!("packs = [{{ path = \"x\", name = \"{name}\" }}]");
    assert_boundary(&named(&"n".repeat(63)), &named(&"n".repeat(64)), "cannot name a pack in a URL");
    let hashed = |hex: &str| format!("packs = [{{ path = \"x\", b3 = \"b3:{hex}\" }}]");
    assert_boundary(&hashed(&"0".repeat(64)), &hashed(&"0".repeat(63)), "is not a content id");
    assert_boundary(&hashed(&"a".repeat(64)), &hashed(&"A".repeat(64)), "is not a content id");
}

#[test]
fn origins_are_hosts_and_sites_are_origins() {
    for wrong in ["", "https://tiles.example.org", "a/b", "user@host", "a*.example.org", "host:port"] {
        let report = load(&format!("mode = \"live\"\nallow = [\"{wrong}\"]")).expect_err(wrong);
        assert!(report.contains("is not a host"), "{wrong}: {report}");
    }
    let twice = "mode = \"live\"\nallow = [\"a.example\", \"A.example\"]";
    assert_boundary("mode = \"live\"\nallow = [\"a.example\"]", twice, "named twice");
    for (accepted, refused) in [
        ("https://map.example.org", "map.example.org"),
        ("http://localhost:3000", "http://localhost:3000/path"),
        ("*", "https://*.example.org"),
    ] {
        let set = |site: &str| format!("cors.allow_origins = [\"{site}\"]");
        assert_boundary(&set(accepted), &set(refused), "is not a site's origin");
    }
    let url = |url: &str| format!("tiles.public_url = \"{url}\"");
    assert_boundary(&url("https://tiles.example.org/"), &url("tiles.example.org"), "scheme and host");
    assert_boundary("cas.url = \"file:./cas\"", "cas.url = \"./cas\"", "is not a store");
}
