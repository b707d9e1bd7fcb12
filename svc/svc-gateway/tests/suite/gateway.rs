//! A gateway on a real kernel and real sockets, inside the test.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use crate::{
    support::{PATIENCE, patient, patient_upstream},
    upstream_support::eventually,
};
use ron_kernel::{Exit, Kernel, Scope, readiness::Effect};
use ron_transport::{addr::ListenAddr, inherit::Inherited};
use svc_gateway::{
    AuthConfig, Gateway, GatewayConfig, GatewaySettings, LocalServices, RouteConfig, TOPOLOGY, UpstreamConfig,
};

/// An upstream that answers every request with `fine`, one connection each.
fn upstream() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let mut head = [0; 4096];
            let _ = stream.read(&mut head);
            let _ =
                stream.write_all(b"HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 4\r\n\r\nfine");
        }
    });
    addr
}

/// A gateway in front of `upstream`, its scope, and the thread that conducts its kernel.
fn gateway(upstream: SocketAddr) -> (SocketAddr, Scope, thread::JoinHandle<Exit>, Arc<Gateway>) {
    gateway_with(upstream, patient_upstream(upstream))
}

/// The same with these settings for the upstream.
fn gateway_with(
    upstream: SocketAddr,
    settings: UpstreamConfig,
) -> (SocketAddr, Scope, thread::JoinHandle<Exit>, Arc<Gateway>) {
    let kernel = Kernel::builder("test").drain_deadline(PATIENCE).build().unwrap();
    let scope = kernel.scope(&TOPOLOGY);
    let mut config = GatewayConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        route: vec![RouteConfig { path: "/".into(), upstream: "up".into(), ..RouteConfig::default() }],
        upstream: [(
            "up".to_owned(),
            UpstreamConfig { endpoints: vec![format!("http://{upstream}").parse().unwrap()], ..settings },
        )]
        .into(),
        ..patient(GatewayConfig::default())
    };
    // All requests of a test come from one address, and how fast is the machine's business.
    (config.quotas.per_ip_rps, config.drr.rate_limit_rps) = (0, 0);
    let mut inherited = Inherited::from_env().unwrap();
    let settings = GatewaySettings { gateway: &config, auth: &AuthConfig::default(), data_dir: None };
    let gateway =
        kernel.block_on(Gateway::build(&scope, settings, LocalServices::default(), &mut inherited)).unwrap();
    let ListenAddr::Tcp(addr) = gateway.local_addr() else { panic!("a TCP address") };
    let conductor = thread::spawn(move || kernel.run().unwrap());
    (addr, scope, conductor, gateway)
}

fn ask(addr: SocketAddr, method: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} / HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: 0\r\n\r\n")
        .unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn while_capacity_is_lost_writes_are_refused_and_reads_are_served() {
    let (addr, scope, conductor, _gateway) = gateway(upstream());
    let condition = scope.condition("test", Effect::ShedWrites, Duration::ZERO);
    assert!(ask(addr, "POST").starts_with("HTTP/1.1 200"));
    condition.raise("a test says so");
    let refused = ask(addr, "POST").to_ascii_lowercase();
    assert!(refused.starts_with("http/1.1 503"), "{refused}");
    assert!(refused.contains("retry-after: 1") && refused.contains("\"reason\":\"degraded\""), "{refused}");
    assert!(ask(addr, "GET").starts_with("HTTP/1.1 200"));
    condition.clear();
    assert!(ask(addr, "POST").starts_with("HTTP/1.1 200"));
    for metric in ["used.requests", "provided.answers"] {
        let booked = || -> u64 {
            let totals = scope.meters().totals();
            totals.iter().filter(|total| total.1 == metric).map(|(_, _, units)| units).sum()
        };
        eventually("what was answered is booked", || booked() >= 3);
        assert_eq!(booked(), 3, "refused requests are not booked: {metric}");
    }
    scope.shutdown().request("the test is over");
    assert_eq!(conductor.join().unwrap().code, ron_kernel::ExitCode::Clean);
}

/// Timeouts counted so far: of dialling, of waiting for an answer.
fn timeouts(scope: &Scope) -> (u64, u64) {
    (scope.metrics().io_timeouts("connect").get(), scope.metrics().io_timeouts("rpc").get())
}

/// An upstream that is not given all the time in the world, but more than a server on a busy machine needs to do its part.
fn hasty() -> UpstreamConfig {
    let (timeout, connect_timeout) = (Duration::from_secs(5).into(), Duration::from_secs(5).into());
    UpstreamConfig { timeout, connect_timeout, ..UpstreamConfig::default() }
}

#[test]
fn a_server_that_accepts_nobody_counts_as_slow_to_connect() {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    socket.listen(0).unwrap();
    let full: SocketAddr = socket.local_addr().unwrap().as_socket().unwrap();
    // The one place of the backlog; from then on the system leaves newcomers without an answer.
    let _taken = TcpStream::connect(full).unwrap();
    let connect_timeout = Duration::from_millis(200).into();
    let (addr, scope, conductor, _gateway) =
        gateway_with(full, UpstreamConfig { timeout: connect_timeout, connect_timeout, ..hasty() });
    assert!(ask(addr, "GET").starts_with("HTTP/1.1 504 "));
    assert_eq!(timeouts(&scope), (1, 0));
    scope.shutdown().request("the test is over");
    conductor.join().unwrap();
}

#[test]
fn a_server_that_says_nothing_counts_as_slow_to_answer() {
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let (addr, scope, conductor, _gateway) = gateway_with(silent.local_addr().unwrap(), hasty());
    assert!(ask(addr, "GET").starts_with("HTTP/1.1 504 "));
    assert_eq!(timeouts(&scope), (0, 1));
    scope.shutdown().request("the test is over");
    conductor.join().unwrap();
}

#[test]
fn a_server_that_stops_in_the_middle_of_a_body_ends_the_clients_connection_and_is_counted() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        assert!(stream.read(&mut [0; 4096]).unwrap() > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf").unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read(&mut [0; 1]).unwrap()
    });
    let (addr, scope, conductor, _gateway) = gateway_with(upstream, hasty());
    let answer = ask(addr, "GET");
    assert!(answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nhalf"), "{answer}");
    assert_eq!(timeouts(&scope), (0, 1));
    assert_eq!(server.join().unwrap(), 0, "the gateway closes the connection");
    scope.shutdown().request("the test is over");
    conductor.join().unwrap();
}

#[test]
fn an_idle_connection_is_closed_at_the_next_look_after_its_time() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let upstream = listener.local_addr().unwrap();
    let server = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let read = stream.read(&mut [0; 4096]).unwrap();
        assert!(read > 0);
        stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine").unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.read(&mut [0; 1]).unwrap()
    });
    let settings =
        UpstreamConfig { idle_timeout: Duration::from_millis(1).into(), ..patient_upstream(upstream) };
    let (addr, scope, conductor, _gateway) = gateway_with(upstream, settings);
    assert!(ask(addr, "GET").ends_with("fine"));
    assert_eq!(server.join().unwrap(), 0, "the gateway closes the connection");
    scope.shutdown().request("the test is over");
    conductor.join().unwrap();
}
