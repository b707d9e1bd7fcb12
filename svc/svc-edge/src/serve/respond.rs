//! From a request and a representation to the head of the response, and which bytes follow it.

use std::ops::Range;

use http::{
    HeaderMap, HeaderValue, Method, StatusCode,
    header::{
        ACCEPT_RANGES, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, ETAG, LAST_MODIFIED,
        VARY,
    },
};
use httprules::{
    precondition::{Outcome, Verdict, decide, evaluate},
    range::ContentRange,
};
use ron_transport::{Body, Response};

use super::{Class, Dress, Representation};

/// As many fields as a response has, so that its map is made once.
const FIELDS: usize = 12;

/// The end of what is sent before anybody knows where it ends.
pub(crate) const TO_THE_END: u64 = u64::MAX;

/// What is asked, apart from the address.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked<'a> {
    pub(crate) method: &'a Method,
    pub(crate) headers: &'a HeaderMap,
    /// The current time in Unix seconds.
    pub(crate) unix: u64,
}

/// What becomes of a request for a representation.
#[derive(Debug)]
pub(crate) enum Plan {
    /// The response is complete.
    Done(Response),
    /// The response still lacks these bytes, which are never none; to [`TO_THE_END`] if nobody knows how many there are.
    Send(Response, Range<u64>),
    /// A part is asked for that cannot be had; the value is for `Content-Range`.
    Unsatisfiable(HeaderValue),
}

/// Judges a request, which is a GET or a HEAD, and makes the head of its response.
pub(crate) fn plan(asked: &Asked<'_>, representation: &Representation, dress: &Dress, class: Class) -> Plan {
    let (known, current) = (representation.len(), representation.current());
    let len = known.unwrap_or(TO_THE_END);
    let outcome = match known {
        Some(_) => decide(asked.method, asked.headers, &current, asked.unix),
        // Without a length there are no parts.
        None => match evaluate(asked.method, asked.headers, &current, asked.unix) {
            Verdict::Proceed => Outcome::Whole,
            Verdict::NotModified => Outcome::NotModified,
            Verdict::Failed => Outcome::Failed,
        },
    };
    match outcome {
        Outcome::NotModified => {
            let mut response = head(StatusCode::NOT_MODIFIED);
            validators(representation, response.headers_mut());
            dress.cache(class, response.headers_mut());
            Plan::Done(response)
        }
        Outcome::Failed => {
            let mut response = head(StatusCode::PRECONDITION_FAILED);
            validators(representation, response.headers_mut());
            Plan::Done(response)
        }
        Outcome::Unsatisfiable => Plan::Unsatisfiable(content_range(None, len)),
        Outcome::Part(part) => {
            let mut response = whole_head(StatusCode::PARTIAL_CONTENT, representation, dress, class);
            response.headers_mut().insert(CONTENT_RANGE, content_range(Some(part.clone()), len));
            Plan::Send(response, part)
        }
        Outcome::Whole => {
            let mut response = whole_head(StatusCode::OK, representation, dress, class);
            if *asked.method == Method::HEAD || len == 0 {
                if let Some(len) = known {
                    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(len));
                }
                return Plan::Done(response);
            }
            Plan::Send(response, 0..len)
        }
    }
}

fn whole_head(status: StatusCode, of: &Representation, dress: &Dress, class: Class) -> Response {
    let mut response = head(status);
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, of.media_type.clone());
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if let Some(coding) = &of.coding {
        headers.insert(CONTENT_ENCODING, coding.clone());
    }
    validators(of, headers);
    dress.cache(class, headers);
    response
}

/// What a cache needs to tell this representation from others, by time and by coding.
fn validators(of: &Representation, headers: &mut HeaderMap) {
    if let Some(etag) = &of.etag {
        headers.insert(ETAG, etag.clone());
    }
    if let Some(modified) = of.last_modified() {
        headers.insert(LAST_MODIFIED, modified.clone());
    }
    if of.varies {
        headers.insert(VARY, HeaderValue::from_static("Accept-Encoding"));
    }
}

fn head(status: StatusCode) -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = status;
    response.headers_mut().reserve(FIELDS);
    response
}

fn content_range(part: Option<Range<u64>>, len: u64) -> HeaderValue {
    HeaderValue::try_from(ContentRange { part, len }.to_string()).expect("numbers are ASCII")
}
