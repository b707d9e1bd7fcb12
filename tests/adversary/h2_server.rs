//! A server that speaks HTTP/2 with prior knowledge and answers each request with the frames that a test wants.

use std::{
    io::{self, Read, Write},
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use crate::h2_frames::{ACK, END_HEADERS, END_STREAM, HEADERS, PREFACE, SETTINGS, block, frame, read_frame};

/// A running server.
pub(crate) struct H2Server {
    pub(crate) addr: SocketAddr,
    asked: Arc<AtomicUsize>,
}

impl H2Server {
    /// Starts a server that answers each request with the frames that `answer` makes for its stream.
    pub(crate) fn start(answer: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let (answer, asked) = (Arc::new(answer), Arc::<AtomicUsize>::default());
        let counted = Arc::clone(&asked);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let (answer, counted) = (Arc::clone(&answer), Arc::clone(&counted));
                // An end that the gateway makes is no failure of a test.
                thread::spawn(move || serve(stream, &*answer, &counted).ok());
            }
        });
        Self { addr, asked }
    }

    /// How many requests have come.
    pub(crate) fn asked(&self) -> usize {
        self.asked.load(Ordering::Relaxed)
    }

    /// `[gateway]` settings that pass everything to this server.
    pub(crate) fn settings(&self) -> String {
        format!("{}upstream.up.protocol = \"h2\"\n", crate::support::to(self.addr))
    }
}

fn serve(mut stream: TcpStream, answer: &impl Fn(u32) -> Vec<u8>, asked: &AtomicUsize) -> io::Result<()> {
    stream.read_exact(&mut [0; PREFACE.len()])?;
    stream.write_all(&frame(SETTINGS, 0, 0, &[]))?;
    loop {
        let (kind, flags, on, _) = read_frame(&mut stream)?;
        match kind {
            SETTINGS if flags & ACK == 0 => stream.write_all(&frame(SETTINGS, ACK, 0, &[]))?,
            HEADERS => {
                asked.fetch_add(1, Ordering::Relaxed);
                stream.write_all(&answer(on))?;
            }
            _ => {}
        }
    }
}

/// The head of an answer with status 200 and these fields, with which it may end.
pub(crate) fn ok(stream: u32, fields: &[(&str, &str)], ends: bool) -> Vec<u8> {
    let head = [vec![0x88], block(fields)].concat();
    frame(HEADERS, END_HEADERS | if ends { END_STREAM } else { 0 }, stream, &head)
}
