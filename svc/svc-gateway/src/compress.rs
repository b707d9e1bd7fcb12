//! Compression of responses for clients that take it, on routes with `compress`.
//!
//! It comes last, behind the cache: what is stored is what the server sent. A response is never compressed twice, nor if its
//! server forbids it (`no-transform`), says which bytes it is a part of, or has signed them by a digest. Each response under
//! way takes memory for its encoder out of `limits.buffer_memory`, where every tenant has its share; without any it is sent
//! as it is.

mod body;

use std::sync::Arc;

use encode::{Coding, Encoder};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method, StatusCode,
    header::{
        ACCEPT_ENCODING, ACCEPT_RANGES, CACHE_CONTROL, CONTENT_ENCODING, CONTENT_LENGTH, CONTENT_RANGE,
        CONTENT_TYPE, ETAG, VARY,
    },
};
use http_body::Body as _;
use httprules::negotiate::{self, IDENTITY};
use ron_transport::{Body, Request, Response};

use crate::{
    buffers::BufferMemory,
    config::{CompressCoding, CompressConfig},
    tenant::Tenant,
};
use body::Compressed;

/// Fields that are about the bytes as they were sent by the server.
static DIGESTS: [HeaderName; 4] = [
    HeaderName::from_static("content-digest"),
    HeaderName::from_static("repr-digest"),
    HeaderName::from_static("digest"),
    HeaderName::from_static("content-md5"),
];

/// The compression settings of a route.
#[derive(Debug)]
pub(crate) struct Compress {
    /// The names of the codings, the preferred one first, and that of none.
    offered: Box<[&'static str]>,
    /// The media types that are compressed, in lower case.
    types: Box<[Box<str>]>,
    min_bytes: u64,
}

/// What a request says about the coding of its response.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    /// The coding that the client likes best; `None` for none.
    coding: Option<Coding>,
    /// Whether the response has no body, because only its head was asked for.
    is_head: bool,
}

impl Compress {
    pub(crate) fn new(config: &CompressConfig) -> Self {
        let name = |coding: &CompressCoding| match coding {
            CompressCoding::Zstd => Coding::Zstd.name(),
            CompressCoding::Gzip => Coding::Gzip.name(),
        };
        Self {
            offered: config.codings.iter().map(name).chain([IDENTITY]).collect(),
            types: config.types.iter().map(|name| name.to_ascii_lowercase().into()).collect(),
            min_bytes: config.min_bytes.as_u64(),
        }
    }

    /// What the client of a request takes.
    pub(crate) fn wish(&self, request: &Request) -> Wish {
        let values = request.headers().get_all(ACCEPT_ENCODING).iter();
        let values: Vec<&[u8]> = values.map(HeaderValue::as_bytes).collect();
        let chosen = negotiate::choose(values, &self.offered);
        Wish { coding: chosen.and_then(Coding::named), is_head: request.method() == Method::HEAD }
    }

    /// Compresses a response if it may be, the client takes it, and the tenant has memory left for it.
    pub(crate) fn apply(
        &self,
        wish: Wish,
        response: &mut Response,
        tenant: &Arc<Tenant>,
        memory: &Arc<BufferMemory>,
    ) {
        if response.status() == StatusCode::NOT_MODIFIED {
            // It is about what the client has, which it may have got from here.
            add_vary(response.headers_mut());
            if wish.coding.is_some() {
                weaken(response.headers_mut());
            }
            return;
        }
        if !self.covers(response, wish.is_head) {
            return;
        }
        add_vary(response.headers_mut());
        let Some(coding) = wish.coding else { return };
        if wish.is_head {
            return say(response.headers_mut(), coding);
        }
        let Some(reserved) = memory.reserve(tenant, coding.memory()) else { return };
        let Ok(encoder) = Encoder::new(coding) else { return };
        say(response.headers_mut(), coding);
        let plain = std::mem::take(response.body_mut());
        *response.body_mut() = Body::streaming(Compressed::new(plain, encoder, reserved));
    }

    /// Whether a response is one that is compressed for those who take it.
    fn covers(&self, response: &Response, is_head: bool) -> bool {
        let headers = response.headers();
        let length = headers.get(CONTENT_LENGTH).and_then(|value| value.to_str().ok()?.parse::<u64>().ok());
        let length = length.or_else(|| response.body().size_hint().exact().filter(|_| !is_head));
        let has_content = !response.status().is_informational()
            && !matches!(response.status(), StatusCode::NO_CONTENT | StatusCode::PARTIAL_CONTENT);
        has_content
            && length.is_none_or(|length| length >= self.min_bytes.max(1))
            && self.is_of_a_type(headers)
            && !is_coded(headers)
            && !headers.contains_key(CONTENT_RANGE)
            && !forbids_transforms(headers)
            && !DIGESTS.iter().any(|name| headers.contains_key(name))
    }

    fn is_of_a_type(&self, headers: &HeaderMap) -> bool {
        let Some(value) = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok()) else {
            return false;
        };
        let name = value.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        self.types.iter().any(|wanted| is_type(&name, wanted))
    }
}

/// Whether a media type is the wanted one, or one of its kind.
fn is_type(name: &str, wanted: &str) -> bool {
    let by_suffix = match name.rsplit_once('+') {
        Some((_, "json")) => wanted == "application/json",
        Some((_, "xml")) => wanted == "application/xml",
        _ => false,
    };
    let of_kind = wanted.strip_suffix("/*").is_some_and(|kind| name.split('/').next() == Some(kind));
    by_suffix || of_kind || name == wanted
}

/// Whether it has a coding already.
fn is_coded(headers: &HeaderMap) -> bool {
    headers.get_all(CONTENT_ENCODING).iter().any(|value| !value.as_bytes().eq_ignore_ascii_case(b"identity"))
}

fn forbids_transforms(headers: &HeaderMap) -> bool {
    let values = headers.get_all(CACHE_CONTROL).iter().filter_map(|value| value.to_str().ok());
    values
        .flat_map(|value| value.split(','))
        .any(|directive| directive.trim().eq_ignore_ascii_case("no-transform"))
}

/// Says that other clients may get the response in another coding.
fn add_vary(headers: &mut HeaderMap) {
    let names = headers.get_all(VARY).iter().filter_map(|value| value.to_str().ok());
    let is_said = |name: &str| name.trim() == "*" || name.trim().eq_ignore_ascii_case("accept-encoding");
    if !names.flat_map(|value| value.split(',')).any(is_said) {
        headers.append(VARY, HeaderValue::from_static("accept-encoding"));
    }
}

/// Says that the response is in this coding, and takes back what is said of its bytes in another.
fn say(headers: &mut HeaderMap, coding: Coding) {
    headers.insert(CONTENT_ENCODING, HeaderValue::from_static(coding.name()));
    headers.remove(CONTENT_LENGTH);
    headers.remove(ACCEPT_RANGES);
    weaken(headers);
}

/// Makes the tag of a response a weak one: it is the same for all codings of it.
fn weaken(headers: &mut HeaderMap) {
    let Some(tag) = headers.get(ETAG).filter(|tag| tag.as_bytes().starts_with(b"\"")) else { return };
    let weak = [b"W/", tag.as_bytes()].concat();
    match HeaderValue::from_bytes(&weak) {
        Ok(weak) => drop(headers.insert(ETAG, weak)),
        Err(_) => drop(headers.remove(ETAG)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use ron_kernel::config::ByteSize;

    use super::*;

    fn compress() -> Compress {
        Compress::new(&CompressConfig::default())
    }

    fn response(fields: &[(&str, &str)], body: &'static str) -> Response {
        let mut response = http::Response::builder();
        for (name, value) in fields {
            response = response.header(*name, *value);
        }
        response.body(Body::from(body)).unwrap()
    }

    const LONG: &str = concat!(
        "0123456789012345678901234567890123456789012345678901234567890123",
        "0123456789012345678901234567890123456789012345678901234567890123"
    );

    fn covers(fields: &[(&str, &str)]) -> bool {
        let compress =
            Compress::new(&CompressConfig { min_bytes: ByteSize::bytes(64), ..CompressConfig::default() });
        compress.covers(&response(fields, LONG), false)
    }

    #[test]
    fn text_is_compressed_and_what_must_stay_as_it_is_is_not() {
        assert!(covers(&[("content-type", "text/html; charset=utf-8")]));
        assert!(covers(&[("content-type", "Application/Problem+JSON")]));
        assert!(covers(&[("content-type", "application/json"), ("content-encoding", "identity")]));
        for left_alone in [
            &[][..],
            &[("content-type", "image/png")],
            &[("content-type", "text/event-stream")],
            &[("content-type", "text/html"), ("content-encoding", "br")],
            &[("content-type", "text/html"), ("content-range", "bytes 0-1/2")],
            &[("content-type", "text/html"), ("cache-control", "max-age=1, No-Transform")],
            &[("content-type", "text/html"), ("content-digest", "sha-256=:x:")],
            &[("content-type", "text/html"), ("content-length", "63")],
        ] {
            assert!(!covers(left_alone), "{left_alone:?}");
        }
        assert!(covers(&[("content-type", "text/html"), ("content-length", "64")]));
    }

    #[test]
    fn the_clients_weights_count_before_our_order() {
        let wish = |accepted: &[&str]| {
            let mut request = Request::new(Body::empty());
            for value in accepted {
                request.headers_mut().append(ACCEPT_ENCODING, value.parse().unwrap());
            }
            compress().wish(&request).coding
        };
        assert_eq!(wish(&[]), None);
        assert_eq!(wish(&["gzip, deflate, br, zstd"]), Some(Coding::Zstd));
        assert_eq!(wish(&["gzip;q=1.0, zstd;q=0.5"]), Some(Coding::Gzip));
        assert_eq!(wish(&["zstd;q=0", "gzip"]), Some(Coding::Gzip));
        assert_eq!(wish(&["br, identity"]), None);
        assert_eq!(wish(&["*;q=0"]), None);
    }

    #[test]
    fn caches_are_told_once_what_the_response_depends_on() {
        for (before, after) in [
            (&[][..], &["accept-encoding"][..]),
            (&["Origin"], &["Origin", "accept-encoding"]),
            (&["origin, Accept-Encoding"], &["origin, Accept-Encoding"]),
            (&["*"], &["*"]),
        ] {
            let mut headers = HeaderMap::new();
            for value in before {
                headers.append(VARY, value.parse().unwrap());
            }
            add_vary(&mut headers);
            let said: Vec<&str> = headers.get_all(VARY).iter().map(|value| value.to_str().unwrap()).collect();
            assert_eq!(said, after);
        }
    }

    #[test]
    fn a_tag_becomes_weak_and_stays_so() {
        for (before, after) in [("\"a\"", "W/\"a\""), ("W/\"a\"", "W/\"a\""), ("nonsense", "nonsense")] {
            let mut headers = HeaderMap::from_iter([(ETAG, before.parse().unwrap())]);
            weaken(&mut headers);
            assert_eq!(headers[ETAG], after);
        }
    }
}
