//! Paths and queries of origins in one spelling each, so that one object has one name here.
//!
//! What needs no encoding is decoded, what is encoded is encoded in capitals, and what could lead elsewhere is refused: dots
//! for segments, however they are written, slashes and NULs that are hidden, backslashes.

use types::{Reason, Refusal};

/// The longest path with its query, in bytes.
pub(super) const MAX_LEN: usize = 4096;

/// Appends a path, which begins with a slash, in its one spelling.
///
/// # Errors
/// It is no path, or tries to lead elsewhere.
pub(super) fn push_path(text: &mut String, raw: &str) -> Result<(), Refusal> {
    let begins = text.len();
    push(text, raw, Part::Path)?;
    let leads_elsewhere = text[begins..].split('/').any(|segment| matches!(segment, "." | ".."));
    if leads_elsewhere { Err(malformed("the path has a `.` or `..` segment")) } else { Ok(()) }
}

/// Appends a query, without its question mark, in its one spelling.
///
/// # Errors
/// It is no query.
pub(super) fn push_query(text: &mut String, raw: &str) -> Result<(), Refusal> {
    push(text, raw, Part::Query)
}

/// The path without its dots, which lead up and no further than the root (RFC 3986, 5.2.4).
pub(super) fn resolved(path: &str) -> String {
    let mut segments: Vec<&str> = Vec::new();
    let mut all = path.split('/').skip(1).peekable();
    while let Some(segment) = all.next() {
        let is_last = all.peek().is_none();
        match segment {
            "." => {}
            ".." => drop(segments.pop()),
            segment => {
                segments.push(segment);
                continue;
            }
        }
        if is_last {
            segments.push("");
        }
    }
    format!("/{}", segments.join("/"))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Path,
    Query,
}

fn push(text: &mut String, raw: &str, part: Part) -> Result<(), Refusal> {
    if raw.len() > MAX_LEN {
        return Err(malformed("the path is too long"));
    }
    let mut bytes = raw.bytes();
    while let Some(byte) = bytes.next() {
        match byte {
            b'%' => {
                let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
                let (Some(high), Some(low)) = (digit(bytes.next()), digit(bytes.next())) else {
                    return Err(malformed("a percent sign is not followed by two hex digits"));
                };
                push_encoded(text, u8::try_from(high * 16 + low).expect("two hex digits"), part)?;
            }
            b'\\' => return Err(malformed("the path has a backslash")),
            0..=0x20 | 0x7f => return Err(malformed("the path has a blank or a control character")),
            _ if is_plain(byte, part) => text.push(char::from(byte)),
            _ => push_hex(text, byte),
        }
    }
    Ok(())
}

/// Appends a byte that was encoded: as itself if it needs no encoding.
fn push_encoded(text: &mut String, byte: u8, part: Part) -> Result<(), Refusal> {
    match byte {
        0 => return Err(malformed("the path has an encoded NUL")),
        b'/' | b'\\' if part == Part::Path => return Err(malformed("the path has an encoded slash")),
        _ if is_unreserved(byte) => text.push(char::from(byte)),
        _ => push_hex(text, byte),
    }
    Ok(())
}

fn push_hex(text: &mut String, byte: u8) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| char::from(DIGITS[usize::from(nibble)]);
    text.extend(['%', digit(byte >> 4), digit(byte & 15)]);
}

/// Means the same encoded and not (RFC 3986, 2.3).
const fn is_unreserved(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~')
}

/// May stand as it is.
const fn is_plain(byte: u8, part: Part) -> bool {
    let in_path = is_unreserved(byte)
        || matches!(byte, b'/' | b':' | b'@' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+')
        || matches!(byte, b',' | b';' | b'=');
    in_path || matches!(part, Part::Query) && byte == b'?'
}

fn malformed(why: &'static str) -> Refusal {
    Refusal::new(Reason::Malformed, why)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn path(raw: &str) -> Result<String, Reason> {
        let mut text = String::new();
        push_path(&mut text, raw).map(|()| text).map_err(|refusal| refusal.reason)
    }

    #[test]
    fn a_path_has_one_spelling() {
        for (raw, one) in [
            ("/", "/"),
            ("/a/b.png", "/a/b.png"),
            ("/%61/b%2Epng", "/a/b.png"),
            ("/a%2db", "/a-b"),
            ("/a%20b", "/a%20b"),
            ("/%c3%a9", "/%C3%A9"),
            ("/é", "/%C3%A9"),
            ("/a//b/", "/a//b/"),
            ("/a;v=1,2", "/a;v=1,2"),
            ("/a%3Fb", "/a%3Fb"),
            ("/{x}", "/%7Bx%7D"),
            ("/...", "/..."),
        ] {
            assert_eq!(path(raw).as_deref(), Ok(one), "{raw}");
        }
    }

    #[test]
    fn what_leads_elsewhere_is_refused() {
        for raw in [
            "/..",
            "/../a",
            "/a/..",
            "/./a",
            "/a/.",
            "/%2e%2e/a",
            "/a/%2E.",
            "/a%2Fb",
            "/a%5cb",
            "/a\\b",
            "/a%00",
            "/a b",
            "/a\tb",
            "/a\x7f",
            "/%",
            "/%4",
            "/%zz",
            "/%+1",
        ] {
            assert_eq!(path(raw), Err(Reason::Malformed), "{raw}");
        }
        assert!(path(&format!("/{}", "a".repeat(MAX_LEN - 1))).is_ok());
        assert_eq!(path(&format!("/{}", "a".repeat(MAX_LEN))), Err(Reason::Malformed));
    }

    #[test]
    fn a_query_may_have_what_a_path_may_not() {
        let mut text = String::new();
        push_query(&mut text, "u=%2f../?&a=%41").expect("a query");
        assert_eq!(text, "u=%2F../?&a=A");
    }

    #[test]
    fn dots_of_a_redirect_lead_no_further_than_the_root() {
        for (path, expected) in [
            ("/a/b/c/./../../g", "/a/g"),
            ("/mid/content=5/../6", "/mid/6"),
            ("/../../a", "/a"),
            ("/a/..", "/"),
            ("/a/.", "/a/"),
            ("/a/b/..", "/a/"),
            ("/", "/"),
            ("/a", "/a"),
            ("/a/", "/a/"),
            ("/..", "/"),
        ] {
            assert_eq!(resolved(path), expected, "{path}");
        }
    }

    proptest! {
        #[test]
        fn spelling_it_again_changes_nothing(raw in "/[a-zA-Z0-9%./?{}é~-]{0,30}") {
            if let Ok(one) = path(&raw) {
                prop_assert_eq!(path(&one), Ok(one.clone()));
                prop_assert!(one.bytes().all(|byte| byte.is_ascii_graphic()));
            }
        }
    }
}
