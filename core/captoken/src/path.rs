//! Whether a path lies under a prefix, as every server behind would see it.

/// Whether `prefix` covers `path` in whole segments: `/api` covers `/api` and `/api/x`, not `/apix`. A path that a
/// server could resolve to another place is covered by nothing.
pub(crate) fn covers(prefix: &str, path: &str) -> bool {
    let segments = prefix.strip_suffix('/').unwrap_or(prefix);
    let under = |rest: &str| rest.is_empty() || rest.starts_with('/');
    // The empty path of what has no path at all is not under `/`.
    path.starts_with('/') && path.strip_prefix(segments).is_some_and(under) && !resolves_elsewhere(path)
}

/// Whether a segment is `.` or `..` to some server: written plainly or percent-encoded, between slashes that may be
/// encoded or reversed, or with parameters behind a semicolon.
pub(crate) fn resolves_elsewhere(path: &str) -> bool {
    let mut rest = path.as_bytes();
    let (mut dots, mut others) = (0_usize, false);
    loop {
        let (byte, after) = next_decoded(rest);
        match byte {
            None | Some(b'/' | b'\\' | b';') if !others && (dots == 1 || dots == 2) => return true,
            None => return false,
            Some(b'/' | b'\\' | b';') => (dots, others) = (0, false),
            Some(b'.') => dots += 1,
            Some(_) => others = true,
        }
        rest = after;
    }
}

/// The first byte, decoded if it is an encoded dot or slash, and what follows it.
fn next_decoded(path: &[u8]) -> (Option<u8>, &[u8]) {
    match path {
        [] => (None, path),
        [b'%', b'2', b'e' | b'E', rest @ ..] => (Some(b'.'), rest),
        [b'%', b'2', b'f' | b'F', rest @ ..] => (Some(b'/'), rest),
        [b'%', b'5', b'c' | b'C', rest @ ..] => (Some(b'\\'), rest),
        [byte, rest @ ..] => (Some(*byte), rest),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_prefix_covers_whole_segments() {
        for (prefix, path) in [
            ("/api", "/api"),
            ("/api", "/api/"),
            ("/api", "/api/x/y"),
            ("/api/", "/api"),
            ("/", "/"),
            ("/", "/x"),
        ] {
            assert!(covers(prefix, path), "{prefix} {path}");
        }
        for (prefix, path) in [
            ("/api", "/apix"),
            ("/api", "/ap"),
            ("/api", "/API"),
            ("/api", "//api"),
            ("/api", "/%61pi"),
            ("/api", ""),
            ("/", ""),
            ("/", "*"),
        ] {
            assert!(!covers(prefix, path), "{prefix} {path}");
        }
    }

    #[test]
    fn a_path_that_leads_out_of_the_prefix_is_not_covered() {
        for path in [
            "/api/..",
            "/api/../admin",
            "/api/./x",
            "/api/%2e%2E/admin",
            "/api/.%2e/admin",
            "/api/..%2fadmin",
            "/api%2F..%2fadmin",
            "/api/..\\admin",
            "/api/x%5c..%5Cadmin",
            "/api/..;a=b/admin",
        ] {
            assert!(!covers("/api", path) && resolves_elsewhere(path), "{path}");
        }
        for path in
            ["/api/...", "/api/.well-known", "/api/a..b", "/api/x.", "/api/%2", "/api/%", "/api/a%2fb"]
        {
            assert!(covers("/api", path), "{path}");
        }
    }
}
