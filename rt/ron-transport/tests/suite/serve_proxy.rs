//! The PROXY protocol in front of a server: who is believed, who is asked, and on whose account a connection is.

use crate::serve_support::{
    Node, client, client::Client, eventually, patient, plan, tls::Identity, with_growing_time,
};
use ron_transport::{
    proxy_protocol::{Origin, TrustedSources, encode_v2},
    serve::{HttpLimits, ListenPlan},
};
use tokio::io::AsyncWriteExt;

/// A node that believes `source`.
fn believing(source: &str, limits: HttpLimits) -> Node {
    Node::start_with(believing_plan(source, limits), 2)
}

fn believing_plan(source: &str, limits: HttpLimits) -> ListenPlan {
    ListenPlan { proxy_protocol: TrustedSources::new(vec![source.parse().unwrap()]), ..plan(limits) }
}

fn v1(client: &str) -> Vec<u8> {
    format!("PROXY TCP4 {client} 10.0.0.1 4711 80\r\n").into_bytes()
}

fn v2(client: &str) -> Vec<u8> {
    let origin = Origin::tcp(format!("{client}:4711").parse().unwrap(), "10.0.0.1:80".parse().unwrap());
    encode_v2(&origin, &[]).unwrap()
}

#[tokio::test]
async fn a_trusted_proxy_names_the_client_in_either_version() {
    let node = believing("127.0.0.0/8", patient());
    for header in [v1("192.0.2.7"), v2("192.0.2.7")] {
        // At once with the request, and bit by bit.
        let mut client = node.connect().await;
        client.send([&header, client::get("/who").as_bytes()].concat()).await;
        assert_eq!(client.answer().await.text(), "192.0.2.7:4711 clear");
        assert_eq!(client.get("/who").await.text(), "192.0.2.7:4711 clear");
        let mut client = node.connect().await;
        for byte in &header {
            client.send([*byte]).await;
        }
        assert_eq!(client.get("/who").await.text(), "192.0.2.7:4711 clear");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_proxy_that_speaks_for_itself_keeps_its_own_address() {
    let node = believing("127.0.0.0/8", patient());
    for header in ["PROXY UNKNOWN\r\n".into(), encode_v2(&Origin::Local, &[]).unwrap()] {
        let mut client = node.connect().await;
        let own = client.stream.local_addr().unwrap();
        client.send(header).await;
        assert_eq!(client.get("/who").await.text(), format!("{own} clear"));
    }
    node.stop().await;
}

#[tokio::test]
async fn a_stranger_is_not_asked_and_not_believed() {
    let node = believing("10.0.0.0/8", patient());
    let mut client = node.connect().await;
    let own = client.stream.local_addr().unwrap();
    assert_eq!(client.get("/who").await.text(), format!("{own} clear"));
    let mut liar = node.connect().await;
    liar.send(v1("192.0.2.7")).await;
    liar.send(client::get("/who")).await;
    assert_eq!(liar.answer().await.status, 400, "it is no request");
    node.stop().await;
}

#[tokio::test]
async fn a_trusted_proxy_without_a_header_is_closed() {
    with_growing_time(|time| async move {
        let limits = HttpLimits { handshake_timeout: time, ..patient() };
        let node = believing("127.0.0.1", limits);
        for words in
            [client::get("/"), "PROXY TCP4 nonsense\r\n".into(), "\r\n\r\n\0\r\nQUIT\nxxxxxxxx".into()]
        {
            let mut client = node.connect().await;
            let _ = client.try_send(&words).await;
            let (rest, _) = client.rest_and_end().await;
            assert!(rest.is_empty(), "{words:?}: {rest:?}");
        }
        assert_eq!(node.timeouts("handshake"), 0);
        let mut silent = node.connect().await;
        silent.send("PROXY").await;
        let (rest, _) = silent.rest_and_end().await;
        assert!(rest.is_empty());
        node.all_gone().await;
        assert_eq!(node.timeouts("handshake"), 1);
        assert_eq!(node.desk.begun(), 0);
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_header_may_stand_in_front_of_tls() {
    let identity = Identity::new();
    let plan = ListenPlan { tls: Some(identity.server.clone()), ..believing_plan("127.0.0.1", patient()) };
    let node = Node::start_with(plan, 2);
    for header in [v1("192.0.2.7"), v2("192.0.2.7")] {
        let mut stream = node.tcp().await;
        stream.write_all(&header).await.unwrap();
        let mut client = Client::new(identity.wrap(stream, &["http/1.1"]).await);
        assert_eq!(client.get("/who").await.text(), "192.0.2.7:4711 t.test");
    }
    node.stop().await;
}

#[tokio::test]
async fn the_cap_per_client_counts_the_named_client_and_not_the_proxy() {
    let limits = HttpLimits { max_conns: 20, max_conns_per_client: 2, ..patient() };
    let node = believing("127.0.0.1", limits);
    // More than two at once that have not yet said for whom.
    let mut waiting = Vec::new();
    for _ in 0..8 {
        waiting.push(node.connect().await);
    }
    eventually("all are let in", || node.live("connection") == 8).await;
    let mut served = Vec::new();
    for (number, mut client) in waiting.into_iter().enumerate() {
        client.send(v1(&format!("192.0.2.{}", number % 4))).await;
        assert_eq!(client.get("/").await.status, 200, "connection {number}");
        served.push(client);
    }
    assert_eq!(node.refused("per_client"), 0);
    let mut third = node.connect().await;
    let _ = third.try_send([v1("192.0.2.1"), client::get("/").into_bytes()].concat()).await;
    assert!(third.try_answer(false).await.is_none());
    eventually("the refusal is counted", || node.refused("per_client") == 1).await;
    // 192.0.2.0 gives one back, and can have it again.
    drop(served.swap_remove(0));
    eventually("a place is free", || node.live("connection") == 7).await;
    let mut again = node.connect().await;
    again.send(v1("192.0.2.0")).await;
    assert_eq!(again.get("/").await.status, 200);
    drop((served, again));
    node.all_gone().await;
    node.stop().await;
}
