//! Which directives count for this cache: those of the first targeted field that is there and well formed (RFC 9213), else
//! those of `Cache-Control`.
//!
//! A targeted field replaces `Cache-Control` and `Expires` altogether. One that is empty or no structured dictionary is
//! ignored; but if `no-store`, `private` or `no-cache` is among its words, the response is not stored.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use httprules::{
    cache_control::{ResponseDirectives, SECONDS_MAX, directives, withholds},
    freshness::{Stored, Time},
};

use crate::dictionary::{self, Value};

/// The targeted fields that count, the strongest first. The first is for this cache alone and is not passed on to clients; the
/// other is for all caches of this kind on the way.
pub const TARGETS: [HeaderName; 2] =
    [HeaderName::from_static("omnigate-cache-control"), HeaderName::from_static("cdn-cache-control")];

/// Most fields that `no-cache` and `private` may name together; beyond this the directive counts for the whole response.
const MAX_NAMED: usize = 32;

/// The directives that count for a response.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// The directives. `no_cache` and `private` are set only if they concern the whole response.
    pub directives: ResponseDirectives,
    /// Whether a targeted field said so.
    pub is_targeted: bool,
    /// The fields that `no-cache="…"` and `private="…"` name: they are not stored. If they describe the content, as
    /// `Content-Encoding` does, the directive concerns the whole response.
    pub unstored_fields: Vec<HeaderName>,
}

impl Control {
    /// The directives that count among a response's fields.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        TARGETS.iter().find_map(|target| targeted(headers, target)).unwrap_or_else(|| untargeted(headers))
    }

    /// The freshness of a response with these directives, asked for and received at these times.
    #[must_use]
    pub fn freshness(
        &self,
        status: StatusCode,
        headers: &HeaderMap,
        requested_at: u64,
        received_at: impl Into<Time>,
    ) -> Stored {
        let mut stored = Stored::of(status, headers, requested_at, received_at);
        stored.directives = self.directives;
        if self.is_targeted {
            stored.expires = None;
        }
        stored
    }
}

/// The directives of `Cache-Control`.
fn untargeted(headers: &HeaderMap) -> Control {
    let mut read = Control { directives: ResponseDirectives::of(headers), ..Control::default() };
    let (mut no_cache, mut private) = (false, false);
    let values = headers.get_all(http::header::CACHE_CONTROL).iter().map(HeaderValue::as_bytes);
    for (name, argument) in directives(values) {
        let concerns_all = if name.eq_ignore_ascii_case(b"no-cache") {
            &mut no_cache
        } else if name.eq_ignore_ascii_case(b"private") {
            &mut private
        } else {
            continue;
        };
        let named = argument.and_then(names).filter(|named| !named.is_empty());
        // Without them the stored bytes would mean something else.
        let named = named.filter(|named| !named.iter().any(describes_the_content));
        match named {
            Some(named) if read.unstored_fields.len() + named.len() <= MAX_NAMED => {
                read.unstored_fields.extend(named);
            }
            _ => *concerns_all = true,
        }
    }
    read.directives.no_cache = no_cache;
    read.directives.private = private;
    read
}

/// Whether clients and caches need a field to make sense of a response.
fn describes_the_content(name: &HeaderName) -> bool {
    *name == http::header::VARY || name.as_str().starts_with("content-")
}

/// The field names of an argument; `None` if one of them is none.
fn names(argument: &[u8]) -> Option<Vec<HeaderName>> {
    let named = argument.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|name| !name.is_empty());
    named.map(|name| HeaderName::from_bytes(name).ok()).collect()
}

/// The directives of a targeted field, if it is there and well formed.
fn targeted(headers: &HeaderMap, target: &HeaderName) -> Option<Control> {
    let lines: Vec<&[u8]> = headers.get_all(target).iter().map(HeaderValue::as_bytes).collect();
    let text = lines.join(b", ".as_slice());
    let Some(members) = dictionary::parse(&text) else {
        let directives = ResponseDirectives { no_store: true, ..ResponseDirectives::default() };
        return withholds(&text).then(|| Control { directives, is_targeted: true, ..Control::default() });
    };
    if members.is_empty() {
        return None;
    }
    let mut read = ResponseDirectives::default();
    for (name, value) in members {
        let is_set = value != Value::Flag(false);
        let seconds = match value {
            Value::Integer(seconds) => Some(u64::try_from(seconds).unwrap_or(0).min(SECONDS_MAX)),
            Value::Flag(_) | Value::Other => None,
        };
        match name {
            b"no-store" => read.no_store = is_set,
            b"no-cache" => read.no_cache = is_set,
            b"private" => read.private = is_set,
            b"public" => read.public = is_set,
            b"must-revalidate" => read.must_revalidate = is_set,
            b"proxy-revalidate" => read.proxy_revalidate = is_set,
            b"must-understand" => read.must_understand = is_set,
            b"max-age" => read.max_age = seconds.or(read.max_age),
            b"s-maxage" => read.s_maxage = seconds.or(read.s_maxage),
            b"stale-while-revalidate" => read.stale_while_revalidate = seconds,
            b"stale-if-error" => read.stale_if_error = seconds,
            _ => {}
        }
    }
    Some(Control { directives: read, is_targeted: true, unstored_fields: Vec::new() })
}
