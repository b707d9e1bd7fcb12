//! Frames that cannot be, and good ones at the wrong time.

use oap::{Frame, Message};

use super::ground::Ground;

/// A frame of these bytes, with any length before it.
fn raw(length: u32, kind: u8, header: u16, rest: &[u8]) -> Vec<u8> {
    let mut frame = length.to_be_bytes().to_vec();
    frame.extend([kind, 0]);
    frame.extend(header.to_be_bytes());
    frame.extend([0; 4]);
    frame.extend(rest);
    frame
}

#[test]
fn frames_of_every_wrong_length_end_one_session_each() {
    const MAX: u32 = oap::FRAME_MAX;
    Ground::start("").endure(|liar, _, number| {
        let frame = match number % 12 {
            0 => raw(0, 8, 8, &[0; 8]),
            1 => raw(7, 8, 8, &[0; 8]),
            2 => raw(8, 8, 0, &[]),
            3 => raw(MAX + 1, 16, 8, &[0; 64]),
            // Announced as long as may be, and never sent.
            4 => raw(MAX, 16, 8, &[0; 64]),
            5 => raw(MAX - 1, 17, u16::MAX, &vec![0; 70_000]),
            6 => raw(u32::MAX, 1, 0, &[]),
            7 => raw(16, 8, 9, &[0; 8]),
            8 => raw(16, 8, 7, &[0; 8]),
            9 => raw(17, 8, 8, &[0; 9]),
            10 => raw(12, 99, 0, &[0; 4]),
            _ => raw(16, 16, 8, &[0; 8]),
        };
        // What the session makes of it is said or not; the next lie begins anew.
        let _ = liar.write(&frame) && liar.write(&[0; 64]);
        false
    });
}

#[test]
fn good_frames_at_the_wrong_time_end_one_session_each() {
    Ground::start("").endure(|liar, _, number| {
        let said = match number % 6 {
            // A second introduction.
            0 => liar.write(&raw(8 + 58, 1, 58, &[0; 58])),
            1 => liar.say_on(1, Message::End),
            2 => liar.say_on(2, Message::Ack { credit: 1 }),
            3 => liar.say_on(7, Message::Ack { credit: u32::MAX }),
            4 => liar.write(&Frame::on(1, Message::End).to_bytes().unwrap()[..6]),
            _ => liar.say_on(9, Message::End),
        };
        said && number % 4 == 3
    });
}
