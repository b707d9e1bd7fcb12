//! Slow clients by the hundred, made by slowhttptest, beside one healthy client that must not notice.

use std::{
    net::SocketAddr,
    process::{Command, Stdio},
    time::Instant,
};

use crate::support::{Client, Node, PATIENCE, Running, Upstream, eventually};

/// Requests of the healthy client that are made beside an attack.
const ANSWERED: usize = 20;

/// Runs slowhttptest with `args` and, as long as it runs, requests of a healthy client from another address.
fn healthy_beside(attack: &[&str], url: &str, node: SocketAddr) -> usize {
    // Before the attack, and until it is answered: where the machine stalls, the node may give a connection up that says
    // nothing for so long.
    let mut healthy = eventually("the healthy client is served", || {
        let mut client = Client::connect_from(2, node).ok()?;
        client.get("/healthy").ok().map(|_| client)
    });
    let attacker = Command::new("slowhttptest")
        // 200 connections, 100 a second, for six seconds.
        .args(["-c", "200", "-r", "100", "-l", "6", "-u", url])
        .args(attack)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("slowhttptest is a Debian package");
    let (mut attacker, mut answered) = (Running(attacker), 0);
    while attacker.0.try_wait().unwrap().is_none() {
        let answer = healthy.get("/healthy").expect("the healthy client is served");
        assert_eq!((answer.status, answer.body.as_str()), (200, "/healthy"));
        answered += 1;
        std::thread::park_timeout(std::time::Duration::from_millis(2));
    }
    answered
}

#[test]
fn slow_heads_bodies_and_readers_leave_a_healthy_client_alone() {
    let upstream = Upstream::start();
    let settings = "max_conns = 400\nread_timeout = \"1s\"\nwrite_timeout = \"1s\"\n";
    let node = Node::start(&format!("{settings}{}", crate::support::to(upstream.addr)));
    for (path, attack) in [
        // Heads that trickle.
        ("/slow", ["-H", "-i", "2", "-x", "24"].as_slice()),
        // Bodies that trickle.
        ("/slow", ["-B", "-i", "2", "-s", "8192", "-x", "10"].as_slice()),
        // Readers that take a few bytes at a time of an answer that fits in no buffer.
        ("/big", ["-X", "-w", "1", "-y", "10", "-n", "2", "-z", "1", "-k", "3"].as_slice()),
    ] {
        let url = format!("http://{}{path}", node.gateway);
        // Each of them is answered; how many fit beside one attack is the machine's business, so there may be several.
        let (mut answered, end) = (0, Instant::now() + PATIENCE);
        while answered < ANSWERED {
            assert!(
                Instant::now() < end,
                "{attack:?}: {answered} requests of the healthy client were answered"
            );
            answered += healthy_beside(attack, &url, node.gateway);
        }
    }
    let timeouts =
        |op| node.metric(&format!("io_timeouts_total{{node=\"omnigate\",service=\"gateway\",op=\"{op}\"}}"));
    assert!(timeouts("read") > 100.0, "{}", timeouts("read"));
    assert!(timeouts("write") > 0.0, "no slow reader was noticed");
}
