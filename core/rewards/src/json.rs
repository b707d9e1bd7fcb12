//! JSON as documents of record use it: a closed set of values, one text for each (RFC 8785), and a strict reader.
//!
//! There are no floats and no negative numbers, and integers end below 2⁵³ by type, so nothing can be rounded by
//! whoever reads a document with ordinary JSON tools. Amounts are strings.

pub(crate) mod fields;
mod read;

use std::{borrow::Cow, collections::BTreeMap};

use crate::decimal;

pub use fields::DocumentError;
pub use read::JsonError;

/// A whole number below 2⁵³, which every JSON reader takes in exactly.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Int(u64);

impl Int {
    /// The largest number, 2⁵³ − 1.
    pub const MAX: Self = Self((1 << 53) - 1);

    /// The number, unless it is 2⁵³ or more.
    #[must_use]
    pub const fn new(number: u64) -> Option<Self> {
        if number <= Self::MAX.0 { Some(Self(number)) } else { None }
    }

    /// Returns the number as an integer.
    #[must_use]
    pub const fn get(self) -> u64 {
        self.0
    }
}

impl From<u32> for Int {
    fn from(number: u32) -> Self {
        Self(number.into())
    }
}

/// A JSON value in canonical form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// The value `null`.
    Null,
    /// A boolean value.
    Bool(bool),
    /// An integer value.
    Int(Int),
    /// A string value.
    Text(Cow<'static, str>),
    /// An array of values.
    List(Vec<Json>),
    /// An object: values by name, in the order of names.
    Map(BTreeMap<Cow<'static, str>, Json>),
}

impl Json {
    /// Makes an object of the given fields.
    pub fn map<const N: usize>(fields: [(&'static str, Json); N]) -> Self {
        Self::Map(fields.into_iter().map(|(name, value)| (name.into(), value)).collect())
    }

    /// A value that is written as a string.
    pub fn text(value: impl std::fmt::Display) -> Self {
        Self::Text(value.to_string().into())
    }

    /// Reads a document of any layout. Names that stand twice, floats and negative numbers are refused.
    ///
    /// # Errors
    /// [`JsonError`], with the place.
    pub fn read(bytes: &[u8]) -> Result<Self, JsonError> {
        read::document(bytes)
    }

    /// Reads a document that is written the one way that RFC 8785 allows.
    ///
    /// # Errors
    /// [`JsonError`]; [`JsonError::NotCanonical`] if it says something, but in other bytes.
    pub fn read_canonical(bytes: &[u8]) -> Result<Self, JsonError> {
        let json = Self::read(bytes)?;
        if json.to_canonical() == bytes { Ok(json) } else { Err(JsonError::NotCanonical) }
    }

    /// The one text of the value (RFC 8785).
    #[must_use]
    pub fn to_canonical(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.write(&mut out);
        out
    }

    fn write(&self, out: &mut Vec<u8>) {
        match self {
            Self::Null => out.extend_from_slice(b"null"),
            Self::Bool(true) => out.extend_from_slice(b"true"),
            Self::Bool(false) => out.extend_from_slice(b"false"),
            Self::Int(number) => decimal::write(out, number.0.into()),
            Self::Text(text) => write_text(out, text),
            Self::List(items) => {
                write_between(out, b"[]", items, |out, item| item.write(out));
            }
            Self::Map(fields) => {
                let mut fields: Vec<_> = fields.iter().collect();
                // RFC 8785 orders by UTF-16 units, which differs from the order of bytes beyond the basic plane.
                fields.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
                write_between(out, b"{}", fields, |out, (name, value)| {
                    write_text(out, name);
                    out.push(b':');
                    value.write(out);
                });
            }
        }
    }
}

fn write_between<T>(
    out: &mut Vec<u8>,
    brackets: &[u8; 2],
    items: impl IntoIterator<Item = T>,
    write: impl Fn(&mut Vec<u8>, T),
) {
    out.push(brackets[0]);
    for (at, item) in items.into_iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        write(out, item);
    }
    out.push(brackets[1]);
}

/// Appends a string with the escapes that RFC 8785 prescribes, and no others.
pub(crate) fn write_text(out: &mut Vec<u8>, text: &str) {
    out.push(b'"');
    for &byte in text.as_bytes() {
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            b'\t' => out.extend_from_slice(b"\\t"),
            b'\n' => out.extend_from_slice(b"\\n"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\r' => out.extend_from_slice(b"\\r"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04x}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn canonical(text: &str) -> String {
        String::from_utf8(Json::read(text.as_bytes()).unwrap().to_canonical()).unwrap()
    }

    #[test]
    fn there_is_one_text_whatever_was_read() {
        let cases = [
            (" { \"b\" : 1 , \"a\" : [ true , null , false ] } ", r#"{"a":[true,null,false],"b":1}"#),
            (r#""\u0041\/\u000a\u001f\u00e9""#, "\"A/\\n\\u001fé\""),
            (r#""\ud83d\ude00""#, "\"😀\""),
            (r#"{"\ud83d\ude00":1,"\ufb33":2,"a":3}"#, "{\"a\":3,\"😀\":1,\"\u{fb33}\":2}"),
            ("[]", "[]"),
            ("\"a b\"", "\"a b\""),
            ("{}", "{}"),
            ("9007199254740991", "9007199254740991"),
            (r#""\b\t\n\f\r\"\\""#, r#""\b\t\n\f\r\"\\""#),
        ];
        for (text, expected) in cases {
            assert_eq!(canonical(text), expected);
            assert!(Json::read_canonical(expected.as_bytes()).is_ok());
        }
        assert_eq!(Json::read_canonical(b"{ }"), Err(JsonError::NotCanonical));
        assert_eq!(Json::read_canonical(b"{\"b\":1,\"a\":2}"), Err(JsonError::NotCanonical));
    }

    #[test]
    fn strings_are_escaped_as_other_tools_escape_them() {
        let every: String = (0..0x250).filter_map(char::from_u32).collect();
        let text = Json::text(&every).to_canonical();
        assert_eq!(serde_json::from_slice::<String>(&text).unwrap(), every);
        assert_eq!(text, serde_json::to_vec(&every).unwrap());
    }
}
