//! The strict reading of HTTP/1.1 framing: however bytes are cut it finds the same requests, and each that it accepts is
//! one request to the HTTP library too, alone as in its row.

#![no_main]

use std::{
    convert::Infallible,
    sync::{LazyLock, Mutex},
};

use http_body_util::{BodyExt, Empty};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use ron_transport::framing::{Flaw, Framing};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::{Builder, Runtime},
};

/// What a connection may begin with. Chance alone would rarely write it.
const BEGINNINGS: [&[u8]; 4] = [
    b"",
    b"POST / HTTP/1.1\r\nhost: a\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 4\r\n\r\nbody",
];

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime without drivers"));

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, rest) = input;
    for beginning in BEGINNINGS {
        let bytes = [beginning, rest].concat();
        let (lengths, flaw) = found(&bytes, bytes.len().max(1));
        assert_eq!(found(&bytes, usize::from(piece) + 1), (lengths.clone(), flaw));
        let (mut alone, mut at) = (Vec::new(), 0);
        for length in &lengths {
            let read = RUNTIME.block_on(read_by_library(&bytes[at..at + length]));
            at += length;
            assert!(read.len() <= 1, "one is read as {}", read.len());
            if read.is_empty() {
                break;
            }
            alone.extend(read);
        }
        let accepted = lengths.iter().sum();
        let row = RUNTIME.block_on(read_by_library(&bytes[..accepted]));
        // A client may ask for the end after any of them.
        assert!(alone.starts_with(&row) && row.is_empty() == alone.is_empty(), "{row:?} of {alone:?}");
    }
});

/// The lengths of the requests in bytes that come in pieces of this length, and what is wrong behind them.
fn found(bytes: &[u8], piece: usize) -> (Vec<usize>, Option<Flaw>) {
    let (mut framing, mut lengths, mut length) = (Framing::default(), Vec::new(), 0);
    for piece in bytes.chunks(piece) {
        let mut at = 0;
        while at < piece.len() {
            match framing.take(&piece[at..]) {
                Ok(taken) => (at, length) = (at + taken, length + taken),
                Err(flaw) => return (lengths, Some(flaw)),
            }
            if framing.is_between() && framing.heads() as usize > lengths.len() {
                lengths.push(std::mem::take(&mut length));
            }
        }
    }
    (lengths, None)
}

/// The bodies of the requests that the library reads, up to the first that it does not like.
async fn read_by_library(bytes: &[u8]) -> Vec<Vec<u8>> {
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let bodies = Mutex::new(Vec::new());
    let service = service_fn(|request: Request<Incoming>| async {
        if let Ok(body) = request.into_body().collect().await {
            bodies.lock().expect("nobody panicked").push(body.to_bytes().to_vec());
        }
        Ok::<_, Infallible>(Response::new(Empty::<&[u8]>::new()))
    });
    let serving = http1::Builder::new().half_close(true).serve_connection(TokioIo::new(server), service);
    let talking = async {
        // Whoever hung up has heard enough.
        let _ = client.write_all(bytes).await;
        let _ = client.shutdown().await;
        let _ = client.read_to_end(&mut Vec::new()).await;
    };
    let _ = tokio::join!(serving, talking);
    bodies.into_inner().expect("nobody panicked")
}
