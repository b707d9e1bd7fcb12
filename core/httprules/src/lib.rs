//! HTTP rules that a server of stored content needs: hosts, ranges, entity tags, preconditions, codings, freshness
//! (RFC 9110, 9111, 5861).
//!
//! Field values come in as bytes, times as Unix seconds, and decisions go out. Nothing here uses a clock, a socket
//! or a store. The tables at the top of each module are what the tests check.
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
