//! What the edge tells of its requests, if traces are exported.

use std::time::Duration;

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, StatusCode, request::Parts};
use ron_kernel::spans::{Attribute, Span, SpanIds, Spans};
use ron_transport::{
    corr_id,
    traceparent::{TRACEPARENT, TraceIds, TraceParent},
};

use crate::topology::TOPOLOGY;

/// Tells of one core's requests.
#[derive(Debug)]
pub(crate) struct Teller {
    spans: Spans,
    ids: TraceIds,
}

impl Teller {
    pub(crate) fn new(spans: Spans) -> Self {
        Self { spans, ids: TraceIds::new() }
    }

    /// Where the span of a request belongs; `None` if nobody wants to hear of it.
    pub(crate) fn begin(&self, headers: &HeaderMap) -> Option<SpanIds> {
        if !self.spans.are_wanted() {
            return None;
        }
        let theirs = headers.get(TRACEPARENT).and_then(|value| TraceParent::parse(value.as_bytes()));
        let ours = match &theirs {
            Some(theirs) => self.ids.child(theirs),
            None => self.ids.root(|random| self.spans.record(random)),
        };
        let parent = theirs.as_ref().map(TraceParent::span_id);
        ours.is_recorded().then(|| SpanIds { trace: ours.trace_id(), span: ours.span_id(), parent })
    }

    /// What a request is called in its refusal: as its client calls it, by the trace it belongs to, or by an id of its own.
    pub(crate) fn corr_id(&self, headers: &HeaderMap) -> HeaderValue {
        if let Some(given) = corr_id::given(headers) {
            return given.clone();
        }
        let theirs = headers.get(TRACEPARENT).and_then(|value| TraceParent::parse(value.as_bytes()));
        let parent = Bytes::from_owner(theirs.unwrap_or_else(|| self.ids.root(|_| false)));
        HeaderValue::from_maybe_shared(parent.slice(TraceParent::TRACE_ID)).expect("digits")
    }

    /// Tells of a request whose answer has begun at `now`, since the Unix epoch.
    pub(crate) fn tell(
        &self,
        ids: SpanIds,
        (request, route): (&Parts, &str),
        status: StatusCode,
        (now, took): (Duration, Duration),
    ) {
        let text = |text: &str| Attribute::from(text.to_owned());
        self.spans.tell(Span {
            service: TOPOLOGY.service,
            name: format!("{} {route}", request.method),
            ids,
            began: now.saturating_sub(took),
            took,
            attributes: vec![
                ("http.request.method", text(request.method.as_str())),
                ("http.route", text(route)),
                ("url.path", Attribute::path(request.uri.path())),
                ("http.response.status_code", u64::from(status.as_u16()).into()),
            ],
            failed: status.is_server_error(),
        });
    }
}
