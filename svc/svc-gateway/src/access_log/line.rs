//! One line of the access log. It never holds a credential or a query string.

use std::{
    borrow::Cow,
    io::Write as _,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use http::{
    HeaderValue, Method, Uri, Version,
    header::{HOST, REFERER, USER_AGENT},
};
use ron_transport::Request;
use serde::Serialize;
use types::Reason;

use crate::{config::AccessFormat, tenant::TenantName, upstream::Server};

/// The maximum length at which `Host`, `User-Agent` and `Referer` are logged, in bytes.
const MAX_CLAIM: usize = 512;

/// What is told of a request.
#[derive(Clone, Debug)]
pub(crate) struct Line {
    /// Since the Unix epoch, when the request began.
    pub(crate) at: Duration,
    pub(crate) corr_id: HeaderValue,
    pub(crate) client: Option<IpAddr>,
    pub(crate) tenant: Option<TenantName>,
    pub(crate) class: &'static str,
    /// The name of the route.
    pub(crate) route: Option<Arc<str>>,
    pub(crate) method: Method,
    /// The target of the request, of which the path is logged.
    pub(super) target: Target,
    pub(super) version: Version,
    /// The protocol version of TLS between the client and this node.
    pub(crate) tls: Option<&'static str>,
    /// The `Host`, `User-Agent` and `Referer` fields.
    pub(super) claims: [Option<HeaderValue>; 3],
    /// `None` if the client left before it was answered.
    pub(crate) status: Option<u16>,
    pub(crate) reason: Option<Reason>,
    /// Bytes of the request's body, counted as they are read.
    pub(crate) bytes_in: Arc<AtomicU64>,
    /// Bytes of the response's body, as far as it got.
    pub(crate) bytes_out: u64,
    pub(crate) took: Duration,
    /// The name of the upstream.
    pub(crate) upstream: Option<Arc<str>>,
    /// How often an upstream was asked.
    pub(crate) tries: u32,
    /// The server that was asked last.
    pub(crate) server: Option<Arc<Server>>,
    /// The time from forwarding the request to the head of the response, or to the failure.
    pub(crate) waited: Option<Duration>,
}

/// What a request asks for; only its path is told.
#[derive(Clone, Debug)]
pub(super) enum Target {
    /// The target as it came, which may be a part of the request's head.
    Whole(Uri),
    /// A copy of the path alone.
    Path(Box<str>),
}

impl Target {
    pub(super) fn path(&self) -> &str {
        match self {
            Self::Whole(uri) => uri.path(),
            Self::Path(path) => path,
        }
    }
}

/// What a client that left before it was answered is logged as, after the custom of others.
pub(super) const CLIENT_LEFT: u16 = 499;

#[derive(Serialize)]
struct Json<'a> {
    time: String,
    corr_id: &'a str,
    client: Option<IpAddr>,
    tenant: Option<String>,
    class: &'a str,
    route: Option<&'a str>,
    method: &'a str,
    host: Option<Cow<'a, str>>,
    path: &'a str,
    protocol: &'a str,
    tls: Option<&'a str>,
    user_agent: Option<Cow<'a, str>>,
    referer: Option<Cow<'a, str>>,
    status: u16,
    reason: Option<&'a str>,
    bytes_in: u64,
    bytes_out: u64,
    duration_us: u64,
    upstream: Option<&'a str>,
    server: Option<String>,
    upstream_us: Option<u64>,
    tries: u32,
}

impl Line {
    /// The line of a request that has just begun.
    pub(crate) fn of(request: &Request, at: Duration, corr_id: HeaderValue) -> Self {
        let (method, target) = (request.method().clone(), request.uri().clone());
        // HTTP/2 and proxies name the host in the target.
        let claim = |name| request.headers().get(name).cloned();
        let host = target.host().map_or_else(|| claim(HOST), |host| HeaderValue::from_str(host).ok());
        let claims = [host, claim(USER_AGENT), claim(REFERER)];
        Self { claims, version: request.version(), ..Self::new(at, corr_id, method, target) }
    }

    /// A line with only these values; the others are unknown.
    pub(super) fn new(at: Duration, corr_id: HeaderValue, method: Method, target: Uri) -> Self {
        Self {
            at,
            corr_id,
            client: None,
            tenant: None,
            class: "",
            route: None,
            method,
            target: Target::Whole(target),
            version: Version::HTTP_11,
            tls: None,
            claims: [None, None, None],
            status: None,
            reason: None,
            bytes_in: Arc::default(),
            bytes_out: 0,
            took: Duration::ZERO,
            upstream: None,
            tries: 0,
            server: None,
            waited: None,
        }
    }

    /// How long the texts are that a client chose, in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        let tenant = match &self.tenant {
            Some(TenantName::Named(name)) => name.len(),
            _ => 0,
        };
        let claims: usize = self.claims.iter().flatten().map(HeaderValue::len).sum();
        self.target.path().len() + self.corr_id.len() + self.method.as_str().len() + tenant + claims
    }

    /// Copies what is a part of the request's head, as much of it as is told: as long as it is referred to, the whole head
    /// stays in memory.
    pub(super) fn detach(&mut self) {
        self.target = Target::Path(self.target.path().into());
        let copy = |value: &HeaderValue, most: usize| {
            HeaderValue::from_bytes(&value.as_bytes()[..value.len().min(most)]).ok()
        };
        if let Some(corr_id) = copy(&self.corr_id, usize::MAX) {
            self.corr_id = corr_id;
        }
        for claim in &mut self.claims {
            *claim = claim.as_ref().and_then(|claim| copy(claim, MAX_CLAIM));
        }
    }

    /// The host, the user agent, and where the client came from without the query, which may hold a secret.
    fn claims(&self) -> [Option<Cow<'_, str>>; 3] {
        let [host, agent, referer] =
            self.claims.each_ref().map(|claim| claim.as_ref().map(HeaderValue::as_bytes));
        let without_query = |url: &'_ [u8]| url.iter().position(|byte| matches!(byte, b'?' | b'#'));
        let referer = referer.map(|url| &url[..without_query(url).unwrap_or(url.len())]);
        [host, agent, referer].map(|claim| claim.map(String::from_utf8_lossy))
    }

    fn protocol(&self) -> &'static str {
        match self.version {
            Version::HTTP_10 => "HTTP/1.0",
            Version::HTTP_2 => "HTTP/2.0",
            Version::HTTP_3 => "HTTP/3.0",
            _ => "HTTP/1.1",
        }
    }

    /// Appends it, with its end, to a buffer.
    pub(super) fn write(&self, format: AccessFormat, buffer: &mut Vec<u8>) {
        match format {
            // Writing to memory does not fail, and neither do these types.
            AccessFormat::Json => drop(serde_json::to_writer(&mut *buffer, &self.json())),
            AccessFormat::Text => self.write_text(buffer),
            AccessFormat::Common => self.write_common(buffer),
            AccessFormat::Combined => {
                self.write_common(buffer);
                let [_, agent, referer] = self.claims();
                for claim in [referer, agent] {
                    drop(write!(buffer, " {}", quoted(claim.as_deref())));
                }
            }
        }
        buffer.push(b'\n');
    }

    fn json(&self) -> Json<'_> {
        let [host, user_agent, referer] = self.claims();
        let micros = |time: Duration| u64::try_from(time.as_micros()).unwrap_or(u64::MAX);
        Json {
            time: humantime::format_rfc3339_millis(UNIX_EPOCH + self.at).to_string(),
            corr_id: self.corr_id.to_str().unwrap_or_default(),
            client: self.client,
            tenant: self.tenant.as_ref().map(TenantName::to_string),
            class: self.class,
            route: self.route.as_deref(),
            method: self.method.as_str(),
            host,
            path: self.target.path(),
            protocol: self.protocol(),
            tls: self.tls,
            user_agent,
            referer,
            status: self.status.unwrap_or(CLIENT_LEFT),
            reason: self.reason.map(Reason::as_str),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out,
            duration_us: micros(self.took),
            upstream: self.upstream.as_deref(),
            server: self.server.as_ref().map(|server| server.endpoint.to_string()),
            upstream_us: self.waited.map(micros),
            tries: self.tries,
        }
    }

    /// The same fields in the same order; a dash for what is not there, quotes around what may hold spaces.
    fn write_text(&self, buffer: &mut Vec<u8>) {
        let json = self.json();
        let plain = |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
        let client = json.client.map_or_else(|| "-".to_owned(), |ip| ip.to_string());
        let written = write!(
            buffer,
            "{} {} {client} {} {} {} {} {} {:?} {} {} {} {} {} {} {} {} {}us {} {} {} {}",
            json.time,
            plain(Some(json.corr_id)),
            quoted(json.tenant.as_deref()),
            plain(Some(json.class)),
            quoted(json.route),
            json.method,
            quoted(json.host.as_deref()),
            json.path,
            json.protocol,
            plain(json.tls),
            quoted(json.user_agent.as_deref()),
            quoted(json.referer.as_deref()),
            json.status,
            plain(json.reason),
            json.bytes_in,
            json.bytes_out,
            json.duration_us,
            quoted(json.upstream),
            plain(json.server.as_deref()),
            json.upstream_us.map_or_else(|| "-".to_owned(), |us| format!("{us}us")),
            json.tries,
        );
        drop(written);
    }

    /// The line that tools for other servers' logs understand, without its end. The user is the tenant.
    fn write_common(&self, buffer: &mut Vec<u8>) {
        let client = self.client.map_or_else(|| "-".to_owned(), |ip| ip.to_string());
        let tenant = self.tenant.as_ref().map(TenantName::to_string);
        // One word, so that whoever splits at spaces finds the rest.
        let is_plain = |byte: char| byte.is_ascii_graphic() && byte != '"';
        let user = tenant.filter(|tenant| !tenant.is_empty() && tenant.chars().all(is_plain));
        let request = format!("{} {} {}", self.method, self.target.path(), self.protocol());
        let written = write!(
            buffer,
            "{client} - {} [{}] {} {} {}",
            user.as_deref().unwrap_or("-"),
            common_time(self.at),
            quoted(Some(&request)),
            self.status.unwrap_or(CLIENT_LEFT),
            self.bytes_out,
        );
        drop(written);
    }
}

/// In quotes, with what would end them escaped; a dash for what is not there.
fn quoted(text: Option<&str>) -> String {
    text.map_or_else(|| "-".to_owned(), |text| format!("{text:?}"))
}

/// A time as `14/Nov/2023:22:13:20 +0000`.
fn common_time(at: Duration) -> String {
    // `Tue, 14 Nov 2023 22:13:20 GMT`: fixed widths.
    let date = httpdate::fmt_http_date(UNIX_EPOCH + at);
    format!("{}/{}/{}:{} +0000", &date[5..7], &date[8..11], &date[12..16], &date[17..25])
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn line() -> Line {
        let target = "http://me:secret@a.example/a/\"b?token=secret".parse().unwrap();
        let at = Duration::from_millis(1_700_000_000_123);
        Line {
            client: Some("192.0.2.7".parse().unwrap()),
            tenant: Some(TenantName::Named("acme \"east\"\n".into())),
            class: "authed",
            route: Some("/a".into()),
            status: Some(429),
            reason: Some(Reason::Busy),
            bytes_in: Arc::new(3.into()),
            bytes_out: 4,
            took: Duration::from_micros(1500),
            upstream: Some("api".into()),
            tries: 2,
            tls: Some("TLSv1.3"),
            claims: [
                Some(HeaderValue::from_static("a.example")),
                Some(HeaderValue::from_static("curl/8 \"x\"")),
                Some(HeaderValue::from_static("https://b.example/p?token=secret#part")),
            ],
            waited: Some(Duration::from_micros(900)),
            ..Line::new(at, HeaderValue::from_static("id-1"), Method::GET, target)
        }
    }

    fn written(line: &Line, format: AccessFormat) -> String {
        let mut buffer = Vec::new();
        line.write(format, &mut buffer);
        String::from_utf8(buffer).unwrap()
    }

    #[test]
    fn a_json_line_has_every_field_and_no_secret() {
        let text = written(&line(), AccessFormat::Json);
        assert_eq!(
            text,
            "{\"time\":\"2023-11-14T22:13:20.123Z\",\"corr_id\":\"id-1\",\"client\":\"192.0.2.7\",\
             \"tenant\":\"acme \\\"east\\\"\\n\",\"class\":\"authed\",\"route\":\"/a\",\"method\":\"GET\",\
             \"host\":\"a.example\",\"path\":\"/a/\\\"b\",\"protocol\":\"HTTP/1.1\",\"tls\":\"TLSv1.3\",\
             \"user_agent\":\"curl/8 \\\"x\\\"\",\"referer\":\"https://b.example/p\",\"status\":429,\"reason\":\"busy\",\
             \"bytes_in\":3,\"bytes_out\":4,\"duration_us\":1500,\"upstream\":\"api\",\"server\":null,\
             \"upstream_us\":900,\"tries\":2}\n"
        );
    }

    #[test]
    fn a_text_line_is_one_line_whatever_is_in_it() {
        let text = written(&line(), AccessFormat::Text);
        assert_eq!(
            text,
            "2023-11-14T22:13:20.123Z id-1 192.0.2.7 \"acme \\\"east\\\"\\n\" authed \"/a\" GET \"a.example\" \
             \"/a/\\\"b\" HTTP/1.1 TLSv1.3 \"curl/8 \\\"x\\\"\" \"https://b.example/p\" 429 busy 3 4 1500us \"api\" - \
             900us 2\n"
        );
        let bare =
            Line::new(Duration::ZERO, HeaderValue::from_static("x"), Method::GET, Uri::from_static("/"));
        assert_eq!(
            written(&bare, AccessFormat::Text),
            "1970-01-01T00:00:00.000Z x - - - - GET - \"/\" HTTP/1.1 - - - 499 - 0 0 0us - - - 0\n"
        );
    }

    #[test]
    fn the_formats_of_other_servers_have_their_fields_and_no_secret() {
        let common = "192.0.2.7 - - [14/Nov/2023:22:13:20 +0000] \"GET /a/\\\"b HTTP/1.1\" 429 4";
        assert_eq!(written(&line(), AccessFormat::Common), format!("{common}\n"));
        let claims = "\"https://b.example/p\" \"curl/8 \\\"x\\\"\"";
        assert_eq!(written(&line(), AccessFormat::Combined), format!("{common} {claims}\n"));
        let named = Line { tenant: Some(TenantName::Named("acme".into())), ..line() };
        assert!(written(&named, AccessFormat::Common).starts_with("192.0.2.7 - acme [14/"));
    }

    #[test]
    fn a_line_is_of_its_request_and_keeps_little_of_what_the_client_says() {
        let request = http::Request::get("http://me:secret@a.example:81/x?q")
            .version(Version::HTTP_2)
            .header(HOST, "other.example")
            .header(USER_AGENT, "u".repeat(5000))
            .body(ron_transport::Body::empty())
            .unwrap();
        let mut line = Line::of(&request, Duration::ZERO, HeaderValue::from_static("x"));
        line.detach();
        let json = line.json();
        assert_eq!((json.host.as_deref(), json.path, json.protocol), (Some("a.example"), "/x", "HTTP/2.0"));
        assert_eq!(json.user_agent.map(|agent| agent.len()), Some(MAX_CLAIM));
        assert_eq!(json.referer, None);
    }
}
