//! Correlation: an id that client, gateway and servers share for a request, and the W3C trace context around it.
//!
//! One allocation holds all that a request needs: the correlation id is the trace id inside its `traceparent`.

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};
use ron_kernel::spans::{SpanIds, Spans};
use ron_transport::{
    corr_id,
    traceparent::{TraceIds, TraceParent},
};

use crate::message::{Field, Survey};

/// Gives the requests of one core what correlates them.
#[derive(Debug, Default)]
pub(crate) struct Tracer {
    ids: TraceIds,
    spans: Spans,
}

/// The ids that correlate one request: correlation id, trace and span.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// The value of `X-Corr-ID`, here, upstream and in the response. Its characters need no escaping in logs.
    pub(crate) corr_id: HeaderValue,
    /// Where its span belongs, if that is to be exported.
    pub(crate) span: Option<SpanIds>,
    /// The value of `traceparent` upstream.
    parent: HeaderValue,
    /// Whether the client's `tracestate` belongs to somebody else's trace.
    drops_state: bool,
}

impl Tracer {
    /// With ids that no other core and no other run makes.
    pub(crate) fn new(spans: Spans) -> Self {
        Self { ids: TraceIds::new(), spans }
    }

    /// Returns the exporter of spans.
    pub(crate) fn spans(&self) -> &Spans {
        &self.spans
    }

    /// What correlates a request: the client's ids where they are well-formed, ours otherwise.
    pub(crate) fn trace(&self, headers: &HeaderMap, survey: &Survey) -> Trace {
        let fields = survey.fields;
        let theirs = if fields.has(Field::TraceParent) { known_parent(headers) } else { None };
        let wanted = self.spans.are_wanted();
        let ours = match &theirs {
            Some(theirs) => self.ids.child(theirs),
            // Servers may record what we do not, as long as nobody has said how much that is to be.
            None => self.ids.root(|random| !wanted || self.spans.record(random)),
        };
        let parent = Bytes::from_owner(ours);
        let given = if fields.has(Field::CorrId) { corr_id::given(headers).cloned() } else { None };
        Trace {
            corr_id: given.unwrap_or_else(|| value(parent.slice(TraceParent::TRACE_ID))),
            span: (wanted && ours.is_recorded()).then(|| SpanIds {
                trace: ours.trace_id(),
                span: ours.span_id(),
                parent: theirs.as_ref().map(TraceParent::span_id),
            }),
            parent: value(parent),
            drops_state: theirs.is_none() && fields.has(Field::TraceState),
        }
    }
}

impl Trace {
    /// Adds the ids to the request for the upstream.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(Field::CorrId.name(), self.corr_id.clone());
        headers.insert(Field::TraceParent.name(), self.parent.clone());
        if self.drops_state {
            headers.remove(Field::TraceState.name());
        }
    }

    /// Adds the correlation id to the response for the client.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        headers.insert(Field::CorrId.name(), self.corr_id.clone());
    }
}

fn value(bytes: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(bytes).expect("digits and dashes")
}

/// The client's `traceparent`, if it is well-formed.
fn known_parent(headers: &HeaderMap) -> Option<TraceParent> {
    TraceParent::parse(only(headers, Field::TraceParent)?.as_bytes())
}

/// The value of a field that is there once.
fn only(headers: &HeaderMap, field: Field) -> Option<&HeaderValue> {
    let mut values = headers.get_all(field.name()).iter();
    values.next().filter(|_| values.next().is_none())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_transport::Body;
    use std::collections::BTreeSet;

    /// The length of a `traceparent` of version 00, and where its parts stand.
    const PARENT_LEN: usize = 55;
    const TRACE_ID: std::ops::Range<usize> = 3..35;
    const SPAN_ID: std::ops::Range<usize> = 36..52;
    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    /// What correlates a request with these fields, and what its upstream sees.
    fn traced(ids: &Tracer, fields: &[(&str, &str)]) -> (Trace, HeaderMap) {
        let builder = http::Request::builder().uri("/").header("host", "h");
        let builder = fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        let request = builder.body(Body::empty()).unwrap();
        let trace = ids.trace(request.headers(), &Survey::of(&request));
        let mut headers = request.headers().clone();
        trace.write(&mut headers);
        (trace, headers)
    }

    #[test]
    fn a_request_without_ids_gets_some_that_belong_together() {
        let (trace, headers) = traced(&Tracer::default(), &[("tracestate", "a=b")]);
        let parent = headers["traceparent"].to_str().unwrap();
        assert_eq!(parent.len(), PARENT_LEN);
        assert!(parent.starts_with("00-") && parent.ends_with("-01"), "{parent}");
        assert_eq!(&parent[TRACE_ID], trace.corr_id.to_str().unwrap());
        assert_eq!(headers["x-corr-id"], trace.corr_id);
        assert!(!headers.contains_key("tracestate"), "a state without its trace");
        let ours = [("traceparent", parent)];
        assert_ne!(
            traced(&Tracer::default(), &ours).0.parent,
            trace.parent,
            "well-formed, so a child is made"
        );
        assert_eq!(traced(&Tracer::default(), &ours).0.corr_id, trace.corr_id);
    }

    #[test]
    fn ids_differ_from_request_to_request_and_from_core_to_core() {
        let cores = [Tracer::default(), Tracer::default()];
        let made = || cores.iter().map(|ids| traced(ids, &[]).1);
        let (mut ids, mut spans) = (BTreeSet::new(), BTreeSet::new());
        for headers in (0..1000).flat_map(|_| made()) {
            ids.insert(headers["x-corr-id"].clone());
            spans.insert(headers["traceparent"].as_bytes()[SPAN_ID].to_vec());
        }
        assert_eq!((ids.len(), spans.len()), (2000, 2000));
    }

    #[test]
    fn a_trace_goes_on_with_this_hop_as_the_caller() {
        let (trace, headers) = traced(&Tracer::default(), &[("traceparent", PARENT), ("tracestate", "a=b")]);
        let parent = headers["traceparent"].to_str().unwrap();
        assert_eq!(&parent[TRACE_ID], &PARENT[TRACE_ID]);
        assert_ne!(&parent[SPAN_ID], &PARENT[SPAN_ID]);
        assert!(parent.ends_with("-00"), "whether it is recorded is the client's choice");
        assert_eq!(trace.corr_id, &PARENT[TRACE_ID]);
        assert_eq!(headers["tracestate"], "a=b");
        let later = format!("01{}-more", &PARENT[2..]);
        assert_eq!(traced(&Tracer::default(), &[("traceparent", &later)]).0.corr_id, &PARENT[TRACE_ID]);
    }

    #[test]
    fn a_malformed_trace_is_begun_anew() {
        let zero_trace = format!("00-{}-b7ad6b7169203331-00", "0".repeat(32));
        let zero_span = format!("{}-{}-00", &PARENT[..35], "0".repeat(16));
        for parent in [
            "",
            &PARENT[1..],
            &PARENT.to_uppercase(),
            &PARENT.replace('-', "_"),
            &format!("{PARENT}-x"),
            &format!("ff{}", &PARENT[2..]),
            &format!("01{}x", &PARENT[2..]),
            &zero_trace,
            &zero_span,
        ] {
            let (trace, _) = traced(&Tracer::default(), &[("traceparent", parent)]);
            assert_ne!(trace.parent.as_bytes()[TRACE_ID], PARENT.as_bytes()[TRACE_ID], "{parent}");
            assert_ne!(trace.corr_id, "0".repeat(32));
        }
        let (trace, headers) =
            traced(&Tracer::default(), &[("traceparent", PARENT), ("traceparent", PARENT)]);
        assert_ne!(trace.corr_id, &PARENT[TRACE_ID]);
        assert_eq!(headers.get_all("traceparent").iter().count(), 1);
    }

    #[test]
    fn a_well_formed_correlation_id_is_kept_and_any_other_replaced() {
        let longest = "x".repeat(corr_id::MAX_LEN);
        for id in ["a", "req-1:2/3", &longest] {
            let (trace, headers) = traced(&Tracer::default(), &[("x-corr-id", id)]);
            assert_eq!(
                (trace.corr_id.as_bytes(), headers["x-corr-id"].as_bytes()),
                (id.as_bytes(), id.as_bytes())
            );
        }
        for id in ["", "a b", "a\"b", "a\\b", "ä", "a\tb", &format!("{longest}x")] {
            let (trace, headers) = traced(&Tracer::default(), &[("x-corr-id", id)]);
            assert_eq!(trace.corr_id.len(), 32, "{id}");
            assert_eq!(headers.get_all("x-corr-id").iter().count(), 1);
        }
        assert_eq!(traced(&Tracer::default(), &[("x-corr-id", "a"), ("x-corr-id", "b")]).0.corr_id.len(), 32);
    }

    #[test]
    fn a_span_is_told_of_if_somebody_listens_and_the_trace_is_recorded() {
        let spans = Spans::default();
        let tracer = Tracer::new(spans.clone());
        let recorded = PARENT.replace("-00", "-01");
        assert_eq!(traced(&tracer, &[("traceparent", &recorded)]).0.span, None, "nobody listens");
        spans.send_to(drop);
        let (trace, headers) = traced(&tracer, &[("traceparent", &recorded)]);
        let ids = trace.span.unwrap();
        assert_eq!(ids.trace, PARENT.as_bytes()[TRACE_ID]);
        assert_eq!(ids.parent.unwrap(), PARENT.as_bytes()[SPAN_ID]);
        assert_eq!(ids.span, headers["traceparent"].as_bytes()[SPAN_ID], "it is what the upstream is told");
        assert_eq!(
            traced(&tracer, &[("traceparent", PARENT)]).0.span,
            None,
            "not recorded by the client's choice"
        );
        let (trace, headers) = traced(&tracer, &[]);
        assert_eq!(trace.span, None, "of those that begin here, none are asked for");
        assert!(headers["traceparent"].to_str().unwrap().ends_with("-00"), "and servers hear of it");
        spans.set_share(1.0);
        assert_eq!(traced(&tracer, &[]).0.span.unwrap().parent, None);
    }
}
