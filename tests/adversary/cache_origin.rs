//! A server behind a cache whose answers a test writes, and a node with such a cache.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    sync::{Arc, Mutex},
};

use crate::{
    scripted_server,
    support::{Answer, Node, UNLIMITED, ask, eventually},
};

/// A server that notes what it is asked.
pub(crate) struct Origin {
    pub(crate) addr: SocketAddr,
    asked: Arc<Mutex<Vec<String>>>,
}

impl Origin {
    /// Starts a server that answers each request with what `answer` makes of it: its head and its body as one text. The
    /// answer is a status, fields and a body as [`whole`] writes it, or any text.
    pub(crate) fn start(answer: impl Fn(&str) -> String + Send + Sync + 'static) -> Self {
        let asked = Arc::<Mutex<Vec<String>>>::default();
        let noted = Arc::clone(&asked);
        let addr = scripted_server::start(move |stream| serve(stream, &answer, &noted));
        Self { addr, asked }
    }

    /// How often it was asked.
    pub(crate) fn count(&self) -> usize {
        self.asked.lock().unwrap().len()
    }

    /// What it was asked so far.
    pub(crate) fn asked(&self) -> Vec<String> {
        self.asked.lock().unwrap().clone()
    }

    /// Waits until it was asked so often.
    pub(crate) fn wait_for(&self, requests: usize) {
        eventually("the server is asked", || (self.count() >= requests).then_some(()));
    }

    /// A node in front of it with one cached route, and these further settings.
    pub(crate) fn behind_cache(&self, cache: &str, settings: &str) -> Node {
        Node::start(&format!(
            "{UNLIMITED}{settings}\nroute = [{{ path = \"/\", upstream = \"up\", cache = {cache} }}]\n\
             upstream.up.endpoints = [\"http://{}\"]\n",
            self.addr
        ))
    }
}

fn serve(
    stream: TcpStream,
    answer: &impl Fn(&str) -> String,
    noted: &Mutex<Vec<String>>,
) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut request = String::new();
        while !request.ends_with("\r\n\r\n") {
            if reader.read_line(&mut request)? == 0 {
                return Ok(());
            }
        }
        let length = field(&request, "content-length").and_then(|length| length.parse().ok()).unwrap_or(0);
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        request.push_str(&String::from_utf8_lossy(&body));
        noted.lock().unwrap().push(request.clone());
        let answer = answer(&request);
        reader.get_mut().write_all(answer.as_bytes())?;
        if field(&answer, "connection").as_deref() == Some("close") {
            return Ok(());
        }
    }
}

/// The value of a field of a message.
pub(crate) fn field(message: &str, name: &str) -> Option<String> {
    let head = message.split("\r\n\r\n").next()?;
    head.lines().skip(1).find_map(|line| {
        let (known, value) = line.split_once(':')?;
        known.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    })
}

/// The target of a request.
pub(crate) fn target(request: &str) -> &str {
    request.split(' ').nth(1).unwrap_or_default()
}

/// A whole answer with these fields, each ended by CRLF.
pub(crate) fn whole(status: u16, fields: &str, body: &str) -> String {
    format!("HTTP/1.1 {status} X\r\n{fields}content-length: {}\r\n\r\n{body}", body.len())
}

/// An answer that nothing has changed, with these fields.
pub(crate) fn unchanged(fields: &str) -> String {
    format!("HTTP/1.1 304 X\r\n{fields}\r\n")
}

/// An answer that is fresh for a minute.
pub(crate) fn fresh(body: &str) -> String {
    whole(200, "cache-control: max-age=60\r\n", body)
}

/// Asks a node for a target of the host `a` with these fields, each ended by CRLF.
#[track_caller]
pub(crate) fn get(node: &Node, target: &str, fields: &str) -> Answer {
    ask(node.gateway, format!("GET {target} HTTP/1.1\r\nhost: a\r\n{fields}\r\n")).unwrap()
}

/// Whether an answer came from the cache.
pub(crate) fn is_hit(answer: &Answer) -> bool {
    answer.header("cache-status").is_some_and(|status| status.contains("; hit"))
}
