//! Tags by which stored responses are purged: `Cache-Tag` (a list with commas) and `Surrogate-Key` (a list with blanks).

use http::{HeaderMap, HeaderName, HeaderValue};

/// The fields that name tags.
pub const FIELDS: [HeaderName; 2] =
    [HeaderName::from_static("cache-tag"), HeaderName::from_static("surrogate-key")];

/// The tags of a response, in any order and possibly more than once.
pub fn of(headers: &HeaderMap) -> impl Iterator<Item = &[u8]> {
    let lines = |name: &HeaderName| headers.get_all(name).iter().map(HeaderValue::as_bytes);
    let listed = lines(&FIELDS[0]).flat_map(|line| line.split(|byte| *byte == b','));
    let spaced = lines(&FIELDS[1]).flat_map(|line| line.split(u8::is_ascii_whitespace));
    listed.chain(spaced).map(<[u8]>::trim_ascii).filter(|tag| !tag.is_empty())
}

/// Whether a response has a tag. Upper and lower case are the same: a purge that takes more than it must does no harm.
#[must_use]
pub fn has(headers: &HeaderMap, tag: &str) -> bool {
    of(headers).any(|known| known.eq_ignore_ascii_case(tag.trim().as_bytes()))
}

/// Removes the tags from an answer to a client.
pub fn strip(headers: &mut HeaderMap) {
    for name in &FIELDS {
        headers.remove(name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_fields_name_tags_in_their_own_way() {
        let mut headers = HeaderMap::new();
        headers.append("cache-tag", HeaderValue::from_static("a, two words ,,B"));
        headers.append("cache-tag", HeaderValue::from_static("c"));
        headers.append("surrogate-key", HeaderValue::from_static(" d  e,f\tg "));
        let found: Vec<&[u8]> = of(&headers).collect();
        assert_eq!(found, [&b"a"[..], b"two words", b"B", b"c", b"d", b"e,f", b"g"]);
        for tag in ["a", "A", "two words", "b", "d", " e,f ", "g"] {
            assert!(has(&headers, tag), "{tag}");
        }
        for tag in ["", "two", "e", "f", "x", "a,"] {
            assert!(!has(&headers, tag), "{tag}");
        }
        strip(&mut headers);
        assert!(headers.is_empty());
    }
}
