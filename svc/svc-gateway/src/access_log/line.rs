//! One line of the access log. It never holds a credential or a query string.

use std::{
    io::Write as _,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, UNIX_EPOCH},
};

use http::{HeaderValue, Method, Uri};
use serde::Serialize;
use types::Reason;

use crate::{config::AccessFormat, tenant::TenantName};

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
    path: &'a str,
    status: u16,
    reason: Option<&'a str>,
    bytes_in: u64,
    bytes_out: u64,
    duration_us: u64,
    upstream: Option<&'a str>,
    tries: u32,
}

impl Line {
    /// The line of a request that has just begun.
    pub(crate) fn new(at: Duration, corr_id: HeaderValue, method: Method, target: Uri) -> Self {
        Self {
            at,
            corr_id,
            client: None,
            tenant: None,
            class: "",
            route: None,
            method,
            target: Target::Whole(target),
            status: None,
            reason: None,
            bytes_in: Arc::default(),
            bytes_out: 0,
            took: Duration::ZERO,
            upstream: None,
            tries: 0,
        }
    }

    /// How long the texts are that a client chose, in bytes.
    pub(super) fn text_bytes(&self) -> usize {
        let tenant = match &self.tenant {
            Some(TenantName::Named(name)) => name.len(),
            _ => 0,
        };
        self.target.path().len() + self.corr_id.len() + self.method.as_str().len() + tenant
    }

    /// Appends it, with its end, to a buffer.
    pub(super) fn write(&self, format: AccessFormat, buffer: &mut Vec<u8>) {
        match format {
            // Writing to memory does not fail, and neither do these types.
            AccessFormat::Json => drop(serde_json::to_writer(&mut *buffer, &self.json())),
            AccessFormat::Text => self.write_text(buffer),
        }
        buffer.push(b'\n');
    }

    fn json(&self) -> Json<'_> {
        Json {
            time: humantime::format_rfc3339_millis(UNIX_EPOCH + self.at).to_string(),
            corr_id: self.corr_id.to_str().unwrap_or_default(),
            client: self.client,
            tenant: self.tenant.as_ref().map(TenantName::to_string),
            class: self.class,
            route: self.route.as_deref(),
            method: self.method.as_str(),
            path: self.target.path(),
            status: self.status.unwrap_or(CLIENT_LEFT),
            reason: self.reason.map(Reason::as_str),
            bytes_in: self.bytes_in.load(Ordering::Relaxed),
            bytes_out: self.bytes_out,
            duration_us: u64::try_from(self.took.as_micros()).unwrap_or(u64::MAX),
            upstream: self.upstream.as_deref(),
            tries: self.tries,
        }
    }

    /// The same fields in the same order; a dash for what is not there, quotes around what may hold spaces.
    fn write_text(&self, buffer: &mut Vec<u8>) {
        let json = self.json();
        let quoted = |text: Option<&str>| text.map_or_else(|| "-".to_owned(), |text| format!("{text:?}"));
        let plain = |text: Option<&str>| text.filter(|text| !text.is_empty()).unwrap_or("-").to_owned();
        let client = json.client.map_or_else(|| "-".to_owned(), |ip| ip.to_string());
        let written = write!(
            buffer,
            "{} {} {client} {} {} {} {} {:?} {} {} {} {} {}us {} {}",
            json.time,
            plain(Some(json.corr_id)),
            quoted(json.tenant.as_deref()),
            plain(Some(json.class)),
            quoted(json.route),
            json.method,
            json.path,
            json.status,
            plain(json.reason),
            json.bytes_in,
            json.bytes_out,
            json.duration_us,
            quoted(json.upstream),
            json.tries,
        );
        drop(written);
    }
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
             \"path\":\"/a/\\\"b\",\"status\":429,\"reason\":\"busy\",\"bytes_in\":3,\"bytes_out\":4,\
             \"duration_us\":1500,\"upstream\":\"api\",\"tries\":2}\n"
        );
    }

    #[test]
    fn a_text_line_is_one_line_whatever_is_in_it() {
        let text = written(&line(), AccessFormat::Text);
        assert_eq!(
            text,
            "2023-11-14T22:13:20.123Z id-1 192.0.2.7 \"acme \\\"east\\\"\\n\" authed \"/a\" GET \"/a/\\\"b\" 429 busy 3 4 \
             1500us \"api\" 2\n"
        );
        let bare =
            Line::new(Duration::ZERO, HeaderValue::from_static("x"), Method::GET, Uri::from_static("/"));
        assert_eq!(
            written(&bare, AccessFormat::Text),
            "1970-01-01T00:00:00.000Z x - - - - GET \"/\" 499 - 0 0 0us - 0\n"
        );
    }
}
