//! What an upstream sees of a path: its route's prefix replaced.

use http::{Uri, uri::PathAndQuery};
use types::{Reason, Refusal};

use super::{
    path::{Segments, check, normal, trim_separators},
    pattern::{Pattern, push_capture},
};
use crate::config::RouteConfig;

/// How a route changes the path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Rewrite {
    /// Its first segments are replaced.
    Prefix {
        /// How many segments of the path are replaced.
        segments: usize,
        /// By what; without a slash at its end.
        replacement: String,
    },
    /// All of it is replaced by a text with what the groups of a pattern match.
    Groups(Template),
}

/// A path with what the groups of a pattern match.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template {
    pattern: Pattern,
    /// Texts, and the number of the group that follows each.
    parts: Vec<(String, Option<usize>)>,
}

impl Rewrite {
    /// The rewrite of a route whose whole path matches `pattern`, if there is one; `None` if paths stay as they are.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn of(config: &RouteConfig, pattern: Option<&Pattern>) -> Result<Option<Self>, String> {
        let replacement = if config.strip_prefix { "/" } else { &config.rewrite };
        Ok(match pattern {
            _ if replacement.is_empty() => None,
            Some(pattern) if replacement.contains('{') => {
                Some(Self::Groups(Template::parse(pattern.clone(), replacement)?))
            }
            _ => Some(Self::new(&config.path, replacement)),
        })
    }

    /// Puts `replacement` in the place of `prefix`.
    pub(crate) fn new(prefix: &str, replacement: &str) -> Self {
        Self::Prefix {
            segments: Segments::of(prefix).count(),
            replacement: replacement.trim_end_matches('/').to_owned(),
        }
    }

    /// Changes the path of a URI in origin form; the query stays as it is. What was not a path stays what it is.
    ///
    /// # Errors
    /// `malformed` if that makes no path that can be passed on: it would be too long, or have a `..` segment. The path as the
    /// client wrote it is for the gateway alone, and may lead elsewhere at the server.
    pub(crate) fn apply(&self, uri: &mut Uri) -> Result<(), Refusal> {
        let Some(path_and_query) = uri.path_and_query() else { return Ok(()) };
        let path = path_and_query.path();
        let changed = match self {
            Self::Prefix { segments, replacement } => Some(replace_prefix(path, *segments, replacement)),
            Self::Groups(template) => template.fill(path),
        };
        let unfit = || Refusal::new(Reason::Malformed, "the path cannot be rewritten as the route says");
        let mut changed = changed.ok_or_else(unfit)?;
        if let Some(query) = path_and_query.query() {
            changed.push('?');
            changed.push_str(query);
        }
        let changed = PathAndQuery::from_maybe_shared(changed.into_bytes()).map_err(|_| unfit())?;
        *uri = Uri::from(changed);
        Ok(())
    }
}

fn replace_prefix(path: &str, segments: usize, replacement: &str) -> String {
    let end = match segments {
        0 => 0,
        n => Segments::of(path).nth(n - 1).map_or(path.len(), |segment| segment.end),
    };
    let rest = &path[end..];
    let trimmed = trim_separators(rest);
    // A bare prefix has no slash to keep, but a path has to begin with one.
    let slash = if rest.is_empty() && !replacement.is_empty() { "" } else { "/" };
    format!("{replacement}{slash}{trimmed}")
}

impl Template {
    /// Takes a text apart at its groups, such as `{1}` and `{user}`.
    ///
    /// # Errors
    /// If the pattern has no such group.
    fn parse(pattern: Pattern, text: &str) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut left = text;
        while let Some((before, after)) = left.split_once('{') {
            let unknown = || "has a `{` that begins no group of `path_regex`, such as {1}".to_owned();
            let (name, after) = after.split_once('}').ok_or_else(unknown)?;
            parts.push((before.to_owned(), Some(pattern.group(name).ok_or_else(unknown)?)));
            left = after;
        }
        parts.push((left.to_owned(), None));
        Ok(Self { pattern, parts })
    }

    /// The path for a request; `None` if it would be one that is not passed on, such as one with `..` that several groups
    /// make up.
    fn fill(&self, path: &str) -> Option<String> {
        let text = normal(path);
        let captures = self.pattern.captures(&text)?;
        let mut filled = String::with_capacity(path.len());
        for (part, group) in &self.parts {
            filled.push_str(part);
            if let Some(group) = group {
                push_capture(&mut filled, &captures, &text, *group);
            }
        }
        // What follows two slashes would be read as a host by some.
        let filled = format!("/{}", filled.trim_start_matches('/'));
        check(&filled).is_ok().then_some(filled)
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_prefix_is_replaced_and_the_rest_stays() {
        for (prefix, replacement, from, to) in [
            ("/api", "/", "/api", "/"),
            ("/api", "/", "/api/", "/"),
            ("/api", "/", "/api/x/y?q=1", "/x/y?q=1"),
            ("/api/", "", "/api?q", "/?q"),
            ("/api", "/v2", "/api", "/v2"),
            ("/api", "/v2/", "/api/", "/v2/"),
            ("/api", "/v2", "/api/x%20y?a/b", "/v2/x%20y?a/b"),
            ("/", "/v2", "/x", "/v2/x"),
            ("/", "/v2", "/", "/v2/"),
            ("/a/b", "/c", "/a/b/a/b", "/c/a/b"),
            ("/api", "/", "//%61pi;v=1//evil.example/x", "/evil.example/x"),
            ("/api", "/", "/api%2fx/y%2fz", "/x/y%2fz"),
        ] {
            let mut uri: Uri = from.parse().unwrap();
            Rewrite::new(prefix, replacement).apply(&mut uri).unwrap();
            assert_eq!(uri.to_string(), to, "{from} with {replacement} for {prefix}");
        }
    }

    fn groups(regex: &str, replacement: &str) -> Rewrite {
        let pattern = Pattern::new(regex, false).unwrap();
        Rewrite::Groups(Template::parse(pattern, replacement).unwrap())
    }

    #[test]
    fn a_path_that_cannot_be_rewritten_is_refused_and_not_passed_on_as_it_is() {
        let long = |path: &str, length: usize| format!("{path}{}", "[".repeat(length));
        for (rewrite, from) in [
            (groups("/a(.)b(.)", "/{1}{2}"), "/a.b.".to_owned()),
            (groups("/users/(.*)", "/public/{1}"), long("/users/admin/", 22_000)),
            (groups("/(.*)", "/{1}/{1}"), format!("/{}", "a".repeat(40_000))),
            (Rewrite::new("/", "/public"), long("/admin?", 65_525)),
        ] {
            let mut uri: Uri = from.parse().unwrap();
            assert_eq!(rewrite.apply(&mut uri).unwrap_err().reason, Reason::Malformed);
        }
        let mut uri: Uri = long("/users/", 21_000).parse().unwrap();
        groups("/users/(.*)", "/public/{1}").apply(&mut uri).unwrap();
        assert!(uri.path().starts_with("/public/%5B%5B"));
    }

    #[test]
    fn groups_of_a_pattern_make_a_new_path() {
        for (regex, replacement, from, to) in [
            ("/users/([0-9]+)/photos", "/photos/{1}", "/users/7/photos?q=1", "/photos/7?q=1"),
            ("/(?<lang>de|en)/(.*)", "/{2}/{lang}", "/de/a/b", "/a/b/de"),
            ("/a(/.*)?", "{1}", "/a", "/"),
            ("/a(/.*)?", "/{1}", "/a/x", "/x"),
            ("/(.*)", "/x/{1}", "/a%20b//c;p=1", "/x/a%20b/c"),
            ("/(.*)", "/{1}", "/%2561", "/%2561"),
        ] {
            let mut uri: Uri = from.parse().unwrap();
            groups(regex, replacement).apply(&mut uri).unwrap();
            assert_eq!(uri.to_string(), to, "{from} with {replacement} for {regex}");
        }
        let pattern = Pattern::new("/(a)", false).unwrap();
        for wrong in ["/{2}", "/{", "/{x}", "/{}"] {
            assert!(Template::parse(pattern.clone(), wrong).is_err(), "{wrong}");
        }
    }
}
