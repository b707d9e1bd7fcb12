//! Reloads under traffic, good and bad in turn, sockets and certificates among them: two hundred, or a thousand with
//! `OMNIGATE_FULL_PROOFS=1`.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc, RwLock,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Instant,
};

use ron_transport::tls::testkit::{TestCa, TestIdentity};
use rustls_pki_types::ServerName;

use crate::support::{Client, Flag, Node, PATIENCE, Upstream, config, eventually, free_addr, get, to};

fn reloads() -> usize {
    if std::env::var_os("OMNIGATE_FULL_PROOFS").is_some() { 1000 } else { 200 }
}

/// Where new connections are welcome at present.
#[derive(Clone, PartialEq)]
struct Place {
    addr: SocketAddr,
    tls: bool,
    /// How often they were sent elsewhere before: they come back to where they were.
    moves: usize,
}

struct World {
    node: Node,
    upstream: SocketAddr,
    places: [SocketAddr; 2],
    identities: [(String, String); 2],
    ca: TestCa,
}

impl World {
    fn new() -> Self {
        let upstream = Upstream::start().addr;
        let node = Node::in_front_of(upstream);
        let ca = TestCa::new("reloads");
        let write = |identity: TestIdentity, stem: &str| {
            let files = identity.write(node.path(), stem);
            (files.cert_path.display().to_string(), files.key_path.display().to_string())
        };
        let identities = [write(ca.server(&["localhost"]), "one"), write(ca.server(&["localhost"]), "two")];
        Self { places: [node.gateway, free_addr()], node, upstream, identities, ca }
    }

    /// The `n`th good configuration: another address every 4th time, TLS on and off, other certificates, limits.
    fn good(&self, n: usize, before: &Place) -> (Place, String) {
        let (addr, tls) = (self.places[(n / 4) % 2], n % 3 == 2);
        let moved = (addr, tls) != (before.addr, before.tls);
        let place = Place { addr, tls, moves: before.moves + usize::from(moved) };
        let (cert, key) = &self.identities[(n / 3) % 2];
        let tls = if place.tls {
            format!("tls = {{ cert_path = \"{cert}\", key_path = \"{key}\" }}\n")
        } else {
            String::new()
        };
        let settings = format!("max_conns = {}\n{tls}{}", 2000 + n % 7, to(self.upstream));
        (place.clone(), config(place.addr, self.node.admin, &settings))
    }

    /// The `n`th bad one: broken syntax, an unknown key, a missing certificate, an address in use.
    fn bad(&self, n: usize) -> String {
        let settings = match n % 4 {
            0 => "max_conns = = 1".to_owned(),
            1 => "max_cons = 1".to_owned(),
            2 => "tls = { cert_path = \"/nonexistent\", key_path = \"/nonexistent\" }".to_owned(),
            _ => return config(self.upstream, self.node.admin, &to(self.upstream)),
        };
        config(self.places[0], self.node.admin, &settings)
    }
}

/// The admin listener's stream of events, read line by line.
struct Events(BufReader<TcpStream>);

impl Events {
    fn subscribe(admin: SocketAddr) -> Self {
        let mut stream = TcpStream::connect(admin).unwrap();
        stream.write_all(b"GET /events HTTP/1.1\r\nhost: localhost\r\n\r\n").unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        let mut events = Self(BufReader::new(stream));
        // What happens before the node has said so is not told.
        while !events.line().starts_with(": ") {}
        events
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        assert!(self.0.read_line(&mut line).expect("an event in time") > 0, "the events have ended");
        line
    }

    /// Reads on until one of these events; returns which.
    fn wait_for(&mut self, names: &[&str]) -> String {
        let end = Instant::now() + PATIENCE;
        loop {
            // They never pause for long: the node says now and then that it is still there.
            assert!(Instant::now() < end, "gave up waiting for {names:?}");
            let line = self.line();
            if let Some(name) = line.trim_end().strip_prefix("event: ")
                && names.contains(&name)
            {
                return name.to_owned();
            }
        }
    }
}

/// A request on a new connection, wherever new connections are welcome.
fn fresh_request(place: &Place, tls: &Arc<rustls::ClientConfig>) -> std::io::Result<()> {
    if !place.tls {
        let answer = get(place.addr, "/fresh")?;
        assert_eq!(answer.status, 200);
        return Ok(());
    }
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = rustls::ClientConnection::new(Arc::clone(tls), name).map_err(std::io::Error::other)?;
    let mut socket = TcpStream::connect(place.addr)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    let mut stream = rustls::Stream::new(&mut session, &mut socket);
    stream.write_all(b"GET /fresh HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    if answer.starts_with("HTTP/1.1 200") { Ok(()) } else { Err(std::io::Error::other(answer)) }
}

#[test]
fn good_and_bad_reloads_under_traffic_fail_no_request() {
    let world = World::new();
    let tls = world.ca.rustls_client(rustls::crypto::aws_lc_rs::default_provider(), rustls::DEFAULT_VERSIONS);
    let tls = Arc::new(tls);
    let current = RwLock::new(Place { addr: world.node.gateway, tls: false, moves: 0 });
    let (done, kept, fresh) = (Flag::default(), AtomicUsize::new(0), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _done = done.set_at_the_end();
        // A connection opened before the first reload works until after the last.
        scope.spawn(|| {
            let mut client = Client::connect(world.node.gateway).unwrap();
            while !done.is_set() {
                assert_eq!(client.get("/kept").expect("an open connection survives").status, 200);
                kept.fetch_add(1, Ordering::Relaxed);
            }
        });
        for _ in 0..2 {
            scope.spawn(|| {
                while !done.is_set() {
                    let place = current.read().unwrap().clone();
                    match fresh_request(&place, &tls) {
                        Ok(()) => drop(fresh.fetch_add(1, Ordering::Relaxed)),
                        // The place may have moved between our looking and our knocking; only then may it fail.
                        Err(error) => assert!(
                            *current.read().unwrap() != place || done.is_set(),
                            "a request failed where it was welcome: {error}"
                        ),
                    }
                }
            });
        }
        reload_in_turn(&world, &current);
    });
    assert!(kept.load(Ordering::Relaxed) > 100 && fresh.load(Ordering::Relaxed) > 100);
}

fn reload_in_turn(world: &World, current: &RwLock<Place>) {
    let mut events = Events::subscribe(world.node.admin);
    for n in 0..reloads() {
        if n % 2 == 0 {
            let mut welcome = current.write().unwrap();
            let (place, text) = world.good(n / 2 + 1, &welcome);
            world.node.write_config(&text);
            world.node.signal("HUP");
            events.wait_for(&["config_applied"]);
            *welcome = place;
        } else {
            world.node.write_config(&world.bad(n / 2));
            world.node.signal("HUP");
            events.wait_for(&["config_refused"]);
        }
    }
    assert_eq!(world.node.metric("config_reload_failed"), 1.0, "the last one was bad");
    assert!(get(world.node.admin, "/readyz").unwrap().body.contains("bad_reload"));
}

#[test]
fn a_reload_reads_the_files_that_the_configuration_refers_to() {
    let upstream = Upstream::start();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("greeting"), "one\n").unwrap();
    let route = "response_headers = { set = { x-greeting = \"${file:greeting}\" } }";
    let settings = format!(
        "route = [{{ path = \"/\", upstream = \"up\", {route} }}]\n\
         [gateway.upstream.up]\nendpoints = [\"http://{}\"]\n",
        upstream.addr
    );
    let node = Node::start_in(dir, &settings);
    let greeting = || get(node.gateway, "/").unwrap().header("x-greeting").map(str::to_owned);
    assert_eq!(greeting().as_deref(), Some("one"));
    std::fs::write(node.path().join("greeting"), "two\n").unwrap();
    node.signal("HUP");
    eventually("the new content is used", || (greeting().as_deref() == Some("two")).then_some(()));
}

#[test]
fn the_redirect_to_https_leads_to_where_a_reload_has_put_the_listener() {
    let (upstream, redirecting) = (Upstream::start(), free_addr());
    let settings = format!("redirect_http = \"{redirecting}\"\n{}", to(upstream.addr));
    let node = Node::start(&settings);
    let place = || get(redirecting, "/x").unwrap().header("location").map(str::to_owned);
    assert_eq!(place().as_deref(), Some("https://localhost/x"), "there may be a proxy with TLS in front");
    let files = TestCa::new("redirects").server(&["localhost"]).write(node.path(), "own");
    let (cert, key) = (files.cert_path.display(), files.key_path.display());
    let tls = format!("tls = {{ cert_path = \"{cert}\", key_path = \"{key}\" }}\n");
    node.write_config(&config(node.gateway, node.admin, &format!("{tls}{settings}")));
    node.signal("HUP");
    let own = format!("https://localhost:{}/x", node.gateway.port());
    eventually("clients are sent to it", || (place().as_ref() == Some(&own)).then_some(()));
}
