//! What happens when a client is too slow, and that a slow service is not the client's fault.

use std::time::Duration;

use crate::serve_support::{
    Node, SHORT, client, client::Client, client::End, patient, plan, tls::Identity, with_growing_time,
};
use ron_transport::serve::{HttpLimits, ListenPlan};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpSocket, TcpStream},
    time::sleep,
};
use types::Reason;

fn read_timeout(read_timeout: Duration) -> HttpLimits {
    HttpLimits { read_timeout, ..patient() }
}

fn write_timeout() -> HttpLimits {
    HttpLimits { write_timeout: SHORT, ..patient() }
}

/// Asserts what was counted, and that the node is otherwise well.
async fn counted(node: Node, read: u64, write: u64) {
    node.all_gone().await;
    assert_eq!((node.timeouts("read"), node.timeouts("write")), (read, write));
    // For which a busy machine may take its time.
    node.server.commit(ListenPlan { listener: None, ..plan(patient()) });
    assert_eq!(node.connect().await.get("/").await.status, 200);
    node.stop().await;
}

#[tokio::test]
async fn a_client_that_says_nothing_is_closed() {
    let node = Node::start(read_timeout(SHORT));
    let mut client = node.connect().await;
    assert_eq!(client.end().await, End::Fin);
    drop(client);
    assert_eq!(node.rejected(Reason::RequestTimeout), 0, "nothing was asked");
    counted(node, 1, 0).await;
}

#[tokio::test]
async fn a_trickled_head_is_answered_408_though_bytes_keep_coming() {
    with_growing_time(|time| async move {
        for head in ["GET / HTTP/1.1\r\nx: ", "P", "PRI * HTTP"] {
            let node = Node::start(read_timeout(time));
            let stream = node.tcp().await;
            let (mut read, mut write) = stream.into_split();
            let trickle = async {
                write.write_all(head.as_bytes()).await.unwrap();
                // Of the last two nothing more may come, or they become something else.
                while head.len() > 12 && write.write_all(b"x").await.is_ok() {
                    sleep(Duration::from_millis(20)).await;
                }
                std::future::pending::<()>().await;
            };
            let mut answer = String::new();
            tokio::select! {
                read = read.read_to_string(&mut answer) => assert!(read.is_ok(), "{read:?}"),
                () = trickle => {}
            }
            assert!(answer.starts_with("HTTP/1.1 408 "), "{head}: {answer}");
            assert!(answer.ends_with('}'), "{head}: {answer}");
            drop((read, write));
            assert_eq!(node.rejected(Reason::RequestTimeout), 1);
            assert_eq!(node.desk.begun(), 0);
            counted(node, 1, 0).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_head_that_trickles_on_a_used_connection_is_answered_408_too() {
    with_growing_time(|time| async move {
        let node = Node::start(read_timeout(time));
        let mut client = node.connect().await;
        client.get("/").await;
        client.send("GET / HT").await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.closes()), (408, true));
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        let document: serde_json::Value = serde_json::from_slice(&answer.body).expect("a whole document");
        assert_eq!((&document["reason"], &document["status"]), (&"request_timeout".into(), &408.into()));
        assert_eq!(client.end().await, End::Fin, "and not a byte more");
        drop(client);
        counted(node, 1, 0).await;
    })
    .await;
}

/// An empty line may come before a request, and begins one: a client cannot hold a connection with such lines.
#[tokio::test]
async fn an_empty_line_without_a_request_is_answered_408() {
    with_growing_time(|time| async move {
        for is_used in [false, true] {
            let node = Node::start(read_timeout(time));
            let mut client = node.connect().await;
            if is_used {
                client.get("/").await;
            }
            client.send("\r\n").await;
            assert_eq!(client.answer().await.status, 408);
            assert_eq!(client.end().await, End::Fin);
            drop(client);
            counted(node, 1, 0).await;
        }
    })
    .await;
}

#[tokio::test]
async fn a_client_that_reads_steadily_is_not_cut_off() {
    with_growing_time(|time| async move {
        let node = Node::start(HttpLimits { write_timeout: time, ..patient() });
        let mut stream = node.tcp().await;
        stream.write_all(client::get("/whole/12000000").as_bytes()).await.unwrap();
        let (mut piece, mut taken) = (vec![0; 64 * 1024], 0);
        while taken < 12_000_000 {
            match stream.read(&mut piece).await {
                Ok(n @ 1..) => taken += n,
                ended => panic!("{ended:?} after {taken} bytes"),
            }
            sleep(time / 8).await;
        }
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_body_that_stops_is_answered_408() {
    let node = Node::start(read_timeout(SHORT));
    for request in [
        client::post("/length", 10) + "half",
        "POST /length HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n5\r\nab".to_owned(),
    ] {
        let mut client = node.connect().await;
        client.send(request).await;
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.closes()), (408, true));
        assert_eq!(client.end().await, End::Fin);
    }
    assert_eq!(node.rejected(Reason::RequestTimeout), 2);
    counted(node, 2, 0).await;
}

#[tokio::test]
async fn a_body_that_moves_slowly_is_waited_for() {
    with_growing_time(|time| async move {
        let node = Node::start(read_timeout(time));
        let mut client = node.connect().await;
        client.send(client::post("/length", 8)).await;
        for _ in 0..8 {
            sleep(time / 3).await;
            client.send("x").await;
        }
        assert_eq!(client.answer().await.text(), "8");
        drop(client);
        counted(node, 0, 0).await;
    })
    .await;
}

/// A connection whose buffers hold little, so that a server that writes soon has to wait.
async fn narrow(node: &Node) -> TcpStream {
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    socket.connect(node.addr()).await.unwrap()
}

#[tokio::test]
async fn a_client_that_never_reads_its_response_is_cut() {
    let node = Node::start(write_timeout());
    for (number, path) in (1..).zip(["/whole/20000000", "/stream/20000000"]) {
        let mut client = Client::new(narrow(&node).await);
        client.send(client::get(path)).await;
        node.cut(client, number).await;
    }
    counted(node, 0, 2).await;
}

#[tokio::test]
async fn a_client_that_never_reads_its_response_is_cut_over_tls() {
    let identity = Identity::new();
    let node = Node::start_tls(write_timeout(), identity.server.clone());
    let stream = identity.wrap(narrow(&node).await, &["http/1.1"]).await;
    let mut client = Client::new(stream);
    client.send(client::get("/whole/20000000")).await;
    node.cut(client, 1).await;
    assert_eq!((node.timeouts("read"), node.timeouts("write")), (0, 1));
    node.stop().await;
}

#[tokio::test]
async fn a_client_that_pauses_gets_the_rest_of_its_response() {
    let identity = Identity::new();
    let limits = HttpLimits { park_after: Duration::from_millis(30), ..patient() };
    let (clear, encrypted) = (Node::start(limits.clone()), Node::start_tls(limits, identity.server.clone()));
    // Large enough to fill the sockets, small enough that over TLS the session holds the rest.
    for len in [2_000_000, 6_000_000] {
        let path = format!("/whole/{len}");
        let mut plain = Client::new(narrow(&clear).await);
        let mut secret = Client::new(identity.wrap(narrow(&encrypted).await, &["http/1.1"]).await);
        plain.send(client::get(&path)).await;
        secret.send(client::get(&path)).await;
        sleep(Duration::from_millis(200)).await;
        assert!(plain.answer().await.body == crate::serve_support::pattern(len), "{len} in the clear");
        assert!(secret.answer().await.body == crate::serve_support::pattern(len), "{len} over TLS");
        assert_eq!(plain.get("/").await.text(), "hello", "in step");
        assert_eq!(secret.get("/").await.text(), "hello", "in step");
    }
    clear.stop().await;
    encrypted.stop().await;
}

#[tokio::test]
async fn a_slow_service_trips_no_timeout() {
    with_growing_time(|time| async move {
        let limits = HttpLimits {
            read_timeout: time / 5,
            write_timeout: time / 5,
            idle_timeout: time / 5,
            park_after: time / 10,
            ..patient()
        };
        let node = Node::start(limits);
        let mut waiting = node.connect().await;
        waiting.send(client::get("/held")).await;
        // One that had asked for more of the body, and then no longer did.
        let mut uninterested = node.connect().await;
        uninterested.send(client::post("/first-frame-then-held", 10) + "half").await;
        node.desk.has_begun(2).await;
        sleep(time * 2).await;
        node.desk.let_go(2);
        assert_eq!(waiting.answer().await.text(), "held");
        assert_eq!(uninterested.answer().await.text(), "held");
        drop((waiting, uninterested));
        node.all_gone().await;
        assert_eq!((node.timeouts("read"), node.timeouts("write")), (0, 0));
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_idle_connection_is_ended_and_not_reset() {
    let identity = Identity::new();
    // Before and after it was parked.
    for park_after in [Duration::from_millis(20), SHORT * 2] {
        let limits = HttpLimits { idle_timeout: SHORT, park_after, ..patient() };
        let (clear, encrypted) =
            (Node::start(limits.clone()), Node::start_tls(limits, identity.server.clone()));
        let (mut plain, mut secret) = (clear.connect().await, identity.connect(&encrypted).await);
        plain.get("/").await;
        secret.get("/").await;
        assert_eq!(plain.end().await, End::Fin);
        assert_eq!(secret.end().await, End::Fin, "with close_notify");
        drop((plain, secret));
        for node in [clear, encrypted] {
            node.all_gone().await;
            assert_eq!(node.timeouts("read"), 0);
            node.stop().await;
        }
    }
}

#[tokio::test]
async fn a_handshake_that_does_not_happen_is_counted_and_closed() {
    let identity = Identity::new();
    let limits = HttpLimits { handshake_timeout: SHORT, ..patient() };
    let node = Node::start_tls(limits, identity.server.clone());
    let mut client = node.connect().await;
    let (rest, _) = client.rest_and_end().await;
    assert!(rest.is_empty());
    node.all_gone().await;
    assert_eq!(node.timeouts("handshake"), 1);
    node.stop().await;
}

impl Node {
    /// Waits until the client of the node's latest request has been cut, while it is still there.
    async fn cut<C>(&self, client: C, request: usize) {
        self.desk.has_begun(request).await;
        self.all_gone().await;
        drop(client);
    }
}
