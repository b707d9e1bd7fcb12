//! The strict reader: one pass, bounded depth, nothing guessed.

use std::{borrow::Cow, collections::BTreeMap};

use super::{Int, Json};

/// Lists and maps inside each other, at most.
const MAX_DEPTH: usize = 16;

/// Why a document was not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum JsonError {
    /// It is no JSON at this byte.
    #[error("invalid JSON at byte {0}")]
    Syntax(usize),
    /// A name stands twice in one map; readers disagree on which one counts.
    #[error("a name occurs twice before byte {0}")]
    Duplicate(usize),
    /// A float, a negative number, or an integer of 2⁵³ or more.
    #[error("a number that these documents do not allow, at byte {0}")]
    Number(usize),
    /// Too many lists and maps inside each other.
    #[error("nested too deeply at byte {0}")]
    Depth(usize),
    /// It is JSON, but not the one text that RFC 8785 allows for it.
    #[error("not in canonical form (RFC 8785)")]
    NotCanonical,
}

pub(super) fn document(bytes: &[u8]) -> Result<Json, JsonError> {
    let text = str::from_utf8(bytes).map_err(|wrong| JsonError::Syntax(wrong.valid_up_to()))?;
    let mut reader = Reader { text, at: 0 };
    let value = reader.value(0)?;
    reader.space();
    if reader.at == text.len() { Ok(value) } else { Err(JsonError::Syntax(reader.at)) }
}

struct Reader<'a> {
    text: &'a str,
    at: usize,
}

impl Reader<'_> {
    fn value(&mut self, depth: usize) -> Result<Json, JsonError> {
        if depth > MAX_DEPTH {
            return Err(JsonError::Depth(self.at));
        }
        match self.peek() {
            Some(b'{') => self.map(depth),
            Some(b'[') => self.list(depth),
            Some(b'"') => Ok(Json::Text(self.string()?.into())),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => self.word(),
        }
    }

    fn word(&mut self) -> Result<Json, JsonError> {
        let words = [("null", Json::Null), ("true", Json::Bool(true)), ("false", Json::Bool(false))];
        let found = words.into_iter().find(|(word, _)| self.text[self.at..].starts_with(word));
        let (word, value) = found.ok_or(JsonError::Syntax(self.at))?;
        self.at += word.len();
        Ok(value)
    }

    fn number(&mut self) -> Result<Json, JsonError> {
        let start = self.at;
        let of_number = |byte: &u8| matches!(byte, b'0'..=b'9' | b'-' | b'+' | b'.' | b'e' | b'E');
        self.at += self.text.as_bytes()[start..].iter().take_while(|byte| of_number(byte)).count();
        let number = crate::decimal::read(&self.text.as_bytes()[start..self.at]).ok();
        let number = number.and_then(|number| Int::new(u64::try_from(number).ok()?));
        number.map(Json::Int).ok_or(JsonError::Number(start))
    }

    fn list(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.at += 1;
        let mut items = Vec::new();
        if self.take(b']') {
            return Ok(Json::List(items));
        }
        loop {
            items.push(self.value(depth + 1)?);
            if self.take(b']') {
                return Ok(Json::List(items));
            }
            self.expect(b',')?;
        }
    }

    fn map(&mut self, depth: usize) -> Result<Json, JsonError> {
        self.at += 1;
        let mut fields = BTreeMap::new();
        if self.take(b'}') {
            return Ok(Json::Map(fields));
        }
        loop {
            self.space();
            let name: Cow<'static, str> = self.string()?.into();
            self.expect(b':')?;
            let value = self.value(depth + 1)?;
            if fields.insert(name, value).is_some() {
                return Err(JsonError::Duplicate(self.at));
            }
            if self.take(b'}') {
                return Ok(Json::Map(fields));
            }
            self.expect(b',')?;
        }
    }

    fn string(&mut self) -> Result<String, JsonError> {
        let wrong = JsonError::Syntax(self.at);
        let mut rest = self.text[self.at..].strip_prefix('"').ok_or(wrong)?;
        let mut out = String::new();
        loop {
            let plain = rest.find(['"', '\\']).ok_or(wrong)?;
            if rest[..plain].bytes().any(|byte| byte < 0x20) {
                return Err(wrong);
            }
            out.push_str(&rest[..plain]);
            let quoted = rest[plain..].starts_with('"');
            rest = &rest[plain + 1..];
            if quoted {
                break;
            }
            out.push(escaped(&mut rest).ok_or(wrong)?);
        }
        self.at = self.text.len() - rest.len();
        Ok(out)
    }

    fn space(&mut self) {
        let rest = self.text.as_bytes()[self.at..].iter();
        self.at += rest.take_while(|byte| matches!(byte, b' ' | b'\t' | b'\n' | b'\r')).count();
    }

    fn peek(&mut self) -> Option<u8> {
        self.space();
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let found = self.peek() == Some(byte);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, byte: u8) -> Result<(), JsonError> {
        if self.take(byte) { Ok(()) } else { Err(JsonError::Syntax(self.at)) }
    }
}

/// The character that an escape stands for, with the backslash gone already.
fn escaped(rest: &mut &str) -> Option<char> {
    let kind = rest.bytes().next()?;
    *rest = rest.get(1..)?;
    Some(match kind {
        b'"' => '"',
        b'\\' => '\\',
        b'/' => '/',
        b'b' => '\u{8}',
        b'f' => '\u{c}',
        b'n' => '\n',
        b'r' => '\r',
        b't' => '\t',
        b'u' => return unit_or_pair(rest),
        _ => return None,
    })
}

fn unit_or_pair(rest: &mut &str) -> Option<char> {
    let first = unit(rest)?;
    if !(0xd800..0xdc00).contains(&first) {
        return char::from_u32(first);
    }
    *rest = rest.strip_prefix("\\u")?;
    let second = unit(rest)?;
    let paired = (0xdc00..0xe000).contains(&second);
    paired.then(|| char::from_u32(0x10000 + ((first - 0xd800) << 10) + (second - 0xdc00)))?
}

fn unit(rest: &mut &str) -> Option<u32> {
    let digits = rest.get(..4).filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()))?;
    *rest = &rest[4..];
    u32::from_str_radix(digits, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_document_of_record_is_refused_with_its_place() {
        let deep = format!("{}{}", "[".repeat(MAX_DEPTH + 2), "]".repeat(MAX_DEPTH + 2));
        let cases: &[(&[u8], JsonError)] = &[
            (b"", JsonError::Syntax(0)),
            (b"{", JsonError::Syntax(1)),
            (b"[1,]", JsonError::Syntax(3)),
            (b"{\"a\":1,}", JsonError::Syntax(7)),
            (b"nul", JsonError::Syntax(0)),
            (b"1 2", JsonError::Syntax(2)),
            (b"\"\x01\"", JsonError::Syntax(0)),
            (b"\"a", JsonError::Syntax(0)),
            (b"\"\\q\"", JsonError::Syntax(0)),
            (b"\"\\ud800\"", JsonError::Syntax(0)),
            (b"\"\\udc00\"", JsonError::Syntax(0)),
            (b"\"\\u+123\"", JsonError::Syntax(0)),
            (b"\"\\ud83d\\u0041\"", JsonError::Syntax(0)),
            (b"[\"\xff\"]", JsonError::Syntax(2)),
            (b"{\"a\":1,\"a\":1}", JsonError::Duplicate(12)),
            (b"1.0", JsonError::Number(0)),
            (b"1e3", JsonError::Number(0)),
            (b"-1", JsonError::Number(0)),
            (b"-", JsonError::Number(0)),
            (b"01", JsonError::Number(0)),
            (b"9007199254740992", JsonError::Number(0)),
            (b"99999999999999999999999999999999999999999", JsonError::Number(0)),
            (deep.as_bytes(), JsonError::Depth(MAX_DEPTH + 1)),
        ];
        for (bytes, reason) in cases {
            assert_eq!(Json::read(bytes), Err(*reason), "{}", String::from_utf8_lossy(bytes));
        }
    }

    #[test]
    fn every_truncated_prefix_is_refused() {
        let whole = br#"{"a":[1,"\u0041x",{"b":null}],"c":true}"#;
        assert!(Json::read(whole).is_ok());
        for end in 0..whole.len() {
            assert!(Json::read(&whole[..end]).is_err(), "{end}");
        }
    }

    #[test]
    fn the_deepest_document_that_is_allowed_is_read() {
        let text = format!("{}{}", "[".repeat(MAX_DEPTH + 1), "]".repeat(MAX_DEPTH + 1));
        assert!(Json::read(text.as_bytes()).is_ok());
    }
}
