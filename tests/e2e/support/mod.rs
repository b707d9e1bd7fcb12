//! A node as a child process, an upstream to put behind it, and a small HTTP client.

mod client;
mod node;
mod upstream;

use std::{
    net::{Ipv4Addr, SocketAddr, TcpListener},
    process::Command,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

pub(crate) use client::{Answer, Client, ask, get};
pub(crate) use node::{Node, UNLIMITED, config, to};
pub(crate) use upstream::Upstream;

/// Ample for anything on a loaded machine; nothing is asserted about how long it took.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Sends a signal to a process that a test started.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

/// An address on loopback that was free a moment ago.
pub(crate) fn free_addr() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// Polls until `probe` finds something.
pub(crate) fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < end, "gave up waiting until {what}");
        thread::park_timeout(Duration::from_millis(5));
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
