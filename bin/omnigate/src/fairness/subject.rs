//! The gateway that is put to the test: this very program as a child process, so that its sockets and signals are real.

use std::{
    io::{self, BufRead, BufReader},
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use super::scenario::{Bench, Mode};

/// A running gateway; stopped when dropped.
#[derive(Debug)]
pub(super) struct Subject {
    child: Child,
    addr: SocketAddr,
}

impl Subject {
    /// Starts a gateway in front of `upstream` and waits until it has told where it listens. Blocking.
    pub(super) fn start(bench: &Bench, mode: Mode, upstream: SocketAddr, dir: &Path) -> io::Result<Self> {
        let file = dir.join("fairness.toml");
        write(&file, &config(bench, mode, upstream))?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg("gateway").arg("--config").arg(&file).stdin(Stdio::null()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let banner = child.stdout.take().map(BufReader::new).ok_or(io::ErrorKind::BrokenPipe)?;
        match find_address(banner) {
            Ok(addr) => Ok(Self { child, addr }),
            Err(error) => {
                child.kill()?;
                child.wait()?;
                Err(error)
            }
        }
    }

    /// Where it listens.
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

#[expect(clippy::disallowed_methods, reason = "the command has nothing else to do meanwhile")]
fn write(file: &Path, text: &str) -> io::Result<()> {
    std::fs::write(file, text)
}

/// Reads the lines a node prints when it is up, until the one that names the gateway's address.
fn find_address(banner: impl BufRead) -> io::Result<SocketAddr> {
    for line in banner.lines() {
        let line = line?;
        let mut words = line.split_whitespace();
        if words.next() == Some("gateway")
            && let Some(addr) = words.next().and_then(|word| word.parse().ok())
        {
            return Ok(addr);
        }
    }
    Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the gateway ended before it was up"))
}

/// The configuration under test: only admission decides, so rates and client caps are out of the way.
fn config(bench: &Bench, mode: Mode, upstream: SocketAddr) -> String {
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
quotas = {{ per_ip_rps = 0, per_cap_rps = 0 }}
drr = {{ rate_limit_rps = 0, tenant_quanta = {{ {} }} }}
fair_queue = {{ enabled = {enabled}, order = "{order}", max_inflight = {} }}
route = [{{ path = "/", upstream = "sleeper" }}]
[gateway.upstream.sleeper]
endpoints = ["http://{upstream}"]
timeout = "30s"
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
    fn the_address_is_read_from_what_a_node_prints_when_it_is_up() {
        let banner =
            "omnigate 0.1.0 is up as fairness\n  gateway  127.0.0.1:4711\n  admin    127.0.0.1:4712\n";
        assert_eq!(find_address(banner.as_bytes()).unwrap(), "127.0.0.1:4711".parse().unwrap());
        assert!(find_address("omnigate is up\n".as_bytes()).is_err());
    }
}
