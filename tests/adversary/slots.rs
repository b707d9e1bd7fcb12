//! Clients that try to hold the slots: slow uploads, slow readers, many streams. Another client must not notice.

use std::{
    io::{self, BufRead, BufReader, Write},
    net::SocketAddr,
    thread,
    time::Duration,
};

use crate::scripted_server;
use crate::support::{Client, Flag, Node, Upstream, eventually, to};

/// Few slots, so that an attack needs few connections; timeouts that trickling keeps alive.
const FEW_SLOTS: &str = "fair_queue.max_inflight = 10\nfair_queue.slow_after = \"100ms\"\nmax_conns = 4000\n";

fn node(upstream: &Upstream, more: &str) -> Node {
    Node::start(&format!("{FEW_SLOTS}{more}{}", to(upstream.addr)))
}

/// How many requests of all tenants hold slots.
fn slots_taken(node: &Node) -> f64 {
    node.metric("fq_inflight{node=\"omnigate\",service=\"gateway\",class=\"anon\"}")
}

/// Requests of an honest client, one after another, each of which must be answered.
fn assert_served(node: SocketAddr, requests: usize) {
    let mut honest = Client::connect_from(200, node).unwrap();
    for _ in 0..requests {
        let answer = honest.get("/honest").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "/honest"));
    }
}

/// A client that sends a byte now and then, until it is cut off or the test is over.
fn trickle(client: &mut Client, over: &Flag, piece: &[u8]) {
    while !over.is_set() && client.send_raw(piece).is_ok() {
        thread::park_timeout(Duration::from_millis(50));
    }
}

/// Runs attackers, each on a thread of its own with a connection from one of `addresses`, while `meanwhile` goes on.
fn attacked<A>(node: SocketAddr, count: usize, addresses: usize, attack: A, meanwhile: impl FnOnce())
where
    A: Fn(&mut Client, &Flag) -> io::Result<()> + Sync,
{
    let over = Flag::default();
    thread::scope(|s| {
        let _end = over.set_at_the_end();
        for at in 0..count {
            let (over, attack) = (&over, &attack);
            s.spawn(move || {
                let from = 2 + u8::try_from(at % addresses).unwrap();
                // Cut off by the gateway, an attacker comes back.
                while !over.is_set() {
                    let attacked =
                        Client::connect_from(from, node).and_then(|mut client| attack(&mut client, over));
                    if attacked.is_err() {
                        thread::park_timeout(Duration::from_millis(20));
                    }
                }
            });
        }
        meanwhile();
    });
}

#[test]
fn a_small_upload_that_trickles_takes_no_slot() {
    let upstream = Upstream::start();
    let node = node(&upstream, "");
    let upload = |client: &mut Client, over: &Flag| {
        client.send_raw("POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 5000\r\n\r\nx")?;
        trickle(client, over, b"x");
        Ok(())
    };
    attacked(node.gateway, 40, 4, upload, || {
        eventually("the uploads are underway", || {
            (node.metric("gateway_buffer_bytes") >= 40.0 * 5000.0).then_some(())
        });
        assert_eq!(upstream.arrived(), 0, "the server hears of no upload that is not here");
        assert_eq!(slots_taken(&node), 0.0);
        assert_served(node.gateway, 50);
    });
}

#[test]
fn large_uploads_that_trickle_lose_their_slots() {
    let upstream = Upstream::start();
    let node = node(&upstream, "limits.max_body_bytes = \"10MiB\"\n");
    for addresses in [1, 8] {
        let upload = |client: &mut Client, over: &Flag| {
            client.send_raw("POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 1000000\r\n\r\n")?;
            client.send_raw(vec![b'x'; 100_000])?;
            trickle(client, over, b"x");
            Ok(())
        };
        let before = node.metric("gateway_slots_reclaimed_total");
        attacked(node.gateway, 40, addresses, upload, || {
            eventually("slots are taken back", || {
                (node.metric("gateway_slots_reclaimed_total") >= before + 10.0).then_some(())
            });
            assert_served(node.gateway, 50);
        });
    }
}

#[test]
fn chunks_that_dribble_lose_their_slots() {
    let upstream = Upstream::start();
    let node = node(&upstream, "limits.max_body_bytes = \"10MiB\"\n");
    let upload = |client: &mut Client, over: &Flag| {
        client.send_raw("POST /length HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n")?;
        trickle(client, over, b"1\r\nx\r\n");
        Ok(())
    };
    attacked(node.gateway, 40, 4, upload, || {
        eventually("slots are taken back", || {
            (node.metric("gateway_slots_reclaimed_total") >= 10.0).then_some(())
        });
        assert_served(node.gateway, 50);
    });
}

#[test]
fn readers_that_take_nothing_lose_their_slots() {
    let upstream = Upstream::start();
    let node = node(&upstream, "write_timeout = \"60s\"\n");
    for addresses in [1, 8] {
        let read = |client: &mut Client, over: &Flag| {
            client.send("/big")?;
            while !over.is_set() {
                thread::park_timeout(Duration::from_millis(50));
            }
            Ok(())
        };
        let before = node.metric("gateway_slots_reclaimed_total");
        attacked(node.gateway, 40, addresses, read, || {
            eventually("slots are taken back", || {
                (node.metric("gateway_slots_reclaimed_total") >= before + 10.0).then_some(())
            });
            assert_served(node.gateway, 50);
        });
    }
}

#[test]
fn an_answer_whose_reader_is_slow_arrives_whole() {
    let upstream = Upstream::start();
    let node = node(&upstream, "write_timeout = \"60s\"\n");
    let mut slow = Client::connect_from(3, node.gateway).unwrap();
    slow.send("/big").unwrap();
    eventually("its slot is taken back", || {
        (node.metric("gateway_slots_reclaimed_total") >= 1.0).then_some(())
    });
    let answer = slow.receive().unwrap();
    assert_eq!((answer.status, answer.bytes.len()), (200, 8 << 20));
    assert!(answer.bytes.iter().all(|byte| *byte == b'x'));
}

#[test]
fn a_slow_upload_that_loses_its_slot_arrives_whole() {
    let upstream = Upstream::start();
    let node = node(&upstream, "limits.max_body_bytes = \"10MiB\"\n");
    let mut slow = Client::connect_from(3, node.gateway).unwrap();
    slow.send_raw("POST /length HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100010\r\n\r\n").unwrap();
    slow.send_raw(vec![b'x'; 100_000]).unwrap();
    eventually("its slot is taken back", || {
        (node.metric("gateway_slots_reclaimed_total") >= 1.0).then_some(())
    });
    slow.send_raw(vec![b'x'; 10]).unwrap();
    let answer = slow.receive().unwrap();
    assert_eq!((answer.status, answer.body.as_str()), (200, "100010"));
}

#[test]
fn one_address_of_a_tenant_leaves_slots_to_the_others() {
    let upstream = Upstream::start();
    let node =
        node(&upstream, "tenant_from = [\"header:x-tenant\", \"ip\"]\nupstream.up.timeout = \"60s\"\n");
    let hold = |client: &mut Client, over: &Flag| {
        client.send_raw("GET /hold HTTP/1.1\r\nhost: localhost\r\nx-tenant: acme\r\n\r\n")?;
        while !over.is_set() {
            thread::park_timeout(Duration::from_millis(50));
        }
        Ok(())
    };
    attacked(node.gateway, 40, 1, hold, || {
        let inside = "fq_inflight{node=\"omnigate\",service=\"gateway\",class=\"authed\"}";
        // Of the 5 slots that a slow tenant may hold.
        eventually("slots are held", || (node.metric(inside) >= 4.0).then_some(()));
        let mut other = Client::connect_from(200, node.gateway).unwrap();
        for _ in 0..20 {
            let answer =
                other.ask("GET /other HTTP/1.1\r\nhost: localhost\r\nx-tenant: acme\r\n\r\n").unwrap();
            assert_eq!((answer.status, answer.body.as_str()), (200, "/other"));
        }
    });
    upstream.release();
}

#[test]
fn requests_that_the_server_never_answers_leave_slots_for_others() {
    let hold = |client: &mut Client, over: &Flag| {
        client.send("/hold")?;
        while !over.is_set() {
            thread::park_timeout(Duration::from_millis(50));
        }
        Ok(())
    };
    for addresses in [1, 2] {
        let upstream = Upstream::start();
        // A new one each time: nothing is known of the attackers.
        let node = node(&upstream, "upstream.up.timeout = \"60s\"\n");
        // The honest client is known to be quick.
        assert_served(node.gateway, 1);
        attacked(node.gateway, 40, addresses, hold, || {
            eventually("slots are held", || (slots_taken(&node) >= 5.0).then_some(()));
            assert_served(node.gateway, 50);
            assert!(slots_taken(&node) <= 9.0, "{}", slots_taken(&node));
        });
        upstream.release();
    }
}

#[test]
fn answers_that_never_end_do_not_keep_their_slots() {
    let events = scripted_server::start(|stream| {
        let mut reader = BufReader::new(stream);
        loop {
            let (mut line, mut first) = (String::new(), String::new());
            while line != "\r\n" {
                line.clear();
                if reader.read_line(&mut line)? == 0 {
                    return Ok(());
                }
                if first.is_empty() {
                    first.clone_from(&line);
                }
            }
            let stream = reader.get_mut();
            if !first.contains("/events") {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 7\r\n\r\n/honest")?;
                continue;
            }
            stream.write_all(
                b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n",
            )?;
            loop {
                stream.write_all(b"9\r\ndata: x\n\n\r\n")?;
                thread::park_timeout(Duration::from_millis(20));
            }
        }
    });
    let node = Node::start(&format!("{FEW_SLOTS}{}", to(events)));
    let listen = |client: &mut Client, over: &Flag| {
        client.send("/events")?;
        client.receive_head()?;
        while !over.is_set() {
            client.wait_for_line("data: x")?;
        }
        Ok(())
    };
    attacked(node.gateway, 40, 8, listen, || {
        eventually("the answers are underway and hold no slots", || {
            (node.metric("upstream_streams") >= 40.0 && slots_taken(&node) == 0.0).then_some(())
        });
        assert_served(node.gateway, 50);
    });
}
