//! A stored response, and the answers that are made of it.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use httpcache::{
    answer::{Answer, Part},
    partial,
    record::StoredResponse,
    status::CacheStatus,
    storage::{self, Rules},
    variant::{Variant, VariantKey},
};
use httprules::freshness::{Stored, Time};
use ron_transport::{Body, Response};
use types::ObjectId;

use super::{journal::Record, restore, shares::Charge};
use crate::message::Field;

/// The name of the field `Cache-Status` (RFC 9211).
const CACHE_STATUS: HeaderName = HeaderName::from_static("cache-status");

/// What is known of a response besides its body.
#[derive(Clone, Debug)]
pub(crate) struct Head {
    /// The route, the tenant and whatever else its server was told that is no field of the client: see `Ask`.
    pub(super) partition: Arc<[u8]>,
    pub(super) variant: Variant,
    pub(super) status: StatusCode,
    pub(super) headers: HeaderMap,
    pub(super) freshness: Stored,
    /// `None` if all of it is stored.
    pub(super) part: Option<Part>,
}

/// A stored response.
#[derive(Debug)]
pub(crate) struct Entry {
    /// The target as clients name it.
    pub(super) key: Arc<str>,
    pub(super) head: Head,
    /// `None` if it has no bytes.
    pub(super) body: Option<ObjectId>,
    pub(super) len: u64,
    pub(super) charge: Arc<Charge>,
    /// Its place on the disk; `None` if it is stored in memory alone.
    pub(super) record: Option<Record>,
}

impl Head {
    /// How many bytes it takes, about.
    pub(super) fn weight(&self) -> u64 {
        let fields: usize =
            self.headers.iter().map(|(name, value)| 64 + name.as_str().len() + value.len()).sum();
        (512 + self.partition.len() + self.variant.weight() + fields) as u64
    }

    /// The response of which this is the head, with its age at `now`.
    pub(super) fn response(&self, body: Body, now: Time) -> Response {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response.headers_mut().insert(header::AGE, HeaderValue::from(self.freshness.age_at(now)));
        response
    }

    /// For how many more seconds it is fresh at `now`; negative if it is stale.
    pub(super) fn ttl(&self, now: Time) -> i64 {
        let [lifetime, age] = [self.freshness.lifetime(), self.freshness.age_at(now)]
            .map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        lifetime.saturating_sub(age)
    }
}

impl Entry {
    /// Whether it is on the disk.
    pub(super) fn is_on_disk(&self) -> bool {
        self.record.as_ref().is_some_and(Record::is_written)
    }

    /// Has it removed from the disk, or not written there. Whether there is anything to wait for.
    pub(super) fn leave_disk(&self) -> bool {
        self.record.as_ref().is_some_and(Record::remove)
    }

    /// The same response with another head, in a place of its own on the disk.
    pub(super) fn with_head(&self, head: Head) -> Arc<Self> {
        Arc::new(Self {
            key: Arc::clone(&self.key),
            head,
            body: self.body,
            len: self.len,
            charge: Arc::clone(&self.charge),
            record: self.record.as_ref().map(Record::another),
        })
    }

    /// What the disk is told of it; values that select it are hashed with `key`.
    pub(super) fn stored(&self, key: &Arc<VariantKey>) -> StoredResponse {
        let head = &self.head;
        StoredResponse {
            key: Arc::clone(&self.key),
            partition: Arc::clone(&head.partition),
            tenant: restore::tenant_name(&self.charge.tenant),
            variant: head.variant.hashed(key),
            status: head.status,
            headers: head.headers.clone(),
            freshness: head.freshness,
            part: head.part.clone(),
            body: self.body.map(|body| *body.as_bytes()),
            len: self.len,
        }
    }

    /// The answer to a request that gets this of it; `bytes` are all that is stored, if the answer has any of them.
    pub(super) fn response(&self, answer: &Answer, bytes: &Bytes, is_head: bool, now: Time) -> Response {
        let (status, part, range) = match answer {
            Answer::Whole | Answer::NotStored => (self.head.status, 0..self.len, None),
            Answer::Part(part, range) => (StatusCode::PARTIAL_CONTENT, part.clone(), Some(range.to_string())),
            Answer::NotModified => (StatusCode::NOT_MODIFIED, 0..0, None),
            Answer::Failed => (StatusCode::PRECONDITION_FAILED, 0..0, None),
            Answer::Unsatisfiable(len) => {
                (StatusCode::RANGE_NOT_SATISFIABLE, 0..0, Some(format!("bytes */{len}")))
            }
        };
        let len = part.end - part.start;
        let body = if is_head || len == 0 { Body::empty() } else { bytes.slice(in_memory(&part)).into() };
        let mut response = self.head.response(body, now);
        *response.status_mut() = status;
        let headers = response.headers_mut();
        if !matches!(answer, Answer::Whole) {
            partial::strip_content(headers);
        }
        match answer {
            Answer::Whole | Answer::NotStored => {}
            Answer::NotModified => drop(headers.remove(header::CONTENT_LENGTH)),
            _ => drop(headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len))),
        }
        if let Some(range) = range.and_then(|range| HeaderValue::from_str(&range).ok()) {
            headers.insert(header::CONTENT_RANGE, range);
        }
        response
    }
}

/// Whether an answer has bytes of the body in it.
pub(super) fn has_bytes(answer: &Answer, is_head: bool) -> bool {
    !is_head && matches!(answer, Answer::Whole | Answer::Part(..))
}

/// Says in a response what the cache did, and takes out what is for caches alone.
pub(super) fn tell(response: &mut Response, status: &CacheStatus, rules: &Rules) {
    let headers = response.headers_mut();
    storage::strip_targeted(headers, rules);
    let earlier = headers.get_all(CACHE_STATUS).iter().filter_map(|value| value.to_str().ok());
    if let Ok(value) = HeaderValue::from_maybe_shared(Bytes::from(status.behind(earlier))) {
        headers.insert(CACHE_STATUS, value);
    }
}

/// Makes places among the fields of a stored response for those that every answer gets, so that a copy of them has not to grow.
pub(super) fn make_places(headers: &mut HeaderMap) {
    for name in [&header::AGE, &CACHE_STATUS, Field::CorrId.name()] {
        if !headers.contains_key(name) {
            headers.insert(name, HeaderValue::from_static(""));
        }
    }
}

fn in_memory(range: &Range<u64>) -> Range<usize> {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    index(range.start)..index(range.end)
}
