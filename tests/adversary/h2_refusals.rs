//! HTTP/2 servers that refuse requests unprocessed, as overloaded ones do: sending them again multiplies the load.

use crate::{
    h2_frames::{GOAWAY, RST_STREAM, frame},
    h2_server::H2Server,
    support::{Node, get},
};

/// The error code of a stream that the server has not processed.
const REFUSED_STREAM: u32 = 7;
const REQUESTS: usize = 20;

/// Sends requests to a server that answers each with the frames that `answer` makes, without retries and with nothing that
/// leaves the server alone, and gives how many the server got.
fn asked(answer: impl Fn(u32) -> Vec<u8> + Send + Sync + 'static) -> usize {
    let server = H2Server::start(answer);
    let alone = "upstream.up.retry.max_tries = 1\nupstream.up.breaker = { consecutive = 0, error_rate = 0 }\n\
                 upstream.up.eject.consecutive = 0\n";
    let node = Node::start(&format!("{}{alone}", server.settings()));
    for _ in 0..REQUESTS {
        assert_eq!(get(node.gateway, "/").unwrap().status, 502);
    }
    server.asked()
}

#[test]
fn a_request_that_is_refused_on_a_connection_that_lives_on_is_sent_once() {
    let asked = asked(|stream| frame(RST_STREAM, 0, stream, &REFUSED_STREAM.to_be_bytes()));
    assert_eq!(asked, REQUESTS);
}

#[test]
fn a_request_that_is_refused_with_its_connection_is_sent_once_more() {
    // The last stream that was processed, and no error.
    let asked = asked(|_| frame(GOAWAY, 0, 0, &[0; 8]));
    assert!((REQUESTS..=2 * REQUESTS).contains(&asked), "{asked} of {REQUESTS}");
}
