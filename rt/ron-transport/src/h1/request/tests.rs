//! Where requests begin and end: what is accepted, what is not, and that neither cuts nor another reader change it.

use std::{
    convert::Infallible,
    sync::{Arc, Mutex},
};

use http_body_util::{BodyExt, Empty};
use hyper::{Request, Response, body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use proptest::prelude::*;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{
    replay::{Read, requests},
    *,
};

/// The lengths of the requests in `bytes`, and what is wrong behind them.
fn whole(bytes: &str) -> (Vec<usize>, Option<BadHead>) {
    let (reads, bad) = requests([bytes.as_bytes()]);
    (reads.iter().map(|read| read.length).collect(), bad)
}

const GET: &str = "GET / HTTP/1.1\r\nhost: a\r\n\r\n";

#[test]
fn requests_end_where_their_lengths_say() {
    for (what, request) in [
        ("no body", GET.to_owned()),
        ("a length", "POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\n\r\n\r\n\n".to_owned()),
        ("space around it", "POST / HTTP/1.1\r\ncontent-length: \t 5 \t\r\n\r\nabcde".to_owned()),
        ("no space", "POST / HTTP/1.1\r\ncontent-length:5\r\n\r\nabcde".to_owned()),
        ("the same twice", "POST / HTTP/1.1\r\ncontent-length: 2\r\ncontent-length: 02\r\n\r\nab".to_owned()),
        ("an empty line before", format!("\r\n{GET}")),
        (
            "chunks",
            "POST / HTTP/1.1\r\nTRANSFER-encoding: chunked\r\n\r\n5\r\n\n\r\n\r\n\r\n0A;x=\"y\"\r\n0123456789\r\n0\r\n\r\n"
                .to_owned(),
        ),
        (
            "trailers",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n1 \r\na\r\n00\r\nx: y\r\nz: w\r\n\r\n".to_owned(),
        ),
        (
            "names that only begin alike",
            "POST / HTTP/1.1\r\ncontent-lengths: 5\r\nc: 5\r\ntransfer-encodings: x\r\nt: \r\n\r\n".to_owned(),
        ),
    ] {
        let twice = format!("{request}{request}{GET}");
        let lengths = vec![request.len(), request.len(), GET.len()];
        assert_eq!(whole(&twice), (lengths, None), "{what}");
        let part = &request[..request.len() - 1];
        assert_eq!(whole(part), (vec![], None), "{what}, but for its last byte");
    }
}

#[test]
fn what_could_be_read_in_two_ways_is_told() {
    let post = |rest: &str| format!("POST / HTTP/1.1\r\n{rest}");
    let chunks = |rest: &str| format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{rest}");
    for (flaw, request) in [
        (Flaw::BareLineFeed, "\nGET / HTTP/1.1\r\n\r\n".to_owned()),
        (Flaw::BareLineFeed, "GET / HTTP/1.1\n\r\n".to_owned()),
        (Flaw::BareLineFeed, post("a: b\nc: d\r\n\r\n")),
        (Flaw::BareLineFeed, post("\n")),
        (Flaw::BareLineFeed, post("content-length: 4\n\r\nabcd")),
        (Flaw::BareLineFeed, post("content-length: 4 \n\r\nabcd")),
        (Flaw::BareLineFeed, post("c: d\n\r\n")),
        (Flaw::BareLineFeed, chunks("1;a\nb\r\na\r\n0\r\n\r\n")),
        (Flaw::BareLineFeed, chunks("0\r\n\n")),
        (Flaw::BareLineFeed, chunks("0\r\na: b\nc: d\r\n\r\n")),
        (Flaw::TwoFramings, post("content-length: 4\r\ntransfer-encoding: chunked\r\n\r\n")),
        (Flaw::TwoFramings, post("Transfer-Encoding: x\r\nx: y\r\nContent-Length: 4\r\n\r\n")),
        (Flaw::Length, post("content-length: 4\r\ncontent-length: 5\r\n\r\n")),
        (Flaw::Length, post("content-length:\r\n\r\n")),
        (Flaw::Length, post("content-length: 4 5\r\n\r\n")),
        (Flaw::Length, post("content-length: 4,4\r\n\r\n")),
        (Flaw::Length, post("content-length: +4\r\n\r\n")),
        (Flaw::Length, post("content-length: 9223372036854775808\r\n\r\n")),
        (Flaw::Length, post("content-length: 18446744073709551615\r\n\r\n")),
        (Flaw::Length, post("content-length: 18446744073709551616\r\n\r\n")),
        (Flaw::Chunk, chunks("\r\n")),
        (Flaw::BareLineFeed, chunks("1\nx\r\n")),
        (Flaw::Chunk, chunks("1;a\rb\r\nx\r\n")),
        (Flaw::Chunk, chunks("1 a\r\nx\r\n")),
        (Flaw::Chunk, chunks("1\rx\r\n")),
        (Flaw::Chunk, chunks("0x1\r\n")),
        (Flaw::Chunk, chunks("-1\r\n")),
        (Flaw::Chunk, chunks(" 1\r\n")),
        (Flaw::Chunk, chunks("1\r\nab\r\n")),
        (Flaw::Chunk, chunks("1\r\na\n")),
        (Flaw::Chunk, chunks("10000000000000000\r\n")),
        (Flaw::Chunk, chunks("0\r\n\rx: y\r\n\r\n")),
    ] {
        assert_eq!(whole(&format!("{GET}{request}")), (vec![GET.len()], Some(flaw.into())), "{request:?}");
    }
    let longest = "POST / HTTP/1.1\r\ncontent-length: 9223372036854775807\r\n\r\n";
    assert_eq!(whole(longest), (vec![], None));
}

/// Pieces of which connections are made, so that chance alone comes far.
fn parts() -> impl Strategy<Value = Vec<u8>> {
    let part = prop::sample::select(vec![
        "GET / HTTP/1.1\r\n",
        "POST /x HTTP/1.1\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n",
        "POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 3\r\n\r\n",
        "content-length: 3\r\n",
        "Content-Length: 12\r\n",
        "transfer-encoding: chunked\r\n",
        "Transfer-Encoding: gzip, chunked\r\n",
        "cookie: t\r\n",
        "te: trailers\r\n",
        "connection: keep-alive\r\n",
        "\r\n",
        "\r",
        "\n",
        " ",
        ":",
        "abc",
        "3\r\nabc\r\n",
        "c;x=y\r\n0123456789ab\r\n",
        "0\r\n\r\n",
        "0\r\nx: y\r\n\r\n",
        "0",
        "\0",
    ]);
    prop::collection::vec(part, 0..12).prop_map(|parts| parts.concat().into_bytes())
}

/// The requests that the library reads, each with its body, up to the first that it does not like.
fn read_by_library(bytes: &[u8]) -> Vec<(String, Vec<u8>)> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
    runtime.block_on(async {
        let (mut client, server) = tokio::io::duplex(64 * 1024);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let desk = Arc::clone(&seen);
        let service = service_fn(move |request: Request<Incoming>| {
            let desk = Arc::clone(&desk);
            async move {
                let line = format!("{} {}", request.method(), request.uri());
                if let Ok(body) = request.into_body().collect().await {
                    desk.lock().unwrap().push((line, body.to_bytes().to_vec()));
                }
                Ok::<_, Infallible>(Response::new(Empty::<&[u8]>::new()))
            }
        });
        let serving = http1::Builder::new().half_close(true).serve_connection(TokioIo::new(server), service);
        let talking = async {
            // Whoever hung up has heard enough.
            let _ = client.write_all(bytes).await;
            let _ = client.shutdown().await;
            let mut answers = Vec::new();
            let _ = client.read_to_end(&mut answers).await;
        };
        let _ = tokio::join!(serving, talking);
        Arc::try_unwrap(seen).unwrap().into_inner().unwrap()
    })
}

proptest! {
    #[test]
    fn cuts_make_no_difference(bytes in parts(), cuts in prop::collection::vec(any::<prop::sample::Index>(), 0..6)) {
        let mut cuts: Vec<_> = cuts.iter().map(|cut| cut.index(bytes.len() + 1)).collect();
        cuts.sort_unstable();
        let ends = cuts.iter().copied().chain([bytes.len()]);
        let starts = [0].into_iter().chain(cuts.iter().copied());
        let pieces: Vec<_> = starts.zip(ends).map(|(start, end)| &bytes[start..end]).collect();
        // What is wrong with a head that is not whole may be found earlier or later; the same requests come before it.
        let (expected, _) = requests([&bytes[..]]);
        prop_assert_eq!(&requests(pieces).0, &expected);
        prop_assert_eq!(&requests(bytes.chunks(1)).0, &expected);
    }

    /// What is accepted here is the same request to a widely used library, alone and in its row.
    #[test]
    fn the_library_finds_the_same_requests(bytes in parts()) {
        let (reads, _) = requests([&bytes[..]]);
        let last = reads.iter().position(|read| read.is_last).map_or(reads.len(), |last| last + 1);
        let expected: Vec<_> = reads.iter().map(|Read { line, body, .. }| (line.clone(), body.clone())).collect();
        let mut rest = &bytes[..];
        for (read, expected) in reads.iter().zip(&expected) {
            let (request, more) = rest.split_at(read.length);
            rest = more;
            prop_assert_eq!(read_by_library(request), vec![expected.clone()]);
        }
        let accepted: usize = reads.iter().map(|read| read.length).sum();
        prop_assert_eq!(&read_by_library(&bytes[..accepted])[..], &expected[..last]);
    }
}

#[test]
fn heads_are_limited_in_bytes_and_fields() {
    let limits = HeadLimits { bytes: 100, fields: 2 };
    let read = |head: &str| {
        let mut inbox = Inbox::new();
        inbox.push(head.as_bytes());
        HeadScan::default().take(&mut inbox, limits).map(|head| head.is_some())
    };
    let of_length = |length: usize| format!("GET / HTTP/1.1\r\na: {}\r\n\r\n", "b".repeat(length - 23));
    assert_eq!(read(&of_length(100)), Ok(true));
    assert_eq!(read(&of_length(101)), Err(BadHead::TooLarge));
    assert_eq!(read(&of_length(200)[..99]), Ok(false));
    assert_eq!(read(&of_length(200)[..100]), Err(BadHead::TooLarge));
    assert_eq!(read("GET / HTTP/1.1\r\na: b\r\na: b\r\n\r\n"), Ok(true));
    assert_eq!(read("GET / HTTP/1.1\r\na: b\r\na: b\r\na: b\r\n\r\n"), Err(BadHead::TooLarge));
    assert_eq!(read("GET / HTTP/1.1\r\na: b\r\na: b\r\na: b\r\n"), Err(BadHead::TooLarge));
}

#[test]
fn what_a_query_should_have_encoded_is_encoded_and_nothing_else_is() {
    let read = |target: &str| {
        let mut inbox = Inbox::new();
        inbox.push(format!("GET {target} HTTP/1.1\r\nhost: a\r\n\r\n").as_bytes());
        let head = HeadScan::default().take(&mut inbox, HeadLimits { bytes: 100_000, fields: 2 });
        head.map(|head| head.map(|head| head.parts.uri.to_string()))
    };
    let of = |text: &str| Ok(Some(text.to_owned()));
    assert_eq!(read("/x?q=\"a\"&b=<c>"), of("/x?q=%22a%22&b=%3Cc%3E"));
    assert_eq!(read("http://a/x?\""), of("http://a/x?%22"));
    assert_eq!(read("/x?%22'{}|^`\\"), of("/x?%22'{}|^`\\"), "what is accepted stays as it is");
    assert_eq!(read("/x\"y"), of("/x\"y"));
    for target in ["/<x>?y", "/<x>?\"", "*?\"", "a?\"", "?\"", "/x?\"\u{1}"] {
        assert_eq!(read(target), Err(BadHead::NotHttp), "{target}");
    }
    let long = format!("/?{}", "\"".repeat(30_000));
    assert_eq!(read(&long), Err(BadHead::TooLarge), "encoded, it is longer than a target may be");
}

#[test]
fn only_a_few_empty_lines_come_before_a_request() {
    let lines = |count: usize| format!("{}{GET}", "\r\n".repeat(count));
    assert_eq!(whole(&lines(8)), (vec![16 + GET.len()], None));
    assert_eq!(whole(&format!("{}{}", lines(8), lines(8))).0.len(), 2, "they are counted for each request");
    assert_eq!(whole(&lines(9)), (vec![], Some(BadHead::NotHttp)));
    for piece in 1..7 {
        assert_eq!(requests(lines(9).as_bytes().chunks(piece)), (vec![], Some(BadHead::NotHttp)), "{piece}");
        assert_eq!(requests(lines(8).as_bytes().chunks(piece)).0.len(), 1, "{piece}");
    }
}

#[test]
fn a_head_with_more_fields_than_a_map_can_hold_is_too_large() {
    let head = |count: usize| format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(count));
    let read = |count: usize| {
        let mut inbox = Inbox::new();
        inbox.push(head(count).as_bytes());
        HeadScan::default()
            .take(&mut inbox, HeadLimits { bytes: 1 << 20, fields: 100_000 })
            .map(|head| head.is_some())
    };
    assert_eq!(read(20_000), Ok(true));
    for count in [24_577, 32_768, 40_000] {
        assert_eq!(read(count), Err(BadHead::TooLarge), "{count}");
    }
}

#[test]
fn equal_lengths_are_passed_on_as_one() {
    let mut inbox = Inbox::new();
    inbox.push(b"PUT / HTTP/1.1\r\ncontent-length: 2\r\na: b\r\ncontent-length: 2\r\n\r\nab");
    let head = HeadScan::default().take(&mut inbox, HeadLimits { bytes: 1000, fields: 10 }).unwrap().unwrap();
    assert_eq!(head.parts.headers.get_all(CONTENT_LENGTH).iter().count(), 1);
    assert_eq!((head.body, head.parts.headers.len()), (BodyFraming::Sized(2), 2));
}

#[test]
fn what_is_not_http_is_told_before_its_end() {
    for bytes in [
        "\x16\x03\x01\x02",
        "GET / HTTP/2.0\r\n",
        "GET  / HTTP/1.1\r\n",
        "a\0b",
        "\rGET",
        "GET / HTTP/1.1\r\n a: b\r\n",
    ] {
        assert_eq!(whole(bytes), (vec![], Some(BadHead::NotHttp)), "{bytes:?}");
    }
    for bytes in ["", "\r", "\r\n\r\n", "GET", "GET / HTTP/1.1\r\nhost"] {
        assert_eq!(whole(bytes), (vec![], None), "{bytes:?}");
    }
}

#[test]
fn a_head_tells_whether_the_connection_goes_on() {
    let read = |head: &str| {
        let mut inbox = Inbox::new();
        inbox.push(head.as_bytes());
        let head =
            HeadScan::default().take(&mut inbox, HeadLimits { bytes: 1000, fields: 10 }).unwrap().unwrap();
        (head.keep_alive, head.may_switch, head.expects_continue)
    };
    for (expected, head) in [
        ((true, false, false), "GET / HTTP/1.1\r\n\r\n"),
        ((false, false, false), "GET / HTTP/1.0\r\n\r\n"),
        ((true, false, false), "GET / HTTP/1.0\r\nconnection: Keep-Alive\r\n\r\n"),
        ((false, false, false), "GET / HTTP/1.1\r\nconnection: x, Close\r\n\r\n"),
        ((false, false, false), "GET / HTTP/1.1\r\nconnection: close\r\nconnection: keep-alive\r\n\r\n"),
        ((true, true, false), "GET / HTTP/1.1\r\nconnection: upgrade\r\nupgrade: websocket\r\n\r\n"),
        ((false, false, false), "GET / HTTP/1.0\r\nupgrade: websocket\r\n\r\n"),
        ((true, false, true), "PUT / HTTP/1.1\r\nexpect: 100-Continue\r\ncontent-length: 1\r\n\r\n"),
        ((true, false, false), "PUT / HTTP/1.1\r\nexpect: 100-continue\r\n\r\n"),
    ] {
        assert_eq!(read(head), expected, "{head:?}");
    }
}
