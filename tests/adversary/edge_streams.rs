//! Origins that fail in the middle of objects that are sent while they are fetched, and clients that read them slowly.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream},
    sync::{
        Arc, Condvar, LazyLock, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use crate::{
    h2_frames::{H2Client, Outcome},
    scripted_server,
    support::{Client, Node, eventually, free_addr},
};

/// The objects of these origins, apart from the small and the endless ones.
const LEN: usize = 3 << 20;
/// The longest object that the edge takes.
const MOST: &str = "8MiB";

/// What origins send, made once: they have to be quicker than the fill's timeout.
static OBJECT: LazyLock<Vec<u8>> = LazyLock::new(|| object(LEN));

/// The byte at an offset of every object.
fn byte(at: usize) -> u8 {
    let at = u32::try_from(at).unwrap();
    at.wrapping_mul(2_654_435_761).to_be_bytes()[0]
}

fn object(len: usize) -> Vec<u8> {
    (0..len).map(byte).collect()
}

/// What an origin is to do, by the path that it is asked for.
#[derive(Default)]
struct Origin {
    /// How often each path was asked for, all together.
    asked: AtomicUsize,
    /// Whether the second half of `/gated` may go out.
    open: (Mutex<bool>, Condvar),
}

impl Origin {
    fn start() -> (Arc<Self>, SocketAddr) {
        let origin = Arc::new(Self::default());
        let served = Arc::clone(&origin);
        (origin, scripted_server::start(move |stream| served.serve(stream)))
    }

    fn open(&self) {
        *self.open.0.lock().unwrap() = true;
        self.open.1.notify_all();
    }

    fn serve(&self, stream: TcpStream) -> io::Result<()> {
        let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
        let (mut path, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line)? > 2 {
            if path.is_empty() {
                path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            }
            line.clear();
        }
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.answer(&path, &mut writer)
    }

    fn answer(&self, path: &str, to: &mut TcpStream) -> io::Result<()> {
        let object: &[u8] = &OBJECT;
        let (first, second) = object.split_at(LEN / 2);
        let sized = format!("content-length: {LEN}\r\n");
        let chunked = "transfer-encoding: chunked\r\n";
        let wrong = "repr-digest: sha-256=:47DEQpj8HBSa+/TImW+5JCeuQeRkm5NMpJWZG3hSuFU=:\r\n";
        let wrong_id = format!("\"b3:{}\"", "0".repeat(64));
        match path {
            "/whole" => answer(to, &sized, &[object]),
            "/named" => answer_tagged(to, &tag_of(object), &sized, &[object]),
            "/chunked" => answer(to, chunked, &[&chunk(first), &chunk(second), b"0\r\n\r\n"]),
            "/small" => answer(to, "content-length: 1000\r\n", &[&object[..1000]]),
            "/gated" => {
                answer(to, &sized, &[first])?;
                let open = self.open.0.lock().unwrap();
                drop(self.open.1.wait_while(open, |open| !*open).unwrap());
                to.write_all(second)
            }
            "/cut" => answer(to, &sized, &[first]),
            "/cut-soon" => answer(to, &sized, &[&first[..50_000]]),
            "/cut-chunked" => answer(to, chunked, &[&chunk(first), &chunk(&second[..70_000])]),
            "/cut-in-a-chunk" => answer(to, chunked, &[&chunk(first), b"ffff\r\nshort"]),
            "/longer" => answer(to, &sized, &[object, b"and more"]),
            "/wrong-hash" => answer(to, &format!("{sized}{wrong}"), &[object]),
            "/wrong-hash-chunked" => {
                answer(to, &format!("{chunked}{wrong}"), &[&chunk(object), b"0\r\n\r\n"])
            }
            "/wrong-name" => answer_tagged(to, &wrong_id, &sized, &[object]),
            "/trickle" => {
                answer(to, &sized, &[])?;
                object.iter().try_for_each(|byte| {
                    thread::sleep(Duration::from_millis(20));
                    to.write_all(&[*byte])
                })
            }
            "/silent" => {
                answer(to, &sized, &[first])?;
                to.read(&mut [0]).map(drop)
            }
            "/silent-soon" => {
                answer(to, &sized, &[&first[..50_000]])?;
                to.read(&mut [0]).map(drop)
            }
            "/endless" => {
                answer(to, chunked, &[])?;
                loop {
                    to.write_all(&chunk(object))?;
                }
            }
            other => panic!("{other}"),
        }
    }
}

fn answer(to: &mut TcpStream, fields: &str, parts: &[&[u8]]) -> io::Result<()> {
    answer_tagged(to, "\"v1\"", fields, parts)
}

fn answer_tagged(to: &mut TcpStream, tag: &str, fields: &str, parts: &[&[u8]]) -> io::Result<()> {
    write!(
        to,
        "HTTP/1.1 200 OK\r\ncache-control: max-age=60\r\netag: {tag}\r\nconnection: close\r\n{fields}\r\n"
    )?;
    parts.iter().try_for_each(|part| to.write_all(part))
}

fn chunk(bytes: &[u8]) -> Vec<u8> {
    [format!("{:x}\r\n", bytes.len()).as_bytes(), bytes, b"\r\n"].concat()
}

fn tag_of(bytes: &[u8]) -> String {
    format!("\"b3:{}\"", blake3::hash(bytes).to_hex())
}

/// A node whose edge streams the objects of an origin.
struct Edge {
    node: Node,
    addr: SocketAddr,
    origin: Arc<Origin>,
    host: SocketAddr,
}

impl Edge {
    fn start(settings: &str) -> Self {
        let ((origin, host), addr) = (Origin::start(), free_addr());
        let node = Node::start(&format!(
            "enabled = false\n[node]\ndata_dir = \"./data\"\n[edge]\nenabled = true\nlisten = \"{addr}\"\nmode = \"live\"\n\
             allow = [{{ host = \"{host}\", scheme = \"http\", private = true, stream = true }}]\n\
             ingress = {{ timeout_secs = 30, rps_limit = 0, fill_rps_limit = 0 }}\n\
             fill = {{ max_object_bytes = \"{MOST}\" }}\nretry.live_fill.max_retries = 0\n{settings}\n"
        ));
        Self { node, addr, origin, host }
    }

    fn path(&self, path: &str) -> String {
        format!("/edge/assets/{}{path}", self.host)
    }

    /// The body of an answer as far as it comes, and whether it ends as it should.
    fn get_raw(&self, from: u8, path: &str) -> Raw {
        Raw::of(self.open(from, path))
    }

    fn open(&self, from: u8, path: &str) -> TcpStream {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
        // Little fits into the sockets, so that a client that does not read is waited for.
        socket.set_recv_buffer_size(16 * 1024).unwrap();
        socket.bind(&SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, from)), 0).into()).unwrap();
        socket.connect(&self.addr.into()).unwrap();
        let mut stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(Duration::from_secs(60))).unwrap();
        write!(stream, "GET {} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n", self.path(path)).unwrap();
        stream
    }

    /// What is stored of a path: its status if nobody may be asked for it.
    fn stored(&self, path: &str) -> u16 {
        let path = self.path(path);
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\ncache-control: only-if-cached\r\n\r\n");
        Client::connect(self.addr).unwrap().ask(request).unwrap().status
    }

    /// How many objects the store has, whoever knows of them.
    fn objects(&self) -> usize {
        let mut folders = vec![self.node.path().join("data")];
        let mut found = 0;
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).into_iter().flatten().map(Result::unwrap) {
                match entry.file_type().unwrap().is_dir() {
                    true => folders.push(entry.path()),
                    false => found += usize::from(entry.metadata().unwrap().len() > 900_000),
                }
            }
        }
        found
    }
}

/// An answer as it came.
struct Raw {
    head: String,
    body: Vec<u8>,
    ended: bool,
}

impl Raw {
    fn of(mut stream: TcpStream) -> Self {
        let (mut all, mut piece) = (Vec::new(), [0; 65536]);
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            all.extend_from_slice(&piece[..read]);
        }
        // A connection that was broken may have taken the head with it.
        let Some(end) = all.windows(4).position(|four| four == b"\r\n\r\n").map(|at| at + 4) else {
            return Self { head: String::new(), body: Vec::new(), ended: false };
        };
        let head = String::from_utf8_lossy(&all[..end]).into_owned();
        let rest = &all[end..];
        if head.contains("transfer-encoding: chunked") {
            let (body, ended) = unchunked(rest);
            return Self { head, body, ended };
        }
        let length = head.lines().find_map(|line| line.strip_prefix("content-length: "));
        let ended = length.is_some_and(|length| length.parse() == Ok(rest.len()));
        Self { body: rest.to_vec(), head, ended }
    }

    fn field(&self, name: &str) -> Option<&str> {
        self.head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
    }
}

/// The bytes of chunks as far as they go, and whether the last one came.
fn unchunked(mut rest: &[u8]) -> (Vec<u8>, bool) {
    let mut body = Vec::new();
    while let Some(end) = rest.windows(2).position(|two| two == b"\r\n") {
        let size = usize::from_str_radix(std::str::from_utf8(&rest[..end]).unwrap(), 16).unwrap();
        rest = &rest[end + 2..];
        if size == 0 {
            return (body, rest == b"\r\n");
        }
        body.extend_from_slice(&rest[..size.min(rest.len())]);
        rest = rest.get(size + 2..).unwrap_or_default();
    }
    (body, false)
}

#[test]
fn a_long_object_is_sent_while_it_is_fetched_and_stored_at_its_end() {
    let edge = Edge::start("");
    let object = object(LEN);
    for path in ["/whole", "/named", "/chunked"] {
        let first = edge.get_raw(2, path);
        assert!(first.head.starts_with("HTTP/1.1 200") && first.ended, "{path}: {}", first.head);
        assert_eq!(first.field("cache-status"), Some("omnigate; fwd=uri-miss; detail=streamed"), "{path}");
        // Its name is known before its end only if the origin told it.
        let tag = tag_of(&object);
        assert_eq!(first.field("etag"), (path == "/named").then_some(tag.as_str()), "{path}");
        assert!(first.body == object, "{path}");
        let second = edge.get_raw(3, path);
        assert!(second.ended && second.body == object, "{path}");
        assert_eq!(second.field("etag"), Some(tag.as_str()), "{path}");
        assert_eq!(second.field("cache-status"), Some("omnigate; hit"), "{path}");
    }
    assert_eq!(edge.origin.asked.load(Ordering::SeqCst), 3);
}

#[test]
fn a_small_object_is_stored_before_it_is_served() {
    let edge = Edge::start("");
    let answer = edge.get_raw(2, "/small");
    assert!(answer.ended && answer.body == object(1000));
    assert_eq!(answer.field("cache-status"), Some("omnigate; fwd=uri-miss; stored"));
    assert!(answer.field("etag").is_some());
}

#[test]
fn what_goes_wrong_behind_the_head_breaks_the_connection_and_leaves_nothing() {
    let edge = Edge::start("fill_timeout = \"2s\"");
    let object = object(LEN);
    for path in [
        "/cut",
        "/cut-soon",
        "/cut-chunked",
        "/cut-in-a-chunk",
        "/longer",
        "/wrong-hash",
        "/wrong-hash-chunked",
        "/wrong-name",
        "/trickle",
        "/silent",
        "/endless",
    ] {
        let answer = edge.get_raw(2, path);
        assert_eq!(edge.stored(path), 504, "{path} is not stored");
        // A fill that has failed before its first client has looked is refused, which is better still.
        let fails_soon = !matches!(path, "/trickle" | "/silent" | "/endless");
        if fails_soon && answer.head.starts_with("HTTP/1.1 502") {
            continue;
        }
        let is_begun = answer.head.is_empty() || answer.head.starts_with("HTTP/1.1 200");
        assert!(is_begun, "{path}: {}", answer.head);
        assert!(!answer.ended, "{path} must not look complete: {} bytes, {}", answer.body.len(), answer.head);
        let right = answer.body.iter().zip(object.iter().cycle()).all(|(got, sent)| got == sent);
        assert!(right, "{path}: what came is right");
    }
    assert_eq!(edge.objects(), 0, "nothing is left in the folder of the store");
}

#[test]
fn over_http2_what_goes_wrong_resets_the_stream_and_the_connection_goes_on() {
    let edge = Edge::start("fill_timeout = \"2s\"");
    let mut client = H2Client::connect(edge.addr).unwrap();
    for path in ["/silent-soon", "/trickle"] {
        let outcome = client.get("a", &edge.path(path), &[]).unwrap();
        assert!(matches!(outcome, Outcome::Reset(_)), "{path}: {outcome:?}");
    }
    assert_eq!(client.get("a", &edge.path("/small"), &[]).unwrap().status(), Some(200));
}

#[test]
fn clients_of_one_fill_share_it_and_none_waits_for_a_slow_one() {
    let edge = Edge::start("write_timeout = \"60s\"");
    let object = object(LEN);
    // The first begins the fill and reads nothing of it.
    let slow = edge.open(2, "/gated");
    eventually("the origin is asked", || (edge.origin.asked.load(Ordering::SeqCst) == 1).then_some(()));
    // Others have the beginning while the origin still holds the end back.
    let mut quick: Vec<TcpStream> = (3..6).map(|from| edge.open(from, "/gated")).collect();
    for stream in &mut quick {
        let mut begin = vec![0; 1 << 20];
        stream.read_exact(&mut begin).unwrap();
        let head = begin.windows(4).position(|four| four == b"\r\n\r\n").unwrap() + 4;
        assert!(object.starts_with(&begin[head..]));
    }
    edge.origin.open();
    for mut stream in quick {
        let mut rest = Vec::new();
        stream.read_to_end(&mut rest).unwrap();
        assert!(object.ends_with(&rest) && rest.len() > LEN / 2, "{}", rest.len());
    }
    eventually("it is stored", || (edge.stored("/gated") == 200).then_some(()));
    let slow = Raw::of(slow);
    assert!(slow.ended && slow.body == object, "the slow one gets all of it, too");
    assert_eq!(edge.origin.asked.load(Ordering::SeqCst), 1);
}

#[test]
fn parts_and_conditions_of_what_is_being_fetched_are_answered_as_far_as_can_be_told() {
    let edge = Edge::start("");
    let object = object(LEN);
    let ask = |path: &str, fields: &str| {
        let path = edge.path(path);
        let request = format!("GET {path} HTTP/1.1\r\nhost: a\r\n{fields}\r\n\r\n");
        Client::connect(edge.addr).unwrap().ask(request).unwrap()
    };
    let part = ask("/whole", "range: bytes=100000-199999");
    assert_eq!((part.status, part.header("content-range")), (206, Some("bytes 100000-199999/3145728")));
    assert!(part.bytes == object[100_000..200_000]);
    let whole = ask("/chunked", "range: bytes=0-9");
    assert_eq!((whole.status, whole.bytes.len()), (200, LEN), "nobody knows how long it is");
    let known = ask("/named", &format!("if-none-match: {}", tag_of(&object)));
    assert_eq!(known.status, 304, "its name is known");
}
