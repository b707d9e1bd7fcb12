//! A throwaway authority with one server, for tests over TLS.

use ron_transport::tls::{
    ClientTls, ClientTlsConfig, ServerTls, ServerTlsConfig, TlsStream,
    testkit::{HANDSHAKE_LIMIT, TestCa, TestIdentity},
};
use tempfile::TempDir;
use tokio::net::TcpStream;

use super::{Node, client::Client};

fn issue(ca: &TestCa, dir: &TempDir) -> (ServerTls, TestIdentity) {
    let certificate = ca.server(&["t.test"]);
    let mut config = ServerTlsConfig::new(certificate.write(dir.path(), "server"));
    config.alpn = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    (ServerTls::load(&config).unwrap(), certificate)
}

/// The server's side, and what a client needs to believe it.
pub(crate) struct Identity {
    pub(crate) server: ServerTls,
    pub(crate) certificate: TestIdentity,
    ca: TestCa,
    dir: TempDir,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let (ca, dir) = (TestCa::new("tests"), TempDir::new().unwrap());
        let (server, certificate) = issue(&ca, &dir);
        Self { server, certificate, ca, dir }
    }

    /// A new certificate over the files of the old one, as renewal does, loaded as a reload does.
    pub(crate) fn renew(&mut self) {
        (self.server, self.certificate) = issue(&self.ca, &self.dir);
    }

    /// A client that offers those protocols.
    pub(crate) fn client(&self, alpn: Vec<Vec<u8>>) -> ClientTls {
        let mut config = ClientTlsConfig::new(self.ca.roots());
        config.alpn = alpn;
        ClientTls::load(&config).unwrap()
    }

    /// Shakes hands on a connection.
    pub(crate) async fn wrap(&self, stream: TcpStream, alpn: &[&str]) -> TlsStream<TcpStream> {
        let client = self.client(alpn.iter().map(|&name| name.as_bytes().to_vec()).collect());
        client.connect(stream, "t.test", HANDSHAKE_LIMIT).await.unwrap()
    }

    /// An HTTP/1.1 client of a node.
    pub(crate) async fn connect(&self, node: &Node) -> Client<TlsStream<TcpStream>> {
        Client::new(self.wrap(node.tcp().await, &["http/1.1"]).await)
    }
}
