//! The HTTP interface: every status that it promises.

use crate::support::{Running, Wish};

#[test]
fn what_is_not_there_is_not_found_and_what_is_not_over_is_a_conflict() {
    let running = Running::start();
    let future = "/rewarder/epochs/9007199254740991";
    for (method, path, status) in [
        ("GET", "/rewarder/epochs/7", 404),
        ("GET", "/rewarder/epochs/7/proof/alice", 404),
        ("GET", "/rewarder/epochs/7/files/run.json", 404),
        ("GET", "/rewarder/policy/none", 404),
        ("GET", "/rewarder/nothing", 404),
        ("POST", "/rewarder/epochs/7/compute", 404),
        ("POST", format!("{future}/compute").as_str(), 409),
        ("GET", "/rewarder/epochs/7/proof/two%20words", 400),
        ("GET", "/rewarder/epochs?limit=0", 400),
        ("GET", "/rewarder/epochs?limit=101", 400),
        ("GET", "/rewarder/epochs?before=x", 400),
        ("GET", "/rewarder/epochs?limit=100&before=9007199254740991", 200),
        ("DELETE", "/rewarder/epochs/7", 405),
        ("GET", "/rewarder/epochs/7/compute", 405),
        ("GET", "/rewarder/openapi.json", 200),
    ] {
        let answer = running.ask(method, path, &[], b"");
        assert_eq!(answer.status, status, "{method} {path}: {answer:?}");
        assert_eq!(answer.header("content-type").contains("problem"), status >= 400, "{method} {path}");
        if status == 405 {
            assert!(!answer.header("allow").is_empty(), "{method} {path}");
        }
    }
}

#[test]
fn bodies_are_bounded_and_of_one_kind() {
    let running = Running::with(Wish { with_policy: false, ..Wish::default() }, |config| {
        config.limits.max_body_bytes = ron_kernel::config::ByteSize::bytes(100);
    });
    let ask = |kind: &str, body: &[u8]| {
        running.ask("POST", "/rewarder/epochs/7/compute", &[("content-type", kind)], body)
    };
    assert_eq!(ask("application/json", &[b'x'; 101]).status, 413);
    assert_eq!(ask("text/plain", b"{}").status, 415);
    assert_eq!(ask("application/json", b"{").status, 400);
    assert_eq!(ask("application/json", br#"{"other":1}"#).status, 400);
    assert_eq!(
        ask("application/json; charset=utf-8", b"{}").status,
        404,
        "well said, of an epoch that is not there"
    );
}

#[test]
fn bodies_say_what_they_mean_and_nothing_else() {
    let running = Running::start();
    let compute = |body: &str| {
        let fields = [("content-type", "application/json")];
        running.ask("POST", "/rewarder/epochs/7/compute", &fields, body.as_bytes()).status
    };
    let hash = format!("b3k:{}", "0".repeat(64));
    assert_eq!(compute(&format!(r#"{{"inputs":"{hash}","policy":null}}"#)), 404, "well said");
    for wrong in [
        "[]",
        r#"[null, null]"#,
        "null",
        "7",
        r#"{"inputs":"all of them"}"#,
        r#"{"policy":""}"#,
        r#"{"policy":7}"#,
        r#"{"inputs":null,"inputs":null}"#,
        "{} {}",
    ] {
        assert_eq!(compute(wrong), 400, "{wrong}");
    }
    let reconcile = running.ask("POST", "/rewarder/epochs/7/reconcile", &[], b"{}");
    assert_eq!(reconcile.status, 400, "{reconcile:?}");
    let put = running.ask("PUT", "/rewarder/policy/default", &[("content-type", "text/html")], b"{}");
    assert_eq!(put.status, 415, "{put:?}");
}

#[test]
fn a_folder_of_an_epoch_is_no_file_of_it() {
    let running = Running::start();
    running.book("alice", 1);
    let epoch = running.wait_for(None, "settled")["epoch"].clone();
    for name in ["snapshots", "attestations", "nothing"] {
        let answer = running.get(&format!("/rewarder/epochs/{epoch}/files/{name}"));
        assert_eq!((answer.status, answer.reason().as_str()), (404, "not_found"), "{name}: {answer:?}");
    }
}

#[test]
fn every_answer_has_a_correlation_id() {
    let running = Running::start();
    let given = running.ask("GET", "/rewarder/epochs/7", &[("x-corr-id", "mine-7")], b"");
    assert_eq!((given.header("x-corr-id"), &given.json()["corr_id"]), ("mine-7", &"mine-7".into()));
    let own = running.get("/rewarder/epochs/7");
    assert_eq!(own.header("x-corr-id").len(), 32, "{own:?}");
    assert_eq!(own.json()["corr_id"], own.header("x-corr-id"));
    assert!(!running.get("/rewarder/epochs").header("x-corr-id").is_empty(), "also where nothing is refused");
}

#[test]
fn open_epochs_are_listed() {
    let running = Running::with(Wish::default(), |config| config.automatic = false);
    running.book("alice", 1);
    crate::support::eventually("the node has sealed an epoch", || {
        running.epochs().first().is_some_and(|epoch| epoch["state"] == "open")
    });
    let epoch = running.epochs()[0]["epoch"].as_u64().unwrap();
    let before = running.get(&format!("/rewarder/epochs?limit=1&before={}", epoch + 1)).json();
    assert_eq!((&before["epochs"][0]["epoch"], &before["next"]), (&epoch.into(), &epoch.into()), "{before}");
    running.ask("POST", &format!("/rewarder/epochs/{epoch}/compute"), &[], b"");
    running.wait_for(Some(epoch), "settled");
    let listed: Vec<_> = running.epochs().iter().filter(|one| one["epoch"] == epoch).cloned().collect();
    assert_eq!((listed.len(), &listed[0]["state"]), (1, &"settled".into()), "{listed:?}");
}

#[test]
fn when_every_place_is_taken_a_request_is_told_to_come_back() {
    let running = Running::with(Wish::default(), |config| config.concurrency.io_inflight = 0);
    for asked in 1..=3 {
        let refused = running.get("/rewarder/epochs");
        assert_eq!((refused.status, refused.reason().as_str()), (429, "busy"), "{refused:?}");
        assert!(!refused.header("retry-after").is_empty(), "{refused:?}");
        let counted = running.metric("rejected_total{node=\"test\",service=\"rewarder\",reason=\"busy\"}");
        assert_eq!(counted, f64::from(asked));
    }
    assert_eq!(running.get("/rewarder/openapi.json").status, 200, "what is not stored needs no place");
    let running = Running::with(Wish::default(), |config| config.concurrency.io_inflight = 1);
    for _ in 0..3 {
        assert_eq!(running.get("/rewarder/epochs").status, 200, "the place is given back");
    }
}

#[test]
fn a_draining_rewarder_takes_no_more_work() {
    let running = Running::start();
    running.scope.shutdown().request("the test says so");
    crate::support::eventually("it drains", || running.scope.shutdown().is_draining());
    // Either the listener is gone already, or the request is refused as one of a draining node. Without a drain it would
    // be 404.
    match running.try_ask("POST", "/rewarder/epochs/7/compute") {
        Ok(Some(answer)) => assert_eq!((answer.status, answer.reason().as_str()), (503, "draining")),
        Ok(None) => {}
        Err(error) => {
            use std::io::ErrorKind::{BrokenPipe, ConnectionRefused, ConnectionReset};
            assert!([BrokenPipe, ConnectionRefused, ConnectionReset].contains(&error.kind()), "{error}");
        }
    }
}
