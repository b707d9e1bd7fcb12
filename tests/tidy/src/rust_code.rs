//! A look at Rust sources that is fooled neither by comments nor by strings.

/// The source with comments and the insides of literals blanked out, so that what is left is code. Every byte keeps
/// its place, and so does every line.
#[must_use]
pub fn code_only(source: &str) -> String {
    let mut out = source.as_bytes().to_vec();
    let mut at = 0;
    while at < out.len() {
        let Some(end) = literal_or_comment(source.as_bytes(), at) else {
            at += 1;
            continue;
        };
        for byte in &mut out[at..end] {
            if *byte != b'\n' {
                *byte = b' ';
            }
        }
        at = end;
    }
    // Whole literals and comments were blanked, so no character was cut in half.
    String::from_utf8(out).expect("blanking keeps UTF-8")
}

/// The offsets at which `word` stands in `code` as a word of its own, where `word` begins and ends as an identifier or
/// with punctuation (`dbg!`, `std::fs`).
pub fn word_offsets<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let is_name = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
    let (bytes, starts, ends) = (code.as_bytes(), word.as_bytes().first(), word.as_bytes().last());
    let (named_start, named_end) = (starts.is_some_and(is_name), ends.is_some_and(is_name));
    code.match_indices(word).map(|(at, _)| at).filter(move |&at| {
        let before = at.checked_sub(1).and_then(|i| bytes.get(i));
        let after = bytes.get(at + word.len());
        !(named_start && before.is_some_and(is_name) || named_end && after.is_some_and(is_name))
    })
}

/// Where the comment or literal that begins at `at` ends, if one does.
fn literal_or_comment(source: &[u8], at: usize) -> Option<usize> {
    let rest = &source[at..];
    let len = match rest {
        [b'/', b'/', ..] => rest.iter().position(|b| *b == b'\n').unwrap_or(rest.len()),
        [b'/', b'*', ..] => block_comment(rest),
        [b'"', ..] => quoted(rest, b'"'),
        [b'\'', ..] => char_literal(rest)?,
        [b'r', ..] if !continues_a_name(source, at) => raw_string(rest)?,
        _ => return None,
    };
    Some(at + len)
}

/// `b` and `c` may stand before a raw string's `r`.
fn continues_a_name(source: &[u8], at: usize) -> bool {
    let name = source[..at].iter().rev().take_while(|b| b.is_ascii_alphanumeric() || **b == b'_');
    !matches!(name.copied().collect::<Vec<_>>().as_slice(), [] | [b'b' | b'c'])
}

fn block_comment(rest: &[u8]) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < rest.len() {
        match &rest[at..] {
            [b'/', b'*', ..] => (depth, at) = (depth + 1, at + 2),
            [b'*', b'/', ..] => (depth, at) = (depth - 1, at + 2),
            _ => at += 1,
        }
        if depth == 0 {
            break;
        }
    }
    at
}

fn quoted(rest: &[u8], quote: u8) -> usize {
    let mut at = 1;
    while at < rest.len() && rest[at] != quote {
        at += if rest[at] == b'\\' { 2 } else { 1 };
    }
    (at + 1).min(rest.len())
}

/// A quote that opens no character opens a lifetime.
fn char_literal(rest: &[u8]) -> Option<usize> {
    let first = *rest.get(1)?;
    let width = match first {
        b'\\' => return Some(quoted(rest, b'\'')),
        0x00..0x80 => 1,
        0x80..0xe0 => 2,
        0xe0..0xf0 => 3,
        0xf0.. => 4,
    };
    (rest.get(1 + width) == Some(&b'\'')).then_some(width + 2)
}

fn raw_string(rest: &[u8]) -> Option<usize> {
    let hashes = rest[1..].iter().take_while(|b| **b == b'#').count();
    let body = 2 + hashes;
    if rest.get(body - 1) != Some(&b'"') {
        return None;
    }
    let mut close = vec![b'"'];
    close.resize(1 + hashes, b'#');
    let inside = rest[body..].windows(close.len()).position(|window| window == close);
    Some(inside.map_or(rest.len(), |at| body + at + close.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(code: &str) -> Vec<String> {
        code_only(code).split_whitespace().map(str::to_owned).collect()
    }

    #[test]
    fn comments_and_literals_are_blank_and_code_stays() {
        let cases = [
            ("a // b\nc", vec!["a", "c"]),
            ("a /* b /* c */ d */ e", vec!["a", "e"]),
            (r#"a "b \" c" d"#, vec!["a", "d"]),
            (r####"a r#"b " c"# d br"e" f"####, vec!["a", "d", "b", "f"]),
            (r"a 'b' '\'' 'é' d", vec!["a", "d"]),
            ("fn f<'a>(x: &'a str)", vec!["fn", "f<'a>(x:", "&'a", "str)"]),
            ("let r = for_r; attr\"x\"", vec!["let", "r", "=", "for_r;", "attr"]),
            ("r#type \"unclosed", vec!["r#type"]),
            ("a /* unclosed", vec!["a"]),
        ];
        for (code, left) in cases {
            assert_eq!(words(code), left, "{code}");
        }
    }

    #[test]
    fn every_byte_keeps_its_place() {
        let source = "a\n\"é\n\" b // ü\n'x' c";
        let code = code_only(source);
        assert_eq!(code.len(), source.len());
        assert_eq!(code.lines().count(), source.lines().count());
        assert_eq!(code.find('c'), source.find('c'));
    }

    #[test]
    fn a_word_is_found_only_when_it_stands_alone() {
        let found = |word| word_offsets("todo!() my_todo!() std::fs std::fsx", word).collect::<Vec<_>>();
        assert_eq!(found("todo!"), [0]);
        assert_eq!(found("std::fs"), [19]);
        assert_eq!(found("unsafe"), [0_usize; 0]);
    }
}
