//! Routes for some addresses only, several issuers of tokens, and claims that a route asks for.

use serde_json::{Value, json};

use crate::{
    jwt_issuer::{Issuer, publish},
    support::{Client, Node, UNLIMITED, Upstream, ask, eventually},
};

#[test]
fn a_route_is_served_to_the_addresses_it_is_for() {
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "{UNLIMITED}route = [\
            {{ path = \"/\", upstream = \"up\" }}, \
            {{ path = \"/some\", upstream = \"up\", allow_from = [\"127.0.0.2\", \"10.0.0.0/8\"] }}, \
            {{ path = \"/others\", upstream = \"up\", deny_from = [\"127.0.0.2/32\"] }}, \
            {{ path = \"/moved\", redirect = {{ to = \"https://a.example\" }}, allow_from = [\"127.0.0.2\"] }}]\n\
         view.mine = {{ allow_from = [\"127.0.0.2\"], parts = [\
            {{ name = \"a\", upstream = \"up\", path = \"/x\", optional = true }}] }}\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    let status = |from: u8, path: &str| {
        let answer = Client::connect_from(from, node.gateway).unwrap().get(path).unwrap();
        if answer.status == 403 {
            assert_eq!(answer.json()["reason"], "forbidden");
        }
        answer.status
    };
    for (path, from_2, from_3) in [
        ("/", 200, 200),
        ("/some", 200, 403),
        ("/others", 403, 200),
        ("/moved", 308, 403),
        ("/v1/views/mine", 200, 403),
        ("/%73ome", 200, 403),
    ] {
        assert_eq!((status(2, path), status(3, path)), (from_2, from_3), "{path}");
    }
}

#[test]
fn paths_below_a_view_are_subject_to_the_rules_of_the_routes() {
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\", deny_from = [\"127.0.0.0/8\"] }}]\n\
         view.mine = {{ parts = [{{ name = \"a\", upstream = \"up\", path = \"/x\", optional = true }}] }}\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    let status = |path: &str| Client::connect_from(2, node.gateway).unwrap().get(path).unwrap().status;
    assert_eq!((status("/v1/views/mine"), status("/v1/views/mine/")), (200, 200));
    for path in
        ["/v1/views/mine/x", "/v1/views/mine%2fx", "/v1/views/mine//x", "/v1/views/other", "/v1/views"]
    {
        assert_eq!(status(path), 403, "{path}");
    }
}

#[test]
fn behind_a_proxy_the_address_is_the_one_that_the_proxy_names() {
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "{UNLIMITED}trusted_proxies = [\"127.0.0.1\"]\nroute = [\
            {{ path = \"/\", upstream = \"up\" }}, \
            {{ path = \"/inside\", upstream = \"up\", allow_from = [\"127.0.0.0/8\", \"10.0.0.0/8\"] }}, \
            {{ path = \"/outside\", upstream = \"up\", deny_from = [\"6.6.6.6\"] }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    let status = |path: &str, fields: &str| {
        ask(node.gateway, format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).unwrap().status
    };
    for (fields, inside, outside) in [
        ("", 200, 200),
        ("x-forwarded-for: 10.0.0.7\r\n", 200, 200),
        ("x-forwarded-for: 6.6.6.6\r\n", 403, 403),
        ("x-forwarded-for: 10.0.0.7, 6.6.6.6\r\n", 403, 403),
        // Whoever adds a field that contradicts the proxy's own must not be taken for the proxy.
        ("x-forwarded-for: 6.6.6.6\r\nforwarded: for=10.0.0.7\r\n", 403, 403),
        ("x-forwarded-for: 6.6.6.6, unknown\r\n", 403, 403),
    ] {
        assert_eq!((status("/inside", fields), status("/outside", fields)), (inside, outside), "{fields}");
        assert_eq!(status("/", fields), 200, "{fields}");
    }
    let from_elsewhere = Client::connect_from(9, node.gateway);
    let forged = "GET /inside HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 6.6.6.6\r\n\r\n";
    assert_eq!(from_elsewhere.unwrap().ask(forged).unwrap().status, 200, "its own address counts");
}

#[test]
fn refusals_by_address_use_up_the_rate_of_their_client() {
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "quotas = {{ per_ip_rps = 1, burst = 2.0 }}\n\
         route = [{{ path = \"/\", upstream = \"up\", allow_from = [\"10.0.0.0/8\"] }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    let mut client = Client::connect(node.gateway).unwrap();
    let statuses: Vec<u16> = (0..100).map(|_| client.get("/").unwrap().status).collect();
    assert!(statuses.contains(&403) && statuses.contains(&429), "{statuses:?}");
}

const FIRST: &str = "https://first.example";
const SECOND: &str = "https://second.example";

/// A node with two issuers and routes that ask for claims; and the folder of the key sets.
fn node_with_issuers(upstream: &Upstream, issuers: [&Issuer; 2]) -> (Node, tempfile::TempDir) {
    let dir = tempfile::tempdir().unwrap();
    let [first, second] =
        ["first.json", "second.json"].map(|name| dir.path().join(name).display().to_string());
    for (name, issuer) in ["first.json", "second.json"].into_iter().zip(issuers) {
        publish(dir.path(), name, &[issuer]);
    }
    let node = Node::start(&format!(
        "{UNLIMITED}tenant_from = [\"jwt:sub\", \"ip\"]\nroute = [\
            {{ path = \"/\", upstream = \"up\", auth = \"always\" }}, \
            {{ path = \"/items\", upstream = \"up\", require_claims = {{ scope = \"read:items\" }} }}, \
            {{ path = \"/staff\", upstream = \"up\", \
               require_claims = {{ scope = \"read:items\", \"/org/roles\" = [\"admin\", \"editor\"] }} }}]\n\
         view.items = {{ require_claims = {{ scope = \"read:items\" }}, parts = [\
            {{ name = \"a\", upstream = \"up\", path = \"/x\", optional = true }}] }}\n\
         upstream.up.endpoints = [\"http://{}\"]\n\
         [auth]\njwks_url = \"file:{first}\"\njwt_issuer = \"{FIRST}\"\njwt_audience = \"api\"\n\
         [[auth.issuer]]\nissuer = \"{SECOND}\"\njwks_url = \"file:{second}\"\nleeway = \"5s\"\n",
        upstream.addr
    ));
    (node, dir)
}

/// The status of a request with a token of these claims.
fn judged(node: &Node, path: &str, issuer: &Issuer, claims: &Value) -> u16 {
    let token = issuer.token(claims);
    let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer {token}\r\n\r\n");
    ask(node.gateway, request).unwrap().status
}

#[test]
fn each_issuer_is_believed_about_its_own_tokens_alone() {
    let upstream = Upstream::start();
    // Keys of the same id, as issuers that do not know each other may have.
    let (first, second) = (Issuer::new("1"), Issuer::new("1"));
    let (node, _keys) = node_with_issuers(&upstream, [&first, &second]);
    let (of_first, of_second) = (json!({ "iss": FIRST, "aud": "api" }), json!({ "iss": SECOND }));
    for (issuer, claims) in [(&first, &of_first), (&second, &of_second)] {
        eventually("the keys are there", || (judged(&node, "/x", issuer, claims) == 200).then_some(()));
    }
    for (what, issuer, claims) in [
        ("the other issuer's name", &first, of_second.clone()),
        ("the other issuer's name", &second, of_first),
        ("both names", &second, json!({ "iss": [FIRST, SECOND], "aud": "api" })),
        ("no name", &second, json!({ "aud": "api" })),
        ("a stranger's name", &second, json!({ "iss": "https://evil.example" })),
        ("no audience", &first, json!({ "iss": FIRST })),
    ] {
        assert_eq!(judged(&node, "/x", issuer, &claims), 401, "{what}");
    }
    assert_eq!(
        judged(&node, "/x", &second, &json!({ "iss": SECOND, "aud": "api" })),
        403,
        "for another audience"
    );
}

#[test]
fn a_route_asks_for_the_claims_that_it_is_configured_to() {
    let upstream = Upstream::start();
    let (first, second) = (Issuer::new("a"), Issuer::new("b"));
    let (node, _keys) = node_with_issuers(&upstream, [&first, &second]);
    let status = |path: &str, more: &Value| {
        let mut claims = json!({ "iss": SECOND, "sub": "acme" });
        claims.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        judged(&node, path, &second, &claims)
    };
    eventually("the keys are there", || (status("/x", &json!({})) == 200).then_some(()));
    for (more, items, staff) in [
        (json!({}), 403, 403),
        (json!({ "scope": "write:items" }), 403, 403),
        (json!({ "scope": "read:items:all" }), 403, 403),
        (json!({ "scope": "write:items read:items" }), 200, 403),
        (json!({ "scope": ["read:items"] }), 200, 403),
        (json!({ "scope": "read:items", "org": { "roles": "editor" } }), 200, 200),
        (json!({ "scope": "read:items", "org": { "roles": ["x", "admin"] } }), 200, 200),
        (json!({ "org": { "roles": ["admin"] } }), 403, 403),
    ] {
        // Twice: a verdict that is remembered is the same.
        for _ in 0..2 {
            assert_eq!((status("/items", &more), status("/staff", &more)), (items, staff), "{more}");
            assert_eq!(status("/v1/views/items", &more), items, "{more}");
        }
    }
    let without = ask(node.gateway, "GET /items HTTP/1.1\r\nhost: a\r\n\r\n").unwrap();
    assert_eq!(without.status, 401);
}
