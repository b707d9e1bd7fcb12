//! Objects that are begun and not finished, that are not what they say, and that nobody has.

use bytes::Bytes;
use oap::{Data, Get, Message, Start};
use types::ObjectId;

use super::ground::Ground;

#[test]
fn offers_that_are_never_finished_take_no_memory() {
    Ground::start("objects = { patience = \"60s\" }\n").endure(|liar, _, number| {
        let stream = u32::try_from(number % 4096).unwrap() * 2 + 1;
        let (id, len) = (ObjectId::new([7; 32]), 1 << 30);
        let begun = liar.say_on(stream, Message::Start(Start::Put { id, len }));
        let half = Data { object_len: len, offset: 0, proof: Bytes::new(), body: vec![7; 16_384].into() };
        let said = begun && (number % 3 == 0 || liar.say_on(stream, Message::Data(half)));
        // Each offer is looked at: a flood of bytes would only be a test of the machine.
        if number % 3 != 0 {
            liar.wait_for_words();
        }
        said && number % 4096 != 4095
    });
}

#[test]
fn objects_that_are_not_what_they_say_reset_their_stream_alone() {
    Ground::start("").endure(|liar, _, number| {
        let stream = u32::try_from(number % 4096).unwrap() * 2 + 1;
        let (id, len) = (ObjectId::new([7; 32]), 20_000);
        let start = match number % 3 {
            0 => Start::Put { id, len },
            1 => Start::Get(Get { id, offset: u64::MAX, len: u64::MAX, tail: true }),
            _ => Start::Put { id, len: 0 },
        };
        let lie =
            Data { object_len: len, offset: 0, proof: vec![7; 64].into(), body: vec![7; 16_384].into() };
        let said = liar.say_on(stream, Message::Start(start));
        let said = said && (number % 3 == 1 || liar.say_on(stream, Message::Data(lie)));
        liar.wait_for_words();
        said && number % 4096 != 4095
    });
}
