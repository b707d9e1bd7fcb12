//! Debian's `pebble`, a CA that speaks ACME and is strict about it, with a DNS server that sends every name to loopback.

use std::{
    collections::BTreeMap,
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use ron_transport::tls::testkit::TestCa;
use serde_json::json;

use crate::support::{Running, eventually, free_addr};

/// What a CA does beyond the usual.
#[derive(Clone, Copy, Default)]
pub(super) struct Habits {
    /// How long its certificates are valid, in seconds; 0 for years.
    pub(super) validity: u64,
    /// The key that accounts must be bound to, with its id.
    pub(super) bound_to: Option<(&'static str, &'static str)>,
}

/// A name that the CA certifies to nobody.
pub(super) const BLOCKED: &str = "blocked.test";

/// A CA and the DNS server that it asks. Ends with its owner.
pub(super) struct Pebble {
    running: Option<Running>,
    _dns: Running,
    dir: tempfile::TempDir,
    addr: SocketAddr,
    management: SocketAddr,
    dns: SocketAddr,
    pub(super) dns_management: SocketAddr,
}

impl Pebble {
    /// Starts a CA that checks names on these ports.
    pub(super) fn start(http: SocketAddr, tls: SocketAddr, habits: Habits) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let ca = TestCa::new("the server of the CA");
        let server = ca.server(&["localhost", "127.0.0.1"]).write(dir.path(), "server");
        ca.write(dir.path(), "server");
        let [addr, management, dns, dns_management] = [(); 4].map(|()| free_addr());
        let keys: BTreeMap<&str, &str> = habits.bound_to.into_iter().collect();
        let config = json!({ "pebble": {
            "listenAddress": addr.to_string(),
            "managementListenAddress": management.to_string(),
            "certificate": server.cert_path,
            "privateKey": server.key_path,
            "httpPort": http.port(),
            "tlsPort": tls.port(),
            "externalAccountBindingRequired": habits.bound_to.is_some(),
            "externalAccountMACKeys": keys,
            "domainBlocklist": [BLOCKED],
            "certificateValidityPeriod": habits.validity,
        }});
        std::fs::write(dir.path().join("pebble.json"), config.to_string()).unwrap();
        let mut names = Command::new("pebble-challtestsrv");
        names.args(["-defaultIPv6", "", "-http01", "", "-https01", "", "-tlsalpn01", ""]);
        names.args(["-dns01", &dns.to_string(), "-management", &dns_management.to_string()]);
        let names = start(&mut names, &dir.path().join("names.log"));
        let mut pebble = Self { running: None, _dns: names, dir, addr, management, dns, dns_management };
        eventually("the DNS server answers", || TcpStream::connect(dns_management).ok());
        pebble.start_again();
        pebble
    }

    /// Ends the CA; the DNS server goes on.
    pub(super) fn stop(&mut self) {
        self.running = None;
    }

    /// Starts the CA again. It has forgotten everything, its own key too.
    pub(super) fn start_again(&mut self) {
        let mut command = Command::new("pebble");
        command.arg("-config").arg(self.dir.path().join("pebble.json")).arg("-strict");
        command.args(["-dnsserver", &self.dns.to_string()]).env("PEBBLE_VA_NOSLEEP", "1");
        self.running = Some(start(&mut command, &self.dir.path().join("pebble.log")));
        eventually("the CA listens", || TcpStream::connect(self.addr).ok());
        eventually("the CA is managed", || TcpStream::connect(self.management).ok());
    }

    pub(super) fn directory(&self) -> String {
        format!("https://{}/dir", self.addr)
    }

    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }

    /// Whom to trust to be the CA.
    pub(super) fn server_ca(&self) -> PathBuf {
        self.dir.path().join("server.ca.pem")
    }

    /// Whom to trust to certify names: the root of the CA, as long as it runs.
    pub(super) fn root(&self) -> PathBuf {
        let path = self.dir.path().join("root.pem");
        let (url, ca) = (format!("https://{}/roots/0", self.management), self.server_ca());
        let fetched = Command::new("curl").args(["-sSf", "--cacert"]).arg(ca).arg(url).output().unwrap();
        assert!(fetched.status.success(), "{}", String::from_utf8_lossy(&fetched.stderr));
        std::fs::write(&path, fetched.stdout).unwrap();
        path
    }

    /// Everything that the CA has said.
    pub(super) fn log(&self) -> String {
        std::fs::read_to_string(self.dir.path().join("pebble.log")).unwrap_or_default()
    }
}

impl Drop for Pebble {
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("the CA's log:\n{}", self.log());
        }
    }
}

fn start(command: &mut Command, log: &Path) -> Running {
    let log = std::fs::OpenOptions::new().create(true).append(true).open(log).unwrap();
    let errors = log.try_clone().unwrap();
    let command = command.stdin(Stdio::null()).stdout(log).stderr(errors);
    Running(command.spawn().unwrap_or_else(|error| panic!("{command:?}: {error}")))
}
