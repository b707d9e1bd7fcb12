//! Dotted paths such as `gateway.route[0].path`: how they are built, taken apart and compared.

use super::text;

/// The path of `key` inside the table at `parent`; a key that is not a bare TOML key is quoted.
pub(crate) fn child(parent: &str, key: &str) -> String {
    let key = written_key(key);
    if parent.is_empty() { key } else { format!("{parent}.{key}") }
}

/// The path of the `index`th element of the array at `parent`.
pub(crate) fn element(parent: &str, index: usize) -> String {
    format!("{parent}[{index}]")
}

/// A key as TOML writes it: bare if it may be, otherwise in quotes.
pub(crate) fn written_key(key: &str) -> String {
    let bare = !key.is_empty() && key.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_' || b == b'-');
    if bare { key.to_owned() } else { text::quoted(key) }
}

/// Whether `path` is `prefix` itself or lies below it.
pub(crate) fn is_under(path: &str, prefix: &str) -> bool {
    path.strip_prefix(prefix).is_some_and(|rest| rest.is_empty() || rest.starts_with(['.', '[']))
}

/// The path one level up: without the last key or index. The root has none.
pub(crate) fn parent(path: &str) -> Option<&str> {
    if path.is_empty() {
        return None;
    }
    let last = separators(path).last();
    Some(last.map_or("", |at| &path[..at]))
}

/// A path and all paths above it, up to the root.
pub(crate) fn levels(path: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(path), |path| parent(path))
}

/// The keys of a dotted path as typed by a person; quotes protect a dot inside a key.
pub(crate) fn keys(path: &str) -> Vec<String> {
    let mut keys = vec![String::new()];
    let mut quoted = false;
    for c in path.chars() {
        match c {
            '"' => quoted = !quoted,
            '.' if !quoted => keys.push(String::new()),
            c => keys.last_mut().expect("starts with one key").push(c),
        }
    }
    keys
}

/// Where each level after the first begins: the positions of the dots and brackets outside quotes.
fn separators(path: &str) -> impl Iterator<Item = usize> {
    let (mut quoted, mut escaped) = (false, false);
    path.char_indices().filter_map(move |(at, c)| {
        let literal = std::mem::take(&mut escaped);
        match c {
            '\\' if quoted && !literal => escaped = true,
            '"' if !literal => quoted = !quoted,
            '.' | '[' if !quoted => return Some(at),
            _ => {}
        }
        None
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_grows_by_keys_and_elements_and_shrinks_the_same_way() {
        let route = element(&child("gateway", "route"), 3);
        let path = child(&route, "a.b");
        assert_eq!(path, "gateway.route[3].\"a.b\"");
        assert_eq!(parent(&path), Some("gateway.route[3]"));
        assert_eq!(parent("gateway.route[3]"), Some("gateway.route"));
        assert_eq!(parent("gateway"), Some(""));
        assert_eq!(parent(""), None);
    }

    #[test]
    fn a_longer_name_is_not_under_a_shorter_one() {
        assert!(is_under("limits.max", "limits"));
        assert!(is_under("route[0].path", "route"));
        assert!(is_under("limits", "limits"));
        assert!(!is_under("limits_extra", "limits"));
    }

    #[test]
    fn quotes_keep_a_dot_inside_a_key() {
        assert_eq!(keys("gateway.upstream.\"a.b\".timeout"), ["gateway", "upstream", "a.b", "timeout"]);
    }
}
