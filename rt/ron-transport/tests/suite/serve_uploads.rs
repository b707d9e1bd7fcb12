//! Uploads that take their time: whose turn it is decides who is timed.

use std::time::Duration;

use crate::serve_support::{Node, SHORT, client, patient, with_growing_time};
use tokio::time::sleep;

/// A node whose service gives itself so much time.
fn timed(time: Duration) -> Node {
    let node = Node::start(patient());
    node.desk.set_time(time);
    node
}

#[tokio::test]
async fn a_client_that_takes_its_time_is_not_taken_for_a_late_server() {
    with_growing_time(|time| async move {
        let node = timed(time);
        node.desk.let_go(1);
        let mut client = node.connect().await;
        client.send(client::post("/timed", 9)).await;
        for piece in ["abc", "def", "ghi"] {
            sleep(time * 2).await;
            client.send(piece).await;
        }
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.text()), (200, "9"));
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn the_server_is_late_once_it_has_the_whole_body() {
    with_growing_time(|time| async move {
        let node = timed(time);
        let mut client = node.connect().await;
        client.send(client::post("/timed", 6)).await;
        client.send("abc").await;
        sleep(time * 2).await;
        assert_eq!(node.desk.dropped(), 0, "it is the client's turn");
        client.send("def").await;
        assert_eq!(client.answer().await.status, 504);
        assert_eq!(client.get("/").await.text(), "hello");
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_server_that_takes_no_more_is_late_before_the_body_is_whole() {
    let node = timed(SHORT);
    let mut client = node.connect().await;
    client.send(client::post("/timed-first-frame", 6)).await;
    client.send("abc").await;
    assert_eq!(client.answer().await.status, 504);
    node.stop().await;
}

#[tokio::test]
async fn a_small_body_arrives_whole_wherever_it_is_split() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    let whole = client::post("/echo", 6) + "abcdef";
    for at in 0..=6 {
        let (first, second) = whole.split_at(whole.len() - at);
        client.send(first).await;
        sleep(SHORT / 10).await;
        client.send(second).await;
        let answer = client.answer().await;
        assert_eq!(
            (answer.text(), answer.header("content-length")),
            ("abcdef", Some("6")),
            "{at} bytes later"
        );
    }
    node.stop().await;
}

#[tokio::test]
async fn a_client_is_asked_for_its_body_only_when_somebody_reads_it() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    let head = |path: &str| client::post(path, 6).replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    client.send(head("/length")).await;
    assert_eq!(client.answer().await.status, 100);
    client.send("abcdef").await;
    assert_eq!(client.answer().await.text(), "6");
    client.send(head("/busy")).await;
    assert_eq!(client.answer().await.status, 429);
    node.stop().await;
}

#[tokio::test]
async fn a_client_that_sends_its_body_along_need_not_be_asked_for_it() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    let expect = |head: String| head.replace("\r\n\r\n", "\r\nexpect: 100-continue\r\n\r\n");
    let sized = expect(client::post("/length", 6)) + "abcdef";
    let head = "POST /length HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n";
    let chunked = expect(head.to_owned()) + "6\r\nabcdef\r\n0\r\n\r\n";
    client.send(format!("{sized}{chunked}{sized}")).await;
    for _ in 0..3 {
        let answer = client.answer().await;
        assert_eq!((answer.status, answer.text(), answer.closes()), (200, "6", false));
    }
    node.stop().await;
}

#[tokio::test]
async fn a_request_without_a_body_is_not_watched() {
    let node = timed(SHORT);
    let mut client = node.connect().await;
    client.send(client::get("/timed")).await;
    sleep(SHORT * 2).await;
    node.desk.let_go(1);
    assert_eq!(client.answer().await.text(), "0");
    node.stop().await;
}
