//! HTTP/2 as dishonest clients speak it: the connection ends, after little work, and others notice nothing.

use crate::serve_support::{
    Node, client, eventually,
    frames::{self, Raw},
    h2_client::H2Client,
    patient, with_growing_time,
};
use ron_transport::serve::HttpLimits;
use tokio::{io::AsyncWriteExt, net::TcpStream};
use types::Reason;

/// What an attacker got for its pains.
#[derive(Debug, Default)]
struct Loot {
    /// Frames it could send before the connection was ended.
    sent: usize,
    /// Whether it was told why.
    goaway: bool,
    /// Pings and settings the server confirmed.
    acks: usize,
}

/// Sends `frames` until the server ends the connection or they run out, and reads what comes.
async fn attack(stream: TcpStream, frames: impl Iterator<Item = Vec<u8>>) -> Loot {
    let (read, mut write) = stream.into_split();
    let mut loot = Loot::default();
    let mut raw = Raw(tokio::io::join(read, tokio::io::sink()));
    let sending = async {
        if write.write_all(&frames::hello(&[])).await.is_err() {
            return 0;
        }
        let mut sent = 0;
        for frame in frames {
            if write.write_all(&frame).await.is_err() {
                break;
            }
            sent += 1;
        }
        // Left open: only the server may end it.
        std::mem::forget(write);
        sent
    };
    let reading = async {
        let (mut goaway, mut acks) = (false, 0);
        while let Some(frame) = raw.next().await {
            goaway |= frame.kind == frames::GOAWAY;
            acks += usize::from(
                [frames::PING, frames::SETTINGS].contains(&frame.kind) && frame.flags & frames::ACK != 0,
            );
        }
        (goaway, acks)
    };
    (loot.sent, (loot.goaway, loot.acks)) = tokio::join!(sending, reading);
    loot
}

/// Runs an attack while an honest client asks one request after the other on the same core.
async fn beside_an_honest_client(limits: HttpLimits, frames: impl Iterator<Item = Vec<u8>>) -> (Node, Loot) {
    let node = Node::start_with(crate::serve_support::plan(limits), 1);
    let honest = H2Client::new(node.tcp().await).await;
    let mut simple = node.connect().await;
    let attacker = node.tcp().await;
    let mut attack = std::pin::pin!(attack(attacker, frames));
    let mut answered = 0;
    let loot = loop {
        let asking = async {
            assert_eq!(honest.get("/whole/1000").await.status, 200);
            assert_eq!(simple.get("/whole/1000").await.status, 200);
        };
        tokio::select! {
            biased;
            () = asking => answered += 1,
            loot = &mut attack => break loot,
        }
    };
    // The same connections go on afterwards.
    assert_eq!(honest.get("/").await.status, 200, "after {answered}");
    honest.end().await.unwrap();
    (node, loot)
}

/// The header block of a POST.
fn post(path: &str) -> Vec<u8> {
    frames::block(&[(":method", "POST"), (":scheme", "http"), (":authority", "t"), (":path", path)])
}

/// Ends a node whose attacker has been dealt with.
async fn aftermath(node: Node) {
    eventually("only the honest are left", || node.live("connection") <= 2).await;
    assert_eq!(node.rejected(Reason::Malformed), 1, "counted once");
    eventually("no stream is left", || node.live("h2_stream") == 0).await;
    node.stop().await;
}

#[tokio::test]
async fn streams_opened_and_reset_at_once_end_the_connection() {
    let reset = |stream: u32| {
        let mut both = frames::get_frame(stream, "/held");
        both.extend(frames::frame(frames::RST_STREAM, 0, stream, &8_u32.to_be_bytes()));
        both
    };
    let (node, loot) = beside_an_honest_client(patient(), (0..1_000_000).map(|i| reset(2 * i + 1))).await;
    assert!(loot.goaway, "{loot:?}");
    assert!(loot.sent < 1_000_000, "{loot:?}");
    let begun = node.desk.dropped();
    assert!(begun <= 1000, "the service was bothered {begun} times");
    aftermath(node).await;
}

#[tokio::test]
async fn headers_without_end_end_the_connection() {
    let open = frames::frame(frames::HEADERS, frames::END_STREAM, 1, &frames::get_block("/"));
    for junk in [vec![], frames::block(&[("x", "y")]), frames::block(&[("x", &"y".repeat(10_000))])] {
        let more = frames::frame(frames::CONTINUATION, 0, 1, &junk);
        let all = std::iter::once(open.clone()).chain(std::iter::repeat_n(more, 1_000_000));
        let (node, loot) = beside_an_honest_client(patient(), all).await;
        assert!(loot.goaway, "{loot:?}");
        // What the sockets hold may be on its way when the end comes.
        assert!(loot.sent < 1_000_000, "{loot:?}");
        aftermath(node).await;
    }
}

#[tokio::test]
async fn small_frames_that_nobody_reads_end_the_connection() {
    // The library counts 256 bytes for each, and half of the connection's window for all: 512 KiB / 2 / 256 = 1024.
    let limits = HttpLimits { h2_streams: 8, ..patient() };
    for (each, is_allowed) in [(127, true), (140, false)] {
        let node = Node::start(limits.clone());
        let mut raw = Raw(node.tcp().await);
        raw.send(&frames::hello(&[])).await.unwrap();
        let streams = || (0..8).map(|at| 2 * at + 1);
        for stream in streams() {
            raw.send(&frames::frame(frames::HEADERS, frames::END_HEADERS, stream, &post("/held")))
                .await
                .unwrap();
        }
        node.desk.has_begun(8).await;
        for stream in streams() {
            // The last ones may come after the end.
            let _ = raw.send(&frames::frame(frames::DATA, 0, stream, b"x").repeat(each)).await;
        }
        let _ = raw.send(&frames::frame(frames::PING, 0, 0, &[7; 8])).await;
        assert_eq!(raw.until(frames::PING).await.is_some(), is_allowed, "{each} on each stream");
        drop(raw);
        eventually("no stream is left", || node.live("h2_stream") == 0).await;
        node.stop().await;
    }
}

#[tokio::test]
async fn small_frames_that_are_read_may_be_any_number() {
    let node = Node::start(HttpLimits { h2_streams: 8, ..patient() });
    let mut raw = Raw(node.tcp().await);
    raw.send(&frames::hello(&[])).await.unwrap();
    raw.send(&frames::frame(frames::HEADERS, frames::END_HEADERS, 1, &post("/length"))).await.unwrap();
    for round in 0..100_u8 {
        raw.send(&frames::frame(frames::DATA, 0, 1, b"x").repeat(200)).await.unwrap();
        raw.send(&frames::frame(frames::PING, 0, 0, &[round; 8])).await.unwrap();
        while raw.until(frames::PING).await.unwrap().payload != [round; 8] {}
    }
    raw.send(&frames::frame(frames::DATA, frames::END_STREAM, 1, b"")).await.unwrap();
    assert_eq!(raw.until(frames::DATA).await.unwrap().payload, b"20000");
    node.stop().await;
}

#[tokio::test]
async fn pings_without_end_end_the_connection() {
    let ping = frames::frame(frames::PING, 0, 0, &[7; 8]);
    let thousand = ping.repeat(1000);
    let limits = HttpLimits { h2_streams: 8, ..patient() };
    // 1.5 MiB, by the windows of eight streams and a megabyte.
    let (node, loot) = beside_an_honest_client(limits, std::iter::repeat_n(thousand, 1000)).await;
    assert!(loot.sent < 1000, "{loot:?}");
    assert!(loot.acks <= 1_572_864 / 17, "{loot:?}");
    aftermath(node).await;
}

#[tokio::test]
async fn settings_without_end_end_the_connection() {
    let settings = frames::frame(frames::SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]).repeat(1000);
    let limits = HttpLimits { h2_streams: 8, ..patient() };
    let (node, loot) = beside_an_honest_client(limits, std::iter::repeat_n(settings, 1000)).await;
    assert!(loot.sent < 1000, "{loot:?}");
    assert!(loot.acks <= 1_572_864 / 15, "{loot:?}");
    aftermath(node).await;
}

#[tokio::test]
async fn pings_whose_answers_nobody_reads_end_the_connection() {
    let limits = HttpLimits { write_timeout: crate::serve_support::SHORT, h2_streams: 100_000, ..patient() };
    let node = Node::start(limits);
    let mut stream = node.tcp().await;
    stream.write_all(&frames::hello(&[])).await.unwrap();
    let pings = frames::frame(frames::PING, 0, 0, &[7; 8]).repeat(1000);
    let flood = async { while stream.write_all(&pings).await.is_ok() {} };
    tokio::time::timeout(crate::serve_support::PATIENCE, flood).await.unwrap();
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn an_oversized_header_list_is_refused_on_its_stream() {
    let limits = HttpLimits { max_head_bytes: 8 * 1024, ..patient() };
    let node = Node::start(limits);
    let mut raw = Raw(node.tcp().await);
    raw.send(&frames::hello(&[])).await.unwrap();
    let mut block = frames::get_block("/");
    block.extend(frames::block(&[("x", &"y".repeat(10_000))]));
    let head = frames::frame(frames::HEADERS, frames::END_STREAM | frames::END_HEADERS, 1, &block);
    raw.send(&head).await.unwrap();
    let answer = raw.until(frames::HEADERS).await.unwrap();
    // "431", plain or in the header compression's own code.
    let refused = |w: &[u8]| w == b"431" || w == [0x69, 0x90, 0xff];
    assert!(answer.payload.windows(3).any(refused), "{:x?}", answer.payload);
    assert_eq!(node.desk.begun(), 0, "it never reached the service");
    raw.send(&frames::get_frame(3, "/")).await.unwrap();
    assert_eq!(raw.until(frames::DATA).await.unwrap().payload, b"hello", "the connection goes on");
    drop(raw);
    node.stop().await;
}

#[tokio::test]
async fn nonsense_after_the_preface_ends_the_connection_with_a_reason() {
    let cases = [
        frames::frame(frames::DATA, 0, 1, b"for no stream"),
        frames::frame(frames::HEADERS, frames::END_HEADERS, 2, &frames::get_block("/")),
        frames::frame(frames::SETTINGS, 0, 0, &[1, 2, 3]),
        frames::frame(frames::WINDOW_UPDATE, 0, 0, &[0; 4]),
        frames::frame(frames::HEADERS, frames::END_HEADERS, 1, &[0xff; 40]),
        b"GET / HTTP/1.1\r\n\r\n".to_vec(),
    ];
    let node = Node::start(patient());
    for (number, case) in (1..).zip(cases) {
        let loot = attack(node.tcp().await, std::iter::once(case)).await;
        assert!(loot.goaway, "case {number}: {loot:?}");
        assert_eq!(node.rejected(Reason::Malformed), number);
    }
    assert_eq!(node.desk.begun(), 0);
    node.all_gone().await;
    node.stop().await;
}

#[tokio::test]
async fn a_preface_that_is_followed_by_nothing_is_idle_and_ends() {
    with_growing_time(|time| async move {
        let limits = HttpLimits { idle_timeout: time, write_timeout: time, ..patient() };
        let node = Node::start(limits);
        let loot = attack(node.tcp().await, std::iter::empty()).await;
        assert!(loot.goaway, "{loot:?}");
        node.all_gone().await;
        assert_eq!(node.rejected(Reason::Malformed), 0);
        node.stop().await;
    })
    .await;
}

#[tokio::test]
async fn a_connection_with_many_streams_lets_the_others_of_its_core_have_their_turns() {
    let node = Node::start_with(crate::serve_support::plan(patient()), 1);
    let mut floods = [Raw(node.tcp().await), Raw(node.tcp().await)];
    for flood in &mut floods {
        flood.send(&[frames::hello(&[]), frames::get_frame(1, "/")].concat()).await.unwrap();
        flood.until(frames::DATA).await.unwrap();
    }
    let (mut honest, mut blocking) = (node.connect().await, node.connect().await);
    assert_eq!(honest.get("/").await.status, 200);
    // Everything is there when the core goes on.
    blocking.send(client::get("/block-core")).await;
    node.desk.has_begun(4).await;
    for (flood, path) in floods.iter_mut().zip(["/order/one", "/order/two"]) {
        let burst: Vec<u8> = (1..=100).flat_map(|n| frames::get_frame(2 * n + 1, path)).collect();
        flood.send(&burst).await.unwrap();
    }
    honest.send(client::get("/order/honest")).await;
    node.desk.unblock_core();
    assert_eq!(honest.answer().await.text(), "in order");
    eventually("all are served", || node.desk.order().len() == 201).await;
    let order = node.desk.order();
    let first = |name: &str| order.iter().position(|begun| begun == name).unwrap();
    // Eight of each flood in a turn; which connection begins is the machine's choice.
    assert!(first("honest") <= 16 && first("one") <= 9 && first("two") <= 9, "{order:?}");
    drop((floods, honest, blocking));
    node.stop().await;
}
