//! How a path is read: as the most lenient server behind would, so that no spelling of a path leads past its route.
//!
//! Percent-encodings are decoded once, `\`, `%2f` and `%5c` end a segment as `/` does, empty segments do not count, and
//! what follows `;` or `%3b` in a segment is a parameter. Encodings that only some servers decode are refused. The path itself
//! is never changed by being read.

use std::{borrow::Cow, cmp::Ordering};

/// A path that is not passed on, because servers disagree about where it leads.
///
/// # Errors
/// What is wrong with it: a `.` or `..` segment, an encoded NUL, `%uXXXX`, or an overlong UTF-8 sequence.
pub(crate) fn check(path: &str) -> Result<(), &'static str> {
    if is_plain(path) {
        // Most paths have no segment that could be one.
        let dots = path.split('/').any(|segment| segment == "." || segment == "..");
        return if dots { Err(DOTS) } else { Ok(()) };
    }
    if has_unicode_escape(path) {
        return Err("a path with `%u` and four digits is decoded by some servers only");
    }
    if has_overlong_sequence(path) {
        return Err("a path with an overlong UTF-8 sequence is decoded by some servers only");
    }
    for segment in Segments::of(path) {
        if segment.is(".") || segment.is("..") {
            return Err(DOTS);
        }
        if segment.name().any(|byte| byte == 0) {
            return Err("a path with an encoded NUL may be read only up to there");
        }
    }
    Ok(())
}

const DOTS: &str = "a path with `.` or `..` may lead past its route";

/// The segments of a path, empty ones left out.
#[derive(Clone, Debug)]
pub(crate) struct Segments<'a> {
    path: &'a str,
    at: usize,
    plain: bool,
}

/// One segment of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Segment<'a> {
    raw: &'a str,
    plain: bool,
    /// Where it ends in its path, parameters included.
    pub(crate) end: usize,
}

impl<'a> Segments<'a> {
    pub(crate) fn of(path: &'a str) -> Self {
        Self { path, at: 0, plain: is_plain(path) }
    }

    /// The next segment, which may be empty.
    fn cut(&mut self) -> Option<Segment<'a>> {
        let rest = self.path.get(self.at..).filter(|rest| !rest.is_empty())?;
        let (len, separator) = self.length_of_first(rest);
        let end = self.at + len;
        let segment = Segment { raw: &rest[..len], plain: self.plain, end };
        self.at = end + separator;
        Some(segment)
    }

    /// The lengths of the first segment and of the separator behind it.
    fn length_of_first(&self, rest: &str) -> (usize, usize) {
        let bytes = rest.as_bytes();
        if self.plain {
            return (bytes.iter().position(|byte| *byte == b'/').unwrap_or(bytes.len()), 1);
        }
        let found = (0..bytes.len()).find_map(|at| Some((at, separator_len(&bytes[at..])?)));
        found.unwrap_or((bytes.len(), 1))
    }
}

impl<'a> Iterator for Segments<'a> {
    type Item = Segment<'a>;

    fn next(&mut self) -> Option<Segment<'a>> {
        loop {
            let segment = self.cut()?;
            if !segment.is("") {
                return Some(segment);
            }
        }
    }
}

impl<'a> Segment<'a> {
    /// Compares it with a name, byte by byte.
    pub(crate) fn compare(&self, name: &str) -> Ordering {
        if self.plain { self.raw.cmp(name) } else { self.name().cmp(name.bytes()) }
    }

    fn is(&self, name: &str) -> bool {
        self.compare(name) == Ordering::Equal
    }

    /// Returns the decoded bytes of the segment, without parameters.
    fn name(self) -> impl Iterator<Item = u8> + 'a {
        decoded(self.raw).take_while(|byte| *byte != b';')
    }
}

/// The path as it is compared: decoded once, with one slash before each segment, and none at the end. Borrowed if it is
/// written so.
pub(crate) fn normal(path: &str) -> Cow<'_, [u8]> {
    if is_plain(path)
        && path.starts_with('/')
        && !path.contains("//")
        && (path.len() == 1 || !path.ends_with('/'))
    {
        return Cow::Borrowed(path.as_bytes());
    }
    let mut normal = Vec::with_capacity(path.len());
    for segment in Segments::of(path) {
        normal.push(b'/');
        normal.extend(segment.name());
    }
    if normal.is_empty() {
        normal.push(b'/');
    }
    Cow::Owned(normal)
}

/// A path without the separators at its beginning, whichever way they are written.
pub(crate) fn trim_separators(mut path: &str) -> &str {
    while let Some(len) = separator_len(path.as_bytes()) {
        path = &path[len..];
    }
    path
}

fn is_plain(path: &str) -> bool {
    !path.bytes().any(|byte| matches!(byte, b'%' | b'\\' | b';'))
}

/// The length of the separator that `bytes` begin with, if they begin with one.
fn separator_len(bytes: &[u8]) -> Option<usize> {
    match bytes.first()? {
        b'/' | b'\\' => Some(1),
        b'%' if matches!(decode(bytes), Some(b'/' | b'\\')) => Some(3),
        _ => None,
    }
}

/// The bytes of a text with its percent-encodings decoded.
fn decoded(text: &str) -> impl Iterator<Item = u8> {
    let (bytes, mut at) = (text.as_bytes(), 0);
    std::iter::from_fn(move || {
        let byte = *bytes.get(at)?;
        let decoded = decode(&bytes[at..]);
        at += if decoded.is_some() { 3 } else { 1 };
        Some(decoded.unwrap_or(byte))
    })
}

/// Whether a path has `%uXXXX`, which some servers take for the character of this number.
fn has_unicode_escape(path: &str) -> bool {
    let is_escape = |six: &[u8]| {
        six[0] == b'%' && matches!(six[1], b'u' | b'U') && six[2..].iter().all(u8::is_ascii_hexdigit)
    };
    path.as_bytes().windows(6).any(is_escape)
}

/// Whether a path has a character in more bytes than it needs, such as `%c0%ae` for a dot. UTF-8 has no such sequences, but
/// lenient servers decode them.
fn has_overlong_sequence(path: &str) -> bool {
    let mut before = 0;
    decoded(path).any(|byte| {
        let first = std::mem::replace(&mut before, byte);
        match first {
            0xc0 | 0xc1 => (0x80..=0xbf).contains(&byte),
            0xe0 => (0x80..=0x9f).contains(&byte),
            0xf0 => (0x80..=0x8f).contains(&byte),
            _ => false,
        }
    })
}

/// The byte that `%` and two digits at the beginning stand for. A `%` that begins no such triple stands for itself.
fn decode(bytes: &[u8]) -> Option<u8> {
    let [b'%', high, low, ..] = bytes else { return None };
    let digit = |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
    Some(digit(*high)? << 4 | digit(*low)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<String> {
        let name =
            |segment: Segment<'_>| String::from_utf8_lossy(&segment.name().collect::<Vec<_>>()).into_owned();
        Segments::of(path).map(name).collect()
    }

    #[test]
    fn a_path_is_read_as_the_most_lenient_server_would() {
        for (path, expected) in [
            ("/", &[] as &[&str]),
            ("/a/b", &["a", "b"]),
            ("//a///b/", &["a", "b"]),
            ("/%61/%62c", &["a", "bc"]),
            ("/a%2Fb%5cc\\d", &["a", "b", "c", "d"]),
            ("/a;v=1/;x/b;", &["a", "b"]),
            ("/a%3bv=1/%3Bx/b%3b", &["a", "b"]),
            ("/100%/%zz/%2", &["100%", "%zz", "%2"]),
            ("/%2561", &["%61"]),
            ("/%c3%a9", &["é"]),
        ] {
            assert_eq!(names(path), expected, "{path}");
        }
    }

    #[test]
    fn dot_segments_are_found_however_they_are_written() {
        for path in [
            "/..",
            "/a/../b",
            "/a/.",
            "/%2e%2E/b",
            "/.%2e",
            "/%2e",
            "/a/..%2fb",
            "/a%2f..",
            "/a\\..\\b",
            "/a/..;/b",
            "/a/..;x=1/b",
            "/a/%2e;/b",
            "/a/..%3bx/b",
        ] {
            assert_eq!(check(path), Err(DOTS), "{path}");
        }
        for path in [
            "/",
            "/a.b",
            "/.well-known/x",
            "/...",
            "/a/..b",
            "/%2fetc",
            "/a..",
            "/x%2e%2e",
            "/a//b",
            "/%252e%252e/",
        ] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
        assert!(check("/a%00.png").is_err());
    }

    #[test]
    fn encodings_that_only_some_servers_decode_are_refused() {
        for path in [
            "/%u002e%u002e/b",
            "/adm%u0069n",
            "/%UFF0E",
            "/%c0%ae%c0%ae/b",
            "/%C1%9c",
            "/a%c0%af..",
            "/%e0%80%ae",
            "/%f0%80%80%ae",
        ] {
            assert!(check(path).is_err_and(|why| why != DOTS), "{path}");
        }
        for path in [
            "/%u",
            "/%u12",
            "/%uxyzw",
            "/100%union",
            "/%c3%a9",
            "/%e0%a4%b9",
            "/%f0%9f%98%80",
            "/%c0",
            "/%e9%80%80",
        ] {
            assert_eq!(check(path), Ok(()), "{path}");
        }
    }

    #[test]
    fn separators_are_trimmed_however_they_are_written() {
        for (path, expected) in [("/x", "x"), ("//%2f\\%5Cx/", "x/"), ("", ""), ("x/", "x/"), ("%2", "%2")] {
            assert_eq!(trim_separators(path), expected, "{path}");
        }
    }
}
