//! Fills that nobody waits for any more, and fills that wait for others: what they hold, and whom they are blamed on.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use ron_kernel::config::ByteSize;
use svc_edge::fill::Found;
use types::Reason;

use crate::support::{Act, Ground, Node, Origin, eventually, reason, tagged, wishes, with_time};

const HEAD: &str =
    "HTTP/1.1 200 OK\r\netag: \"t\"\r\ncache-control: max-age=60\r\ntransfer-encoding: chunked\r\n\r\n";

/// A response of unknown length that keeps coming, fast enough for its fill, until `is_over`.
fn keeps_coming(is_over: &Arc<AtomicBool>) -> Act {
    let (chunk, is_over) = ([b"400\r\n".as_slice(), &[b'x'; 1024], b"\r\n"].concat(), Arc::clone(is_over));
    let goes_on = Box::new(move || !is_over.load(Ordering::SeqCst));
    Act::Trickle(HEAD.into(), chunk, goes_on, b"0\r\n\r\n".to_vec())
}

fn ground(origin: &Origin, fill_timeout: Duration) -> Ground {
    let mut ground = Ground::new(vec![origin.entry()]);
    ground.config.fill_timeout = fill_timeout.into();
    ground.config.fill.workers = 1;
    ground
}

#[test]
fn a_response_without_an_end_that_nobody_waits_for_is_not_read_on() {
    with_time(|time| {
        let origin = Origin::start(|_, _| keeps_coming(&Arc::default()));
        let node = Node::on(ground(&origin, time / 2));
        let url = node.url(&origin, "/live");
        let soon = node.scope.clock().within(time);
        let late = node.block_on(node.fill.fetch(&url, &wishes(""), soon));
        assert_eq!(reason(late), Reason::DownstreamTimeout);
        eventually("its connection is closed", || origin.closed() == 1);
        assert_eq!((origin.asked(), node.stored()), (1, 0));
        eventually("it may be asked for again", || matches!(node.find(&url, ""), Found::Missing));
    });
}

#[test]
fn a_fill_that_waits_too_long_for_its_turn_does_not_count_against_its_origin() {
    with_time(|time| {
        let is_over = Arc::<AtomicBool>::default();
        let over = Arc::clone(&is_over);
        let origin = Origin::start(move |_, head| match head.starts_with("get /long") {
            true => keeps_coming(&over),
            false => Act::Slowly(vec![tagged("", "short")], time / 10),
        });
        let node = Node::on(ground(&origin, time));
        let (long, waits) = (node.url(&origin, "/long"), node.url(&origin, "/waits"));
        let beyond = node.scope.clock().within(time + time / 2);
        let directives = wishes("");
        let late = node.block_on(async {
            tokio::select! {
                biased;
                _ = node.fill.fetch(&long, &directives, node.deadline()) => panic!("it has no end"),
                late = node.fill.fetch(&waits, &directives, beyond) => late,
            }
        });
        assert_eq!(reason(late), Reason::DownstreamTimeout);
        is_over.store(true, Ordering::SeqCst);
        // The one that waited comes before.
        node.fetch(&node.url(&origin, "/next")).expect("it is its turn");
        let asked = node.fetch(&waits).expect("the origin did not fail");
        assert_eq!(node.bytes(&asked), b"short");
    });
}

#[test]
fn a_fill_that_nobody_waits_for_makes_way_for_one_that_somebody_waits_for() {
    with_time(|time| {
        let head =
            "HTTP/1.1 200 OK\r\netag: \"t\"\r\ncache-control: max-age=60\r\ncontent-length: 50000000\r\n\r\n";
        let origin = Origin::start(move |_, request| match request.starts_with("get /long") {
            true => Act::Trickle(head.into(), vec![b'x'; 1024], Box::new(|| true), Vec::new()),
            false => Act::Say(tagged("", "short")),
        });
        let node = Node::on(ground(&origin, time * 2));
        node.fill.begin(&node.url(&origin, "/long"), &wishes("")).unwrap();
        eventually("it is on its way", || origin.asked() == 1);
        let (next, soon) = (node.url(&origin, "/next"), node.scope.clock().within(time * 2));
        let asked = node.block_on(node.fill.fetch(&next, &wishes(""), soon)).expect("it is its turn");
        assert_eq!(node.bytes(&asked), b"short");
        eventually("the other one is given up", || origin.closed() == 1);
        assert_eq!(node.stored(), 1);
    });
}

/// An origin whose objects below `/long` are as long as objects may be and come slowly; all others are of this length.
fn slow_and(len: usize) -> (Origin, Ground) {
    let origin = Origin::start(move |_, request| match request.starts_with("get /long") {
        true => {
            let head = "HTTP/1.1 200 OK\r\netag: \"t\"\r\ncontent-length: 8388608\r\n\r\n";
            Act::Trickle(head.into(), vec![b'x'; 1024], Box::new(|| true), Vec::new())
        }
        false => Act::Say(tagged("", vec![b'y'; len])),
    });
    let mut ground = Ground::new(vec![origin.entry()]);
    ground.config.fill.max_object_bytes = ByteSize::mib(8);
    ground.config.fill.inflight_bytes = ByteSize::mib(16);
    ground.drain = Duration::from_millis(100);
    (origin, ground)
}

#[test]
fn a_long_object_that_comes_slowly_does_not_hold_small_ones_up() {
    with_time(|time| {
        // An eighth of the bytes for eight workers: so many each.
        let small = 256 * 1024;
        let (origin, mut ground) = slow_and(small);
        ground.config.fill_timeout = (time * 2).into();
        let node = Node::on(ground);
        let (long, wishes) = (node.url(&origin, "/long"), wishes(""));
        node.block_on(async {
            let small = async {
                while origin.asked() == 0 {
                    tokio::task::yield_now().await;
                }
                for nth in 0..5 {
                    let url = node.url(&origin, &format!("/{nth}"));
                    let soon = node.scope.clock().within(time);
                    let entry = node.fill.fetch(&url, &wishes, soon).await.expect("it does not wait");
                    assert_eq!(entry.len, small as u64);
                }
            };
            tokio::select! {
                biased;
                _ = node.fill.fetch(&long, &wishes, node.deadline()) => panic!("it takes longer"),
                () = small => {}
            }
        });
    });
}

#[test]
fn a_fill_that_nobody_waits_for_makes_way_for_one_that_waits_for_bytes() {
    with_time(|time| {
        let (origin, mut ground) = slow_and(8 << 20);
        ground.config.fill_timeout = (time * 4).into();
        let node = Node::on(ground);
        node.fill.begin(&node.url(&origin, "/long"), &wishes("")).unwrap();
        eventually("it is on its way", || origin.asked() == 1);
        let soon = node.scope.clock().within(time * 4);
        let next = node.url(&origin, "/next");
        let entry = node.block_on(node.fill.fetch(&next, &wishes(""), soon)).expect("there are bytes for it");
        assert_eq!(entry.len, 8 << 20);
        eventually("the other one is given up", || origin.closed() == 1);
    });
}
