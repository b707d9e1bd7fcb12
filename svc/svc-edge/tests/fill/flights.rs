//! Many who ask and one who fetches: single flight, deadlines, the queue, the drain, workers that die.

use std::{
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use futures_util::future::join_all;
use ron_kernel::{bus::KernelEvent, config::ByteSize};
use svc_edge::{AllowConfig, OriginScheme, fill::Found};
use types::Reason;

use crate::support::{Act, Ground, Node, Origin, PATIENCE, eventually, nobody, reason, tagged, wishes};

/// Holds answers back until it is opened.
#[derive(Default)]
struct Gate(Mutex<bool>, Condvar);

impl Gate {
    fn open(&self) {
        *self.0.lock().unwrap() = true;
        self.1.notify_all();
    }

    fn pass(&self) {
        let open = self.0.lock().unwrap();
        drop(self.1.wait_while(open, |open| !*open).unwrap());
    }
}

/// An origin that answers once its gate is open.
fn gated() -> (Origin, Arc<Gate>) {
    let gate = Arc::<Gate>::default();
    let held = Arc::clone(&gate);
    let origin = Origin::start(move |_, _| {
        held.pass();
        Act::Say(tagged("cache-control: max-age=60\r\n", "body"))
    });
    (origin, gate)
}

/// One worker, which is all a drain has to wait for.
fn one_worker(origin: &Origin) -> Ground {
    let mut ground = Ground::new(vec![origin.entry()]);
    ground.config.fill.workers = 1;
    ground
}

#[test]
fn a_thousand_requests_for_one_object_are_one_request_to_its_origin() {
    let (origin, gate) = gated();
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    let entries = node.block_on(async {
        let wishes = wishes("");
        let asking = (0..1000).map(|_| node.fill.fetch(&url, &wishes, node.deadline()));
        let opening = async {
            // Polled after all of them: everybody waits by now.
            gate.open();
        };
        tokio::join!(join_all(asking), opening).0
    });
    assert_eq!(entries.len(), 1000);
    let first = entries[0].as_ref().unwrap();
    assert!(entries.iter().all(|entry| entry.as_ref().unwrap().id == first.id));
    assert_eq!(node.bytes(first), b"body");
    assert_eq!(origin.asked(), 1);
    assert!(matches!(node.find(&url, ""), Found::Fresh(entry) if entry.id == first.id));
}

#[test]
fn threads_that_look_and_ask_at_once_cause_one_request() {
    let origin = Origin::saying(tagged("cache-control: max-age=60\r\n", "body"));
    let node = Node::start(vec![origin.entry()]);
    for round in 0..50 {
        let url = node.url(&origin, &format!("/{round}"));
        std::thread::scope(|threads| {
            for _ in 0..8 {
                threads.spawn(|| {
                    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                    if matches!(node.find(&url, ""), Found::Missing) {
                        let wishes = wishes("");
                        let fetch = node.fill.fetch(&url, &wishes, node.deadline());
                        assert!(runtime.block_on(fetch).is_ok());
                    }
                });
            }
        });
        assert_eq!(origin.asked(), round + 1);
    }
}

#[test]
fn a_fill_goes_on_without_whoever_asked() {
    let (origin, gate) = gated();
    let node = Node::start(vec![origin.entry()]);
    let url = node.url(&origin, "/x");
    let impatient = node.scope.clock().within(Duration::from_millis(500));
    let refused = node.block_on(node.fill.fetch(&url, &wishes(""), impatient));
    assert_eq!(reason(refused), Reason::DownstreamTimeout);
    gate.open();
    eventually("it is found", || matches!(node.find(&url, ""), Found::Fresh(_)));
    assert_eq!(origin.asked(), 1);
}

#[test]
fn each_waits_to_their_own_deadline() {
    let (origin, gate) = gated();
    let node = Node::start(vec![origin.entry()]);
    let (url, wishes) = (node.url(&origin, "/x"), wishes(""));
    let (early, late) = node.block_on(async {
        let soon = node.scope.clock().within(Duration::from_millis(20));
        let early = async {
            let early = node.fill.fetch(&url, &wishes, soon).await;
            gate.open();
            early
        };
        tokio::join!(early, node.fill.fetch(&url, &wishes, node.deadline()))
    });
    assert_eq!(reason(early), Reason::DownstreamTimeout);
    assert!(late.is_ok());
    assert_eq!(origin.asked(), 1);
}

#[test]
fn a_full_queue_refuses_the_newcomer_and_nobody_else() {
    let (origin, gate) = gated();
    let node = Node::on(one_worker(&origin));
    let begin = |path: usize| node.fill.begin(&node.url(&origin, &format!("/{path}")), &wishes(""));
    assert_eq!(begin(0), Ok(()));
    eventually("the worker has the first", || origin.asked() == 1);
    for path in 1..=512 {
        assert_eq!(begin(path), Ok(()), "{path}");
    }
    let refused = begin(513).unwrap_err();
    assert_eq!(refused.reason, Reason::Busy);
    // Whoever asks for something that is being fetched is no newcomer.
    assert_eq!(begin(512), Ok(()));
    assert_eq!(node.metric("busy_rejections_total", &["queue=\"work\"", "endpoint=\"/edge/assets\""]), 1);
    assert_eq!(node.metric("queue_dropped_total", &["queue=\"work\""]), 1);
    gate.open();
    eventually("all that was taken in is fetched", || node.stored() == 1 && origin.asked() == 513);
}

#[test]
fn a_rate_that_is_used_up_refuses_fills_and_no_hits() {
    let origin = Origin::saying(tagged("cache-control: max-age=60\r\n", "body"));
    let mut ground = Ground::new(vec![origin.entry()]);
    ground.config.fill.rps_limit = 2;
    let node = Node::on(ground);
    let urls: Vec<_> = (0..1000).map(|path| node.url(&origin, &format!("/{path}"))).collect();
    let (begun, wishes) = (Instant::now(), wishes(""));
    let outcomes = urls.iter().map(|url| node.fill.begin(url, &wishes));
    let (taken, refused) = outcomes.enumerate().find_map(|(at, outcome)| Some((at, outcome.err()?))).unwrap();
    // Two at once, and as many more in each second that this took.
    let most = 2 + 2 * (begun.elapsed().as_secs() + 1);
    assert!(taken >= 2 && taken as u64 <= most, "{taken} of at most {most}");
    assert_eq!(refused.reason, Reason::Quota);
    assert!(refused.retry_after.is_some_and(|wait| wait <= Duration::from_millis(500)));
    eventually("what was taken in is fetched", || origin.asked() == taken);
    assert!(node.fetch(&urls[0]).is_ok(), "it is here");
    assert_eq!(origin.asked(), taken);
    // It is no failure of the origin, so it is not remembered as one.
    eventually("it may be fetched later", || node.fetch(&urls[taken]).is_ok());
}

#[test]
fn a_drain_finishes_what_was_begun_and_refuses_what_waits() {
    let (origin, gate) = gated();
    let node = Node::on(one_worker(&origin));
    let wishes = wishes("");
    let (begun, waiting) = (node.url(&origin, "/begun"), node.url(&origin, "/waiting"));
    let (begun, waiting) = node.block_on(async {
        let first = node.fill.fetch(&begun, &wishes, node.deadline());
        let second = async {
            while origin.asked() == 0 {
                tokio::task::yield_now().await;
            }
            let second = node.fill.fetch(&waiting, &wishes, node.deadline());
            let draining = async {
                node.scope.shutdown().request("enough");
                while !node.scope.shutdown().is_draining() {
                    tokio::task::yield_now().await;
                }
                gate.open();
            };
            tokio::join!(second, draining).0
        };
        tokio::join!(first, second)
    });
    assert!(begun.is_ok(), "{begun:?}");
    assert_eq!(reason(waiting), Reason::Draining);
    assert_eq!(reason(node.fetch(&node.url(&origin, "/late"))), Reason::Draining);
    assert_eq!(node.stop().code, ron_kernel::ExitCode::Clean);
    assert_eq!(origin.asked(), 1);
}

#[test]
fn a_worker_that_dies_takes_no_request_with_it() {
    let died = Arc::new(AtomicBool::new(false));
    let dies = Arc::clone(&died);
    let origin = Origin::start(move |_, _| match dies.swap(true, Ordering::SeqCst) {
        false => Act::Hold,
        true => Act::Say(tagged("", "body")),
    });
    let node = Node::on(one_worker(&origin));
    let (url, wishes) = (node.url(&origin, "/x"), wishes(""));
    let entries = node.block_on(async {
        let asking = (0..10).map(|_| node.fill.fetch(&url, &wishes, node.deadline()));
        let killing = async {
            while origin.asked() == 0 {
                tokio::task::yield_now().await;
            }
            assert!(node.scope.supervisor().kill("edge", "fill_worker#0"));
        };
        tokio::join!(join_all(asking), killing).0
    });
    for entry in entries {
        assert_eq!(node.bytes(&entry.unwrap()), b"body");
    }
    assert_eq!(origin.asked(), 2);
    assert_eq!(node.metric("service_restarts_total", &["task=\"fill_worker\""]), 1);
}

/// Kills half of the workers, and waits until readiness has told and is content again. By the events, because it may be
/// over before one looks.
fn kill_half(node: &Node) {
    let mut events = node.scope.bus().subscribe();
    for worker in 0..4 {
        let name = format!("fill_worker#{worker}");
        eventually("there is a worker to kill", || node.scope.supervisor().kill("edge", &name));
    }
    node.block_on(async {
        for is_lost in [true, false] {
            let about = |event: &KernelEvent| {
                matches!(event, KernelEvent::Condition { service: "edge", name: "lost_workers", effect, .. }
                    if effect.is_some() == is_lost)
            };
            let told = async { while !events.next().await.unwrap().is_ok_and(|event| about(&event)) {} };
            tokio::time::timeout(PATIENCE, told).await.expect("readiness tells");
        }
    });
}

#[test]
fn half_of_the_workers_killed_under_load_are_told_of_and_back_and_nobody_notices() {
    let origin = Origin::saying(tagged("", "body"));
    let node = Node::start(vec![origin.entry()]);
    let (done, answered, wishes) = (AtomicBool::new(false), AtomicUsize::new(0), wishes(""));
    std::thread::scope(|threads| {
        for thread in 0..4 {
            let (node, origin, done, answered, wishes) = (&node, &origin, &done, &answered, &wishes);
            threads.spawn(move || {
                let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
                while !done.load(Ordering::Relaxed) {
                    let path = format!("/{thread}/{}", answered.fetch_add(1, Ordering::Relaxed));
                    let url = node.url(origin, &path);
                    runtime.block_on(node.fill.fetch(&url, wishes, node.deadline())).unwrap();
                }
            });
        }
        eventually("there is load", || answered.load(Ordering::Relaxed) > 20);
        let before = answered.load(Ordering::Relaxed);
        kill_half(&node);
        eventually("there is load again", || answered.load(Ordering::Relaxed) > before + 20);
        done.store(true, Ordering::Relaxed);
    });
    assert_eq!(node.metric("service_restarts_total", &["task=\"fill_worker\""]), 4);
    assert_eq!(node.stop().code, ron_kernel::ExitCode::Clean);
}

#[test]
fn the_budget_of_bytes_makes_fills_wait_for_each_other() {
    let gate = Arc::<Gate>::default();
    let held = Arc::clone(&gate);
    let origin = Origin::start(move |_, _| {
        let (text, gate) = (tagged("", vec![b'x'; 600 * 1024]), Arc::clone(&held));
        let (first, second) = text.split_at(1000);
        Act::Parts(first.to_vec(), Box::new(move || gate.pass()), second.to_vec())
    });
    let mut ground = Ground::new(vec![origin.entry()]);
    ground.config.fill.inflight_bytes = ByteSize::mib(1);
    ground.config.fill.max_object_bytes = ByteSize::mib(1);
    let node = Node::on(ground);
    let (urls, wishes) = ([node.url(&origin, "/0"), node.url(&origin, "/1")], wishes(""));
    let (both, ()) = node.block_on(async {
        let both = urls.iter().map(|url| node.fill.fetch(url, &wishes, node.deadline()));
        let opening = async {
            while origin.asked() < 2 {
                tokio::task::yield_now().await;
            }
            gate.open();
        };
        tokio::join!(join_all(both), opening)
    });
    assert!(both.iter().all(Result::is_ok), "{both:?}");
}

#[test]
fn an_origin_that_hangs_delays_no_other() {
    let (hanging, healthy) = (Origin::start(|_, _| Act::Hold), Origin::saying(tagged("", "body")));
    let mut ground = Ground::new(vec![hanging.entry(), healthy.entry()]);
    ground.config.fill.workers = 2;
    // Nothing comes of the fills that hang.
    ground.drain = Duration::from_millis(100);
    let node = Node::on(ground);
    for nth in 0..20 {
        node.fill.begin(&node.url(&hanging, &format!("/{nth}")), &wishes("")).unwrap();
    }
    eventually("it has as many fills as it may", || hanging.asked() == 2);
    for nth in 0..20 {
        let entry =
            node.fetch(&node.url(&healthy, &format!("/{nth}"))).expect("another origin is not delayed");
        assert_eq!(node.bytes(&entry), b"body");
    }
    assert_eq!(hanging.asked(), 2, "and it has no more than that");
}

#[test]
fn an_origin_that_announces_much_and_hangs_leaves_bytes_to_others() {
    let head = b"HTTP/1.1 200 OK\r\netag: \"t\"\r\ncontent-length: 1048576\r\n\r\n".to_vec();
    let hanging = Origin::start(move |_, _| Act::Say(head.clone()));
    let healthy = Origin::saying(tagged("", vec![b'x'; 900 * 1024]));
    let mut ground = Ground::new(vec![hanging.entry(), healthy.entry()]);
    ground.config.fill.inflight_bytes = ByteSize::mib(2);
    ground.config.fill.max_object_bytes = ByteSize::mib(1);
    ground.drain = Duration::from_millis(100);
    let node = Node::on(ground);
    for nth in 0..4 {
        node.fill.begin(&node.url(&hanging, &format!("/{nth}")), &wishes("")).unwrap();
    }
    eventually("it has been asked for all of them", || hanging.asked() == 4);
    let entry = node.fetch(&node.url(&healthy, "/x")).expect("another origin is not delayed");
    assert_eq!(entry.len, 900 * 1024);
}

#[test]
fn an_origin_that_keeps_failing_is_left_alone_for_a_moment_and_no_other_is() {
    let gone = nobody();
    let allow =
        AllowConfig { scheme: OriginScheme::Http, private: true, ..AllowConfig::new(&gone.to_string()) };
    let healthy = Origin::saying(tagged("", "body"));
    let mut ground = Ground::new(vec![allow, healthy.entry()]);
    ground.config.retry.live_fill.max_retries = 0;
    let node = Node::on(ground);
    let refused = |nth: u32| {
        let url = node.fill.url(&format!("{gone}/{nth}"), None).unwrap();
        node.fetch(&url).expect_err("nobody is there")
    };
    for nth in 0..5 {
        assert!(refused(nth).detail.contains("cannot be reached"), "{nth}");
    }
    let refusal = refused(5);
    assert!(refusal.detail.contains("left alone") && refusal.retry_after.is_some(), "{refusal:?}");
    assert!(node.fetch(&node.url(&healthy, "/x")).is_ok());
    eventually("it is asked again after a while", || {
        static NEXT: AtomicU32 = AtomicU32::new(100);
        refused(NEXT.fetch_add(1, Ordering::Relaxed)).detail.contains("cannot be reached")
    });
}
