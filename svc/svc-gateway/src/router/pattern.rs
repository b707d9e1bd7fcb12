//! Regular expressions of routes. The engine takes time linear in its input, whatever the pattern.

use std::cmp::Ordering;

use regex_automata::{
    PatternID,
    meta::{self, Regex},
    util::{captures::Captures, syntax},
};

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 1024;
/// The most memory of a compiled pattern, in bytes.
const MAX_COMPILED: usize = 128 << 10;
/// How deep the groups of a pattern may be nested.
const MAX_NESTING: u32 = 32;
/// How many patterns all routes may have together.
pub(crate) const MAX_PATTERNS: usize = 512;

/// A regular expression that matches texts as a whole: `a` matches `a`, and neither `ab` nor `ba`. Classes such as `\w` are
/// those of ASCII.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: Box<str>,
    regex: Regex,
}

impl Pattern {
    /// Compiles a pattern.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(crate) fn new(text: &str, any_case: bool) -> Result<Self, String> {
        if text.is_empty() {
            return Err("must not be empty".to_owned());
        }
        if text.len() > MAX_PATTERN {
            return Err(format!("has more than {MAX_PATTERN} bytes"));
        }
        let syntax = syntax::Config::new()
            .unicode(false)
            .utf8(false)
            .nest_limit(MAX_NESTING)
            .case_insensitive(any_case);
        // By itself first: an unmatched parenthesis could find a partner in what is put around it.
        syntax::parse_with(text, &syntax).map_err(|error| not_a_pattern(&error))?;
        let config = meta::Config::new().nfa_size_limit(Some(MAX_COMPILED)).utf8_empty(false);
        let mut builder = meta::Builder::new();
        let built = builder.configure(config).syntax(syntax).build(&format!(r"\A(?:{text})\z"));
        match built {
            Ok(regex) => Ok(Self { text: text.into(), regex }),
            Err(error) if error.size_limit().is_some() => Err(format!(
                "needs more than {MAX_COMPILED} bytes of memory: use fewer or smaller repetitions"
            )),
            Err(error) => Err(not_a_pattern(&error)),
        }
    }

    pub(crate) fn is_match(&self, text: &[u8]) -> bool {
        self.regex.is_match(text)
    }

    /// What the groups of the pattern match; `None` if the pattern does not match.
    pub(crate) fn captures(&self, text: &[u8]) -> Option<Captures> {
        let mut captures = self.regex.create_captures();
        self.regex.captures(text, &mut captures);
        captures.is_match().then_some(captures)
    }

    /// The number of a group by its number or name; `None` if there is no such group.
    pub(crate) fn group(&self, name: &str) -> Option<usize> {
        let groups = self.regex.group_info();
        let numbered = name.parse().ok().filter(|number| *number < groups.group_len(PatternID::ZERO));
        numbered.or_else(|| groups.to_index(PatternID::ZERO, name))
    }
}

/// What is wrong with a pattern, on one line.
fn not_a_pattern(error: &dyn std::error::Error) -> String {
    let cause = std::iter::successors(Some(error), |error| error.source()).last().map(ToString::to_string);
    let cause = cause.unwrap_or_default();
    let told = cause.lines().last().unwrap_or_default().trim().trim_start_matches("error: ");
    format!("is not a regular expression: {told}")
}

impl PartialEq for Pattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for Pattern {}

impl PartialOrd for Pattern {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Pattern {
    fn cmp(&self, other: &Self) -> Ordering {
        self.text.cmp(&other.text)
    }
}

/// Adds what a group matched to a path, encoded so that it stays a part of the path.
pub(crate) fn push_capture(path: &mut String, captures: &Captures, text: &[u8], group: usize) {
    let Some(span) = captures.get_group(group) else { return };
    for byte in &text[span.start..span.end] {
        let is_plain = byte.is_ascii_alphanumeric() || b"-._~/!$&'()*+,=:@".contains(byte);
        if is_plain {
            path.push(char::from(*byte));
        } else {
            path.push_str(&format!("%{byte:02X}"));
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_pattern_matches_whole_texts() {
        let pattern = Pattern::new("/users/([0-9]+)|/x", false).unwrap();
        for (text, expected) in [
            ("/users/7", true),
            ("/users/7/", false),
            ("/a/users/7", false),
            ("/x", true),
            ("/xy", false),
            ("/users/7\n", false),
        ] {
            assert_eq!(pattern.is_match(text.as_bytes()), expected, "{text:?}");
        }
        assert!(Pattern::new("A", true).unwrap().is_match(b"a"));
        assert!(!Pattern::new("A", false).unwrap().is_match(b"a"));
        assert!(Pattern::new("(?s-u:.)", false).unwrap().is_match(b"\xff"), "paths are bytes");
    }

    #[test]
    fn a_pattern_that_is_none_or_too_large_is_refused_with_a_reason() {
        for (text, told) in [
            ("", "must not be empty"),
            ("a)(b", "is not a regular expression"),
            ("(", "is not a regular expression"),
            (r"(a)\1", "is not a regular expression"),
            ("(?=a)", "is not a regular expression"),
            (&"a".repeat(MAX_PATTERN + 1), "has more than"),
            ("((a{100}){100}){100}", "needs more than"),
            (&format!("{}a{}", "(".repeat(40), ")".repeat(40)), "is not a regular expression"),
        ] {
            let refused = Pattern::new(text, false).unwrap_err();
            assert!(refused.contains(told) && !refused.contains('\n'), "{text}: {refused}");
        }
        assert!(Pattern::new(&"a".repeat(MAX_PATTERN), false).is_ok());
    }

    #[test]
    fn groups_have_numbers_and_names_and_what_they_match_stays_in_the_path() {
        let pattern = Pattern::new("/(?<user>[^/]+)/(.*)", false).unwrap();
        assert_eq!(
            (pattern.group("user"), pattern.group("1"), pattern.group("2")),
            (Some(1), Some(1), Some(2))
        );
        assert_eq!((pattern.group("3"), pattern.group("nobody")), (None, None));
        let text = b"/a b/c?d#e%2f\xff/f";
        let captures = pattern.captures(text).unwrap();
        let mut path = String::new();
        push_capture(&mut path, &captures, text, 1);
        path.push('|');
        push_capture(&mut path, &captures, text, 2);
        assert_eq!(path, "a%20b|c%3Fd%23e%252f%FF/f");
        assert!(pattern.captures(b"/a").is_none());
    }

    /// A pattern over which backtracking engines take exponential time. The work per byte is bounded by the size of the
    /// pattern, so a text of 64 KiB is done at once; an engine that backtracks would not finish.
    #[test]
    fn hostile_patterns_take_linear_time() {
        let pattern = Pattern::new("(a*)*(a*)*b", false).unwrap();
        assert!(!pattern.is_match(&vec![b'a'; 64 << 10]));
    }
}
