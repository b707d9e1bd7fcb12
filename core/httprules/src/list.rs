//! What the lists in header fields have in common: elements between commas, some of them quoted, and plain numbers.

/// The elements of a field's values: between commas that no quotes surround, without the blanks around them; empty ones
/// do not count. An open quote lasts until the end of its value.
pub(crate) fn elements<'v>(values: impl IntoIterator<Item = &'v [u8]>) -> impl Iterator<Item = &'v [u8]> {
    values.into_iter().flat_map(Elements).filter(|element| !element.is_empty())
}

struct Elements<'a>(&'a [u8]);

impl<'a> Iterator for Elements<'a> {
    type Item = &'a [u8];

    fn next(&mut self) -> Option<&'a [u8]> {
        if self.0.is_empty() {
            return None;
        }
        let end = end_of_element(self.0);
        let element = &self.0[..end];
        self.0 = self.0.get(end + 1..).unwrap_or_default();
        Some(trimmed(element))
    }
}

/// Where the first comma outside of quotes is.
fn end_of_element(value: &[u8]) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    let ends = |byte: &u8| {
        match byte {
            _ if escaped => escaped = false,
            b'\\' if quoted => escaped = true,
            b'"' => quoted = !quoted,
            b',' if !quoted => return true,
            _ => {}
        }
        false
    };
    value.iter().position(ends).unwrap_or(value.len())
}

/// The text without the blanks around it, of which HTTP knows two.
pub(crate) fn trimmed(mut text: &[u8]) -> &[u8] {
    while let [b' ' | b'\t', rest @ ..] | [rest @ .., b' ' | b'\t'] = text {
        text = rest;
    }
    text
}

/// The text before and after the first `separator`, without blanks; nothing after it if there is none.
pub(crate) fn split_once(text: &[u8], separator: u8) -> (&[u8], Option<&[u8]>) {
    match text.iter().position(|byte| *byte == separator) {
        Some(at) => (trimmed(&text[..at]), Some(trimmed(&text[at + 1..]))),
        None => (trimmed(text), None),
    }
}

/// A number of digits and nothing else. One too large to count is the largest there is.
pub(crate) fn number(digits: &[u8]) -> Option<u64> {
    let add = |number: u64, digit: &u8| {
        let value = digit.is_ascii_digit().then(|| u64::from(digit - b'0'))?;
        Some(number.saturating_mul(10).saturating_add(value))
    };
    if digits.is_empty() { None } else { digits.iter().try_fold(0, add) }
}

/// Whether the text is a name as HTTP knows them (RFC 9110, 5.6.2).
pub(crate) fn is_token(text: &[u8]) -> bool {
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    !text.is_empty() && text.iter().all(allowed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_cut_at_commas_that_are_not_quoted() {
        let table: [(&[&str], &[&str]); 8] = [
            (&[], &[]),
            (&[""], &[]),
            (&[" ,\t, "], &[]),
            (&["a"], &["a"]),
            (&["a , b,c"], &["a", "b", "c"]),
            (&["a,b", "", "c"], &["a", "b", "c"]),
            (&[r#"a="x, \", y" , b"#], &[r#"a="x, \", y""#, "b"]),
            (&[r#"a="x, y"#, "b"], &[r#"a="x, y"#, "b"]),
        ];
        for (values, expected) in table {
            let found: Vec<_> = elements(values.iter().map(|value| value.as_bytes())).collect();
            let expected: Vec<_> = expected.iter().map(|element| element.as_bytes()).collect();
            assert_eq!(found, expected, "{values:?}");
        }
    }

    #[test]
    fn a_number_is_digits_and_never_overflows() {
        let table: [(&[u8], _); 7] = [
            (b"0", Some(0)),
            (b"007", Some(7)),
            (b"18446744073709551615", Some(u64::MAX)),
            (b"99999999999999999999999999", Some(u64::MAX)),
            (b"", None),
            (b"+1", None),
            (b"1 ", None),
        ];
        for (text, expected) in table {
            assert_eq!(number(text), expected, "{text:?}");
        }
    }
}
