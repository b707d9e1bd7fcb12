//! An HTTP/2 server that floods the gateway with frames that carry nothing.

use crate::{
    h2_frames::{DATA, PING, PRIORITY, SETTINGS, WINDOW_UPDATE, frame},
    h2_server::{H2Server, ok},
    support::{Client, Node},
};

/// More than may come in as long as a test takes.
const MANY: usize = 600_000;

/// The status of a request whose answer begins, goes on with these frames many times, and ends.
fn status_after(idle: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> u16 {
    let server = H2Server::start(move |stream| [idle(stream).repeat(MANY), ok(stream, &[], true)].concat());
    let node = Node::start(&server.settings());
    Client::connect(node.gateway).unwrap().get("/").unwrap().status
}

#[test]
fn a_server_that_floods_with_window_updates_is_given_up() {
    assert_eq!(status_after(|_| frame(WINDOW_UPDATE, 0, 0, &[0, 0, 0, 1])), 502);
    assert_eq!(status_after(|stream| frame(WINDOW_UPDATE, 0, stream, &[0, 0, 0, 1])), 502);
}

#[test]
fn a_server_that_floods_with_settings_pings_or_priorities_is_given_up() {
    assert_eq!(status_after(|_| frame(SETTINGS, 0, 0, &[])), 502);
    assert_eq!(status_after(|_| frame(PING, 0, 0, &[7; 8])), 502);
    assert_eq!(status_after(|stream| frame(PRIORITY, 0, stream, &[0, 0, 0, 0, 1])), 502);
    assert_eq!(status_after(|_| frame(0x20, 0, 0, &[7; 8])), 502);
}

#[test]
fn a_body_of_empty_frames_is_not_taken_for_an_answer() {
    let server = H2Server::start(|stream| {
        let empty = frame(DATA, 0, stream, &[]).repeat(MANY);
        [ok(stream, &[("content-length", "1")], false), empty, frame(DATA, 1, stream, b"x")].concat()
    });
    let node = Node::start(&server.settings());
    let answer = Client::connect(node.gateway).unwrap().get("/");
    assert!(answer.as_ref().is_ok_and(|answer| answer.status == 502) || answer.is_err(), "{answer:?}");
}
