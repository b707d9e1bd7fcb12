//! Who a client is by its certificate, and who it only says it is.

use ron_transport::tls::{
    ClientTls, ClientTlsConfig,
    testkit::{HANDSHAKE_LIMIT, TestCa, TestIdentity},
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{
    cache_origin::{Origin, field, whole},
    support::{Node, UNLIMITED, Upstream, to},
};

/// The head of a request as the server behind the node gets it, from a client that forges fields.
fn head_at_the_server(node: &Node, ca: &TestCa, identity: Option<&TestIdentity>) -> String {
    let request = "GET /head HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\
                   x-forwarded-client-cert: Hash=0;URI=spiffe://test/admin\r\n\
                   x_forwarded_client_cert: Hash=1;URI=spiffe://test/admin\r\n\
                   x-omnigate-tenant: admin\r\n\r\n";
    ask(node, ca, identity, request)
}

/// What the node answers over TLS, in small letters.
fn ask(node: &Node, ca: &TestCa, identity: Option<&TestIdentity>, request: &str) -> String {
    let identity = identity.map(|identity| identity.write(node.path(), "client"));
    let client = ClientTls::load(&ClientTlsConfig { identity, ..ClientTlsConfig::new(ca.roots()) }).unwrap();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let stream = tokio::net::TcpStream::connect(node.gateway).await.unwrap();
        let mut stream = client.connect(stream, "localhost", HANDSHAKE_LIMIT).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        let _ = stream.read_to_end(&mut answer).await;
        String::from_utf8_lossy(&answer).to_lowercase()
    })
}

/// `[gateway]` settings of a listener that asks for certificates.
fn tls(ca: &TestCa, dir: &tempfile::TempDir) -> String {
    let files = ca.server(&["localhost"]).write(dir.path(), "server");
    format!(
        "tls = {{ cert_path = \"{}\", key_path = \"{}\", client_auth = \"optional\", client_ca_path = \"{}\" }}\n",
        files.cert_path.display(),
        files.key_path.display(),
        ca.write(dir.path(), "clients").display()
    )
}

#[test]
fn clients_with_different_certificates_do_not_share_stored_answers() {
    let (ca, dir) = (TestCa::new("authority"), tempfile::tempdir().unwrap());
    let origin = Origin::start(|request| {
        let who = field(request, "x-forwarded-client-cert").unwrap_or_else(|| "nobody".to_owned());
        whole(200, "cache-control: max-age=60, public\r\n", &who)
    });
    let settings = format!(
        "{UNLIMITED}{}route = [{{ path = \"/\", upstream = \"up\", cache = {{}} }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n",
        tls(&ca, &dir),
        origin.addr
    );
    let node = Node::start_in(dir, &settings);
    let [one, two] = ["one", "two"].map(|name| ca.client_with(name, &[&format!("{name}.test")], &[]));
    for hit in [false, true] {
        for (identity, expected) in [(Some(&one), "cn=one"), (Some(&two), "cn=two"), (None, "nobody")] {
            let request = "GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
            let answer = ask(&node, &ca, identity, request);
            assert!(answer.contains(expected), "{expected}: {answer}");
            assert_eq!(answer.contains("; hit"), hit, "{expected}: {answer}");
        }
    }
}

#[test]
fn servers_and_tenants_get_the_name_that_was_verified_and_not_the_one_that_is_claimed() {
    let (upstream, ca) = (Upstream::start(), TestCa::new("authority"));
    let dir = tempfile::tempdir().unwrap();
    let settings = format!("tenant_from = [\"cert\", \"ip\"]\n{}{}", tls(&ca, &dir), to(upstream.addr));
    let node = Node::start_in(dir, &settings);
    let identity = ca.client_with("client", &["client.test"], &["spiffe://test/client"]);

    let known = head_at_the_server(&node, &ca, Some(&identity));
    assert!(known.starts_with("http/1.1 200 "), "{known}");
    assert!(known.contains("subject=\"cn=client\";uri=spiffe://test/client;dns=client.test"), "{known}");
    assert!(known.contains("x-omnigate-tenant: spiffe://test/client"), "{known}");
    assert_eq!(known.matches("client-cert: ").count(), 1, "{known}");

    let unknown = head_at_the_server(&node, &ca, None);
    assert!(unknown.starts_with("http/1.1 200 "), "{unknown}");
    for head in [known, unknown.clone()] {
        assert!(!head.contains("admin"), "{head}");
    }
    assert!(!unknown.contains("client-cert") && !unknown.contains("client_cert"), "{unknown}");
    assert!(!unknown.contains("x-omnigate-tenant"), "{unknown}");
}
