//! Ports that nobody takes between a test's asking for one and its node's listening there.

use std::{
    collections::BTreeSet,
    iter,
    net::{Ipv4Addr, TcpListener},
    sync::{Mutex, PoisonError},
};

/// Below those that the system gives to whoever does not ask for one: each connection that another test opens has one of
/// them, and for a minute after its end.
const OURS: std::ops::Range<u16> = 10_000..32_000;

/// Those that were given to a test of this process, which may not listen there yet.
static GIVEN: Mutex<BTreeSet<u16>> = Mutex::new(BTreeSet::new());

/// A port on loopback where nobody listens, and which no other test is given.
pub(crate) fn free_port() -> u16 {
    let mut given = GIVEN.lock().unwrap_or_else(PoisonError::into_inner);
    let mut guesses = iter::repeat_with(|| fastrand::u16(OURS)).take(10_000);
    let is_free = |port: &u16| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok();
    let port = guesses.find(|port| !given.contains(port) && is_free(port)).expect("there are free ports");
    given.insert(port);
    port
}
