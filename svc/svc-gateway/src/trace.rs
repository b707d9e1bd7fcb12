//! Correlation: an id that client, gateway and servers share for a request, and the W3C trace context around it.
//!
//! The ids made here are a random half per core and a count, so that making one takes neither a lock nor a system call.
//! One allocation holds all that a request needs: the correlation id is the trace id inside its `traceparent`.

use std::{
    hash::{BuildHasher, RandomState},
    sync::atomic::{AtomicU64, Ordering},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue};

use crate::message::{Field, Survey};

/// The longest correlation id that is taken from a client.
const MAX_CORR_ID: usize = 128;
/// The length of a `traceparent` of version 00.
const PARENT_LEN: usize = 55;
/// Where the trace id stands in it, and the span id.
const TRACE_ID: std::ops::Range<usize> = 3..35;
const SPAN_ID: std::ops::Range<usize> = 36..52;

/// Makes the ids of one core.
#[derive(Debug)]
pub(crate) struct TraceIds {
    /// Never 0, so that no id is.
    prefix: u64,
    key: u64,
    next: AtomicU64,
}

/// What correlates one request.
#[derive(Clone, Debug)]
pub(crate) struct Trace {
    /// The value of `X-Corr-ID`, here, upstream and in the response. Its characters need no escaping in logs.
    pub(crate) corr_id: HeaderValue,
    /// The value of `traceparent` upstream.
    parent: HeaderValue,
    /// Whether the client's `tracestate` belongs to somebody else's trace.
    drops_state: bool,
}

impl TraceIds {
    /// Ids that no other core and no other run makes.
    pub(crate) fn new() -> Self {
        // The keys of the standard library's hash maps are the system's random numbers.
        let random = RandomState::new();
        Self { prefix: random.hash_one(0) | 1, key: random.hash_one(1), next: AtomicU64::new(1) }
    }

    /// What correlates a request: the client's ids where they are well-formed, ours otherwise.
    pub(crate) fn trace(&self, headers: &HeaderMap, survey: &Survey) -> Trace {
        let count = self.next.fetch_add(1, Ordering::Relaxed);
        let fields = survey.fields;
        let theirs = if fields.has(Field::TraceParent) { known_parent(headers) } else { None };
        let parent = Bytes::from_owner(match theirs {
            Some(theirs) => child(theirs, self.span_id(count)),
            None => self.root(count),
        });
        let given = if fields.has(Field::CorrId) { known_corr_id(headers) } else { None };
        Trace {
            corr_id: given.unwrap_or_else(|| value(parent.slice(TRACE_ID))),
            parent: value(parent),
            drops_state: theirs.is_none() && fields.has(Field::TraceState),
        }
    }

    fn root(&self, count: u64) -> [u8; PARENT_LEN] {
        let mut parent = *b"00-00000000000000000000000000000000-0000000000000000-01";
        write_hex(&mut parent[3..19], self.prefix);
        write_hex(&mut parent[19..35], self.spread(count));
        write_hex(&mut parent[SPAN_ID], self.span_id(count));
        parent
    }

    /// A number of its own for each count, which does not show how many requests there were.
    fn spread(&self, count: u64) -> u64 {
        let mixed = count.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ self.key;
        mixed ^ (mixed >> 32)
    }

    /// A span id, which must not be 0.
    fn span_id(&self, count: u64) -> u64 {
        self.spread(count).rotate_left(32) | 1
    }
}

impl Trace {
    /// Tells the upstream.
    pub(crate) fn write(&self, headers: &mut HeaderMap) {
        headers.insert(Field::CorrId.name(), self.corr_id.clone());
        headers.insert(Field::TraceParent.name(), self.parent.clone());
        if self.drops_state {
            headers.remove(Field::TraceState.name());
        }
    }

    /// Tells the client.
    pub(crate) fn tell(&self, headers: &mut HeaderMap) {
        headers.insert(Field::CorrId.name(), self.corr_id.clone());
    }
}

fn value(bytes: Bytes) -> HeaderValue {
    HeaderValue::from_maybe_shared(bytes).expect("digits and dashes")
}

/// The client's correlation id, if it gave one that is well-formed.
fn known_corr_id(headers: &HeaderMap) -> Option<HeaderValue> {
    let is_plain = |byte: &u8| byte.is_ascii_graphic() && !matches!(byte, b'"' | b'\\');
    let given = only(headers, Field::CorrId)?;
    let well_formed = (1..=MAX_CORR_ID).contains(&given.len()) && given.as_bytes().iter().all(is_plain);
    well_formed.then(|| given.clone())
}

/// The client's `traceparent`, if it is well-formed. Of later versions, the part that version 00 knows.
fn known_parent(headers: &HeaderMap) -> Option<&[u8; PARENT_LEN]> {
    let (parent, rest) = only(headers, Field::TraceParent)?.as_bytes().split_first_chunk()?;
    let is_hex = |part: &[u8]| part.iter().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
    let [version, trace, span, flags] = [&parent[..2], &parent[TRACE_ID], &parent[SPAN_ID], &parent[53..]];
    let is_known = match version {
        b"ff" => false,
        b"00" => rest.is_empty(),
        _ => rest.is_empty() || rest[0] == b'-',
    };
    let dashes = [2, 35, 52].iter().all(|at| parent[*at] == b'-');
    let parts = [version, trace, span, flags].into_iter().all(is_hex);
    let is_zero = |part: &[u8]| part.iter().all(|byte| *byte == b'0');
    (is_known && dashes && parts && !is_zero(trace) && !is_zero(span)).then_some(parent)
}

/// The same trace, with this hop as the caller.
fn child(theirs: &[u8; PARENT_LEN], span: u64) -> [u8; PARENT_LEN] {
    let mut parent = *theirs;
    parent[..2].copy_from_slice(b"00");
    write_hex(&mut parent[SPAN_ID], span);
    parent
}

/// The value of a field that is there once.
fn only(headers: &HeaderMap, field: Field) -> Option<&HeaderValue> {
    let mut values = headers.get_all(field.name()).iter();
    values.next().filter(|_| values.next().is_none())
}

/// Writes a number into 16 places.
fn write_hex(places: &mut [u8], number: u64) {
    for (at, byte) in number.to_be_bytes().into_iter().enumerate() {
        for (nibble, place) in [byte >> 4, byte & 15].into_iter().zip(&mut places[2 * at..]) {
            *place = b"0123456789abcdef"[usize::from(nibble)];
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_transport::Body;
    use std::collections::BTreeSet;

    const PARENT: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

    /// What correlates a request with these fields, and what its upstream sees.
    fn traced(ids: &TraceIds, fields: &[(&str, &str)]) -> (Trace, HeaderMap) {
        let builder = http::Request::builder().uri("/").header("host", "h");
        let builder = fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        let request = builder.body(Body::empty()).unwrap();
        let trace = ids.trace(request.headers(), &Survey::of(&request).unwrap());
        let mut headers = request.headers().clone();
        trace.write(&mut headers);
        (trace, headers)
    }

    #[test]
    fn a_request_without_ids_gets_some_that_belong_together() {
        let (trace, headers) = traced(&TraceIds::new(), &[("tracestate", "a=b")]);
        let parent = headers["traceparent"].to_str().unwrap();
        assert_eq!(parent.len(), PARENT_LEN);
        assert!(parent.starts_with("00-") && parent.ends_with("-01"), "{parent}");
        assert_eq!(&parent[TRACE_ID], trace.corr_id.to_str().unwrap());
        assert_eq!(headers["x-corr-id"], trace.corr_id);
        assert!(!headers.contains_key("tracestate"), "a state without its trace");
        let ours = [("traceparent", parent)];
        assert_ne!(traced(&TraceIds::new(), &ours).0.parent, trace.parent, "well-formed, so a child is made");
        assert_eq!(traced(&TraceIds::new(), &ours).0.corr_id, trace.corr_id);
    }

    #[test]
    fn ids_differ_from_request_to_request_and_from_core_to_core() {
        let cores = [TraceIds::new(), TraceIds::new()];
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
        let (trace, headers) = traced(&TraceIds::new(), &[("traceparent", PARENT), ("tracestate", "a=b")]);
        let parent = headers["traceparent"].to_str().unwrap();
        assert_eq!(&parent[TRACE_ID], &PARENT[TRACE_ID]);
        assert_ne!(&parent[SPAN_ID], &PARENT[SPAN_ID]);
        assert!(parent.ends_with("-00"), "whether it is recorded is the client's choice");
        assert_eq!(trace.corr_id, &PARENT[TRACE_ID]);
        assert_eq!(headers["tracestate"], "a=b");
        let later = format!("01{}-more", &PARENT[2..]);
        assert_eq!(traced(&TraceIds::new(), &[("traceparent", &later)]).0.corr_id, &PARENT[TRACE_ID]);
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
            let (trace, _) = traced(&TraceIds::new(), &[("traceparent", parent)]);
            assert_ne!(trace.parent.as_bytes()[TRACE_ID], PARENT.as_bytes()[TRACE_ID], "{parent}");
            assert_ne!(trace.corr_id, "0".repeat(32));
        }
        let (trace, headers) = traced(&TraceIds::new(), &[("traceparent", PARENT), ("traceparent", PARENT)]);
        assert_ne!(trace.corr_id, &PARENT[TRACE_ID]);
        assert_eq!(headers.get_all("traceparent").iter().count(), 1);
    }

    #[test]
    fn a_well_formed_correlation_id_is_kept_and_any_other_replaced() {
        let longest = "x".repeat(MAX_CORR_ID);
        for id in ["a", "req-1:2/3", &longest] {
            let (trace, headers) = traced(&TraceIds::new(), &[("x-corr-id", id)]);
            assert_eq!(
                (trace.corr_id.as_bytes(), headers["x-corr-id"].as_bytes()),
                (id.as_bytes(), id.as_bytes())
            );
        }
        for id in ["", "a b", "a\"b", "a\\b", "ä", "a\tb", &format!("{longest}x")] {
            let (trace, headers) = traced(&TraceIds::new(), &[("x-corr-id", id)]);
            assert_eq!(trace.corr_id.len(), 32, "{id}");
            assert_eq!(headers.get_all("x-corr-id").iter().count(), 1);
        }
        assert_eq!(traced(&TraceIds::new(), &[("x-corr-id", "a"), ("x-corr-id", "b")]).0.corr_id.len(), 32);
    }
}
