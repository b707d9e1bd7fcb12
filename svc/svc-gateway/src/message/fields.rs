//! The header fields that the gateway cares about, and sets of them.

use http::{
    HeaderMap, HeaderName,
    header::{
        AUTHORIZATION, CONNECTION, CONTENT_LENGTH, COOKIE, EXPECT, FORWARDED, HOST, TE, TRANSFER_ENCODING,
        UPGRADE,
    },
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

        /// The names of the fields, in the order of [`Field`].
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
    Authorization = "authorization", AUTHORIZATION;
    Tenant = "x-omnigate-tenant", HeaderName::from_static("x-omnigate-tenant");
    TimeoutMs = "x-request-timeout-ms", HeaderName::from_static("x-request-timeout-ms");
    GrpcTimeout = "grpc-timeout", HeaderName::from_static("grpc-timeout");
    RequestTimeout = "request-timeout", HeaderName::from_static("request-timeout");
    Deadline = "deadline", HeaderName::from_static("deadline");
    Forwarded = "forwarded", FORWARDED;
    ForwardedFor = "x-forwarded-for", HeaderName::from_static("x-forwarded-for");
    ForwardedProto = "x-forwarded-proto", HeaderName::from_static("x-forwarded-proto");
    RealIp = "x-real-ip", HeaderName::from_static("x-real-ip");
    OriginalUrl = "x-original-url", HeaderName::from_static("x-original-url");
    RewriteUrl = "x-rewrite-url", HeaderName::from_static("x-rewrite-url");
    Proxy = "proxy", HeaderName::from_static("proxy");
    ClientIp = "client-ip", HeaderName::from_static("client-ip");
    TrueClientIp = "true-client-ip", HeaderName::from_static("true-client-ip");
    XClientIp = "x-client-ip", HeaderName::from_static("x-client-ip");
    ClusterClientIp = "x-cluster-client-ip", HeaderName::from_static("x-cluster-client-ip");
    CfConnectingIp = "cf-connecting-ip", HeaderName::from_static("cf-connecting-ip");
    FastlyClientIp = "fastly-client-ip", HeaderName::from_static("fastly-client-ip");
    XHost = "x-host", HeaderName::from_static("x-host");
    OriginalHost = "x-original-host", HeaderName::from_static("x-original-host");
    HostOverride = "x-http-host-override", HeaderName::from_static("x-http-host-override");
    HttpMethod = "x-http-method", HeaderName::from_static("x-http-method");
    HttpMethodOverride = "x-http-method-override", HeaderName::from_static("x-http-method-override");
    MethodOverride = "x-method-override", HeaderName::from_static("x-method-override");
    CorrId = "x-corr-id", HeaderName::from_static("x-corr-id");
    TraceParent = "traceparent", HeaderName::from_static("traceparent");
    TraceState = "tracestate", HeaderName::from_static("tracestate");
}

impl Field {
    /// Those in which clients say how long they wait.
    pub(crate) const DEADLINES: [Self; 4] =
        [Self::TimeoutMs, Self::GrpcTimeout, Self::RequestTimeout, Self::Deadline];

    /// Returns the name of the field.
    pub(crate) fn name(self) -> &'static HeaderName {
        &NAMES[self as usize]
    }

    /// The field that a name means.
    #[inline]
    pub(crate) fn of(name: &HeaderName) -> Option<Self> {
        Self::named(name.as_str())
    }
}

/// Whether a name has signs other than `-` between its letters and digits.
pub(super) fn is_odd(name: &str) -> bool {
    name.bytes().any(|byte| !byte.is_ascii_alphanumeric() && byte != b'-')
}

/// An odd name as servers may read it: those that turn names into variables take `_` for `-`, some of them any sign.
pub(super) fn as_read(name: &str) -> String {
    name.chars().map(|sign| if sign.is_ascii_alphanumeric() { sign } else { '-' }).collect()
}

/// Whether proxies tell servers of their clients by a field of this name: of the address, the scheme, the path, the
/// certificate.
fn is_of_proxies(name: &str) -> bool {
    let prefixes = ["x-forwarded-", "x-ssl-client-", "ssl-client-", "x-amzn-mtls-"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
        || matches!(
            name,
            "x-forwarded"
                | "forwarded-for"
                | "x-envoy-external-address"
                | "x-envoy-original-path"
                | "fly-client-ip"
                | "cf-connecting-ipv6"
                | "x-azure-clientip"
                | "x-azure-socketip"
                | "x-appengine-user-ip"
                | "x-originating-ip"
                | "x-remote-ip"
                | "x-remote-addr"
                | "x-original-uri"
                | "x-scheme"
                | "x-url-scheme"
                | "front-end-https"
                | "client-cert"
                | "client-cert-chain"
                | "x-client-cert"
                | "proxy-client-ip"
                | "wl-proxy-client-ip"
                | "wl-proxy-client-cert"
                | "wl-proxy-ssl"
                | "x-arr-clientcert"
                | "x-arr-ssl"
        )
}

/// How the names of all fields begin that the gateway alone writes.
const OWN_PREFIX: &str = "x-omnigate-";

/// What a name means that is not exactly that of a [`Field`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// Nothing to the gateway.
    Plain,
    /// The same, but servers may take it for a field of another name.
    Odd,
    /// One of the many, such as `x-forwarded-…`, that only a trusted proxy may send.
    Forwarded,
    /// A field of the gateway, or an imitation of a field that the gateway knows: it goes on under no circumstances.
    Forged,
}

impl Meaning {
    pub(super) fn of(name: &str) -> Self {
        if !is_odd(name) {
            return match name {
                _ if is_of_proxies(name) => Self::Forwarded,
                _ if name.starts_with(OWN_PREFIX) => Self::Forged,
                _ => Self::Plain,
            };
        }
        let read = as_read(name);
        let known = Field::named(&read).is_some() || is_of_proxies(&read) || read.starts_with(OWN_PREFIX);
        if known { Self::Forged } else { Self::Odd }
    }
}

/// Whether a field is passed on as its client sent it, and means nothing to the gateway.
pub(crate) fn is_plain(name: &HeaderName) -> bool {
    Field::of(name).is_none() && Meaning::of(name.as_str()) == Meaning::Plain
}

/// Whether a field is one that goes on only if a trusted proxy says it.
pub(crate) fn is_proxys_word(name: &HeaderName) -> bool {
    match Field::of(name) {
        Some(field) => Fields::PROXY_CLAIMS.has(field),
        None => Meaning::of(name.as_str()) == Meaning::Forwarded,
    }
}

/// A set of fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Fields(u64);

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
    /// really wants, which proxy they should use. No proxy's word is passed on either.
    pub(super) const CLAIMS: Self =
        Self::all(&[Field::Forwarded, Field::RealIp, Field::OriginalUrl, Field::RewriteUrl, Field::Proxy]);

    /// What servers may believe of a proxy, and of nobody else: the client's address, the host and the method that it
    /// really wants. Goes on only if a trusted proxy says it.
    pub(crate) const PROXY_CLAIMS: Self = Self::all(&[
        Field::ClientIp,
        Field::TrueClientIp,
        Field::XClientIp,
        Field::ClusterClientIp,
        Field::CfConnectingIp,
        Field::FastlyClientIp,
        Field::XHost,
        Field::OriginalHost,
        Field::HostOverride,
        Field::HttpMethod,
        Field::HttpMethodOverride,
        Field::MethodOverride,
    ]);

    /// What proxies tell servers of their clients, and the gateway writes again.
    pub(crate) const FORWARDED: Self = Self::all(&[Field::ForwardedFor, Field::ForwardedProto]);

    const fn all(fields: &[Field]) -> Self {
        let (mut bits, mut at) = (0, 0);
        while at < fields.len() {
            bits |= 1 << fields[at] as u64;
            at += 1;
        }
        Self(bits)
    }

    /// Whether a field is among them.
    #[inline]
    pub(crate) const fn has(self, field: Field) -> bool {
        self.0 & (1 << field as u64) != 0
    }

    pub(crate) const fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    pub(super) const fn with(self, field: Field) -> Self {
        Self(self.0 | (1 << field as u64))
    }

    const fn intersection(self, other: Self) -> Self {
        Self(self.0 & other.0)
    }

    /// Removes from a header those of `unwanted` that are in this set.
    #[inline]
    pub(crate) fn remove_from(self, headers: &mut HeaderMap, unwanted: Self) {
        let mut left = self.intersection(unwanted).0;
        while left != 0 {
            headers.remove(&NAMES[left.trailing_zeros() as usize]);
            left &= left - 1;
        }
    }
}

const _: () = assert!(COUNT <= u64::BITS as usize, "a set of fields is one word");

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
    fn names_with_other_signs_mean_what_servers_make_of_them() {
        for (name, expected) in [
            ("x_forwarded_for", Meaning::Forged),
            ("transfer_encoding", Meaning::Forged),
            ("x-forwarded_for", Meaning::Forged),
            ("x.forwarded.for", Meaning::Forged),
            ("x_forwarded_anything", Meaning::Forged),
            ("x-forwarded-anything", Meaning::Forwarded),
            ("x_omnigate_tenant", Meaning::Forged),
            ("x-omnigate-anything", Meaning::Forged),
            ("x_http_method", Meaning::Forged),
            ("my_field", Meaning::Odd),
            ("my-field", Meaning::Plain),
            ("x-forwarded", Meaning::Forwarded),
            ("x-ssl-client-verify", Meaning::Forwarded),
            ("client_cert", Meaning::Forged),
            ("x-scheme", Meaning::Forwarded),
            ("x-schema", Meaning::Plain),
            ("x-omnigate", Meaning::Plain),
        ] {
            assert_eq!(Meaning::of(name), expected, "{name}");
        }
    }
}
