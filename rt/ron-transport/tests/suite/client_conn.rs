//! The client side of HTTP/1.1: reuse through a home, connections that died in their sleep, bodies left unread.

use std::{
    pin::Pin,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    task::Poll,
    time::Duration,
};

use crate::serve_support::{Node, SHORT, eventually, patient, pattern};
use bytes::Bytes;
use http_body::Body as _;
use http_body_util::BodyExt;
use ron_transport::{
    Body, Request,
    client::{Home, HttpConn, SendFault},
    serve::HttpLimits,
    stream::Stream,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
};

/// Keeps what comes home, and hears of servers that go on.
#[derive(Default)]
struct Shelf(Mutex<Vec<HttpConn>>, AtomicBool);

impl Home for Shelf {
    fn put_back(&self, mut conn: HttpConn) {
        if conn.went_on() {
            self.went_on();
        }
        self.0.lock().unwrap().push(conn);
    }

    fn went_on(&self) {
        self.1.store(true, Ordering::SeqCst);
    }
}

impl Shelf {
    fn take(&self) -> Option<HttpConn> {
        self.0.lock().unwrap().pop()
    }

    fn is_empty(&self) -> bool {
        self.0.lock().unwrap().is_empty()
    }
}

fn request(method: &str, path: &str, body: impl Into<Body>) -> Request {
    http::Request::builder().method(method).uri(path).header("host", "t").body(body.into()).unwrap()
}

fn open(stream: TcpStream) -> HttpConn {
    HttpConn::open(Stream::Tcp(stream))
}

#[tokio::test]
async fn a_connection_comes_home_when_its_response_has_been_read() {
    let node = Node::start(patient());
    let shelf = Arc::new(Shelf::default());
    let mut conn = open(node.tcp().await);
    for round in 1..=5 {
        let home: Arc<dyn Home> = shelf.clone();
        let response = conn.send(&mut request("GET", "/whole/100000", ""), home).await.unwrap();
        assert!(shelf.is_empty(), "not before its body has ended");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        assert!(body == pattern(100_000));
        conn = shelf.take().expect("home");
        assert!(conn.is_alive());
        assert_eq!((node.desk.begun(), node.live("connection")), (round, 1));
    }
    drop(conn);
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn a_response_without_a_body_goes_home_at_once() {
    let node = Node::start(patient());
    let shelf = Arc::new(Shelf::default());
    let mut conn = open(node.tcp().await);
    for (method, path) in [("GET", "/empty"), ("HEAD", "/whole/1234"), ("HEAD", "/stream/1234")] {
        let response = conn.send(&mut request(method, path, ""), shelf.clone()).await.unwrap();
        conn = shelf.take().expect("home before the body is looked at");
        assert!(response.into_body().collect().await.unwrap().to_bytes().is_empty());
    }
    drop(conn);
    node.stop().await;
}

#[tokio::test]
async fn a_reader_that_stops_at_the_last_byte_sends_the_connection_home() {
    let node = Node::start(patient());
    let shelf = Arc::new(Shelf::default());
    let conn = open(node.tcp().await);
    let response = conn.send(&mut request("GET", "/", ""), shelf.clone()).await.unwrap();
    let mut body = response.into_body();
    let frame = body.frame().await.unwrap().unwrap();
    assert_eq!(frame.into_data().unwrap(), "hello");
    drop(body);
    assert!(shelf.take().expect("home").is_alive());
    node.stop().await;
}

#[tokio::test]
async fn dropping_a_body_midway_closes_the_connection() {
    let node = Node::start(patient());
    for path in ["/whole/5000000", "/stream/5000000"] {
        let shelf = Arc::new(Shelf::default());
        let conn = open(node.tcp().await);
        let response = conn.send(&mut request("GET", path, ""), shelf.clone()).await.unwrap();
        let mut body = response.into_body();
        body.frame().await.unwrap().unwrap();
        drop(body);
        node.all_gone().await;
        assert!(shelf.is_empty());
        // Before the first byte, too.
        let conn = open(node.tcp().await);
        drop(conn.send(&mut request("GET", path, ""), shelf.clone()).await.unwrap());
        node.all_gone().await;
        assert!(shelf.is_empty());
    }
    node.stop().await;
}

#[tokio::test]
async fn dropping_a_request_midway_closes_the_connection() {
    let node = Node::start(patient());
    let shelf = Arc::new(Shelf::default());
    let conn = open(node.tcp().await);
    let mut held = request("GET", "/held", "");
    tokio::select! {
        answer = conn.send(&mut held, shelf.clone()) => panic!("{answer:?}"),
        () = node.desk.has_begun(1) => {}
    }
    eventually("the server gives it up", || node.desk.dropped() == 1).await;
    node.all_gone().await;
    assert!(shelf.is_empty());
    node.stop().await;
}

#[tokio::test]
async fn a_connection_that_the_server_closed_in_its_sleep_is_noticed() {
    let limits = HttpLimits { idle_timeout: SHORT, ..patient() };
    let node = Node::start(limits);
    let shelf = Arc::new(Shelf::default());
    let conn = open(node.tcp().await);
    let response = conn.send(&mut request("GET", "/", ""), shelf.clone()).await.unwrap();
    response.into_body().collect().await.unwrap();
    let mut conn = shelf.take().unwrap();
    node.all_gone().await;
    // The end is in the socket; the runtime has to see it.
    let noticed = async {
        while conn.is_alive() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(crate::serve_support::PATIENCE, noticed).await.unwrap();
    let sent = conn.send(&mut request("POST", "/length", "again"), shelf.clone()).await;
    let Err(SendFault::Unsent(back)) = sent else { panic!("{sent:?}") };
    assert_eq!(back.method(), "POST");
    let body = back.into_body().collect().await.unwrap().to_bytes();
    assert_eq!(body, "again", "the request comes back whole");
    assert!(shelf.is_empty());
    node.stop().await;
}

#[tokio::test]
async fn a_server_that_says_close_keeps_its_connection_from_going_home() {
    let node = Node::start(patient());
    let shelf = Arc::new(Shelf::default());
    let conn = open(node.tcp().await);
    let mut closing = request("GET", "/", "");
    closing.headers_mut().insert("connection", "close".parse().unwrap());
    let response = conn.send(&mut closing, shelf.clone()).await.unwrap();
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "hello");
    assert!(shelf.is_empty());
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn large_bodies_stream_both_ways_at_once() {
    let node = Node::start(patient());
    let shelf = Arc::new(Shelf::default());
    let big = Bytes::from(pattern(5 * 1024 * 1024));
    let mut conn = open(node.tcp().await);
    for path in ["/echo", "/length"] {
        let response = conn.send(&mut request("POST", path, big.clone()), shelf.clone()).await.unwrap();
        let body = response.into_body().collect().await.unwrap().to_bytes();
        match path {
            "/echo" => assert!(body == big),
            _ => assert_eq!(body, big.len().to_string()),
        }
        conn = shelf.take().expect("home");
    }
    drop(conn);
    node.stop().await;
}

/// A server that answers with these bytes, whatever it is asked, and then closes or stays.
async fn answering(answer: &'static [u8], stays: bool) -> (TcpStream, impl Future<Output = ()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = TcpSocket::new_v4().unwrap().connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut server, _) = listener.accept().await.unwrap();
    let serving = async move {
        let mut asked = [0; 1024];
        assert!(server.read(&mut asked).await.unwrap() > 0);
        server.write_all(answer).await.unwrap();
        if stays {
            std::future::pending::<()>().await;
        }
    };
    (client, serving)
}

#[tokio::test]
async fn nonsense_and_a_broken_off_answer_are_told_apart_from_an_unsent_request() {
    for answer in [&b"nonsense\r\n\r\n"[..], b"", b"HTTP/1.1 200 OK\r\ncontent-le"] {
        let shelf = Arc::new(Shelf::default());
        let (stream, serving) = answering(answer, false).await;
        let conn = open(stream);
        let mut asked = request("GET", "/", "");
        let (sent, ()) = tokio::join!(conn.send(&mut asked, shelf.clone()), serving);
        assert!(matches!(sent, Err(SendFault::Broken(_))), "{sent:?}");
        assert!(shelf.is_empty());
    }
}

#[tokio::test]
async fn a_body_that_breaks_off_is_an_error_and_goes_nowhere() {
    for answer in [
        &b"HTTP/1.1 200 OK\r\ncontent-length: 10\r\n\r\nhalf"[..],
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
    ] {
        let shelf = Arc::new(Shelf::default());
        let (stream, serving) = answering(answer, false).await;
        let conn = open(stream);
        let asking = async {
            let response = conn.send(&mut request("GET", "/", ""), shelf.clone()).await.unwrap();
            response.into_body().collect().await
        };
        let (body, ()) = tokio::join!(asking, serving);
        assert!(body.is_err(), "half a body must not pass for a whole one");
        assert!(shelf.is_empty());
    }
}

#[tokio::test]
async fn an_answer_that_ends_with_its_connection_is_broken_by_a_reset() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let near = TcpSocket::new_v4().unwrap().connect(listener.local_addr().unwrap()).await.unwrap();
    let (mut far, _) = listener.accept().await.unwrap();
    let conn = open(near);
    let serving = async {
        assert!(far.read(&mut [0; 1024]).await.unwrap() > 0);
        far.write_all(b"HTTP/1.1 200 OK\r\n\r\nhalf").await.unwrap();
        far
    };
    let mut asked = request("GET", "/", "");
    let (response, far) = tokio::join!(conn.send(&mut asked, Arc::new(Shelf::default())), serving);
    let mut body = response.unwrap().into_body();
    assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), "half");
    // What is closed so is reset.
    socket2::SockRef::from(&far).set_linger(Some(Duration::ZERO)).unwrap();
    drop(far);
    assert!(body.frame().await.unwrap().is_err(), "a reset must not pass for an end");
}

#[tokio::test]
async fn a_connection_with_something_unasked_on_it_is_not_used_again() {
    let shelf = Arc::new(Shelf::default());
    let (stream, serving) =
        answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nokHTTP/1.1 200 OK\r\n", true).await;
    let conn = open(stream);
    let asking = async {
        let response = conn.send(&mut request("GET", "/", ""), shelf.clone()).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    };
    tokio::select! {
        body = asking => assert_eq!(body, "ok"),
        () = serving => {}
    }
    assert!(shelf.take().is_none_or(|mut conn| !conn.is_alive()));
    assert!(shelf.1.load(Ordering::SeqCst), "the server went on");
}

#[tokio::test]
async fn a_server_that_hangs_up_after_its_answer_did_not_go_on() {
    let shelf = Arc::new(Shelf::default());
    let (stream, serving) = answering(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok", false).await;
    let conn = open(stream);
    let asking = async {
        let response = conn.send(&mut request("GET", "/", ""), shelf.clone()).await.unwrap();
        response.into_body().collect().await.unwrap().to_bytes()
    };
    let (body, ()) = tokio::join!(asking, serving);
    assert_eq!(body, "ok");
    assert!(shelf.take().is_none_or(|mut conn| !conn.went_on()));
    assert!(!shelf.1.load(Ordering::SeqCst));
}

#[tokio::test]
async fn interim_answers_are_passed_over() {
    let shelf = Arc::new(Shelf::default());
    let answer = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\n\
                   HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";
    let (stream, serving) = answering(answer, true).await;
    let mut asked = request("GET", "/", "");
    let asking = open(stream).send(&mut asked, shelf.clone());
    let response = tokio::select! {
        response = asking => response.unwrap(),
        () = serving => unreachable!("it stays"),
    };
    assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), "ok");
    assert!(shelf.take().is_some());
}

#[tokio::test]
async fn an_answer_that_comes_before_the_request_was_taken_counts_and_ends_the_connection() {
    // More than the system takes for a server that does not read.
    let upload = Bytes::from(pattern(16 << 20));
    for stays in [true, false] {
        let shelf = Arc::new(Shelf::default());
        let answer = b"HTTP/1.1 413 Content Too Large\r\ncontent-length: 2\r\n\r\nno";
        let (stream, serving) = answering(answer, stays).await;
        let mut asked = request("POST", "/", upload.clone());
        let asking = async {
            let response = open(stream).send(&mut asked, shelf.clone()).await.unwrap();
            assert_eq!(response.status(), 413);
            response.into_body().collect().await.unwrap().to_bytes()
        };
        let body = if stays {
            tokio::select! {
                body = asking => body,
                () = serving => unreachable!("it stays"),
            }
        } else {
            tokio::join!(asking, serving).0
        };
        assert_eq!(body, "no");
        assert!(shelf.is_empty(), "half of a request is still to be sent");
    }
}

#[tokio::test]
async fn a_request_whose_head_was_sent_can_be_sent_again() {
    let node = Node::start(patient());
    let shelf = Arc::new(Shelf::default());
    let mut asked = request("GET", "/whole/10", "");
    for _ in 0..2 {
        let response = open(node.tcp().await).send(&mut asked, shelf.clone()).await.unwrap();
        assert_eq!(response.into_body().collect().await.unwrap().to_bytes(), pattern(10));
    }
    shelf.0.lock().unwrap().clear();
    node.stop().await;
}

#[tokio::test]
async fn a_body_of_many_small_chunks_lets_other_tasks_have_their_turns() {
    const CHUNKS: usize = 10_000;
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let socket = TcpSocket::new_v4().unwrap();
    let (stream, server) = tokio::join!(socket.connect(listener.local_addr().unwrap()), listener.accept());
    let (mut server, _) = server.unwrap();
    let chunks = "1\r\nx\r\n".repeat(CHUNKS);
    let answer = format!("HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n{chunks}0\r\n\r\n");
    let serve = async move {
        server.read_u8().await.unwrap();
        server.write_all(answer.as_bytes()).await.unwrap();
    };
    let mut asked = request("GET", "/", "");
    let home: Arc<dyn Home> = Arc::new(Shelf::default());
    let ((), response) = tokio::join!(serve, open(stream.unwrap()).send(&mut asked, home));
    let mut body = response.unwrap().into_body();
    let (mut most, mut read) = (0, 0);
    std::future::poll_fn(|cx| {
        for in_turn in 1.. {
            let Some(frame) = std::task::ready!(Pin::new(&mut body).poll_frame(cx)) else { break };
            read += frame.unwrap().data_ref().map_or(0, Bytes::len);
            most = most.max(in_turn);
        }
        Poll::Ready(())
    })
    .await;
    assert_eq!(read, CHUNKS);
    assert!(most < 1000, "{most} chunks in one turn");
}
