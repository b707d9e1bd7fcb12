//! HTTP/1 requests of any bytes, pipelined on one connection, with the body guard behind: however the bytes are cut, the
//! same bodies arrive, none beyond its limits.

#![no_main]

use std::{
    convert::Infallible,
    sync::{Arc, LazyLock, Mutex},
};

use http_body_util::BodyExt;
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use ron_kernel::metrics::Counter;
use ron_transport::{Body, BodyError};
use svc_gateway::guard::{BodyLimits, DecodeBudget, Payer, guard};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime::{Builder, Runtime},
};

/// Small, so that small inputs reach them.
const LIMITS: BodyLimits = BodyLimits { max_body_bytes: 48, decode_ratio_max: 10, decode_abs_cap_bytes: 256 };

/// What a connection may begin with. Chance alone would rarely write it.
const BEGINNINGS: [&[u8]; 5] = [
    b"",
    b"POST / HTTP/1.1\r\nhost: a\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 40\r\n\r\n",
    b"POST / HTTP/1.1\r\nhost: a\r\ncontent-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n20\r\n\x1f\x8b\x08\0",
];

/// More than the bodies of one connection need.
static BUDGET: LazyLock<Arc<DecodeBudget>> =
    LazyLock::new(|| Arc::new(DecodeBudget::new(1 << 30, Counter::default())));

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().build().expect("a runtime without drivers"));

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, rest) = input;
    for beginning in BEGINNINGS {
        let bytes = [beginning, rest].concat();
        let whole = RUNTIME.block_on(requests(&bytes, bytes.len().max(1)));
        let pieces = RUNTIME.block_on(requests(&bytes, usize::from(piece) + 1));
        assert_eq!(whole, pieces);
    }
});

/// The bodies that arrive of a connection's bytes, sent in pieces of this length, up to the first that does not arrive whole:
/// when exactly that is noticed, and what of the rest is read before hanging up, is a matter of timing.
async fn requests(bytes: &[u8], piece: usize) -> Vec<Vec<u8>> {
    let (client, server) = tokio::io::duplex(64 * 1024);
    let arrivals = Mutex::new(Vec::new());
    let service = service_fn(|request: Request<Incoming>| async {
        let arrival = arrive(request).await;
        arrivals.lock().expect("nobody panicked").push(arrival);
        Ok::<_, Infallible>(Response::new(Body::empty()))
    });
    let serving = http1::Builder::new().half_close(true).serve_connection(TokioIo::new(server), service);
    let talking = async {
        let (mut answers, mut sending) = tokio::io::split(client);
        let send = async {
            for piece in bytes.chunks(piece) {
                // Whoever hung up has heard enough.
                let _ = sending.write_all(piece).await;
                tokio::task::yield_now().await;
            }
            let _ = sending.shutdown().await;
        };
        let mut answer = Vec::new();
        let _ = tokio::join!(send, answers.read_to_end(&mut answer));
    };
    let _ = tokio::join!(serving, talking);
    arrivals.into_inner().expect("nobody panicked").into_iter().map_while(|arrival| arrival).collect()
}

/// A body, if it arrives whole.
async fn arrive(request: Request<Incoming>) -> Option<Vec<u8>> {
    let is_encoded = request.headers().contains_key("content-encoding");
    let mut request = request.map(|body| Body::streaming(body.map_err(BodyError::new)));
    let breach = guard(&mut request, &LIMITS, Payer::nobody(&BUDGET)).ok()?;
    let most = if is_encoded { LIMITS.decode_abs_cap_bytes } else { LIMITS.max_body_bytes };
    let mut body = request.into_body();
    let mut arrived = Vec::new();
    while let Some(frame) = body.frame().await {
        arrived.extend_from_slice(frame.ok()?.data_ref().map_or(&[], |data| data));
        assert!(arrived.len() as u64 <= most);
    }
    assert!(breach.is_none_or(|breach| breach.refusal().is_none()), "a breach ends with an error");
    Some(arrived)
}
