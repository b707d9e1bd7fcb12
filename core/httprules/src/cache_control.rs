//! `Cache-Control` in requests and responses (RFC 9111, 5.2; RFC 5861), read so that a mistake never makes us keep more.
//!
//! Names are read in any case, arguments with or without quotes. A directive that comes twice counts once: the first time.
//! What is not known is passed over. A lifetime that is no number is none at all (0 seconds), and what a client would put
//! up with is not put up with if it cannot be read. A response whose malformed directive has one of the words `no-store`,
//! `private` and `no-cache` in it, such as `private;`, is not stored.

use http::{HeaderMap, HeaderValue, header};

use crate::list::{elements, is_token, number, split_once};

/// The longest time that a directive can tell, in seconds; longer ones count as this (RFC 9111, 1.2.2).
pub const SECONDS_MAX: u64 = 1 << 31;

/// What a response says of its storing and reuse. Directives that name fields (`private="x"`) count as those that do not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResponseDirectives {
    /// `no-store`: keep nothing of it.
    pub no_store: bool,
    /// `no-cache`: ask before each reuse.
    pub no_cache: bool,
    /// `private`: for one user alone.
    pub private: bool,
    /// `public`: for everybody, though it may look otherwise.
    pub public: bool,
    /// `must-revalidate`: never reuse it stale.
    pub must_revalidate: bool,
    /// `proxy-revalidate`: the same for shared caches.
    pub proxy_revalidate: bool,
    /// `must-understand`: keep it only if its status is known, then even with `no-store`.
    pub must_understand: bool,
    /// `max-age`: how long it is fresh, in seconds.
    pub max_age: Option<u64>,
    /// `s-maxage`: the same for shared caches.
    pub s_maxage: Option<u64>,
    /// `stale-while-revalidate`: how long after that it may be reused while it is being asked for, in seconds.
    pub stale_while_revalidate: Option<u64>,
    /// `stale-if-error`: how long after that it may be reused when asking fails, in seconds.
    pub stale_if_error: Option<u64>,
}

impl ResponseDirectives {
    /// The directives among a response's fields.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        Self::parse(headers.get_all(header::CACHE_CONTROL).iter().map(HeaderValue::as_bytes))
    }

    /// Reads the values of `Cache-Control`.
    #[must_use]
    pub fn parse<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Self {
        let (mut read, mut is_withheld) = (Self::default(), false);
        for element in elements(values) {
            let (name, argument) = directive(element);
            is_withheld |= !is_well_formed(element) && withholds(element);
            match name {
                _ if is(name, "no-store") => read.no_store = true,
                _ if is(name, "no-cache") => read.no_cache = true,
                _ if is(name, "private") => read.private = true,
                _ if is(name, "public") => read.public = true,
                _ if is(name, "must-revalidate") => read.must_revalidate = true,
                _ if is(name, "proxy-revalidate") => read.proxy_revalidate = true,
                _ if is(name, "must-understand") => read.must_understand = true,
                _ if is(name, "max-age") => first(&mut read.max_age, argument),
                _ if is(name, "s-maxage") => first(&mut read.s_maxage, argument),
                _ if is(name, "stale-while-revalidate") => first(&mut read.stale_while_revalidate, argument),
                _ if is(name, "stale-if-error") => first(&mut read.stale_if_error, argument),
                _ => {}
            }
        }
        if is_withheld {
            (read.no_store, read.must_understand) = (true, false);
        }
        read
    }
}

/// What a request says of the stored answers it would take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RequestDirectives {
    /// `no-store`: keep nothing of the answer.
    pub no_store: bool,
    /// `no-cache`: ask before answering.
    pub no_cache: bool,
    /// `only-if-cached`: do not ask.
    pub only_if_cached: bool,
    /// `max-age`: not older than this, in seconds.
    pub max_age: Option<u64>,
    /// `min-fresh`: fresh for at least so long, in seconds.
    pub min_fresh: Option<u64>,
    /// `max-stale`: stale by no more than this, in seconds; without an argument by any time.
    pub max_stale: Option<u64>,
    /// `stale-if-error`: stale by no more than this, in seconds, when asking fails.
    pub stale_if_error: Option<u64>,
}

impl RequestDirectives {
    /// The directives among a request's fields; `Pragma: no-cache` counts where there is no `Cache-Control`.
    #[must_use]
    pub fn of(headers: &HeaderMap) -> Self {
        let fields = |name| headers.get_all(name).iter().map(HeaderValue::as_bytes);
        if headers.contains_key(header::CACHE_CONTROL) {
            return Self::parse(fields(header::CACHE_CONTROL));
        }
        let no_cache = elements(fields(header::PRAGMA)).any(|element| is(element, "no-cache"));
        Self { no_cache, ..Self::default() }
    }

    /// Reads the values of `Cache-Control`.
    #[must_use]
    pub fn parse<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> Self {
        let mut read = Self::default();
        for (name, argument) in directives(values) {
            match name {
                _ if is(name, "no-store") => read.no_store = true,
                _ if is(name, "no-cache") => read.no_cache = true,
                _ if is(name, "only-if-cached") => read.only_if_cached = true,
                _ if is(name, "max-age") => first(&mut read.max_age, argument),
                _ if is(name, "min-fresh") => first(&mut read.min_fresh, argument),
                _ if is(name, "max-stale") => {
                    let any = argument.is_none().then_some(u64::MAX);
                    read.max_stale = read.max_stale.or(any).or(Some(seconds(argument)));
                }
                _ if is(name, "stale-if-error") => first(&mut read.stale_if_error, argument),
                _ => {}
            }
        }
        read
    }
}

/// The directives of a field: their names and arguments, without quotes around them.
pub fn directives<'v>(
    values: impl IntoIterator<Item = &'v [u8]>,
) -> impl Iterator<Item = (&'v [u8], Option<&'v [u8]>)> {
    elements(values).map(directive)
}

fn directive(element: &[u8]) -> (&[u8], Option<&[u8]>) {
    let (name, argument) = split_once(element, b'=');
    (name, argument.map(unquoted))
}

/// Whether a directive is a name, alone or with an argument that is a word or a quoted text.
fn is_well_formed(element: &[u8]) -> bool {
    let (name, argument) = split_once(element, b'=');
    is_token(name) && argument.is_none_or(|argument| is_token(argument) || unquoted(argument) != argument)
}

/// Whether a text that cannot be read has a word in it by which a server keeps a response from others.
#[must_use]
pub fn withholds(text: &[u8]) -> bool {
    let words = text.split(|byte| !byte.is_ascii_alphanumeric() && *byte != b'-');
    words.into_iter().any(|word| ["no-store", "private", "no-cache"].iter().any(|wanted| is(word, wanted)))
}

fn is(name: &[u8], directive: &str) -> bool {
    name.eq_ignore_ascii_case(directive.as_bytes())
}

/// Takes the time that a directive tells, if it is the first to tell it.
fn first(told: &mut Option<u64>, argument: Option<&[u8]>) {
    *told = told.or(Some(seconds(argument)));
}

/// The seconds of an argument; none if it is no number.
fn seconds(argument: Option<&[u8]>) -> u64 {
    argument.and_then(number).map_or(0, |seconds| seconds.min(SECONDS_MAX))
}

/// The text without quotes around it.
fn unquoted(text: &[u8]) -> &[u8] {
    match text {
        [b'"', inside @ .., b'"'] => inside,
        _ => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(value: &str) -> ResponseDirectives {
        ResponseDirectives::parse([value.as_bytes()])
    }

    fn request(value: &str) -> RequestDirectives {
        RequestDirectives::parse([value.as_bytes()])
    }

    #[test]
    fn each_directive_of_a_response_is_read() {
        let all = "no-store, no-cache, private, public, must-revalidate, proxy-revalidate, must-understand, max-age=1, \
                   s-maxage=2, stale-while-revalidate=3, stale-if-error=4";
        let expected = ResponseDirectives {
            no_store: true,
            no_cache: true,
            private: true,
            public: true,
            must_revalidate: true,
            proxy_revalidate: true,
            must_understand: true,
            max_age: Some(1),
            s_maxage: Some(2),
            stale_while_revalidate: Some(3),
            stale_if_error: Some(4),
        };
        assert_eq!(response(all), expected);
        assert_eq!(response(&all.to_uppercase()), expected);
        let lines: Vec<_> = all.split(',').map(str::as_bytes).collect();
        assert_eq!(ResponseDirectives::parse(lines), expected);
        assert_eq!(response(""), ResponseDirectives::default());
    }

    #[test]
    fn each_directive_of_a_request_is_read() {
        let all = "no-store, no-cache, only-if-cached, max-age=1, min-fresh=2, max-stale=3, stale-if-error=4";
        let expected = RequestDirectives {
            no_store: true,
            no_cache: true,
            only_if_cached: true,
            max_age: Some(1),
            min_fresh: Some(2),
            max_stale: Some(3),
            stale_if_error: Some(4),
        };
        assert_eq!(request(all), expected);
        assert_eq!(request(&all.to_uppercase()), expected);
        assert_eq!(request("max-stale").max_stale, Some(u64::MAX));
        assert_eq!(request("max-stale, max-stale=3").max_stale, Some(u64::MAX));
        assert_eq!(request("max-stale=3, max-stale").max_stale, Some(3));
        assert_eq!(request("max-stale=x").max_stale, Some(0));
    }

    #[test]
    fn an_argument_may_be_quoted_and_is_never_too_large() {
        let table = [
            ("max-age=60", 60),
            ("max-age=\"60\"", 60),
            ("max-age = 60", 60),
            ("max-age=060", 60),
            ("max-age=2147483647", SECONDS_MAX - 1),
            ("max-age=2147483648", SECONDS_MAX),
            ("max-age=2147483649", SECONDS_MAX),
            ("max-age=99999999999999999999999", SECONDS_MAX),
        ];
        for (value, seconds) in table {
            assert_eq!(response(value).max_age, Some(seconds), "{value}");
        }
    }

    #[test]
    fn a_lifetime_that_cannot_be_read_is_none() {
        for value in
            ["max-age", "max-age=", "max-age=-1", "max-age=1.5", "max-age=x", "max-age=\"6", "max-age=1 2"]
        {
            assert_eq!(response(value).max_age, Some(0), "{value}");
        }
    }

    #[test]
    fn of_duplicates_the_first_counts() {
        assert_eq!(response("max-age=1, max-age=9").max_age, Some(1));
        assert_eq!(response("max-age=x, max-age=9").max_age, Some(0));
    }

    #[test]
    fn what_names_fields_counts_as_what_does_not() {
        assert!(response("no-cache=\"set-cookie, x\"").no_cache);
        assert!(response("private = \"x\", max-age=5").private);
    }

    #[test]
    fn what_is_quoted_or_unknown_is_no_directive() {
        let read = response("x=\"no-store, private\", no-store-not, community=\"UCI\", immutable");
        assert_eq!(read, ResponseDirectives::default());
    }

    #[test]
    fn what_is_malformed_and_names_a_restriction_is_not_stored() {
        for value in [
            "private;",
            "max-age=60, no-store;",
            "max-age=60; private",
            "no-cache; max-age=60",
            "private max-age=60",
            "\"no-store\", max-age=60",
            "x=\"open, NO-STORE",
            "max-age=60, must-understand, no-store;",
            "private:",
        ] {
            let read = response(value);
            assert!(read.no_store && !read.must_understand, "{value}");
        }
        for value in ["max-age=60;", "public; max-age=60", "no-stored;", "x;not-private"] {
            assert!(!response(value).no_store, "{value}");
        }
    }

    #[test]
    fn pragma_counts_only_where_nothing_better_is_said() {
        let mut headers = HeaderMap::new();
        headers.insert(header::PRAGMA, HeaderValue::from_static("x, No-Cache"));
        assert!(RequestDirectives::of(&headers).no_cache);
        headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("max-age=5"));
        assert_eq!(RequestDirectives::of(&headers), request("max-age=5"));
    }
}
