//! A node as a child process, an upstream to put behind it, and a small HTTP client.

#![allow(dead_code, unused_imports, reason = "several test programs share it, and each uses a part")]

pub(crate) mod bundle;
mod client;
mod node;
mod ports;
mod stalls;
mod upstream;

use std::{
    net::{Ipv4Addr, SocketAddr},
    process::{Child, Command},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

pub(crate) use client::{Answer, Client, ask, get};
pub(crate) use node::{Node, UNLIMITED, assert_known, config, to};
pub(crate) use ports::free_port;
pub(crate) use stalls::{Stalls, be_patient};
pub(crate) use upstream::Upstream;

/// Ample for anything on a loaded machine; nothing is asserted about how long it took.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a signal to a process that a test started.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

/// An address on loopback where nobody listens, and where nobody else will.
pub(crate) fn free_addr() -> SocketAddr {
    (Ipv4Addr::LOCALHOST, free_port()).into()
}

/// Polls until `probe` finds something.
#[track_caller]
pub(crate) fn eventually<T>(what: &str, probe: impl FnMut() -> Option<T>) -> T {
    eventually_within(PATIENCE, what, probe)
}

/// The same for what takes longer than most.
#[track_caller]
pub(crate) fn eventually_within<T>(
    patience: Duration,
    what: &str,
    mut probe: impl FnMut() -> Option<T>,
) -> T {
    let end = Instant::now() + patience;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < end, "gave up waiting until {what}");
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// The process that listens on a port, found the way `ss` does.
pub(crate) fn listener_pid(port: u16) -> Option<u32> {
    let inode = std::fs::read_to_string("/proc/net/tcp").unwrap().lines().skip(1).find_map(|line| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let listens = fields[3] == "0A" && fields[1].ends_with(&format!(":{port:04X}"));
        listens.then(|| fields[9].to_owned())
    })?;
    let wanted = format!("socket:[{inode}]");
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok()).find(|pid| {
        let fds = std::fs::read_dir(format!("/proc/{pid}/fd")).into_iter().flatten().flatten();
        fds.filter_map(|fd| std::fs::read_link(fd.path()).ok()).any(|link| link.to_str() == Some(&wanted))
    })
}

/// A process of a test's own. Killed when dropped.
pub(crate) struct Running(pub(crate) Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Tells threads that a test is over.
#[derive(Default)]
pub(crate) struct Flag(AtomicBool);

impl Flag {
    pub(crate) fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }

    /// Set when the guard is dropped, so that no thread goes on after a failure.
    pub(crate) fn set_at_the_end(&self) -> impl Drop {
        struct Setter<'a>(&'a AtomicBool);
        impl Drop for Setter<'_> {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Relaxed);
            }
        }
        Setter(&self.0)
    }
}
