//! What narrows a route beyond its prefix: hosts, methods, header fields, and regular expressions.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header::COOKIE};

use super::{
    host::HostPattern,
    pattern::{Pattern, TooCostly},
};
use crate::{
    config::{Flaw, HeaderWanted, RouteConfig},
    message::{is_several, joined_cookies},
};

/// The methods of a route that names none, as far as they have a name that everybody knows.
static USUAL: [Method; 7] =
    [Method::DELETE, Method::GET, Method::HEAD, Method::OPTIONS, Method::PATCH, Method::POST, Method::PUT];

/// Whether a method has the server repeat the request, with the credentials that were added on the way. A route has to
/// name it.
fn is_echo(method: &Method) -> bool {
    // Servers that do not tell capital letters from small ones read `trace` as TRACE.
    *method == Method::TRACE
        || ["TRACE", "TRACK"].iter().any(|echo| method.as_str().eq_ignore_ascii_case(echo))
}

/// The requests under a path that a route is for.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Narrowing {
    /// The hosts of the route; empty for any.
    pub(super) hosts: Vec<HostPattern>,
    /// Empty for any; sorted by name.
    pub(super) methods: Vec<Method>,
    /// All of these hold; sorted by name.
    fields: Vec<(HeaderName, Wanted)>,
    /// What the whole path has to match.
    path: Option<Pattern>,
    /// Whether it is for its path alone, and not for longer ones.
    pub(super) is_whole_path: bool,
}

/// What a field has to be.
#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    Value(HeaderValue),
    Matching(Pattern),
    Present(bool),
}

impl Narrowing {
    /// What a configuration says; what it says wrongly is told and left out.
    pub(crate) fn new(config: &RouteConfig) -> (Self, Vec<Flaw>) {
        let mut flaws = Vec::new();
        let mut narrowing = Self::default();
        for (index, host) in config.host.iter().enumerate() {
            match host.parse() {
                Ok(pattern) => narrowing.hosts.push(pattern),
                Err(message) => flaws.push(Flaw::new(format!("host[{index}]"), message)),
            }
        }
        for (index, host) in config.host_regex.iter().enumerate() {
            match Pattern::new(host, true) {
                Ok(pattern) => narrowing.hosts.push(HostPattern::Matching(pattern)),
                Err(message) => flaws.push(Flaw::new(format!("host_regex[{index}]"), message)),
            }
        }
        if !config.path_regex.is_empty() {
            match Pattern::new(&config.path_regex, false) {
                Ok(pattern) => narrowing.path = Some(pattern),
                Err(message) => flaws.push(Flaw::new("path_regex", message)),
            }
        }
        for (index, method) in config.methods.iter().enumerate() {
            match Method::from_bytes(method.as_bytes()) {
                // A method's name is a token, but one in small letters is a slip.
                Ok(known) if !method.bytes().any(|byte| byte.is_ascii_lowercase()) => {
                    narrowing.methods.push(known);
                }
                _ => flaws.push(Flaw::new(
                    format!("methods[{index}]"),
                    "must be a method's name in capital letters",
                )),
            }
        }
        if narrowing.methods.contains(&Method::GET) {
            narrowing.methods.push(Method::HEAD);
        }
        for (name, wanted) in &config.headers {
            match field(name, wanted) {
                Ok(field) => narrowing.fields.push(field),
                Err(message) => flaws.push(Flaw::new(format!("headers.{name}"), message)),
            }
        }
        narrowing.methods.sort_by(|a, b| a.as_str().cmp(b.as_str()));
        narrowing.methods.dedup();
        narrowing.fields.sort_by(|(a, _), (b, _)| a.as_str().cmp(b.as_str()));
        (narrowing, flaws)
    }

    /// The same for the path alone, and not for longer ones.
    pub(super) fn of_whole_path(self) -> Self {
        Self { is_whole_path: true, ..self }
    }

    /// What the whole path has to match.
    pub(crate) fn path(&self) -> Option<&Pattern> {
        self.path.as_ref()
    }

    /// The number of its regular expressions.
    pub(crate) fn patterns(&self) -> usize {
        let hosts = self.hosts.iter().filter(|host| matches!(host, HostPattern::Matching(_))).count();
        let fields = self.fields.iter().filter(|(_, wanted)| matches!(wanted, Wanted::Matching(_))).count();
        hosts + fields + usize::from(self.path.is_some())
    }

    /// The hosts that it is for; empty for any.
    pub(crate) fn hosts(&self) -> &[HostPattern] {
        &self.hosts
    }

    pub(super) fn allows(&self, method: &Method) -> bool {
        if self.methods.is_empty() { !is_echo(method) } else { self.methods.contains(method) }
    }

    /// The methods that it is for, as `Allow` lists them.
    pub(super) fn allowed(&self) -> &[Method] {
        if self.methods.is_empty() { &USUAL } else { &self.methods }
    }

    /// The names of the fields that it asks for.
    pub(crate) fn field_names(&self) -> impl Iterator<Item = &HeaderName> {
        self.fields.iter().map(|(name, _)| name)
    }

    /// A field with several values, of which this compares one. HTTP/2 splits cookies, and servers get them joined.
    pub(super) fn repeated_field(&self, headers: &HeaderMap) -> Option<&HeaderName> {
        let compared = self.fields.iter().filter(|(_, wanted)| !matches!(wanted, Wanted::Present(_)));
        compared.map(|(name, _)| name).find(|name| **name != COOKIE && is_several(headers, name))
    }

    /// Whether the path is one that it is for, beyond its prefix. `normal` is asked for the path as it is compared only if
    /// there is a regular expression.
    ///
    /// # Errors
    /// [`TooCostly`], as all comparisons with a regular expression.
    pub(super) fn fits_path<'p>(&self, normal: impl FnOnce() -> &'p [u8]) -> Result<bool, TooCostly> {
        self.path.as_ref().map_or(Ok(true), |pattern| pattern.is_match(normal()))
    }

    /// Whether the header fields are as it asks for.
    ///
    /// # Errors
    /// [`TooCostly`], as all comparisons with a regular expression.
    pub(super) fn fits(&self, headers: &HeaderMap) -> Result<bool, TooCostly> {
        for (name, wanted) in &self.fields {
            let fits = match wanted {
                Wanted::Present(present) => headers.contains_key(name) == *present,
                Wanted::Value(value) if *name == COOKIE => joined_cookies(headers) == value.as_bytes(),
                Wanted::Value(value) => headers.get_all(name).iter().eq([value]),
                Wanted::Matching(pattern) => match headers.get(name) {
                    None => false,
                    Some(_) if *name == COOKIE => pattern.is_match(&joined_cookies(headers))?,
                    Some(value) => pattern.is_match(value.as_bytes())?,
                },
            };
            if !fits {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Whether, on the same path, it comes before `later` and takes all that `later` would.
    pub(crate) fn hides(&self, later: &Self) -> bool {
        let covers_hosts = match later.hosts.as_slice() {
            [] => self.hosts.is_empty(),
            hosts => hosts.iter().all(|host| self.hosts.contains(host)),
        };
        let covers_methods = self.methods.is_empty() == later.methods.is_empty()
            && later.methods.iter().all(|method| self.methods.contains(method));
        covers_hosts && covers_methods && self.fields == later.fields && self.path == later.path
    }

    /// How narrow it is for one of its hosts: more is narrower.
    pub(super) fn rank(&self, host: Option<&HostPattern>) -> (u8, bool, bool, usize) {
        let host = match host {
            Some(HostPattern::Exact(_)) => 3,
            Some(HostPattern::Wildcard(_)) => 2,
            Some(HostPattern::Matching(_)) => 1,
            None => 0,
        };
        (host, self.path.is_some(), !self.methods.is_empty(), self.fields.len())
    }
}

fn field(name: &str, wanted: &HeaderWanted) -> Result<(HeaderName, Wanted), String> {
    let parsed: HeaderName = name.parse().map_err(|_| format!("`{name}` is no name of a header field"))?;
    let wanted = match wanted {
        HeaderWanted::Present(present) => Wanted::Present(*present),
        HeaderWanted::Value(value) => {
            Wanted::Value(value.parse().map_err(|_| "is no value that a header field can have")?)
        }
        HeaderWanted::Matching { regex } => Wanted::Matching(Pattern::new(regex, false)?),
    };
    Ok((parsed, wanted))
}
