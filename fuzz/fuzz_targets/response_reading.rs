//! The client side of HTTP/1.1: whatever a server answers, and however it is cut, is the same response or the same
//! failure, and a response that the HTTP library accepts too has the same body there.

#![no_main]

use std::sync::{Arc, LazyLock};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use libfuzzer_sys::fuzz_target;
use ron_transport::{
    Body, Request,
    client::{Home, HttpConn},
    stream::Stream,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::UnixStream,
    runtime::{Builder, Runtime},
};

/// What an answer may begin with. Chance alone would rarely write it.
const BEGINNINGS: [&[u8]; 4] = [
    b"",
    b"HTTP/1.1 200 OK\r\n",
    b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n",
    b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\n",
];

static RUNTIME: LazyLock<Runtime> =
    LazyLock::new(|| Builder::new_current_thread().enable_io().build().expect("a runtime"));

struct Nowhere;

impl Home for Nowhere {
    fn put_back(&self, _: HttpConn) {}
}

fuzz_target!(|input: (u8, &[u8])| {
    let (piece, rest) = input;
    for beginning in BEGINNINGS {
        let bytes = [beginning, rest].concat();
        let ours = RUNTIME.block_on(read_here(&bytes, bytes.len().max(1)));
        assert_eq!(RUNTIME.block_on(read_here(&bytes, usize::from(piece) + 1)), ours);
        // The library takes more for an answer than we do, but never another one.
        if let (Some(ours), Some(theirs)) = (ours, RUNTIME.block_on(read_by_library(&bytes))) {
            assert_eq!(ours, theirs);
        }
    }
});

/// The status and body that our side makes of an answer, cut into pieces; `None` if it is none.
async fn read_here(answer: &[u8], piece: usize) -> Option<(u16, Bytes)> {
    let (ours, servers) = UnixStream::pair().ok()?;
    let mut request: Request = http::Request::get("/").body(Body::empty()).ok()?;
    let asking = async {
        let response = HttpConn::open(Stream::Unix(ours)).send(&mut request, Arc::new(Nowhere)).await.ok()?;
        whole(response.status(), response.into_body()).await
    };
    tokio::join!(asking, serve(servers, answer, piece)).0
}

/// What the library makes of it.
async fn read_by_library(answer: &[u8]) -> Option<(u16, Bytes)> {
    let (ours, servers) = UnixStream::pair().ok()?;
    let asking = async {
        let (mut sender, connection) = http1::handshake(TokioIo::new(ours)).await.ok()?;
        let request = http::Request::get("/").body(Empty::<Bytes>::new()).ok()?;
        let asking = async {
            let response = sender.send_request(request).await.ok()?;
            whole(response.status(), response.into_body()).await
        };
        tokio::join!(asking, async { connection.await.ok() }).0
    };
    tokio::join!(asking, serve(servers, answer, answer.len().max(1))).0
}

/// A switch of protocols has no body to compare.
async fn whole<B: http_body::Body<Data = Bytes>>(status: http::StatusCode, body: B) -> Option<(u16, Bytes)> {
    if status == http::StatusCode::SWITCHING_PROTOCOLS {
        return None;
    }
    Some((status.as_u16(), body.collect().await.ok()?.to_bytes()))
}

/// Answers the first request it sees and closes.
async fn serve(mut stream: UnixStream, answer: &[u8], piece: usize) {
    let mut asked = [0; 1024];
    let _ = stream.read(&mut asked).await;
    for piece in answer.chunks(piece) {
        if stream.write_all(piece).await.is_err() {
            return;
        }
        tokio::task::yield_now().await;
    }
}
