//! Uploads in DATA frames of one byte: what is kept of them is counted by its memory, not by its bytes alone.

use std::{io::Write, net::TcpStream};

use crate::{
    h2_frames::{ACK, DATA, END_HEADERS, HEADERS, PREFACE, SETTINGS, block, frame, read_frame},
    scripted_server,
    support::{Node, PATIENCE, to},
};

const PING: u8 = 6;
const STREAMS: u32 = 16;
/// Frames on each stream, of a body that is declared as long as is read ahead.
const FRAMES: usize = 20_000;
/// So many may wait for their reader without ending the connection.
const AT_ONCE: usize = 1000;

/// Sends frames and waits until the node has seen all of them.
fn send(client: &mut TcpStream, frames: &[u8]) {
    client.write_all(frames).unwrap();
    client.write_all(&frame(PING, 0, 0, &[0; 8])).unwrap();
    loop {
        let (kind, flags, ..) = read_frame(client).unwrap();
        if kind == PING && flags & ACK != 0 {
            return;
        }
    }
}

#[test]
fn a_body_in_tiny_frames_takes_little_more_memory_than_its_bytes() {
    let server = scripted_server::start(|_unread| Ok(()));
    let node = Node::start(&to(server));
    let mut client = TcpStream::connect_timeout(&node.gateway, PATIENCE).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.write_all(PREFACE).unwrap();
    send(&mut client, &[frame(SETTINGS, 0, 0, &[]), frame(SETTINGS, ACK, 0, &[])].concat());
    let before = node.resident_memory();
    for stream in (0..STREAMS).map(|at| 2 * at + 1) {
        // The last byte never comes, so the body is not passed on.
        let length = (FRAMES + 1).to_string();
        let head = [
            (":method", "POST"),
            (":scheme", "http"),
            (":authority", "a"),
            (":path", "/"),
            ("content-length", &length),
        ];
        send(&mut client, &frame(HEADERS, END_HEADERS, stream, &block(&head)));
        let batch = frame(DATA, 0, stream, b"x").repeat(AT_ONCE);
        for _ in 0..FRAMES / AT_ONCE {
            send(&mut client, &batch);
        }
    }
    let grown = node.peak_memory().saturating_sub(before);
    assert!(grown < 16 << 20, "{grown} bytes for {} bytes of bodies", STREAMS as usize * FRAMES);
}
