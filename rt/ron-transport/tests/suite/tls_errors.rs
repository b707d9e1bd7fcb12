//! Every loading error, from the mistake that causes it to the message an operator reads.

use std::path::{Path, PathBuf};

use ron_transport::tls::{
    ClientAuth, ClientTls, ClientTlsConfig, IdentityFiles, Roots, ServerTls, ServerTlsConfig, SniIdentity,
    TlsError,
    raw_key::NodeKey,
    testkit::{TestCa, TestIdentity, write_file},
};
use tempfile::TempDir;

const GARBAGE_CERTIFICATE: &str = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
const GARBAGE_KEY: &str = "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n";
const ENCRYPTED_KEY: &str =
    "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
const FILE_LIMIT: usize = 1024 * 1024;

struct Fixture {
    ca: TestCa,
    identity: TestIdentity,
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let ca = TestCa::new("authority");
        let identity = ca.server(&["server.test"]);
        Self { ca, identity, dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn good(&self) -> IdentityFiles {
        self.identity.write(self.dir.path(), "good")
    }

    fn with_cert(&self, text: &str) -> TlsError {
        let cert_path = write_file(self.dir.path(), "cert", text, 0o644);
        load(IdentityFiles { cert_path, ..self.good() })
    }

    fn with_key(&self, text: &str) -> TlsError {
        let key_path = write_file(self.dir.path(), "key", text, 0o600);
        load(IdentityFiles { key_path, ..self.good() })
    }

    fn with_ca(&self, text: &str) -> TlsError {
        let ca = write_file(self.dir.path(), "ca", text, 0o644);
        let client_auth = ClientAuth::Required { ca };
        ServerTls::load(&ServerTlsConfig { client_auth, ..ServerTlsConfig::new(self.good()) }).unwrap_err()
    }

    fn with_names(&self, names: &[&str]) -> TlsError {
        let entry = |name: &&str| SniIdentity {
            name: (*name).to_owned(),
            identity: self.good(),
            ocsp_path: None,
            is_renewed: false,
        };
        let sni = names.iter().map(entry).collect();
        ServerTls::load(&ServerTlsConfig { sni, ..ServerTlsConfig::new(self.good()) }).unwrap_err()
    }

    fn with_alpn(&self, length: usize) -> Result<ServerTls, TlsError> {
        let alpn = vec![vec![b'x'; length]];
        ServerTls::load(&ServerTlsConfig { alpn, ..ServerTlsConfig::new(self.good()) })
    }
}

fn load(files: IdentityFiles) -> TlsError {
    ServerTls::load(&ServerTlsConfig::new(files)).unwrap_err()
}

fn load_roots(roots: Roots) -> TlsError {
    ClientTls::load(&ClientTlsConfig::new(roots)).unwrap_err()
}

/// The message, with the test's directory written as `DIR`.
fn message(error: &TlsError, dir: &Path) -> String {
    error.to_string().replace(&dir.display().to_string(), "DIR")
}

#[test]
fn a_file_that_is_missing_unreadable_or_huge_is_named() {
    let fixture = Fixture::new();
    let absent = fixture.path("absent");
    let good = fixture.good();
    let huge = "x".repeat(FILE_LIMIT + 1);
    let client =
        |identity| ClientTlsConfig { identity: Some(identity), ..ClientTlsConfig::new(fixture.ca.roots()) };
    let missing = "DIR/absent does not exist; check the path, or create the file";
    let table = [
        (load(IdentityFiles { cert_path: absent.clone(), ..good.clone() }), missing),
        (load(IdentityFiles { key_path: absent.clone(), ..good.clone() }), missing),
        (load_roots(Roots::File(absent.clone())), missing),
        (
            ClientTls::load(&client(IdentityFiles { key_path: absent.clone(), ..good.clone() })).unwrap_err(),
            missing,
        ),
        (NodeKey::load(&absent).unwrap_err(), missing),
        (
            load(IdentityFiles { cert_path: fixture.dir.path().to_owned(), ..good }),
            "DIR cannot be read: it is a folder, and not a regular file; point to a PEM file",
        ),
        (fixture.with_cert(&huge), "DIR/cert is larger than 1048576 bytes; point to a PEM file"),
        (fixture.with_key(&huge), "DIR/key is larger than 1048576 bytes; point to a PEM file"),
        (
            fixture.with_cert(&huge[1..]),
            "DIR/cert holds no certificate; it needs a PEM section CERTIFICATE, leaf first",
        ),
    ];
    for (error, expected) in &table {
        assert_eq!(message(error, fixture.dir.path()), *expected);
    }
}

#[test]
fn what_is_wrong_inside_a_file_is_said() {
    let fixture = Fixture::new();
    let other = fixture.ca.server(&["server.test"]);
    let cut = |text: &str| text[..text.len() / 2].to_owned();
    let no_key = "DIR/key holds no private key; it needs an unencrypted PEM section PRIVATE KEY, EC PRIVATE KEY or \
        RSA PRIVATE KEY";
    let table = [
        (
            fixture.with_cert(""),
            "DIR/cert holds no certificate; it needs a PEM section CERTIFICATE, leaf first",
        ),
        (fixture.with_cert(&cut(&other.cert_pem)), "DIR/cert is damaged PEM; write the file anew"),
        (
            fixture.with_cert(GARBAGE_CERTIFICATE),
            "DIR/cert holds a certificate that does not parse as X.509 v3; issue it anew",
        ),
        (fixture.with_key(""), no_key),
        (fixture.with_key(&other.cert_pem), no_key),
        (fixture.with_key(ENCRYPTED_KEY), no_key),
        (fixture.with_key(&cut(&other.key_pem)), "DIR/key is damaged PEM; write the file anew"),
        (
            fixture.with_key(GARBAGE_KEY),
            "private key DIR/key cannot be used; supply an ECDSA, Ed25519 or RSA key",
        ),
        (
            fixture.with_key(&other.key_pem),
            "private key DIR/key does not belong to the certificate in DIR/good.cert.pem; supply the pair that was \
                issued together",
        ),
        (fixture.with_ca(""), "DIR/ca holds no authority; it needs at least one PEM section CERTIFICATE"),
        (fixture.with_ca(&cut(&other.cert_pem)), "DIR/ca is damaged PEM; write the file anew"),
        (
            fixture.with_ca(GARBAGE_CERTIFICATE),
            "DIR/ca holds a certificate that does not parse as X.509 v3; issue it anew",
        ),
        (
            load_roots(Roots::Pem(Vec::new())),
            "the inline CA bundle holds no authority; it needs at least one PEM section CERTIFICATE",
        ),
    ];
    for (error, expected) in &table {
        assert_eq!(message(error, fixture.dir.path()), *expected);
    }
}

#[test]
fn names_and_protocols_that_cannot_work_are_refused() {
    let fixture = Fixture::new();
    let bad_name = ClientTlsConfig {
        server_name: Some("not a name".into()),
        ..ClientTlsConfig::new(fixture.ca.roots())
    };
    let table = [
        (
            fixture.with_names(&["not a name"]),
            "\"not a name\" is not a DNS name; write it like www.example.org or *.example.org",
        ),
        (
            fixture.with_names(&["server.test."]),
            "\"server.test.\" is not a DNS name; write it like www.example.org or *.example.org",
        ),
        (
            fixture.with_names(&["*."]),
            "\"*.\" is not a DNS name; write it like www.example.org or *.example.org",
        ),
        (
            ClientTls::load(&bad_name).unwrap_err(),
            "\"not a name\" is not a DNS name; write it like www.example.org or *.example.org",
        ),
        (
            fixture.with_names(&["server.test", "SERVER.test"]),
            "there are two certificates for the name \"server.test\"; keep one",
        ),
        (
            fixture.with_names(&["other.test"]),
            "the certificate in DIR/good.cert.pem is not valid for the name \"other.test\"; issue it with that name, \
                or drop the entry",
        ),
        (
            fixture.with_names(&["*.server.test"]),
            "the certificate in DIR/good.cert.pem is not valid for the name \"*.server.test\"; issue it with that \
                name, or drop the entry",
        ),
        (fixture.with_alpn(0).unwrap_err(), "an ALPN protocol name has 0 bytes; it needs 1 to 255"),
        (fixture.with_alpn(256).unwrap_err(), "an ALPN protocol name has 256 bytes; it needs 1 to 255"),
    ];
    for (error, expected) in &table {
        assert_eq!(message(error, fixture.dir.path()), *expected);
    }
    fixture.with_alpn(1).unwrap();
    fixture.with_alpn(255).unwrap();
}

#[test]
fn a_key_that_cannot_be_saved_says_why() {
    let fixture = Fixture::new();
    let key = NodeKey::generate().unwrap();
    let path = fixture.path("node.key");
    key.save(&path).unwrap();
    let table = [
        (
            key.save(&path).unwrap_err(),
            "DIR/node.key exists already and is not overwritten; move it away first",
        ),
        (
            key.save(&fixture.path("absent/node.key")).unwrap_err(),
            "DIR/absent/node.key cannot be written: No such file or directory (os error 2); check the directory and \
                the free space",
        ),
        // Nothing here can make the kernel run dry; the message is still part of the contract.
        (
            TlsError::NoRandomness,
            "the system's random number source failed; check that getrandom(2) is permitted",
        ),
    ];
    for (error, expected) in &table {
        assert_eq!(message(error, fixture.dir.path()), *expected);
    }
}

#[test]
fn a_key_open_to_others_is_refused_with_the_remedy_and_one_that_is_not_is_taken() {
    let fixture = Fixture::new();
    let load = |mode| {
        let key_path = write_file(fixture.dir.path(), "key", &fixture.identity.key_pem, mode);
        ServerTls::load(&ServerTlsConfig::new(IdentityFiles { key_path, ..fixture.good() }))
    };
    // The file's group is one of this process's, which made the file.
    for mode in [0o600, 0o400, 0o700, 0o640, 0o440] {
        load(mode).unwrap_or_else(|error| panic!("{mode:o}: {error}"));
    }
    for mode in [0o660, 0o650, 0o620, 0o610, 0o604, 0o602, 0o601, 0o644, 0o777] {
        let refused = load(mode).unwrap_err();
        let expected = format!(
            "private key DIR/key has mode 0{mode:o} and is open to others than its owner; run: chmod 600 DIR/key"
        );
        assert_eq!(message(&refused, fixture.dir.path()), expected);
    }
    let node = fixture.path("node.key");
    NodeKey::generate().unwrap().save(&node).unwrap();
    let exposed = write_file(fixture.dir.path(), "exposed.key", "any text", 0o640);
    NodeKey::load(&node).unwrap();
    assert!(matches!(NodeKey::load(&exposed), Err(TlsError::KeyPermissions { mode: 0o640, .. })));
}

#[test]
fn chain_and_key_may_share_one_file() {
    let fixture = Fixture::new();
    let both = format!("{}{}", fixture.identity.key_pem, fixture.identity.cert_pem);
    let path = write_file(fixture.dir.path(), "both", &both, 0o600);
    let files = IdentityFiles { cert_path: path.clone(), key_path: path };
    ServerTls::load(&ServerTlsConfig::new(files)).unwrap();
}

#[test]
fn nothing_that_is_printed_shows_a_private_key() {
    let fixture = Fixture::new();
    let server = ServerTls::load(&ServerTlsConfig::new(fixture.good())).unwrap();
    let identity = Some(fixture.ca.client("client.test").write(fixture.dir.path(), "client"));
    let client =
        ClientTls::load(&ClientTlsConfig { identity, ..ClientTlsConfig::new(fixture.ca.roots()) }).unwrap();
    assert_eq!(format!("{server:?}"), "ServerTls { warnings: [], .. }");
    assert_eq!(format!("{client:?}"), "ClientTls { server_name: None, .. }");

    // A key whose armour is damaged in each of the ways a PEM reader complains about.
    let secret = fixture.identity.key_pem.lines().nth(1).unwrap().to_owned();
    let pem = &fixture.identity.key_pem;
    let damaged = [
        pem.replace("-----END", "!----END"),
        pem.replacen('\n', "\n!", 1),
        pem.replace("KEY-----\nM", "KEY----\nM"),
        format!("-----BEGIN {secret}\n"),
    ];
    for text in damaged {
        let error = fixture.with_key(&text);
        let printed = format!("{error} {error:?}");
        assert!(!printed.contains(&secret[..16]), "{printed}");
    }
}
