//! Origins that fail, lie or mislead: what is refused, what is tried again, and that nothing of it is stored.

use std::{io::Write as _, sync::Arc, time::Duration};

use crate::support::{Act, Ground, Node, Origin, answer, nobody, reason, tagged, with_time, within_a_moment};
use cas::{Cas, Limits};
use flate2::{Compression, write::GzEncoder};
use ron_kernel::config::ByteSize;
use svc_edge::{AllowConfig, LiveFillRetry, OriginScheme, RetryConfig};
use types::Reason;

/// A node whose retries do not take long, and that asks these origins.
fn impatient(allow: Vec<AllowConfig>) -> Ground {
    let mut ground = Ground::new(allow);
    ground.config.retry =
        RetryConfig { live_fill: LiveFillRetry { base_ms: 1, max_ms: 2, ..LiveFillRetry::default() } };
    ground
}

fn gzipped(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
    encoder.write_all(bytes).unwrap();
    encoder.finish().unwrap()
}

#[track_caller]
fn check_refused(origin: &Origin, allow: AllowConfig, expected: Reason, asked: usize) {
    check_refused_on(impatient(vec![allow]), origin, expected, asked);
}

#[track_caller]
fn check_refused_on(ground: Ground, origin: &Origin, expected: Reason, asked: usize) {
    let node = Node::on(ground);
    let url = node.url(origin, "/x");
    assert_eq!(reason(node.fetch(&url)), expected);
    assert_eq!(origin.asked(), asked, "requests");
    assert_eq!(node.stored(), 0, "nothing is stored");
    assert_eq!(node.metric("backoff_retries_total", &["live_fill"]), asked as u64 - 1);
}

#[test]
fn for_a_moment_nobody_asks_again_for_what_failed() {
    within_a_moment(|| {
        let origin = Origin::saying(answer(500, "", ""));
        let node = Node::on(impatient(vec![origin.entry()]));
        let url = node.url(&origin, "/x");
        assert_eq!(reason(node.fetch(&url)), Reason::BadGateway);
        assert_eq!(reason(node.fetch(&url)), Reason::BadGateway);
        assert_eq!(origin.asked(), 1);
    });
}

#[test]
fn an_origin_that_dies_in_the_middle_is_tried_three_times_and_leaves_nothing() {
    let half = b"HTTP/1.1 200 OK\r\netag: \"t\"\r\ncontent-length: 100\r\n\r\nhalf".to_vec();
    let origin = Origin::start(move |_, _| Act::Last(half.clone()));
    check_refused(&origin, origin.entry(), Reason::BadGateway, 3);
    let chunked =
        b"HTTP/1.1 200 OK\r\netag: \"t\"\r\ntransfer-encoding: chunked\r\n\r\n4\r\nhalf\r\n".to_vec();
    let origin = Origin::start(move |_, _| Act::Last(chunked.clone()));
    check_refused(&origin, origin.entry(), Reason::BadGateway, 3);
}

#[test]
fn an_origin_that_recovers_in_time_is_forgiven() {
    let origin = Origin::start(|number, _| match number {
        0 => Act::Say(answer(503, "", "not yet")),
        1 => Act::Last(Vec::new()),
        _ => Act::Say(tagged("", "at last")),
    });
    let node = Node::on(impatient(vec![origin.entry()]));
    let entry = node.fetch(&node.url(&origin, "/x")).unwrap();
    assert_eq!(node.bytes(&entry), b"at last");
    assert_eq!(node.metric("backoff_retries_total", &["live_fill"]), 2);
}

#[test]
fn only_what_may_pass_is_tried_again() {
    for (status, asked) in [(502, 3), (503, 3), (504, 3), (500, 1), (403, 1), (429, 1), (204, 1), (304, 1)] {
        let origin = Origin::saying(answer(status, "etag: \"t\"\r\n", ""));
        check_refused(&origin, origin.entry(), Reason::BadGateway, asked);
    }
}

#[test]
fn an_origin_that_asks_to_be_left_alone_for_long_is_left_alone() {
    let origin = Origin::saying(answer(503, "retry-after: 3600\r\n", ""));
    let node = Node::on(impatient(vec![origin.entry()]));
    assert_eq!(reason(node.fetch(&node.url(&origin, "/x"))), Reason::BadGateway);
    assert_eq!(origin.asked(), 1);
}

#[test]
fn an_origin_that_asks_for_a_second_gets_it() {
    let origin = Origin::start(|number, _| match number {
        0 => Act::Say(answer(503, "retry-after: 1\r\n", "")),
        _ => Act::Say(tagged("", "ok")),
    });
    let node = Node::on(impatient(vec![origin.entry()]));
    let begun = std::time::Instant::now();
    assert!(node.fetch(&node.url(&origin, "/x")).is_ok());
    assert!(begun.elapsed() >= Duration::from_secs(1), "{:?}", begun.elapsed());
}

#[test]
fn a_slow_origin_is_given_up_at_the_deadline() {
    with_time(|time| {
        for begins in
            [Vec::new(), b"HTTP/1.1 200 OK\r\netag: \"t\"\r\ncontent-length: 9\r\n\r\nslow".to_vec()]
        {
            let origin = Origin::start(move |_, _| match begins.is_empty() {
                true => Act::Hold,
                false => Act::Say(begins.clone()),
            });
            let mut ground = impatient(vec![origin.entry()]);
            ground.config.fill_timeout = time.into();
            let node = Node::on(ground);
            let begun = std::time::Instant::now();
            assert_eq!(reason(node.fetch(&node.url(&origin, "/x"))), Reason::DownstreamTimeout);
            assert!(begun.elapsed() >= time, "{:?}", begun.elapsed());
            assert_eq!(node.metric("io_timeouts_total", &["op=\"fill\""]), 1);
            assert_eq!((node.stored(), origin.asked()), (0, 1));
        }
    });
}

#[test]
fn a_large_object_may_take_longer_than_a_silence() {
    with_time(|time| {
        // Six parts, each after half of the longest silence: three times as long as the origin may be silent.
        let (part, head) =
            (vec![7; 32 * 1024], "HTTP/1.1 200 OK\r\netag: \"t\"\r\ncontent-length: 196608\r\n\r\n");
        let parts = [vec![head.as_bytes().to_vec()], vec![part; 6]].concat();
        let origin = Origin::start(move |_, _| Act::Slowly(parts.clone(), time / 2));
        let mut ground = impatient(vec![origin.entry()]);
        ground.config.fill_timeout = time.into();
        let node = Node::on(ground);
        let entry = node.fetch(&node.url(&origin, "/large")).expect("it keeps coming");
        assert_eq!((entry.len, node.stored()), (196_608, 1));
    });
}

#[test]
fn an_origin_that_trickles_holds_no_worker_for_ever() {
    with_time(|time| {
        let head = b"HTTP/1.1 200 OK\r\netag: \"t\"\r\ncontent-length: 1000\r\n\r\n".to_vec();
        let origin = Origin::start(move |_, _| {
            Act::Slowly([vec![head.clone()], vec![vec![7]; 1000]].concat(), time / 4)
        });
        let mut ground = impatient(vec![origin.entry()]);
        ground.config.fill_timeout = time.into();
        let node = Node::on(ground);
        assert_eq!(reason(node.fetch(&node.url(&origin, "/x"))), Reason::DownstreamTimeout);
        assert_eq!((node.stored(), origin.asked()), (0, 1));
    });
}

#[test]
fn a_store_that_cannot_be_written_keeps_nobody_from_being_served() {
    let origin = Origin::saying(tagged("", "fetched"));
    let (dir, mut ground) = (tempfile::tempdir().unwrap(), impatient(vec![origin.entry()]));
    let folder = dir.path().join("cas");
    ground.cas = Arc::new(Cas::at(&folder, Limits::default()).unwrap());
    // Nothing can be begun any more.
    std::fs::remove_dir(folder.join("tmp")).unwrap();
    std::fs::write(folder.join("tmp"), "").unwrap();
    let node = Node::on(ground);
    // Once more for the first, which found out.
    for (path, asked) in [("/a", 2), ("/b", 3)] {
        let entry = node.fetch(&node.url(&origin, path)).expect("it is served");
        assert_eq!(entry.held().map(|bytes| &bytes[..]), Some(&b"fetched"[..]));
        assert_eq!((node.stored(), origin.asked()), (0, asked));
    }
    let standing = node.scope.readiness().standing(Some("edge"));
    assert!(standing.iter().any(|condition| condition.name == "store_full"), "{standing:?}");
}

#[test]
fn nobody_there_is_a_bad_gateway_after_three_tries() {
    let closed = nobody();
    let allow =
        AllowConfig { scheme: OriginScheme::Http, private: true, ..AllowConfig::new(&closed.to_string()) };
    let node = Node::on(impatient(vec![allow]));
    let url = node.fill.url(&format!("{closed}/x"), None).unwrap();
    assert_eq!(reason(node.fetch(&url)), Reason::BadGateway);
    assert_eq!(node.metric("backoff_retries_total", &["live_fill"]), 2);
}

#[test]
fn a_length_that_is_a_lie_is_not_believed() {
    let longer = b"HTTP/1.1 200 OK\r\netag: \"t\"\r\ncontent-length: 4\r\n\r\nhalf and more".to_vec();
    let origin = Origin::saying(longer);
    check_refused(&origin, origin.entry(), Reason::BadGateway, 1);
    let two =
        b"HTTP/1.1 200 OK\r\netag: \"t\"\r\ncontent-length: 4\r\ncontent-length: 5\r\n\r\nhalf!".to_vec();
    let origin = Origin::start(move |_, _| Act::Last(two.clone()));
    check_refused(&origin, origin.entry(), Reason::BadGateway, 3);
}

#[test]
fn what_only_the_end_of_the_connection_ends_is_served_and_not_stored() {
    let origin =
        Origin::start(|_, _| Act::Last(b"HTTP/1.1 200 OK\r\netag: \"t\"\r\n\r\nall of it?".to_vec()));
    let node = Node::on(impatient(vec![origin.entry()]));
    for asked in [1, 2] {
        let entry = node.fetch(&node.url(&origin, "/x")).expect("it is served");
        assert_eq!(entry.held().map(|bytes| &bytes[..]), Some(&b"all of it?"[..]));
        assert_eq!((node.stored(), origin.asked()), (0, asked), "it may have broken off");
    }
}

#[test]
fn what_is_larger_than_may_be_stored_is_refused_announced_or_not() {
    let chunk = [b"1000\r\n".as_slice(), &[b'x'; 4096], b"\r\n"].concat();
    let endless = b"HTTP/1.1 200 OK\r\netag: \"t\"\r\ntransfer-encoding: chunked\r\n\r\n".to_vec();
    let announced = b"HTTP/1.1 200 OK\r\netag: \"t\"\r\ncontent-length: 1048577\r\n\r\n".to_vec();
    for head in [endless, announced] {
        let chunk = chunk.clone();
        let origin = Origin::start(move |_, _| Act::Forever(head.clone(), chunk.clone()));
        let mut ground = impatient(vec![origin.entry()]);
        ground.config.fill.max_object_bytes = ByteSize::mib(1);
        let node = Node::on(ground);
        assert_eq!(reason(node.fetch(&node.url(&origin, "/x"))), Reason::SourceCap);
        assert_eq!((node.stored(), origin.asked()), (0, 1));
    }
}

#[test]
fn the_largest_object_that_may_be_stored_is() {
    let body = vec![7; 1 << 20];
    let origin = Origin::saying(tagged("", &body));
    let mut ground = Ground::new(vec![origin.entry()]);
    ground.config.fill.max_object_bytes = ByteSize::mib(1);
    let node = Node::on(ground);
    let entry = node.fetch(&node.url(&origin, "/x")).unwrap();
    assert!(node.bytes(&entry) == body);
}

#[test]
fn what_comes_compressed_is_stored_plain_and_a_bomb_not_at_all() {
    let plain: Vec<u8> = (0..200_000_u32).flat_map(|n| n.wrapping_mul(n).to_le_bytes()).collect();
    let origin = Origin::saying(tagged("content-encoding: gzip\r\n", gzipped(&plain)));
    let node = Node::start(vec![origin.entry()]);
    let entry = node.fetch(&node.url(&origin, "/x")).unwrap();
    assert!(node.bytes(&entry) == plain);
    assert!(origin.heads()[0].contains("accept-encoding: identity\r\n"));

    let bomb = Origin::saying(tagged("content-encoding: gzip\r\n", gzipped(&vec![0; 5_000_000])));
    check_refused(&bomb, bomb.entry(), Reason::SourceExpands, 1);
    let large = Origin::saying(tagged("content-encoding: gzip\r\n", gzipped(&plain)));
    let mut ground = impatient(vec![large.entry()]);
    ground.config.ingress.decompress_abs_bytes = ByteSize::kib(512);
    check_refused_on(ground, &large, Reason::SourceExpands, 1);
    let broken = Origin::saying(tagged("content-encoding: gzip\r\n", "not gzip"));
    check_refused(&broken, broken.entry(), Reason::BadGateway, 1);
    let cut = Origin::saying(tagged("content-encoding: gzip\r\n", &gzipped(&plain)[..1000]));
    check_refused(&cut, cut.entry(), Reason::BadGateway, 1);
    let unknown = Origin::saying(tagged("content-encoding: snappy\r\n", "?"));
    check_refused(&unknown, unknown.entry(), Reason::BadGateway, 1);
}

#[test]
fn without_a_strong_tag_nothing_is_stored_unless_the_list_says_so() {
    for headers in ["", "etag: W/\"t\"\r\n", "etag: t\r\n", "etag: \"t\r\n"] {
        let origin = Origin::saying(answer(200, headers, "body"));
        check_refused(&origin, origin.entry(), Reason::EtagInvalid, 1);
        let node = Node::start(vec![origin.lenient_entry()]);
        let entry = node.fetch(&node.url(&origin, "/x")).unwrap();
        assert_eq!((node.bytes(&entry), node.stored()), (b"body".to_vec(), 1), "{headers}");
    }
}

#[test]
fn a_redirect_is_followed_within_the_list_and_no_further() {
    let target = Origin::saying(tagged("", "here"));
    let outside = Origin::saying(tagged("", "never"));
    let (to, out) = (target.addr, outside.addr);
    let origin = Origin::start(move |_, head| {
        let path = head.split(' ').nth(1).unwrap();
        let location = match path {
            "/in" => format!("http://{to}/x"),
            "/out" => format!("http://{out}/x"),
            "/local" => "http://127.0.0.1:1/x".to_owned(),
            "/beside" => "other/../there".to_owned(),
            "/there" => return Act::Say(tagged("", "there")),
            "/none" => return Act::Say(answer(302, "", "")),
            "/1" => "/2".to_owned(),
            "/2" => "/3".to_owned(),
            "/3" => "/there".to_owned(),
            "/0" => "/1".to_owned(),
            _ => "/again".to_owned(),
        };
        Act::Say(answer(302, &format!("location: {location}\r\n"), ""))
    });
    let node = Node::on(impatient(vec![origin.entry(), target.entry()]));
    let fetch = |path: &str| node.fetch(&node.url(&origin, path));
    for (path, body) in [("/in", "here"), ("/beside", "there"), ("/1", "there")] {
        assert_eq!(node.bytes(&fetch(path).unwrap()), body.as_bytes(), "{path}");
    }
    assert_eq!(reason(fetch("/out")), Reason::NotAllowed);
    assert_eq!(reason(fetch("/local")), Reason::NotAllowed);
    assert_eq!(reason(fetch("/0")), Reason::BadGateway);
    assert_eq!(reason(fetch("/again")), Reason::BadGateway);
    assert_eq!(reason(fetch("/none")), Reason::BadGateway);
    assert_eq!(outside.asked(), 0);
}

#[test]
fn an_origin_at_a_private_address_is_not_asked_unless_the_list_says_so() {
    let origin = Origin::saying(tagged("", "secret"));
    let allow = AllowConfig { private: false, ..origin.entry() };
    let node = Node::on(impatient(vec![allow]));
    assert_eq!(reason(node.fetch(&node.url(&origin, "/x"))), Reason::NotAllowed);
    assert_eq!(origin.accepted(), 0, "not even a connection");
    // A name leads there too.
    let port = origin.addr.port();
    let named = AllowConfig { scheme: OriginScheme::Http, ..AllowConfig::new(&format!("localhost:{port}")) };
    let node = Node::on(impatient(vec![named]));
    let url = node.fill.url(&format!("localhost:{port}/x"), None).unwrap();
    assert_eq!(reason(node.fetch(&url)), Reason::NotAllowed);
    assert_eq!(origin.accepted(), 0);
}

#[test]
fn connections_are_used_again() {
    let origin = Origin::start(|_, head| match head.contains("/missing") {
        true => Act::Say(answer(404, "", "nothing here")),
        false => Act::Say(tagged("", "body")),
    });
    let node = Node::start(vec![origin.entry()]);
    for path in ["/a", "/b", "/missing", "/c"] {
        let _ = node.fetch(&node.url(&origin, path));
    }
    assert_eq!((origin.asked(), origin.accepted()), (4, 1));
}
