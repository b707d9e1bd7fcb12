//! What `[gateway.upstream.<name>]` accepts, and where it points when it does not.

use ron_kernel::config::{Loader, Schema, Sources};
use svc_gateway::{EndpointConfig, GatewayConfig, UpstreamConfig};

/// Loads an upstream from TOML lines; an error is the whole report.
fn load(lines: &str) -> Result<UpstreamConfig, String> {
    let loader = Loader::new(Schema::new().table::<GatewayConfig>(), "TEST_");
    let file = Some(("test.toml".into(), format!("[gateway.upstream.a]\n{lines}\n")));
    let loaded = loader.load(Sources { file, ..Sources::default() });
    let config = loaded.map_err(|report| report.render(false))?.get::<GatewayConfig>();
    Ok(config.upstream["a"].clone())
}

/// Both sides of a boundary, with one good endpoint: the first is accepted, the second refused with these words.
#[track_caller]
fn assert_boundary(accepted: &str, refused: &str, words: &str) {
    let with = |line: &str| format!("endpoints = [\"http://a:1\"]\n{line}");
    load(&with(accepted)).unwrap_or_else(|report| panic!("{accepted} is refused:\n{report}"));
    let report = load(&with(refused)).expect_err(refused);
    assert!(report.contains(words), "{refused}: `{words}` is missing in\n{report}");
}

#[test]
fn a_server_is_written_as_text_or_with_its_weight() {
    let config =
        load("endpoints = [\"http://a:1\", { url = \"http://b:2\", weight = 3 }, { url = \"http://c\" }]");
    let expected = [("http://a:1", 1), ("http://b:2", 3), ("http://c", 1)]
        .map(|(url, weight)| EndpointConfig { url: url.parse().unwrap(), weight });
    assert_eq!(config.unwrap().endpoints, expected);
}

#[test]
fn what_is_wrong_with_a_server_is_told_where_it_stands() {
    for (written, words) in [
        ("[\"127.0.0.1:9001\"]", "has no scheme"),
        ("[\"http://a\",\n  { url = \"ftp://b\" }]", "scheme `ftp` is not supported"),
        ("[{ url = \"http://a\", weight = 0 }]", "must be from 1 to 1000"),
        ("[{ url = \"http://a\", weight = 1001 }]", "must be from 1 to 1000"),
        ("[{ url = \"http://a\", wieght = 1 }]", "wieght"),
        ("[{ weight = 1 }]", "url"),
        ("[\"http://a\", \"http://a:80\"]", "is named twice"),
        ("[]", "must name at least one server"),
        ("[3]", "a string"),
    ] {
        let report = load(&format!("endpoints = {written}")).expect_err(written);
        let line = if words.contains("ftp") { "test.toml:3" } else { "test.toml:2" };
        assert!(
            report.contains(words) && report.contains(line),
            "{written}: `{words}` at {line} is missing in\n{report}"
        );
    }
}

#[test]
fn each_setting_has_its_bounds() {
    let nothing = "must be longer than nothing";
    for key in
        ["timeout", "connect_timeout", "idle_timeout", "resolve_every", "breaker.open_for", "eject.base"]
    {
        assert_boundary(&format!("{key} = \"1ms\""), &format!("{key} = \"0s\""), nothing);
    }
    assert_boundary("max_conns = 1", "max_conns = 0", "must be at least 1");
    assert_boundary("max_conns = 16384", "max_conns = 16385", "above the safe maximum");
    assert_boundary("max_waiting = 16384", "max_waiting = 16385", "above the safe maximum");
    assert_boundary("retry.max_tries = 1", "retry.max_tries = 0", "must be from 1 to 10");
    assert_boundary("retry.max_tries = 10", "retry.max_tries = 11", "must be from 1 to 10");
    assert_boundary(
        "retry.cap = \"50ms\"",
        "retry.cap = \"49ms\"",
        "must not be less than `base`, which is 50ms",
    );
    assert_boundary("retry.statuses = [500, 599]", "retry.statuses = [499]", "must be from 500 to 599");
    for key in ["retry.budget", "breaker.error_rate", "eject.max_share"] {
        assert_boundary(&format!("{key} = 1.0"), &format!("{key} = 1.1"), "must be from 0 to 1");
        assert_boundary(&format!("{key} = 0.0"), &format!("{key} = -0.1"), "must be from 0 to 1");
    }
}

#[test]
fn a_health_check_needs_a_path_and_counts() {
    let path = "health.path = \"/healthz?deep=1\"\n";
    assert_boundary(path, "health.path = \"healthz\"", "must be a path that begins with `/`");
    for key in ["healthy_after", "unhealthy_after"] {
        assert_boundary(
            &format!("{path}health.{key} = 1"),
            &format!("{path}health.{key} = 0"),
            "must be at least 1",
        );
    }
    assert_boundary(path, &format!("{path}health.interval = \"0s\""), "must be longer than nothing");
}

#[test]
fn tls_settings_belong_to_servers_that_speak_it() {
    let words = "no endpoint begins with `https:`";
    let report = load("endpoints = [\"http://a\"]\ntls.ca_path = \"ca.pem\"").expect_err("plain");
    assert!(report.contains(words), "{report}");
    load("endpoints = [\"https://a\"]\ntls.ca_path = \"ca.pem\"").unwrap();
    let half = load("endpoints = [\"https://a\"]\ntls.cert_path = \"c.pem\"").expect_err("half a pair");
    assert!(half.contains("key_path"), "{half}");
}

#[test]
fn sticky_is_by_cookie_or_by_hash() {
    assert_boundary("sticky.cookie = \"route\"", "sticky = {}", "needs either `cookie` or `hash`");
    assert_boundary(
        "sticky.hash = \"client\"",
        "sticky = { cookie = \"a\", hash = \"path\" }",
        "needs either `cookie` or `hash`",
    );
    assert_boundary("sticky.cookie = \"a\"", "sticky.cookie = \"a b\"", "cannot be the name of a cookie");
    for (good, bad, words) in [
        ("path", "host", "is `client`, `path`"),
        ("header:x-user", "header:x user", "has no name of a header field"),
        ("cookie:id", "cookie:", "has no name of a cookie"),
    ] {
        assert_boundary(&format!("sticky.hash = \"{good}\""), &format!("sticky.hash = \"{bad}\""), words);
    }
    let secret = |text: &str| format!("sticky = {{ cookie = \"a\", secret = \"{text}\" }}");
    assert_boundary(&secret(&"s3cret".repeat(3)), &secret("s3cret"), "must have at least 16 bytes");
    assert!(
        !load(&format!("endpoints = [\"http://a\"]\n{}", secret("s3cret"))).unwrap_err().contains("s3cret")
    );
    let load_of = |bound: &str| format!("sticky = {{ hash = \"client\", max_load = {bound} }}");
    assert_boundary(&load_of("1.05"), &load_of("1.0"), "must be from 1.05 to 100");
    assert_boundary(&load_of("100"), &load_of("100.5"), "must be from 1.05 to 100");
    assert_boundary(
        &load_of("2"),
        "sticky = { hash = \"client\", max_age = \"1h\" }",
        "has no effect with `hash`",
    );
}
