//! What the `[gateway]` table accepts, and what it makes of it.

use std::sync::Arc;

use ron_kernel::config::{Loader, Schema, Sources};
use ron_transport::tls;
use svc_gateway::GatewayConfig;

/// Loads the table from TOML lines; an error is the whole report.
fn load(lines: &str) -> Result<Arc<GatewayConfig>, String> {
    let loader = Loader::new(Schema::new().table::<GatewayConfig>(), "TEST_");
    let file = Some(("test.toml".into(), format!("[gateway]\n{lines}\n")));
    let loaded = loader.load(Sources { file, ..Sources::default() });
    loaded.map(|snapshot| snapshot.get::<GatewayConfig>()).map_err(|report| report.render(false))
}

/// Both sides of a boundary: the first is accepted, the second refused with these words.
#[track_caller]
fn assert_boundary(accepted: &str, refused: &str, words: &str) {
    load(accepted).unwrap_or_else(|report| panic!("{accepted} is refused:\n{report}"));
    let report = load(refused).expect_err(refused);
    assert!(report.contains(words), "{refused}: `{words}` is missing in\n{report}");
}

#[test]
fn limits_lie_between_what_works_and_what_is_safe() {
    for (key, least, none, most, more) in [
        ("max_headers", "1", "0", "1000", "1001"),
        ("max_head_bytes", "\"1KiB\"", "1023", "\"256KiB\"", "262145"),
        ("h2_streams", "1", "0", "1024", "1025"),
        ("h2_pending_resets", "1", "0", "100", "101"),
        ("decode_memory", "\"1MiB\"", "1048575", "\"4GiB\"", "4294967297"),
    ] {
        let set = |value: &str| format!("limits.{key} = {value}");
        assert_boundary(&set(least), &set(none), "must be at least 1");
        assert_boundary(&set(most), &set(more), "above the safe maximum");
    }
}

#[test]
fn an_idle_connection_is_parked_before_it_is_closed() {
    let words = "must be longer than `limits.park_after`, which is 2s";
    assert_boundary("idle_timeout = \"2001ms\"", "idle_timeout = \"2s\"", words);
    assert_boundary("idle_timeout = \"60s\"", "idle_timeout = \"0s\"", "must be longer than nothing");
    assert_boundary("idle_timeout = \"1h\"", "idle_timeout = \"3601s\"", "above the safe maximum");
    assert_boundary(
        "limits.park_after = \"1ms\"",
        "limits.park_after = \"0s\"",
        "must be longer than nothing",
    );
}

#[test]
fn one_client_cannot_have_more_connections_than_there_are() {
    let with = |per_client: u32| format!("max_conns = 10\nmax_conns_per_client = {per_client}");
    assert_boundary(&with(10), &with(11), "more than `max_conns`, which is 10");
}

#[test]
fn idle_upstream_connections_are_kept_for_some_time_and_in_some_number() {
    let with = |key: &str| format!("upstream.a = {{ endpoints = [\"http://127.0.0.1:1\"], {key} }}");
    let nothing = "must be longer than nothing";
    assert_boundary(&with("idle_timeout = \"1ms\""), &with("idle_timeout = \"0s\""), nothing);
    assert_boundary(&with("max_idle = 4096"), &with("max_idle = 4097"), "above the safe maximum");
}

#[test]
fn every_tls_setting_reaches_the_listener() {
    let config = load(
        r#"
        [gateway.tls]
        cert_path = "a.cert"
        key_path = "a.key"
        sni = [{ name = "*.example.org", cert_path = "b.cert", key_path = "b.key" }]
        client_auth = "optional"
        client_ca_path = "ca"
        min_version = "1.3"
        pq_fallback = "deny""#,
    );
    let tls = config.unwrap().tls.server_config().unwrap();
    let files = |stem: &str| tls::IdentityFiles {
        cert_path: format!("{stem}.cert").into(),
        key_path: format!("{stem}.key").into(),
    };
    assert_eq!(tls.default, Some(files("a")));
    assert_eq!(
        tls.sni,
        [tls::SniIdentity {
            name: "*.example.org".into(),
            identity: files("b"),
            ocsp_path: None,
            is_renewed: false
        }]
    );
    assert_eq!(tls.client_auth, tls::ClientAuth::Optional { ca: "ca".into() });
    assert_eq!(tls.min_version, tls::MinVersion::Tls13);
    assert_eq!(tls.pq, tls::Pq { mode: tls::PqMode::Hybrid, fallback: tls::PqFallback::Deny });
}

#[test]
fn without_certificates_the_listener_speaks_plainly() {
    assert_eq!(load("").unwrap().tls.server_config(), None);
    for key in ["client_auth = \"required\"", "sni = [{ name = \"a\", cert_path = \"c\", key_path = \"k\" }]"]
    {
        assert!(load(&format!("tls.{key}")).unwrap_err().contains("needs a certificate of our own"));
    }
}

/// A gateway that obtains certificates, with these other settings.
fn with_acme(settings: &str) -> String {
    format!(
        "redirect_http = \"127.0.0.1:80\"\nupstream.a.endpoints = [\"http://127.0.0.1:1\"]\n\
         route = [{{ path = \"/\", host = [\"A.example\", \"*.b.example\", \"127.0.0.1\", \"local\"], upstream = \"a\" }}]\n\
         acme.agree_tos = true\n{settings}"
    )
}

#[test]
fn certificates_are_obtained_for_the_names_of_routes_or_those_that_are_listed() {
    let names = |settings: &str| load(&with_acme(settings)).unwrap().acme_names();
    assert_eq!(names(""), ["a.example"], "neither patterns nor addresses nor names without a dot");
    assert_eq!(names("acme.names = [\"C.example\", \"c.example\"]"), ["c.example"]);
    let sni = "tls.sni = [{ name = \"a.example\", cert_path = \"c\", key_path = \"k\" }]\n";
    assert!(load(&with_acme(sni)).unwrap_err().contains("there is no name"));
    let config = load(&with_acme("acme.directory = \"letsencrypt-staging\"")).unwrap();
    assert!(config.has_tls() && config.has_acme());
    assert!(config.acme.directory_url().starts_with("https://acme-staging"));
}

#[test]
fn certificates_that_no_ca_could_give_are_refused() {
    let good = with_acme("");
    let refused = |settings: &str, why: &str| assert_boundary(&good, &with_acme(settings), why);
    assert!(load("acme.email = \"a@example\"").unwrap_err().contains("agree_tos = true"));
    let no_plain = with_acme("").replace("redirect_http = \"127.0.0.1:80\"", "");
    assert_boundary(&good, &no_plain, "redirect_http = \"0.0.0.0:80\"");
    assert!(load(&format!("{no_plain}acme.challenge = \"tls-alpn-01\"")).is_ok());
    refused("acme.names = [\"*.a.example\"]", "by `dns-01` alone");
    refused("acme.names = [\"127.0.0.1\"]", "must be a DNS name");
    refused("acme.names = [\"a.example.\"]", "must be a DNS name");
    refused("acme.names = [\"bücher.example\"]", "must be a DNS name");
    refused("acme.directory = \"http://ca.example/dir\"", "must be an https: URL");
    refused("acme.directory = \"acme\"", "is not the URL of a directory");
    refused("acme.email = \"nobody\"", "one e-mail address");
    refused("acme.challenge = \"dns-01\"", "must name a program");
    refused("acme.challenge = \"dns-01\"\nacme.dns_hook = [\"hook\"]", "absolute path");
    refused("acme.dns_hook = [\"/hook\"]", "is not used with this `challenge`");
    refused("acme.dns_hook_timeout = \"11m\"", "10m at most");
    refused("acme.eab_key_id = \"k\"", "must be set with `eab_key_id`");
    refused("acme.eab_key_id = \"k\"\nacme.eab_hmac_key = \"?\"", "is not base64url");
    let wildcard =
        "acme.names = [\"*.a.example\"]\nacme.challenge = \"dns-01\"\nacme.dns_hook = [\"/hook\"]\n";
    assert_eq!(load(&with_acme(wildcard)).unwrap().acme_names(), ["*.a.example"]);
}

#[test]
fn tls_settings_that_contradict_each_other_are_refused() {
    let with = |more: &str| format!("[gateway.tls]\ncert_path = \"c\"\nkey_path = \"k\"\n{more}");
    let ca = "client_ca_path = \"ca\"\n";
    let required = "client_auth = \"required\"\n";
    assert_boundary(&with(&format!("{ca}{required}")), &with(required), "who signs the clients'");
    assert_boundary(&with(&format!("{ca}{required}")), &with(ca), "set client_auth = \"required\"");
    let deny = "pq_fallback = \"deny\"\n";
    assert_boundary(&with(deny), &with(&format!("{deny}pq = \"off\"")), "would refuse every client");
    let sni = |second: &str| {
        let one = |name: &str| format!("{{ name = \"{name}\", cert_path = \"c\", key_path = \"k\" }}");
        with(&format!("sni = [{}, {}]", one("a.example"), one(second)))
    };
    assert_boundary(&sni("b.example"), &sni("A.example"), "has two certificates");
    assert_boundary(&sni("b.example"), &sni(""), "must be a DNS name");
}

/// A route to an upstream that exists, with these other settings.
fn with_route(settings: &str) -> String {
    format!("upstream.a.endpoints = [\"http://127.0.0.1:1\"]\n[[gateway.route]]\n{settings}")
}

#[test]
fn a_route_says_plainly_what_it_is_for() {
    let path = |path: &str| with_route(&format!("path = \"{path}\"\nupstream = \"a\""));
    assert_boundary(&path("/x"), &path("x"), "must begin with `/`");
    assert_boundary(&path("/x/y/"), &path("/x//y"), "must not have empty segments");
    assert_boundary(&path("/.x/y.."), &path("/x/../y"), "must not have `.` or `..` segments");
    assert_boundary(&path("/x y"), &path("/x%20y"), "must be written plainly");
    let also = |key: &str| with_route(&format!("path = \"/\"\nupstream = \"a\"\n{key}"));
    assert_boundary(&also("host = [\"*.a.b\"]"), &also("host = [\"a.b:80\"]"), "must be a host name");
    assert_boundary(&also("methods = [\"PURGE\"]"), &also("methods = [\"get\"]"), "in capital letters");
    assert_boundary(&also("headers = { x = true }"), &also("headers.\"x y\" = \"1\""), "no name of a header");
    assert_boundary(&also("headers = { x = \"1\" }"), &also("headers.x = \"\\n\""), "no value that a header");
    assert_boundary(&also("timeout = \"1ms\""), &also("timeout = \"0s\""), "must be longer than nothing");
}

#[test]
fn a_route_leads_somewhere() {
    let with = |keys: &str| with_route(&format!("path = \"/\"\n{keys}"));
    let split = |weight: u32| with(&format!("split = [{{ upstream = \"a\", weight = {weight} }}]"));
    assert_boundary(&split(1), &split(0), "a weight above 0");
    assert_boundary(&split(1), &with("split = [{ upstream = \"b\" }]"), "there is no upstream `b`");
    assert_boundary(&with("upstream = \"a\""), &with(""), "must name an upstream");
    let both = "upstream = \"a\"\nsplit = [{ upstream = \"a\" }]";
    assert_boundary(&with("upstream = \"a\""), &with(both), "set one of them");
    let https = "redirect.to = \"https\"";
    assert_boundary(&with(&format!("upstream = \"a\"\n{https}")), &with(https), "those who come over HTTPS");
    let away = "redirect = { to = \"https://b.example\", status = 307 }";
    assert_boundary(&with(away), &with(&format!("upstream = \"a\"\n{away}")), "the upstream is not used");
    assert_boundary(&with(away), &with("redirect = { to = \"https\", status = 200 }"), "must be 301, 302");
}

#[test]
fn a_route_changes_only_what_can_be_changed() {
    let with = |keys: &str| with_route(&format!("path = \"/x\"\nupstream = \"a\"\n{keys}"));
    let words = "cannot be changed";
    assert_boundary(
        &with("request_headers.set = { a = \"b\" }"),
        &with("request_headers.set.Host = \"b\""),
        words,
    );
    assert_boundary(
        &with("response_headers.remove = [\"server\"]"),
        &with("response_headers.remove = [\"TE\"]"),
        words,
    );
    assert_boundary(&with("rewrite = \"/y\""), &with("rewrite = \"y\""), "must be a path");
    assert_boundary(
        &with("strip_prefix = true"),
        &with("strip_prefix = true\nrewrite = \"/y\""),
        "set one of them",
    );
    assert_boundary(&with("upgrade = [\"websocket\"]"), &with("upgrade = [\"h2c\"]"), "past every rule");
}

#[test]
fn a_route_says_whom_it_is_for_in_words_that_can_be_met() {
    let with = |keys: &str| with_route(&format!("path = \"/x\"\nupstream = \"a\"\n{keys}"));
    assert_boundary(
        &with("allow_from = [\"10.0.0.0/8\", \"::1\", \"unix\"]"),
        &with("allow_from = [\"10.0.0.1/8\"]"),
        "write 10.0.0.0/8",
    );
    let many = |count: usize| format!("deny_from = [{}]", "\"::1\",".repeat(count));
    assert_boundary(&with(&many(1024)), &with(&many(1025)), "more than 1024");
    let no_value = "must name a value";
    let claims = |claims: &str| with(&format!("require_claims = {{ {claims} }}"));
    assert_boundary(&claims("scope = \"a\""), &claims("scope = \"\""), no_value);
    assert_boundary(&claims("scope = [\"a\", \"b\"]"), &claims("scope = []"), no_value);
    assert_boundary(&claims("\"/a/b\" = \"c\""), &claims("\"/\" = \"c\""), "must name a claim");
}

#[test]
fn a_route_that_can_never_be_taken_is_refused_at_its_line() {
    let two = |first: &str, second: &str| {
        with_route(&format!(
            "path = \"/x\"\nupstream = \"a\"\n{first}\n[[gateway.route]]\npath = \"/x/\"\nupstream = \"a\"\n{second}"
        ))
    };
    assert_boundary(&two("", "host = [\"b\"]"), &two("", ""), "is routed twice");
    let methods = |names: &str| format!("methods = [{names}]");
    let posts = methods("\"POST\"");
    assert_boundary(
        &two(&posts, &methods("\"POST\", \"PUT\"")),
        &two(&methods("\"POST\", \"PUT\""), &posts),
        "twice",
    );
    let report = load(&two("", "")).unwrap_err();
    assert!(report.contains("test.toml:8"), "the second route's line is missing in\n{report}");
}

#[test]
fn a_share_of_the_requests_is_logged() {
    assert_boundary("access_log.sample = 1.0", "access_log.sample = 1.01", "must be between 0 and 1");
    assert_boundary("access_log.sample = 0.0", "access_log.sample = -0.01", "must be between 0 and 1");
}

/// A route to `a` with these settings; there are the upstreams `a`, `b` and `s`, which is sticky.
fn route_to_a(settings: &str) -> String {
    let upstream = |name: &str| format!("upstream.{name}.endpoints = [\"http://127.0.0.1:1\"]\n");
    format!(
        "route = [{{ path = \"/\", upstream = \"a\", {settings} }}]\n{}{}{}upstream.s.sticky.cookie = \"c\"",
        upstream("a"),
        upstream("b"),
        upstream("s")
    )
}

#[test]
fn regular_expressions_are_checked_where_they_stand() {
    let is = |good: &str, bad: &str, words: &str| assert_boundary(&route_to_a(good), &route_to_a(bad), words);
    is(
        "path_regex = '/a'",
        "path_regex = '/(a'",
        "`gateway.route[0].path_regex`: is not a regular expression",
    );
    is(
        "host_regex = ['a']",
        "host_regex = ['a', '[']",
        "`gateway.route[0].host_regex[1]`: is not a regular expression",
    );
    is(
        "headers = { x = { regex = 'a' } }",
        "headers = { x = { regex = '(?=a)' } }",
        "is not a regular expression",
    );
    is("headers = { x = { regex = 'a' } }", "headers = { x = { regx = 'a' } }", "regx");
    is(
        "path_regex = '/(a)', rewrite = '/{1}'",
        "path_regex = '/(a)', rewrite = '/{2}'",
        "begins no group of `path_regex`",
    );
    is("path_regex = '/a{9}'", "path_regex = '/((a{200}){200}){200}'", "needs more than");
    let redirect = |to: &str| {
        format!("route = [{{ path = \"/\", path_regex = '/(?<n>a)', redirect = {{ to = \"{to}\" }} }}]")
    };
    assert_boundary(&redirect("/x/{n}"), &redirect("/x/{m}"), "nor a group of `path_regex`");
    assert_boundary(&redirect("https://a/{n}"), &redirect("https://a{n}"), "needs a `/` between its host");
    let many = |count: usize| {
        let route = |index| format!("{{ path = \"/{index}\", path_regex = '.*', respond = {{}} }}");
        let routes: Vec<String> = (0..count).map(route).collect();
        format!("route = [{}]", routes.join(",\n"))
    };
    assert_boundary(&many(512), &many(513), "more than 512 regular expressions");
}

#[test]
fn mirrors_and_rates_have_their_bounds() {
    let is = |good: &str, bad: &str, words: &str| assert_boundary(&route_to_a(good), &route_to_a(bad), words);
    let mirror = |more: &str| format!("mirror = {{ upstream = \"b\"{more} }}");
    is(&mirror(""), "mirror = { upstream = \"c\" }", "there is no upstream `c`");
    is(&mirror(""), "mirror = { upstream = \"a\" }", "must be another upstream");
    is(&mirror(", percent = 100"), &mirror(", percent = 100.1"), "must be from 0.01 to 100");
    is(&mirror(", percent = 0.01"), &mirror(", percent = 0"), "must be from 0.01 to 100");
    is(&mirror(", max_inflight = 4096"), &mirror(", max_inflight = 4097"), "must be from 1 to 4096");
    is(&mirror(", max_body_bytes = \"1MiB\""), &mirror(", max_body_bytes = 1048577"), "must be at most 1MiB");
    is(&mirror(""), &format!("{}, cache = {{}}", mirror("")), "without `cache` and `stream`");
    is("rate = { requests = 1 }", "rate = { requests = 0 }", "must be at least 1");
    is("rate = { requests = 1, per = \"24h\" }", "rate = { requests = 1, per = \"25h\" }", "from 1ms to 24h");
    is(
        "cache = {}",
        "split = [{ upstream = \"s\" }], cache = {}",
        "is not for routes to an upstream with `sticky`",
    );
}
