//! What clients see of a node that stops: answers, ends, and never a reset.

use std::time::Duration;

use crate::serve_support::{
    Node, PATIENCE, client,
    client::Client,
    client::End,
    connect, eventually,
    frames::{self, Raw},
    h2_client::H2Client,
    patient, plan,
    tls::Identity,
    with_growing_time,
};
use ron_transport::serve::{HttpLimits, ListenPlan};
use tokio::time::timeout;

#[tokio::test]
async fn a_request_in_flight_is_answered_before_idle_connections_close() {
    let node = Node::start(patient());
    let (mut busy, mut idle) = (node.connect().await, node.connect().await);
    idle.get("/").await;
    busy.send(client::get("/held")).await;
    node.desk.has_begun(2).await;
    node.begin_stop();
    eventually("the node drains", || node.scope.shutdown().is_draining()).await;
    let early = timeout(Duration::from_millis(100), idle.end()).await;
    assert!(early.is_err(), "idle connections close last: {early:?}");
    node.desk.let_go(1);
    let answer = busy.answer().await;
    assert_eq!(answer.text(), "held");
    assert!(answer.closes());
    assert_eq!(busy.end().await, End::Fin);
    assert_eq!(idle.end().await, End::Fin);
    drop((busy, idle));
    node.stopped().await;
}

#[tokio::test]
async fn an_idle_connection_still_serves_while_others_finish() {
    let node = Node::start(patient());
    let (mut busy, mut idle) = (node.connect().await, node.connect().await);
    idle.get("/").await;
    busy.send(client::get("/held")).await;
    node.desk.has_begun(2).await;
    node.begin_stop();
    eventually("the node drains", || node.scope.shutdown().is_draining()).await;
    let answer = idle.get("/").await;
    assert_eq!(answer.text(), "hello");
    assert!(answer.closes(), "and says that it was the last time");
    assert_eq!(idle.end().await, End::Fin);
    node.desk.let_go(1);
    assert_eq!(busy.answer().await.text(), "held");
    node.stopped().await;
}

/// How long nothing is to happen that once happened sooner.
const A_WHILE: Duration = Duration::from_millis(600);

#[tokio::test]
async fn idle_connections_may_ask_once_more_when_nothing_else_holds_the_drain_up() {
    for park_after in [Duration::from_millis(5), PATIENCE] {
        let node = Node::start(HttpLimits { park_after, ..patient() });
        node.scope.set_drain_idle(PATIENCE);
        let (mut idle, mut fresh) = (node.connect().await, node.connect().await);
        idle.get("/").await;
        eventually("both are accepted", || node.live("connection") == 2).await;
        node.begin_stop();
        let early = timeout(A_WHILE, idle.end()).await;
        assert!(early.is_err(), "it closes under its client: {early:?}");
        for client in [&mut idle, &mut fresh] {
            let answer = client.get("/").await;
            assert_eq!((answer.text(), answer.closes()), ("hello", true));
            assert_eq!(client.end().await, End::Fin);
        }
        node.stopped().await;
    }
}

#[tokio::test]
async fn a_client_of_http2_that_has_not_read_the_goodbye_may_ask_once_more() {
    let node = Node::start(patient());
    node.scope.set_drain_idle(PATIENCE);
    let mut raw = Raw(node.tcp().await);
    raw.send(&frames::hello(&[])).await.unwrap();
    raw.send(&frames::get_frame(1, "/")).await.unwrap();
    raw.until(frames::DATA).await.expect("an answer");
    node.begin_stop();
    let early = timeout(A_WHILE, node.all_gone()).await;
    assert!(early.is_err(), "it closes under its client");
    raw.send(&frames::get_frame(3, "/")).await.unwrap();
    let mut frames = Vec::new();
    while let Some(frame) = raw.next().await {
        let is_answer = frame.kind == frames::DATA && frame.stream == 3;
        frames.push(frame);
        if is_answer {
            break;
        }
    }
    assert!(frames.iter().any(|frame| frame.kind == frames::GOAWAY), "it was told goodbye");
    assert!(frames.iter().any(|frame| frame.kind == frames::DATA), "and answered");
    drop(raw);
    node.stopped().await;
}

#[tokio::test]
async fn a_connection_whose_response_began_before_the_drain_may_ask_once_more() {
    let node = Node::start(patient());
    node.scope.set_drain_idle(PATIENCE);
    let mut client = node.connect().await;
    client.send(client::get("/stream/8000000")).await;
    node.desk.has_begun(1).await;
    node.begin_stop();
    eventually("the node drains", || node.scope.shutdown().is_draining()).await;
    let mut answer = client.answer().await;
    if !answer.closes() {
        answer = client.get("/").await;
    }
    assert!(answer.closes());
    assert_eq!(client.end().await, End::Fin);
    node.stopped().await;
}

#[tokio::test]
async fn whoever_waits_in_the_backlog_is_served() {
    // Each round is a race between the accept loop, the drain and the request; none may lose the request.
    for _ in 0..10 {
        let node = Node::start_with(plan(patient()), 1);
        let mut clients = Vec::new();
        for _ in 0..8 {
            let mut client = node.connect().await;
            client.send(client::get("/")).await;
            clients.push(client);
        }
        node.begin_stop();
        for (number, client) in clients.iter_mut().enumerate() {
            let answer = client.try_answer(false).await;
            assert_eq!(answer.map(|a| a.status), Some(200), "client {number}");
            assert_eq!(client.end().await, End::Fin);
        }
        drop(clients);
        node.stopped().await;
    }
}

#[tokio::test]
async fn a_large_response_is_finished_although_the_node_stops() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    client.send(client::get("/stream/8000000")).await;
    node.desk.has_begun(1).await;
    node.begin_stop();
    let answer = client.answer().await;
    assert!(answer.body == crate::serve_support::pattern(8_000_000));
    assert_eq!(client.end().await, End::Fin);
    node.stopped().await;
}

#[tokio::test]
async fn clients_that_never_ask_do_not_hold_a_drain_up() {
    let identity = Identity::new();
    let proxied = ListenPlan {
        proxy_protocol: ron_transport::proxy_protocol::TrustedSources::new(vec![
            "127.0.0.1".parse().unwrap(),
        ]),
        ..plan(patient())
    };
    // What each begins with and does not finish: a head of either protocol, a handshake, a PROXY header.
    let nodes = [
        (Node::start(patient()), ["", "GET / HT", "PRI * "]),
        (Node::start_tls(patient(), identity.server.clone()), ["", "\x16\x03\x01", "\x16"]),
        (Node::start_with(proxied, 1), ["", "PROXY TCP4 ", "P"]),
    ];
    for (node, words) in nodes {
        let mut clients = Vec::new();
        for words in words {
            let mut client = node.connect().await;
            client.send(words).await;
            clients.push(client);
        }
        eventually("all are accepted", || node.live("connection") == 3).await;
        node.begin_stop();
        for client in &mut clients {
            let (_, end) = client.rest_and_end().await;
            assert!(matches!(end, End::Fin | End::Broken(_)));
        }
        // With the clients still there.
        assert_eq!(node.stopped().await, 3, "each was cut short: {words:?}");
    }
}

#[tokio::test]
async fn a_client_in_the_middle_of_a_head_may_still_finish_it() {
    with_growing_time(|_| async move {
        let node = Node::start(patient());
        let mut client = node.connect().await;
        let request = client::get("/");
        client.send(&request[..20]).await;
        eventually("it is accepted", || node.live("connection") == 1).await;
        node.begin_stop();
        eventually("the node drains", || node.scope.shutdown().is_draining()).await;
        client.send(&request[20..]).await;
        let answer = client.answer().await;
        assert_eq!(answer.text(), "hello");
        assert!(answer.closes());
        assert_eq!(client.end().await, End::Fin);
        node.stopped().await;
    })
    .await;
}

#[tokio::test]
async fn connections_that_end_only_because_the_node_stops_are_counted_once_each() {
    let limits = HttpLimits { park_after: Duration::from_millis(20), ..patient() };
    let node = Node::start(limits);
    // These end by themselves: one leaves, one says that it asks for the last time, one is told that it spoke nonsense.
    drop(node.connect().await);
    let mut last = node.connect().await;
    last.send("GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
    assert!(last.answer().await.closes());
    let mut nonsense = node.connect().await;
    nonsense.send("\0\0\0\r\n\r\n").await;
    nonsense.answer().await;
    drop((last, nonsense));
    node.all_gone().await;

    let (mut silent, mut parked, mut busy) =
        (node.connect().await, node.connect().await, node.connect().await);
    parked.get("/").await;
    busy.send(client::get("/held")).await;
    let h2 = H2Client::new(node.tcp().await).await;
    h2.get("/").await;
    let mut leaving = node.connect().await;
    leaving.send("GET /held HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
    node.desk.has_begun(5).await;
    eventually("all are accepted", || node.live("connection") == 5).await;
    node.begin_stop();
    eventually("the node drains", || node.scope.shutdown().is_draining()).await;
    node.desk.let_go(2);
    assert_eq!(busy.answer().await.text(), "held");
    assert_eq!(leaving.answer().await.text(), "held");
    for client in [&mut silent, &mut parked, &mut busy, &mut leaving] {
        assert_eq!(client.end().await, End::Fin);
    }
    drop((silent, parked, busy, leaving));
    h2.ended().await.unwrap();
    assert_eq!(node.stopped().await, 4, "all but the one that was leaving");
}

#[tokio::test]
async fn nobody_sees_a_reset_when_a_node_stops_under_load() {
    let limits = HttpLimits { park_after: Duration::from_millis(5), ..patient() };
    for _ in 0..5 {
        let node = Node::start(limits.clone());
        let addr = node.addr();
        let load: Vec<_> = (0..20).map(|_| one_after_the_other(addr)).collect();
        let stop = async {
            node.desk.has_begun(500).await;
            node.begin_stop();
        };
        let (outcomes, ()) = tokio::join!(join_all(load), stop);
        for outcome in outcomes {
            assert_eq!(outcome, None, "answers until the end");
        }
        node.stopped().await;
    }
}

/// Asks until the server says it closes or refuses to connect; returns what went wrong.
async fn one_after_the_other(addr: std::net::SocketAddr) -> Option<String> {
    let mut client = Client::new(connect(addr).await.unwrap());
    loop {
        if let Err(error) = client.try_send(client::get("/whole/100")).await {
            return Some(error.to_string());
        }
        match client.try_answer(false).await {
            Some(answer) if answer.closes() => {
                let end = client.end().await;
                return (end != End::Fin).then(|| format!("{end:?}"));
            }
            Some(answer) => assert_eq!(answer.status, 200),
            // The request met the end of an idle connection on its way: allowed, if it is an end.
            None => {
                let end = client.end().await;
                return (end != End::Fin).then(|| format!("{end:?}"));
            }
        }
    }
}

async fn join_all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    let mut futures: Vec<_> = futures.into_iter().map(Box::pin).collect();
    let mut done = Vec::new();
    std::future::poll_fn(|cx| {
        futures.retain_mut(|future| match future.as_mut().poll(cx) {
            std::task::Poll::Ready(output) => {
                done.push(output);
                false
            }
            std::task::Poll::Pending => true,
        });
        if futures.is_empty() { std::task::Poll::Ready(()) } else { std::task::Poll::Pending }
    })
    .await;
    done
}
