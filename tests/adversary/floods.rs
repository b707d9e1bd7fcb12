//! Clients that go on far beyond their rate: each refusal costs time, so there is an end to refusals.

use std::io;

use crate::{
    h2_frames::{END_HEADERS, END_STREAM, HEADERS, PREFACE, PRIORITY, SETTINGS, WINDOW_UPDATE, block, frame},
    support::{Client, Node, UNLIMITED, Upstream, eventually, free_addr, to},
};

/// Few, so that few requests make a flood.
const RATES: &str = "quotas.per_ip_rps = 20\nquotas.refusals_rps = 50\ndrr.rate_limit_rps = 0\n";

fn node(upstream: &Upstream) -> Node {
    node_with(upstream, RATES)
}

fn node_with(upstream: &Upstream, rates: &str) -> Node {
    Node::start(&to(upstream.addr).replace(UNLIMITED, rates))
}

fn turned_away(node: &Node) -> f64 {
    node.metric(
        "connections_refused_total{node=\"omnigate\",service=\"gateway\",listener=\"gateway\",cap=\"flood\"}",
    )
}

/// Sends what is far too much from one address, whose connections must end; another must be served meanwhile.
fn assert_cut_off(flood: impl Fn(&mut Client) -> io::Result<()>) {
    assert_cut_off_at(RATES, flood);
}

/// The same at these rates.
fn assert_cut_off_at(rates: &str, flood: impl Fn(&mut Client) -> io::Result<()>) {
    let upstream = Upstream::start();
    let node = node_with(&upstream, rates);
    eventually("the address is turned away", || {
        if let Ok(mut client) = Client::connect_from(2, node.gateway) {
            let _ = flood(&mut client);
            // Whatever was answered, the connection ends.
            let _ = client.wait_for_end();
        }
        (turned_away(&node) > 0.0).then_some(())
    });
    let answer = Client::connect_from(200, node.gateway).unwrap().get("/honest").unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "/honest"));
    eventually("the address may come back", || {
        let answer =
            Client::connect_from(2, node.gateway).and_then(|mut client| client.get("/again")).ok()?;
        (answer.status == 200).then_some(())
    });
}

#[test]
fn an_address_that_floods_over_http1_is_turned_away_for_a_while() {
    assert_cut_off(|client| client.send_raw("GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(2000)));
}

#[test]
fn an_address_that_floods_over_http2_is_turned_away_for_a_while() {
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\x04\0\0\0\0\0".to_vec();
    // GET, http and / from the static table; the authority as a literal.
    let head = b"\x82\x86\x84\x01\x09localhost";
    for stream in 0..300_u32 {
        bytes.extend([0, 0, u8::try_from(head.len()).unwrap(), 1, 5]);
        bytes.extend((2 * stream + 1).to_be_bytes());
        bytes.extend(head);
    }
    assert_cut_off(|client| client.send_raw(&bytes));
}

#[test]
fn an_address_that_sends_frames_without_a_request_is_turned_away_for_a_while() {
    let frames = [
        frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1]),
        frame(SETTINGS, 0, 0, &[]),
        frame(PRIORITY, 0, 1, &[0, 0, 0, 3, 7]),
    ];
    for kind in frames {
        let hello = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
        let bytes = [hello, kind.repeat(100_000)].concat();
        assert_cut_off_at(&few_refusals(), |client| client.send_raw(&bytes));
    }
}

/// Rates at which two connections that are closed because of floods are enough, however slow the machine is.
fn few_refusals() -> String {
    RATES.replace("refusals_rps = 50", "refusals_rps = 2")
}

#[test]
fn an_address_that_sends_fields_for_a_stream_that_has_ended_is_turned_away_for_a_while() {
    // `Connection` is malformed on HTTP/2, so the library resets the stream. Then it ignores what follows on it.
    let head = [
        (":method", "GET"),
        (":scheme", "http"),
        (":authority", "a"),
        (":path", "/"),
        ("connection", "close"),
    ];
    let head = frame(HEADERS, END_HEADERS, 1, &block(&head));
    // `accept-encoding: gzip, deflate` of the static table, again and again.
    let fields = frame(HEADERS, END_HEADERS, 1, &[0x90; 1000]);
    let bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[]), &head, &fields.repeat(500)].concat();
    assert_cut_off_at(&few_refusals(), |client| client.send_raw(&bytes));
}

#[test]
fn an_address_whose_heads_over_http2_are_too_long_is_turned_away_for_a_while() {
    // Few bytes that stand for many: the library answers such heads itself.
    let long = [&[0x82, 0x86, 0x84][..], &[0x90; 1000]].concat();
    let mut bytes = [PREFACE, &frame(SETTINGS, 0, 0, &[])].concat();
    for stream in 0..200_u32 {
        bytes.extend(frame(HEADERS, END_HEADERS | END_STREAM, 2 * stream + 1, &long));
    }
    assert_cut_off_at(&few_refusals(), |client| client.send_raw(&bytes));
}

#[test]
fn an_address_that_connects_and_asks_for_nothing_is_turned_away_for_a_while() {
    let upstream = Upstream::start();
    let node = node_with(&upstream, &few_refusals());
    eventually("the address is turned away", || {
        drop(Client::connect_from(2, node.gateway));
        (turned_away(&node) > 0.0).then_some(())
    });
    let answer = Client::connect_from(200, node.gateway).unwrap().get("/honest").unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "/honest"));
}

#[test]
fn a_client_behind_a_proxy_protocol_is_turned_away_and_its_proxy_is_not() {
    let upstream = Upstream::start();
    let settings = to(upstream.addr).replace(UNLIMITED, RATES);
    let node = Node::start(&format!("proxy_protocol = [\"127.0.0.0/8\"]\n{settings}"));
    let said_by = |client: u8, request: &str| {
        let mut stream = Client::connect(node.gateway)?;
        stream.send_raw(format!("PROXY TCP4 192.0.2.{client} 192.0.2.1 1 2\r\n{request}"))?;
        stream.receive()
    };
    let request = "GET /honest HTTP/1.1\r\nhost: localhost\r\n\r\n";
    let flood = request.repeat(2000);
    eventually("the client is turned away", || {
        let _ = said_by(7, &flood);
        (turned_away(&node) > 0.0).then_some(())
    });
    let answer = said_by(8, request).unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "/honest"));
    eventually("the client may come back", || {
        said_by(7, request).ok().filter(|answer| answer.status == 200).map(drop)
    });
}

#[test]
fn an_address_that_floods_the_listener_that_redirects_is_turned_away_for_a_while() {
    let (upstream, redirects) = (Upstream::start(), free_addr());
    let settings = to(upstream.addr).replace(UNLIMITED, RATES);
    let node = Node::start(&format!("redirect_http = \"{redirects}\"\n{settings}"));
    let flood = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(2000);
    eventually("the address is turned away", || {
        if let Ok(mut client) = Client::connect_from(2, redirects) {
            let _ = client.send_raw(&flood);
            let _ = client.wait_for_end();
        }
        (turned_away(&node) > 0.0).then_some(())
    });
    let answer = Client::connect_from(200, redirects).unwrap().get("/honest").unwrap();
    assert_eq!(answer.status, 308);
}

#[test]
fn heads_that_cannot_be_served_count_too() {
    // One per connection: so few that a slow machine makes as many.
    let rates = "quotas.per_ip_rps = 1\nquotas.refusals_rps = 2\ndrr.rate_limit_rps = 0\n";
    assert_cut_off_at(rates, |client| client.send_raw("GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n"));
}

#[test]
fn refusals_because_of_the_rate_of_a_tenant_count_too() {
    let rates = "quotas.per_ip_rps = 1000\nquotas.refusals_rps = 50\ndrr.rate_limit_rps = 10\n\
                 tenant_from = [\"header:x-tenant\", \"ip\"]\n";
    for tenant in ["", "x-tenant: acme\r\n"] {
        let request = format!("GET / HTTP/1.1\r\nhost: localhost\r\n{tenant}\r\n");
        assert_cut_off_at(rates, |client| client.send_raw(request.repeat(500)));
    }
}

#[test]
fn connections_of_an_address_that_is_turned_away_leave_files_for_others() {
    const FILES: usize = 240;
    let upstream = Upstream::start();
    let node = Node::start_with_files(FILES, &to(upstream.addr).replace(UNLIMITED, RATES));
    let flood = "GET / HTTP/1.1\r\nhost: localhost\r\n\r\n".repeat(2000);
    eventually("the address is turned away", || {
        let _ = Client::connect_from(2, node.gateway).and_then(|mut client| client.send_raw(&flood));
        (turned_away(&node) > 0.0).then_some(())
    });
    // They are left open unread for a second.
    let held: Vec<Client> = (0..FILES).filter_map(|_| Client::connect_from(2, node.gateway).ok()).collect();
    let open = node.open_files();
    assert!(open < FILES * 3 / 4, "{open} of {FILES} files are open");
    let answer = Client::connect_from(200, node.gateway).unwrap().get("/honest").unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "/honest"));
    drop(held);
}

#[test]
fn a_client_that_is_refused_now_and_then_keeps_its_connection() {
    let upstream = Upstream::start();
    let node = node(&upstream);
    let mut client = Client::connect_from(2, node.gateway).unwrap();
    // The burst of the rate, and fewer refusals than make a flood.
    let statuses: Vec<u16> = (0..100).map(|_| client.get("/").unwrap().status).collect();
    assert!(statuses.contains(&200) && statuses.contains(&429), "{statuses:?}");
}

#[test]
fn where_an_address_may_stand_for_many_clients_nobody_is_turned_away() {
    let upstream = Upstream::start();
    let requests = |fields: &str| format!("GET / HTTP/1.1\r\nhost: localhost\r\n{fields}\r\n").repeat(500);
    for (rates, fields) in [
        // A trusted proxy, with one client that floods.
        (format!("{RATES}trusted_proxies = [\"127.0.0.2\"]\n"), "x-forwarded-for: 192.0.2.1\r\n"),
        // Addresses without a rate, where tenants have one.
        (
            "quotas.per_ip_rps = 0\nquotas.refusals_rps = 50\ndrr.rate_limit_rps = 10\n\
             tenant_from = [\"header:x-tenant\", \"ip\"]\n"
                .to_owned(),
            "x-tenant: acme\r\n",
        ),
    ] {
        let node = node_with(&upstream, &rates);
        let mut client = Client::connect_from(2, node.gateway).unwrap();
        client.send_raw(requests(fields)).unwrap();
        let statuses: Vec<u16> = (0..500).map(|_| client.receive().unwrap().status).collect();
        let refused = statuses.iter().filter(|status| **status == 429).count();
        assert!(refused > 100, "{refused} of 500 were refused: a flood to anybody else");
        // Another client of the proxy, another tenant of the address, on the same connection and on a new one.
        let other =
            "GET /honest HTTP/1.1\r\nhost: a\r\nx-forwarded-for: 192.0.2.2\r\nx-tenant: other\r\n\r\n";
        assert_eq!(client.ask(other).unwrap().status, 200, "{rates}");
        assert_eq!(Client::connect_from(2, node.gateway).unwrap().ask(other).unwrap().status, 200, "{rates}");
        assert_eq!(turned_away(&node), 0.0);
    }
}
