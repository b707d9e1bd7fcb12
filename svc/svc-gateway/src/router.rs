//! Which route a path takes: the longest prefix of whole segments. Pure.

use std::sync::Arc;

use ron_kernel::metrics::RouteMetrics;

use crate::upstream::Upstream;

/// A prefix and where its requests go from one core.
#[derive(Debug)]
pub(crate) struct Route {
    pub(crate) prefix: String,
    pub(crate) upstream: Arc<Upstream>,
    pub(crate) metrics: RouteMetrics,
}

/// All routes of one core, longest prefix first. Cores have copies of their own, because a reference count that all
/// of them change costs more than everything else here.
#[derive(Debug, Default)]
pub(crate) struct Router {
    routes: Vec<Arc<Route>>,
}

impl Router {
    pub(crate) fn new(mut routes: Vec<Arc<Route>>) -> Self {
        routes.sort_by_key(|route| std::cmp::Reverse(segments_of(&route.prefix).len()));
        Self { routes }
    }

    pub(crate) fn find(&self, path: &str) -> Option<&Arc<Route>> {
        self.routes.iter().find(|route| covers(&route.prefix, path))
    }

    pub(crate) fn routes(&self) -> &[Arc<Route>] {
        &self.routes
    }
}

/// Whether a segment of the path is `.` or `..`, written plainly or percent-encoded. A server behind that resolves them
/// would serve what no route leads to.
pub(crate) fn has_dot_segment(path: &str) -> bool {
    let is_dot = |segment: &str| {
        let plain = segment.replace("%2e", ".").replace("%2E", ".");
        plain == "." || plain == ".."
    };
    // Most paths have no segment that could be one.
    path.split('/').any(|segment| (segment.starts_with('.') || segment.starts_with('%')) && is_dot(segment))
}

/// The prefix without the slash that ends it.
fn segments_of(prefix: &str) -> &str {
    prefix.strip_suffix('/').unwrap_or(prefix)
}

/// Whether `prefix` covers `path` in whole segments.
fn covers(prefix: &str, path: &str) -> bool {
    let prefix = segments_of(prefix);
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_prefix_covers_whole_segments_only() {
        for (prefix, path, expected) in [
            ("/", "/", true),
            ("/", "/anything/below", true),
            ("/api", "/api", true),
            ("/api", "/api/x", true),
            ("/api/", "/api/x", true),
            ("/api/", "/api", true),
            ("/api", "/apix", false),
            ("/api/v1", "/api", false),
        ] {
            assert_eq!(covers(prefix, path), expected, "{prefix} over {path}");
        }
    }

    #[test]
    fn dot_segments_are_found_however_they_are_written() {
        for path in ["/..", "/a/../b", "/a/.", "/%2e%2E/b", "/.%2e", "/%2e"] {
            assert!(has_dot_segment(path), "{path}");
        }
        for path in ["/", "/a.b", "/.well-known/x", "/...", "/a/..b", "/%2fetc", "/a..", "/x%2e%2e"] {
            assert!(!has_dot_segment(path), "{path}");
        }
    }

    proptest! {
        #[test]
        fn a_longer_prefix_never_covers_what_a_shorter_one_of_it_does_not(
            a in "(/[a-z]{1,3}){1,3}", b in "(/[a-z]{1,3}){0,2}", path in "(/[a-z]{1,3}){0,5}"
        ) {
            let longer = format!("{a}{b}");
            prop_assert!(!covers(&longer, &path) || covers(&a, &path));
        }
    }
}
