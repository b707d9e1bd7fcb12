//! Clients that have the node make TLS handshakes, which cost it far more than them, and ask for nothing.

use std::net::SocketAddr;

use ron_transport::tls::{
    ClientTls, ClientTlsConfig, TlsStream,
    testkit::{HANDSHAKE_LIMIT, TestCa},
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    runtime::Runtime,
};

use crate::support::{Node, UNLIMITED, Upstream, eventually, to};

/// Few, so that few handshakes make a flood.
const RATES: &str = "quotas.per_ip_rps = 20\nquotas.refusals_rps = 2\ndrr.rate_limit_rps = 0\n";

/// Opens a connection with TLS from this loopback address; `None` if that fails.
async fn tls_from(from: u8, node: SocketAddr, tls: &ClientTls) -> Option<TlsStream<TcpStream>> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind(SocketAddr::from(([127, 0, 0, from], 0))).unwrap();
    let stream = socket.connect(node).await.ok()?;
    tls.connect(stream, "localhost", HANDSHAKE_LIMIT).await.ok()
}

/// Makes handshakes from one address, sends these bytes and leaves; that address must be turned away, and another served.
fn assert_turned_away(bytes: &[u8]) {
    let (upstream, ca, dir) = (Upstream::start(), TestCa::new("authority"), tempfile::tempdir().unwrap());
    let files = ca.server(&["localhost"]).write(dir.path(), "server");
    let tls = format!(
        "tls = {{ cert_path = \"{}\", key_path = \"{}\" }}\n",
        files.cert_path.display(),
        files.key_path.display()
    );
    let node = Node::start_in(dir, &format!("{tls}{}", to(upstream.addr).replace(UNLIMITED, RATES)));
    let client = ClientTls::load(&ClientTlsConfig::new(ca.roots())).unwrap();
    let runtime = Runtime::new().unwrap();
    let turned_away =
        "connections_refused_total{node=\"omnigate\",service=\"gateway\",listener=\"gateway\",cap=\"flood\"}";
    eventually("the address is turned away", || {
        runtime.block_on(async {
            if let Some(mut stream) = tls_from(2, node.gateway, &client).await {
                let _ = stream.write_all(bytes).await;
                let _ = stream.shutdown().await;
            }
        });
        (node.metric(turned_away) > 0.0).then_some(())
    });
    let honest = runtime.block_on(async {
        let request = b"GET /honest HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
        let mut stream = tls_from(3, node.gateway, &client).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).into_owned()
    });
    assert!(honest.starts_with("HTTP/1.1 200 ") && honest.ends_with("/honest"), "{honest}");
}

#[test]
fn an_address_that_makes_handshakes_and_says_nothing_is_turned_away() {
    assert_turned_away(b"");
}

#[test]
fn an_address_that_makes_handshakes_and_begins_a_request_is_turned_away() {
    assert_turned_away(b"GET / HT");
}
