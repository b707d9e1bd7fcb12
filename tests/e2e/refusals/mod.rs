//! Every reason for which a request is refused: its status, its document, its count.

mod bodies;
mod credentials;
mod overload;
mod requests;
mod upstreams;

use crate::support::{Answer, Node};

/// A request and what it gets.
struct Row<'a> {
    what: &'a str,
    request: String,
    status: u16,
    reason: &'a str,
}

/// Asks each on a connection of its own, and looks whether it is refused as it should be, and counted.
fn check_rows(node: &Node, rows: &[Row<'_>]) {
    for Row { what, request, status, reason } in rows {
        let before = node.rejected(reason);
        let answer =
            crate::support::ask(node.gateway, request).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_refused(what, &answer, *status, reason);
        assert_eq!(node.rejected(reason), before + 1.0, "{what}: counted once as {reason}");
    }
}

/// What every refusal is, whatever it is for.
#[track_caller]
fn assert_refused(what: &str, answer: &Answer, status: u16, reason: &str) {
    assert_eq!(answer.status, status, "{what}: {answer:?}");
    assert_eq!(answer.header("content-type"), Some("application/problem+json"), "{what}: {answer:?}");
    assert_eq!(answer.header("cache-control"), Some("no-store"), "{what}: {answer:?}");
    let document = answer.json();
    assert_eq!(document["status"], status, "{what}");
    assert_eq!(document["reason"], reason, "{what}: {document}");
    assert_eq!(document["corr_id"].as_str(), answer.header("x-corr-id"), "{what}");
    assert!(answer.header("x-corr-id").is_some_and(|id| !id.is_empty()), "{what}: {answer:?}");
    let retry_after = document["retry_after"].as_u64().map(|seconds| seconds.to_string());
    assert_eq!(retry_after.as_deref(), answer.header("retry-after"), "{what}");
}

/// The same for one that says when to come back. Returns that, in milliseconds.
#[track_caller]
fn assert_refused_for_now(what: &str, answer: &Answer, status: u16, reason: &str) -> u64 {
    assert_refused(what, answer, status, reason);
    let document = answer.json();
    let millis = document["retry_after_ms"].as_u64().unwrap_or_else(|| panic!("{what}: {document}"));
    let seconds: u64 = answer.header("retry-after").unwrap().parse().unwrap();
    assert!(seconds >= 1 && seconds * 1000 >= millis, "{what}: {document}");
    millis
}
