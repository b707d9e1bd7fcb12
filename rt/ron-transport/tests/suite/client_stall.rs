//! Servers that stop in the middle of a response's body.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use http_body::Frame;
use http_body_util::BodyExt;
use ron_transport::{
    Body, BodyError, Request,
    client::{Home, HttpConn},
    stream::Stream,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    time::{Instant, Sleep, advance, sleep, timeout},
};

/// Ages on the real clock, which runs while something is on its way through a socket.
const LIMIT: Duration = Duration::from_secs(1000);
const ALMOST: Duration = Duration::from_secs(900);
const HALVES: [&str; 2] = [
    "HTTP/1.1 200 OK\r\ncontent-length: 8\r\n\r\nhalf",
    "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n",
];

/// Counts what it hears.
#[derive(Default)]
struct Ear {
    home: AtomicUsize,
    stalled: AtomicUsize,
}

impl Home for Ear {
    fn put_back(&self, _: HttpConn) {
        self.home.fetch_add(1, Ordering::SeqCst);
    }

    fn stalled(&self) {
        self.stalled.fetch_add(1, Ordering::SeqCst);
    }
}

impl Ear {
    fn heard(&self) -> (usize, usize) {
        (self.home.load(Ordering::SeqCst), self.stalled.load(Ordering::SeqCst))
    }
}

/// A response whose head and first half are read, the server that could send more, and what its home heard.
async fn half_read(answer: &str, limit: Option<Duration>) -> (Body, TcpStream, Arc<Ear>) {
    half_read_of(Body::empty(), answer, limit).await
}

/// The same for a request with a body.
async fn half_read_of(upload: Body, answer: &str, limit: Option<Duration>) -> (Body, TcpStream, Arc<Ear>) {
    half_read_on(pair().await, upload, answer, limit).await
}

/// The two ends of a connection: the client's, the server's.
async fn pair() -> (TcpStream, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let stream = TcpSocket::new_v4().unwrap().connect(listener.local_addr().unwrap()).await.unwrap();
    (stream, listener.accept().await.unwrap().0)
}

async fn half_read_on(
    (stream, mut server): (TcpStream, TcpStream),
    upload: Body,
    answer: &str,
    limit: Option<Duration>,
) -> (Body, TcpStream, Arc<Ear>) {
    let mut conn = HttpConn::open(Stream::Tcp(stream));
    if let Some(limit) = limit {
        conn.set_stall(limit);
    }
    let ear = Arc::new(Ear::default());
    let mut request: Request = http::Request::post("/").header("host", "t").body(upload).unwrap();
    let answering = async {
        let mut asked = [0; 1024];
        assert!(server.read(&mut asked).await.unwrap() > 0);
        server.write_all(answer.as_bytes()).await.unwrap();
    };
    let (response, ()) = tokio::join!(conn.send(&mut request, ear.clone()), answering);
    let mut body = response.unwrap().into_body();
    assert_eq!(next(&mut body).await.unwrap(), "half");
    // From here on time passes only when told to: the sockets are quiet.
    tokio::time::pause();
    (body, server, ear)
}

async fn next(body: &mut Body) -> Result<Bytes, BodyError> {
    Ok(body.frame().await.expect("not the end")?.into_data().unwrap())
}

#[tokio::test]
async fn half_a_body_is_an_error_at_the_limit_and_the_connection_closes() {
    for answer in HALVES {
        let (mut body, mut server, ear) = half_read(answer, Some(LIMIT)).await;
        let began = Instant::now();
        let error = next(&mut body).await.unwrap_err();
        assert_eq!(began.elapsed().as_secs(), LIMIT.as_secs());
        assert_eq!(error.to_string(), "the body ended early: the server stalled: nothing came for 1000s");
        assert_eq!(ear.heard(), (0, 1), "counted once, and not used again");
        let mut rest = Vec::new();
        assert_eq!(server.read_to_end(&mut rest).await.unwrap(), 0, "closed while the body is still held");
        drop(body);
        assert_eq!(ear.heard(), (0, 1));
        tokio::time::resume();
    }
}

#[tokio::test]
async fn each_piece_begins_the_wait_anew() {
    let (mut body, mut server, ear) = half_read(HALVES[1], Some(LIMIT)).await;
    for _ in 0..4 {
        assert!(timeout(ALMOST, next(&mut body)).await.is_err(), "a wait just below the limit");
        tokio::time::resume();
        server.write_all(b"4\r\nmore\r\n").await.unwrap();
        assert_eq!(next(&mut body).await.unwrap(), "more");
        tokio::time::pause();
    }
    let began = Instant::now();
    next(&mut body).await.unwrap_err();
    assert_eq!(began.elapsed().as_secs(), LIMIT.as_secs(), "the whole limit, whatever was waited before");
    assert_eq!(ear.heard(), (0, 1));
}

#[tokio::test]
async fn a_reader_that_pauses_is_not_the_servers_stall() {
    let (stream, server) = pair().await;
    let stream = stream.into_std().unwrap();
    // Sees what has arrived without taking it.
    let witness = stream.try_clone().unwrap();
    let ends = (TcpStream::from_std(stream).unwrap(), server);
    let (mut body, mut server, ear) = half_read_on(ends, Body::empty(), HALVES[0], Some(LIMIT)).await;
    advance(LIMIT * 3).await;
    assert!(timeout(ALMOST, next(&mut body)).await.is_err(), "the wait begins when the reader asks");
    // What arrived while nobody asked counts, however late it is looked at.
    tokio::time::resume();
    server.write_all(b"half").await.unwrap();
    while !matches!(witness.peek(&mut [0; 4]), Ok(4)) {
        sleep(Duration::from_millis(1)).await;
    }
    tokio::time::pause();
    advance(LIMIT * 3).await;
    tokio::time::resume();
    assert_eq!(next(&mut body).await.unwrap(), "half");
    assert!(body.frame().await.is_none());
    assert_eq!(ear.heard(), (1, 0));
}

/// A body of so many pieces, one at each half of the limit.
struct Upload {
    pieces: u32,
    next: Pin<Box<Sleep>>,
}

impl http_body::Body for Upload {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        if self.pieces == 0 {
            return Poll::Ready(None);
        }
        ready!(self.next.as_mut().poll(cx));
        self.pieces -= 1;
        self.next.as_mut().reset(Instant::now() + LIMIT / 2);
        Poll::Ready(Some(Ok(Frame::data("piece".into()))))
    }
}

#[tokio::test]
async fn a_server_that_still_takes_the_request_has_not_stalled() {
    // Its first piece comes when the head of the response is there.
    let upload = Upload { pieces: 10, next: Box::pin(sleep(LIMIT / 2)) };
    let (mut body, _server, ear) = half_read_of(Body::streaming(upload), HALVES[1], Some(LIMIT)).await;
    let began = Instant::now();
    next(&mut body).await.unwrap_err();
    let waited = began.elapsed();
    assert!(waited >= LIMIT * 6, "the whole upload and the limit: {waited:?}");
    assert!(waited <= LIMIT * 8, "and not for ever: {waited:?}");
    assert_eq!(ear.heard(), (0, 1));
}

#[tokio::test]
async fn without_a_limit_a_reader_waits() {
    let (mut body, _server, ear) = half_read(HALVES[0], None).await;
    assert!(timeout(LIMIT * 1000, next(&mut body)).await.is_err());
    assert_eq!(ear.heard(), (0, 0));
}
