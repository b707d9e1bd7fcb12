//! A node for `bench/soak.py`: it serves, and ends tasks as a crash would when told to on its standard input.
#![cfg(not(loom))]
#![expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests fail with the reason")]

mod support;

use std::{
    io::{BufRead, BufReader, Write, stdin},
    net::{SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use ron_kernel::supervisor::TaskState;
use ron_transport::addr::ListenAddr;
use support::Running;
use svc_gateway::{AccessFormat, AccessLogConfig, GatewayConfig, HealthConfig, RouteConfig, UpstreamConfig};

/// A server that answers every request on a connection, for as long as it lasts.
fn server() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            thread::spawn(move || answer_all(stream));
        }
    });
    addr
}

fn answer_all(stream: TcpStream) -> std::io::Result<()> {
    stream.set_nodelay(true)?;
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    loop {
        line.clear();
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        if line == "\r\n" {
            reader.get_mut().write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 4\r\n\r\nfine")?;
        }
    }
}

fn config(access_log: &std::path::Path) -> GatewayConfig {
    let upstream = UpstreamConfig {
        endpoints: vec![format!("http://{}", server()).parse().unwrap()],
        health: HealthConfig {
            path: "/".into(),
            interval: Duration::from_secs(1).into(),
            ..HealthConfig::default()
        },
        ..UpstreamConfig::default()
    };
    GatewayConfig {
        route: vec![RouteConfig { path: "/".into(), upstream: "up".into(), ..RouteConfig::default() }],
        upstream: [("up".to_owned(), upstream)].into(),
        access_log: AccessLogConfig {
            enabled: true,
            path: access_log.to_owned(),
            format: AccessFormat::Text,
            sample: 0.01,
        },
        ..GatewayConfig::default()
    }
}

/// What runs, as one line.
fn tasks(gateway: &Running) -> String {
    let supervisor = gateway.scope.supervisor();
    let tasks = supervisor.tasks();
    let running = tasks.iter().filter(|task| task.state == TaskState::Running).count();
    let restarts: u32 = tasks.iter().map(|task| task.restarts).sum();
    let children: usize = supervisor.children().iter().map(|(_, _, live)| *live).sum();
    format!("{running} {} {children} {restarts}", tasks.len())
}

/// Answers each line of the standard input with a line; ends with it.
///
/// `kill <task>`: whether it was running. `tasks`: how many tasks run, of how many, how many children, how many restarts.
#[test]
#[ignore = "a node to be driven: run bench/soak.py"]
fn a_node_that_is_told_what_to_kill() {
    let folder = tempfile::tempdir().unwrap();
    let gateway = Running::start(config(&folder.path().join("access.log")));
    let ListenAddr::Tcp(addr) = gateway.gateway.local_addr() else { panic!("a TCP address") };
    println!("\nsoak: {addr} {}", std::process::id());
    for line in stdin().lines().map_while(Result::ok) {
        let answer = match line.split_once(' ') {
            Some(("kill", task)) => gateway.scope.supervisor().kill("gateway", task).to_string(),
            _ => tasks(&gateway),
        };
        println!("soak: {answer}");
    }
}
