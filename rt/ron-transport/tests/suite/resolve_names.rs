//! Names to addresses: one lookup at a time, answers that last, and old answers while new ones cannot be had.

#![expect(clippy::disallowed_methods, reason = "tests")]

use std::{
    io,
    net::{IpAddr, Ipv4Addr, SocketAddr},
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ron_kernel::{Kernel, Scope, blocking::BLOCKING_THREADS, planes::RuntimeMode, topology::Topology};
use ron_transport::resolve::{
    FRESH, MAX_ADDRESSES, MAX_DIALLED, MAX_NAMES, RETRY, ResolveError, Resolver, STALE, STALE_WAIT,
};
use tokio::{task::JoinSet, time::advance};

const PORT: u16 = 80;
const HAIR: Duration = Duration::from_millis(1);

static TOPOLOGY: Topology = Topology {
    service: "t",
    purpose: "looks names up",
    last_reviewed: "2026-01-01",
    invariants: &[],
    tasks: &[],
    children: &[],
    queues: &[],
    locks: &[],
    timeouts: &[],
    metrics: &[],
    trade_offs: &[],
};

/// A name server under the test's control: counts the questions, answers with the last address set, or fails.
#[derive(Clone, Default)]
struct Names(Arc<(Mutex<Zone>, Condvar)>);

#[derive(Default)]
struct Zone {
    asked: Vec<String>,
    addresses: Option<Vec<IpAddr>>,
    silent: bool,
}

impl Names {
    fn with(last_octets: &[u8]) -> Self {
        let names = Self::default();
        names.say(last_octets);
        names
    }

    fn say(&self, last_octets: &[u8]) {
        let addresses = last_octets.iter().map(|last| ip(*last)).collect();
        self.0.0.lock().unwrap().addresses = Some(addresses);
    }

    fn fail(&self) {
        self.0.0.lock().unwrap().addresses = None;
    }

    /// Until spoken again, questions are heard and not answered. Answered at the latest when the guard goes, so that no
    /// thread outlives its test.
    fn hush(&self) -> impl Drop + use<> {
        struct Speak(Names);
        impl Drop for Speak {
            fn drop(&mut self) {
                self.0.speak();
            }
        }
        self.0.0.lock().unwrap().silent = true;
        Speak(self.clone())
    }

    fn speak(&self) {
        self.0.0.lock().unwrap().silent = false;
        self.0.1.notify_all();
    }

    fn asked(&self) -> usize {
        self.0.0.lock().unwrap().asked.len()
    }

    fn answer(&self, host: &str) -> io::Result<Vec<IpAddr>> {
        let mut zone = self.0.0.lock().unwrap();
        zone.asked.push(host.to_owned());
        let zone = self.0.1.wait_while(zone, |zone| zone.silent).unwrap();
        zone.addresses.clone().ok_or_else(|| io::Error::other("no such host"))
    }
}

fn ip(last_octet: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(192, 0, 2, last_octet))
}

fn at(last_octet: u8) -> Vec<SocketAddr> {
    vec![SocketAddr::new(ip(last_octet), PORT)]
}

fn node(names: &Names) -> (Kernel, Scope, Resolver) {
    let kernel = Kernel::builder("test").runtime(RuntimeMode::Current).build().unwrap();
    let scope = kernel.scope(&TOPOLOGY);
    let source = names.clone();
    let resolver = Resolver::with_source(&scope, move |host| source.answer(host));
    (kernel, scope, resolver)
}

async fn lookup(resolver: &Resolver, host: &str) -> Result<Vec<SocketAddr>, ResolveError> {
    resolver.lookup(host, PORT).await.map(|addresses| addresses.to_vec())
}

/// Lets the runtime turn until `done`.
async fn until(done: impl Fn() -> bool) {
    while !done() {
        tokio::task::yield_now().await;
    }
}

#[tokio::test(start_paused = true)]
async fn an_address_is_its_own_answer() {
    let names = Names::default();
    let (_kernel, _scope, resolver) = node(&names);
    assert_eq!(lookup(&resolver, "192.0.2.7").await.unwrap(), at(7));
    assert_eq!(*resolver.lookup("::1", 9).await.unwrap(), ["[::1]:9".parse().unwrap()]);
    assert_eq!(names.asked(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_caller_that_wants_a_younger_answer_gets_one_and_a_failed_name_is_still_left_alone() {
    let names = Names::with(&[1]);
    let (_kernel, _scope, resolver) = node(&names);
    let every = Duration::from_secs(2);
    let look = async || resolver.lookup_within("a.test", PORT, every).await.unwrap().to_vec();
    assert_eq!(look().await, at(1));
    names.say(&[2]);
    advance(every - HAIR).await;
    assert_eq!((look().await, names.asked()), (at(1), 1));
    advance(HAIR).await;
    assert_eq!((look().await, names.asked()), (at(2), 2), "long before it is no longer fresh for others");
    names.fail();
    advance(every).await;
    assert_eq!((look().await, names.asked()), (at(2), 3));
    assert_eq!((look().await, names.asked()), (at(2), 3), "left alone after a failure");
    advance(RETRY).await;
    assert_eq!((look().await, names.asked()), (at(2), 4));
}

#[tokio::test(start_paused = true)]
async fn an_answer_lasts_until_it_is_no_longer_fresh_whatever_the_port() {
    let names = Names::with(&[1]);
    let (_kernel, _scope, resolver) = node(&names);
    assert_eq!(lookup(&resolver, "a.test").await.unwrap(), at(1));
    names.say(&[2]);
    advance(FRESH - HAIR).await;
    assert_eq!(*resolver.lookup("a.test", 9).await.unwrap(), [SocketAddr::new(ip(1), 9)]);
    assert_eq!(names.asked(), 1);
    advance(HAIR).await;
    assert_eq!(lookup(&resolver, "a.test").await.unwrap(), at(2));
    assert_eq!(names.asked(), 2);
}

#[tokio::test(start_paused = true)]
async fn few_addresses_are_dialled_in_their_order_and_none_is_an_error() {
    let names = Names::with(&[9, 8, 7, 6, 5, 4, 3, 2, 1]);
    let (_kernel, _scope, resolver) = node(&names);
    let addresses = lookup(&resolver, "a.test").await.unwrap();
    assert_eq!(addresses.len(), MAX_DIALLED);
    assert_eq!(addresses[..2], [at(9), at(8)].concat());
    names.say(&[]);
    assert!(matches!(lookup(&resolver, "b.test").await, Err(ResolveError::NoAddress)));
}

#[tokio::test(start_paused = true)]
async fn all_addresses_of_a_name_are_had_once_each_and_of_too_many_the_same_ones_however_they_are_rotated() {
    let names = Names::default();
    let (_kernel, _scope, resolver) = node(&names);
    let all = async |host: &str| resolver.lookup_within(host, PORT, FRESH).await.unwrap().to_vec();
    let most = u8::try_from(MAX_ADDRESSES).unwrap();
    let full: Vec<u8> = (1..=most).rev().collect();
    names.say(&[full.clone(), full.clone()].concat());
    let in_order: Vec<SocketAddr> = full.iter().flat_map(|last| at(*last)).collect();
    assert_eq!(all("full.test").await, in_order);

    let mut too_many: Vec<u8> = (1..=most + 1).collect();
    for host in ["a.test", "b.test", "c.test"] {
        too_many.rotate_left(7);
        names.say(&too_many);
        let mut kept = all(host).await;
        assert_eq!(kept[0], at(too_many[0])[0], "in their order");
        kept.sort();
        assert!(kept.iter().rev().eq(&in_order), "{kept:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn callers_of_one_name_share_one_look_up() {
    let names = Names::with(&[1]);
    let silence = names.hush();
    let (_kernel, _scope, resolver) = node(&names);
    let mut callers = JoinSet::new();
    for _ in 0..50 {
        let resolver = resolver.clone();
        callers.spawn(async move { lookup(&resolver, "a.test").await.unwrap() });
    }
    until(|| names.asked() == 1).await;
    drop(silence);
    assert_eq!(callers.join_all().await, vec![at(1); 50]);
    assert_eq!(names.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_and_the_name_left_alone_for_a_moment() {
    let names = Names::default();
    let (_kernel, _scope, resolver) = node(&names);
    let failed = lookup(&resolver, "a.test").await.unwrap_err();
    assert_eq!(failed.to_string(), "no such host");
    names.say(&[1]);
    advance(RETRY - HAIR).await;
    assert!(lookup(&resolver, "a.test").await.is_err());
    assert_eq!(names.asked(), 1);
    advance(HAIR).await;
    assert_eq!(lookup(&resolver, "a.test").await.unwrap(), at(1));
}

#[tokio::test(start_paused = true)]
async fn old_addresses_stand_in_for_failures_but_not_for_ever() {
    let names = Names::with(&[1]);
    let (_kernel, _scope, resolver) = node(&names);
    lookup(&resolver, "a.test").await.unwrap();
    names.fail();
    advance(FRESH).await;
    assert_eq!(lookup(&resolver, "a.test").await.unwrap(), at(1));
    assert_eq!(lookup(&resolver, "a.test").await.unwrap(), at(1));
    assert_eq!(names.asked(), 2, "a failure is not repeated at once");
    advance(STALE - FRESH - HAIR).await;
    assert_eq!(lookup(&resolver, "a.test").await.unwrap(), at(1));
    advance(RETRY).await;
    assert!(lookup(&resolver, "a.test").await.is_err());
}

#[tokio::test(start_paused = true)]
async fn while_the_name_server_is_silent_an_old_address_is_given_after_a_short_wait() {
    let names = Names::with(&[1]);
    let (_kernel, _scope, resolver) = node(&names);
    lookup(&resolver, "a.test").await.unwrap();
    let silence = names.hush();
    names.say(&[2]);
    advance(FRESH).await;
    let caller = tokio::spawn({
        let resolver = resolver.clone();
        async move { lookup(&resolver, "a.test").await.unwrap() }
    });
    until(|| names.asked() == 2).await;
    advance(STALE_WAIT - HAIR).await;
    assert!(!caller.is_finished());
    advance(HAIR * 2).await;
    assert_eq!(caller.await.unwrap(), at(1));
    drop(silence);
    let answered = async { while lookup(&resolver, "a.test").await.unwrap() != at(2) {} };
    answered.await;
    assert_eq!(names.asked(), 2, "the look-up that was slow is the one that answered");
}

#[tokio::test(start_paused = true)]
async fn a_look_up_outlives_its_caller_and_serves_the_next() {
    let names = Names::with(&[1]);
    let silence = names.hush();
    let (_kernel, _scope, resolver) = node(&names);
    let caller = tokio::spawn({
        let resolver = resolver.clone();
        async move { lookup(&resolver, "a.test").await.unwrap() }
    });
    until(|| names.asked() == 1).await;
    caller.abort();
    assert!(caller.await.unwrap_err().is_cancelled());
    drop(silence);
    assert_eq!(lookup(&resolver, "a.test").await.unwrap(), at(1));
    assert_eq!(names.asked(), 1);
}

#[tokio::test(start_paused = true)]
async fn when_whoever_waits_for_a_thread_leaves_the_next_caller_takes_over() {
    let names = Names::with(&[1]);
    let silence = names.hush();
    let (_kernel, scope, resolver) = node(&names);
    let mut busy = JoinSet::new();
    for n in 0..BLOCKING_THREADS {
        let resolver = resolver.clone();
        busy.spawn(async move { lookup(&resolver, &format!("{n}.test")).await.unwrap() });
    }
    until(|| names.asked() == BLOCKING_THREADS).await;
    let ask = || {
        let resolver = resolver.clone();
        tokio::spawn(async move { lookup(&resolver, "a.test").await.unwrap() })
    };
    let first = ask();
    until(|| scope.blocking().waiting() == 1).await;
    let second = ask();
    first.abort();
    assert!(first.await.unwrap_err().is_cancelled());
    until(|| scope.blocking().waiting() == 1).await;
    drop(silence);
    assert_eq!(second.await.unwrap(), at(1));
}

#[tokio::test(start_paused = true)]
async fn a_panic_in_a_look_up_is_an_error_and_not_the_end_of_the_name() {
    let kernel = Kernel::builder("test").runtime(RuntimeMode::Current).build().unwrap();
    let first = AtomicBool::new(true);
    let resolver = Resolver::with_source(&kernel.scope(&TOPOLOGY), move |_| {
        assert!(!first.swap(false, Ordering::Relaxed), "bad luck");
        Ok(vec![ip(1)])
    });
    let failed = lookup(&resolver, "a.test").await.unwrap_err();
    assert!(failed.to_string().contains("bad luck"), "{failed}");
    assert_eq!(lookup(&resolver, "a.test").await.unwrap(), at(1));
}

#[tokio::test(start_paused = true)]
async fn one_name_too_many_displaces_the_one_learned_first() {
    let names = Names::with(&[1]);
    let (_kernel, _scope, resolver) = node(&names);
    for n in 0..=MAX_NAMES {
        lookup(&resolver, &format!("{n}.test")).await.unwrap();
        advance(HAIR).await;
    }
    let asked = names.asked();
    lookup(&resolver, "1.test").await.unwrap();
    assert_eq!(names.asked(), asked);
    lookup(&resolver, "0.test").await.unwrap();
    assert_eq!(names.asked(), asked + 1);
}
