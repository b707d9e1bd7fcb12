//! What can change while a server runs: limits, the listening socket, TLS.

use crate::serve_support::{
    Node, bind, client, client::Client, client::End, connect, eventually, patient, tls::Identity,
    with_growing_time,
};
use ron_transport::{
    addr::ListenAddr,
    listen::{BindError, BindOptions},
    proxy_protocol::TrustedSources,
    serve::{HttpLimits, ListenPlan},
};

const OPEN_CONNECTIONS: usize = 200;

/// The present plan with other limits.
fn with_limits(limits: HttpLimits) -> ListenPlan {
    ListenPlan { listener: None, tls: None, proxy_protocol: TrustedSources::new(Vec::new()), limits }
}

#[tokio::test]
async fn new_limits_hold_for_new_connections() {
    with_growing_time(|time| async move {
        let node = Node::start(patient());
        let mut old = node.connect().await;
        old.get("/").await;
        node.server.commit(with_limits(HttpLimits {
            max_conns_per_client: 2,
            read_timeout: time,
            ..patient()
        }));
        let mut new = node.connect().await;
        assert_eq!(new.end().await, End::Fin, "the new timeout");
        assert_eq!(node.timeouts("read"), 1);
        drop(new);
        eventually("it is gone", || node.live("connection") == 1).await;
        let mut second = node.connect().await;
        assert_eq!(second.get("/").await.status, 200);
        let mut third = node.connect().await;
        assert_eq!(third.end().await, End::Fin, "the new cap");
        assert_eq!(node.refused("per_client"), 1);
        assert_eq!(old.get("/").await.status, 200, "the old one keeps what it began with");
        node.server.commit(with_limits(patient()));
        assert_eq!(node.connect().await.get("/").await.status, 200, "a cap that was raised again");
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_listener_is_exchanged_and_nobody_is_lost() {
    let node = Node::start(patient());
    let old_addr = node.addr();
    let mut kept = node.connect().await;
    kept.get("/").await;
    for _ in 0..5 {
        let before = node.addr();
        let mut waiting = Vec::new();
        for _ in 0..10 {
            let mut client = Client::new(connect(before).await.unwrap());
            client.send(client::get("/")).await;
            waiting.push(client);
        }
        node.server.commit(ListenPlan { listener: Some(bind("127.0.0.1:0")), ..with_limits(patient()) });
        assert_ne!(node.addr(), before);
        assert_eq!(node.connect().await.get("/").await.status, 200, "the new address");
        for mut client in waiting {
            assert_eq!(client.answer().await.status, 200, "the old address");
        }
    }
    eventually("the old address refuses", || std::net::TcpListener::bind(old_addr).is_ok()).await;
    assert!(connect(old_addr).await.is_err());
    assert_eq!(kept.get("/").await.status, 200, "open connections go on");
    node.stop().await;
}

#[tokio::test]
async fn listeners_exchanged_in_quick_succession_lose_nobody_either() {
    let node = Node::start(patient());
    let mut waiting = Vec::new();
    for _ in 0..20 {
        let next = bind("127.0.0.1:0");
        let ListenAddr::Tcp(addr) = next.local_addr().clone() else { panic!("not TCP") };
        let mut client = Client::new(connect(addr).await.unwrap());
        client.send(client::get("/")).await;
        waiting.push(client);
        // The accept loop may not get to see every one of them.
        node.server.commit(ListenPlan { listener: Some(next), ..with_limits(patient()) });
    }
    for (number, mut client) in waiting.into_iter().enumerate() {
        let answer = client.try_answer(false).await;
        assert_eq!(answer.map(|a| a.status), Some(200), "client {number}");
    }
    node.stop().await;
}

#[tokio::test]
async fn a_listener_that_comes_when_the_node_drains_is_not_opened() {
    let node = Node::start(patient());
    let mut busy = node.connect().await;
    busy.send(client::get("/held")).await;
    node.desk.has_begun(1).await;
    let addr = node.addr();
    node.begin_stop();
    eventually("intake is closed", || std::net::TcpListener::bind(addr).is_ok()).await;
    assert_eq!(node.addr(), addr, "it can still be asked");
    assert!(node.server.listener().is_none(), "there is nothing to hand over");
    let late = bind("127.0.0.1:0");
    let ListenAddr::Tcp(late_addr) = late.local_addr().clone() else { panic!("not TCP") };
    node.server.commit(ListenPlan { listener: Some(late), ..with_limits(patient()) });
    assert!(connect(late_addr).await.is_err());
    node.desk.let_go(1);
    assert_eq!(busy.answer().await.text(), "held");
    node.stopped().await;
}

#[tokio::test]
async fn an_address_that_overlaps_our_own_is_refused_with_what_to_do() {
    let node = Node::start(patient());
    let port = node.addr().port();
    let ask = |addr: String| node.server.bind(&addr.parse().unwrap(), BindOptions::default());
    for overlapping in
        [format!("0.0.0.0:{port}"), format!("[::]:{port}"), format!("[::ffff:127.0.0.1]:{port}")]
    {
        let refused = ask(overlapping.clone()).unwrap_err();
        if matches!(refused, BindError::FamilyOff { .. }) {
            continue;
        }
        assert_eq!(
            refused.to_string(),
            format!(
                "{overlapping} cannot be opened while this listener is on 127.0.0.1:{port}, which overlaps it: \
                 change the port as well, or restart"
            )
        );
    }
    let stranger = bind("127.0.0.1:0");
    let refused = ask(stranger.local_addr().to_string()).unwrap_err();
    assert!(matches!(refused, BindError::InUse { .. }), "{refused}");
    assert!(ask(format!("127.0.0.1:{port}")).unwrap().is_none(), "the same is kept");
    assert!(ask("127.0.0.1:0".to_owned()).unwrap().is_none(), "any port is content with this one");
    ask(format!("127.0.0.2:{port}")).unwrap().expect("another address of ours").release();
    stranger.release();
    assert_eq!(node.connect().await.get("/").await.status, 200);
    node.stop().await;
}

#[tokio::test]
async fn tls_is_switched_on_and_off_under_open_connections() {
    let identity = Identity::new();
    let node = Node::start(patient());
    let mut plain = node.connect().await;
    plain.get("/").await;
    node.server.commit(ListenPlan { tls: Some(identity.server.clone()), ..with_limits(patient()) });
    let mut secret = identity.connect(&node).await;
    assert!(secret.get("/who").await.text().ends_with(" t.test"));
    assert!(plain.get("/who").await.text().ends_with(" clear"), "an open one stays in the clear");
    node.server.commit(with_limits(patient()));
    assert!(node.connect().await.get("/who").await.text().ends_with(" clear"));
    assert!(secret.get("/who").await.text().ends_with(" t.test"), "an open one stays encrypted");
    assert!(plain.get("/who").await.text().ends_with(" clear"));
    node.stop().await;
}

#[tokio::test]
async fn a_certificate_swap_under_200_open_connections_drops_none() {
    let mut identity = Identity::new();
    let node = Node::start_tls(patient(), identity.server.clone());
    let mut open = Vec::with_capacity(OPEN_CONNECTIONS);
    for _ in 0..OPEN_CONNECTIONS {
        let mut client = identity.connect(&node).await;
        assert_eq!(client.stream.peer_certificates(), [identity.certificate.leaf()]);
        client.get("/").await;
        open.push(client);
    }
    // One of them is in the middle of a request.
    let mut busy = identity.connect(&node).await;
    busy.send(client::get("/held")).await;
    node.desk.has_begun(OPEN_CONNECTIONS + 1).await;

    let old = identity.certificate.leaf();
    identity.renew();
    node.server.commit(ListenPlan { tls: Some(identity.server.clone()), ..with_limits(patient()) });

    let mut new = identity.connect(&node).await;
    assert_eq!(new.stream.peer_certificates(), [identity.certificate.leaf()]);
    assert_ne!(old, identity.certificate.leaf());
    assert_eq!(new.get("/").await.text(), "hello");
    for (index, client) in open.iter_mut().enumerate() {
        assert_eq!(client.get("/").await.text(), "hello", "connection {index}");
    }
    node.desk.let_go(1);
    assert_eq!(busy.answer().await.text(), "held");
    assert_eq!(node.live("connection"), OPEN_CONNECTIONS + 2, "all are still open");
    drop((open, busy, new));
    node.stop().await;
}
