//! The rules of HTTP that an edge lives by: hosts, ranges, tags, conditions, codings, freshness (RFC 9110, 9111, 5861).
//!
//! Field values come in as bytes, times as seconds since 1970, and verdicts go out. Nothing here knows a clock, a socket or
//! a store; what is written down in tables at the top of each module is what the tests hold it to.
//!
//! ```
//! use http::{HeaderMap, HeaderValue, Method, header};
//! use httprules::{etag::ETag, precondition::{Current, Outcome, decide}};
//!
//! let etag = ETag::strong(b"b3:af13");
//! let current = Current { etag, last_modified: None, dates_are_strong: false, len: 1000 };
//! let mut headers = HeaderMap::new();
//! headers.insert(header::RANGE, HeaderValue::from_static("bytes=-100"));
//! assert_eq!(decide(&Method::GET, &headers, &current, 0), Outcome::Part(900..1000));
//! headers.insert(header::IF_NONE_MATCH, HeaderValue::from_static("\"b3:af13\""));
//! assert_eq!(decide(&Method::GET, &headers, &current, 0), Outcome::NotModified);
//! ```

pub mod cache_control;
pub mod date;
pub mod digest;
pub mod etag;
pub mod freshness;
pub mod host;
mod list;
pub mod negotiate;
pub mod precondition;
pub mod range;
