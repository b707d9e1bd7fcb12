//! A stored response, and the answers that are made of it.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use httpcache::{
    answer::{Answer, Part},
    status::CacheStatus,
    storage,
    variant::Variant,
};
use httprules::freshness::Stored;
use ron_transport::{Body, Response};
use types::ObjectId;

use super::shares::Charge;

/// `Cache-Status`.
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
    pub(super) head: Head,
    /// `None` if it has no bytes.
    pub(super) body: Option<ObjectId>,
    pub(super) len: u64,
    pub(super) charge: Arc<Charge>,
}

impl Head {
    /// How many bytes it takes, about.
    pub(super) fn weight(&self) -> u64 {
        let fields: usize =
            self.headers.iter().map(|(name, value)| 64 + name.as_str().len() + value.len()).sum();
        (512 + self.partition.len() + self.variant.weight() + fields) as u64
    }

    /// The response of which this is the head, with its age at `now` in seconds since 1970.
    pub(super) fn response(&self, body: Body, now: u64) -> Response {
        let mut response = Response::new(body);
        *response.status_mut() = self.status;
        *response.headers_mut() = self.headers.clone();
        response.headers_mut().insert(header::AGE, HeaderValue::from(self.freshness.age_at(now)));
        response
    }

    /// For how many more seconds it is fresh at `now`; negative if it is stale.
    pub(super) fn ttl(&self, now: u64) -> i64 {
        let [lifetime, age] = [self.freshness.lifetime(), self.freshness.age_at(now)]
            .map(|seconds| i64::try_from(seconds).unwrap_or(i64::MAX));
        lifetime.saturating_sub(age)
    }
}

impl Entry {
    /// The answer to a request that gets this of it; `bytes` are all that is stored.
    pub(super) fn response(&self, answer: &Answer, bytes: &Bytes, is_head: bool, now: u64) -> Response {
        let (status, body, range) = match answer {
            Answer::Whole | Answer::NotStored => (self.head.status, bytes.clone(), None),
            Answer::Part(part, range) => {
                (StatusCode::PARTIAL_CONTENT, bytes.slice(in_memory(part)), Some(range.to_string()))
            }
            Answer::NotModified => (StatusCode::NOT_MODIFIED, Bytes::new(), None),
            Answer::Failed => (StatusCode::PRECONDITION_FAILED, Bytes::new(), None),
            Answer::Unsatisfiable(len) => {
                (StatusCode::RANGE_NOT_SATISFIABLE, Bytes::new(), Some(format!("bytes */{len}")))
            }
        };
        let len = body.len();
        let body = if is_head { Body::empty() } else { body.into() };
        let mut response = self.head.response(body, now);
        *response.status_mut() = status;
        let headers = response.headers_mut();
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

/// Says in a response what the cache did, and takes out what is for caches alone.
pub(super) fn tell(response: &mut Response, status: &CacheStatus) {
    let headers = response.headers_mut();
    storage::strip_targeted(headers);
    let earlier: Vec<&str> =
        headers.get_all(CACHE_STATUS).iter().filter_map(|value| value.to_str().ok()).collect();
    if let Ok(value) = HeaderValue::from_str(&status.behind(&earlier.join(", "))) {
        headers.insert(CACHE_STATUS, value);
    }
}

fn in_memory(range: &Range<u64>) -> Range<usize> {
    let index = |at: u64| usize::try_from(at).unwrap_or(usize::MAX);
    index(range.start)..index(range.end)
}
