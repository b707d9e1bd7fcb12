//! The table against a naive reading of the rules, and what its rules mean, row by row.

#![expect(clippy::unwrap_used, reason = "tests")]

use http::{HeaderMap, HeaderName, HeaderValue, Method};
use proptest::prelude::*;

use super::{
    host::HostPattern,
    narrowing::Narrowing,
    table::{Asked, Lookup, Table},
};
use crate::config::{HeaderWanted, RouteConfig};

fn table(routes: &[RouteConfig]) -> Table {
    Table::new(routes.iter().map(|route| {
        let (narrowing, flaws) = Narrowing::new(route);
        assert_eq!(flaws, []);
        (route.path.as_str(), narrowing)
    }))
}

fn route(path: &str) -> RouteConfig {
    RouteConfig { path: path.into(), ..RouteConfig::default() }
}

fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

fn find(table: &Table, method: &Method, host: &str, path: &str) -> Lookup {
    table.find(&Asked { path, host: Some(host), method, headers: &HeaderMap::new() })
}

#[test]
fn the_longest_prefix_of_whole_segments_wins() {
    let table = table(&[route("/api"), route("/api/v1/"), route("/"), route("/app")]);
    for (path, expected) in [
        ("/", 2),
        ("/api", 0),
        ("/api/", 0),
        ("/api/v1", 1),
        ("/api/v1/x", 1),
        ("/api/v10", 0),
        ("/apix", 2),
        ("//api//v1", 1),
        ("/%61pi/v1", 1),
        ("/api%2Fv1%2fx", 1),
        ("/api;v=2/v1", 1),
        ("/API", 2),
    ] {
        assert_eq!(find(&table, &Method::GET, "h", path), Lookup::Found(expected), "{path}");
    }
    assert_eq!(find(&table, &Method::OPTIONS, "h", "*"), Lookup::NotFound);
}

#[test]
fn a_route_of_a_whole_path_leaves_longer_ones_to_others() {
    let view = Narrowing::new(&RouteConfig { methods: strings(&["GET"]), ..route("/v/home") }).0;
    let any = Narrowing::default;
    let table = Table::new([("/v/home", view.of_whole_path()), ("/", any()), ("/v/home/deep", any())]);
    for (path, expected) in [
        ("/v/home", 0),
        ("/v/home/", 0),
        ("/v/%68ome;a=1", 0),
        ("/v/home/x", 1),
        ("/v/home%2fx", 1),
        ("/v/home/x/", 1),
        ("/v/home/deep/x", 2),
        ("/v/homes", 1),
        ("/v", 1),
    ] {
        assert_eq!(find(&table, &Method::GET, "h", path), Lookup::Found(expected), "{path}");
    }
    assert!(matches!(find(&table, &Method::POST, "h", "/v/home"), Lookup::MethodNotAllowed(_)));
    assert_eq!(find(&table, &Method::POST, "h", "/v/home/x"), Lookup::Found(1));
}

#[test]
fn of_equal_prefixes_the_narrower_description_wins() {
    let wild = RouteConfig { host: strings(&["*.a.example"]), ..route("/x") };
    let exact = RouteConfig { host: strings(&["b.example", "w.a.example"]), ..route("/x/") };
    let posts = RouteConfig { methods: strings(&["POST"]), ..route("/x") };
    let table = table(&[route("/x"), posts, wild, exact, route("/")]);
    for (method, host, expected) in [
        (Method::GET, "w.a.example", 3),
        (Method::POST, "W.A.Example", 3),
        (Method::GET, "v.a.example", 2),
        (Method::POST, "v.a.example", 2),
        (Method::POST, "c.example", 1),
        (Method::GET, "c.example", 0),
    ] {
        assert_eq!(find(&table, &method, host, "/x/y"), Lookup::Found(expected), "{method} {host}");
    }
}

#[test]
fn a_route_for_other_methods_is_405_and_no_shorter_prefix_is_tried() {
    let reads = RouteConfig { methods: strings(&["GET", "OPTIONS"]), ..route("/x") };
    let puts = RouteConfig { methods: strings(&["PUT"]), host: strings(&["a.example"]), ..route("/x") };
    let table = table(&[route("/"), reads, puts]);
    assert_eq!(find(&table, &Method::HEAD, "h", "/x"), Lookup::Found(1), "GET includes HEAD");
    let allowed = |names| Lookup::MethodNotAllowed(HeaderValue::from_static(names));
    assert_eq!(find(&table, &Method::POST, "h", "/x/y"), allowed("GET, HEAD, OPTIONS"));
    assert_eq!(find(&table, &Method::POST, "a.example", "/x"), allowed("GET, HEAD, OPTIONS, PUT"));
    assert_eq!(find(&table, &Method::GET, "a.example", "/x"), Lookup::Found(1));
}

#[test]
fn a_route_for_other_hosts_or_fields_leaves_the_request_to_a_shorter_prefix() {
    let field = |wanted| [("x-v".to_owned(), wanted)].into();
    let other = RouteConfig { host: strings(&["a.example"]), ..route("/x") };
    let valued = RouteConfig { headers: field(HeaderWanted::Value("2".into())), ..route("/y") };
    let absent = RouteConfig { headers: field(HeaderWanted::Present(false)), ..route("/z") };
    let table = table(&[route("/"), other, valued, absent]);
    assert_eq!(find(&table, &Method::GET, "b.example", "/x"), Lookup::Found(0));
    let with = |path, values: &[&'static str]| {
        let mut headers = HeaderMap::new();
        for value in values {
            headers.append("x-v", HeaderValue::from_static(value));
        }
        table.find(&Asked { path, host: None, method: &Method::GET, headers: &headers })
    };
    assert_eq!(with("/y", &["2"]), Lookup::Found(2));
    assert_eq!(with("/y", &["1"]), Lookup::Found(0));
    assert_eq!(with("/y", &[]), Lookup::Found(0));
    assert_eq!(with("/z", &[]), Lookup::Found(3));
    assert_eq!(with("/z", &["1"]), Lookup::Found(0));
}

#[test]
fn a_field_that_routes_of_the_path_are_chosen_by_must_be_clear() {
    let field = |name: &str, wanted| [(name.to_owned(), wanted)].into();
    let valued = RouteConfig { headers: field("x-v", HeaderWanted::Value("2".into())), ..route("/y") };
    let absent = RouteConfig { headers: field("x-w", HeaderWanted::Present(false)), ..route("/y/z") };
    let table = table(&[route("/"), valued, absent]);
    let unclear = |path, fields: &[(&'static str, &'static str)], removed: &str| {
        let mut headers = HeaderMap::new();
        for (name, value) in fields {
            headers.append(*name, HeaderValue::from_static(value));
        }
        table.unclear_field(path, &headers, |name| name == removed).map(ToString::to_string)
    };
    let (once, twice) = ([("x-v", "2")], [("x-v", "2"), ("x-v", "2")]);
    assert_eq!(unclear("/y", &once, ""), None);
    assert_eq!(unclear("/y", &once, "x-v").as_deref(), Some("x-v"));
    for path in ["/y", "/y/", "/y/a", "/y/z/a", "//%79"] {
        assert_eq!(unclear(path, &twice, "").as_deref(), Some("x-v"), "{path}");
    }
    assert_eq!(unclear("/x", &twice, "x-v"), None, "another path");
    // Where only the presence counts, several values say the same as one.
    assert_eq!(unclear("/y/z", &[("x-w", "1"), ("x-w", "2")], ""), None);
    assert_eq!(unclear("/y/z", &[("x-w", "1")], "x-w").as_deref(), Some("x-w"));
}

#[test]
fn split_cookies_are_compared_as_servers_get_them() {
    let wanted = [("cookie".to_owned(), HeaderWanted::Value("a=1; b=2".into()))].into();
    let table = table(&[route("/"), RouteConfig { headers: wanted, ..route("/y") }]);
    for (crumbs, expected) in [(&["a=1; b=2"] as &[_], 1), (&["a=1", "b=2"], 1), (&["a=1; b=2", "c=3"], 0)] {
        let mut headers = HeaderMap::new();
        for crumb in crumbs {
            headers.append("cookie", HeaderValue::from_static(crumb));
        }
        assert_eq!(table.unclear_field("/y", &headers, |_| false), None);
        let asked = Asked { path: "/y", host: None, method: &Method::GET, headers: &headers };
        assert_eq!(table.find(&asked), Lookup::Found(expected), "{crumbs:?}");
    }
}

/// The same rules, read from the configuration one by one.
fn oracle(
    routes: &[RouteConfig],
    method: &Method,
    host: &str,
    path: &str,
    headers: &HeaderMap,
) -> Option<usize> {
    let covers = |prefix: &str| {
        let prefix = prefix.trim_end_matches('/');
        path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    let host_rank = |route: &RouteConfig| match route.host.as_slice() {
        [] => Some(0),
        hosts => hosts
            .iter()
            .filter(|pattern| pattern.parse::<HostPattern>().unwrap().covers(host))
            .map(|pattern| if pattern.starts_with('*') { 1 } else { 2 })
            .max(),
    };
    let has_fields = |route: &RouteConfig| {
        route.headers.iter().all(|(name, wanted)| match wanted {
            HeaderWanted::Present(present) => headers.contains_key(name) == *present,
            HeaderWanted::Value(value) => headers.get_all(name).iter().eq([value.as_str()]),
            HeaderWanted::Matching { .. } => unreachable!("not generated"),
        })
    };
    let fitting: Vec<_> = (0..routes.len())
        .filter(|index| covers(&routes[*index].path) && has_fields(&routes[*index]))
        .filter_map(|index| Some((index, &routes[index], host_rank(&routes[index])?)))
        .collect();
    let length = |route: &RouteConfig| route.path.trim_end_matches('/').len();
    let longest = fitting.iter().map(|(_, route, _)| length(route)).max()?;
    fitting
        .iter()
        .filter(|(_, route, _)| length(route) == longest)
        .filter(|(_, route, _)| {
            route.methods.is_empty() || route.methods.iter().any(|m| m == method.as_str())
        })
        .max_by_key(|(index, route, host)| {
            (*host, !route.methods.is_empty(), route.headers.len(), std::cmp::Reverse(*index))
        })
        .map(|(index, ..)| *index)
}

fn any_route() -> impl Strategy<Value = RouteConfig> {
    let hosts = proptest::collection::vec("(\\*\\.)?[ab]\\.c|c", 0..3);
    let methods = proptest::collection::vec("POST|PUT", 0..2);
    let wanted =
        prop_oneof![any::<bool>().prop_map(HeaderWanted::Present), "[12]".prop_map(HeaderWanted::Value)];
    let headers = proptest::collection::btree_map("x-[ab]", wanted, 0..2);
    ("(/[ab]{1,2}){0,3}/?", hosts, methods, headers).prop_map(|(path, host, methods, headers)| RouteConfig {
        path: if path.is_empty() { "/".into() } else { path },
        host,
        methods,
        headers,
        ..RouteConfig::default()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn the_table_agrees_with_a_naive_reading_of_the_rules(
        routes in proptest::collection::vec(any_route(), 0..12),
        path in "(/[ab]{1,2}){0,4}/?",
        host in "([ab]\\.)?([ab]\\.)?c",
        method in "POST|PUT",
        fields in proptest::collection::vec(("x-[ab]", "[12]"), 0..3),
    ) {
        let path = if path.is_empty() { "/" } else { &path };
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        let mut headers = HeaderMap::new();
        for (name, value) in &fields {
            headers.append(name.parse::<http::HeaderName>().unwrap(), value.parse().unwrap());
        }
        let found = table(&routes).find(&Asked { path, host: Some(&host), method: &method, headers: &headers });
        let found = match found {
            Lookup::Found(index) => Some(index),
            Lookup::MethodNotAllowed(_) | Lookup::NotFound | Lookup::TooCostly => None,
        };
        prop_assert_eq!(found, oracle(&routes, &method, &host, path, &headers));
    }

    #[test]
    fn no_spelling_of_a_path_leads_past_its_route(
        path in "(/[abc]{1,3}){1,4}", seed in proptest::collection::vec(any::<u8>(), 24)
    ) {
        let respelt: String = path.bytes().zip(seed).map(|(byte, how)| match (byte, how % 4) {
            (b'/', 1) => "//".to_owned(),
            (b'/', 2) => "/;p=1/".to_owned(),
            (_, 3) => format!("%{byte:02x}"),
            _ => char::from(byte).to_string(),
        }).collect();
        // A path begins with a slash, or it is no path.
        let respelt = format!("/{respelt}");
        let first = format!("/{}", path.split('/').nth(1).unwrap());
        let table = table(&[route(&first), route(&path), route("/")]);
        prop_assert_eq!(find(&table, &Method::GET, "h", &respelt), find(&table, &Method::GET, "h", &path), "{}", respelt);
        prop_assert_eq!(super::path::check(&respelt), Ok(()));
    }
}

#[test]
fn regular_expressions_narrow_a_prefix_and_come_before_routes_without() {
    let regex = |path: &str, regex: &str| RouteConfig { path_regex: regex.into(), ..route(path) };
    let hosts = RouteConfig { host_regex: strings(&[r"shop[0-9]+\.example"]), ..route("/h") };
    let wildcard = RouteConfig { host: strings(&["*.example"]), ..route("/h") };
    let wanted = [("x-v".to_owned(), HeaderWanted::Matching { regex: r"2\.[0-9]+".into() })].into();
    let valued = RouteConfig { headers: wanted, ..route("/v") };
    let table = table(&[
        route("/users"),
        regex("/users", "/users/([0-9]+)"),
        regex("/", "/.*[.]php"),
        route("/"),
        hosts,
        wildcard,
        valued,
    ]);
    for (host, path, expected) in [
        ("h", "/users/7", 1),
        ("h", "/users/7/", 1),
        ("h", "//users/%37;x=1", 1),
        ("h", "/users/7/photos", 0),
        ("h", "/users/seven", 0),
        ("h", "/index.php", 2),
        ("h", "/index%2ephp", 2),
        ("h", "/users/x.php", 0),
        ("h", "/index.php5", 3),
        ("SHOP12.example", "/h", 5),
        ("shop12.example", "/v", 3),
    ] {
        assert_eq!(find(&table, &Method::GET, host, path), Lookup::Found(expected), "{host}{path}");
    }
    let only_hosts = RouteConfig { host_regex: strings(&[r"shop[0-9]+\.example"]), ..route("/h") };
    let table = self::table(&[only_hosts, route("/h")]);
    assert_eq!(find(&table, &Method::GET, "SHOP12.example", "/h"), Lookup::Found(0));
    assert_eq!(find(&table, &Method::GET, "shop.example", "/h"), Lookup::Found(1));
}

#[test]
fn a_field_is_matched_as_a_whole_by_a_regular_expression() {
    let wanted = [("x-v".to_owned(), HeaderWanted::Matching { regex: r"2\.[0-9]+".into() })].into();
    let table = table(&[route("/"), RouteConfig { headers: wanted, ..route("/") }]);
    for (value, expected) in [(Some("2.1"), 1), (Some("2.x"), 0), (Some("12.1"), 0), (None, 0)] {
        let headers: HeaderMap = value
            .map(|value| (HeaderName::from_static("x-v"), HeaderValue::from_static(value)))
            .into_iter()
            .collect();
        let found = table.find(&Asked { path: "/", host: None, method: &Method::GET, headers: &headers });
        assert_eq!(found, Lookup::Found(expected), "{value:?}");
    }
    let mut several = HeaderMap::new();
    several.append("x-v", HeaderValue::from_static("2.1"));
    several.append("x-v", HeaderValue::from_static("2.2"));
    assert!(table.unclear_field("/", &several, |_| false).is_some(), "which value counts would be unclear");
}
