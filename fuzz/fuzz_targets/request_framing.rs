//! The reading of HTTP/1.1 requests: however bytes are cut it finds the same ones, and each that it accepts is the same
//! request to another implementation, alone as in its row.

#![no_main]

use std::{
    convert::Infallible,
    sync::{LazyLock, Mutex},
};

use http_body_util::{BodyExt, Empty};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use ron_transport::fuzzing::requests;
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
        let reads = requests(&bytes, bytes.len());
        assert_eq!(requests(&bytes, usize::from(piece) + 1), reads);
        let mut at = 0;
        if bytes.split(|byte| *byte == b'\n').any(is_encoded) {
            // The library refuses it.
            continue;
        }
        for read in &reads {
            let alone = RUNTIME.block_on(read_by_library(&bytes[at..at + read.length]));
            at += read.length;
            assert_eq!(alone, [(read.line.clone(), read.body.clone())]);
        }
        let until_last = reads.iter().position(|read| read.is_last).map_or(reads.len(), |last| last + 1);
        let expected: Vec<_> =
            reads[..until_last].iter().map(|read| (read.line.clone(), read.body.clone())).collect();
        assert_eq!(RUNTIME.block_on(read_by_library(&bytes[..at])), expected);
    }
});

/// Whether a line, if it is the first of a request, has something in its query that is encoded here.
fn is_encoded(line: &[u8]) -> bool {
    let query = line.iter().position(|byte| *byte == b'?').map_or(&[] as &[u8], |at| &line[at..]);
    query.iter().any(|byte| matches!(byte, b'"' | b'<' | b'>'))
}

/// The requests that the library reads, up to the first that it does not like.
async fn read_by_library(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let (mut client, server) = tokio::io::duplex(64 * 1024);
    let read = Mutex::new(Vec::new());
    let service = service_fn(|request: Request<Incoming>| async {
        let line = format!("{} {}", request.method(), request.uri());
        if let Ok(body) = request.into_body().collect().await {
            read.lock().expect("nobody panicked").push((line, body.to_bytes().to_vec()));
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
    read.into_inner().expect("nobody panicked")
}
