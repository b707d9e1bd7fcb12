//! Who the client is: the peer, or whom a trusted proxy names.
//!
//! A trusted proxy's list of addresses is walked from its right end, where the proxy wrote, past further trusted hops to
//! the first address that nobody vouches for. What stands to the left of it the client itself may have written.

use std::net::{IpAddr, SocketAddr};

use http::{HeaderMap, HeaderName, HeaderValue};
use ron_transport::{
    ConnInfo, caps::ClientKey, proxy_protocol::TrustedSources, tls::certificate::ClientCertificate,
};

use crate::message::{Field, Fields, Survey};

/// Tells servers whose certificate a connection showed, in the form that Envoy gave it.
const CLIENT_CERT: HeaderName = HeaderName::from_static("x-forwarded-client-cert");

/// Hops beyond this are not looked at: no sensible chain is so long.
const MAX_HOPS: usize = 32;

/// An element of `Forwarded` with more parameters than this names nobody: four are registered.
const MAX_PAIRS: usize = 8;

/// The client of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Client {
    /// Its address, if it has one.
    pub(crate) ip: Option<IpAddr>,
    /// Who counts as the same client: an IPv6 /64 is one.
    pub(crate) key: ClientKey,
    /// Whether it speaks HTTPS, with us or with the trusted proxy in front.
    pub(crate) is_https: bool,
    /// The `X-Forwarded-For` field for the upstream.
    forwarded_for: Option<HeaderValue>,
    /// The certificate that the peer showed, which is not the client's behind a trusted proxy.
    certificate: Option<ClientCertificate>,
    /// Whether what the peer says of its client goes on.
    believed: bool,
    /// Whether a trusted peer names clients that contradict each other, or nobody.
    is_doubtful: bool,
}

impl Client {
    /// The client of a request that came over `conn`.
    pub(crate) fn of(
        conn: &ConnInfo,
        headers: &HeaderMap,
        survey: &Survey,
        trusted: &TrustedSources,
    ) -> Self {
        let peer = Self {
            ip: conn.client().map(|addr| addr.ip()),
            key: ClientKey::of(&conn.peer),
            is_https: conn.tls.is_some(),
            forwarded_for: conn.client_header(),
            certificate: conn.tls.as_ref().and_then(|tls| tls.client.clone()),
            believed: false,
            is_doubtful: false,
        };
        if trusted.is_empty() || !trusted.trusts(&conn.peer) {
            peer
        } else {
            peer.named(headers, survey, trusted)
        }
    }

    /// Returns the client that this trusted peer reports.
    fn named(self, headers: &HeaderMap, survey: &Survey, trusted: &TrustedSources) -> Self {
        let chain = Chain::of(headers, survey.fields, trusted);
        let is_https = match last_element(headers, Field::ForwardedProto) {
            Some(b"https") => true,
            Some(b"http") => false,
            _ => self.is_https,
        };
        let forwarded_for = chain.onward(headers, self.forwarded_for.as_ref());
        let key = chain.client.map_or(self.key, ClientKey::from);
        let says_something = survey.fields.has(Field::ForwardedFor) || survey.fields.has(Field::Forwarded);
        let is_doubtful = says_something && chain.client.is_none();
        let (ip, certificate) = (chain.client.or(self.ip), self.certificate);
        Self { ip, key, is_https, forwarded_for, certificate, believed: true, is_doubtful }
    }

    /// Who the client's own certificate says that it is.
    pub(crate) fn certified_name(&self) -> Option<&str> {
        self.certificate.as_ref().filter(|_| !self.believed)?.name()
    }

    /// Whether what the peer says of its client goes on to servers.
    pub(crate) const fn is_believed(&self) -> bool {
        self.believed
    }

    /// What servers are told of the certificate that the peer showed.
    pub(crate) fn certificate_field(&self) -> Option<HeaderValue> {
        self.certificate.as_ref().map(ClientCertificate::field)
    }

    /// Who it is where an address gives rights or takes them. Whoever makes a trusted proxy's fields contradict each other
    /// must not pass for the proxy.
    pub(crate) const fn origin(&self) -> Origin {
        match self.ip {
            _ if self.is_doubtful => Origin::Doubtful,
            Some(ip) => Origin::Address(ip),
            None => Origin::Unix,
        }
    }

    /// Removes what only a trusted proxy may say, unless one said it. A route must not be chosen by it either.
    pub(crate) fn remove_claims(&self, headers: &mut HeaderMap, survey: &Survey) {
        if self.believed {
            return;
        }
        survey.fields.remove_from(headers, Fields::PROXY_CLAIMS.union(Fields::FORWARDED));
        for name in &survey.forwarded {
            headers.remove(name);
        }
    }

    /// Tells the upstream what is known of the client, instead of what the client says of itself.
    pub(crate) fn write(&self, headers: &mut HeaderMap, survey: &Survey) {
        self.remove_claims(headers, survey);
        match &self.forwarded_for {
            Some(addresses) => drop(headers.insert(Field::ForwardedFor.name(), addresses.clone())),
            None => drop(headers.remove(Field::ForwardedFor.name())),
        }
        let proto = HeaderValue::from_static(if self.is_https { "https" } else { "http" });
        headers.insert(Field::ForwardedProto.name(), proto);
        if let Some(certificate) = &self.certificate {
            // Behind what a trusted proxy says of its own clients, which has gone otherwise.
            headers.append(CLIENT_CERT, certificate.field());
        }
    }
}

/// Who a client is where an address gives rights or takes them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// The client of this address.
    Address(IpAddr),
    /// A client over a Unix socket, which has no address.
    Unix,
    /// Nobody can tell: it has no right that depends on an address.
    Doubtful,
}

impl Origin {
    /// The address, if there is one that can be relied on.
    pub(crate) const fn address(self) -> Option<IpAddr> {
        match self {
            Self::Address(ip) => Some(ip),
            Self::Unix | Self::Doubtful => None,
        }
    }
}

/// What a trusted peer's list of addresses says.
struct Chain {
    /// The first address from the right that nobody vouches for; `None` if the list names nobody credible.
    client: Option<IpAddr>,
    /// Whether `X-Forwarded-For` is a list of addresses from end to end, and may go on as it is.
    sound: bool,
}

impl Chain {
    fn of(headers: &HeaderMap, present: Fields, trusted: &TrustedSources) -> Self {
        let list = |field: Field| headers.get_all(field.name()).iter();
        let (plain, sound) = if present.has(Field::ForwardedFor) {
            (walk(elements(list(Field::ForwardedFor)).map(address), trusted), true)
        } else {
            (None, false)
        };
        let forwarded = if present.has(Field::Forwarded) {
            walk(elements(list(Field::Forwarded)).map(forwarded_for), trusted)
        } else {
            None
        };
        let sound = sound && elements(list(Field::ForwardedFor)).all(|element| address(element).is_some());
        match (present.has(Field::ForwardedFor), present.has(Field::Forwarded)) {
            // A proxy sets one of them and may pass the other on as the client wrote it. Nobody can tell which.
            (true, true) if plain != forwarded => Self { client: None, sound: false },
            (true, _) => Self { client: plain, sound },
            (false, _) => Self { client: forwarded, sound: false },
        }
    }

    /// The list with this node's peer appended, if it is one; otherwise the client and the peer, as far as they are known.
    fn onward(&self, headers: &HeaderMap, peer: Option<&HeaderValue>) -> Option<HeaderValue> {
        let mut text = Vec::new();
        let mut append = |element: &[u8]| {
            if !text.is_empty() {
                text.extend_from_slice(b", ");
            }
            text.extend_from_slice(element);
        };
        if self.sound {
            let values = headers.get_all(Field::ForwardedFor.name()).iter();
            values.for_each(|value| append(value.as_bytes().trim_ascii()));
        } else if let Some(client) = self.client {
            append(client.to_string().as_bytes());
        }
        if let Some(peer) = peer {
            append(peer.as_bytes());
        }
        if text.is_empty() { None } else { HeaderValue::from_bytes(&text).ok() }
    }
}

/// The first address that nobody vouches for. Past something that is no address, nothing is believed: the hop before it
/// is the client then.
fn walk(hops: impl Iterator<Item = Option<IpAddr>>, trusted: &TrustedSources) -> Option<IpAddr> {
    let mut client = None;
    for hop in hops.take(MAX_HOPS) {
        let Some(address) = hop else { break };
        client = Some(address);
        if !trusted.contains(address) {
            break;
        }
    }
    client
}

/// The elements of a list that may be spread over several fields, the last one first.
fn elements<'a>(values: impl DoubleEndedIterator<Item = &'a HeaderValue>) -> impl Iterator<Item = &'a [u8]> {
    values.rev().flat_map(|value| value.as_bytes().rsplit(|byte| *byte == b',')).map(<[u8]>::trim_ascii)
}

fn last_element(headers: &HeaderMap, field: Field) -> Option<&[u8]> {
    elements(headers.get_all(field.name()).iter()).next()
}

/// An address as proxies write it: bare, in brackets, with or without a port.
fn address(text: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(text).ok()?;
    let bare = text.strip_prefix('[').and_then(|text| text.strip_suffix(']')).unwrap_or(text);
    let ip = bare.parse().ok().or_else(|| text.parse::<SocketAddr>().ok().map(|addr| addr.ip()))?;
    Some(IpAddr::to_canonical(&ip))
}

/// The address in an element of `Forwarded`, such as `proto=https;for="[2001:db8::1]:4711"`. An element that is not as RFC 7239, 4
/// has it names nobody: one that says something twice could mean either, and one that is cut out of a quoted value was written by
/// somebody else.
fn forwarded_for(element: &[u8]) -> Option<IpAddr> {
    let (mut names, mut named) = ([&[] as &[u8]; MAX_PAIRS], None);
    let pairs = element.split(|byte| *byte == b';').map(<[u8]>::trim_ascii).filter(|pair| !pair.is_empty());
    for (index, pair) in pairs.enumerate() {
        let equals = pair.iter().position(|byte| *byte == b'=')?;
        let (name, value) = (&pair[..equals], pair[equals + 1..].trim_ascii());
        let bare = value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value);
        let is_repeated = names.iter().take(index).any(|known| known.eq_ignore_ascii_case(name));
        if is_repeated || bare.contains(&b'"') {
            return None;
        }
        *names.get_mut(index)? = name;
        if name.eq_ignore_ascii_case(b"for") {
            named = Some(bare);
        }
    }
    named.and_then(address)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use ron_transport::{Body, Request, stream::Peer};

    fn request(fields: &[(&str, &str)]) -> Request {
        let builder = http::Request::builder().uri("/").header("host", "h");
        let builder = fields.iter().fold(builder, |builder, (name, value)| builder.header(*name, *value));
        builder.body(Body::empty()).unwrap()
    }

    /// The client of a request from `peer`, where 10/8, fd00::/8 and Unix sockets are trusted.
    fn client(peer: Peer, fields: &[(&str, &str)]) -> (Client, HeaderMap) {
        let sources = ["10.0.0.0/8", "fd00::/8", "unix"].map(|source| source.parse().unwrap());
        let (request, trusted) = (request(fields), TrustedSources::new(sources.to_vec()));
        let survey = Survey::of(&request);
        let client = Client::of(&ConnInfo::new(peer, 0), request.headers(), &survey, &trusted);
        let mut headers = request.headers().clone();
        client.write(&mut headers, &survey);
        (client, headers)
    }

    fn tcp(ip: &str) -> Peer {
        Peer::tcp(SocketAddr::new(ip.parse().unwrap(), 5000))
    }

    #[track_caller]
    fn assert_client(peer: &str, fields: &[(&str, &str)], ip: &str, forwarded_for: &str) {
        let (client, headers) = client(tcp(peer), fields);
        assert_eq!(client.ip, Some(ip.parse().unwrap()), "{fields:?}");
        assert_eq!(client.key, ClientKey::from(ip.parse::<IpAddr>().unwrap()));
        let written: Vec<_> = headers.get_all("x-forwarded-for").iter().collect();
        assert_eq!(written, [forwarded_for], "{fields:?}");
    }

    const XFF: &str = "x-forwarded-for";
    const FWD: &str = "forwarded";

    #[test]
    fn a_peer_that_is_not_trusted_is_the_client_whatever_it_says() {
        for fields in [
            &[] as &[_],
            &[(XFF, "1.1.1.1")],
            &[(FWD, "for=1.1.1.1")],
            &[(XFF, "10.0.0.1"), (XFF, "10.0.0.2")],
        ] {
            assert_client("192.0.2.7", fields, "192.0.2.7", "192.0.2.7");
        }
        let (client, headers) = client(
            tcp("192.0.2.7"),
            &[("x-forwarded-proto", "https"), ("x-forwarded-host", "a"), ("x-forwarded-port", "1")],
        );
        assert!(!client.is_https);
        assert_eq!(headers["x-forwarded-proto"], "http");
        assert!(!headers.contains_key("x-forwarded-host") && !headers.contains_key("x-forwarded-port"));
    }

    #[test]
    fn a_trusted_peer_names_the_first_address_that_nobody_vouches_for() {
        for (list, ip) in [
            ("1.1.1.1", "1.1.1.1"),
            ("6.6.6.6, 1.1.1.1", "1.1.1.1"),
            ("6.6.6.6, 1.1.1.1, 10.9.9.9", "1.1.1.1"),
            ("10.6.6.6, 1.1.1.1, 10.9.9.9,10.8.8.8", "1.1.1.1"),
            ("10.3.3.3, 10.2.2.2", "10.3.3.3"),
            ("1.1.1.1:4711", "1.1.1.1"),
            ("2001:db8::1", "2001:db8::1"),
            ("[2001:db8::1]:443, fd00::2", "2001:db8::1"),
            ("::ffff:1.1.1.1", "1.1.1.1"),
        ] {
            assert_client("10.0.0.1", &[(XFF, list)], ip, &format!("{list}, 10.0.0.1"));
        }
        assert_client(
            "10.0.0.1",
            &[(XFF, "6.6.6.6"), (XFF, "1.1.1.1")],
            "1.1.1.1",
            "6.6.6.6, 1.1.1.1, 10.0.0.1",
        );
        assert_client("10.0.0.1", &[], "10.0.0.1", "10.0.0.1");
    }

    #[test]
    fn past_what_is_no_address_nothing_is_believed() {
        for (list, ip, onward) in [
            ("1.1.1.1, unknown", "10.0.0.1", "10.0.0.1"),
            ("", "10.0.0.1", "10.0.0.1"),
            ("1.1.1.1, , 10.2.2.2", "10.2.2.2", "10.2.2.2, 10.0.0.1"),
            ("<script>, 1.1.1.1", "1.1.1.1", "1.1.1.1, 10.0.0.1"),
            ("1.1.1.1 10.2.2.2", "10.0.0.1", "10.0.0.1"),
            ("1.1.1.256", "10.0.0.1", "10.0.0.1"),
        ] {
            assert_client("10.0.0.1", &[(XFF, list)], ip, onward);
        }
    }

    #[test]
    fn the_standard_field_is_read_and_goes_on_as_the_usual_one() {
        for (list, ip) in [
            ("for=1.1.1.1", "1.1.1.1"),
            ("For=\"[2001:db8::1]:4711\";proto=https", "2001:db8::1"),
            ("for=6.6.6.6, by=x; for=1.1.1.1, for=10.2.2.2", "1.1.1.1"),
        ] {
            assert_client("10.0.0.1", &[(FWD, list)], ip, &format!("{ip}, 10.0.0.1"));
        }
        for list in [
            "for=_hidden",
            "for=unknown",
            "by=1.1.1.1",
            "",
            "for=1.1.1.1, for=\"6.6.6.6, x",
            "fo",
            "for=1.1.1.1;for=6.6.6.6",
            "for=6.6.6.6; For=\"1.1.1.1\"",
            "for=1.1.1.1;proto=http;proto=https",
            // What stands in quotes is not for us.
            "for=1.1.1.1;host=\"x,for=6.6.6.6;y=\"",
            "by=\"x;for=6.6.6.6;y=\"",
            "for=1.1.1.1;a=;b=;c=;d=;e=;f=;g=;h=",
        ] {
            assert_client("10.0.0.1", &[(FWD, list)], "10.0.0.1", "10.0.0.1");
        }
        assert_client("10.0.0.1", &[(FWD, "for=1.1.1.1;;proto=https;")], "1.1.1.1", "1.1.1.1, 10.0.0.1");
    }

    #[test]
    fn two_fields_that_name_two_clients_name_nobody() {
        let origin = |fields: &[(&str, &str)]| client(tcp("10.0.0.1"), fields).0.origin();
        let address = |ip: &str| Origin::Address(ip.parse().unwrap());
        assert_eq!(origin(&[(XFF, "1.1.1.1"), (FWD, "for=6.6.6.6")]), Origin::Doubtful);
        assert_eq!(origin(&[(XFF, "1.1.1.1, unknown")]), Origin::Doubtful);
        assert_eq!(origin(&[(FWD, "for=_hidden")]), Origin::Doubtful);
        assert_eq!(origin(&[(XFF, "1.1.1.1"), (FWD, "for=1.1.1.1")]), address("1.1.1.1"));
        assert_eq!(origin(&[]), address("10.0.0.1"));
        assert_client("10.0.0.1", &[(XFF, "1.1.1.1"), (FWD, "for=6.6.6.6")], "10.0.0.1", "10.0.0.1");
        assert_client("10.0.0.1", &[(XFF, "1.1.1.1"), (FWD, "for=1.1.1.1")], "1.1.1.1", "1.1.1.1, 10.0.0.1");
    }

    #[test]
    fn a_trusted_peer_also_tells_how_the_client_came() {
        let (named, headers) =
            client(tcp("10.0.0.1"), &[("x-forwarded-proto", "http, https"), ("x-forwarded-host", "a")]);
        assert!(named.is_https);
        assert_eq!(
            (&headers["x-forwarded-proto"], &headers["x-forwarded-host"]),
            (&"https".parse().unwrap(), &"a".parse().unwrap())
        );
        let (odd, headers) = client(tcp("10.0.0.1"), &[("x-forwarded-proto", "gopher")]);
        assert!(!odd.is_https);
        assert_eq!(headers["x-forwarded-proto"], "http");
    }

    #[test]
    fn a_trusted_unix_socket_has_no_address_to_append() {
        let (named, headers) = client(Peer::unix(), &[(XFF, "1.1.1.1")]);
        assert_eq!(
            (named.ip, &headers[XFF]),
            (Some("1.1.1.1".parse().unwrap()), &"1.1.1.1".parse().unwrap())
        );
        let (nobody, headers) = client(Peer::unix(), &[(XFF, "nonsense")]);
        assert_eq!((nobody.ip, nobody.key, headers.get(XFF)), (None, ClientKey::Unix, None));
    }

    #[test]
    fn a_network_of_ipv6_addresses_is_one_client() {
        let key = |list| client(tcp("10.0.0.1"), &[(XFF, list)]).0.key;
        assert_eq!(key("2001:db8:0:1::1"), key("2001:db8:0:1:ffff::2"));
        assert_ne!(key("2001:db8:0:1::1"), key("2001:db8:0:2::1"));
        assert_ne!(key("192.0.2.1"), key("192.0.2.2"));
    }
}
