//! What is not HTTP, too much of it, or HTTP that two readers could understand differently.

use crate::serve_support::{Node, client::Answer, client::End, patient};
use ron_transport::serve::HttpLimits;
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

/// Asserts that a request is refused with `status` and a document, once, and never reaches the service.
async fn refused(node: &Node, request: &str, status: u16) {
    let before = (node.rejected(Reason::Malformed), node.desk.begun());
    let answers = answers(node, request).await;
    let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
    assert_eq!(statuses, [status], "{request:?}");
    assert_document(&answers[0], "malformed");
    let after = (node.rejected(Reason::Malformed), node.desk.begun());
    assert_eq!(after, (before.0 + 1, before.1), "{request:?}");
}

/// Asserts that an answer is a problem document of its own, and the last on its connection.
fn assert_document(answer: &Answer, reason: &str) {
    let document: serde_json::Value = serde_json::from_str(answer.text()).unwrap();
    assert_eq!(document["reason"], reason, "{document}");
    assert_eq!(document["status"], answer.status, "{document}");
    assert_eq!(document["corr_id"].as_str(), answer.header("x-corr-id"), "{answer:?}");
    assert_eq!(document["corr_id"].as_str().map(str::len), Some(32), "{document}");
    assert!(answer.closes(), "{answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"));
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
        "content-length: 18446744073709551615\r\n",
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
async fn requests_of_a_length_and_chunks_are_refused() {
    let node = Node::start(patient());
    let smuggled = "GET /smuggled HTTP/1.1\r\n\r\n";
    for fields in [
        "content-length: 4\r\ntransfer-encoding: chunked\r\n",
        "transfer-encoding: chunked\r\ncontent-length: 4\r\n",
        "Transfer-Encoding: chunked\r\nx: y\r\nContent-Length: 0\r\n",
    ] {
        // By its length the request ends within the chunk, and what follows would be another.
        let request = format!("POST / HTTP/1.1\r\nhost: t\r\n{fields}\r\n1a\r\n{smuggled}\r\n0\r\n\r\n");
        refused(&node, &request, 400).await;
    }
    node.stop().await;
}

#[tokio::test]
async fn lines_that_do_not_end_as_lines_do_are_refused() {
    let node = Node::start(patient());
    for request in [
        "GET / HTTP/1.1\n\n",
        "GET / HTTP/1.1\nhost: t\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: t\nx: y\r\n\r\n",
        "GET / HTTP/1.1\r\nhost: t\r\n\n",
        "POST / HTTP/1.1\r\ncontent-length: 4\n\r\nbody",
        "\nGET / HTTP/1.1\r\n\r\n",
        // A folded line, wherever it stands.
        "GET / HTTP/1.1\r\nx: a\r\n\tb\r\n\r\n",
        // A bare carriage return ends nothing.
        "GET / HTTP/1.1\r\nx: a\rb\r\n\r\n",
        "\rGET / HTTP/1.1\r\n\r\n",
    ] {
        refused(&node, request, 400).await;
    }
    // The same length twice says one thing, and an empty line before a request says nothing.
    let same = "\r\nPOST /length HTTP/1.1\r\ncontent-length: 4\r\ncontent-length: 4\r\nconnection: close\r\n\r\nbody";
    assert_eq!(answers(&node, same).await[0].text(), "4");
    node.stop().await;
}

#[tokio::test]
async fn what_came_before_a_bad_request_is_answered_first() {
    let node = Node::start(patient());
    for (bad, status) in [
        ("GET / HTTP/1.1\n\n", 400),
        ("POST / HTTP/1.1\r\ncontent-length: 1\r\ntransfer-encoding: chunked\r\n\r\n", 400),
        ("nonsense\r\n\r\n", 400),
        (&format!("GET /{} HTTP/1.1\r\n\r\n", "x".repeat(100_000)), 431),
    ] {
        let good = "GET /whole/200000 HTTP/1.1\r\n\r\nPOST /length HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc";
        let chunked = "POST /length HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n";
        let answers = answers(&node, &format!("{good}{chunked}{bad}{good}")).await;
        let statuses: Vec<_> = answers.iter().map(|answer| answer.status).collect();
        assert_eq!(statuses, [200, 200, 200, status], "{bad:.20}");
        assert_eq!((answers[0].body.len(), answers[1].text(), answers[2].text()), (200_000, "3", "2"));
        assert_document(&answers[3], "malformed");
    }
    node.stop().await;
}

#[tokio::test]
async fn however_requests_are_cut_they_are_answered_alike() {
    let node = Node::start(patient());
    let row = "GET /count HTTP/1.1\r\n\r\nPOST /length HTTP/1.1\r\ncontent-length: 3\r\n\r\nabc\
               POST /length HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n2\r\nab\r\n0\r\n\r\n\
               GET /count HTTP/1.1\r\n\r\nGET / HTTP/1.1\nx";
    for cut in 1..row.len() {
        let mut client = node.connect().await;
        for part in [&row[..cut], &row[cut..]] {
            client.send(part).await;
            tokio::task::yield_now().await;
        }
        for expected in ["1", "3", "2", "4"] {
            assert_eq!(client.answer().await.text(), expected, "cut at {cut}");
        }
        assert_document(&client.answer().await, "malformed");
        assert_eq!(client.end().await, End::Fin);
    }
    node.stop().await;
}

#[tokio::test]
async fn a_client_that_sends_ahead_and_leaves_is_noticed_no_later_than_its_answer() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    client.send("GET /held HTTP/1.1\r\n\r\n").await;
    node.desk.has_begun(1).await;
    client.send("GET /held HTTP/1.1\r\n\r\n").await;
    node.desk.let_go(2);
    assert_eq!(client.answer().await.text(), "held");
    assert_eq!(client.answer().await.text(), "held");
    // Without anything sent ahead it is noticed at once.
    client.send("GET /held HTTP/1.1\r\n\r\n").await;
    node.desk.has_begun(3).await;
    drop(client);
    node.all_gone().await;
    assert_eq!(node.desk.dropped(), 1);
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
