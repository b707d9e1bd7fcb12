//! Connections to a real server over TLS: which are made, which are refused, and that they are what was asked for.

use std::{
    fs,
    net::{Ipv4Addr, TcpListener},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use ron_ledger::{PostgresLedger, PostgresServer, Scrutiny};

use crate::support::server::{run, unprivileged};

/// A server that speaks TLS on loopback and lets nobody in without it, and the authority that signed it.
struct Protected {
    child: Child,
    folder: tempfile::TempDir,
    port: u16,
}

impl Protected {
    fn start() -> Self {
        let folder = tempfile::Builder::new().prefix("omnigate-pg-tls-").tempdir().unwrap();
        let data = folder.path().join("data");
        run(Command::new("chown").arg("postgres:").arg(folder.path()));
        let initdb = ["--no-sync", "--auth=trust", "--username=omnigate", "--encoding=UTF8", "--locale=C"];
        run(unprivileged("initdb").args(initdb).arg("-D").arg(&data));
        write_certificates(folder.path());
        fs::write(data.join("pg_hba.conf"), "hostssl all all 127.0.0.1/32 trust\n").unwrap();
        for name in ["server.crt", "server.key"] {
            run(Command::new("chown").arg("postgres:").arg(folder.path().join(name)));
            run(Command::new("chmod").arg("600").arg(folder.path().join(name)));
        }
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        let file = |name: &str| folder.path().join(name).display().to_string();
        let settings = [
            "listen_addresses=127.0.0.1".to_owned(),
            format!("port={port}"),
            "ssl=on".to_owned(),
            format!("ssl_cert_file={}", file("server.crt")),
            format!("ssl_key_file={}", file("server.key")),
            format!("unix_socket_directories={}", folder.path().display()),
        ];
        let mut command = unprivileged("postgres");
        command.arg("-D").arg(&data);
        for setting in &settings {
            command.arg("-c").arg(setting);
        }
        let log = fs::File::create(folder.path().join("log")).unwrap();
        let child = command.stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let server = Self { child, folder, port };
        let deadline = Instant::now() + Duration::from_secs(60);
        while connect(&server.url("127.0.0.1", "sslmode=require")).is_err() {
            let log = fs::read_to_string(server.folder.path().join("log"));
            assert!(Instant::now() < deadline, "PostgreSQL did not start: {log:?}");
            std::thread::park_timeout(Duration::from_millis(10));
        }
        server
    }

    fn url(&self, host: &str, options: &str) -> String {
        format!("postgres://omnigate@{host}:{}/postgres?{options}", self.port)
    }

    fn file(&self, name: &str) -> String {
        self.folder.path().join(name).display().to_string()
    }
}

impl Drop for Protected {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// An authority, a server's certificate for `localhost` signed by it, and another authority that signed nothing.
fn write_certificates(folder: &std::path::Path) {
    let authority = |name: &str| {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(rcgen::DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
    };
    let (ours, other) = (authority("ours"), authority("other"));
    let key = KeyPair::generate().unwrap();
    let leaf = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &ours).unwrap();
    for (name, text) in [
        ("ca.pem", ours.pem()),
        ("other.pem", other.pem()),
        ("server.crt", leaf.pem()),
        ("server.key", key.serialize_pem()),
    ] {
        fs::write(folder.join(name), text).unwrap();
    }
}

fn connect(url: &str) -> Result<postgres::Client, String> {
    let server = PostgresServer::parse(url).map_err(|error| error.to_string())?;
    server.connect().map_err(|error| format!("{error:?}"))
}

#[test]
fn a_server_is_reached_over_tls_and_held_to_its_certificate() {
    let server = Protected::start();
    let (ca, other) = (server.file("ca.pem"), server.file("other.pem"));
    for (host, options) in [
        ("127.0.0.1", "sslmode=prefer".to_owned()),
        ("127.0.0.1", "sslmode=require".to_owned()),
        // The certificate is for another name.
        ("127.0.0.1", format!("sslmode=verify-ca&sslrootcert={ca}")),
        ("127.0.0.1", format!("sslmode=require&sslrootcert={ca}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={ca}")),
    ] {
        let mut client =
            connect(&server.url(host, &options)).unwrap_or_else(|error| panic!("{options}: {error}"));
        let row = client.query_one("SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()", &[]).unwrap();
        assert!(row.get::<_, bool>(0), "{options}: in the clear");
    }
    for (host, options) in [
        ("127.0.0.1", "sslmode=disable".to_owned()),
        ("127.0.0.1", format!("sslmode=verify-full&sslrootcert={ca}")),
        ("localhost", format!("sslmode=verify-full&sslrootcert={other}")),
        ("localhost", format!("sslmode=verify-ca&sslrootcert={other}")),
        ("localhost", format!("sslmode=require&sslrootcert={other}")),
    ] {
        assert!(connect(&server.url(host, &options)).is_err(), "{options}: it was let in");
    }
    let url = server.url("localhost", &format!("sslmode=verify-full&sslrootcert={ca}"));
    PostgresLedger::open(&url, &Scrutiny::Everything).unwrap();
}
