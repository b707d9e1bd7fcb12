//! What is not HTTP, too much of it, or HTTP that two readers could understand differently.

#![expect(clippy::unwrap_used, reason = "tests")]

mod serve_support;

use ron_transport::serve::HttpLimits;
use serve_support::{Node, client::Answer, client::End, patient};
use types::Reason;

/// Sends raw bytes; gives the answers before the connection ended, which must be in good order.
async fn answers(node: &Node, request: &str) -> Vec<Answer> {
    let mut client = node.connect().await;
    client.send(request).await;
    let mut answers = Vec::new();
    while let Some(answer) = client.try_answer(false).await {
        let closes = answer.closes();
        answers.push(answer);
        if closes {
            break;
        }
    }
    assert_eq!(client.end().await, End::Fin, "{request:?}");
    answers
}

/// Asserts that a request is refused with `status`, once, and never reaches the service.
async fn refused(node: &Node, request: &str, status: u16) {
    let before = (node.rejected(Reason::Malformed), node.desk.begun());
    let answers = answers(node, request).await;
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [status], "{request:?}");
    let after = (node.rejected(Reason::Malformed), node.desk.begun());
    assert_eq!(after, (before.0 + 1, before.1), "{request:?}");
}

#[tokio::test]
async fn what_is_not_http_is_refused_and_counted() {
    let node = Node::start(patient());
    for request in [
        "nonsense\r\n\r\n",
        "GET /\r\n\r\n",
        "GET / HTTP/9.9\r\n\r\n",
        "GET / HTTP/1.1\r\nno colon\r\n\r\n",
        "GET / HTTP/1.1\r\nbad name: x\r\n\r\n",
        "GET / HTTP/1.1\r\nx: a\0b\r\n\r\n",
        "\x16\x03\x01\x02\x00\x01\x00\x01\x7c\x03\x03\r\n\r\n",
    ] {
        refused(&node, request, 400).await;
    }
    node.stop().await;
}

#[tokio::test]
async fn too_many_and_too_large_headers_are_refused() {
    let limits = HttpLimits { max_headers: 10, max_head_bytes: 8 * 1024, ..patient() };
    let node = Node::start(limits);
    let head = |fields: usize, value: usize| {
        let field = |i| format!("x{i}: {}\r\n", "v".repeat(value));
        let fields: String = (0..fields).map(field).collect();
        format!("GET / HTTP/1.1\r\n{fields}connection: close\r\n\r\n")
    };
    let fine = answers(&node, &head(9, 100)).await;
    assert_eq!(fine[0].status, 200, "ten fields are allowed");
    refused(&node, &head(10, 1), 431).await;
    let fine = answers(&node, &head(1, 8 * 1024 - 100)).await;
    assert_eq!(fine[0].status, 200, "8 KiB are allowed");
    refused(&node, &head(1, 8 * 1024), 431).await;
    refused(&node, &head(1, 300_000), 431).await;
    node.stop().await;
}

#[tokio::test]
async fn requests_of_two_lengths_are_refused() {
    let node = Node::start(patient());
    for fields in [
        "content-length: 4\r\ncontent-length: 5\r\n",
        "content-length: 4, 5\r\n",
        "content-length: +4\r\n",
        "content-length: -4\r\n",
        "content-length: 0x4\r\n",
        "transfer-encoding: chunked, identity\r\n",
        "transfer-encoding: identity\r\n",
        "transfer-encoding: xchunked\r\n",
        "transfer-encoding\t: chunked\r\n",
        "transfer-encoding : chunked\r\n",
        "content-length: 4\r\n folded: x\r\n",
    ] {
        refused(
            &node,
            &format!("POST /length HTTP/1.1\r\nhost: t\r\n{fields}\r\nbodyGET / HTTP/1.1\r\n\r\n"),
            400,
        )
        .await;
    }
    node.stop().await;
}

#[tokio::test]
async fn of_length_and_chunks_the_chunks_count_and_nothing_is_smuggled() {
    let node = Node::start(patient());
    let smuggled = "GET /smuggled HTTP/1.1\r\n\r\n";
    for fields in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
    ] {
        let begun = node.desk.begun();
        // By its length the request ends within the chunk, and what follows would be another.
        let request =
            format!("POST /length HTTP/1.1\r\nhost: t\r\n{fields}\r\n1a\r\n{smuggled}\r\n0\r\n\r\n");
        let answers = answers(&node, &request).await;
        assert_eq!(answers.len(), 1, "{answers:?}");
        assert_eq!(answers[0].text(), "26", "all of it was body");
        assert!(answers[0].closes(), "whoever sends such a thing is not trusted with a second");
        assert_eq!(node.desk.begun(), begun + 1, "the body was taken for a request");
    }
    node.stop().await;
}

#[tokio::test]
async fn equal_lengths_and_bare_line_feeds_are_understood_in_one_way_only() {
    let node = Node::start(patient());
    // The same length twice says one thing.
    let same =
        "POST /length HTTP/1.1\r\ncontent-length: 4\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody";
    assert_eq!(answers(&node, same).await[0].text(), "4");
    // A bare line feed ends a line, as RFC 9112 lets a server decide.
    let bare = "POST /length HTTP/1.1\ncontent-length: 4\nconnection: close\n\nbody";
    assert_eq!(answers(&node, bare).await[0].text(), "4");
    // A folded line is refused, wherever it stands.
    refused(&node, "GET / HTTP/1.1\r\nx: a\r\n\tb\r\n\r\n", 400).await;
    // A bare carriage return ends nothing.
    refused(&node, "GET / HTTP/1.1\r\nx: a\rb\r\n\r\n", 400).await;
    node.stop().await;
}

#[tokio::test]
async fn damaged_chunks_end_the_connection_after_the_answer() {
    let node = Node::start(patient());
    for chunk in ["zz\r\n", "5\r\nabcdeXX", "ffffffffffffffffff\r\n", "5;\n\r\nabcde\r\n"] {
        let request =
            format!("POST /length HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n{chunk}");
        let answers = answers(&node, &request).await;
        assert!(answers.len() <= 1, "{chunk:?}: {answers:?}");
        assert!(answers.iter().all(|answer| answer.status == 400), "{chunk:?}: {answers:?}");
    }
    node.stop().await;
}
