//! Clients that leave before the answer. A server goes on working for them, and must never have more to do than there are slots.

use std::{
    io::{self, Read},
    net::{Ipv4Addr, SocketAddr, TcpListener},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use crate::{
    scripted_server::json_server,
    support::{Client, Flag, Node, eventually, to},
};

/// How many requests the server may work on at once.
const SLOTS: usize = 4;
/// How long the server works on a request, whether or not anybody waits for the answer.
const WORK: Duration = Duration::from_millis(100);
/// Attackers, each with a connection of its own at a time.
const ATTACKERS: u8 = 12;

/// What a server is working on.
#[derive(Debug, Default)]
struct Work {
    now: AtomicUsize,
    most: AtomicUsize,
    done: AtomicUsize,
}

/// A server that does not notice when a connection is closed.
fn busy_server() -> (SocketAddr, Arc<Work>) {
    let work = Arc::new(Work::default());
    let counted = Arc::clone(&work);
    let addr = json_server(move |head| {
        if head.starts_with("GET /work") {
            let now = counted.now.fetch_add(1, Ordering::SeqCst) + 1;
            counted.most.fetch_max(now, Ordering::SeqCst);
            thread::sleep(WORK);
            counted.now.fetch_sub(1, Ordering::SeqCst);
            counted.done.fetch_add(1, Ordering::SeqCst);
        }
        "{}".to_owned()
    });
    (addr, work)
}

/// Has attackers do something over and over, from four addresses, until the server has done some work for them; another
/// client is served meanwhile.
fn assert_bounded(attack: impl Fn(&mut Client) -> io::Result<()> + Sync) {
    assert_bounded_by(SLOTS, "", attack);
}

/// The same with other settings and another limit.
fn assert_bounded_by(limit: usize, settings: &str, attack: impl Fn(&mut Client) -> io::Result<()> + Sync) {
    let (server, work) = busy_server();
    let node = Node::start(&format!(
        "fair_queue.max_inflight = {SLOTS}\nmax_conns = 4000\n{}{settings}",
        to(server)
    ));
    let over = Flag::default();
    thread::scope(|s| {
        let _end = over.set_at_the_end();
        for at in 0..ATTACKERS {
            let (over, attack, to) = (&over, &attack, node.gateway);
            s.spawn(move || {
                while !over.is_set() {
                    let _ = Client::connect_from(2 + at % 4, to).and_then(|mut client| attack(&mut client));
                }
            });
        }
        eventually("the server has worked for attackers", || {
            let answer = Client::connect_from(200, node.gateway).unwrap().get("/honest").unwrap();
            assert_eq!(answer.status, 200, "{answer:?}");
            (work.done.load(Ordering::SeqCst) >= 5 * SLOTS).then_some(())
        });
    });
    let finished =
        node.metric("tasks_spawned_total{node=\"omnigate\",service=\"gateway\",kind=\"abandoned\"}");
    assert!(finished >= 1.0, "no client has left before its answer");
    let most = work.most.load(Ordering::SeqCst);
    assert!(most <= limit, "the server had {most} requests to work on, and there are {SLOTS} slots");
}

#[test]
fn a_client_that_leaves_a_view_has_no_server_do_more_than_the_parts_of_all_slots() {
    const PARTS: usize = 4;
    let part = |at| format!("{{ name = \"p{at}\", upstream = \"up\", path = \"/work\", budget = \"5s\" }}");
    let parts = (0..PARTS).map(part).collect::<Vec<_>>().join(", ");
    assert_bounded_by(SLOTS * PARTS, &format!("view.home.parts = [{parts}]\n"), |client| {
        client.send("/v1/views/home")?;
        thread::park_timeout(Duration::from_millis(10));
        Ok(())
    });
}

#[test]
fn a_client_that_leaves_has_no_server_do_more_than_there_are_slots() {
    assert_bounded(|client| {
        client.send("/work")?;
        thread::park_timeout(Duration::from_millis(10));
        Ok(())
    });
}

#[test]
fn a_deadline_that_passes_has_no_server_do_more_than_there_are_slots() {
    assert_bounded(|client| {
        let answer =
            client.ask("GET /work HTTP/1.1\r\nhost: localhost\r\nx-request-timeout-ms: 5\r\n\r\n")?;
        assert!([200, 429, 503, 504].contains(&answer.status), "{answer:?}");
        Ok(())
    });
}

#[test]
fn a_large_upload_whose_client_leaves_has_no_server_do_more_than_there_are_slots() {
    assert_bounded(|client| {
        let head = "GET /work HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n";
        client.send_raw(head)?;
        client.send_raw(vec![b'x'; 100_000])?;
        thread::park_timeout(Duration::from_millis(10));
        Ok(())
    });
}

#[test]
fn a_server_that_does_not_answer_is_left_after_a_while() {
    assert_left(|client| client.send("/work"));
}

#[test]
fn a_client_that_leaves_is_noticed_behind_what_it_sent_ahead() {
    assert_left(|client| {
        client.send("/work")?;
        client.send_raw("G")
    });
    assert_left(|client| {
        client.send("/work")?;
        client.send_raw(vec![b'G'; 40_000])
    });
}

/// Has a client leave after what `sends` sends, and waits until the connection to the server and the slot are free. The server
/// never answers.
fn assert_left(sends: impl Fn(&mut Client) -> io::Result<()>) {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let server = listener.local_addr().unwrap();
    let (closed, hears) = mpsc::channel();
    thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        // Never answers; the request, and then the end.
        let read = io::copy(&mut stream, &mut io::sink());
        closed.send(read.is_ok()).unwrap();
    });
    let node = Node::start(&format!("{}upstream.up.finish_abandoned = \"100ms\"\n", to(server)));
    let mut client = Client::connect(node.gateway).unwrap();
    sends(&mut client).unwrap();
    let inside = || node.metric("fq_inflight{node=\"omnigate\",service=\"gateway\",class=\"anon\"}");
    eventually("the request is with its server", || (inside() == 1.0).then_some(()));
    drop(client);
    assert!(hears.recv_timeout(Duration::from_secs(30)).unwrap());
    eventually("the slot is free again", || (inside() == 0.0).then_some(()));
}

#[test]
fn the_connection_of_an_answer_for_nobody_is_used_again() {
    let (opened, accepted) =
        (Arc::new(AtomicUsize::new(0)), TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap());
    let (server, counted) = (accepted.local_addr().unwrap(), Arc::clone(&opened));
    thread::spawn(move || {
        for mut stream in accepted.incoming().map_while(Result::ok) {
            counted.fetch_add(1, Ordering::SeqCst);
            thread::spawn(move || -> io::Result<()> {
                let mut request = [0; 4096];
                while stream.read(&mut request)? > 0 {
                    thread::sleep(Duration::from_millis(20));
                    io::Write::write_all(&mut stream, b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok")?;
                }
                Ok(())
            });
        }
    });
    let node = Node::start(&format!("{}fair_queue.max_inflight = 1\n", to(server)));
    for _ in 0..20 {
        let mut hostile = Client::connect(node.gateway).unwrap();
        let _ = hostile.ask("GET / HTTP/1.1\r\nhost: localhost\r\nx-request-timeout-ms: 5\r\n\r\n").unwrap();
    }
    // One for each core, which has connections of its own.
    let (opened, cores) = (opened.load(Ordering::SeqCst), thread::available_parallelism().unwrap().get());
    assert!(opened <= cores, "{opened} connections for one request at a time");
}
