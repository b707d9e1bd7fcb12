//! Requests and responses over HTTP/1.1: framing, keep-alive, refusals, and the end of a connection.

use crate::serve_support::{
    Node, bind, client, client::Client, client::End, eventually, patient, pattern, plan, tls::Identity,
};
use ron_transport::{
    addr::ListenAddr,
    listen::{BindOptions, Listener},
    serve::ListenPlan,
};
use tokio::net::{TcpSocket, UnixStream};
use types::Reason;

const BIG: usize = 5 * 1024 * 1024;

#[tokio::test]
async fn a_connection_serves_one_request_after_the_other() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    for _ in 0..3 {
        let answer = client.get("/").await;
        assert_eq!((answer.status, answer.text()), (200, "hello"));
        assert!(!answer.closes());
    }
    assert_eq!(node.desk.begun(), 3);
    assert_eq!(node.live("connection"), 1);
    drop(client);
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn a_service_keeps_what_it_knows_of_each_connection_apart() {
    let node = Node::start(patient());
    let (mut one, mut other) = (node.connect().await, node.connect().await);
    assert_eq!(one.get("/count").await.text(), "1");
    assert_eq!(one.get("/count").await.text(), "2");
    assert_eq!(other.get("/count").await.text(), "1");
    node.stop().await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    let lengths = [3, 70_000, 1, 200_000, 5];
    let all: String = lengths.iter().map(|n| client::get(&format!("/whole/{n}"))).collect();
    client.send(all).await;
    for length in lengths {
        assert_eq!(client.answer().await.body, pattern(length));
    }
    node.stop().await;
}

#[tokio::test]
async fn pipelined_requests_wait_for_a_client_that_reads_later() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    // More than the sockets hold, whatever they are allowed to grow to.
    client.send(client::get("/whole/1000000").repeat(30)).await;
    node.desk.has_begun(1).await;
    // The next is not begun before the one before it is out.
    assert!(node.desk.begun() < 30);
    for _ in 0..30 {
        assert_eq!(client.answer().await.body.len(), 1_000_000);
    }
    assert_eq!(client.get("/count").await.text(), "31");
    node.stop().await;
}

#[tokio::test]
async fn head_is_answered_with_the_length_and_no_body() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    for path in ["/whole/1234", "/stream/1234"] {
        client.send(format!("HEAD {path} HTTP/1.1\r\nhost: t\r\n\r\n")).await;
        let answer = client.answer_to_head().await;
        assert_eq!(answer.status, 200);
        if path == "/whole/1234" {
            assert_eq!(answer.header("content-length"), Some("1234"));
        }
        assert_eq!(client.get("/").await.text(), "hello", "nothing lies between");
    }
    node.stop().await;
}

#[tokio::test]
async fn chunked_bodies_pass_both_ways() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    client.send("POST /echo HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n").await;
    for chunk in ["5\r\nabcde\r\n", "3\r\nfgh\r\n", "0\r\n\r\n"] {
        client.send(chunk).await;
    }
    let answer = client.answer().await;
    assert_eq!(answer.header("transfer-encoding"), Some("chunked"));
    assert_eq!(answer.text(), "abcdefgh");
    assert_eq!(client.get("/stream/100000").await.body, pattern(100_000));
    node.stop().await;
}

#[tokio::test]
async fn a_client_that_asks_first_is_told_to_continue() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    let head = "POST /length HTTP/1.1\r\nhost: t\r\ncontent-length: 4\r\nexpect: 100-continue\r\n\r\n";
    client.send(head).await;
    assert_eq!(client.answer().await.status, 100);
    client.send("body").await;
    assert_eq!(client.answer().await.text(), "4");
    // And one that is refused is not.
    client.send(head.replace("/length", "/too-large")).await;
    assert_eq!(client.answer().await.status, 413);
    node.stop().await;
}

#[tokio::test]
async fn large_bodies_arrive_intact_both_ways() {
    let identity = Identity::new();
    let (clear, encrypted) = (Node::start(patient()), Node::start_tls(patient(), identity.server.clone()));
    large_bodies(Client::new(clear.tcp().await)).await;
    large_bodies(identity.connect(&encrypted).await).await;
    clear.stop().await;
    encrypted.stop().await;
}

async fn large_bodies<S>(mut client: Client<S>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let body = pattern(BIG);
    assert!(client.get(&format!("/whole/{BIG}")).await.body == body, "a whole body");
    assert!(client.get(&format!("/stream/{BIG}")).await.body == body, "a streamed body");
    assert_eq!(client.post("/length", &body).await.text(), BIG.to_string());
    // An echo needs both directions at once.
    client.send(client::post("/echo", BIG)).await;
    let (read, write) = tokio::io::split(&mut client.stream);
    let mut sending = Client::new(tokio::io::join(tokio::io::empty(), write));
    let mut receiving = Client::new(tokio::io::join(read, tokio::io::sink()));
    let ((), answer) = tokio::join!(sending.send(&body), receiving.answer());
    assert!(answer.body == body, "an echoed body");
}

#[tokio::test]
async fn a_refusal_is_a_problem_document_and_counted_by_its_reason() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    for round in 1..=2 {
        let answer = client.get("/busy").await;
        assert_eq!(answer.status, 429);
        assert_eq!(answer.header("content-type"), Some("application/problem+json"));
        assert_eq!(answer.header("retry-after"), Some("2"));
        assert!(answer.text().contains(r#""reason":"busy""#), "{}", answer.text());
        assert_eq!(node.rejected(Reason::Busy), round);
    }
    assert_eq!(client.get("/").await.status, 200, "the connection goes on");
    assert_eq!(node.rejected(Reason::Malformed), 0);
    node.stop().await;
}

#[tokio::test]
async fn connection_close_is_honoured_with_an_end() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    client.send("GET / HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
    let answer = client.answer().await;
    assert!(answer.closes());
    assert_eq!(client.end().await, End::Fin);
    let mut old = node.connect().await;
    old.send("GET / HTTP/1.0\r\n\r\n").await;
    assert_eq!(old.answer().await.text(), "hello");
    assert_eq!(old.end().await, End::Fin);
    drop((client, old));
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn what_follows_the_last_request_does_not_cut_its_response_short() {
    let node = Node::start(patient());
    // A client that takes little at a time, so that the end of the response waits at the server when that closes.
    let socket = TcpSocket::new_v4().unwrap();
    socket.set_recv_buffer_size(4096).unwrap();
    let mut client = Client::new(socket.connect(node.addr()).await.unwrap());
    client.send("GET /whole/2000000 HTTP/1.1\r\nhost: t\r\nconnection: close\r\n\r\n").await;
    client.stream.readable().await.unwrap();
    // More than is read along with a request.
    client.send([b'x'; 30_000]).await;
    assert!(client.answer().await.body == pattern(2_000_000));
    assert_eq!(client.end().await, End::Fin);
    node.stop().await;
}

#[tokio::test]
async fn a_client_refused_while_it_still_sends_gets_the_whole_answer_and_an_end() {
    let identity = Identity::new();
    let clear = Node::start(patient());
    let encrypted = Node::start_tls(patient(), identity.server.clone());
    refused_early(clear.connect().await).await;
    refused_early(identity.connect(&encrypted).await).await;
    assert_eq!(clear.rejected(Reason::BodyCap), 1);
    clear.stop().await;
    encrypted.stop().await;
}

/// Sends everything before it looks for an answer.
async fn refused_early<S>(mut client: Client<S>)
where
    S: tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin,
{
    let body = pattern(BIG);
    client.send(client::post("/too-large", BIG)).await;
    client.try_send(body).await.expect("the server bears the rest");
    let answer = client.answer().await;
    assert_eq!(answer.status, 413);
    assert!(answer.closes());
    assert!(answer.text().contains("at most 10 bytes"));
    assert_eq!(client.end().await, End::Fin);
}

#[tokio::test]
async fn a_client_that_leaves_is_noticed_behind_what_it_sent_ahead() {
    let identity = Identity::new();
    let clear = Node::start(patient());
    let encrypted = Node::start_tls(patient(), identity.server.clone());
    // As much as the socket takes though nobody reads it: an end behind more than that does not arrive.
    let much = "x".repeat(40_000);
    // A byte of a next request, more than is read of it, and a body that nobody reads.
    let sent =
        [client::get("/held") + "G", client::get("/held") + &much, client::post("/held", much.len()) + &much];
    for (at, sent) in sent.iter().enumerate() {
        let (mut plain, mut secret) = (clear.connect().await, identity.connect(&encrypted).await);
        plain.send(sent).await;
        secret.send(sent).await;
        clear.desk.has_begun(at + 1).await;
        encrypted.desk.has_begun(at + 1).await;
        drop((plain, secret));
        eventually("the request is dropped", || clear.desk.dropped() == at + 1).await;
        eventually("the request is dropped", || encrypted.desk.dropped() == at + 1).await;
    }
    clear.all_gone().await;
    encrypted.all_gone().await;
    clear.stop().await;
    encrypted.stop().await;
}

#[tokio::test]
async fn a_request_is_given_up_when_its_client_leaves() {
    let identity = Identity::new();
    let clear = Node::start(patient());
    let encrypted = Node::start_tls(patient(), identity.server.clone());
    let mut plain = clear.connect().await;
    plain.send(client::get("/held")).await;
    let mut secret = identity.connect(&encrypted).await;
    secret.send(client::get("/held")).await;
    clear.desk.has_begun(1).await;
    encrypted.desk.has_begun(1).await;
    drop((plain, secret));
    eventually("the request is dropped", || clear.desk.dropped() == 1).await;
    eventually("the request is dropped", || encrypted.desk.dropped() == 1).await;
    clear.all_gone().await;
    encrypted.all_gone().await;
    clear.stop().await;
    encrypted.stop().await;
}

#[tokio::test]
async fn connections_are_spread_over_the_cores() {
    let node = Node::start(patient());
    let mut clients = Vec::new();
    for _ in 0..6 {
        let mut client = node.connect().await;
        client.get("/").await;
        clients.push(client);
    }
    let loads: Vec<_> = node.scope.planes().cores().iter().map(|core| core.load()).collect();
    assert_eq!(loads, [3, 3]);
    drop(clients);
    node.all_gone().await;
    eventually("seats are given back", || node.scope.planes().cores().iter().all(|core| core.load() == 0))
        .await;
    node.stop().await;
}

#[tokio::test]
async fn a_unix_socket_serves_like_any_other() {
    let dir = tempfile::TempDir::new().unwrap();
    let path = dir.path().join("t.sock");
    let addr = ListenAddr::Unix(path.clone());
    let plan = ListenPlan {
        listener: Some(Listener::bind(&addr, BindOptions::default()).unwrap()),
        ..plan(patient())
    };
    let node = Node::start_with(plan, 1);
    assert_eq!(node.server.local_addr(), addr);
    let mut client = Client::new(UnixStream::connect(&path).await.unwrap());
    assert_eq!(client.get("/who").await.text(), "unix clear");
    assert_eq!(client.post("/length", &pattern(300_000)).await.text(), "300000");
    node.begin_stop();
    assert_eq!(client.end().await, End::Fin);
    drop(client);
    node.stopped().await;
    assert!(!path.exists(), "the socket's file goes with it");
}

#[tokio::test]
async fn a_second_server_finds_the_port_taken_and_its_own_address_kept() {
    let node = Node::start(patient());
    let options = BindOptions::default();
    let same = node.server.bind(&node.server.local_addr(), options).unwrap();
    assert!(same.is_none());
    let any = ListenAddr::Tcp("127.0.0.1:0".parse().unwrap());
    assert!(node.server.bind(&any, options).unwrap().is_none());
    let other = bind("127.0.0.1:0");
    assert!(node.server.bind(other.local_addr(), options).is_err());
    let _ = other.close();
    node.stop().await;
}

#[tokio::test]
async fn trailers_of_a_chunked_request_never_become_headers() {
    let node = Node::start(patient());
    let mut client = node.connect().await;
    client
        .send(
            "POST /trailers HTTP/1.1\r\nhost: t\r\ntransfer-encoding: chunked\r\n\r\n\
             4\r\nbody\r\n0\r\nx-checksum: 1\r\ncontent-length: 3\r\nauthorization: x\r\n\r\n",
        )
        .await;
    let answer = client.answer().await;
    assert!(answer.text().starts_with("2 "), "host and transfer-encoding alone: {}", answer.text());
    assert_eq!(client.get("/").await.text(), "hello", "in step");
    node.stop().await;
}
