//! Dictionaries of structured fields (RFC 9651), as far as targeted cache fields need them: names with integers or flags.
//!
//! The whole field has to be well formed, or none of it counts. Values of other types are checked and given as
//! [`Value::Other`].

/// The value of a member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A whole number, such as the seconds of `max-age=60`.
    Integer(i64),
    /// A flag; a member without a value is true.
    Flag(bool),
    /// A value of any other type.
    Other,
}

/// The members of a dictionary in their order; a name that comes twice keeps its last value. `None` if the text is no
/// dictionary.
#[must_use]
pub fn parse(text: &[u8]) -> Option<Vec<(&[u8], Value)>> {
    let mut rest = Cursor(text);
    let mut members: Vec<(&[u8], Value)> = Vec::new();
    rest.skip(b" ");
    while !rest.0.is_empty() {
        let name = rest.key()?;
        let value = if rest.take(b'=') {
            rest.member()?
        } else {
            rest.parameters()?;
            Value::Flag(true)
        };
        members.retain(|(known, _)| *known != name);
        members.push((name, value));
        rest.skip(b" \t");
        if rest.0.is_empty() {
            return Some(members);
        }
        if !rest.take(b',') {
            return None;
        }
        rest.skip(b" \t");
        if rest.0.is_empty() {
            return None;
        }
    }
    Some(members)
}

/// What is left to be read.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn skip(&mut self, blanks: &[u8]) {
        while let [first, rest @ ..] = self.0 {
            if !blanks.contains(first) {
                break;
            }
            self.0 = rest;
        }
    }

    fn take(&mut self, byte: u8) -> bool {
        match self.0 {
            [first, rest @ ..] if *first == byte => {
                self.0 = rest;
                true
            }
            _ => false,
        }
    }

    /// The longest beginning whose bytes are all accepted.
    fn run(&mut self, accepts: impl Fn(&u8) -> bool) -> &'a [u8] {
        let end = self.0.iter().position(|byte| !accepts(byte)).unwrap_or(self.0.len());
        let (run, rest) = self.0.split_at(end);
        self.0 = rest;
        run
    }

    fn key(&mut self) -> Option<&'a [u8]> {
        let first = self.0.first()?;
        if !first.is_ascii_lowercase() && *first != b'*' {
            return None;
        }
        Some(self.run(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"_-.*".contains(byte)))
    }

    /// An item or an inner list, with its parameters.
    fn member(&mut self) -> Option<Value> {
        let value = if self.take(b'(') { self.inner_list()? } else { self.bare()? };
        self.parameters()?;
        Some(value)
    }

    fn inner_list(&mut self) -> Option<Value> {
        loop {
            self.skip(b" ");
            if self.take(b')') {
                return Some(Value::Other);
            }
            self.bare()?;
            self.parameters()?;
            if !matches!(self.0.first()?, b' ' | b')') {
                return None;
            }
        }
    }

    fn parameters(&mut self) -> Option<()> {
        while self.take(b';') {
            self.skip(b" ");
            self.key()?;
            if self.take(b'=') {
                self.bare()?;
            }
        }
        Some(())
    }

    fn bare(&mut self) -> Option<Value> {
        match *self.0.first()? {
            b'"' => self.string(),
            b'?' => self.flag(),
            b':' => self.bytes(),
            b'@' => {
                self.take(b'@');
                self.number().filter(|value| matches!(value, Value::Integer(_))).map(|_| Value::Other)
            }
            b'-' | b'0'..=b'9' => self.number(),
            first if first.is_ascii_alphabetic() || first == b'*' => {
                self.run(|byte| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~:/".contains(byte));
                Some(Value::Other)
            }
            _ => None,
        }
    }

    fn string(&mut self) -> Option<Value> {
        self.take(b'"');
        loop {
            let (first, rest) = self.0.split_first()?;
            self.0 = rest;
            match first {
                b'"' => return Some(Value::Other),
                b'\\' if self.take(b'"') || self.take(b'\\') => {}
                b'\\' => return None,
                0x20..=0x7e => {}
                _ => return None,
            }
        }
    }

    fn flag(&mut self) -> Option<Value> {
        self.take(b'?');
        if self.take(b'1') {
            return Some(Value::Flag(true));
        }
        self.take(b'0').then_some(Value::Flag(false))
    }

    fn bytes(&mut self) -> Option<Value> {
        self.take(b':');
        self.run(|byte| byte.is_ascii_alphanumeric() || b"+/=".contains(byte));
        self.take(b':').then_some(Value::Other)
    }

    /// An integer of up to 15 digits, or a decimal of up to 12 digits before and 3 behind the point.
    fn number(&mut self) -> Option<Value> {
        let sign = if self.take(b'-') { -1 } else { 1 };
        let digits = self.run(u8::is_ascii_digit);
        if digits.is_empty() || digits.len() > 15 {
            return None;
        }
        if self.take(b'.') {
            let behind = self.run(u8::is_ascii_digit).len();
            return (digits.len() <= 12 && (1..=3).contains(&behind)).then_some(Value::Other);
        }
        let number = digits.iter().fold(0, |number: i64, digit| number * 10 + i64::from(digit - b'0'));
        Some(Value::Integer(sign * number))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_are_names_with_integers_or_flags_or_something_else() {
        let read = parse(
            b"max-age=60, private, x=\"a, \\\"b\";q=1 ,y=(1 tok \"z\");p, no=?0, d=1.5, n=-7,b=:aGk=:, t=@5",
        );
        let expected: Vec<(&[u8], _)> = vec![
            (b"max-age", Value::Integer(60)),
            (b"private", Value::Flag(true)),
            (b"x", Value::Other),
            (b"y", Value::Other),
            (b"no", Value::Flag(false)),
            (b"d", Value::Other),
            (b"n", Value::Integer(-7)),
            (b"b", Value::Other),
            (b"t", Value::Other),
        ];
        assert_eq!(read, Some(expected));
        assert_eq!(parse(b""), Some(Vec::new()));
        assert_eq!(parse(b"a=1, a=2"), Some(vec![(b"a".as_slice(), Value::Integer(2))]));
    }

    #[test]
    fn one_flaw_spoils_the_whole_dictionary() {
        for text in [
            "max-age=1, &&&",
            "Max-Age=1",
            "max-age =1",
            "max-age= 1",
            "a,",
            ",a",
            "a=1 b",
            "a=\"x",
            "a=\"\x01\"",
            "a=\"\\x\"",
            "a=(1",
            "a=(1\"x\")",
            "a=1.",
            "a=1.2345",
            "a=1234567890123456",
            "a=?2",
            "a=:x",
            "a=-",
            "a;B",
            "a=",
            "a=@x",
            "a=@1.5",
        ] {
            assert_eq!(parse(text.as_bytes()), None, "{text}");
        }
    }
}
