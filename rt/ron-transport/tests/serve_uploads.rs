//! Uploads that take their time: whose turn it is decides who is timed.

#![expect(clippy::unwrap_used, reason = "tests")]

mod serve_support;

use serve_support::{Node, SHORT, client, patient};
use tokio::time::sleep;

/// Longer than the service gives itself.
const PAUSE: std::time::Duration = SHORT.saturating_mul(2);

#[tokio::test]
async fn a_client_that_takes_its_time_is_not_taken_for_a_late_server() {
    let node = Node::start(patient());
    node.desk.let_go(1);
    let mut client = node.connect().await;
    client.send(client::post("/timed", 9)).await;
    for piece in ["abc", "def", "ghi"] {
        sleep(PAUSE).await;
        client.send(piece).await;
    }
    let answer = client.answer().await;
    assert_eq!((answer.status, answer.text()), (200, "9"));
    node.stop().await;
}

#[tokio::test]
async fn the_server_is_late_once_it_has_the_whole_body() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    client.send(client::post("/timed", 6)).await;
    client.send("abc").await;
    sleep(PAUSE).await;
    assert_eq!(node.desk.dropped(), 0, "it is the client's turn");
    client.send("def").await;
    assert_eq!(client.answer().await.status, 504);
    assert_eq!(client.get("/").await.text(), "hello");
    node.stop().await;
}

#[tokio::test]
async fn a_server_that_takes_no_more_is_late_before_the_body_is_whole() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    client.send(client::post("/timed-first-frame", 6)).await;
    client.send("abc").await;
    assert_eq!(client.answer().await.status, 504);
    node.stop().await;
}

#[tokio::test]
async fn a_request_without_a_body_is_not_watched() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    client.send(client::get("/timed")).await;
    sleep(PAUSE).await;
    node.desk.let_go(1);
    assert_eq!(client.answer().await.text(), "0");
    node.stop().await;
}
