//! A gateway on a real kernel and real sockets, inside the test.

#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests fail with the reason")]

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::Arc,
    thread,
    time::Duration,
};

use ron_kernel::{Exit, Kernel, Scope, readiness::Effect};
use ron_transport::{addr::ListenAddr, inherit::Inherited};
use svc_gateway::{Gateway, GatewayConfig, RouteConfig, TOPOLOGY, UpstreamConfig};

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
    let kernel = Kernel::builder("test").build().unwrap();
    let scope = kernel.scope(&TOPOLOGY);
    let config = GatewayConfig {
        listen: "127.0.0.1:0".parse().unwrap(),
        route: vec![RouteConfig { path: "/".into(), upstream: "up".into() }],
        upstream: [(
            "up".to_owned(),
            UpstreamConfig {
                endpoints: vec![format!("http://{upstream}").parse().unwrap()],
                ..UpstreamConfig::default()
            },
        )]
        .into(),
        ..GatewayConfig::default()
    };
    let mut inherited = Inherited::from_env().unwrap();
    let gateway = kernel.block_on(Gateway::build(&scope, &config, &mut inherited)).unwrap();
    let ListenAddr::Tcp(addr) = gateway.local_addr() else { panic!("a TCP address") };
    let conductor = thread::spawn(move || kernel.run().unwrap());
    (addr, scope, conductor, gateway)
}

fn ask(addr: SocketAddr, method: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(20))).unwrap();
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
    let used: u64 = scope.meters().totals().iter().map(|(_, _, units)| units).sum();
    assert_eq!(used, 3, "refused requests are not booked");
    scope.shutdown().request("the test is over");
    assert_eq!(conductor.join().unwrap().code, ron_kernel::ExitCode::Clean);
}
