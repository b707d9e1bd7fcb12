//! Routes with `compress`: what clients get, byte by byte, through the built program.

use std::{
    fs,
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::mpsc,
};

use crate::{http::PATIENCE, node::Node};

const TEXT: &str = "A line of text that is said again and again, and compresses well for that reason.\n";

/// A server that answers each request as `answer` does, given the request's first line.
fn server(answer: impl Fn(&str, &mut TcpStream) + Send + 'static) -> String {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap().to_string();
    std::thread::spawn(move || {
        for stream in listener.incoming() {
            let mut stream = stream.unwrap();
            let mut head = BufReader::new(stream.try_clone().unwrap());
            let mut first = String::new();
            // A connection that is opened and not used ends here.
            let _ = head.read_line(&mut first);
            let mut line = String::new();
            while head.read_line(&mut line).is_ok_and(|read| read > 2) {
                line.clear();
            }
            answer(first.trim_end(), &mut stream);
        }
    });
    addr
}

/// A node whose only route goes to this server and compresses.
fn node(server: &str, compress: &str) -> Node {
    let dir = tempfile::tempdir().unwrap();
    let file = format!(
        "[admin]\nlisten = \"127.0.0.1:0\"\n[gateway]\nlisten = \"127.0.0.1:0\"\n\
         [gateway.upstream.app]\nendpoints = [\"http://{server}\"]\n\
         [[gateway.route]]\npath = \"/\"\nupstream = \"app\"\ncompress = {compress}\n"
    );
    fs::write(dir.path().join("omnigate.toml"), file).unwrap();
    Node::from_file(dir)
}

struct Got {
    head: String,
    body: Vec<u8>,
}

impl Got {
    fn field(&self, name: &str) -> Option<&str> {
        let mut fields = self.head.lines().filter_map(|line| line.split_once(": "));
        fields.find(|(field, _)| field.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    fn text(&self) -> String {
        let plain = match self.field("content-encoding") {
            None => self.body.clone(),
            Some("gzip") => read(flate2::read::GzDecoder::new(&self.body[..])),
            Some("zstd") => read(zstd::stream::read::Decoder::new(&self.body[..]).unwrap()),
            Some(other) => panic!("{other}"),
        };
        String::from_utf8(plain).unwrap()
    }
}

fn read(mut from: impl Read) -> Vec<u8> {
    let mut plain = Vec::new();
    from.read_to_end(&mut plain).unwrap();
    plain
}

fn send(node: &Node, method: &str, path: &str, fields: &str) -> BufReader<TcpStream> {
    let mut stream = TcpStream::connect(&node.gateway).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n").unwrap();
    BufReader::new(stream)
}

fn head(from: &mut BufReader<TcpStream>) -> String {
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert!(from.read_line(&mut head).unwrap() > 0, "{head}");
    }
    head
}

/// The next chunk; empty at the end.
fn chunk(from: &mut BufReader<TcpStream>) -> Vec<u8> {
    let mut size = String::new();
    from.read_line(&mut size).unwrap();
    let mut data = vec![0; usize::from_str_radix(size.trim(), 16).unwrap() + 2];
    from.read_exact(&mut data).unwrap();
    data.truncate(data.len() - 2);
    data
}

fn ask(node: &Node, method: &str, path: &str, fields: &str) -> Got {
    let mut from = send(node, method, path, fields);
    let head = head(&mut from);
    let mut body = Vec::new();
    if head.to_ascii_lowercase().contains("transfer-encoding: chunked") && method != "HEAD" {
        loop {
            let data = chunk(&mut from);
            if data.is_empty() {
                break;
            }
            body.extend(data);
        }
    } else {
        from.read_to_end(&mut body).unwrap();
    }
    Got { head, body }
}

/// A page of about 80 KB, and pages that must stay as they are.
fn pages() -> String {
    server(|first, stream| {
        let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
        let (fields, body) = match path.as_str() {
            "/short" => ("Content-Type: text/html\r\n", "short".to_owned()),
            "/picture" => ("Content-Type: image/png\r\n", TEXT.repeat(100)),
            "/coded" => ("Content-Type: text/html\r\nContent-Encoding: br\r\n", TEXT.repeat(100)),
            "/kept" => ("Content-Type: text/html\r\nCache-Control: no-transform\r\n", TEXT.repeat(100)),
            _ => (
                "Content-Type: text/html\r\nETag: \"v1\"\r\nAccept-Ranges: bytes\r\nVary: Origin\r\n",
                TEXT.repeat(1000),
            ),
        };
        let length = body.len();
        let shown = if first.starts_with("HEAD") { "" } else { &body };
        // The other side may have left.
        let _ = write!(
            stream,
            "HTTP/1.1 200 OK\r\n{fields}Content-Length: {length}\r\nConnection: close\r\n\r\n{shown}"
        );
    })
}

#[test]
fn a_client_gets_the_coding_that_it_likes_best_and_the_same_text() {
    let node = node(&pages(), "{ }");
    for (accepts, coding) in [
        ("Accept-Encoding: gzip, deflate, br, zstd\r\n", Some("zstd")),
        ("Accept-Encoding: gzip, zstd;q=0.9\r\n", Some("gzip")),
        ("Accept-Encoding: gzip\r\n", Some("gzip")),
        ("Accept-Encoding: br\r\n", None),
        ("Accept-Encoding: gzip;q=0, zstd;q=0\r\n", None),
        ("", None),
    ] {
        let got = ask(&node, "GET", "/", accepts);
        assert_eq!(got.field("content-encoding"), coding, "{accepts}{}", got.head);
        assert_eq!(got.text(), TEXT.repeat(1000), "{accepts}");
        let vary: Vec<_> = got.head.lines().filter(|line| line.to_lowercase().starts_with("vary:")).collect();
        assert!(vary.iter().any(|line| line.to_lowercase().contains("accept-encoding")), "{}", got.head);
        assert!(vary.iter().any(|line| line.contains("Origin")), "{}", got.head);
        let is_coded = coding.is_some();
        assert_eq!(got.field("etag"), Some(if is_coded { "W/\"v1\"" } else { "\"v1\"" }));
        assert_eq!(got.field("accept-ranges").is_none(), is_coded);
        assert!(!is_coded || got.body.len() < 8_000, "{} bytes", got.body.len());
    }
}

#[test]
fn what_is_short_coded_or_protected_stays_as_it_is() {
    let node = node(&pages(), "{ }");
    for path in ["/short", "/picture", "/coded", "/kept"] {
        let got = ask(&node, "GET", path, "Accept-Encoding: gzip, zstd\r\n");
        let coding = if path == "/coded" { Some("br") } else { None };
        assert_eq!(got.field("content-encoding"), coding, "{path}: {}", got.head);
        assert!(got.field("content-length").is_some(), "{path}: {}", got.head);
        assert!(!got.head.to_lowercase().contains("accept-encoding"), "{path}: {}", got.head);
    }
}

#[test]
fn the_head_alone_says_what_the_whole_would() {
    let node = node(&pages(), "{ codings = [\"gzip\"] }");
    let got = ask(&node, "HEAD", "/", "Accept-Encoding: gzip, zstd\r\n");
    assert_eq!(
        (got.field("content-encoding"), got.field("content-length")),
        (Some("gzip"), None),
        "{}",
        got.head
    );
    assert!(got.body.is_empty());
}

#[test]
fn events_are_not_held_back_by_the_encoder() {
    let (next, wait) = mpsc::channel::<()>();
    let addr = server(move |_, stream| {
        let _ =
            write!(stream, "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nConnection: close\r\n\r\n");
        for number in 0..3 {
            let _ = write!(stream, "data: {number}\n\n");
            // The next event comes only once the client has read this one.
            if wait.recv().is_err() {
                return;
            }
        }
    });
    let node = node(&addr, "{ types = [\"text/*\"], codings = [\"gzip\"] }");
    let mut from = send(&node, "GET", "/", "Accept-Encoding: gzip\r\n");
    assert!(head(&mut from).to_lowercase().contains("content-encoding: gzip"));
    let (mut coded, mut plain) = (Vec::new(), String::new());
    for number in 0..3 {
        let event = format!("data: {number}\n\n");
        while !plain.ends_with(&event) {
            coded.extend(chunk(&mut from));
            plain.clear();
            // It is cut where the stream is now.
            let _ = flate2::read::GzDecoder::new(&coded[..]).read_to_string(&mut plain);
        }
        next.send(()).unwrap();
    }
    drop(next);
}

#[test]
fn a_response_that_breaks_off_is_not_ended_as_if_it_were_whole() {
    let addr = server(|_, stream| {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 100000\r\nConnection: close\r\n\r\n";
        let _ = write!(stream, "{head}{}", TEXT.repeat(500));
    });
    let node = node(&addr, "{ codings = [\"gzip\"] }");
    let mut from = send(&node, "GET", "/", "Accept-Encoding: gzip\r\n");
    let mut all = Vec::new();
    // The connection is reset, or closed before the last chunk.
    let _ = from.read_to_end(&mut all);
    assert!(!all.ends_with(b"0\r\n\r\n"), "{} bytes", all.len());
}
