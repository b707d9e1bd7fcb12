//! Answers as documents.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use rewards::ExclusionNotice;
use ron_transport::{Body, Response, problem};
use serde_json::{Value, json};
use types::{Reason, Refusal};

use super::route::Route;
use crate::{
    registry::Progress,
    store::{Listed, Record, State},
};

/// A document in JSON that may change.
pub(super) fn document(status: StatusCode, value: &Value) -> Response {
    let mut response = bytes(Bytes::from(value.to_string()), "application/json");
    *response.status_mut() = status;
    response
}

/// Bytes of a kind that may change.
pub(super) fn bytes(bytes: Bytes, kind: &'static str) -> Response {
    let mut response = Response::new(Body::from(bytes));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(kind));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    response
}

/// The same answer for something that does not change any more, under a tag; or that the client has it.
pub(super) fn tagged(mut response: Response, tag: &str, request: &http::HeaderMap) -> Response {
    let tag = format!("\"{tag}\"");
    let known = request.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    let has = known.flat_map(|value| value.split(',')).any(|known| {
        let known = known.trim();
        known == "*" || known.strip_prefix("W/").unwrap_or(known) == tag
    });
    if has {
        *response.status_mut() = StatusCode::NOT_MODIFIED;
        *response.body_mut() = Body::empty();
        response.headers_mut().remove(header::CONTENT_TYPE);
    }
    let headers = response.headers_mut();
    headers.insert(header::ETAG, HeaderValue::try_from(tag).unwrap_or(HeaderValue::from_static("\"\"")));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-cache"));
    response
}

/// A refusal, with what may be done instead if the method was wrong.
pub(super) fn refusal(refusal: &Refusal, route: Option<&Route>, corr_id: &HeaderValue) -> Response {
    let mut response = problem::response_to(refusal, corr_id);
    if let Some(route) = route.filter(|_| refusal.reason == Reason::MethodNotAllowed) {
        response.headers_mut().insert(header::ALLOW, HeaderValue::from_static(route.methods()));
    }
    response
}

/// An epoch in a list.
pub(super) fn summary(record: &Record) -> Value {
    json!({
        "epoch": record.epoch,
        "state": record.state.as_str(),
        "reason": record.reason,
        "inputs": record.inputs,
        "policy": record.policy,
        "run_key": record.run_key,
        "commitment": record.commitment,
        "batches": record.batches,
        "batches_posted": record.posted,
        "retired_at": record.retired_at,
    })
}

/// An epoch with everything that is known of it.
pub(super) fn whole(
    record: &Record,
    manifest: Option<&[u8]>,
    progress: Option<&Progress>,
    listed: Value,
) -> Value {
    let mut value = summary(record);
    let (rows, rows_total) = progress.map_or((0, 0), Progress::rows);
    value["progress"] = json!({
        "rows": rows,
        "rows_total": rows_total,
        "batches": record.batches,
        "batches_posted": record.posted,
        "in_work": progress.is_some(),
    });
    value["snapshots"] = listed;
    value["manifest"] = manifest.and_then(|bytes| serde_json::from_slice(bytes).ok()).unwrap_or(Value::Null);
    value
}

/// An epoch in a list whose inputs are not closed.
pub(super) fn open_summary(epoch: u64) -> Value {
    json!({
        "epoch": epoch, "state": "open", "reason": null, "inputs": null, "policy": null, "run_key": null,
        "commitment": null, "batches": 0, "batches_posted": 0, "retired_at": null,
    })
}

/// An epoch whose inputs are not closed.
pub(super) fn open(epoch: u64, listed: Value) -> Value {
    json!({
        "epoch": epoch, "state": "open", "reason": null, "inputs": null, "policy": null, "run_key": null,
        "commitment": null, "batches": 0, "batches_posted": 0, "retired_at": null,
        "progress": { "rows": 0, "rows_total": 0, "batches": 0, "batches_posted": 0, "in_work": false },
        "snapshots": listed, "manifest": null, "files": [],
    })
}

/// The snapshots of an epoch, and whether each counts; those that came late do not.
pub(super) fn snapshots(listed: &[Listed], closed: Option<&[Listed]>) -> Value {
    let one = |snapshot: &Listed| {
        let counts = closed.map(|closed| closed.contains(snapshot));
        json!({ "node": snapshot.node, "object": snapshot.object, "counts": counts })
    };
    listed.iter().map(one).collect()
}

/// The snapshots of a closed epoch without those that `excluded.json` says are left out.
pub(super) fn counting(mut closed: Vec<Listed>, excluded: Option<&[u8]>) -> Vec<Listed> {
    let notice = excluded.and_then(|bytes| ExclusionNotice::read(bytes).ok());
    let excluded = notice.map(|notice| notice.excluded).unwrap_or_default();
    closed.retain(|listed| !excluded.iter().any(|one| one.snapshot.node.as_str() == listed.node));
    closed
}

/// Whether what is said of an epoch will not change.
pub(super) fn final_tag(record: &Record) -> Option<&str> {
    // What is parked may be released.
    record.commitment.as_deref().filter(|_| record.state == State::Settled && record.reason.is_none())
}
