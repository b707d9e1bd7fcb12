//! Clients whose requests change what others get from an origin, and origins whose words get lost on the way.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
};

use crate::{
    scripted_server,
    support::{Answer, Client, Node, eventually, free_addr},
};

/// More than the edge holds in memory for a request that forbids to store its response.
const LARGE: usize = 17 << 20;
/// The longest object, which is half of the bytes that all fills may have.
const LONGEST: usize = 8 << 20;
/// More than a small object, and less than a client's share.
const MEDIUM: usize = 3 << 20;

/// Serves one connection: each request is answered with what `answer` writes for its path and its number.
fn serve(
    stream: TcpStream,
    asked: &AtomicUsize,
    answer: impl Fn(&str, usize, &mut TcpStream) -> io::Result<()>,
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if reader.read_line(&mut head)? == 0 {
                return Ok(());
            }
        }
        let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
        answer(&path, asked.fetch_add(1, Ordering::SeqCst), reader.get_mut())?;
    }
}

fn say(to: &mut TcpStream, fields: &str, body: &[u8]) -> io::Result<()> {
    let length = body.len();
    to.write_all(format!("HTTP/1.1 200 X\r\n{fields}content-length: {length}\r\n\r\n").as_bytes())?;
    to.write_all(body)
}

/// A node that runs an edge in front of one origin.
struct Edge {
    node: Node,
    addr: SocketAddr,
    origin: SocketAddr,
    /// How often the origin was asked.
    asked: Arc<AtomicUsize>,
}

impl Edge {
    fn start(
        settings: &str,
        answer: impl Fn(&str, usize, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let asked = Arc::<AtomicUsize>::default();
        let counted = Arc::clone(&asked);
        let origin = scripted_server::start(move |stream| serve(stream, &counted, &answer));
        let addr = free_addr();
        let node = Node::start(&format!(
            "enabled = false\n[node]\ndata_dir = \"./data\"\n[edge]\nenabled = true\nlisten = \"{addr}\"\nmode = \"live\"\n\
             allow = [{{ host = \"{origin}\", scheme = \"http\", private = true }}]\n{settings}\n"
        ));
        Self { node, addr, origin, asked }
    }

    fn path(&self, path: &str) -> String {
        format!("/edge/assets/{}{path}", self.origin)
    }

    /// One request of the client at 127.0.0.`from` with these fields, each ended by CRLF.
    fn get(&self, from: u8, path: &str, fields: &str) -> Answer {
        let request = format!("GET {} HTTP/1.1\r\nhost: a\r\n{fields}\r\n", self.path(path));
        Client::connect_from(from, self.addr).unwrap().ask(request).unwrap()
    }

    /// The same without asking the origin.
    fn stored(&self, path: &str) -> Answer {
        self.get(3, path, "cache-control: only-if-cached\r\n")
    }
}

#[test]
fn a_request_that_forbids_storing_fails_nobody_else() {
    let edge = Edge::start("", |path, _, to| {
        let length = if path == "/large" { LARGE } else { 100 };
        say(to, "etag: \"v\"\r\ncache-control: max-age=600\r\n", &vec![b'x'; length])
    });
    let refused = edge.get(2, "/large", "cache-control: no-store\r\n");
    assert_eq!(refused.status, 502, "it is too large to be held: {:?}", refused.headers);
    let served = edge.get(3, "/large", "");
    assert_eq!((served.status, served.bytes.len()), (200, LARGE), "{:?}", served.headers);
    let held = edge.get(2, "/short", "cache-control: no-store\r\n");
    assert_eq!((held.status, held.bytes.len(), edge.stored("/short").status), (200, 100, 504));
}

#[test]
fn a_request_that_forbids_storing_removes_nothing_that_is_stored() {
    let edge = Edge::start("", |_, number, to| match number {
        2.. => Err(io::ErrorKind::ConnectionReset.into()),
        // Stale when it comes, and good if the origin fails.
        _ => {
            let fields =
                format!("etag: \"{number}\"\r\ncache-control: max-age=10, stale-if-error=600\r\nage: 20\r\n");
            say(to, &fields, number.to_string().as_bytes())
        }
    });
    assert_eq!(edge.get(3, "/kept", "").body, "0");
    assert_eq!(edge.get(2, "/kept", "cache-control: no-cache, no-store\r\n").body, "1");
    let stale = edge.get(3, "/kept", "");
    assert_eq!((stale.status, stale.body.as_str()), (200, "0"), "{stale:?}");
}

#[test]
fn no_line_of_cache_control_gets_lost() {
    let long = format!("max-age=3600, x=\"{}\"", "y".repeat(1100));
    let mut edge = Edge::start("", move |path, number, to| {
        let lines = match path {
            "/private" => "cache-control: max-age=3600\r\ncache-control: private\r\n".to_owned(),
            "/validated" => "cache-control: max-age=3600\r\ncache-control: no-cache\r\n".to_owned(),
            "/long" => format!("cache-control: {long}\r\ncache-control: no-cache\r\n"),
            _ => "cache-control: max-age=3600, must-revalidate, x=\"é\"\r\n".to_owned(),
        };
        say(to, &format!("etag: \"v{number}\"\r\n{lines}"), b"body")
    });
    let told = |answer: Answer| {
        assert_eq!(answer.status, 200, "{answer:?}");
        let values = answer.headers.into_iter().filter(|(name, _)| name == "cache-control");
        values.map(|(_, value)| value).collect::<Vec<_>>().join(", ")
    };
    assert_eq!(told(edge.get(3, "/private", "")), "max-age=3600, private");
    assert_eq!(edge.stored("/private").status, 504, "it is for one user");
    for _ in 0..2 {
        assert_eq!(told(edge.get(3, "/validated", "")), "max-age=3600, no-cache");
        assert!(told(edge.get(3, "/long", "")).ends_with(", no-cache"));
        assert_eq!(edge.get(3, "/text", "").status, 200);
        assert_eq!(edge.stored("/validated").status, 504, "the origin is to be asked each time");
        for unkept in ["/long", "/text"] {
            assert_eq!(edge.stored(unkept).status, 504, "what cannot be kept is not stored");
        }
        // What is known of URLs is on the disk when the node has stopped.
        edge.node.signal("TERM");
        assert_eq!(edge.node.exit_code(), 0);
        edge.node.start_again();
    }
}

#[test]
fn an_object_with_long_fields_is_remembered_as_others_are() {
    let mut edge = Edge::start("", |_, _, to| {
        let [etag, date, media_type] = [1022, 1024, 1022].map(|len| "x".repeat(len));
        let fields = format!(
            "etag: \"{etag}\"\r\nlast-modified: {date}\r\ncontent-type: a/{media_type}\r\nx-more: {}\r\n\
             cache-control: max-age=3600, {}\r\n",
            "y".repeat(8180),
            "z".repeat(1000)
        );
        say(to, &fields, b"body")
    });
    let path = format!("/{}", "p".repeat(4095));
    assert_eq!(edge.get(3, &path, "").body, "body");
    assert_eq!(edge.stored(&path).status, 200, "it is stored");
    edge.node.signal("TERM");
    assert_eq!(edge.node.exit_code(), 0);
    edge.node.start_again();
    assert_eq!(edge.stored(&path).status, 200, "and known after a restart");
}

/// An edge with few bytes for fills, whose origin announces the longest objects below `/slow/` and sends none of them.
fn with_few_bytes() -> Edge {
    let settings = "fill_timeout = \"10s\"\nfill = { max_object_bytes = \"8MiB\", inflight_bytes = \"16MiB\" }\n\
                    ingress = { timeout_secs = 10 }";
    Edge::start(settings, |path, _, to| {
        let fields = format!("etag: \"{path}\"\r\ncache-control: max-age=600\r\n");
        if path.starts_with("/slow/") {
            to.write_all(format!("HTTP/1.1 200 X\r\n{fields}content-length: {LONGEST}\r\n\r\n").as_bytes())?;
            return to.read(&mut [0]).map(drop);
        }
        say(to, &fields, &vec![b'x'; MEDIUM])
    })
}

/// Sends requests of the client at 127.0.0.`from`, and waits until they have reached the origin.
fn ask_for<const N: usize>(edge: &Edge, from: u8, paths: [&str; N]) -> [Client; N] {
    let mut asked = edge.asked.load(Ordering::SeqCst);
    paths.map(|path| {
        let mut client = Client::connect_from(from, edge.addr).unwrap();
        client.send(&edge.path(path)).unwrap();
        asked += 1;
        eventually("the origin is asked", || (edge.asked.load(Ordering::SeqCst) >= asked).then_some(()));
        client
    })
}

#[test]
fn a_client_that_fetches_the_longest_objects_leaves_bytes_to_others() {
    let edge = with_few_bytes();
    // One of them has the client's share, and the other waits for it.
    let _hostile = ask_for(&edge, 2, ["/slow/0", "/slow/1"]);
    for nth in 0..3 {
        let answer = edge.get(3, &format!("/{nth}"), "");
        assert_eq!((answer.status, answer.bytes.len()), (200, MEDIUM), "{nth}: {:?}", answer.headers);
    }
}

#[test]
fn nobody_waits_for_the_bytes_of_a_client_that_asked_first() {
    let edge = with_few_bytes();
    let _hostile = ask_for(&edge, 2, ["/slow/0", "/popular"]);
    let answer = edge.get(3, "/popular", "");
    assert_eq!((answer.status, answer.bytes.len()), (200, MEDIUM), "{:?}", answer.headers);
}

/// An edge whose origin sends nothing of the objects below `/slow/`, and two clients that ask for as many objects as they may
/// have at once: the first for slow ones, and the second for two of these and then for `others`.
fn with_two_slow_clients(others: [&str; 2]) -> (Edge, Vec<Client>) {
    let settings = "fill_timeout = \"60s\"\ningress = { timeout_secs = 10 }";
    let edge = Edge::start(settings, |path, _, to| {
        let fields = format!("etag: \"{path}\"\r\ncache-control: max-age=600\r\n");
        if path.starts_with("/slow/") {
            to.write_all(format!("HTTP/1.1 200 X\r\n{fields}content-length: 1000\r\n\r\n").as_bytes())?;
            return to.read(&mut [0]).map(drop);
        }
        say(to, &fields, b"body")
    });
    let mut hostile: Vec<Client> = ask_for(&edge, 2, ["/slow/0", "/slow/1", "/slow/2", "/slow/3"]).into();
    hostile.extend(ask_for(&edge, 4, ["/slow/4", "/slow/5"]));
    for path in others {
        let mut client = Client::connect_from(4, edge.addr).unwrap();
        client.send(&edge.path(path)).unwrap();
        hostile.push(client);
    }
    eventually("all are worked on", || (edge.node.metric("edge_inflight") >= 8.0).then_some(()));
    (edge, hostile)
}

#[test]
fn two_clients_with_slow_objects_leave_places_of_their_origin_to_others() {
    let (edge, _hostile) = with_two_slow_clients(["/slow/6", "/slow/7"]);
    for nth in 0..3 {
        let answer = edge.get(3, &format!("/{nth}"), "");
        assert_eq!((answer.status, answer.body.as_str()), (200, "body"), "{nth}: {:?}", answer.headers);
    }
}

#[test]
fn nobody_waits_for_the_place_of_a_client_that_asked_first() {
    let (edge, _hostile) = with_two_slow_clients(["/slow/6", "/popular"]);
    let answer = edge.get(3, "/popular", "");
    assert_eq!((answer.status, answer.body.as_str()), (200, "body"), "{:?}", answer.headers);
}
