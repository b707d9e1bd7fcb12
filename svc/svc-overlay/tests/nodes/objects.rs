//! Objects between nodes: found, read, handed over; and peers that lie, dawdle or ask for too much.

use std::time::Duration;

use bytes::Bytes;
use oap::{Checker, Data, ErrorCode, Features, Frame, Get, Hello, Message, Start};
use svc_overlay::{ObjectError, ObjectStore};
use types::ObjectId;

use crate::support::{Hand, Node, SOON, any_node, eventually, hello, plain};

fn content(len: usize) -> Vec<u8> {
    (0..len).map(|at| u8::try_from(at % 251).unwrap()).collect()
}

fn name(content: &[u8]) -> ObjectId {
    ObjectId::new(*blake3::hash(content).as_bytes())
}

fn run<T>(work: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async { tokio::time::timeout(SOON, work).await.expect("it takes too long") })
}

fn store(objects: &ObjectStore, content: &[u8]) -> ObjectId {
    run(async {
        let mut upload = objects.create().await.unwrap();
        for piece in content.chunks(100_000) {
            upload.write(Bytes::copy_from_slice(piece)).await.unwrap();
        }
        let (id, len) = upload.commit().await.unwrap();
        assert_eq!((id, len), (name(content), content.len() as u64));
        id
    })
}

async fn read(
    objects: &ObjectStore,
    id: ObjectId,
    range: std::ops::Range<u64>,
) -> Result<Vec<u8>, ObjectError> {
    let object = objects.open(id).await?.ok_or(ObjectError::NotFound)?;
    let mut reader = object.read(range).await?;
    let mut all = Vec::new();
    while let Some(piece) = reader.next().await? {
        all.extend(piece);
    }
    Ok(all)
}

/// Two nodes with a session.
fn pair() -> (Node, Node) {
    let a = Node::start(&plain(""));
    let b = Node::start(&plain(&format!("peers = [\"{}\"]", a.peer())));
    a.wait_for_peers(1);
    b.wait_for_peers(1);
    (a, b)
}

/// A peer in the test's hands that has to do with objects, after the HELLOs.
fn join(node: &Node, number: u64) -> Hand {
    let mut hand = Hand::connect(node.addr());
    let features = Features::OBJECTS;
    hand.say(Message::Hello(Hello { features, ..hello(any_node(number)) }));
    assert!(matches!(hand.hear(), Some(Message::Hello(_))));
    node.wait_for_peers(1);
    hand
}

fn say_on(hand: &mut Hand, stream: u32, message: Message) {
    say_at_once(hand, [(stream, message)]);
}

/// Says several things in one breath, so that no pause between them can be too long.
fn say_at_once<const N: usize>(hand: &mut Hand, messages: [(u32, Message); N]) {
    let encoded = messages.map(|(stream, message)| Frame::on(stream, message).to_bytes().unwrap());
    hand.write(&encoded.concat());
}

fn fault(hand: &mut Hand) -> ErrorCode {
    match hand.hear_one(|message| matches!(message, Message::Error(_))) {
        Message::Error(fault) => fault.code,
        other => panic!("{other:?}"),
    }
}

fn is_alive(hand: &mut Hand) {
    hand.say(Message::Ping(77));
    hand.hear_one(|message| *message == Message::Pong(77));
}

#[test]
fn an_object_of_a_peer_is_found_read_and_kept() {
    let (a, b) = pair();
    for len in [0, 1, 16_384, 70_000, 3_000_000] {
        let content = content(len);
        let id = store(&a.overlay.objects(), &content);
        let objects = b.overlay.objects();
        let found = run(objects.open(id)).unwrap().unwrap();
        assert_eq!((found.len(), found.is_here()), (len as u64, false));
        assert!(run(read(&objects, id, 0..len as u64)).unwrap() == content, "{len}");
        let kept = run(objects.open(id)).unwrap().unwrap();
        assert!(kept.is_here(), "what was read whole is stored here");
        assert!(run(read(&objects, id, 0..len as u64)).unwrap() == content, "{len}, from here");
    }
}

#[test]
fn objects_that_are_begun_count_against_the_store_and_the_peer() {
    let limits = "objects = { ram_bytes = \"1MiB\", patience = \"60s\" }";
    let node = Node::start(&plain(limits));
    let mut hand = join(&node, 1);
    let put = |len: u64| Message::Start(Start::Put { id: name(&len.to_be_bytes()), len });
    let kib = 1024;
    say_at_once(&mut hand, [(1, put(200 * kib)), (3, put(100 * kib))]);
    assert_eq!(fault(&mut hand), ErrorCode::Quota, "one peer has begun more than a quarter of the store");
    say_on(&mut hand, 5, put(900 * kib));
    assert_eq!(fault(&mut hand), ErrorCode::Busy, "together they would not fit it");
    say_on(&mut hand, 1, Message::Error(oap::Fault::new(ErrorCode::Cancelled, "")));
    let mut number = 7;
    eventually("what was given up leaves room", || {
        number += 2;
        say_on(&mut hand, number, put(900 * kib));
        !hand.hears_within(Duration::from_millis(300)) || fault(&mut hand) != ErrorCode::Busy
    });
    is_alive(&mut hand);
}

#[test]
fn a_part_of_an_object_is_read_without_the_rest() {
    let (a, b) = pair();
    let content = content(1_000_000);
    let id = store(&a.overlay.objects(), &content);
    let objects = b.overlay.objects();
    for range in [0..1, 999_999..1_000_000, 16_383..16_385, 100_000..600_000] {
        let part = run(read(&objects, id, range.clone())).unwrap();
        let (from, to) = (usize::try_from(range.start).unwrap(), usize::try_from(range.end).unwrap());
        assert!(part == content[from..to], "{range:?}");
    }
    assert_eq!(run(read(&objects, id, 5..1_000_001)), Err(ObjectError::Range));
    assert!(!run(objects.open(id)).unwrap().unwrap().is_here(), "parts are not kept");
    let received = b.metric("overlay_object_bytes_total{node=\"test\",service=\"overlay\",dir=\"rx\"}");
    assert!(received < 600_000, "{received} bytes of a million");
}

#[test]
fn an_object_is_handed_to_a_peer_and_outlives_its_giver() {
    let (a, b) = pair();
    let content = content(2_000_000);
    let id = store(&a.overlay.objects(), &content);
    let mut sent = Vec::new();
    let giver = a.overlay.objects();
    run(giver.offer(id, b.overlay.node(), |bytes| sent.push(bytes))).unwrap();
    assert!(sent.is_sorted() && sent.last() == Some(&2_000_000), "{sent:?}");
    drop(a);
    b.wait_for_peers(0);
    assert!(run(read(&b.overlay.objects(), id, 0..2_000_000)).unwrap() == content);
}

#[test]
fn what_nobody_has_is_not_found_and_cannot_be_offered() {
    let (a, b) = pair();
    let id = name(b"nobody has this");
    assert!(run(a.overlay.objects().open(id)).unwrap().is_none());
    assert_eq!(run(a.overlay.objects().offer(id, b.overlay.node(), |_| ())), Err(ObjectError::NotFound));
    let here = store(&a.overlay.objects(), b"here");
    let stranger = any_node(9);
    assert_eq!(run(a.overlay.objects().offer(here, stranger, |_| ())), Err(ObjectError::NoPeer(stranger)));
}

#[test]
fn a_peer_with_wrong_bytes_loses_its_stream_and_is_counted() {
    let node = Node::start(&plain(""));
    let mut liar = join(&node, 1);
    let wanted = name(b"the truth");
    let objects = node.overlay.objects();
    let asking = std::thread::spawn(move || run(objects.open(wanted)).map(|found| found.is_some()));
    assert!(matches!(liar.hear_one(|message| matches!(message, Message::Start(_))), Message::Start(_)));
    let lie = Data { object_len: 5, offset: 0, proof: Bytes::new(), body: Bytes::from_static(b"a lie") };
    say_on(&mut liar, 2, Message::Data(lie));
    assert_eq!(fault(&mut liar), ErrorCode::Mismatch);
    assert_eq!(asking.join().unwrap(), Err(ObjectError::Mismatch));
    eventually("it is counted", || node.rejects("mismatch") == 1);
    is_alive(&mut liar);
}

#[test]
fn what_is_offered_is_taken_if_it_is_what_it_says() {
    let node = Node::start(&plain("objects = { max_object_bytes = \"100KiB\", patience = \"3s\" }"));
    let mut hand = join(&node, 1);
    let put = |len| Message::Start(Start::Put { id: name(b"the truth"), len });
    let data = |body: &'static [u8]| {
        let body = Bytes::from_static(body);
        Message::Data(Data { object_len: 9, offset: 0, proof: Bytes::new(), body })
    };
    say_at_once(&mut hand, [(1, put(9)), (1, data(b"a lie, ok"))]);
    assert_eq!(fault(&mut hand), ErrorCode::Mismatch);
    say_on(&mut hand, 3, put(100 * 1024 + 1));
    assert_eq!(fault(&mut hand), ErrorCode::TooLarge);
    say_at_once(&mut hand, [(5, put(9)), (5, Message::End)]);
    assert_eq!(fault(&mut hand), ErrorCode::Mismatch, "the end before the bytes");
    let objects = node.overlay.objects();
    assert_eq!(
        run(read(&objects, name(b"the truth"), 0..9)).err(),
        Some(ObjectError::Silent),
        "nothing is kept"
    );
    say_at_once(&mut hand, [(7, put(9)), (7, data(b"the truth")), (7, Message::End)]);
    hand.hear_one(|message| *message == Message::End);
    assert_eq!(run(read(&objects, name(b"the truth"), 0..9)).unwrap(), b"the truth");
    eventually("both lies are counted", || node.rejects("mismatch") == 2);
}

#[test]
fn a_peer_asks_and_gets_what_proves_itself() {
    let node = Node::start(&plain(""));
    let content = content(40_000);
    let id = store(&node.overlay.objects(), &content);
    let mut hand = join(&node, 1);
    let get = Get { id, offset: 20_000, len: 10_000, tail: true };
    say_on(&mut hand, 1, Message::Start(Start::Get(get)));
    let (mut checker, mut received) = (Checker::of_get(get), Vec::new());
    loop {
        match hand.hear().unwrap() {
            Message::Data(data) => received.extend(checker.check(&data).unwrap()),
            Message::End => break,
            _ => {}
        }
    }
    assert_eq!((checker.finish(), checker.proven_len()), (Ok(()), Some(40_000)));
    assert!(received == content[20_000..30_000]);
    say_on(&mut hand, 3, Message::Start(Start::Get(Get { offset: 40_000, ..get })));
    assert_eq!(fault(&mut hand), ErrorCode::Range);
    say_on(&mut hand, 5, Message::Start(Start::Get(Get { id: name(b"?"), ..get })));
    assert_eq!(fault(&mut hand), ErrorCode::NotFound);
    is_alive(&mut hand);
}

#[test]
fn a_peer_without_credit_waits_holds_a_place_and_is_given_up() {
    let node = Node::start(&plain(
        "objects = { streams = 1, patience = \"300ms\" }\ngossip = { chunk_bytes = \"16KiB\" }",
    ));
    let id = store(&node.overlay.objects(), &content(1_000_000));
    let mut hand = join(&node, 1);
    let get = Get { id, offset: 0, len: u64::MAX, tail: false };
    let start = || Message::Start(Start::Get(get));
    say_at_once(&mut hand, [(1, start()), (3, start())]);
    assert_eq!(fault(&mut hand), ErrorCode::Busy, "the only place is taken");
    assert_eq!(fault(&mut hand), ErrorCode::Timeout, "no credit comes");
    // The place is free once that was said, but not necessarily before it is heard.
    let is_answer = |message: &Message| matches!(message, Message::Data(_) | Message::Error(_));
    let is_served = |stream: u32| {
        say_on(&mut hand, stream, start());
        matches!(hand.hear_one(is_answer), Message::Data(_))
    };
    assert!((5..).step_by(2).take(1000).any(is_served), "the place stays taken");
    is_alive(&mut hand);
}

#[test]
fn a_silent_peer_is_not_waited_for_longer_than_configured() {
    let node = Node::start(&plain("objects = { patience = \"200ms\" }"));
    let mut silent = join(&node, 1);
    let begun = std::time::Instant::now();
    assert_eq!(run(node.overlay.objects().open(name(b"?"))).err(), Some(ObjectError::Silent));
    assert!(begun.elapsed() >= Duration::from_millis(200));
    assert_eq!(fault(&mut silent), ErrorCode::Cancelled, "it is told that it is not wanted any more");
}

#[test]
fn a_session_that_ends_takes_its_streams_with_it() {
    let node = Node::start(&plain(""));
    let hand = join(&node, 1);
    let objects = node.overlay.objects();
    let asking = std::thread::spawn(move || run(objects.open(name(b"?"))).err());
    let mut hand = hand;
    hand.hear_one(|message| matches!(message, Message::Start(_)));
    drop(hand);
    assert_eq!(asking.join().unwrap(), Some(ObjectError::Broken));
    eventually("the session ends", || node.overlay.peers().is_empty());
}
