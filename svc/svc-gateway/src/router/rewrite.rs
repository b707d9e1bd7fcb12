//! What an upstream sees of a path: its route's prefix replaced.

use http::{Uri, uri::PathAndQuery};

use super::path::{Segments, trim_separators};

/// How a route changes the path of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rewrite {
    /// How many segments of the path are replaced.
    segments: usize,
    /// By what; without a slash at its end.
    replacement: String,
}

impl Rewrite {
    /// Puts `replacement` in the place of `prefix`.
    pub(crate) fn new(prefix: &str, replacement: &str) -> Self {
        Self {
            segments: Segments::of(prefix).count(),
            replacement: replacement.trim_end_matches('/').to_owned(),
        }
    }

    /// Changes the path of a URI in origin form; the query stays as it is. What was not a path stays what it is.
    pub(crate) fn apply(&self, uri: &mut Uri) {
        let Some(path_and_query) = uri.path_and_query() else { return };
        let path = path_and_query.path();
        let end = match self.segments {
            0 => 0,
            n => Segments::of(path).nth(n - 1).map_or(path.len(), |segment| segment.end),
        };
        let rest = &path[end..];
        let trimmed = trim_separators(rest);
        // A bare prefix has no slash to keep, but a path has to begin with one.
        let slash = if rest.is_empty() && !self.replacement.is_empty() { "" } else { "/" };
        let mut changed = format!("{}{slash}{trimmed}", self.replacement);
        if let Some(query) = path_and_query.query() {
            changed.push('?');
            changed.push_str(query);
        }
        if let Ok(changed) = PathAndQuery::from_maybe_shared(changed.into_bytes()) {
            *uri = Uri::from(changed);
        }
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
            Rewrite::new(prefix, replacement).apply(&mut uri);
            assert_eq!(uri.to_string(), to, "{from} with {replacement} for {prefix}");
        }
    }
}
