//! HTTP/2 as honest clients speak it: without TLS and over TLS, many streams at once, slow ones, drains.

use std::{sync::Arc, time::Duration};

use crate::serve_support::{
    Node, SHORT, client,
    client::Client,
    eventually,
    frames::{self, Raw},
    h2_client::H2Client,
    patient, pattern,
    tls::Identity,
    with_growing_time,
};
use ron_transport::serve::HttpLimits;
use tokio::{
    net::TcpStream,
    task::JoinSet,
    time::{sleep, timeout},
};
use types::Reason;

const BIG: usize = 5 * 1024 * 1024;

#[tokio::test]
async fn http2_is_spoken_in_the_clear() {
    let node = Node::start(patient());
    let client = H2Client::new(node.tcp().await).await;
    speak(&node, client).await;
    node.stop().await;
}

#[tokio::test]
async fn http2_is_spoken_over_tls_to_those_who_ask() {
    let identity = Identity::new();
    let node = Node::start_tls(patient(), identity.server.clone());
    let stream = identity.wrap(node.tcp().await, &["h2", "http/1.1"]).await;
    assert_eq!(stream.alpn(), Some(&b"h2"[..]));
    speak(&node, H2Client::new(stream).await).await;
    node.stop().await;
}

async fn speak(node: &Node, client: H2Client) {
    assert_eq!(client.get("/").await.body, b"hello");
    assert!(client.get(&format!("/whole/{BIG}")).await.body == pattern(BIG));
    assert!(client.get(&format!("/stream/{BIG}")).await.body == pattern(BIG));
    assert_eq!(client.get("/empty").await.body, b"");
    assert_eq!(client.post("/length", pattern(BIG)).await.body, BIG.to_string().into_bytes());
    assert!(client.post("/echo", pattern(BIG)).await.body == pattern(BIG));
    let refused = client.get("/busy").await;
    assert_eq!(refused.status, 429);
    assert!(String::from_utf8(refused.body).unwrap().contains("busy"));
    assert_eq!(node.rejected(Reason::Busy), 1);
    client.end().await.expect("an end in good order");
    node.all_gone().await;
}

#[tokio::test]
async fn head_is_answered_with_the_length_and_no_body() {
    let node = Node::start(patient());
    let client = H2Client::new(node.tcp().await).await;
    for (path, status, length) in [("/whole/1234", 200, Some("1234")), ("/stream/1234", 200, None)] {
        let answer = client.ask("HEAD", path, Vec::new()).await.unwrap();
        assert_eq!((answer.status, answer.length.as_deref()), (status, length));
        assert_eq!(answer.body, b"");
    }
    let refused = client.ask("HEAD", "/busy", Vec::new()).await.unwrap();
    assert_eq!((refused.status, refused.body), (429, Vec::new()));
    client.end().await.unwrap();
    node.stop().await;
}

#[tokio::test]
async fn streams_run_side_by_side() {
    let node = Node::start(patient());
    let client = Arc::new(H2Client::new(node.tcp().await).await);
    let mut asking = JoinSet::new();
    for _ in 0..100 {
        let client = Arc::clone(&client);
        spawn(&mut asking, async move { client.get("/held").await });
    }
    node.desk.has_begun(100).await;
    assert_eq!((node.live("connection"), node.live("h2_stream")), (1, 100));
    assert_eq!(client.get("/").await.body, b"hello", "one more overtakes them all");
    node.desk.let_go(100);
    for answer in asking.join_all().await {
        assert_eq!(answer.body, b"held");
    }
    drop(client);
    node.all_gone().await;
    node.stop().await;
}

#[expect(clippy::disallowed_methods, reason = "a test's clients run beside it")]
fn spawn<T: Send + 'static>(set: &mut JoinSet<T>, work: impl Future<Output = T> + Send + 'static) {
    set.spawn(work);
}

#[tokio::test]
async fn no_more_streams_are_served_at_once_than_the_limit_allows() {
    let limits = HttpLimits { h2_streams: 3, ..patient() };
    let node = Node::start(limits);
    let mut raw = Raw(node.tcp().await);
    raw.send(&frames::hello(&[])).await.unwrap();
    for stream in [1, 3, 5, 7] {
        raw.send(&frames::get_frame(stream, "/held")).await.unwrap();
    }
    let reset = raw.until(frames::RST_STREAM).await.unwrap();
    assert_eq!((reset.stream, &reset.payload[..]), (7, &[0, 0, 0, 7][..]), "REFUSED_STREAM");
    node.desk.has_begun(3).await;
    assert_eq!((node.desk.begun(), node.live("h2_stream")), (3, 3));
    // One ends, and another one may begin.
    node.desk.let_go(1);
    eventually("a stream ends", || node.live("h2_stream") == 2).await;
    raw.until(frames::DATA).await.unwrap();
    raw.send(&frames::get_frame(9, "/held")).await.unwrap();
    node.desk.has_begun(4).await;
    drop(raw);
    eventually("the rest is given up", || node.desk.dropped() == 3).await;
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn a_client_that_pings_between_requests_has_no_late_head() {
    with_growing_time(|time| async move {
        let limits = HttpLimits { read_timeout: time / 2, ..patient() };
        let node = Node::start(limits);
        let mut raw = Raw(node.tcp().await);
        raw.send(&frames::hello(&[])).await.unwrap();
        for stream in [1, 3, 5] {
            raw.send(&frames::get_frame(stream, "/")).await.unwrap();
            raw.until(frames::DATA).await.unwrap();
            let window = frames::frame(frames::WINDOW_UPDATE, 0, 0, &5_u32.to_be_bytes());
            raw.send(&window).await.unwrap();
            raw.send(&frames::frame(frames::PING, 0, 0, &[7; 8])).await.unwrap();
            sleep(time).await;
        }
        assert_eq!((node.timeouts("read"), node.rejected(Reason::RequestTimeout)), (0, 0));
        drop(raw);
        node.all_gone().await;
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn an_idle_client_is_told_goodbye_even_if_it_pings() {
    let identity = Identity::new();
    let limits = HttpLimits { idle_timeout: SHORT, ..patient() };
    let node = Node::start_tls(limits, identity.server.clone());
    let (reading, writing) = tokio::io::split(identity.wrap(node.tcp().await, &["h2"]).await);
    let mut speaker = Raw(tokio::io::join(tokio::io::empty(), writing));
    speaker.send(&[frames::hello(&[]), frames::get_frame(1, "/")].concat()).await.unwrap();
    let asked = std::sync::Mutex::new(Vec::new());
    let listening = async {
        let mut listener = Raw(tokio::io::join(reading, tokio::io::sink()));
        let mut goodbye = false;
        while let Some(frame) = listener.next().await {
            goodbye |= frame.kind == frames::GOAWAY;
            if frame.kind == frames::PING && frame.flags & frames::ACK == 0 {
                asked.lock().unwrap().push(frame.payload);
            }
        }
        goodbye
    };
    let speaking = async {
        loop {
            let answers: Vec<_> = std::mem::take(&mut *asked.lock().unwrap());
            for payload in answers {
                let _ = speaker.send(&frames::frame(frames::PING, frames::ACK, 0, &payload)).await;
            }
            let _ = speaker.send(&frames::frame(frames::PING, 0, 0, &[7; 8])).await;
            sleep(Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        goodbye = listening => assert!(goodbye, "a GOAWAY comes before the end"),
        () = speaking => {}
    }
    drop(speaker);
    node.all_gone().await;
    assert_eq!((node.timeouts("read"), node.timeouts("write")), (0, 0));
    node.stop().await;
}

/// A client with no window for responses, that otherwise keeps talking until it is cut.
async fn gives_no_room(node: &Node, path: &str, window: u32) {
    let mut raw = Raw(node.tcp().await);
    raw.send(&frames::hello(&[(4, window)])).await.unwrap();
    raw.send(&frames::get_frame(1, path)).await.unwrap();
    let mut alive = true;
    while alive {
        let _ = raw.send(&frames::frame(frames::PING, 0, 0, &[7; 8])).await;
        while let Ok(next) = timeout(Duration::from_millis(10), raw.next()).await {
            alive = next.is_some();
            if !alive {
                break;
            }
        }
    }
}

#[tokio::test]
async fn a_client_that_gives_no_room_for_its_response_is_cut() {
    let limits = HttpLimits { write_timeout: SHORT, ..patient() };
    let node = Node::start(limits);
    let cases = [("/whole/100", 0), ("/stream/100", 0), ("/whole/200000", 1), ("/stream/200000", 1)];
    for (number, (path, window)) in (1..).zip(cases) {
        gives_no_room(&node, path, window).await;
        node.all_gone().await;
        assert_eq!(node.timeouts("write"), number, "{path} into a window of {window}");
    }
    assert_eq!(node.timeouts("read"), 0);
    node.stop().await;
}

#[tokio::test]
async fn a_body_that_stops_is_answered_408_and_one_that_moves_is_not() {
    with_growing_time(|time| async move {
        let limits = HttpLimits { read_timeout: time, ..patient() };
        let node = Node::start(limits);
        for moving in [true, false] {
            let mut raw = Raw(node.tcp().await);
            raw.send(&frames::hello(&[])).await.unwrap();
            let head = frames::block(&[
                (":method", "POST"),
                (":scheme", "http"),
                (":authority", "t"),
                (":path", "/length"),
            ]);
            raw.send(&frames::frame(frames::HEADERS, frames::END_HEADERS, 1, &head)).await.unwrap();
            for _ in 0..6 {
                raw.send(&frames::frame(frames::DATA, 0, 1, b"x")).await.unwrap();
                sleep(time / 3).await;
            }
            if moving {
                raw.send(&frames::frame(frames::DATA, frames::END_STREAM, 1, b"")).await.unwrap();
                assert_eq!(raw.until(frames::DATA).await.unwrap().payload, b"6");
            } else {
                let answer = String::from_utf8(raw.until(frames::DATA).await.unwrap().payload).unwrap();
                assert!(answer.contains("request_timeout"), "{answer}");
            }
            drop(raw);
            node.all_gone().await;
            assert_eq!(node.timeouts("read"), u64::from(!moving));
        }
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn who_agrees_on_http2_and_speaks_http1_is_closed() {
    let identity = Identity::new();
    let node = Node::start_tls(patient(), identity.server.clone());
    let mut client = Client::new(identity.wrap(node.tcp().await, &["h2"]).await);
    client.send(client::get("/")).await;
    assert_eq!(client.end().await, crate::serve_support::client::End::Fin);
    assert_eq!((node.rejected(Reason::Malformed), node.desk.begun()), (1, 0));
    node.stop().await;
}

#[tokio::test]
async fn a_stream_in_flight_is_finished_after_the_goodbye() {
    let identity = Identity::new();
    let (clear, encrypted) = (Node::start(patient()), Node::start_tls(patient(), identity.server.clone()));
    let secret = identity.wrap(encrypted.tcp().await, &["h2"]).await;
    let plain = H2Client::new(clear.tcp().await).await;
    finish(clear, plain).await;
    finish(encrypted, H2Client::new(secret).await).await;
}

async fn finish(node: Node, client: H2Client) {
    let client = Arc::new(client);
    let mut asking = JoinSet::new();
    let held = Arc::clone(&client);
    spawn(&mut asking, async move { held.get("/held").await });
    node.desk.has_begun(1).await;
    node.begin_stop();
    eventually("a goodbye", || node.scope.shutdown().is_draining()).await;
    // Once the goodbye has arrived, nothing new can begin on this connection.
    let refused = async { while client.ask("GET", "/", Vec::new()).await.is_ok() {} };
    timeout(crate::serve_support::PATIENCE, refused).await.unwrap();
    node.desk.let_go(1);
    assert_eq!(asking.join_next().await.unwrap().unwrap().body, b"held");
    let client = Arc::try_unwrap(client).ok().unwrap();
    client.ended().await.expect("an end in good order");
    node.stopped().await;
}

#[tokio::test]
async fn a_client_that_confirms_nothing_does_not_hold_a_drain_up() {
    let node = Node::start(patient());
    let mut raw: Raw<TcpStream> = Raw(node.tcp().await);
    raw.send(&frames::hello(&[])).await.unwrap();
    raw.send(&frames::get_frame(1, "/")).await.unwrap();
    node.desk.has_begun(1).await;
    node.begin_stop();
    node.stopped().await;
    let frames = raw.rest().await;
    assert!(frames.iter().any(|frame| frame.kind == frames::DATA), "it was answered");
    assert!(frames.iter().any(|frame| frame.kind == frames::GOAWAY), "and told goodbye");
}

#[tokio::test]
async fn a_client_that_takes_the_last_of_its_response_slowly_gets_it_from_a_stopping_node() {
    with_growing_time(|_| async move {
        let node = Node::start(patient());
        let mut raw = Raw(node.tcp().await);
        raw.send(&frames::hello(&[(4, 1000)])).await.unwrap();
        raw.send(&frames::get_frame(1, "/whole/5000")).await.unwrap();
        let mut body = raw.until(frames::DATA).await.unwrap().payload;
        node.begin_stop();
        while body.len() < 5000 {
            sleep(Duration::from_millis(100)).await;
            let room = frames::frame(frames::WINDOW_UPDATE, 0, 1, &1000_u32.to_be_bytes());
            raw.send(&room).await.unwrap();
            let more = raw.until(frames::DATA).await;
            body.extend(more.expect("the rest of the response").payload);
        }
        assert_eq!(body, pattern(5000));
        drop(raw);
        node.stopped().await;
    })
    .await;
}
