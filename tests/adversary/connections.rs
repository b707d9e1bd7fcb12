//! Clients that hold connections: several addresses together must not take them all.

use std::{net::SocketAddr, thread, time::Duration};

use crate::support::{Client, Flag, Node, UNLIMITED, Upstream, to};

/// All connections; one address may have a quarter.
const MAX_CONNS: usize = 40;
/// Addresses of attackers, enough to take all of them.
const ATTACKERS: u8 = 5;

/// Opens connections from all attackers' addresses, again and again, and sends `head` on each; another client must be served.
fn assert_served_beside(head: &'static str) {
    let upstream = Upstream::start();
    let node = Node::start(&format!("max_conns = {MAX_CONNS}\n{}", to(upstream.addr)));
    assert_honest_are_served(&node, head, MAX_CONNS / 4);
}

/// The same with a node that is there, and with attackers that hold so many connections each.
fn assert_honest_are_served(node: &Node, head: &'static str, held_by_each: usize) {
    hold(node.gateway, head, held_by_each, || {
        for _ in 0..50 {
            let answer = Client::connect_from(200, node.gateway).and_then(|mut honest| honest.get("/honest"));
            assert_eq!(answer.unwrap().body, "/honest");
        }
    });
}

/// Has attackers hold so many connections each, on which they send `head`, while `honest` runs.
pub(crate) fn hold(addr: SocketAddr, head: &'static str, held_by_each: usize, honest: impl FnOnce()) {
    let over = Flag::default();
    thread::scope(|s| {
        let _end = over.set_at_the_end();
        let (ready, all_open) = std::sync::mpsc::channel();
        for at in 0..ATTACKERS {
            let (over, ready) = (&over, ready.clone());
            s.spawn(move || {
                let mut held: Vec<Client> = Vec::new();
                while !over.is_set() {
                    held.retain_mut(|client| client.send_raw("").is_ok());
                    held.drain(..held.len().saturating_sub(held_by_each));
                    if let Ok(mut client) = Client::connect_from(2 + at, addr)
                        && client.send_raw(head).is_ok()
                    {
                        held.push(client);
                    }
                    if held.len() >= held_by_each {
                        let _ = ready.send(());
                        thread::park_timeout(Duration::from_millis(5));
                    }
                }
            });
        }
        for _ in 0..ATTACKERS {
            all_open.recv().unwrap();
        }
        honest();
    });
}

#[test]
fn silent_connections_of_several_addresses_lock_nobody_out() {
    assert_served_beside("");
}

#[test]
fn where_few_files_may_be_open_the_node_keeps_some_for_its_servers() {
    let upstream = Upstream::start();
    // One client may have 256 of the 1,024 connections, and the process has 240 descriptors in all.
    let node = Node::start_with_files(240, &to(upstream.addr));
    assert!(node.log().contains("max_conns"), "the operator is told: {}", node.log());
    for head in ["", "GET / HTTP/1.1\r\nx-more: "] {
        assert_honest_are_served(&node, head, 60);
    }
    let failures = node.metric("upstream_failures_total");
    assert!(failures < 1.0, "a server was blamed for what the node lacks: {failures}");
}

#[test]
fn idle_connections_to_many_servers_leave_files_for_clients() {
    const SERVERS: usize = 12;
    const AT_ONCE: u8 = 20;
    const FILES: usize = 240;
    let servers: Vec<Upstream> = (0..SERVERS).map(|_| Upstream::start()).collect();
    let mut settings = format!("{UNLIMITED}\n");
    for (at, server) in servers.iter().enumerate() {
        settings.push_str(&format!(
            "[[gateway.route]]\npath = \"/{at}\"\nupstream = \"up{at}\"\nstrip_prefix = true\n\
             [gateway.upstream.up{at}]\nendpoints = [\"http://{}\"]\n",
            server.addr
        ));
    }
    let node = Node::start_with_files(FILES, &format!("{settings}[node]\ncores = 2\n"));
    for (at, server) in servers.iter().enumerate() {
        let connect = |from: u8| Client::connect_from(2 + from / 4, node.gateway).unwrap();
        let mut clients: Vec<Client> = (0..AT_ONCE).map(connect).collect();
        clients.iter_mut().for_each(|client| client.send(&format!("/{at}/hold")).unwrap());
        server.wait_for(AT_ONCE.into());
        server.release();
        for client in &mut clients {
            assert_eq!(client.receive().unwrap().status, 200, "server {at}");
        }
        let open = node.open_files();
        assert!(open < FILES * 3 / 4, "{open} of {FILES} files are open after server {at}");
    }
}

#[test]
fn endless_heads_of_several_addresses_lock_nobody_out() {
    assert_served_beside("GET / HTTP/1.1\r\nx-more: ");
}

#[test]
fn uploads_that_stop_lock_nobody_out() {
    assert_served_beside("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000\r\n\r\nx");
}

#[test]
fn http2_connections_of_several_addresses_lock_nobody_out() {
    assert_served_beside("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\u{4}\0\0\0\0\0");
}

#[test]
fn one_connection_of_the_largest_client_makes_room_for_a_newcomer() {
    let upstream = Upstream::start();
    let node = Node::start(&format!("max_conns = 4\nmax_conns_per_client = 2\n{}", to(upstream.addr)));
    let mut held: Vec<Client> =
        [2, 2, 3, 3].map(|from| Client::connect_from(from, node.gateway).unwrap()).into_iter().collect();
    for client in &mut held {
        client.send("/hold").unwrap();
    }
    upstream.wait_for(4);
    let mut newcomer = Client::connect_from(4, node.gateway).unwrap();
    assert_eq!(newcomer.get("/honest").unwrap().status, 200);
    upstream.release();
    let answered = held.iter_mut().filter_map(|client| client.receive().ok()).count();
    assert_eq!(answered, 3, "one of the four made room for a client that had none");
}

#[test]
fn a_trusted_proxy_has_more_connections_than_one_client() {
    let upstream = Upstream::start();
    let settings = "max_conns = 40\nmax_conns_per_client = 2\ntrusted_proxies = [\"127.0.0.7\"]\n";
    let node = Node::start(&format!("{settings}{}", to(upstream.addr)));
    let mut held: Vec<Client> = (0..20).map(|_| Client::connect_from(7, node.gateway).unwrap()).collect();
    for client in &mut held {
        client.send("/hold").unwrap();
    }
    upstream.wait_for(20);
    // Others have their cap.
    let mut others: Vec<Client> = (0..3).map(|_| Client::connect_from(8, node.gateway).unwrap()).collect();
    others.iter_mut().for_each(|client| drop(client.send("/hold")));
    upstream.wait_for(22);
    let refused = "connections_refused_total{node=\"omnigate\",service=\"gateway\",listener=\"gateway\",cap=\"per_client\"}";
    crate::support::eventually("the third is refused", || (node.metric(refused) >= 1.0).then_some(()));
    assert_eq!(upstream.arrived(), 22);
    upstream.release();
}
