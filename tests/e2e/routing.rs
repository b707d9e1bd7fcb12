//! Sticky sessions, regular expressions, mirrors and rates of routes, with real servers behind the node.

use std::{
    io::{Read as _, Write as _},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::mpsc,
    thread,
};

use crate::support::{Answer, Client, Node, UNLIMITED, Upstream, ask, eventually, get};

/// Settings of a gateway in front of these servers, with these settings of the upstream.
fn in_front_of(servers: &[SocketAddr], upstream: &str) -> String {
    let endpoints: Vec<String> = servers.iter().map(|addr| format!("\"http://{addr}\"")).collect();
    format!(
        "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\" }}]\n\
         [gateway.upstream.up]\nendpoints = [{}]\n{upstream}\n",
        endpoints.join(", ")
    )
}

fn with_field(path: &str, field: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{field}\r\n\r\n")
}

/// The cookie that an answer sets, as a client would send it back.
fn cookie_of(answer: &Answer) -> String {
    answer.header("set-cookie").unwrap_or_else(|| panic!("{answer:?}")).split(';').next().unwrap().to_owned()
}

fn sticky(node: &Node, outcome: &str) -> f64 {
    node.metric(&format!(
        "upstream_sticky_requests_total{{node=\"omnigate\",service=\"gateway\",upstream=\"up\",outcome=\"{outcome}\"}}"
    ))
}

#[test]
fn a_client_with_a_cookie_stays_at_its_server_and_the_cookie_tells_nothing_of_it() {
    let servers = [Upstream::start(), Upstream::start(), Upstream::start()];
    let addrs = servers.each_ref().map(|server| server.addr);
    let node = Node::start(&in_front_of(&addrs, "sticky = { cookie = \"route\", max_age = \"1h\" }"));
    let first = get(node.gateway, "/a").unwrap();
    let field = first.header("set-cookie").unwrap();
    assert!(field.ends_with("; Path=/; HttpOnly; SameSite=Lax; Max-Age=3600"), "{field}");
    let cookie = cookie_of(&first);
    let value = cookie.strip_prefix("route=").unwrap();
    assert!(value.len() == 32 && value.bytes().all(|byte| byte.is_ascii_hexdigit()), "{value}");
    let before = servers.each_ref().map(Upstream::arrived);
    for _ in 0..20 {
        let answer = ask(node.gateway, with_field("/b", &format!("cookie: a=1; {cookie}"))).unwrap();
        assert_eq!((answer.status, answer.header("set-cookie")), (200, None));
    }
    let after = servers.each_ref().map(Upstream::arrived);
    let got: Vec<usize> = before.iter().zip(after).map(|(before, after)| after - before).collect();
    assert!(got.contains(&20), "all go to one server: {got:?}");
    // What no server has issued is no cookie.
    for forged in
        ["route=", "route=00000000000000000000000000000000", "route=127.0.0.1", &cookie.to_uppercase()]
    {
        let answer = ask(node.gateway, with_field("/c", &format!("cookie: {forged}"))).unwrap();
        assert!(answer.status == 200 && answer.header("set-cookie").is_some(), "{forged}: {answer:?}");
    }
    assert_eq!((sticky(&node, "kept"), sticky(&node, "new"), sticky(&node, "moved")), (20.0, 5.0, 0.0));
}

#[test]
fn a_server_that_leaves_loses_its_clients_to_others_without_an_error() {
    let servers = [Upstream::start(), Upstream::start()];
    let settings = |addrs: &[SocketAddr]| {
        in_front_of(addrs, "sticky = { cookie = \"route\", secret = \"0123456789abcdef\" }")
    };
    let node = Node::start(&settings(&[servers[0].addr, servers[1].addr]));
    let answer = get(node.gateway, "/").unwrap();
    let cookie = cookie_of(&answer);
    let (left, kept) = if servers[0].arrived() == 1 { (0, 1) } else { (1, 0) };
    node.reload(&settings(&[servers[kept].addr]));
    let moved = ask(node.gateway, with_field("/", &format!("cookie: {cookie}"))).unwrap();
    assert_eq!(moved.status, 200);
    let new = cookie_of(&moved);
    assert_ne!(cookie, new);
    // It comes back, and gets only those who still have its cookie.
    node.reload(&settings(&[servers[0].addr, servers[1].addr]));
    let (before_left, before_kept) = (servers[left].arrived(), servers[kept].arrived());
    assert_eq!(
        ask(node.gateway, with_field("/", &format!("cookie: {new}"))).unwrap().header("set-cookie"),
        None
    );
    assert_eq!(
        ask(node.gateway, with_field("/", &format!("cookie: {cookie}"))).unwrap().header("set-cookie"),
        None
    );
    assert_eq!((servers[left].arrived(), servers[kept].arrived()), (before_left + 1, before_kept + 1));
}

#[test]
fn requests_with_the_same_key_go_to_the_same_server_and_those_of_a_dead_one_to_others() {
    let servers = [Upstream::start(), Upstream::start()];
    let dead = crate::support::free_addr();
    let addrs = [servers[0].addr, dead, servers[1].addr];
    let node = Node::start(&in_front_of(&addrs, "sticky = { hash = \"header:x-user\", max_load = 100 }"));
    let mut client = Client::connect(node.gateway).unwrap();
    let mut homes = Vec::new();
    for user in 0..30 {
        let mut home = None;
        for _ in 0..3 {
            let before = servers.each_ref().map(Upstream::arrived);
            let answer = client.ask(with_field("/", &format!("x-user: {user}"))).unwrap();
            assert_eq!((answer.status, answer.header("set-cookie")), (200, None));
            let got = usize::from(servers[1].arrived() > before[1]);
            assert!(*home.get_or_insert(got) == got, "user {user} was at {home:?}, and then at {got}");
        }
        homes.extend(home);
    }
    assert!(homes.contains(&0) && homes.contains(&1), "{homes:?}");
}

#[test]
fn a_regular_expression_chooses_a_route_and_its_groups_make_the_path() {
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "{UNLIMITED}route = [\n\
         {{ path = \"/users\", upstream = \"up\" }},\n\
         {{ path = \"/users\", path_regex = '/users/(?<id>[0-9]+)/photos', upstream = \"up\", rewrite = \"/photos/{{id}}\" }},\n\
         {{ path = \"/old\", path_regex = '/old/([a-z]+)', redirect = {{ to = \"https://a.example/new/{{1}}{{query}}\" }} }},\n\
         ]\nupstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    for (path, seen) in [
        ("/users/7/photos?q=1", "/photos/7?q=1"),
        ("//users/%37/photos/", "/photos/7"),
        ("/users/x/photos", "/users/x/photos"),
        ("/users/7/photos/8", "/users/7/photos/8"),
    ] {
        assert_eq!(get(node.gateway, path).unwrap().body, seen, "{path}");
    }
    let redirected = get(node.gateway, "/old/page?a=b").unwrap();
    assert_eq!(
        (redirected.status, redirected.header("location")),
        (308, Some("https://a.example/new/page?a=b"))
    );
    assert_eq!(get(node.gateway, "/old/page2").unwrap().status, 404);
}

/// A server that tells the first request of every connection, and answers none.
fn silent() -> (SocketAddr, mpsc::Receiver<String>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    let (told, heard) = mpsc::channel();
    thread::spawn(move || {
        let mut kept = Vec::new();
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut text = [0; 4096];
            let mut length = 0;
            while !String::from_utf8_lossy(&text[..length]).contains("\r\n\r\nbody") && length < text.len() {
                match stream.read(&mut text[length..]) {
                    Ok(0) | Err(_) => break,
                    Ok(read) => length += read,
                }
            }
            let _ = told.send(String::from_utf8_lossy(&text[..length]).into_owned());
            let _ = stream.flush();
            kept.push(stream);
        }
    });
    (addr, heard)
}

fn mirrored(node: &Node, outcome: &str) -> f64 {
    node.metric(&format!(
        "upstream_mirrored_requests_total{{node=\"omnigate\",service=\"gateway\",upstream=\"shadow\",outcome=\"{outcome}\"}}"
    ))
}

fn with_mirror(upstream: SocketAddr, shadow: SocketAddr, mirror: &str) -> String {
    format!(
        "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\", mirror = {{ upstream = \"shadow\", {mirror} }} }}]\n\
         upstream.up.endpoints = [\"http://{upstream}\"]\n\
         upstream.shadow = {{ endpoints = [\"http://{shadow}\"], timeout = \"60s\", retry = {{ max_tries = 3 }} }}\n"
    )
}

#[test]
fn a_share_of_requests_is_copied_to_another_upstream() {
    let (upstream, shadow) = (Upstream::start(), Upstream::start());
    let node = Node::start(&with_mirror(upstream.addr, shadow.addr, "percent = 25"));
    let mut client = Client::connect(node.gateway).unwrap();
    for _ in 0..40 {
        assert_eq!(client.get("/a").unwrap().body, "/a");
    }
    // The turns are spread evenly, and not counted off: a few more or fewer than ten.
    eventually("the copies are answered", || (mirrored(&node, "answered") >= 8.0).then_some(()));
    let (arrived, copied) = (upstream.arrived(), shadow.arrived());
    assert!(arrived == 40 && (8..=12).contains(&copied), "{copied} of {arrived}");
}

#[test]
fn a_shadow_that_never_answers_delays_nothing_and_what_it_has_no_room_for_is_counted() {
    let upstream = Upstream::start();
    let (shadow, heard) = silent();
    let mut node =
        Node::start(&with_mirror(upstream.addr, shadow, "max_inflight = 1, max_body_bytes = \"8B\""));
    let mut client = Client::connect(node.gateway).unwrap();
    let post = |body: &str| {
        format!(
            "POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: {}\r\nx-omnigate-mirror: forged\r\n\r\n{body}",
            body.len()
        )
    };
    assert_eq!(client.ask(post("body")).unwrap().body, "4");
    let copy = heard.recv().unwrap();
    assert!(copy.starts_with("POST /length HTTP/1.1\r\n"), "{copy}");
    assert!(copy.contains("x-omnigate-mirror: 1\r\n") && !copy.contains("forged"), "{copy}");
    assert!(copy.ends_with("\r\n\r\nbody"), "{copy}");
    for _ in 0..5 {
        assert_eq!(client.ask(post("body")).unwrap().body, "4");
    }
    assert_eq!(client.ask(post("too long")).unwrap().body, "8");
    assert_eq!(client.ask(post("far too long")).unwrap().body, "12");
    assert_eq!((mirrored(&node, "busy"), mirrored(&node, "too_large")), (6.0, 1.0));
    assert_eq!(mirrored(&node, "answered") + mirrored(&node, "failed"), 0.0);
    // Nor does it hold up the end of the node.
    drop(client);
    node.signal("TERM");
    assert_eq!(node.exit_code(), 0, "{}", node.log());
    assert!(heard.try_recv().is_err(), "a copy is sent once");
}

#[test]
fn copies_leave_half_of_the_connections_to_other_requests() {
    let upstream = Upstream::start();
    let (shadow, heard) = silent();
    let settings = with_mirror(upstream.addr, shadow, "max_inflight = 64");
    let node = Node::start(&settings.replacen("timeout = \"60s\"", "timeout = \"60s\", max_conns = 4", 1));
    let mut client = Client::connect(node.gateway).unwrap();
    for _ in 0..5 {
        assert_eq!(
            client
                .ask("POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 4\r\n\r\nbody")
                .unwrap()
                .body,
            "4"
        );
    }
    for _ in 0..2 {
        heard.recv().unwrap();
    }
    assert_eq!(mirrored(&node, "busy"), 3.0);
}

#[test]
fn a_copy_has_no_credentials_unless_the_mirror_is_to_have_them() {
    let upstream = Upstream::start();
    for (setting, is_sent) in [("percent = 100", false), ("credentials = true", true)] {
        let (shadow, heard) = silent();
        let settings = with_mirror(upstream.addr, shadow, setting);
        let own = "request_headers = { set = { x-api-key = \"own-secret\" } }, mirror";
        let node = Node::start(&settings.replacen("mirror", own, 1));
        let secrets =
            "authorization: Bearer client-secret\r\ncookie: session=client-secret\r\nx-kind: test\r\n";
        let post =
            format!("POST /length HTTP/1.1\r\nhost: localhost\r\n{secrets}content-length: 4\r\n\r\nbody");
        assert_eq!(ask(node.gateway, post).unwrap().body, "4");
        let copy = heard.recv().unwrap();
        assert!(copy.contains("x-kind: test\r\n") && copy.contains("x-omnigate-mirror: 1\r\n"), "{copy}");
        for name in ["authorization: ", "cookie: ", "x-api-key: "] {
            assert_eq!(copy.contains(name), is_sent, "{name}\n{copy}");
        }
    }
}

#[test]
fn a_route_has_a_rate_of_its_own() {
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "{UNLIMITED}route = [\n\
         {{ path = \"/\", upstream = \"up\" }},\n\
         {{ path = \"/login\", upstream = \"up\", rate = {{ requests = 2, per = \"1h\" }} }},\n\
         {{ path = \"/all\", respond = {{ status = 204 }}, rate = {{ requests = 1, per = \"1h\", by = \"all\" }} }},\n\
         ]\nupstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    let status = |path: &str, from: u8| {
        let mut client = Client::connect_from(from, node.gateway).unwrap();
        client.get(path).unwrap()
    };
    assert_eq!([1, 2].map(|_| status("/login", 2).status), [200, 200]);
    let refused = status("/login/again", 2);
    assert_eq!((refused.status, refused.header("ratelimit-policy")), (429, Some("\"route\";q=2;w=3600")));
    assert!(
        refused.header("retry-after").is_some() && refused.body.contains("rate of this route"),
        "{refused:?}"
    );
    assert_eq!((status("/login", 3).status, status("/", 2).status), (200, 200), "others, and elsewhere");
    assert_eq!([2, 3].map(|from| status("/all", from).status), [204, 429]);
    assert_eq!(upstream.arrived(), 4);
}

#[test]
fn what_a_client_sends_beyond_its_own_rate_takes_nothing_from_what_all_share() {
    let node = Node::start(
        "quotas.per_ip_rps = 1\nroute = [{ path = \"/\", respond = { status = 204 }, \
         rate = { requests = 30, per = \"1h\", by = \"all\" } }]\n",
    );
    let mut flood = Client::connect_from(2, node.gateway).unwrap();
    let statuses: Vec<u16> = (0..60).map(|_| flood.get("/").unwrap().status).collect();
    assert!(statuses.contains(&429), "{statuses:?}");
    let other = Client::connect_from(3, node.gateway).unwrap().get("/").unwrap();
    assert_eq!(other.status, 204, "{other:?}");
}

#[test]
fn no_newline_in_a_path_leads_past_an_expression() {
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "{UNLIMITED}route = [\n\
         {{ path = \"/\", upstream = \"up\" }},\n\
         {{ path = \"/admin\", path_regex = '/admin(/.*)?', respond = {{ status = 403 }} }},\n\
         ]\nupstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    for path in ["/admin", "/admin/x", "/admin/x%0a", "/admin/%0ax", "/admin/a%0a/b%0d", "//admin/%0A;a"] {
        assert_eq!(get(node.gateway, path).unwrap().status, 403, "{path}");
    }
    assert_eq!(upstream.arrived(), 0);
}

#[test]
fn a_path_that_cannot_be_rewritten_does_not_reach_the_server_as_it_is() {
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "{UNLIMITED}route = [{{ path = \"/\", path_regex = '/(.*)', rewrite = \"/public/{{1}}\", upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        upstream.addr
    ));
    assert_eq!(get(node.gateway, "/admin/[").unwrap().body, "/public/admin/%5B");
    let long = format!("/admin/{}", "[".repeat(22_000));
    assert_eq!(get(node.gateway, &long).unwrap().status, 400);
    assert_eq!(upstream.arrived(), 1);
}

#[test]
fn a_long_path_that_would_keep_a_core_busy_is_refused() {
    let node = Node::start(&format!(
        "{UNLIMITED}route = [\n\
         {{ path = \"/\", respond = {{ status = 204 }} }},\n\
         {{ path = \"/\", path_regex = '/[ab]*a[ab]{{200}}', respond = {{ status = 403 }} }},\n\
         {{ path = \"/\", headers = {{ x-kind = {{ regex = '[ab]*a[ab]{{200}}' }} }}, respond = {{ status = 401 }} }},\n]\n"
    ));
    let mut bits = 1_u32;
    let mut letter = || {
        bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        if bits >> 31 == 0 { 'a' } else { 'b' }
    };
    let long: String = (0..24_000).map(|_| letter()).collect();
    assert_eq!(get(node.gateway, &format!("/{long}")).unwrap().status, 400);
    assert_eq!(ask(node.gateway, with_field("/", &format!("x-kind: {long}"))).unwrap().status, 400);
    assert_eq!(get(node.gateway, &format!("/a{}", "b".repeat(200))).unwrap().status, 403);
    assert_eq!(get(node.gateway, &format!("/{}", "b".repeat(24_000))).unwrap().status, 204);
}
