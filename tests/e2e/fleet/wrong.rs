//! Stores that cannot be used: a clear word, and requests that are served.

use std::{
    io::{Read as _, Write as _},
    net::{SocketAddr, TcpListener},
    process::Command,
    thread,
};

use super::{complaint, redis::Redis, settings, wait_for_complaint, wait_until_healed};
use crate::support::{Client, Node, Upstream, free_addr};

/// Starts a gateway with this store, and returns what it complains of. Requests are served.
fn said_of(store: &str, about: &str) -> (String, Node) {
    let upstream = Upstream::start();
    let node = Node::start(&settings(upstream.addr, store));
    let said = wait_for_complaint(&node, about);
    let mut client = Client::connect(node.gateway).unwrap();
    assert_eq!(client.get("/x").unwrap().status, 200);
    (said, node)
}

#[test]
fn a_store_that_is_not_there_is_reported_and_used_once_it_is() {
    let addr = free_addr();
    let (said, node) = said_of(&format!("redis://{addr}"), "refuses the connection");
    assert!(said.starts_with(&format!("redis://{addr}: ")), "{said}");
    let redis = Redis::start_at(addr);
    wait_until_healed(&node);
    drop(redis);
    wait_for_complaint(&node, "refuses the connection");
}

#[test]
fn a_wrong_password_is_reported_and_not_shown() {
    let redis = Redis::start_with(&["--requirepass", "right-one"]);
    let (said, node) = said_of(&format!("redis://:wrong-one@{}", redis.addr), "password (WRONGPASS)");
    assert!(!said.contains("wrong-one") && !node.log().contains("wrong-one"), "{said}");
    let (said, _node) = said_of(&redis.url(), "wants a password");
    assert!(!said.contains("right-one"), "{said}");
}

#[test]
fn a_user_that_may_not_write_is_reported() {
    let redis = Redis::start_with(
        &"--user reader on nopass ~* -@all +info +get +script|load +evalsha".split(' ').collect::<Vec<_>>(),
    );
    said_of(&format!("redis://reader:x@{}", redis.addr), "can't run this command");
}

#[test]
fn a_server_of_a_cluster_is_reported() {
    // No slot is served by anybody.
    let redis = Redis::start_with(&["--cluster-enabled", "yes"]);
    said_of(&redis.url(), "node of a cluster");
}

/// A server that answers whatever it is sent first with the same text.
fn fake(answer: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    thread::spawn(move || {
        for stream in listener.incoming().take(1000) {
            let (mut stream, mut read) = (stream.unwrap(), [0; 4096]);
            let _ = stream.read(&mut read);
            let _ = stream.write_all(answer.as_bytes());
            // Until the gateway has had enough.
            let _ = stream.read(&mut read);
        }
    });
    addr
}

#[test]
fn a_server_that_is_too_old_or_is_no_redis_is_reported() {
    let old = "$22\r\nredis_version:4.0.14\r\n\r\n";
    said_of(&format!("redis://{}", fake(old)), "its version is 4.0.14");
    let other = "HTTP/1.1 400 Bad Request\r\n\r\n";
    said_of(&format!("redis://{}", fake(other)), "does not speak the protocol of Redis");
    let huge = "$9999999999\r\n";
    said_of(&format!("redis://{}", fake(huge)), "larger than any");
}

/// Whether `omnigate check` accepts a store, and what it says.
fn checked(store: &str) -> (bool, String) {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_omnigate"));
    command.arg("check").current_dir(dir.path()).env_clear();
    std::fs::write(dir.path().join("omnigate.toml"), format!("[gateway.quotas]\nstore = \"{store}\"\n"))
        .unwrap();
    command.args(["--config", "omnigate.toml"]);
    let output = command.output().unwrap();
    let said = [output.stdout, output.stderr].concat();
    (output.status.success(), String::from_utf8_lossy(&said).into_owned())
}

#[test]
fn check_refuses_what_is_no_store_without_showing_it() {
    for store in ["local", "redis://db.example", "rediss://gate:hunter2@db.example/3"] {
        let (is_accepted, said) = checked(store);
        assert!(is_accepted && !said.contains("hunter2"), "{store}: {said}");
    }
    for (store, why) in [
        ("redis:/db.example", "redis://host:6379"),
        ("http://:hunter2@db.example", "redis://host:6379"),
        ("redis://:hunter2@", "redis://host:6379"),
        ("redis://:hunter2@db.example/x", "a database is a number"),
        ("redis://:hunter2@db.example:99999", "cannot be dialled"),
        ("redis://:hunter2%@db.example", "two hexadecimal digits"),
        ("redis://:hunter2@db.example", "in the clear"),
    ] {
        let (is_accepted, said) = checked(store);
        assert!(!is_accepted && said.contains(why) && said.contains("quotas.store"), "{store}: {said}");
        assert!(!said.contains("hunter2"), "{said}");
    }
}

#[test]
fn without_a_store_nothing_is_said_of_one() {
    let upstream = Upstream::start();
    let node = Node::start(&settings(upstream.addr, "local"));
    assert_eq!(complaint(&node), None);
    assert_eq!(node.metric("gateway_quota_gateways{"), 0.0);
}
