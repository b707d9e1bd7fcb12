//! The overlay from a shell: `pub`, `sub`, `peers`, `node`; what is scraped; what is generated.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpListener,
    process::Stdio,
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering::Relaxed},
    },
    thread,
};

use super::node::{Home, OverlayNode, command, omnigate};
use crate::metrics::compare_with_golden;

const CONFIG: [&str; 2] = ["--config", "omnigate.toml"];

#[test]
fn a_node_tells_who_it_is_and_who_is_there() {
    let homes = [Home::new(), Home::new()];
    let ids = homes.each_ref().map(|home| home.id.clone());
    let [one, two] = homes;
    let a = OverlayNode::start(one, &format!("allow = [\"{}\"]\n", ids[1]));
    let b = OverlayNode::start(two, &format!("peers = [\"{}@{}\"]\n", ids[0], a.addr));
    b.wait_for_peers(1);
    let dir = b.node.path();
    assert_eq!(omnigate(dir, &["node", "id", CONFIG[0], CONFIG[1]]).trim(), ids[1]);
    let key = omnigate(dir, &["node", "key", CONFIG[0], CONFIG[1]]);
    assert!(key.trim().len() == 64 && key.trim().bytes().all(|digit| digit.is_ascii_hexdigit()), "{key}");
    let peers = omnigate(dir, &["peers", CONFIG[0], CONFIG[1]]);
    assert!(peers.contains(&ids[0]) && peers.contains("X25519MLKEM768"), "{peers}");
}

#[test]
fn what_pub_says_sub_shows() {
    let node = OverlayNode::start(Home::new(), "");
    let listening = node.subscribe("a/topic");
    let dir = node.node.path();
    let said = omnigate(dir, &["pub", CONFIG[0], CONFIG[1], "a/topic", "hello, world"]);
    assert!(said.starts_with("local_only b3:"), "{said}");
    assert_eq!(listening.next()["text"], "hello, world");
    let mut lines = command(dir, &["pub", CONFIG[0], CONFIG[1], "--lines", "a/topic"])
        .stdin(Stdio::piped())
        .stdout(Stdio::null())
        .spawn()
        .unwrap();
    lines.stdin.take().unwrap().write_all(b"one\ntwo\n").unwrap();
    assert!(lines.wait().unwrap().success());
    assert_eq!(
        (listening.next()["text"].clone(), listening.next()["text"].clone()),
        ("one".into(), "two".into())
    );
}

#[test]
fn pub_gives_up_at_a_node_that_stays_busy() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = format!("admin.listen={}", listener.local_addr().unwrap());
    let asked = Arc::<AtomicU32>::default();
    let counted = Arc::clone(&asked);
    thread::spawn(move || {
        for mut socket in listener.incoming().map_while(Result::ok) {
            let mut head = BufReader::new(socket.try_clone().unwrap());
            let (mut line, mut length) = (String::new(), 0);
            while head.read_line(&mut line).is_ok_and(|read| read > 2) {
                let field = line.to_ascii_lowercase();
                if let Some(value) = field.strip_prefix("content-length:") {
                    length = value.trim().parse().unwrap();
                }
                line.clear();
            }
            // All of it: closing a socket with unread bytes resets the connection.
            head.read_exact(&mut vec![0; length]).unwrap();
            counted.fetch_add(1, Relaxed);
            let problem = "{\"detail\":\"too much is waiting\",\"retry_after_ms\":20}";
            let head = format!("HTTP/1.1 429 x\r\nContent-Length: {}\r\n\r\n", problem.len());
            let _ = socket.write_all(format!("{head}{problem}").as_bytes());
        }
    });
    let dir = tempfile::tempdir().unwrap();
    let args = ["pub", "--set", &at, "--wait", "200ms", "news", "hello"];
    let output = command(dir.path(), &args).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(
        !output.status.success() && said.contains("too much is waiting") && said.contains("--wait"),
        "{said}"
    );
    assert!(asked.load(Relaxed) > 1, "it was tried again");
}

#[test]
fn what_cannot_be_published_is_refused_with_the_reason() {
    let node = OverlayNode::start(Home::new(), "");
    let dir = node.node.path();
    for (args, why) in [
        (vec!["pub", CONFIG[0], CONFIG[1], "Not A Topic", "x"], "a topic is named by"),
        (vec!["peers", "--set", "admin.listen=127.0.0.1:1"], "does not answer"),
    ] {
        let output = command(dir, &args).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert!(!output.status.success() && said.contains(why), "{said}");
    }
    let mut too_much = command(dir, &["pub", CONFIG[0], CONFIG[1], "news"])
        .stdin(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // It need not read all of it to refuse it.
    let _ = too_much.stdin.take().unwrap().write_all(&vec![b'x'; 64 * 1024 + 1]);
    let output = too_much.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(!output.status.success() && said.contains("at most 65536 bytes"), "{said}");
}

#[test]
fn a_scrape_of_the_overlay_has_the_series_of_the_golden_file() {
    let homes = [Home::new(), Home::new()];
    let ids = homes.each_ref().map(|home| home.id.clone());
    let [one, two] = homes;
    let a = OverlayNode::start(one, &format!("allow = [\"{}\"]\n", ids[1]));
    let b = OverlayNode::start(two, &format!("peers = [\"{}@{}\"]\n", ids[0], a.addr));
    b.wait_for_peers(1);
    a.wait_for_peers(1);
    compare_with_golden(&a.node, "metrics-overlay.txt");
}
