//! How many connections are served, in all and per client, and that each place is given back.

use std::time::Duration;

use crate::serve_support::{
    Node, client, client::Client, client::End, eventually, patient, with_growing_time,
};
use ron_transport::serve::HttpLimits;
use tokio::net::{TcpSocket, TcpStream};

fn caps(max_conns: usize, max_conns_per_client: usize) -> HttpLimits {
    HttpLimits { max_conns, max_conns_per_client, ..patient() }
}

/// A connection from one of the loopback interface's many addresses.
async fn from(node: &Node, ip: [u8; 4]) -> Client<TcpStream> {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind((ip, 0).into()).unwrap();
    Client::new(socket.connect(node.addr()).await.unwrap())
}

async fn is_served(client: &mut Client<TcpStream>) -> bool {
    let _ = client.try_send(client::get("/")).await;
    client.try_answer(false).await.is_some_and(|answer| answer.status == 200)
}

#[tokio::test]
async fn exactly_as_many_connections_are_served_as_the_cap_allows() {
    let node = Node::start(caps(5, 5));
    let mut served = Vec::new();
    for _ in 0..5 {
        let mut client = node.connect().await;
        assert!(is_served(&mut client).await);
        served.push(client);
    }
    for refused in 1..=3 {
        let mut client = node.connect().await;
        assert_eq!(client.end().await, End::Fin, "it had said nothing yet");
        eventually("the refusal is counted", || node.refused("per_client") == refused).await;
    }
    assert_eq!(node.refused("total"), 0, "one client's share is told first");
    served.pop();
    eventually("a place is free", || node.live("connection") == 4).await;
    let mut next = node.connect().await;
    assert!(is_served(&mut next).await);
    assert_eq!(node.refused("per_client"), 3);
    drop((served, next));
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn one_client_cannot_take_the_places_of_another() {
    let node = Node::start(caps(4, 2));
    let mut open = Vec::new();
    for ip in [[127, 0, 0, 1], [127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 2]] {
        let mut client = from(&node, ip).await;
        assert!(is_served(&mut client).await, "{ip:?}");
        open.push(client);
    }
    assert!(!is_served(&mut from(&node, [127, 0, 0, 1]).await).await);
    eventually("its share", || node.refused("per_client") == 1).await;
    // Who holds the most makes way for those who hold none, until all hold the same.
    for ip in [[127, 0, 0, 3], [127, 0, 0, 4]] {
        let mut client = from(&node, ip).await;
        assert!(is_served(&mut client).await, "{ip:?}");
        open.push(client);
    }
    eventually("two made way", || node.live("connection") == 4).await;
    assert!(!is_served(&mut from(&node, [127, 0, 0, 5]).await).await);
    eventually("all taken", || node.refused("total") == 1).await;
    assert_eq!((node.refused("per_client"), node.refused("total")), (1, 1));
    drop(open);
    node.stop().await;
}

/// A node whose connections park in less than `time`, with all four places taken by parked ones: three of one client, one
/// of another.
async fn full_of_parked(time: Duration) -> (Node, Vec<Client<TcpStream>>) {
    let park_after = time / 25;
    let node = Node::start(HttpLimits { park_after, ..caps(4, 3) });
    let mut open = Vec::new();
    for ip in [[127, 0, 0, 1], [127, 0, 0, 2], [127, 0, 0, 1], [127, 0, 0, 1]] {
        let mut client = from(&node, ip).await;
        assert!(is_served(&mut client).await, "{ip:?}");
        open.push(client);
        tokio::time::sleep(park_after * 5).await;
    }
    (node, open)
}

#[tokio::test]
async fn at_the_cap_the_idle_connection_of_the_largest_client_makes_room_for_a_newcomer() {
    with_growing_time(|time| async move {
        let (node, mut open) = full_of_parked(time).await;
        let mut newcomer = from(&node, [127, 0, 0, 3]).await;
        assert!(is_served(&mut newcomer).await);
        assert_eq!(open.remove(0).end().await, End::Fin, "the one that has waited the longest");
        for client in &mut open {
            assert!(is_served(client).await, "the others keep their places");
        }
        assert_eq!((node.evicted(), node.refused("total")), (1, 0));
        eventually("as many as the cap allows", || node.live("connection") == 4).await;
        drop((open, newcomer));
        node.all_gone().await;
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_flood_of_newcomers_takes_idle_places_only_and_is_refused_after_them() {
    with_growing_time(|time| async move {
        let (node, mut open) = full_of_parked(time).await;
        let mut served = Vec::new();
        for last in 3..=6 {
            let mut newcomer = from(&node, [127, 0, 0, last]).await;
            newcomer.send(&client::get("/")[..10]).await;
            served.push(newcomer);
        }
        for client in &mut open {
            assert_eq!(client.end().await, End::Fin);
        }
        assert!(!is_served(&mut from(&node, [127, 0, 0, 7]).await).await);
        eventually("all taken", || node.refused("total") == 1).await;
        for client in &mut served {
            client.send(&client::get("/")[10..]).await;
            assert_eq!(client.answer().await.text(), "hello", "who has begun to ask is not idle");
        }
        assert_eq!(node.evicted(), 4);
        drop(served);
        node.all_gone().await;
        node.stop().await;
    })
    .await;
}
