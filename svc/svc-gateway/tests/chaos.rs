//! Capacity that is lost: writes make way, reads go on, and the gateway is whole again soon.

#![cfg(not(loom))]
#![expect(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "tests: a failure may panic, and nothing here runs on a runtime"
)]

mod support;

use std::{
    io::{Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use ron_kernel::readiness::Effect;
use ron_transport::addr::ListenAddr;
use support::Running;
use svc_gateway::{DrrConfig, GatewayConfig, QuotasConfig};

fn start() -> Running {
    Running::start(GatewayConfig {
        quotas: QuotasConfig { per_ip_rps: 0, ..QuotasConfig::default() },
        drr: DrrConfig { rate_limit_rps: 0, ..DrrConfig::default() },
        ..GatewayConfig::default()
    })
}

fn connect(gateway: &Running) -> TcpStream {
    let ListenAddr::Tcp(addr) = gateway.gateway.local_addr() else { panic!("a TCP address") };
    TcpStream::connect(addr).unwrap()
}

/// A request on a connection that was there before; the whole answer.
fn ask_on(stream: &mut TcpStream, method: &str) -> String {
    write!(stream, "{method} /x HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n").unwrap();
    let (mut answer, mut buffer) = (String::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer).unwrap();
        assert!(read > 0, "the connection ended after {answer:?}");
        answer.push_str(&String::from_utf8_lossy(&buffer[..read]));
        if let Some((head, body)) = answer.split_once("\r\n\r\n") {
            let lengths = head.lines().filter_map(|line| line.strip_prefix("content-length: "));
            if lengths.filter_map(|length| length.parse().ok()).any(|length: usize| body.len() >= length) {
                return answer;
            }
        }
    }
}

#[test]
fn while_capacity_is_lost_writes_are_told_to_come_back_and_reads_are_answered() {
    let gateway = start();
    let mut client = connect(&gateway);
    let lost = gateway.scope.condition("test_loss", Effect::ShedWrites, Duration::ZERO);
    lost.raise("half of it is gone");
    for method in ["POST", "PUT", "PATCH", "DELETE"] {
        let answer = ask_on(&mut client, method);
        assert!(answer.starts_with("HTTP/1.1 503 "), "{method}: {answer}");
        for part in ["\"reason\":\"degraded\"", "retry-after: 1\r\n", "application/problem+json"] {
            assert!(answer.contains(part), "{method}: {answer}");
        }
    }
    for method in ["GET", "OPTIONS"] {
        let answer = ask_on(&mut client, method);
        assert!(answer.starts_with("HTTP/1.1 200 "), "{method}: {answer}");
    }
    lost.clear();
    assert!(ask_on(&mut client, "POST").starts_with("HTTP/1.1 200 "));
}

/// Lets the clients of a test end, also when it fails.
struct SetAtTheEnd<'a>(&'a AtomicBool);

impl Drop for SetAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Only accepting stands still while the listener is away: the socket is the process's, so newcomers wait.
#[test]
fn a_listener_killed_under_load_comes_back_and_nobody_is_lost() {
    let gateway = start();
    let (done, answered) = (AtomicBool::new(false), AtomicUsize::new(0));
    thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let mut kept = connect(&gateway);
                while !done.load(Ordering::Relaxed) {
                    assert!(ask_on(&mut kept, "GET").starts_with("HTTP/1.1 200 "));
                    let fresh = gateway.ask("GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n");
                    assert!(fresh.starts_with("HTTP/1.1 200 "), "{fresh}");
                    answered.fetch_add(1, Ordering::Relaxed);
                }
            });
        }
        let _done = SetAtTheEnd(&done);
        let supervisor = gateway.scope.supervisor();
        for _ in 0..3 {
            let before = answered.load(Ordering::Relaxed);
            let killed = Instant::now();
            // It may be about to start, or still on its way back from the last time.
            while !supervisor.kill("gateway", "listener") {
                assert!(killed.elapsed() < Duration::from_secs(10), "there is none to kill");
                thread::yield_now();
            }
            let state = gateway.scope.readiness().service("gateway");
            while answered.load(Ordering::Relaxed) < before + 8 || state.sheds_writes() {
                assert!(killed.elapsed() < Duration::from_secs(10), "it does not come back");
                thread::yield_now();
            }
        }
    });
}
