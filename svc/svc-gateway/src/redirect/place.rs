//! Where a redirect leads: a URL or a path with placeholders. What a client writes can never become the host.

use http::{HeaderMap, Uri};

use crate::router::{
    host,
    path::{Segments, normal, trim_separators},
    pattern::{Pattern, push_capture},
};

/// Characters that a URL has to encode, and `#`: what follows it never reaches a server.
const ENCODED: &[u8] = b" \"<>\\^`|}#";

/// The target of a redirect, as a template.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    parts: Vec<Part>,
    /// Segments of the route's path, which `{rest}` leaves out.
    segments: usize,
    /// What the route's paths match; `None` without a regular expression.
    pattern: Option<Pattern>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    /// The request's host, without its port.
    Host,
    /// The path as it came; it begins with `/`.
    Path,
    /// What follows the route's path in it; it begins with no separator.
    Rest,
    /// `?` and the query, or nothing.
    Query,
    /// What a group of the pattern matches.
    Group(usize),
}

impl Place {
    /// A place as written, for a route with this path. An origin alone keeps path and query.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(text: &str, (route, pattern): (&str, Option<&Pattern>)) -> Result<Self, String> {
        let mut parts = split(text, pattern)?;
        let (scheme, after) = match text.split_once("://") {
            Some((scheme @ ("http" | "https"), after)) => (Some(scheme), after),
            None if text.starts_with('/') => (None, text),
            _ => {
                let wanted = "`https`, an origin such as https://www.example.org, a URL, or a path";
                return Err(format!("must be {wanted}"));
            }
        };
        check_order(&parts)?;
        match scheme {
            Some(scheme) => check_authority(&parts, scheme)?,
            None if text.starts_with("//") => {
                return Err("begins with `//`, which browsers read as the name of a host".to_owned());
            }
            None => {}
        }
        if scheme.is_some() && !after.trim_end_matches('/').contains(['/', '{', '?']) {
            parts = vec![Part::Text(text.trim_end_matches('/').to_owned()), Part::Path, Part::Query];
        }
        Ok(Self { parts, segments: Segments::of(route).count(), pattern: pattern.cloned() })
    }

    /// The place for one request; `None` if it depends on the host, and the request does not say which it is for, or on a group,
    /// and the path is too long to look for that.
    pub(super) fn of(&self, uri: &Uri, headers: &HeaderMap) -> Option<String> {
        let mut place = String::new();
        for part in &self.parts {
            match part {
                Part::Text(text) => place.push_str(text),
                Part::Host => place.push_str(sound_host(uri, headers)?),
                Part::Path => place.push_str(path_of(uri)),
                Part::Rest => place.push_str(self.rest(path_of(uri))),
                Part::Group(group) => self.push_group(&mut place, path_of(uri), *group)?,
                Part::Query => {
                    if let Some(query) = uri.query() {
                        place.push('?');
                        place.push_str(query);
                    }
                }
            }
        }
        Some(if place.starts_with('/') { one_slash(place) } else { place })
    }

    fn push_group(&self, place: &mut String, path: &str, group: usize) -> Option<()> {
        let text = normal(path);
        let captures = self.pattern.as_ref()?.captures(&text)?;
        push_capture(place, &captures, &text, group);
        Some(())
    }

    /// What follows the route's path.
    fn rest<'p>(&self, path: &'p str) -> &'p str {
        let end = match self.segments {
            0 => 0,
            n => Segments::of(path).nth(n - 1).map_or(path.len(), |segment| segment.end),
        };
        trim_separators(&path[end..])
    }
}

/// A path that begins with one slash: browsers read what follows two of them, or a slash and a backslash, as a host.
fn one_slash(path: String) -> String {
    let rest = path.trim_start_matches(['/', '\\']);
    if rest.len() + 1 == path.len() { path } else { format!("/{rest}") }
}

/// The host that a request is for, if it can stand in a URL.
pub(super) fn sound_host<'a>(uri: &'a Uri, headers: &'a HeaderMap) -> Option<&'a str> {
    host::of(uri, headers).filter(|name| host::is_sound(name))
}

/// The path of a request; never without the slash at the beginning, or the host before it would go on in it.
fn path_of(uri: &Uri) -> &str {
    Some(uri.path()).filter(|path| path.starts_with('/')).unwrap_or("/")
}

/// Takes a text apart at its placeholders.
fn split(text: &str, pattern: Option<&Pattern>) -> Result<Vec<Part>, String> {
    let mut parts = Vec::new();
    let mut left = text;
    while let Some((before, after)) = left.split_once('{') {
        let unknown = || {
            "has a `{` that begins none of {path}, {rest}, {query} and {host}, nor a group of `path_regex`"
                .to_owned()
        };
        let (name, after) = after.split_once('}').ok_or_else(unknown)?;
        let part = match name {
            "host" => Part::Host,
            "path" => Part::Path,
            "rest" => Part::Rest,
            "query" => Part::Query,
            name => Part::Group(pattern.and_then(|pattern| pattern.group(name)).ok_or_else(unknown)?),
        };
        if !before.is_empty() {
            parts.push(Part::Text(before.to_owned()));
        }
        parts.push(part);
        left = after;
    }
    if !left.is_empty() {
        parts.push(Part::Text(left.to_owned()));
    }
    let is_wrong = |byte: u8| !byte.is_ascii_graphic() || ENCODED.contains(&byte);
    let wrong = parts.iter().any(|part| matches!(part, Part::Text(text) if text.bytes().any(is_wrong)));
    if wrong { Err("has signs that a URL must encode".to_owned()) } else { Ok(parts) }
}

/// Placeholders stand where their value means what it meant in the request.
fn check_order(parts: &[Part]) -> Result<(), String> {
    let mut in_query = false;
    for (index, part) in parts.iter().enumerate() {
        let before = index.checked_sub(1).and_then(|before| parts.get(before));
        let flaw = match part {
            Part::Text(text) => {
                in_query |= text.contains('?');
                continue;
            }
            _ if in_query => "has a placeholder in its query, where it would add parameters",
            Part::Query if index + 1 != parts.len() => "goes on after {query}",
            Part::Path if matches!(before, Some(Part::Text(text)) if text.ends_with('/') && !text.ends_with("://")) => {
                "has {path} after a `/`: {path} begins with one itself"
            }
            _ => continue,
        };
        return Err(flaw.to_owned());
    }
    Ok(())
}

/// The host of a URL is written out, `{host}` apart, and ends before anything else of the request begins.
fn check_authority(parts: &[Part], scheme: &str) -> Result<(), String> {
    let mut authority = String::new();
    for part in parts {
        match part {
            Part::Text(text) => {
                let text = if authority.is_empty() {
                    &text[text.find("://").map_or(0, |at| at + 3)..]
                } else {
                    text
                };
                match text.find(['/', '?']) {
                    Some(end) => {
                        authority.push_str(&text[..end]);
                        break;
                    }
                    None => authority.push_str(text),
                }
            }
            Part::Host => authority.push('h'),
            Part::Path => break,
            Part::Rest | Part::Query | Part::Group(_) => {
                return Err("needs a `/` between its host and {rest}, {query} or a group".to_owned());
            }
        }
    }
    let uri: Result<Uri, _> = format!("{scheme}://{authority}/").parse();
    let sound = uri.is_ok_and(|uri| uri.authority().is_some_and(|it| host::is_sound(it.as_str())));
    if sound { Ok(()) } else { Err("must have a host, as in https://www.example.org".to_owned()) }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use http::{HeaderValue, header::HOST};

    use super::*;

    fn leads(to: &str, route: &str, target: &str) -> String {
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("a.test:8080"))]);
        Place::parse(to, (route, None)).unwrap().of(&target.parse().unwrap(), &headers).unwrap()
    }

    #[test]
    fn placeholders_stand_for_parts_of_the_request() {
        for (to, target, expected) in [
            ("https://b.test", "/old/x?q=1", "https://b.test/old/x?q=1"),
            ("https://b.test/", "/old/x?q=1", "https://b.test/old/x?q=1"),
            ("https://b.test/new", "/old/x?q=1", "https://b.test/new"),
            ("https://b.test/?new=1", "/old/x?q=1", "https://b.test/?new=1"),
            ("https://b.test/v2{path}{query}", "/old/x?q=1", "https://b.test/v2/old/x?q=1"),
            ("https://b.test{path}", "/old/x?q=1", "https://b.test/old/x"),
            ("https://b.test/{rest}{query}", "/old/x/y?q=1", "https://b.test/x/y?q=1"),
            ("https://www.{host}{path}", "/old", "https://www.a.test/old"),
            ("/new/{rest}", "/old", "/new/"),
            ("/new/{rest}{query}", "/old/x%20y", "/new/x%20y"),
            ("/new", "/old?q", "/new"),
        ] {
            assert_eq!(leads(to, "/old", target), expected, "{to} for {target}");
        }
    }

    #[test]
    fn nothing_that_a_client_writes_becomes_the_host() {
        for target in
            ["/old//evil.test/x", "/old/%2f%2Fevil.test", "/%6fld/\\evil.test/x", "/old;a/%5c/evil.test"]
        {
            let place = leads("/{rest}", "/old", target);
            assert!(place.starts_with("/evil.test"), "{target} leads to {place}");
        }
        assert_eq!(leads("/{rest}{path}", "/old", "/old;@evil.test"), "/old;@evil.test");
        assert_eq!(leads("/{rest}/index.html", "/old", "/old"), "/index.html");
        assert_eq!(leads("https://b.test{path}", "/", "//@evil.test"), "https://b.test//@evil.test");
        assert_eq!(leads("https://b.test{path}", "/", "*"), "https://b.test/");
        let headers = HeaderMap::from_iter([(HOST, HeaderValue::from_static("b@evil.test"))]);
        let place = Place::parse("https://{host}/", ("/", None)).unwrap();
        assert_eq!(place.of(&Uri::from_static("/"), &headers), None);
    }

    #[test]
    fn what_leads_nowhere_is_told() {
        for to in [
            "",
            "http",
            "www.example.org",
            "ftp://a.test",
            "https://",
            "https:///x",
            "https://u@a.test",
            "https://a.test{rest}",
            "https://a.test{query}",
            "https://a.test/{query}x",
            "https://a.test/{nope}",
            "https://a.test/{path",
            "https://a.test/{path}",
            "https://a.test/?to={path}",
            "https://a.test/a b",
            "https://a.test/#top",
            "https://{path}",
            "{path}",
            "//a.test",
            "/{path}",
            "/\\a.test",
            "javascript://a.test/%0a",
        ] {
            assert!(Place::parse(to, ("/", None)).is_err(), "{to}");
        }
    }
}
