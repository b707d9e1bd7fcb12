//! The door: rates, places, bodies.

use crate::support::{Running, noise, write};

#[test]
fn a_client_that_asks_too_often_is_told_when_to_come_back() {
    let edge = Running::start(
        |dir| write(&dir.join("public/a.txt"), b"a"),
        |config| {
            config.roots.push(svc_edge::RootConfig::new("public".into()));
            config.ingress.rps_limit = 1;
        },
    );
    // All at once: one after the other, on a busy machine, they would not be too many.
    let answers: Vec<_> = std::thread::scope(|scope| {
        #[expect(clippy::needless_collect, reason = "all are started before the first is waited for")]
        let asking: Vec<_> = (0..16).map(|_| scope.spawn(|| edge.get("/edge/assets/a.txt"))).collect();
        asking.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    let refused: Vec<_> = answers.iter().filter(|answer| answer.status == 429).collect();
    assert!(refused.len() >= 3, "{answers:?}");
    assert_eq!((refused[0].reason().as_str(), refused[0].header("retry-after")), ("quota", "1"));
    let counted = edge.metric("edge_rejects_total{node=\"test\",service=\"edge\",reason=\"rate_limit\"}");
    assert_eq!(counted, refused.len() as f64);
}

#[test]
fn a_body_that_is_too_long_is_refused_unread() {
    let edge = Running::with_files(&[("a.txt", b"a")]);
    let answer = edge.ask("GET", "/edge/assets/a.txt", &[("content-length", "1048577")]);
    assert_eq!((answer.status, answer.reason().as_str()), (413, "body_cap"));
}

#[test]
fn what_is_being_sent_holds_no_place_and_has_a_limit_of_its_own() {
    let edge = Running::start(
        |dir| write(&dir.join("public/large.bin"), &noise(20 * 1024 * 1024)),
        |config| {
            config.roots.push(svc_edge::RootConfig::new("public".into()));
            config.ingress.max_inflight = 1;
        },
    );
    // Eight for each place, of which one client has three quarters.
    let slow: Vec<_> = (0..6)
        .map(|_| {
            let mut slow = edge.open("/edge/assets/large.bin");
            crate::support::read_head(&mut slow);
            slow
        })
        .collect();
    assert_eq!(edge.get("/edge/assets/other").status, 404, "there is a place");
    let answer = edge.get("/edge/assets/large.bin");
    assert_eq!((answer.status, answer.reason().as_str()), (429, "busy"));
    assert_eq!(answer.header("retry-after"), "1");
    drop(slow);
    crate::support::eventually("they are gone", || {
        edge.ask("GET", "/edge/assets/large.bin", &[]).status == 200
    });
}

#[test]
fn usage_is_booked_as_it_is_sent() {
    let edge = Running::with_files(&[("a.txt", b"0123456789")]);
    edge.get("/edge/assets/a.txt");
    edge.get_with("/edge/assets/a.txt", &[("range", "bytes=0-2")]);
    edge.ask("HEAD", "/edge/assets/a.txt", &[]);
    let of = |metric: &str| {
        let totals = edge.scope.meters().totals();
        totals.iter().find(|(_, name, _)| *name == metric).map_or(0, |(_, _, total)| *total)
    };
    crate::support::eventually("all of it is booked", || {
        of("provided.requests") >= 3 && of("provided.bytes") >= 13
    });
    assert_eq!((of("provided.requests"), of("provided.bytes")), (3, 13));
}
