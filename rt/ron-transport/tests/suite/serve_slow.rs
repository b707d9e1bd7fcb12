//! Clients that keep moving, but too slowly, and connections that grow old.

use std::time::Duration;

use crate::serve_support::{
    Node, client,
    client::{Client, End},
    frames::{self, Raw},
    patient, with_growing_time,
};
use ron_transport::serve::HttpLimits;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpSocket,
    time::{sleep, timeout},
};
use types::Reason;

/// More than any client of these tests manages while it is waited for.
const FAST: u64 = 1 << 40;

fn rate(grace: Duration) -> HttpLimits {
    HttpLimits { min_rate: FAST, min_rate_grace: grace, ..patient() }
}

/// Sends a request's head and then a byte at a time, until there is an answer; returns that.
async fn trickled(node: &Node, head: String, pause: Duration) -> String {
    let (mut read, mut write) = node.tcp().await.into_split();
    let trickle = async {
        write.write_all(head.as_bytes()).await.unwrap();
        while write.write_all(b"x").await.is_ok() {
            sleep(pause).await;
        }
        std::future::pending::<()>().await;
    };
    let mut answer = String::new();
    tokio::select! {
        read = read.read_to_string(&mut answer) => assert!(read.is_ok(), "{read:?}"),
        () = trickle => {}
    }
    answer
}

#[tokio::test]
async fn a_body_below_the_minimum_rate_is_answered_408_though_it_moves() {
    with_growing_time(|time| async move {
        let node = Node::start(rate(time));
        let answer = trickled(&node, client::post("/length", 1_000_000), time / 10).await;
        assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("request_timeout"), "{answer}");
        assert!(answer.contains("connection: close"), "{answer}");
        node.all_gone().await;
        assert_eq!((node.timeouts("read_rate"), node.timeouts("read")), (1, 0));
        assert_eq!(node.rejected(Reason::RequestTimeout), 1);
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_request_that_takes_too_long_in_all_is_answered_408() {
    with_growing_time(|time| async move {
        let node = Node::start(HttpLimits { request_timeout: time, ..patient() });
        let answer = trickled(&node, client::post("/length", 1_000_000), time / 10).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        node.all_gone().await;
        assert_eq!((node.timeouts("request"), node.timeouts("read")), (1, 0));
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_body_that_may_take_any_time_is_waited_for() {
    with_growing_time(|time| async move {
        let limits = HttpLimits { request_timeout: time, read_timeout: time, ..rate(time) };
        let node = Node::start(limits);
        let mut client = node.connect().await;
        client.send(client::post("/any-time", 4)).await;
        for _ in 0..4 {
            sleep(time * 2).await;
            client.send("x").await;
        }
        assert_eq!(client.answer().await.text(), "4");
        node.stop().await;
    })
    .await;
}

/// The head of a POST to `/length` on a stream.
fn post_frame(stream: u32) -> Vec<u8> {
    let head =
        [(":method", "POST"), (":scheme", "http"), (":authority", "t"), (":path", "/length")].as_slice();
    frames::frame(frames::HEADERS, frames::END_HEADERS, stream, &frames::block(head))
}

#[tokio::test]
async fn an_http2_body_below_the_minimum_rate_is_answered_408_and_its_connection_stays() {
    with_growing_time(|time| async move {
        let node = Node::start(rate(time));
        let mut raw = Raw(node.tcp().await);
        raw.send(&[frames::hello(&[]), post_frame(1)].concat()).await.unwrap();
        let answer = loop {
            let _ = raw.send(&frames::frame(frames::DATA, 0, 1, b"x")).await;
            if let Ok(Some(answer)) = timeout(time / 10, raw.until(frames::DATA)).await {
                break answer;
            }
        };
        let text = String::from_utf8(answer.payload).unwrap();
        assert!(text.contains("request_timeout"), "{text}");
        raw.send(&frames::get_frame(3, "/")).await.unwrap();
        loop {
            let data = raw.until(frames::DATA).await.expect("the connection stays");
            if data.stream == 3 {
                assert_eq!(data.payload, b"hello");
                break;
            }
        }
        assert_eq!(node.timeouts("read_rate"), 1);
        drop(raw);
        node.all_gone().await;
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_client_that_takes_its_response_in_drops_is_cut() {
    with_growing_time(|time| async move {
        let node = Node::start(rate(time));
        let socket = TcpSocket::new_v4().unwrap();
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(node.addr()).await.unwrap();
        stream.write_all(client::get("/whole/50000000").as_bytes()).await.unwrap();
        let (mut drops, mut taken) = (vec![0; 20_000], 0);
        while let Ok(n @ 1..) = stream.read(&mut drops).await {
            taken += n;
            sleep(time / 100).await;
        }
        assert!(taken < 50_000_000, "all of it was taken");
        node.all_gone().await;
        assert_eq!((node.timeouts("write_rate"), node.timeouts("write")), (1, 0));
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_http2_client_that_opens_its_window_in_small_steps_is_cut() {
    with_growing_time(|time| async move {
        let node = Node::start(rate(time));
        let mut raw = Raw(node.tcp().await);
        raw.send(&frames::hello(&[(4, 20_000)])).await.unwrap();
        raw.send(&frames::get_frame(1, "/stream/2000000")).await.unwrap();
        loop {
            let more = frames::frame(frames::WINDOW_UPDATE, 0, 1, &17_000_u32.to_be_bytes());
            let _ = raw.send(&more).await;
            match timeout(time / 10, raw.rest()).await {
                Ok(_) => break,
                Err(_) => continue,
            }
        }
        node.all_gone().await;
        assert_eq!((node.timeouts("write_rate"), node.timeouts("write")), (1, 0));
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_slow_service_costs_its_client_no_time() {
    with_growing_time(|time| async move {
        let node = Node::start(HttpLimits { request_timeout: time, ..rate(time) });
        let mut plain = node.connect().await;
        plain.send(client::post("/held", 4) + "body").await;
        let mut raw = Raw(node.tcp().await);
        raw.send(&[frames::hello(&[]), frames::get_frame(1, "/held")].concat()).await.unwrap();
        node.desk.has_begun(2).await;
        sleep(time * 3).await;
        node.desk.let_go(2);
        assert_eq!(plain.answer().await.text(), "held");
        assert_eq!(raw.until(frames::DATA).await.unwrap().payload, b"held");
        for op in ["read", "write", "read_rate", "write_rate", "request"] {
            assert_eq!(node.timeouts(op), 0, "{op}");
        }
        drop((plain, raw));
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_old_connection_answers_a_last_request_and_closes() {
    with_growing_time(|time| async move {
        let node = Node::start(HttpLimits { max_conn_age: time, ..patient() });
        let mut client = node.connect().await;
        assert!(!client.get("/").await.closes(), "it is young");
        // The age, and the tenth that chance may add.
        sleep(time * 2).await;
        let last = client.get("/").await;
        assert_eq!((last.text(), last.closes()), ("hello", true));
        assert_eq!(client.end().await, End::Fin);
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_old_http2_connection_says_goaway_and_answers_what_is_under_way() {
    let node = Node::start(HttpLimits { max_conn_age: crate::serve_support::SHORT, ..patient() });
    let mut raw = Raw(node.tcp().await);
    raw.send(&[frames::hello(&[]), frames::get_frame(1, "/held")].concat()).await.unwrap();
    raw.until(frames::GOAWAY).await.expect("a GOAWAY");
    // The library asks whether the GOAWAY has arrived before it says which request was the last.
    let ping = raw.until(frames::PING).await.expect("a PING");
    raw.send(&frames::frame(frames::PING, frames::ACK, 0, &ping.payload)).await.unwrap();
    node.desk.let_go(1);
    assert_eq!(raw.until(frames::DATA).await.expect("an answer").payload, b"held");
    raw.rest().await;
    node.all_gone().await;
    assert_eq!(node.scope.metrics().tasks("connection").canceled.get(), 0);
    node.stop().await;
}

#[tokio::test]
async fn a_connection_that_was_parked_keeps_its_age() {
    with_growing_time(|time| async move {
        let limits = HttpLimits { max_conn_age: time * 2, park_after: time / 5, ..patient() };
        let node = Node::start(limits);
        let mut client = Client::new(node.tcp().await);
        assert!(!client.get("/").await.closes());
        sleep(time * 3).await;
        assert!(client.get("/").await.closes());
        node.stop().await;
    })
    .await;
}
