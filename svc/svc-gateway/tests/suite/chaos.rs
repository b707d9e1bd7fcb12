//! Capacity that is lost: writes make way, reads go on, and the gateway is whole again soon.

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    sync::atomic::{AtomicBool, AtomicUsize, Ordering},
    thread,
    time::{Duration, Instant},
};

use crate::support::{PATIENCE, Running};
use ron_kernel::{bus::KernelEvent, readiness::Effect};
use ron_transport::addr::ListenAddr;
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
    try_ask_on(stream, method).expect("the connection goes on")
}

fn try_ask_on(stream: &mut TcpStream, method: &str) -> io::Result<String> {
    write!(stream, "{method} /x HTTP/1.1\r\nhost: a\r\ncontent-length: 0\r\n\r\n")?;
    read_answer(stream)
}

/// A whole answer.
fn read_answer(stream: &mut TcpStream) -> io::Result<String> {
    let (mut answer, mut buffer) = (String::new(), [0; 4096]);
    loop {
        let read = stream.read(&mut buffer)?;
        if read == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        answer.push_str(&String::from_utf8_lossy(&buffer[..read]));
        if let Some((head, body)) = answer.split_once("\r\n\r\n") {
            let lengths = head.lines().filter_map(|line| line.strip_prefix("content-length: "));
            if lengths.filter_map(|length| length.parse().ok()).any(|length: usize| body.len() >= length) {
                return Ok(answer);
            }
        }
    }
}

#[test]
fn while_capacity_is_lost_writes_are_told_to_come_back_and_reads_are_answered() {
    let gateway = start();
    let mut client = connect(&gateway);
    let degraded = || {
        let text = gateway.scope.all_metrics().prometheus_text();
        text.lines().find_map(|line| line.strip_prefix("gateway_degraded{")?.rsplit(' ').next()?.parse().ok())
    };
    let lost = gateway.scope.condition("test_loss", Effect::ShedWrites, Duration::ZERO);
    wait_until("it is not degraded", || degraded() == Some(0));
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
    wait_until("it is told that it is degraded", || degraded() == Some(1));
    lost.clear();
    assert!(ask_on(&mut client, "POST").starts_with("HTTP/1.1 200 "));
    wait_until("it is told that it is not", || degraded() == Some(0));
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
                assert!(killed.elapsed() < PATIENCE, "there is none to kill");
                thread::yield_now();
            }
            let state = gateway.scope.readiness().service("gateway");
            while answered.load(Ordering::Relaxed) < before + 8 || state.sheds_writes() {
                assert!(killed.elapsed() < PATIENCE, "it does not come back");
                thread::yield_now();
            }
        }
    });
}

/// Kills that many workers and waits until readiness tells. By the events, because it may be over before one looks.
fn kill_workers(gateway: &Running, workers: usize) {
    let mut events = gateway.scope.bus().subscribe();
    let supervisor = gateway.scope.supervisor();
    assert!((0..workers).all(|worker| supervisor.kill("gateway", &format!("worker#{worker}"))));
    let lost = |event: &KernelEvent| {
        matches!(event, KernelEvent::Condition { service: "gateway", name: "lost_workers", effect, .. }
            if *effect == Some(Effect::ShedWrites))
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let told =
        async { while !events.next().await.expect("the node goes on").is_ok_and(|event| lost(&event)) {} };
    let in_time = runtime.block_on(async { tokio::time::timeout(PATIENCE, told).await });
    assert!(in_time.is_ok(), "readiness does not tell that workers are lost");
}

fn wait_until(what: &str, holds: impl Fn() -> bool) {
    let since = Instant::now();
    while !holds() {
        assert!(since.elapsed() < PATIENCE, "{what}: waited in vain");
        thread::yield_now();
    }
}

/// How many connections of clients the gateway holds.
fn live_connections(gateway: &Running) -> usize {
    let children = gateway.scope.supervisor().children();
    children.iter().filter(|child| (child.0, child.1) == ("gateway", "connection")).map(|child| child.2).sum()
}

/// Sends the head of a request with a body, and waits until the gateway asks for the body: the request is in flight.
fn begin_request(stream: &mut TcpStream) {
    let head = "GET /x HTTP/1.1\r\nhost: a\r\ncontent-length: 1\r\nexpect: 100-continue\r\n\r\n";
    stream.write_all(head.as_bytes()).unwrap();
    let (mut told, mut byte) = (Vec::new(), [0]);
    while !told.ends_with(b"\r\n\r\n") {
        stream.read_exact(&mut byte).unwrap();
        told.extend(byte);
    }
    assert!(told.starts_with(b"HTTP/1.1 100 "), "{}", String::from_utf8_lossy(&told));
}

/// Whether the request of [`begin_request`] is answered once its body is there.
fn request_ends_well(stream: &mut TcpStream) -> bool {
    let answered = stream.write_all(b"x").and_then(|()| read_answer(stream));
    answered.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
}

/// Whether a connection still answers.
fn answers(stream: &mut TcpStream) -> bool {
    try_ask_on(stream, "GET").is_ok_and(|answer| answer.starts_with("HTTP/1.1 200 "))
}

#[test]
fn half_of_the_workers_killed_take_the_requests_of_their_connections_with_them_and_no_others() {
    let gateway = start();
    let cores = gateway.scope.planes().cores();
    let (killed, spared) = cores.split_at(cores.len().div_ceil(2));
    for round in 1..=3 {
        let mut clients: Vec<_> = (0..cores.len() * 8).map(|_| connect(&gateway)).collect();
        assert!(clients.iter_mut().all(answers), "round {round}");
        clients.iter_mut().for_each(begin_request);
        let expected: usize = spared.iter().map(|core| core.load()).sum();
        kill_workers(&gateway, killed.len());
        wait_until("their connections are gone", || live_connections(&gateway) == expected);
        let left: Vec<_> = clients.iter_mut().map(request_ends_well).collect();
        let left = left.iter().filter(|answered| **answered).count();
        assert!(left == expected && left < clients.len(), "round {round}: {left} of {expected}");
        let state = gateway.scope.readiness().service("gateway");
        wait_until("the workers are back", || !state.sheds_writes());
        drop(clients);
        wait_until("no connection is left behind", || live_connections(&gateway) == 0);
        assert!(ask_on(&mut connect(&gateway), "POST").starts_with("HTTP/1.1 200 "), "round {round}");
    }
}
