//! Entity tags: how they are written, the two ways in which they are compared, and lists of them (RFC 9110, 8.8.3).

use crate::list::trimmed;

/// An entity tag. Equal are those of the same text; what HTTP calls equal is [`ETag::strong_eq`] or [`ETag::weak_eq`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ETag<'a> {
    weak: bool,
    opaque: &'a [u8],
}

impl<'a> ETag<'a> {
    /// The strong tag with this text between its quotes; `None` if a tag cannot have it.
    #[must_use]
    pub fn strong(opaque: &'a [u8]) -> Option<Self> {
        opaque.iter().all(is_opaque).then_some(Self { weak: false, opaque })
    }

    /// Reads a tag as it is written, `"x"` or `W/"x"`, and nothing besides.
    #[must_use]
    pub fn parse(text: &'a [u8]) -> Option<Self> {
        take_tag(text).filter(|(_, rest)| rest.is_empty()).map(|(tag, _)| tag)
    }

    /// Whether its owner says that equal tags mean equal bytes.
    #[must_use]
    pub const fn is_strong(&self) -> bool {
        !self.weak
    }

    /// The text between the quotes.
    #[must_use]
    pub const fn opaque(&self) -> &'a [u8] {
        self.opaque
    }

    /// Whether both mean the very same bytes.
    #[must_use]
    pub fn strong_eq(&self, other: &ETag<'_>) -> bool {
        self.is_strong() && other.is_strong() && self.opaque == other.opaque
    }

    /// Whether one can stand for the other, though bytes may differ.
    #[must_use]
    pub fn weak_eq(&self, other: &ETag<'_>) -> bool {
        self.opaque == other.opaque
    }
}

/// What a list of tags says of a tag.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Listed {
    /// The list is `*`.
    Any,
    /// The tag is in the list.
    Found,
    /// It is not in the list.
    NotFound,
    /// This is no list of tags.
    Malformed,
}

/// Looks for a tag in the values of `If-Match` or `If-None-Match`; `same` compares what is listed with what is sought. A
/// list with one broken element is broken: what its writer meant cannot be known.
pub fn look_up<'v>(
    values: impl IntoIterator<Item = &'v [u8]>,
    mut same: impl FnMut(&ETag<'_>) -> bool,
) -> Listed {
    let (mut any, mut tags, mut found) = (false, false, false);
    for value in values {
        if trimmed(value) == b"*" {
            any = true;
            continue;
        }
        for tag in Tags(value) {
            let Some(tag) = tag else { return Listed::Malformed };
            tags = true;
            found |= same(&tag);
        }
    }
    match (any, tags) {
        (true, false) => Listed::Any,
        (false, true) if found => Listed::Found,
        (false, true) => Listed::NotFound,
        (true, true) | (false, false) => Listed::Malformed,
    }
}

/// The tags of one value; `None` stands for the first thing that is none, and is the last.
struct Tags<'a>(&'a [u8]);

impl<'a> Iterator for Tags<'a> {
    type Item = Option<ETag<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        while let [b',' | b' ' | b'\t', rest @ ..] = self.0 {
            self.0 = rest;
        }
        if self.0.is_empty() {
            return None;
        }
        let tag = take_tag(self.0).and_then(|(tag, rest)| match trimmed(rest) {
            rest @ ([] | [b',', ..]) => {
                self.0 = rest;
                Some(tag)
            }
            _ => None,
        });
        if tag.is_none() {
            self.0 = &[];
        }
        Some(tag)
    }
}

/// The tag at the beginning, and what follows it.
fn take_tag(text: &[u8]) -> Option<(ETag<'_>, &[u8])> {
    let quoted = text.strip_prefix(b"W/");
    let inside = quoted.unwrap_or(text).strip_prefix(b"\"")?;
    let end = inside.iter().position(|byte| !is_opaque(byte))?;
    let rest = inside[end..].strip_prefix(b"\"")?;
    Some((ETag { weak: quoted.is_some(), opaque: &inside[..end] }, rest))
}

/// Whether a tag may have this byte between its quotes. A comma is one of them.
const fn is_opaque(byte: &u8) -> bool {
    matches!(byte, 0x21 | 0x23..=0x7e | 0x80..=0xff)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tag(text: &str) -> ETag<'_> {
        ETag::parse(text.as_bytes()).unwrap_or_else(|| panic!("{text} is a tag"))
    }

    #[test]
    fn tags_compare_as_in_the_standard() {
        // RFC 9110, 8.8.3.2.
        let table = [
            (r#"W/"1""#, r#"W/"1""#, false, true),
            (r#"W/"1""#, r#"W/"2""#, false, false),
            (r#"W/"1""#, r#""1""#, false, true),
            (r#""1""#, r#""1""#, true, true),
            (r#""1""#, r#""2""#, false, false),
        ];
        for (one, two, strong, weak) in table {
            let (one, two) = (tag(one), tag(two));
            assert_eq!((one.strong_eq(&two), two.strong_eq(&one)), (strong, strong), "{one:?} {two:?}");
            assert_eq!((one.weak_eq(&two), two.weak_eq(&one)), (weak, weak), "{one:?} {two:?}");
        }
    }

    #[test]
    fn only_quotes_make_a_tag() {
        assert_eq!(tag(r#""""#).opaque(), b"");
        assert_eq!(tag(r#""a,b\""#).opaque(), br"a,b\");
        for text in [
            "",
            "x",
            "\"",
            "\"x",
            "x\"",
            "W/",
            "W/x",
            r#"w/"x""#,
            r#"W/ "x""#,
            r#""a b""#,
            r#""a"b"#,
            "\"\x7f\"",
        ] {
            assert_eq!(ETag::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(ETag::strong(b"b3:00"), Some(tag(r#""b3:00""#)));
        assert_eq!(ETag::strong(b"two words"), None);
        assert_eq!(ETag::strong(b"a\"b"), None);
    }

    #[test]
    fn a_list_holds_what_is_in_it_and_is_broken_as_a_whole() {
        let table: [(&[&str], Listed); 17] = [
            (&[r#""x""#], Listed::Found),
            (&[r#""a", "x""#], Listed::Found),
            (&[r#""a"	,,"b", "#, r#" , "x""#], Listed::Found),
            (&[r#""x,", "a""#], Listed::NotFound),
            (&[r#"W/"x""#], Listed::NotFound),
            (&["*"], Listed::Any),
            (&[" * "], Listed::Any),
            (&["*", "*"], Listed::Any),
            (&[], Listed::Malformed),
            (&[""], Listed::Malformed),
            (&[" , "], Listed::Malformed),
            (&["x"], Listed::Malformed),
            (&["*", r#""x""#], Listed::Malformed),
            (&[r#"*, "x""#], Listed::Malformed),
            (&[r#""x" "a""#], Listed::Malformed),
            (&[r#""x""a""#], Listed::Malformed),
            (&[r#""x", a"#], Listed::Malformed),
        ];
        for (values, expected) in table {
            let values = values.iter().map(|value| value.as_bytes());
            let found = look_up(values.clone(), |listed| listed.strong_eq(&tag(r#""x""#)));
            assert_eq!(found, expected, "{values:?}");
        }
    }
}
