//! One pattern: what it matches, and which other patterns it covers.

use std::fmt;

/// The longest pattern, in bytes; as long as the longest topic.
pub const PATTERN_MAX: usize = 128;

/// A pattern of topics. Reads as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Pattern<'a>(&'a str);

/// The text is no pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "a pattern has 1 to {PATTERN_MAX} characters of a-z, 0-9, `/`, `.`, `_` and `-`; `*` stands for one whole token between dots, \
     `>` for one or more at the end"
)]
pub struct InvalidPattern;

impl<'a> Pattern<'a> {
    /// Reads a pattern and checks its tokens and wildcards.
    ///
    /// # Errors
    /// [`InvalidPattern`] if it is empty, too long, has other characters, or a wildcard where none can be.
    pub fn new(text: &'a str) -> Result<Self, InvalidPattern> {
        let fits = (1..=PATTERN_MAX).contains(&text.len());
        let mut tokens = text.split('.').peekable();
        while let Some(token) = tokens.next() {
            let is_good = match token {
                "*" => true,
                ">" => tokens.peek().is_none(),
                _ => token.bytes().all(is_plain),
            };
            if !is_good || !fits {
                return Err(InvalidPattern);
            }
        }
        Ok(Self(text))
    }

    /// The pattern as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// Whether it has no wildcard, so that it is the name of one topic.
    #[must_use]
    pub fn is_exact(self) -> bool {
        !self.tokens().any(|token| matches!(token, "*" | ">"))
    }

    /// Whether a topic is one of those it means.
    #[must_use]
    pub fn matches(self, topic: &str) -> bool {
        let mut tokens = topic.split('.');
        for wanted in self.tokens() {
            match (wanted, tokens.next()) {
                (">", Some(_)) => return true,
                ("*", Some(_)) => {}
                (wanted, Some(token)) if wanted == token => {}
                _ => return false,
            }
        }
        tokens.next().is_none()
    }

    /// Whether it means every topic that another one means.
    #[must_use]
    pub fn covers(self, other: Pattern<'_>) -> bool {
        let mut others = other.tokens();
        for wanted in self.tokens() {
            match (wanted, others.next()) {
                (">", Some(_)) => return true,
                ("*", Some(other)) if other != ">" => {}
                (wanted, Some(other)) if wanted == other => {}
                _ => return false,
            }
        }
        others.next().is_none()
    }

    fn tokens(self) -> impl Iterator<Item = &'a str> {
        self.0.split('.')
    }
}

/// A character of a topic's name, but for the dot.
const fn is_plain(byte: u8) -> bool {
    matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'/' | b'_' | b'-')
}

impl fmt::Display for Pattern<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pattern(text: &str) -> Pattern<'_> {
        Pattern::new(text).expect(text)
    }

    #[test]
    fn wildcards_stand_for_whole_tokens() {
        for (written, topic, matches) in [
            ("metrics.*.cpu", "metrics.db.cpu", true),
            ("metrics.*.cpu", "metrics.cpu", false),
            ("metrics.*.cpu", "metrics.eu.db.cpu", false),
            ("metrics.*.cpu", "metrics.db.cpu.user", false),
            ("metrics.>", "metrics.db", true),
            ("metrics.>", "metrics.eu.db.cpu", true),
            ("metrics.>", "metrics", false),
            ("metrics.>", "metricsdb.cpu", false),
            (">", "a", true),
            (">", "a.b/c", true),
            ("*", "a/b", true),
            ("*", "a.b", false),
            ("*.>", "a", false),
            ("*.>", "a.b", true),
            ("a.b", "a.b", true),
            ("a.b", "a.b.c", false),
            ("a.b", "a", false),
            ("a..b", "a..b", true),
            ("a.*.b", "a..b", true),
        ] {
            assert_eq!(pattern(written).matches(topic), matches, "{written} {topic}");
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        assert!(Pattern::new(&"x".repeat(PATTERN_MAX)).is_ok());
        for wrong in
            ["", "a*", "*a", "a.>.b", ">.a", "a>", "**", "a b", "A", "é", "a,b", &"x".repeat(PATTERN_MAX + 1)]
        {
            assert_eq!(Pattern::new(wrong), Err(InvalidPattern), "{wrong}");
        }
    }

    #[test]
    fn a_pattern_covers_the_narrower_ones_alone() {
        for (wide, narrow, covers) in [
            ("metrics.>", "metrics.*.cpu", true),
            ("metrics.>", "metrics.>", true),
            ("metrics.>", "metrics.eu.>", true),
            ("metrics.>", "metrics", false),
            ("metrics.*", "metrics.>", false),
            ("metrics.*", "metrics.db", true),
            ("metrics.db", "metrics.*", false),
            ("*", ">", false),
            (">", "*", true),
            ("a.*.c", "a.b.c", true),
            ("a.*.c", "a.*.c", true),
            ("a.*.c", "a.*.*", false),
        ] {
            assert_eq!(pattern(wide).covers(pattern(narrow)), covers, "{wide} {narrow}");
        }
    }
}
