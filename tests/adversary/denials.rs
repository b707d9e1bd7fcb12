//! Clients that an authorization server turns away, and that make the most of it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use crate::{
    scripted_server::{self, head_server},
    support::{Client, Node, Upstream},
};

/// Larger than what is read ahead of a slow client and what sockets hold.
const DENIAL: usize = 16 * 1024 * 1024;

#[test]
fn questions_do_not_take_a_new_connection_each() {
    const QUESTIONS: usize = 20;
    let connections = Arc::<AtomicUsize>::default();
    let counted = Arc::clone(&connections);
    let auth = scripted_server::start(move |stream| {
        counted.fetch_add(1, Ordering::Relaxed);
        let answer = "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n2\r\nOK\r\n0\r\n\r\n";
        scripted_server::serve(stream, &|_: &str| answer.to_owned())
    });
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "quotas.per_ip_rps = 0\n\
         route = [{{ path = \"/\", upstream = \"up\", forward_auth = {{ upstream = \"auth\", path = \"/verify\" }} }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\nupstream.auth.endpoints = [\"http://{auth}\"]\n",
        upstream.addr
    ));
    let mut client = Client::connect(node.gateway).unwrap();
    for _ in 0..QUESTIONS {
        assert_eq!(client.get("/fine").unwrap().status, 200);
    }
    let connections = connections.load(Ordering::Relaxed);
    assert!(connections < QUESTIONS / 2, "{connections} connections for {QUESTIONS} questions");
}

#[test]
fn slow_readers_of_denials_leave_connections_to_the_server_that_decides() {
    const CONNECTIONS: usize = 8;
    let denial = format!("HTTP/1.1 403 Forbidden\r\ncontent-length: {DENIAL}\r\n\r\n{}", "x".repeat(DENIAL));
    let auth = head_server(move |question| {
        let is_denied = question.to_ascii_lowercase().contains("x-forwarded-uri: /denied");
        if is_denied { denial.clone() } else { "HTTP/1.1 204 No Content\r\n\r\n".to_owned() }
    });
    let upstream = Upstream::start();
    let node = Node::start(&format!(
        "fair_queue.slow_after = \"100ms\"\n\
         route = [{{ path = \"/\", upstream = \"up\", forward_auth = {{ upstream = \"auth\", path = \"/verify\" }} }}]\n\
         upstream.up.endpoints = [\"http://{}\"]\n\
         upstream.auth.endpoints = [\"http://{auth}\"]\nupstream.auth.max_conns = {CONNECTIONS}\n",
        upstream.addr
    ));
    let mut holders = Vec::new();
    for _ in 0..CONNECTIONS {
        let mut holder = Client::connect_from(2, node.gateway).unwrap();
        holder.send("/denied").unwrap();
        holders.push(holder);
    }
    // As long as it takes to see that they are slow.
    std::thread::sleep(Duration::from_secs(1));
    for _ in 0..3 {
        let answer = Client::connect_from(3, node.gateway).unwrap().get("/fine").unwrap();
        assert_eq!((answer.status, answer.body.as_str()), (200, "/fine"));
    }
    drop(holders);
}
