//! Any `Cache-Control`, in requests, responses and `Accept-Encoding` for good measure: bounded, and never fresh for longer
//! than it says.

#![no_main]

use http::{HeaderMap, HeaderValue, StatusCode, header};
use httprules::{
    cache_control::{RequestDirectives, ResponseDirectives, SECONDS_MAX},
    freshness::{Stored, Verdict, judge, may_store},
    negotiate::{IDENTITY, choose},
};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (u64, u64, &[u8], &[u8])| {
    let (received_at, now, response, request) = input;
    let mut headers = HeaderMap::new();
    for value in response.split(|byte| *byte == b'\n') {
        if let Ok(value) = HeaderValue::from_bytes(value) {
            headers.append(header::CACHE_CONTROL, value.clone());
            headers.append(header::EXPIRES, value.clone());
            headers.append(header::AGE, value.clone());
            headers.append(header::VARY, value);
        }
    }
    let asked = RequestDirectives::parse(request.split(|byte| *byte == b'\n'));
    for seconds in [asked.max_age, asked.min_fresh, asked.stale_if_error] {
        assert!(seconds.is_none_or(|seconds| seconds <= SECONDS_MAX));
    }
    let said = ResponseDirectives::of(&headers);
    let stored = Stored::of(StatusCode::OK, &headers, received_at, received_at);
    assert_eq!(stored.directives, said);
    let kept = may_store(&asked, false, StatusCode::OK, &headers).is_ok();
    assert!(!kept || !said.private && !asked.no_store && (!said.no_store || said.must_understand));
    match judge(&stored, &asked, now) {
        Verdict::Fresh => assert!(stored.is_fresh(now) && !said.no_cache && !asked.no_cache),
        Verdict::Stale => assert!(!stored.is_fresh(now) && !said.must_revalidate),
        Verdict::Validate { if_error } => assert!(!(if_error && said.no_cache)),
    }
    assert!(matches!(choose([request], &["gzip", IDENTITY]), None | Some("gzip" | IDENTITY)));
});
