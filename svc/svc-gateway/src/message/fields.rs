//! The header fields that the gateway cares about, and sets of them.

use http::{
    HeaderMap, HeaderName,
    header::{CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, TE, TRANSFER_ENCODING, UPGRADE},
};

/// Declares the fields with their names.
macro_rules! fields {
    ($($field:ident = $text:literal, $name:expr;)*) => {
        /// A header field that the gateway cares about.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        #[repr(u8)]
        pub(crate) enum Field {
            $(#[doc = concat!("`", $text, "`.")] $field,)*
        }

        /// In the order of [`Field`].
        static NAMES: [HeaderName; COUNT] = [$($name,)*];

        const COUNT: usize = [$($text,)*].len();

        impl Field {
            /// The field of a name in small letters.
            #[inline]
            fn named(name: &str) -> Option<Self> {
                match name {
                    $($text => Some(Self::$field),)*
                    _ => None,
                }
            }
        }
    };
}

fields! {
    Connection = "connection", CONNECTION;
    KeepAlive = "keep-alive", HeaderName::from_static("keep-alive");
    ProxyConnection = "proxy-connection", HeaderName::from_static("proxy-connection");
    Te = "te", TE;
    TransferEncoding = "transfer-encoding", TRANSFER_ENCODING;
    Upgrade = "upgrade", UPGRADE;
    Http2Settings = "http2-settings", HeaderName::from_static("http2-settings");
    Expect = "expect", EXPECT;
    Host = "host", HOST;
    ContentLength = "content-length", CONTENT_LENGTH;
    Cookie = "cookie", COOKIE;
    Forwarded = "forwarded", FORWARDED;
    ForwardedFor = "x-forwarded-for", HeaderName::from_static("x-forwarded-for");
    ForwardedProto = "x-forwarded-proto", HeaderName::from_static("x-forwarded-proto");
    ForwardedHost = "x-forwarded-host", HeaderName::from_static("x-forwarded-host");
    ForwardedPort = "x-forwarded-port", HeaderName::from_static("x-forwarded-port");
    RealIp = "x-real-ip", HeaderName::from_static("x-real-ip");
    OriginalUrl = "x-original-url", HeaderName::from_static("x-original-url");
    RewriteUrl = "x-rewrite-url", HeaderName::from_static("x-rewrite-url");
    Proxy = "proxy", HeaderName::from_static("proxy");
    CorrId = "x-corr-id", HeaderName::from_static("x-corr-id");
    TraceParent = "traceparent", HeaderName::from_static("traceparent");
    TraceState = "tracestate", HeaderName::from_static("tracestate");
}

impl Field {
    /// Its name.
    pub(crate) fn name(self) -> &'static HeaderName {
        &NAMES[self as usize]
    }

    /// The field that a name means.
    #[inline]
    pub(super) fn of(name: &HeaderName) -> Option<Self> {
        Self::named(name.as_str())
    }

    /// The field that a name with `_` would mean with `-`: some servers take the one for the other.
    pub(super) fn alike(name: &HeaderName) -> Option<Self> {
        let name = name.as_str();
        if name.as_bytes().contains(&b'_') { Self::named(&name.replace('_', "-")) } else { None }
    }
}

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(u32);

impl Fields {
    /// What concerns one connection and ends with it.
    pub(super) const HOP_BY_HOP: Self = Self::all(&[
        Field::Connection,
        Field::KeepAlive,
        Field::ProxyConnection,
        Field::Te,
        Field::TransferEncoding,
        Field::Upgrade,
        Field::Http2Settings,
    ]);

    /// What a client could say about itself or its wish, and servers would believe: where it comes from, which path it
    /// really wants, which proxy they should use.
    pub(super) const CLAIMS: Self =
        Self::all(&[Field::Forwarded, Field::RealIp, Field::OriginalUrl, Field::RewriteUrl, Field::Proxy]);

    const fn all(fields: &[Field]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < fields.len() {
            bits |= 1 << fields[at] as u32;
            at += 1;
        }
        Self(bits)
    }

    /// Whether a field is among them.
    #[inline]
    pub(crate) const fn has(self, field: Field) -> bool {
        self.0 & (1 << field as u32) != 0
    }

    pub(super) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn with(self, field: Field) -> Self {
        Self(self.0 | (1 << field as u32))
    }

    const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Removes from a header those of `unwanted` that are in this set.
    #[inline]
    pub(super) fn remove_from(self, headers: &mut HeaderMap, unwanted: Self) {
        let mut left = self.intersection(unwanted).0;
        while left != 0 {
            headers.remove(&NAMES[left.trailing_zeros() as usize]);
            left &= left - 1;
        }
    }
}

const _: () = assert!(COUNT <= u32::BITS as usize, "a set of fields is one word");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_field_is_found_by_its_name() {
        for (index, name) in NAMES.iter().enumerate() {
            let field = Field::of(name);
            assert_eq!(field.map(|field| field as usize), Some(index), "{name}");
            assert_eq!(field.map(Field::name), Some(name));
        }
        assert_eq!(Field::of(&HeaderName::from_static("accept")), None);
    }

    #[test]
    fn names_with_underscores_mean_what_servers_make_of_them() {
        for (name, expected) in [
            ("x_forwarded_for", Some(Field::ForwardedFor)),
            ("transfer_encoding", Some(Field::TransferEncoding)),
            ("x-forwarded_for", Some(Field::ForwardedFor)),
            ("x-forwarded-for", None),
            ("my_field", None),
        ] {
            assert_eq!(Field::alike(&HeaderName::from_static(name)), expected, "{name}");
        }
    }
}
