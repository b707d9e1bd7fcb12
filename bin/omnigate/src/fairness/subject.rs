//! The gateway that is put to the test: this very program as a child process, so that its sockets and signals are real.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};

use super::scenario::{Bench, Mode};

/// A running gateway; stopped when dropped.
#[derive(Debug)]
pub(super) struct Subject {
    child: Child,
    addr: SocketAddr,
    admin: SocketAddr,
    file: PathBuf,
    /// The configuration it started with, and one that differs.
    configs: [String; 2],
}

impl Subject {
    /// Starts a gateway in front of `upstream` and waits until it has told where it listens. Blocking.
    pub(super) fn start(
        bench: &Bench,
        (mode, per_ip_rps): (Mode, u32),
        upstream: SocketAddr,
        dir: &Path,
    ) -> io::Result<Self> {
        let file = dir.join("fairness.toml");
        let configs = [30, 31].map(|timeout_secs| config(bench, (mode, per_ip_rps), upstream, timeout_secs));
        write(&file, &configs[0])?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("gateway").arg("--config").arg(&file).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let banner = child.stdout.take().map(BufReader::new).ok_or(io::ErrorKind::BrokenPipe)?;
        match find_addresses(banner) {
            Ok((addr, admin)) => Ok(Self { child, addr, admin, file, configs }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Has it read a configuration that differs from the one before, the `count`th. Blocking.
    pub(super) fn reload(&self, count: usize) -> io::Result<()> {
        write(&self.file, &self.configs[count % self.configs.len()])?;
        Ok(kill_process(Pid::from_child(&self.child), Signal::HUP)?)
    }

    /// How many configurations have come into force. Blocking.
    #[expect(clippy::disallowed_methods, reason = "the command has nothing else to do meanwhile")]
    pub(super) fn configurations(&self) -> io::Result<u64> {
        let mut admin = TcpStream::connect(self.admin)?;
        write!(admin, "GET /metrics HTTP/1.1\r\nhost: {}\r\nconnection: close\r\n\r\n", self.admin)?;
        let mut metrics = String::new();
        admin.read_to_string(&mut metrics)?;
        find_updates(&metrics).ok_or_else(|| io::ErrorKind::InvalidData.into())
    }

    /// Returns the listening address.
    pub(super) fn addr(&self) -> SocketAddr {
        self.addr
    }
}

impl Drop for Subject {
    /// Its work is done and nothing of it is kept: there is nothing to drain.
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Puts a whole file in the place of another: the node watches it, and half of a file is another configuration.
#[expect(clippy::disallowed_methods, reason = "the command has nothing else to do meanwhile")]
fn write(file: &Path, text: &str) -> io::Result<()> {
    let whole = file.with_extension("new");
    std::fs::write(&whole, text)?;
    std::fs::rename(whole, file)
}

/// Reads the lines a node prints when it is up, until those that name the addresses of the gateway and of the admin plane.
fn find_addresses(banner: impl BufRead) -> io::Result<(SocketAddr, SocketAddr)> {
    let (mut gateway, mut admin) = (None, None);
    for line in banner.lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        let place = match words.next() {
            Some("gateway") => &mut gateway,
            Some("admin") => &mut admin,
            _ => continue,
        };
        *place = words.next().and_then(|word| word.parse().ok());
        if let (Some(gateway), Some(admin)) = (gateway, admin) {
            return Ok((gateway, admin));
        }
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the gateway ended before it was up"))
}

/// Reads from a scrape how many configurations have come into force.
fn find_updates(metrics: &str) -> Option<u64> {
    let line = metrics.lines().find(|line| line.starts_with("config_update_total"))?;
    line.rsplit(' ').next()?.parse().ok()
}

/// The configuration under test: admission decides, so client caps are out of the way, and rates unless a case wants them.
fn config(bench: &Bench, (mode, per_ip_rps): (Mode, u32), upstream: SocketAddr, timeout_secs: u32) -> String {
    let (enabled, order) = match mode {
        Mode::Off => (false, "fair"),
        Mode::Fifo => (true, "fifo"),
        Mode::Fair => (true, "fair"),
    };
    let quanta: Vec<String> =
        bench.weights.iter().map(|(tenant, weight)| format!("{tenant} = {weight}")).collect();
    format!(
        r#"[node]
name = "fairness"
[log]
level = "error"
[admin]
listen = "127.0.0.1:0"
[gateway]
listen = "127.0.0.1:0"
max_conns = 8192
max_conns_per_client = 8192
write_timeout = "60s"
tenant_from = ["header:x-tenant", "ip"]
quotas = {{ per_ip_rps = {per_ip_rps}, per_cap_rps = 0 }}
drr = {{ rate_limit_rps = 0, tenant_quanta = {{ {} }} }}
fair_queue = {{ enabled = {enabled}, order = "{order}", max_inflight = {} }}
route = [{{ path = "/", upstream = "sleeper" }}, {{ path = "/stream", upstream = "sleeper", stream = true }}]
[gateway.upstream.sleeper]
endpoints = ["http://{upstream}"]
timeout = "{timeout_secs}s"
max_conns = 8192
"#,
        quanta.join(", "),
        bench.slots,
    )
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_addresses_are_read_from_what_a_node_prints_when_it_is_up() {
        let banner =
            "omnigate 0.1.0 is up as fairness\n  gateway  127.0.0.1:4711\n  admin    127.0.0.1:4712\n";
        let expected = ("127.0.0.1:4711".parse().unwrap(), "127.0.0.1:4712".parse().unwrap());
        assert_eq!(find_addresses(banner.as_bytes()).unwrap(), expected);
        assert!(find_addresses("omnigate is up\n  gateway  127.0.0.1:4711\n".as_bytes()).is_err());
    }

    #[test]
    fn configurations_are_counted_from_a_scrape() {
        let scrape = "# TYPE config_update_total counter\nconfig_update_total{service=\"x\"} 7\n";
        assert_eq!(find_updates(scrape), Some(7));
        assert_eq!(find_updates("HTTP/1.1 403 Forbidden\r\n\r\n"), None);
    }
}
