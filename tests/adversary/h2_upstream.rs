//! A server that speaks HTTP/2 with prior knowledge through the library, reads requests to their end and answers with a text.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    thread,
    time::Duration,
};

use http::{HeaderMap, Response};

/// Starts a server that takes so many requests at once on a connection. It answers each with what `answer` makes of its
/// trailers when it has come, as soon as `is_ready` says so.
pub(crate) fn start(
    max_streams: u32,
    answer: impl Fn(Option<HeaderMap>) -> String + Send + Sync + 'static,
    is_ready: impl Fn() -> bool + Send + Sync + 'static,
) -> SocketAddr {
    let listener = std::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let addr = listener.local_addr().unwrap();
    listener.set_nonblocking(true).unwrap();
    let script = Arc::new((answer, is_ready));
    thread::spawn(move || {
        tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(async {
            let listener = tokio::net::TcpListener::from_std(listener).unwrap();
            while let Ok((stream, _)) = listener.accept().await {
                let script = Arc::clone(&script);
                tokio::spawn(async move {
                    let mut builder = h2::server::Builder::new();
                    let builder = builder.max_concurrent_streams(max_streams);
                    let Ok(mut connection) = builder.handshake::<_, bytes::Bytes>(stream).await else {
                        return;
                    };
                    while let Some(Ok((request, mut respond))) = connection.accept().await {
                        let script = Arc::clone(&script);
                        tokio::spawn(async move {
                            let mut body = request.into_body();
                            while let Some(Ok(data)) = body.data().await {
                                let _ = body.flow_control().release_capacity(data.len());
                            }
                            let trailers = body.trailers().await.ok().flatten();
                            let text = (script.0)(trailers);
                            while !(script.1)() {
                                tokio::time::sleep(Duration::from_millis(5)).await;
                            }
                            // An end that the gateway makes is no failure of a test.
                            if let Ok(mut stream) = respond.send_response(Response::new(()), false) {
                                let _ = stream.send_data(text.into(), true);
                            }
                        });
                    }
                });
            }
        });
    });
    addr
}
