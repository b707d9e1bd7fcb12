//! Certificates by ACME, with a real CA as the referee.

mod faults;
mod issue;
mod pebble;
mod renew;

use std::{net::SocketAddr, path::PathBuf, process::Command};

use pebble::{Habits, Pebble};

use crate::support::{Node, Upstream, eventually, free_addr, get};

/// A CA, an app, and the ports of a gateway that the CA checks names on.
struct World {
    ca: Pebble,
    app: SocketAddr,
    plain: SocketAddr,
    tls: SocketAddr,
}

impl World {
    fn new(habits: Habits) -> Self {
        let (plain, tls) = (free_addr(), free_addr());
        Self { ca: Pebble::start(plain, tls, habits), app: Upstream::start().addr, plain, tls }
    }

    /// `[gateway]` settings with a route for each host, and these of `[gateway.acme]`.
    fn settings(&self, hosts: &[&str], acme: &str) -> String {
        self.settings_at(&self.ca.directory(), hosts, acme)
    }

    /// The same with another directory.
    fn settings_at(&self, directory: &str, hosts: &[&str], acme: &str) -> String {
        let routes: Vec<String> = hosts
            .iter()
            .map(|host| {
                format!("{{ path = \"/\", name = \"{host}\", host = [\"{host}\"], upstream = \"app\" }}")
            })
            .collect();
        format!(
            "redirect_http = \"{}\"\nroute = [{}]\nupstream.app.endpoints = [\"http://{}\"]\n\
             acme.agree_tos = true\nacme.directory = \"{directory}\"\nacme.ca_path = {:?}\n{acme}",
            self.plain,
            routes.join(", "),
            self.app,
            self.ca.server_ca(),
        )
    }

    fn start(&self, settings: &str) -> Node {
        Node::start_at(self.tls, tempfile::tempdir().unwrap(), settings)
    }

    /// What `curl` gets from the gateway over TLS for a host; it believes nobody but the CA.
    fn fetch(&self, host: &str) -> Result<String, String> {
        fetch(self.tls, host, &self.ca.root())
    }

    /// Waits until the gateway serves a host.
    #[track_caller]
    fn wait_for(&self, host: &str) {
        eventually(&format!("{host} is served"), || self.fetch(host).ok());
    }
}

/// What `curl` gets over TLS for a host; it believes nobody but `root`.
fn fetch(addr: SocketAddr, host: &str, root: &PathBuf) -> Result<String, String> {
    let (resolve, url) =
        (format!("{host}:{}:127.0.0.1", addr.port()), format!("https://{host}:{}/x", addr.port()));
    let output = Command::new("curl")
        .args(["-sS", "--max-time", "30", "--resolve", &resolve, &url, "--cacert"])
        .arg(root)
        .output()
        .unwrap();
    if output.status.success() {
        Ok(String::from_utf8_lossy(&output.stdout).into_owned())
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into_owned())
    }
}

/// The serial number of the certificate that clients of a host are shown; `None` if there is none.
fn serial(addr: SocketAddr, host: &str) -> Option<String> {
    let script = "openssl s_client -connect \"$1\" -servername \"$2\" </dev/null 2>/dev/null | openssl x509 -noout -serial";
    let output = Command::new("sh").args(["-c", script, "sh", &addr.to_string(), host]).output().unwrap();
    let line = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    line.starts_with("serial=").then_some(line)
}

/// What the node says of a name that it has a certificate for, or wants one.
fn told(node: &Node, name: &str) -> serde_json::Value {
    let status = get(node.admin, "/status").unwrap().json();
    let names = status["gateway"]["acme"].as_array().unwrap();
    names.iter().find(|told| told["name"] == name).cloned().unwrap_or_default()
}

/// Waits until the last attempt for a name has failed; returns what the node says of it.
#[track_caller]
fn wait_for_failure(node: &Node, name: &str) -> serde_json::Value {
    eventually(&format!("{name} has failed"), || {
        Some(told(node, name)).filter(|told| told["failures"].as_u64() > Some(0))
    })
}

/// The folder in which the node keeps what it has from the CA.
fn kept(node: &Node) -> PathBuf {
    let folders = std::fs::read_dir(node.path().join("data/acme")).unwrap();
    folders.map(|entry| entry.unwrap().path()).next().unwrap()
}
