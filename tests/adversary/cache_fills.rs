//! Responses that are read into the cache at the pace of their servers: what they hold once their clients have left, and who waits
//! for their end.

use std::{
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    cache_origin::{Origin, get, target, unchanged, whole},
    cache_sharing::Door,
    scripted_server,
    support::{Client, Node, UNLIMITED, eventually},
};

const FRESH: &str = "cache-control: max-age=60\r\n";

/// A server whose responses never end.
struct Endless {
    addr: SocketAddr,
    /// How many it is sending.
    live: Arc<AtomicUsize>,
}

impl Endless {
    /// Starts one whose responses have these fields. The first response to each target is what `first` makes of the request, if
    /// anything.
    fn start(fields: &'static str, first: impl Fn(&str) -> Option<String> + Send + Sync + 'static) -> Self {
        let live = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&live);
        let addr = scripted_server::start(move |stream| {
            let mut reader = BufReader::new(stream);
            loop {
                let mut request = String::new();
                while !request.ends_with("\r\n\r\n") {
                    if reader.read_line(&mut request)? == 0 {
                        return Ok(());
                    }
                }
                match first(&request) {
                    Some(answer) => reader.get_mut().write_all(answer.as_bytes())?,
                    None => {
                        counted.fetch_add(1, Ordering::SeqCst);
                        let ended = trickle(reader.get_mut(), fields);
                        counted.fetch_sub(1, Ordering::SeqCst);
                        return ended;
                    }
                }
            }
        });
        Self { addr, live }
    }

    fn live(&self) -> usize {
        self.live.load(Ordering::SeqCst)
    }

    fn behind_cache(&self, cache: &str) -> Node {
        Node::start(&format!(
            "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\", cache = {cache} }}]\n\
             upstream.up.endpoints = [\"http://{}\"]\n",
            self.addr
        ))
    }
}

/// Sends a little now and then, until nobody takes it.
fn trickle(stream: &mut TcpStream, fields: &str) -> std::io::Result<()> {
    stream.write_all(format!("HTTP/1.1 200 X\r\n{fields}transfer-encoding: chunked\r\n\r\n").as_bytes())?;
    loop {
        stream.write_all(b"1\r\nx\r\n")?;
        thread::sleep(Duration::from_millis(50));
    }
}

#[test]
fn a_response_that_all_its_readers_have_left_is_not_read_on() {
    for (fields, cache) in
        [(FRESH, "{}"), ("content-type: text/event-stream\r\n", "{ default_ttl = \"30s\" }")]
    {
        let server = Endless::start(fields, |_| None);
        let node = server.behind_cache(cache);
        let clients = (0..10).map(|nth| {
            let mut client = Client::connect(node.gateway).unwrap();
            client.send(&format!("/{nth}")).unwrap();
            assert_eq!(client.receive_head().unwrap().status, 200);
            client
        });
        let clients: Vec<_> = clients.collect();
        assert_eq!(server.live(), 10, "as long as somebody reads");
        drop(clients);
        eventually("the server has nothing to do", || (server.live() == 0).then_some(()));
    }
}

#[test]
fn nobody_waits_for_the_end_of_a_response_that_does_not_end() {
    let server = Endless::start(FRESH, |_| None);
    let node = server.behind_cache("{}");
    let mut clients = Vec::new();
    for _ in 0..3 {
        let mut client = Client::connect(node.gateway).unwrap();
        client.send("/").unwrap();
        assert_eq!(client.receive_head().unwrap().status, 200);
        clients.push(client);
    }
}

#[test]
fn responses_of_validations_that_do_not_end_count_toward_their_limit() {
    const STALE: &str = "cache-control: max-age=1, stale-while-revalidate=600\r\nage: 100\r\n";
    let asked = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&asked);
    let server = Endless::start(FRESH, move |_| {
        (counted.fetch_add(1, Ordering::SeqCst) < 80).then(|| whole(200, STALE, "old"))
    });
    let node = server.behind_cache("{}");
    for round in 1..=3 {
        for nth in 0..80 {
            assert_eq!(get(&node, &format!("/{nth}"), "").body, "old", "{round}");
        }
    }
    // Half of 64 are for one tenant.
    eventually("its share is under way", || (server.live() == 32).then_some(()));
    thread::sleep(Duration::from_millis(300));
    assert_eq!(server.live(), 32);
}

#[test]
fn a_crowd_does_not_wait_in_turns_for_what_is_not_stored() {
    for (status, fields) in [(200, "cache-control: max-age=60\r\nset-cookie: a=b\r\n"), (302, ""), (500, "")]
    {
        let (first, rest) = (Arc::new(Door::default()), Arc::new(Door::default()));
        let (asked, doors) = (AtomicUsize::new(0), (Arc::clone(&first), Arc::clone(&rest)));
        let origin = Origin::start(move |_| {
            match asked.fetch_add(1, Ordering::SeqCst) {
                0 => doors.0.pass(),
                _ => doors.1.pass(),
            }
            whole(status, fields, "own")
        });
        let node = origin.behind_cache("{}", "");
        let mut clients: Vec<_> = (0..8).map(|_| Client::connect(node.gateway).unwrap()).collect();
        clients.iter_mut().for_each(|client| client.send("/").unwrap());
        eventually("the others wait", || (node.metric("gateway_cache_waiting{") >= 7.0).then_some(()));
        assert_eq!(origin.count(), 1);
        first.open();
        // None of them is answered before all have asked.
        origin.wait_for(8);
        rest.open();
        for client in &mut clients {
            assert_eq!(client.receive().unwrap().status, status);
        }
    }
}

#[test]
fn an_answer_without_a_date_that_nothing_has_changed_makes_a_response_fresh_again() {
    let origin = Origin::start(|request| {
        assert_eq!(target(request), "/");
        let old = "date: Sun, 06 Nov 1994 08:49:37 GMT\r\n";
        let fields = "cache-control: max-age=600\r\netag: \"1\"\r\n";
        match request.contains("if-none-match") {
            true => unchanged(fields),
            false => whole(200, &format!("{old}{fields}"), "page"),
        }
    });
    let node = origin.behind_cache("{}", "");
    for _ in 0..4 {
        assert_eq!(get(&node, "/", "").body, "page");
    }
    assert_eq!(origin.count(), 2, "it is stale when it comes, validated once, and fresh from then on");
}
