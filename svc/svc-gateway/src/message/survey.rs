//! One walk over a request's header: what is in it that matters, and what is wrong with it.

use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version, header::CONNECTION};
use ron_transport::Request;
use types::{Reason, Refusal};

use super::fields::{Field, Fields, Meaning};
use crate::router::host;

/// The result of validating a request's header.
#[derive(Clone, Debug, Default)]
pub(crate) struct Survey {
    pub(crate) fields: Fields,
    /// Fields that `Connection` names, and those that some servers take for one of ours.
    pub(super) doomed: Vec<HeaderName>,
    /// Fields such as `x-forwarded-…`, beside the two that are rewritten; only a trusted proxy may send them.
    pub(crate) forwarded: Vec<HeaderName>,
    /// Whether some names could be taken for those of other fields, such as `my_field` for `my-field`.
    pub(super) has_odd_names: bool,
    /// Whether there are several cookie fields.
    pub(super) crumbs: bool,
}

/// Fields with one meaning each, of which two would have two.
const SINGLE: [Field; 5] =
    [Field::Host, Field::ContentLength, Field::TransferEncoding, Field::Expect, Field::Authorization];

impl Survey {
    /// Walks over the header of a request as it came.
    pub(crate) fn of(request: &Request) -> Self {
        let mut survey = Self::default();
        for name in request.headers().keys() {
            match Field::of(name) {
                Some(field) => survey.fields = survey.fields.with(field),
                None => match Meaning::of(name.as_str()) {
                    Meaning::Plain => {}
                    Meaning::Odd => survey.has_odd_names = true,
                    Meaning::Forwarded => survey.forwarded.push(name.clone()),
                    Meaning::Forged => survey.doomed.push(name.clone()),
                },
            }
        }
        survey
    }

    /// The fields that are removed because of `Connection`, or because servers take them for others.
    pub(crate) fn removed(&self) -> &[HeaderName] {
        &self.doomed
    }

    /// Whether a field of this name is removed because of `Connection`, or because servers take it for another.
    pub(crate) fn dooms(&self, name: &HeaderName) -> bool {
        self.doomed.contains(name)
    }

    /// Decides whether the surveyed request can be passed on, and notes what `Connection` names.
    ///
    /// # Errors
    /// `malformed` for what two servers could read in two ways, and for what cannot be passed on.
    pub(crate) fn check(&mut self, request: &Request) -> Result<(), Refusal> {
        let survey = self;
        survey.check_repeated(request.headers())?;
        if survey.fields.has(Field::Connection) {
            survey.read_connection(request.headers())?;
        }
        if request.method() == Method::CONNECT {
            return Err(malformed("CONNECT asks for a tunnel, and this is no forward proxy"));
        }
        if survey.fields.has(Field::TransferEncoding) && survey.fields.has(Field::ContentLength) {
            return Err(malformed("a body has either a Content-Length or a Transfer-Encoding"));
        }
        let says = |field: Field, word: &str| {
            let value = request.headers().get(field.name());
            value.is_none_or(|value| value.as_bytes().eq_ignore_ascii_case(word.as_bytes()))
        };
        if survey.fields.has(Field::Expect) && !says(Field::Expect, "100-continue") {
            return Err(malformed("the only known expectation is 100-continue"));
        }
        // Any other coding would be taken off here and not be put on again.
        if survey.fields.has(Field::TransferEncoding) && !says(Field::TransferEncoding, "chunked") {
            return Err(malformed("the only known transfer coding is chunked"));
        }
        check_path(request)?;
        survey.check_host(request)
    }

    fn check_repeated(&mut self, headers: &HeaderMap) -> Result<(), Refusal> {
        for field in SINGLE {
            if self.fields.has(field) && is_several(headers, field.name()) {
                return Err(malformed(
                    "Host, Content-Length, Transfer-Encoding, Expect and Authorization are said once",
                ));
            }
        }
        self.crumbs = self.fields.has(Field::Cookie) && is_several(headers, Field::Cookie.name());
        Ok(())
    }

    /// Notes the fields that `Connection` names.
    fn read_connection(&mut self, headers: &HeaderMap) -> Result<(), Refusal> {
        for value in headers.get_all(CONNECTION) {
            for token in tokens(value) {
                // What nearly all say names no field that would not end here anyway.
                if token.eq_ignore_ascii_case(b"keep-alive") || token.eq_ignore_ascii_case(b"close") {
                    continue;
                }
                let Ok(name) = HeaderName::from_bytes(token) else { continue };
                match Field::of(&name) {
                    // Without them the message would be another one, or not the one that was judged.
                    Some(
                        Field::Host | Field::ContentLength | Field::TransferEncoding | Field::Authorization,
                    ) => {
                        return Err(malformed("Connection names a field that is not the connection's"));
                    }
                    // They end here anyway, or are rewritten.
                    Some(_) => {}
                    None if !headers.contains_key(&name) => {}
                    None => self.doomed.push(name),
                }
            }
        }
        Ok(())
    }

    /// HTTP/1.1 needs exactly one host: two servers must not read two different ones out of one request.
    fn check_host(&self, request: &Request) -> Result<(), Refusal> {
        let uri = request.uri();
        let field = request.headers().get(Field::Host.name());
        if uri.authority().is_some() {
            return check_absolute(uri, field);
        }
        match field {
            None if request.version() == Version::HTTP_10 => Ok(()),
            Some(host) if host.to_str().is_ok_and(host::is_sound) => Ok(()),
            None | Some(_) => Err(malformed("a request needs exactly one Host")),
        }
    }
}

pub(super) fn malformed(detail: &'static str) -> Refusal {
    Refusal::new(Reason::Malformed, detail)
}

/// The elements of a list, as they stand between commas.
pub(super) fn tokens(value: &HeaderValue) -> impl Iterator<Item = &[u8]> {
    value.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii)
}

pub(crate) fn is_several(headers: &HeaderMap, name: &HeaderName) -> bool {
    headers.get_all(name).iter().nth(1).is_some()
}

/// HTTP/2 has a path in every request; only a whole URI in HTTP/1.1 may go without.
fn check_path(request: &Request) -> Result<(), Refusal> {
    let path = request.uri().path_and_query().map_or("", |path| path.as_str());
    if request.version() == Version::HTTP_2 && !path.starts_with('/') && path != "*" {
        return Err(malformed("a path begins with `/`"));
    }
    Ok(())
}

/// A whole URI, as HTTP/2 and clients of proxies send it: of our scheme, without credentials, for the same host as the
/// field says.
fn check_absolute(uri: &Uri, field: Option<&HeaderValue>) -> Result<(), Refusal> {
    let authority = uri.authority().map_or("", |authority| authority.as_str());
    let port = match uri.scheme_str() {
        Some("http") => ":80",
        Some("https") => ":443",
        _ => return Err(malformed("the target is neither a path nor an http URI")),
    };
    if !host::is_sound(authority) {
        return Err(malformed("the target's host is more than a name and a port"));
    }
    let same = |field: &HeaderValue| {
        let bare = |host| str::strip_suffix(host, port).unwrap_or(host);
        field.to_str().is_ok_and(|field| bare(field).eq_ignore_ascii_case(bare(authority)))
    };
    if field.is_none_or(same) { Ok(()) } else { Err(malformed("the target and the Host differ")) }
}
