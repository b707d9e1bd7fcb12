//! Connections that give their buffers back between requests, and notice nothing of it.

use std::time::Duration;

use crate::serve_support::{Node, client, client::Client, client::End, patient, pattern, tls::Identity};
use ron_transport::serve::HttpLimits;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::sleep,
};

const PARK: Duration = Duration::from_millis(20);
/// Long enough that the connection has been parked.
const PAUSE: Duration = Duration::from_millis(60);

fn parking() -> HttpLimits {
    HttpLimits { park_after: PARK, ..patient() }
}

/// The same for a connection without TLS and one over TLS.
macro_rules! both_ways {
    ($name:ident, $body:path) => {
        #[tokio::test]
        async fn $name() {
            let node = Node::start(parking());
            $body(node.connect().await).await;
            node.all_gone().await;
            node.stop().await;
            let identity = Identity::new();
            let node = Node::start_tls(parking(), identity.server.clone());
            $body(identity.connect(&node).await).await;
            node.all_gone().await;
            assert_eq!(node.timeouts("read"), 0);
            node.stop().await;
        }
    };
}

both_ways!(a_parked_connection_serves_the_next_request, next_request);
both_ways!(what_a_service_keeps_for_a_connection_outlives_its_parking, counted_requests);
both_ways!(a_request_may_come_in_two_parts_around_parking, split_request);
both_ways!(requests_that_lie_ready_are_served_after_parking, leftovers);
both_ways!(a_connection_parks_and_wakes_fifty_times, fifty_times);
both_ways!(a_parked_connection_takes_a_large_body, large_body);

async fn next_request<S: AsyncRead + AsyncWrite + Unpin>(mut client: Client<S>) {
    assert_eq!(client.get("/").await.text(), "hello");
    sleep(PAUSE).await;
    assert_eq!(client.get("/whole/70000").await.body, pattern(70_000));
}

async fn counted_requests<S: AsyncRead + AsyncWrite + Unpin>(mut client: Client<S>) {
    for count in 1..4 {
        assert_eq!(client.get("/count").await.text(), count.to_string());
        sleep(PAUSE).await;
    }
}

async fn split_request<S: AsyncRead + AsyncWrite + Unpin>(mut client: Client<S>) {
    let whole = client::post("/length", 4) + "body";
    // Each split once before the first parking and once after it.
    for at in [1, 3, 5, 23, 24, 30, whole.len() - 6, whole.len() - 4, whole.len() - 1] {
        client.send(&whole[..at]).await;
        sleep(PAUSE / 2).await;
        client.send(&whole[at..]).await;
        assert_eq!(client.answer().await.text(), "4", "split at {at}");
        sleep(PAUSE / 2).await;
    }
}

async fn leftovers<S: AsyncRead + AsyncWrite + Unpin>(mut client: Client<S>) {
    let (whole, next) = (client::get("/"), client::get("/whole/9"));
    for at in [1, 10, next.len() - 1] {
        // The second request begins with the first and is finished long after the connection has become idle.
        client.send(format!("{whole}{}", &next[..at])).await;
        assert_eq!(client.answer().await.text(), "hello");
        sleep(PAUSE).await;
        client.send(&next[at..]).await;
        assert_eq!(client.answer().await.body, pattern(9), "split at {at}");
        sleep(PAUSE).await;
    }
}

async fn fifty_times<S: AsyncRead + AsyncWrite + Unpin>(mut client: Client<S>) {
    for round in 0..50 {
        assert_eq!(client.get(&format!("/whole/{round}")).await.body, pattern(round));
        sleep(PARK + Duration::from_millis(5)).await;
    }
}

async fn large_body<S: AsyncRead + AsyncWrite + Unpin>(mut client: Client<S>) {
    client.get("/").await;
    sleep(PAUSE).await;
    assert_eq!(client.post("/length", &pattern(1_000_000)).await.text(), "1000000");
}

#[tokio::test]
async fn a_client_that_leaves_a_parked_connection_leaves_nothing_behind() {
    let node = Node::start(parking());
    let mut clients = Vec::new();
    for _ in 0..20 {
        let mut client = node.connect().await;
        client.get("/").await;
        clients.push(client);
    }
    sleep(PAUSE).await;
    assert_eq!(node.live("connection"), 20);
    drop(clients);
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn a_parked_connection_is_ended_when_the_node_stops() {
    let identity = Identity::new();
    let clear = Node::start(parking());
    let encrypted = Node::start_tls(parking(), identity.server.clone());
    let (mut plain, mut secret) = (clear.connect().await, identity.connect(&encrypted).await);
    plain.get("/").await;
    secret.get("/").await;
    sleep(PAUSE).await;
    clear.begin_stop();
    encrypted.begin_stop();
    assert_eq!(plain.end().await, End::Fin);
    assert_eq!(secret.end().await, End::Fin, "with close_notify");
    clear.stopped().await;
    encrypted.stopped().await;
}
