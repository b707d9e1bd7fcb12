//! One part of a view: what is asked, and what counts as an answer.

use std::{
    pin::pin,
    sync::atomic::{AtomicUsize, Ordering},
    time::Duration,
};

use http::{
    HeaderMap, HeaderName, HeaderValue, Method, Uri,
    header::{ACCEPT, ACCEPT_ENCODING, ACCEPT_LANGUAGE, AUTHORIZATION, CONTENT_ENCODING, CONTENT_TYPE, HOST},
    request::Parts,
    uri::PathAndQuery,
};
use http_body::Body as _;
use http_body_util::BodyExt;
use ron_transport::{Body, Request, Response};
use serde::de::IgnoredAny;
use types::{Deadline, Moment, Reason, Refusal};

use super::UpstreamSender;
use crate::PartConfig;

/// The maximum size of a part in bytes.
pub const MAX_PART_BYTES: usize = 1024 * 1024;
/// The deepest that the lists and objects of a part may be nested: what many parsers of JSON take, whose stack a deeper one
/// would overflow.
pub const MAX_PART_DEPTH: usize = 128;
/// The largest sum of parts; it is held in memory.
pub const MAX_VIEW_BYTES: usize = 4 * MAX_PART_BYTES;

/// When there may be memory for an answer again.
const WHEN_READ: Duration = Duration::from_secs(1);

/// What a part's request has of the client's: who asks, in which language, on whose behalf, and the way the request took.
const PASSED_ON: [HeaderName; 9] = [
    HOST,
    AUTHORIZATION,
    ACCEPT_LANGUAGE,
    HeaderName::from_static("x-corr-id"),
    HeaderName::from_static("traceparent"),
    HeaderName::from_static("tracestate"),
    HeaderName::from_static("x-forwarded-for"),
    HeaderName::from_static("x-forwarded-proto"),
    HeaderName::from_static("x-omnigate-tenant"),
];

/// A part, ready to be asked for.
#[derive(Debug)]
pub(super) struct Part {
    pub(super) name: String,
    pub(super) optional: bool,
    upstream: String,
    path: PathAndQuery,
    budget: Duration,
}

/// The reason why a part is missing.
#[derive(Debug)]
pub(super) struct Missing {
    refusal: Refusal,
    /// What the upstream answered, if it is that.
    status: Option<u16>,
}

/// What is left of the view's size, for all parts together: who comes first is served first.
#[derive(Debug)]
pub(super) struct Room<'a, S> {
    left: AtomicUsize,
    /// Who has the memory for them.
    memory: &'a S,
}

impl<'a, S: UpstreamSender> Room<'a, S> {
    pub(super) fn new(memory: &'a S) -> Self {
        Self { left: AtomicUsize::new(MAX_VIEW_BYTES), memory }
    }

    /// What one part has of it, given back if the part does not come.
    fn hold(&self) -> Held<'_, S> {
        Held { room: self, bytes: 0 }
    }
}

/// Room that one part has taken.
struct Held<'a, S: UpstreamSender> {
    room: &'a Room<'a, S>,
    bytes: usize,
}

impl<S: UpstreamSender> Held<'_, S> {
    /// Makes sure of `bytes` in all, and of the memory for them.
    ///
    /// # Errors
    /// If a part may not have so many, the others have left too few, or there is no memory.
    fn reach(&mut self, bytes: usize) -> Result<(), Missing> {
        let more = bytes.saturating_sub(self.bytes);
        let take = |left: usize| left.checked_sub(more);
        let fits = bytes <= MAX_PART_BYTES
            && self.room.left.fetch_update(Ordering::Relaxed, Ordering::Relaxed, take).is_ok();
        if !fits {
            return Err(Missing::bad(format!(
                "is too large: {MAX_PART_BYTES} bytes at most, {MAX_VIEW_BYTES} for all parts"
            )));
        }
        if !self.room.memory.reserve(more) {
            self.room.left.fetch_add(more, Ordering::Relaxed);
            return Err(Missing { refusal: no_memory(), status: None });
        }
        self.bytes += more;
        Ok(())
    }

    /// The part came, and stays.
    fn keep(mut self) {
        self.bytes = 0;
    }
}

impl<S: UpstreamSender> Drop for Held<'_, S> {
    fn drop(&mut self) {
        self.room.left.fetch_add(self.bytes, Ordering::Relaxed);
        self.room.memory.give_back(self.bytes);
    }
}

/// What the client of a view is told for which there is no memory.
pub(crate) fn no_memory() -> Refusal {
    Refusal::new(Reason::Busy, "too many responses are unread").retry_after(WHEN_READ)
}

impl Part {
    pub(super) fn new(config: &PartConfig) -> Self {
        Self {
            name: config.name.clone(),
            optional: config.optional,
            upstream: config.upstream.clone(),
            path: config.path.as_path_and_query().clone(),
            budget: config.budget.as_duration(),
        }
    }

    /// When its budget ends, for a view that began then.
    pub(super) fn deadline(&self, began: Moment) -> Deadline {
        Deadline::within(began, self.budget)
    }

    /// The part as JSON text.
    ///
    /// Cancel safe: dropping the future ends the exchange.
    pub(super) async fn fetch<S: UpstreamSender>(
        &self,
        view: &Parts,
        upstreams: &S,
        deadline: Deadline,
        room: &Room<'_, S>,
    ) -> Result<String, Missing> {
        let request = self.request(view);
        let response = upstreams.send(&self.upstream, request, deadline).await;
        let response = response.map_err(|refusal| Missing { refusal, status: None })?;
        check_head(&response)?;
        let mut held = room.hold();
        let json = read(response.into_body(), &mut held).await?;
        // Checked and not parsed: it goes on as it came.
        if serde_json::from_str::<IgnoredAny>(&json).is_err() {
            return Err(Missing::bad("is not JSON, though it says so"));
        }
        if depth(&json) > MAX_PART_DEPTH {
            return Err(Missing::bad(format!("is nested deeper than {MAX_PART_DEPTH} levels")));
        }
        held.keep();
        Ok(json)
    }

    fn request(&self, view: &Parts) -> Request {
        let mut request = Request::new(Body::empty());
        *request.method_mut() = Method::GET;
        *request.uri_mut() = Uri::from(self.path_with(view.uri.query()));
        let headers = request.headers_mut();
        for name in &PASSED_ON {
            if let Some(value) = view.headers.get(name) {
                headers.insert(name.clone(), value.clone());
            }
        }
        headers.insert(ACCEPT, HeaderValue::from_static("application/json"));
        // Parts are embedded as they are, so they must not come packed.
        headers.insert(ACCEPT_ENCODING, HeaderValue::from_static("identity"));
        request
    }

    /// A path with a query of its own keeps it untouched: nobody can add to what the operator has fixed.
    fn path_with(&self, query: Option<&str>) -> PathAndQuery {
        match query {
            Some(query) if self.path.query().is_none() => {
                let joined = PathAndQuery::try_from(format!("{}?{query}", self.path.path()));
                joined.unwrap_or_else(|_| self.path.clone())
            }
            _ => self.path.clone(),
        }
    }

    /// What a client is told if the view cannot do without.
    pub(super) fn refusal(&self, missing: Missing) -> Refusal {
        let Missing { mut refusal, .. } = missing;
        refusal.detail = format!("part `{}`: {}", self.name, refusal.detail).into();
        refusal
    }
}

impl Missing {
    /// It did not come in time.
    pub(super) fn late() -> Self {
        let refusal = Refusal::new(Reason::DownstreamTimeout, "did not come in time");
        Self { refusal, status: None }
    }

    fn bad(what: impl Into<std::borrow::Cow<'static, str>>) -> Self {
        Self { refusal: Refusal::new(Reason::BadGateway, what), status: None }
    }

    /// Its entry in the list of what is missing.
    pub(super) fn entry(&self, part: &str) -> serde_json::Value {
        let mut entry = serde_json::json!({ "part": part, "reason": self.refusal.reason.as_str() });
        if let Some(status) = self.status {
            entry["status"] = status.into();
        }
        entry
    }
}

/// Only a success with plain JSON counts.
fn check_head(response: &Response) -> Result<(), Missing> {
    let status = response.status();
    if !status.is_success() {
        let missing = Missing::bad(format!("the upstream answered {}", status.as_u16()));
        return Err(Missing { status: Some(status.as_u16()), ..missing });
    }
    if !is_json(response.headers()) {
        return Err(Missing::bad("is not application/json"));
    }
    let coding = response.headers().get(CONTENT_ENCODING);
    if coding.is_some_and(|coding| !coding.as_bytes().eq_ignore_ascii_case(b"identity")) {
        return Err(Missing::bad("is compressed, which it was asked not to be"));
    }
    Ok(())
}

/// Whether the content is `application/json`, with whatever parameters.
fn is_json(headers: &HeaderMap) -> bool {
    let content_type = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let essence = content_type.split(';').next().unwrap_or_default().trim();
    essence.eq_ignore_ascii_case("application/json")
}

/// How deep the lists and objects of a JSON text are nested.
fn depth(json: &str) -> usize {
    let (mut now, mut deepest, mut in_string, mut escaped) = (0_usize, 0, false, false);
    for byte in json.bytes() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b'"' => in_string = !in_string,
            _ if in_string => {}
            b'[' | b'{' => {
                now += 1;
                deepest = deepest.max(now);
            }
            b']' | b'}' => now = now.saturating_sub(1),
            _ => {}
        }
    }
    deepest
}

async fn read<S: UpstreamSender>(body: Body, held: &mut Held<'_, S>) -> Result<String, Missing> {
    // What is announced is taken at once, so that parts do not spoil each other halfway.
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    held.reach(announced)?;
    let mut json = Vec::with_capacity(announced);
    let mut body = pin!(body);
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            tracing::debug!(%error, "a part of a view broke off");
            Missing::bad("broke off")
        })?;
        if let Ok(data) = frame.into_data() {
            held.reach(json.len() + data.len())?;
            json.extend_from_slice(&data);
        }
    }
    String::from_utf8(json).map_err(|_| Missing::bad("is not UTF-8, as JSON must be"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn brackets_in_strings_are_not_levels() {
        for (json, expected) in [
            ("1", 0),
            ("[]", 1),
            (r#"{"a":[1,{"b":2}],"c":[]}"#, 3),
            (r#"["[[[[", "\"[[", "\\", [2]]"#, 2),
            (r#""\\\"[[""#, 0),
        ] {
            assert_eq!(depth(json), expected, "{json}");
        }
    }
}
