//! A server to put behind a node, which does what the path of a request says.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::Duration,
};

use super::eventually;

/// The length of the answer to `/big`: more than all buffers on the way hold.
const BIG: usize = 8 << 20;

/// A server that answers every request with its own path, unless the path asks for something else. It is told how many
/// requests have arrived.
///
/// | path | answer |
/// |---|---|
/// | `/wait/<ms>` | the usual one, later |
/// | `/hold` | the usual one, once those who have arrived are released |
/// | `/status/<code>` | the usual one, with this status |
/// | `/big` | [`BIG`] bytes |
/// | `/head` | the request's head |
/// | `/length` | how many bytes the request's body has |
/// | `/reset`, `/close` | none: the connection is reset, or closed |
/// | `/garbage` | something that is not HTTP |
/// | `/half`, `/half-chunked` | the first part of an answer, then the end of the connection |
/// | `/stall` | the first part of an answer, then nothing |
/// | `/tunnel` | 101 to WebSocket, then nothing |
pub(crate) struct Upstream {
    pub(crate) addr: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    arrived: AtomicUsize,
    /// How often those who are held were released.
    releases: Mutex<usize>,
    released: Condvar,
}

impl State {
    /// Waits until those are released who had arrived after so many releases.
    fn hold(&self, after: usize) {
        let releases = self.releases.lock().unwrap();
        drop(self.released.wait_while(releases, |releases| *releases == after).unwrap());
    }
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let state = Arc::<State>::default();
        let serving = Arc::clone(&state);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let state = Arc::clone(&serving);
                // An end that the client makes is no failure of a test.
                thread::spawn(move || serve(stream, &state).ok());
            }
        });
        Self { addr, state }
    }

    /// Has everybody answered who has arrived at `/hold` by now.
    pub(crate) fn release(&self) {
        *self.state.releases.lock().unwrap() += 1;
        self.state.released.notify_all();
    }

    /// How many requests have arrived.
    pub(crate) fn arrived(&self) -> usize {
        self.state.arrived.load(Ordering::Relaxed)
    }

    /// Waits until that many requests have arrived.
    pub(crate) fn wait_for(&self, requests: usize) {
        eventually("the upstream was asked", || (self.arrived() >= requests).then_some(()));
    }
}

struct Head {
    text: String,
    path: String,
    length: usize,
    chunked: bool,
}

fn serve(stream: TcpStream, state: &State) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    while let Some(head) = read_head(&mut reader)? {
        // Before it counts as arrived: a release after that is meant for it.
        let releases = *state.releases.lock().unwrap();
        state.arrived.fetch_add(1, Ordering::Relaxed);
        let length = read_body(&mut reader, &head)?;
        let stream = reader.get_mut();
        match head.path.as_str() {
            "/big" => answer_big(stream)?,
            "/hold" => {
                state.hold(releases);
                answer(stream, 200, "/hold")?;
            }
            "/head" => answer(stream, 200, &head.text)?,
            "/length" => answer(stream, 200, &length.to_string())?,
            "/close" => return Ok(()),
            "/reset" => return socket2::SockRef::from(&*stream).set_linger(Some(Duration::ZERO)),
            "/garbage" => return stream.write_all(b"what is this?\r\n\r\n"),
            "/half" => return stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf"),
            "/half-chunked" => {
                return stream
                    .write_all(b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n");
            }
            "/stall" => {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nhalf")?;
                return stream.read(&mut [0]).map(drop);
            }
            "/tunnel" => {
                let head =
                    "HTTP/1.1 101 Switching Protocols\r\nupgrade: websocket\r\nconnection: upgrade\r\n\r\n";
                stream.write_all(head.as_bytes())?;
                return stream.read(&mut [0]).map(drop);
            }
            path => match path.split('/').collect::<Vec<_>>()[..] {
                ["", "wait", ms] => {
                    thread::sleep(Duration::from_millis(ms.parse().unwrap()));
                    answer(stream, 200, path)?;
                }
                ["", "status", code] => answer(stream, code.parse().unwrap(), path)?,
                _ => answer(stream, 200, path)?,
            },
        }
    }
    Ok(())
}

fn answer(stream: &mut TcpStream, status: u16, body: &str) -> io::Result<()> {
    let head = format!("HTTP/1.1 {status} Said\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + body).as_bytes())
}

fn answer_big(stream: &mut TcpStream) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {BIG}\r\n\r\n")?;
    let piece = [b'x'; 64 << 10];
    (0..BIG / piece.len()).try_for_each(|_| stream.write_all(&piece))
}

/// A request's head; `None` at the end of the stream.
fn read_head(reader: &mut BufReader<TcpStream>) -> io::Result<Option<Head>> {
    let mut text = String::new();
    loop {
        let before = text.len();
        if reader.read_line(&mut text)? == 0 {
            return Ok(None);
        }
        if text[before..].trim_end().is_empty() {
            break;
        }
    }
    let lower = text.to_ascii_lowercase();
    let value = |name: &str| lower.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
    let path = text.split(' ').nth(1).unwrap_or_default().to_owned();
    let length = value("content-length:").map_or(Ok(0), str::parse).map_err(io::Error::other)?;
    let chunked = value("transfer-encoding:") == Some("chunked");
    Ok(Some(Head { path, length, chunked, text }))
}

/// Reads a request's body and tells how long it was.
fn read_body(reader: &mut BufReader<TcpStream>, head: &Head) -> io::Result<usize> {
    if !head.chunked {
        let read = io::copy(&mut reader.take(head.length as u64), &mut io::sink())?;
        return if read == head.length as u64 {
            Ok(head.length)
        } else {
            Err(io::ErrorKind::UnexpectedEof.into())
        };
    }
    let mut length = 0;
    loop {
        let mut line = String::new();
        reader.read_line(&mut line)?;
        let size = usize::from_str_radix(line.trim(), 16).map_err(io::Error::other)?;
        let mut chunk = vec![0; size + 2];
        reader.read_exact(&mut chunk)?;
        length += size;
        if size == 0 {
            return Ok(length);
        }
    }
}
