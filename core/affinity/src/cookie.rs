//! Finds a cookie among those that a client sends.

/// The value of the first cookie called `name` in a `Cookie` field; `None` if there is none.
#[must_use]
pub fn cookie<'f>(field: &'f [u8], name: &str) -> Option<&'f [u8]> {
    field.split(|byte| *byte == b';').find_map(|pair| {
        let pair = pair.trim_ascii();
        let value = pair.strip_prefix(name.as_bytes())?.strip_prefix(b"=")?;
        Some(value.strip_prefix(b"\"").and_then(|value| value.strip_suffix(b"\"")).unwrap_or(value))
    })
}

/// Whether a text can be the name of a cookie: a token, as of RFC 9110.
#[must_use]
pub fn is_cookie_name(name: &str) -> bool {
    let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.len() <= 64 && name.bytes().all(is_token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_found_by_its_whole_name() {
        let field = b"a=1; session=x=y;  b=\"quoted\"; session=2; empty=; xa=3";
        for (name, value) in [
            ("a", Some("1")),
            ("session", Some("x=y")),
            ("b", Some("quoted")),
            ("empty", Some("")),
            ("xa", Some("3")),
            ("x", None),
            ("ession", None),
            ("A", None),
        ] {
            assert_eq!(cookie(field, name), value.map(str::as_bytes), "{name}");
        }
        assert_eq!(cookie(b"", "a"), None);
        assert_eq!(cookie(b"a", "a"), None);
    }

    #[test]
    fn a_name_is_a_token() {
        assert!(is_cookie_name("__Host-route"));
        for wrong in ["", "a b", "a=b", "a;b", "é", &"a".repeat(65)] {
            assert!(!is_cookie_name(wrong), "{wrong}");
        }
    }
}
