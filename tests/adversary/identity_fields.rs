//! Header fields by which a client claims to be somebody else, or has the gateway's own fields removed.

use crate::support::{Client, Node, UNLIMITED, Upstream, ask};

/// The head that the server behind a node saw of a GET of `/head` with these fields.
#[track_caller]
fn seen(node: &Node, fields: &str) -> String {
    let answer = ask(node.gateway, format!("GET /head HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).unwrap();
    assert_eq!(answer.status, 200, "{fields}: {answer:?}");
    answer.body.to_ascii_lowercase()
}

fn node_with(upstream: &Upstream, settings: &str, route: &str) -> Node {
    Node::start(&format!(
        "{UNLIMITED}{settings}route = [{{ path = \"/\", upstream = \"up\"{route} }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ))
}

#[test]
fn a_look_alike_of_the_tenant_field_does_not_reach_the_server() {
    let upstream = Upstream::start();
    let node = node_with(&upstream, "", "");
    for name in [
        "X-Omnigate-Tenant",
        "X_Omnigate_Tenant",
        "x-omnigate_tenant",
        "X.Omnigate.Tenant",
        "x-omnigate-anything",
        "X_Corr_ID",
        "X_Request_Timeout_Ms",
    ] {
        let seen = seen(&node, &format!("{name}: victim\r\n"));
        assert!(!seen.contains("victim"), "{name}: {seen}");
    }
}

#[test]
fn a_client_cannot_have_the_tenant_field_removed() {
    let upstream = Upstream::start();
    let node = node_with(&upstream, "tenant_from = [\"header:x-tenant\"]\n", "");
    for connection in ["x-omnigate-tenant", "close, X-Omnigate-Tenant", "X_Omnigate_Tenant"] {
        let own = "x-omnigate-tenant: victim\r\nx_omnigate_tenant: victim\r\n";
        let seen = seen(&node, &format!("x-tenant: acme\r\n{own}connection: {connection}\r\n"));
        assert!(seen.contains("x-omnigate-tenant: acme\r\n"), "{connection}: {seen}");
        assert!(!seen.contains("victim"), "{connection}: {seen}");
    }
}

#[test]
fn a_rule_of_the_route_cannot_change_the_tenant_field() {
    let upstream = Upstream::start();
    let rules = ", request_headers = { set = { x-omnigate-tenant = \"other\" } }";
    let node = node_with(&upstream, "tenant_from = [\"header:x-tenant\"]\n", rules);
    assert!(seen(&node, "x-tenant: acme\r\n").contains("x-omnigate-tenant: acme\r\n"));
    let unnamed = seen(&node, "");
    assert!(!unnamed.contains("x-omnigate-tenant"), "{unnamed}");
}

#[test]
fn a_client_can_neither_remove_nor_imitate_what_a_rule_sets() {
    let upstream = Upstream::start();
    let rules = ", request_headers = { set = { x-user = \"gateway\", x_zone = \"gateway\" }, \
                 remove = [\"x-internal\"] }";
    let node = node_with(&upstream, "", rules);
    for fields in [
        "x-user: evil\r\n",
        "X_User: evil\r\n",
        "x.user: evil\r\n",
        "x-user: evil\r\nconnection: x-user\r\n",
        "connection: x-user, x_zone\r\n",
        "X-Zone: evil\r\n",
        "x-internal: evil\r\n",
        "x_internal: evil\r\n",
        "connection: x-internal\r\nx_internal: evil\r\n",
    ] {
        let seen = seen(&node, fields);
        assert!(seen.contains("x-user: gateway\r\n") && seen.contains("x_zone: gateway\r\n"), "{seen}");
        assert!(!seen.contains("evil"), "{fields}: {seen}");
    }
    // What no rule names is the server's business.
    assert!(seen(&node, "x_other: mine\r\n").contains("x_other: mine"));
}

#[test]
fn a_field_that_a_route_is_chosen_by_cannot_be_imitated() {
    let upstream = Upstream::start();
    let node = node_with(&upstream, "", ", headers = { x-beta = false }");
    assert!(!seen(&node, "x_beta: evil\r\n").contains("evil"));
}

/// A node with two routes to `/head`: one is chosen by header fields, and each is open or for credentials.
fn node_with_choice(upstream: &Upstream, chosen: &str, otherwise: &str) -> Node {
    Node::start(&format!(
        "{UNLIMITED}route = [{{ path = \"/head\", upstream = \"up\", {chosen} }}, \
         {{ path = \"/head\", upstream = \"up\"{otherwise} }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ))
}

/// The status that a GET of `/head` with these fields gets.
#[track_caller]
fn status(node: &Node, fields: &str) -> u16 {
    ask(node.gateway, format!("GET /head HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).unwrap().status
}

#[test]
fn a_field_that_a_route_is_chosen_by_is_said_once_and_not_removed() {
    let upstream = Upstream::start();
    let chosen = "headers = { x-role = \"guest\", x-old = false }";
    let node = node_with_choice(&upstream, chosen, ", auth = \"always\"");
    assert_eq!(status(&node, "x-role: admin\r\n"), 401);
    for fields in [
        "x-role: guest\r\nx-role: admin\r\n",
        "x-role: admin\r\nx-role: guest\r\n",
        "x-role: guest\r\nx-role: guest\r\n",
        "x-role: guest\r\nconnection: x-role\r\n",
        "x-role: guest\r\nx-old: 1\r\nconnection: X-Old\r\n",
    ] {
        let answer = ask(node.gateway, format!("GET /head HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).unwrap();
        assert_eq!(answer.status, 400, "{fields}: {answer:?}");
        assert!(answer.closes && answer.body.contains("decides about the route"), "{fields}: {answer:?}");
    }
    assert_eq!(upstream.arrived(), 0);
    assert!(seen(&node, "x-role: guest\r\n").contains("x-role: guest\r\n"));
}

#[test]
fn a_field_that_another_route_is_chosen_by_cannot_be_imitated() {
    let upstream = Upstream::start();
    let node = node_with_choice(&upstream, "headers = { x-int = true }, auth = \"always\"", "");
    assert_eq!(status(&node, "x-int: 1\r\n"), 401);
    assert_eq!(status(&node, "x-int: 1\r\nconnection: x-int\r\n"), 400);
    for alike in ["X_Int", "x.int"] {
        assert!(!seen(&node, &format!("{alike}: evil\r\n")).contains("evil"), "{alike}");
    }
}

#[test]
fn no_route_is_chosen_by_what_only_a_proxy_may_say() {
    let upstream = Upstream::start();
    for name in ["x-forwarded-proto", "x-forwarded-host", "x-client-ip"] {
        let chosen = format!("headers = {{ {name} = \"https\" }}");
        let node = node_with_choice(&upstream, &chosen, ", auth = \"always\"");
        assert_eq!(status(&node, &format!("{name}: https\r\n")), 401, "{name}");
    }
    assert_eq!(upstream.arrived(), 0);
}

/// What proxies tell servers of their clients, and servers believe.
const CLAIMS: [&str; 49] = [
    "Proxy-Client-IP",
    "WL-Proxy-Client-IP",
    "WL-Proxy-Client-Cert",
    "WL-Proxy-SSL",
    "X-ARR-ClientCert",
    "X-ARR-SSL",
    "X-Forwarded-For",
    "X-Forwarded-Host",
    "X-Forwarded-Port",
    "X-Forwarded-Prefix",
    "X-Forwarded-Ssl",
    "X-Forwarded-User",
    "X-Forwarded-Client-Cert",
    "X-Forwarded-Anything",
    "X-Forwarded",
    "Forwarded-For",
    "Client-IP",
    "True-Client-IP",
    "X-Client-IP",
    "X-Cluster-Client-IP",
    "CF-Connecting-IP",
    "CF-Connecting-IPv6",
    "Fastly-Client-IP",
    "Fly-Client-IP",
    "X-Azure-ClientIP",
    "X-Azure-SocketIP",
    "X-AppEngine-User-IP",
    "X-Originating-IP",
    "X-Remote-IP",
    "X-Remote-Addr",
    "X-Envoy-External-Address",
    "X-Envoy-Original-Path",
    "X-Original-URI",
    "X-Host",
    "X-Original-Host",
    "X-HTTP-Host-Override",
    "X-Scheme",
    "X-URL-Scheme",
    "Front-End-Https",
    "Client-Cert",
    "Client-Cert-Chain",
    "X-Client-Cert",
    "X-SSL-Client-Cert",
    "X-SSL-Client-Verify",
    "SSL-Client-Verify",
    "X-Amzn-Mtls-Clientcert",
    "X-HTTP-Method-Override",
    "X-HTTP-Method",
    "X-Method-Override",
];

#[test]
fn what_only_a_proxy_may_say_is_removed_from_what_a_client_says() {
    let upstream = Upstream::start();
    let node = node_with(&upstream, "", "");
    for name in CLAIMS {
        for name in [name.to_owned(), name.replace('-', "_")] {
            let seen = seen(&node, &format!("{name}: evil\r\n"));
            assert!(!seen.contains("evil"), "{name}: {seen}");
        }
    }
}

#[test]
fn what_a_trusted_proxy_says_goes_on() {
    let upstream = Upstream::start();
    let node = node_with(&upstream, "trusted_proxies = [\"127.0.0.0/8\"]\n", "");
    for name in CLAIMS.into_iter().filter(|name| *name != "X-Forwarded-For") {
        let line = format!("{}: said-by-the-proxy", name.to_ascii_lowercase());
        let (honest, alike) = (format!("{line}\r\n"), line.replacen('-', "_", 1));
        let seen = seen(&node, &format!("{honest}{alike}\r\n"));
        assert!(seen.contains(&honest), "{name}: {seen}");
        assert!(!seen.contains(&alike), "{name}: {seen}");
    }
}

#[test]
fn what_nobody_may_say_goes_nowhere() {
    let upstream = Upstream::start();
    for settings in ["", "trusted_proxies = [\"127.0.0.0/8\"]\n"] {
        let node = node_with(&upstream, settings, "");
        for name in ["X-Real-IP", "X-Original-URL", "X-Rewrite-URL", "Proxy", "x_real_ip"] {
            let seen = seen(&node, &format!("{name}: evil\r\n"));
            assert!(!seen.contains("evil"), "{name}: {seen}");
        }
        let seen = seen(&node, "Forwarded: for=192.0.2.66;host=evil\r\n");
        assert!(!seen.contains("evil") && !seen.contains("\r\nforwarded:"), "{seen}");
    }
}

#[test]
fn several_credentials_or_tenants_in_one_request_are_refused() {
    let upstream = Upstream::start();
    let node = node_with(&upstream, "tenant_from = [\"header:x-tenant\"]\n", "");
    for fields in [
        "authorization: Bearer a\r\nauthorization: Bearer b\r\n",
        "authorization: Bearer a\r\nauthorization: Bearer a\r\n",
        "authorization: Bearer a\r\nconnection: authorization\r\n",
        "x-tenant: a\r\nx-tenant: b\r\n",
        "x-tenant: a b\r\n",
        "x-tenant: \u{e9}\r\n",
        &format!("x-tenant: {}\r\n", "a".repeat(200)),
    ] {
        let answer = ask(node.gateway, format!("GET /head HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).unwrap();
        assert_eq!((answer.status, answer.json()["reason"].as_str()), (400, Some("malformed")), "{fields}");
        assert!(answer.closes, "{fields}");
    }
    assert_eq!(upstream.arrived(), 0);
    assert!(seen(&node, "x-tenant: a\r\n").contains("x-omnigate-tenant: a\r\n"));
}

#[test]
fn the_field_that_names_the_tenant_reaches_the_server_as_it_was_judged() {
    let upstream = Upstream::start();
    let node = node_with(&upstream, "tenant_from = [\"header:x-tenant\"]\n", "");
    for alike in ["X_Tenant", "x.tenant"] {
        let seen = seen(&node, &format!("x-tenant: acme\r\n{alike}: victim\r\n"));
        assert!(seen.contains("\r\nx-tenant: acme\r\n") && !seen.contains("victim"), "{seen}");
    }
    let removed = "GET /head HTTP/1.1\r\nhost: a\r\nx-tenant: acme\r\nconnection: X-Tenant\r\n\r\n";
    let answer = ask(node.gateway, removed).unwrap();
    assert_eq!((answer.status, answer.json()["reason"].as_str()), (400, Some("malformed")));
}

#[test]
fn a_connection_does_not_mix_up_tenants_that_different_fields_name() {
    let upstream = Upstream::start();
    let sources = "tenant_from = [\"header:x-team\", \"header:x-tenant\"]\n";
    let node = node_with(&upstream, sources, "");
    let mut client = Client::connect(node.gateway).unwrap();
    for (fields, tenant) in [
        ("x-tenant: acme\r\n", "acme"),
        ("x-tenant: umbrella\r\n", "umbrella"),
        ("x-team: red\r\nx-tenant: umbrella\r\n", "red"),
        ("x-tenant: umbrella\r\n", "umbrella"),
    ] {
        let seen = client.ask(format!("GET /head HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).unwrap().body;
        assert!(seen.contains(&format!("x-omnigate-tenant: {tenant}\r\n")), "{tenant}: {seen}");
    }
}
