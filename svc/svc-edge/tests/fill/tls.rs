//! Origins behind TLS: who they prove to be, and which version of HTTP they choose.

use std::{
    net::SocketAddr,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use bytes::Bytes;
use ron_transport::{
    stream::Stream,
    tls::{ServerTls, ServerTlsConfig, TlsStream, testkit::HANDSHAKE_LIMIT, testkit::TestCa},
};
use svc_edge::AllowConfig;
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};
use types::Reason;

use crate::support::{Node, reason, tagged};

/// An origin behind TLS for the name `localhost`.
struct TlsOrigin {
    addr: SocketAddr,
    connections: Arc<AtomicUsize>,
    asked: Arc<AtomicUsize>,
}

impl TlsOrigin {
    fn start(ca: &TestCa, folder: &Path, protocol: &'static [u8]) -> Self {
        let identity = ca.server(&["localhost"]).write(folder, "origin");
        let config = ServerTlsConfig { alpn: vec![protocol.to_vec()], ..ServerTlsConfig::new(identity) };
        let tls = ServerTls::load(&config).unwrap();
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let origin =
            Self { addr: listener.local_addr().unwrap(), connections: Arc::default(), asked: Arc::default() };
        let (connections, asked) = (Arc::clone(&origin.connections), Arc::clone(&origin.asked));
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            runtime.block_on(async move {
                let listener = TcpListener::from_std(listener).unwrap();
                loop {
                    let (socket, _) = listener.accept().await.unwrap();
                    let (tls, asked) = (tls.clone(), Arc::clone(&asked));
                    let connections = Arc::clone(&connections);
                    tokio::spawn(async move {
                        let Ok(stream) = tls.accept(Stream::Tcp(socket), HANDSHAKE_LIMIT).await else {
                            return;
                        };
                        connections.fetch_add(1, Ordering::SeqCst);
                        if protocol == b"h2" {
                            serve_h2(stream, &asked).await;
                        } else {
                            serve_h1(stream, &asked).await;
                        }
                    });
                }
            });
        });
        origin
    }

    fn entry(&self, host: &str, ca: &TestCa, folder: &Path) -> AllowConfig {
        let host = format!("{host}:{}", self.addr.port());
        AllowConfig { private: true, ca_path: ca.write(folder, "trusted"), ..AllowConfig::new(&host) }
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    fn connections(&self) -> usize {
        self.connections.load(Ordering::SeqCst)
    }
}

async fn serve_h1(mut stream: TlsStream<Stream>, asked: &AtomicUsize) {
    let mut head = [0; 4096];
    while stream.read(&mut head).await.is_ok_and(|read| read > 0) {
        asked.fetch_add(1, Ordering::SeqCst);
        stream.write_all(&tagged("", "one")).await.unwrap();
        stream.flush().await.unwrap();
    }
}

async fn serve_h2(stream: TlsStream<Stream>, asked: &AtomicUsize) {
    let mut connection = h2::server::handshake(stream).await.unwrap();
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        asked.fetch_add(1, Ordering::SeqCst);
        assert_eq!(request.uri().scheme_str(), Some("https"));
        // The body is not as long as it says where the path says so.
        let length = if request.uri().path() == "/lie" { "4" } else { "3" };
        let response = http::Response::builder().header("etag", "\"t\"").header("content-length", length);
        let mut body = respond.send_response(response.body(()).unwrap(), false).unwrap();
        let _ = body.send_data(Bytes::from_static(b"two"), true);
    }
}

#[test]
fn an_origin_has_to_prove_its_name() {
    let (ca, folder) = (TestCa::new("ours"), tempfile::tempdir().unwrap());
    let origin = TlsOrigin::start(&ca, folder.path(), b"http/1.1");
    let node = Node::start(vec![origin.entry("localhost", &ca, folder.path())]);
    let port = origin.addr.port();
    for path in ["x", "y"] {
        let url = node.fill.url(&format!("localhost:{port}/{path}"), None).unwrap();
        assert_eq!(node.bytes(&node.fetch(&url).unwrap()), b"one");
    }
    assert_eq!((origin.asked(), origin.connections()), (2, 1));

    let stranger = TestCa::new("another");
    let other = tempfile::tempdir().unwrap();
    for (host, trusted) in [("localhost", &stranger), ("127.0.0.1", &ca)] {
        let node = Node::start(vec![origin.entry(host, trusted, other.path())]);
        let url = node.fill.url(&format!("{host}:{port}/x"), None).unwrap();
        assert_eq!(reason(node.fetch(&url)), Reason::BadGateway, "{host}");
        assert_eq!(node.metric("backoff_retries_total", &["live_fill"]), 0, "it does not pass by itself");
        assert_eq!(node.stored(), 0);
    }
    assert_eq!(origin.asked(), 2);
}

#[test]
fn one_http2_connection_serves_many_fills() {
    let (ca, folder) = (TestCa::new("ours"), tempfile::tempdir().unwrap());
    let origin = TlsOrigin::start(&ca, folder.path(), b"h2");
    let node = Node::start(vec![origin.entry("localhost", &ca, folder.path())]);
    let url = |path: usize| node.fill.url(&format!("localhost:{}/{path}", origin.addr.port()), None).unwrap();
    assert_eq!(node.bytes(&node.fetch(&url(0)).unwrap()), b"two");
    let urls: Vec<_> = (1..=20).map(url).collect();
    let wishes = crate::support::wishes("");
    let all = urls.iter().map(|url| node.fill.fetch(url, &wishes, node.deadline()));
    let all = node.block_on(futures_util::future::join_all(all));
    assert!(all.iter().all(Result::is_ok), "{all:?}");
    assert_eq!((origin.asked(), origin.connections()), (21, 1));
    let lie = node.fill.url(&format!("localhost:{}/lie", origin.addr.port()), None).unwrap();
    assert_eq!(reason(node.fetch(&lie)), Reason::BadGateway);
}
