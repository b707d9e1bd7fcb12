//! Clients that try to hold all connections to a server without holding slots: tunnels, streams, answers they do not read.

use std::{net::SocketAddr, thread, time::Duration};

use crate::support::{Answer, Client, Flag, Node, UNLIMITED, Upstream, eventually};

/// One tenant's streams may hold 2 of so many connections, all streams together 6.
const MAX_CONNS: usize = 16;
/// What one tenant has alone: half as many as are free of the eight.
const OF_ONE_TENANT: usize = 3;

/// A node whose paths `/stall` and `/tunnel` are streams. Others are answered 504 if no connection comes free.
fn node(servers: &[&Upstream], more: &str) -> Node {
    let endpoints: Vec<String> = servers.iter().map(|server| format!("\"http://{}\"", server.addr)).collect();
    Node::start(&format!(
        "{UNLIMITED}{more}fair_queue.max_inflight = 20\nfair_queue.slow_after = \"100ms\"\nwrite_timeout = \"60s\"\n\
         route = [{{ path = \"/stall\", stream = true, upstream = \"up\" }}, \
         {{ path = \"/tunnel\", upgrade = [\"websocket\"], upstream = \"up\" }}, \
         {{ path = \"/\", upstream = \"up\", timeout = \"10s\" }}]\n\
         upstream.up = {{ endpoints = [{}], max_conns = {MAX_CONNS}, timeout = \"20s\" }}\n",
        endpoints.join(", ")
    ))
}

/// What a stream is asked for with.
#[derive(Clone, Copy)]
enum Kind {
    Stream,
    Tunnel,
}

impl Kind {
    const BOTH: [Self; 2] = [Self::Stream, Self::Tunnel];

    /// Opens a stream from an address, in the name of a tenant if there is one.
    fn open(self, from: u8, tenant: Option<&str>, node: SocketAddr) -> Opened {
        let mut client = Client::connect_from(from, node).unwrap();
        let named = tenant.map_or(String::new(), |name| format!("x-tenant: {name}\r\n"));
        let (path, upgrade) = match self {
            Self::Stream => ("/stall", ""),
            Self::Tunnel => ("/tunnel", "connection: upgrade\r\nupgrade: websocket\r\n"),
        };
        let request = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\n{named}{upgrade}\r\n");
        client.send_raw(request).unwrap();
        let head = client.receive_head().unwrap();
        match head.status {
            101 | 200 => Opened::Stream(client),
            _ => Opened::Refused(client.receive_body(head).unwrap()),
        }
    }
}

/// What came of asking for a stream.
enum Opened {
    Stream(Client),
    Refused(Answer),
}

impl Opened {
    #[track_caller]
    fn stream(self) -> Client {
        match self {
            Self::Stream(client) => client,
            Self::Refused(answer) => panic!("{answer:?}"),
        }
    }
}

#[track_caller]
fn assert_busy(answer: &Answer) {
    assert_eq!(answer.status, 429, "{answer:?}");
    assert_eq!(answer.json()["reason"], "busy");
    let wait = answer.header("retry-after").and_then(|wait| wait.parse::<u64>().ok());
    assert!(wait.is_some_and(|wait| wait > 0), "{answer:?}");
}

/// Opens streams until one is refused; those that are open.
fn open_all(kind: Kind, from: u8, tenant: Option<&str>, node: SocketAddr) -> Vec<Client> {
    let mut open = Vec::new();
    loop {
        match kind.open(from, tenant, node) {
            Opened::Stream(client) => {
                open.push(client);
                assert!(open.len() < MAX_CONNS, "one client holds all connections");
            }
            Opened::Refused(answer) => {
                assert_busy(&answer);
                return open;
            }
        }
    }
}

#[track_caller]
fn assert_served(node: SocketAddr, requests: usize) {
    let mut honest = Client::connect_from(200, node).unwrap();
    for _ in 0..requests {
        let answer = honest.get("/honest").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "/honest"));
    }
}

#[test]
fn streams_of_two_addresses_leave_connections_to_a_third() {
    for kind in Kind::BOTH {
        let server = Upstream::start();
        let node = node(&[&server], "");
        let first = open_all(kind, 2, None, node.gateway);
        let second = open_all(kind, 3, None, node.gateway);
        assert_eq!((first.len(), second.len()), (OF_ONE_TENANT, OF_ONE_TENANT - 1));
        let asked = server.arrived();
        assert_eq!(asked, first.len() + second.len(), "a refused stream is not sent to the server");
        let _third = kind.open(200, None, node.gateway).stream();
        assert_served(node.gateway, 20);
        // Whoever ends a stream can open another.
        drop(first);
        let again =
            eventually("the first address has its share back", || match kind.open(2, None, node.gateway) {
                Opened::Stream(client) => Some(client),
                Opened::Refused(_) => None,
            });
        drop((again, second));
    }
}

#[test]
fn streams_of_many_addresses_leave_connections_for_requests() {
    let server = Upstream::start();
    let node = node(&[&server], "");
    let mut open = Vec::new();
    for from in 2..12 {
        open.extend(open_all(Kind::Stream, from, None, node.gateway));
    }
    assert_eq!(open.len(), MAX_CONNS / 2);
    assert_served(node.gateway, 20);
}

#[test]
fn a_stream_goes_to_a_server_that_has_room_for_it() {
    let servers = [Upstream::start(), Upstream::start()];
    let node = node(&[&servers[0], &servers[1]], "");
    let open = open_all(Kind::Tunnel, 2, None, node.gateway);
    assert_eq!(open.len(), 2 * OF_ONE_TENANT);
    assert_eq!([servers[0].arrived(), servers[1].arrived()], [OF_ONE_TENANT; 2]);
}

#[test]
fn one_address_leaves_streams_to_the_others_of_its_tenant() {
    let server = Upstream::start();
    let node = node(&[&server], "tenant_from = [\"header:x-tenant\", \"ip\"]\n");
    let first = open_all(Kind::Stream, 2, Some("acme"), node.gateway);
    assert_eq!(first.len(), OF_ONE_TENANT / 2);
    let _others = [3, 4].map(|from| Kind::Stream.open(from, Some("acme"), node.gateway).stream());
    assert_eq!(open_all(Kind::Stream, 5, Some("acme"), node.gateway).len(), 0, "the tenant has its share");
}

#[test]
fn answers_that_nobody_reads_leave_connections_to_others() {
    let server = Upstream::start();
    // Nothing but its share ends a transfer.
    let node = node(&[&server], "min_rate = \"0B\"\n");
    // The honest client is known to be quick.
    assert_served(node.gateway, 1);
    let over = Flag::default();
    thread::scope(|s| {
        let _end = over.set_at_the_end();
        for at in 0..16 {
            let (over, to) = (&over, node.gateway);
            s.spawn(move || {
                let mut client = Client::connect_from(2 + at % 2, to).unwrap();
                client.send("/big").unwrap();
                while !over.is_set() {
                    thread::park_timeout(Duration::from_millis(50));
                }
            });
        }
        let reclaimed = || node.metric("gateway_slots_reclaimed_total") >= MAX_CONNS as f64;
        eventually("slots are taken back", || reclaimed().then_some(()));
        assert_served(node.gateway, 20);
    });
}
