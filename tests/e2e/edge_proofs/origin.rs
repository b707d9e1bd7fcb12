//! An origin that answers as a proof needs it.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::support::eventually;

/// Where nothing is: asked for to hear that everybody who came before was let in.
const QUIET: &str = "/quiet";

/// An origin on this machine.
pub(super) struct Origin {
    pub(super) addr: SocketAddr,
    counts: Arc<Counts>,
}

#[derive(Default)]
struct Counts {
    asked: AtomicUsize,
    connections: AtomicUsize,
}

impl Origin {
    /// Answers each request by its path.
    pub(super) fn start(
        answer: impl Fn(&str, &mut TcpStream) -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let (counts, answer) = (Arc::<Counts>::default(), Arc::new(answer));
        let counted = Arc::clone(&counts);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (counted, answer) = (Arc::clone(&counted), Arc::clone(&answer));
                counted.connections.fetch_add(1, Ordering::SeqCst);
                thread::spawn(move || {
                    // An end that the node makes is no failure of a proof.
                    let _ = serve(stream, &counted.asked, &*answer);
                    counted.connections.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        Self { addr, counts }
    }

    /// Waits until everything was heard that a node has asked which is no more.
    pub(super) fn settle(&self) {
        let mut last = TcpStream::connect(self.addr).unwrap();
        last.write_all(format!("GET {QUIET} HTTP/1.1\r\n\r\n").as_bytes()).unwrap();
        last.read_to_end(&mut Vec::new()).unwrap();
        eventually("nobody asks any more", || {
            (self.counts.connections.load(Ordering::SeqCst) == 0).then_some(())
        });
    }

    /// How many requests there were.
    pub(super) fn asked(&self) -> usize {
        self.counts.asked.load(Ordering::SeqCst)
    }

    /// `[edge]` settings that fill from it.
    pub(super) fn settings(&self) -> String {
        format!(
            "mode = \"live\"\nallow = [{{ host = \"{}\", scheme = \"http\", private = true }}]\n",
            self.addr
        )
    }

    /// Where the edge has what is at `path` here.
    pub(super) fn asset(&self, path: &str) -> String {
        format!("/edge/assets/{}{path}", self.addr)
    }
}

/// The head of an answer that may be kept for an hour.
pub(super) fn head(length: usize) -> String {
    format!(
        "HTTP/1.1 200 OK\r\ncontent-length: {length}\r\netag: \"v1\"\r\ncache-control: max-age=3600\r\n\r\n"
    )
}

/// Sends a whole answer that may be kept for an hour.
pub(super) fn send(stream: &mut TcpStream, body: &[u8]) -> io::Result<()> {
    stream.write_all(head(body.len()).as_bytes())?;
    stream.write_all(body)
}

fn serve(
    stream: TcpStream,
    asked: &AtomicUsize,
    answer: &(impl Fn(&str, &mut TcpStream) -> io::Result<()> + ?Sized),
) -> io::Result<()> {
    let mut reader = BufReader::new(stream);
    loop {
        let mut first = String::new();
        if reader.read_line(&mut first)? == 0 {
            return Ok(());
        }
        let mut line = String::new();
        while reader.read_line(&mut line)? > 2 {
            line.clear();
        }
        let path = first.split(' ').nth(1).unwrap_or_default();
        if path == QUIET {
            return Ok(());
        }
        asked.fetch_add(1, Ordering::SeqCst);
        answer(path, reader.get_mut())?;
    }
}
