//! Who may say what, and when: HELLO, streams, credit, going away.
#![expect(clippy::unwrap_used, reason = "tests")]

use crate::support::{NODE, OTHER, answer, hello};
use oap::{
    CREDIT_FLOOR, CREDIT_MAX, Data, ErrorCode, FRAME_FLOOR, Fault, Features, Frame, Get, Goaway, Hello,
    Incoming, Message, OpenError, SendError, Session, Side, Start,
};
use proptest::prelude::*;
use types::ObjectId;

fn object() -> Vec<u8> {
    vec![7; 100_000]
}

fn get() -> Get {
    let id = ObjectId::new(*blake3::hash(&object()).as_bytes());
    Get { id, offset: 0, len: u64::MAX, tail: false }
}

fn put() -> Start {
    Start::Put { id: get().id, len: 100_000 }
}

fn data() -> Data {
    answer(&object(), &get()).remove(0)
}

/// Both ends of a connection after their HELLOs.
fn pair() -> (Session, Session) {
    pair_of(hello(NODE), hello(OTHER))
}

fn pair_of(ours: Hello, theirs: Hello) -> (Session, Session) {
    let mut dialer = Session::new(Side::Dialer, ours);
    let mut acceptor = Session::new(Side::Acceptor, theirs);
    acceptor.receive(dialer.hello()).unwrap();
    dialer.receive(acceptor.hello()).unwrap();
    (dialer, acceptor)
}

fn open(opener: &mut Session, start: Start) -> (u32, Frame) {
    let stream = opener.streams().unwrap().open(&start).unwrap();
    (stream, Frame::on(stream, Message::Start(start)))
}

fn code(verdict: Result<Incoming, oap::Violation>) -> ErrorCode {
    verdict.expect_err("breaks a rule").code
}

#[test]
fn both_introduce_themselves_and_agree_on_the_lesser() {
    let ours =
        Hello { version: 9, max_frame: FRAME_FLOOR, features: Features::from_bits(0xff), ..hello(NODE) };
    let theirs = Hello { credit: CREDIT_FLOOR, max_streams: 9, features: Features::CRC32C, ..hello(OTHER) };
    let (dialer, acceptor) = pair_of(ours, theirs);
    let (ours, theirs) = (dialer.agreed().unwrap(), acceptor.agreed().unwrap());
    assert_eq!((ours.version, ours.features, ours.max_frame), (1, Features::CRC32C, FRAME_FLOOR));
    assert_eq!((theirs.version, theirs.features, theirs.max_frame), (1, Features::CRC32C, FRAME_FLOOR));
    assert_eq!((ours.send_credit, theirs.receive_credit), (CREDIT_FLOOR, CREDIT_FLOOR));
    assert_eq!((ours.our_streams, theirs.their_streams), (9, 9));
    assert!(ours.has_checksums() && theirs.has_checksums());
    assert_eq!((dialer.peer(), acceptor.peer()), (Some(OTHER), Some(NODE)));
}

#[test]
fn hellos_with_nothing_in_common_are_refused() {
    let table = [
        (Hello { max_frame: FRAME_FLOOR - 1, ..hello(OTHER) }, ErrorCode::Limit),
        (Hello { credit: CREDIT_FLOOR - 1, ..hello(OTHER) }, ErrorCode::Limit),
        (Hello { credit: CREDIT_MAX + 1, ..hello(OTHER) }, ErrorCode::Limit),
        (hello(NODE), ErrorCode::Duplicate),
    ];
    for (theirs, expected) in table {
        let mut session = Session::new(Side::Acceptor, hello(NODE));
        assert_eq!(code(session.receive(Frame::connection(Message::Hello(theirs)))), expected);
        assert!(session.agreed().is_none() && session.streams().is_none());
    }
}

#[test]
fn nothing_comes_before_hello_and_hello_comes_once() {
    for (name, frame) in crate::support::examples() {
        let mut session = Session::new(Side::Acceptor, hello(OTHER));
        let verdict = session.receive(frame.clone());
        match name {
            "hello" | "hello-token" => {
                assert!(matches!(verdict, Ok(Incoming::Hello(_))));
                assert_eq!(code(session.receive(frame)), ErrorCode::OutOfOrder, "a second one");
            }
            "error" => assert!(matches!(verdict, Ok(Incoming::Fault(_))), "says why there is no HELLO"),
            _ => assert_eq!(code(verdict), ErrorCode::OutOfOrder, "{name}"),
        }
    }
}

#[test]
fn an_object_is_asked_for_and_sent() {
    let (mut asks, mut has) = pair();
    let (stream, start) = open(&mut asks, Start::Get(get()));
    assert_eq!(stream, 1);
    assert_eq!(has.receive(start), Ok(Incoming::Start { stream, start: Start::Get(get()) }));
    for data in answer(&object(), &get()) {
        has.streams().unwrap().send_data(stream, data.cost()).unwrap();
        let frame = Frame::on(stream, Message::Data(data.clone()));
        assert_eq!(asks.receive(frame), Ok(Incoming::Data { stream, data }));
    }
    has.streams().unwrap().send_end(stream).unwrap();
    assert!(has.streams().unwrap().is_empty());
    assert_eq!(asks.receive(Frame::on(stream, Message::End)), Ok(Incoming::End { stream }));
    assert!(asks.streams().unwrap().is_empty());
    let late = Frame::on(stream, Message::Ack { credit: 9 });
    assert_eq!(has.receive(late), Ok(Incoming::Late), "it was on its way");
}

#[test]
fn an_offered_object_is_stored_when_its_receiver_says_so() {
    let (mut dials, mut accepts) = pair();
    let (stream, start) = open(&mut accepts, put());
    assert_eq!(stream, 2, "of the acceptor");
    dials.receive(start).unwrap();
    let streams = accepts.streams().unwrap();
    streams.send_data(stream, data().cost()).unwrap();
    streams.send_end(stream).unwrap();
    assert_eq!(streams.send_data(stream, 1), Err(SendError::Direction), "after the end");
    assert_eq!(accepts.receive(Frame::on(stream, Message::Ack { credit: 9 })), Ok(Incoming::Late));
    dials.receive(Frame::on(stream, Message::Data(data()))).unwrap();
    assert_eq!(dials.streams().unwrap().send_end(stream), Err(SendError::Direction), "not before theirs");
    assert_eq!(dials.receive(Frame::on(stream, Message::End)), Ok(Incoming::End { stream }));
    assert_eq!(code(dials.receive(Frame::on(stream, Message::Data(data())))), ErrorCode::OutOfOrder);
    dials.streams().unwrap().send_end(stream).unwrap();
    assert_eq!(accepts.receive(Frame::on(stream, Message::End)), Ok(Incoming::End { stream }));
    assert!(accepts.streams().unwrap().is_empty() && dials.streams().unwrap().is_empty());
}

#[test]
fn what_does_not_belong_to_a_streams_state_breaks_the_rules() {
    let cases: [(Start, Message); 6] = [
        (Start::Get(get()), Message::Data(data())),
        (Start::Get(get()), Message::End),
        (put(), Message::Ack { credit: 1 }),
        (put(), Message::Start(put())),
        (Start::Get(get()), Message::Start(put())),
        (Start::Get(get()), Message::Ack { credit: CREDIT_MAX }),
    ];
    for (start, message) in cases {
        let (mut opener, mut other) = pair();
        let (stream, frame) = open(&mut opener, start);
        other.receive(frame).unwrap();
        let verdict = code(other.receive(Frame::on(stream, message.clone())));
        let expected = if matches!(message, Message::Ack { credit: CREDIT_MAX }) {
            ErrorCode::Limit
        } else {
            ErrorCode::OutOfOrder
        };
        assert_eq!(verdict, expected, "{message:?} after {start:?}");
    }
}

#[test]
fn a_stream_that_was_never_opened_is_not_spoken_on() {
    for stream in [1, 2, 7, u32::MAX] {
        let (mut dialer, _) = pair();
        let fault = Message::Error(Fault::new(ErrorCode::Cancelled, ""));
        for message in [Message::Data(data()), Message::End, Message::Ack { credit: 1 }, fault] {
            assert_eq!(code(dialer.receive(Frame::on(stream, message))), ErrorCode::OutOfOrder, "{stream}");
        }
    }
    let (mut dialer, _) = pair();
    assert_eq!(
        code(dialer.receive(Frame::on(1, Message::Start(put())))),
        ErrorCode::OutOfOrder,
        "one of ours"
    );
}

#[test]
fn numbers_of_streams_only_grow() {
    let (_, mut acceptor) = pair();
    acceptor.receive(Frame::on(5, Message::Start(put()))).unwrap();
    for used in [3, 5] {
        assert_eq!(code(acceptor.receive(Frame::on(used, Message::Start(put())))), ErrorCode::OutOfOrder);
    }
    assert!(matches!(acceptor.receive(Frame::on(7, Message::Start(put()))), Ok(Incoming::Start { .. })));
    assert_eq!(acceptor.receive(Frame::on(3, Message::End)), Ok(Incoming::Late), "passed over is closed");
}

#[test]
fn no_more_streams_are_open_than_the_other_side_allows() {
    let (mut dialer, mut acceptor) = pair();
    for _ in 0..4 {
        let (_, frame) = open(&mut dialer, put());
        assert!(matches!(acceptor.receive(frame), Ok(Incoming::Start { .. })));
    }
    assert_eq!(dialer.streams().unwrap().open(&put()), Err(OpenError::Full));
    let refused = acceptor.receive(Frame::on(9, Message::Start(put())));
    assert_eq!(
        refused,
        Ok(Incoming::Refuse { stream: 9, code: ErrorCode::Limit }),
        "the stream, not the connection"
    );
    assert!(acceptor.streams().unwrap().reset(3));
    let again = acceptor.receive(Frame::on(11, Message::Start(put())));
    assert!(matches!(again, Ok(Incoming::Start { .. })));
    assert_eq!(acceptor.streams().unwrap().len(), 4);
}

#[test]
fn who_has_no_objects_is_not_asked() {
    let (mut dialer, mut acceptor) = pair_of(hello(NODE), Hello { features: Features::NONE, ..hello(OTHER) });
    assert_eq!(dialer.streams().unwrap().open(&put()), Err(OpenError::NoObjects));
    let refused = acceptor.receive(Frame::on(1, Message::Start(put())));
    assert_eq!(refused, Ok(Incoming::Refuse { stream: 1, code: ErrorCode::Forbidden }));
}

#[test]
fn data_keeps_within_its_credit_and_what_is_used_is_given_back() {
    let (mut sender, mut receiver) = pair();
    let (stream, start) = open(&mut sender, put());
    receiver.receive(start).unwrap();
    let cost = data().cost();
    let credit = u64::from(hello(OTHER).credit);
    let mut sent = 0;
    while sender.streams().unwrap().send_data(stream, cost).is_ok() {
        sent += cost;
        receiver.receive(Frame::on(stream, Message::Data(data()))).unwrap();
    }
    assert_eq!((sent, credit - sent < cost), (credit / cost * cost, true));
    assert_eq!(sender.streams().unwrap().send_data(stream, cost), Err(SendError::Credit));
    assert_eq!(sender.streams().unwrap().sendable(stream), Some(credit - sent));
    let streams = receiver.streams().unwrap();
    assert_eq!(streams.used(stream, credit / 2 - 1), None, "not worth an ACK");
    let given = streams.used(stream, 1).unwrap();
    assert_eq!(u64::from(given), credit / 2);
    sender.receive(Frame::on(stream, Message::Ack { credit: given })).unwrap();
    assert_eq!(sender.streams().unwrap().sendable(stream), Some(credit - sent + credit / 2));
    let (_, mut greedy) = pair();
    greedy.receive(Frame::on(1, Message::Start(put()))).unwrap();
    let mut verdicts = (0..10).map(|_| greedy.receive(Frame::on(1, Message::Data(data()))));
    let broken = verdicts.find_map(Result::err).unwrap();
    assert_eq!((broken.code, broken.fault().code), (ErrorCode::Limit, ErrorCode::Limit));
}

#[test]
fn an_error_closes_its_stream_and_no_other() {
    let (mut dialer, mut acceptor) = pair();
    let (first, start) = open(&mut dialer, put());
    acceptor.receive(start).unwrap();
    let (second, start) = open(&mut dialer, put());
    acceptor.receive(start).unwrap();
    let fault = Fault::new(ErrorCode::TooLarge, "");
    assert!(acceptor.streams().unwrap().reset(first));
    let reset = dialer.receive(Frame::on(first, Message::Error(fault.clone())));
    assert_eq!(reset, Ok(Incoming::Reset { stream: first, fault: fault.clone() }));
    assert_eq!(dialer.streams().unwrap().send_data(first, 1), Err(SendError::Closed));
    assert!(dialer.streams().unwrap().send_data(second, 1).is_ok());
    assert_eq!(acceptor.receive(Frame::on(first, Message::Data(data()))), Ok(Incoming::Late));
    assert_eq!(acceptor.receive(Frame::on(first, Message::Error(fault))), Ok(Incoming::Late), "both at once");
}

#[test]
fn who_goes_away_finishes_what_it_has_and_takes_nothing_new() {
    let (mut dialer, mut acceptor) = pair();
    let (first, start) = open(&mut dialer, put());
    acceptor.receive(start).unwrap();
    let last = acceptor.streams().unwrap().goaway();
    let (second, start) = open(&mut dialer, put());
    let refused = acceptor.receive(start);
    assert_eq!(refused, Ok(Incoming::Refuse { stream: second, code: ErrorCode::Draining }));
    assert_eq!((last, acceptor.streams().unwrap().goaway()), (first, first), "said twice, it is the same");
    let goaway = Goaway::new(ErrorCode::Draining, last, "");
    let told = dialer.receive(Frame::connection(Message::Goaway(goaway.clone())));
    assert_eq!(told, Ok(Incoming::Goaway { goaway, closed: vec![second] }));
    assert_eq!(dialer.streams().unwrap().open(&put()), Err(OpenError::Goaway));
    assert!(dialer.streams().unwrap().is_open(first));
}

proptest! {
    /// Whatever the other side says, the streams stay within what was agreed and nothing panics.
    #[test]
    fn no_sequence_of_frames_opens_more_than_was_agreed(
        steps in prop::collection::vec((0..8_u32, 0..6_usize, any::<bool>()), 0..200),
    ) {
        let (mut session, _) = pair();
        for (stream, what, is_ours) in steps {
            let message = match what {
                0 => Message::Start(put()),
                1 => Message::Start(Start::Get(get())),
                2 => Message::Data(data()),
                3 => Message::End,
                4 => Message::Ack { credit: 1000 },
                _ => Message::Error(Fault::new(ErrorCode::Cancelled, "")),
            };
            if is_ours {
                let _ = session.streams().unwrap().open(&put());
            }
            let _ = session.receive(Frame { stream, message });
            let streams = session.streams().unwrap();
            prop_assert!(streams.len() <= 8);
            prop_assert!((0..8).all(|stream| streams.sendable(stream).unwrap_or_default() <= CREDIT_MAX.into()));
        }
    }
}
