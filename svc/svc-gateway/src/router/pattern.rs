//! Regular expressions of routes. The engine takes time linear in its input, whatever the pattern, and a text that would still
//! take long is told apart: a core has other requests to serve.

use std::{
    cmp::Ordering,
    fmt,
    panic::{RefUnwindSafe, UnwindSafe},
    sync::Arc,
};

use regex_automata::{
    Anchored, Input, PatternID,
    hybrid::dfa::{Cache, DFA},
    meta::{self, Regex},
    nfa::thompson,
    util::{captures::Captures, pool::Pool, syntax},
};

/// The longest pattern, in bytes.
const MAX_PATTERN: usize = 1024;
/// The most memory of a compiled pattern, in bytes.
const MAX_COMPILED: usize = 128 << 10;
/// The most memory that a pattern takes on one core for the states of its automaton, in bytes. They are made as texts need
/// them, and a text that needs more than fit is not matched by them.
const MAX_STATES_BYTES: usize = 512 << 10;
/// The longest text that is matched without these states, in bytes: every byte may then take a step for each part of the pattern.
const MAX_SIMULATED: usize = 2 << 10;
/// The most steps for what the groups of a pattern match, as the length of the text times the parts of the pattern.
const MAX_STEPS: usize = 4 << 20;
/// How deep the groups of a pattern may be nested.
const MAX_NESTING: u32 = 32;
/// How many patterns all routes may have together.
pub(crate) const MAX_PATTERNS: usize = 512;

/// A regular expression that matches texts as a whole: `a` matches `a`, and neither `ab` nor `ba`. Classes such as `\w` are
/// those of ASCII.
#[derive(Clone, Debug)]
pub(crate) struct Pattern {
    text: Box<str>,
    compiled: Arc<Compiled>,
}

/// A text that takes too long to be compared with a pattern.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooCostly;

/// Makes the states of an automaton, which every thread has for itself.
type MakeCache = Box<dyn Fn() -> Cache + Send + Sync + UnwindSafe + RefUnwindSafe>;

/// A pattern as it is matched.
struct Compiled {
    /// One step for each byte.
    automaton: DFA,
    caches: Pool<Cache, MakeCache>,
    /// Finds what groups match, and matches short texts that the automaton has no room for.
    regex: Regex,
}

impl fmt::Debug for Compiled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Compiled")
    }
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
            // A path may have an encoded newline, and `.*` is what an operator writes for anything.
            .dot_matches_new_line(true)
            .nest_limit(MAX_NESTING)
            .case_insensitive(any_case);
        // By itself first: an unmatched parenthesis could find a partner in what is put around it.
        syntax::parse_with(text, &syntax).map_err(|error| not_a_pattern(&error))?;
        let whole = format!(r"\A(?:{text})\z");
        let config = meta::Config::new()
            .nfa_size_limit(Some(MAX_COMPILED))
            .hybrid_cache_capacity(MAX_STATES_BYTES)
            .utf8_empty(false);
        let regex = meta::Builder::new().configure(config).syntax(syntax).build(&whole);
        let regex = regex.map_err(|error| match error.size_limit() {
            Some(_) => {
                format!("needs more than {MAX_COMPILED} bytes of memory: use fewer or smaller repetitions")
            }
            None => not_a_pattern(&error),
        })?;
        // Gives up where it would have to forget states: then the caller decides.
        let config = DFA::config()
            .cache_capacity(MAX_STATES_BYTES)
            .skip_cache_capacity_check(true)
            .minimum_cache_clear_count(Some(0));
        let bytes = thompson::Config::new().utf8(false);
        let automaton = DFA::builder().configure(config).syntax(syntax).thompson(bytes).build(&whole);
        let automaton = automaton.map_err(|error| not_a_pattern(&error))?;
        let made = automaton.clone();
        let caches: Pool<Cache, MakeCache> = Pool::new(Box::new(move || made.create_cache()));
        Ok(Self { text: text.into(), compiled: Arc::new(Compiled { automaton, caches, regex }) })
    }

    /// Whether the pattern matches a text.
    ///
    /// # Errors
    /// [`TooCostly`] for a long text on which the pattern would keep a core busy.
    pub(crate) fn is_match(&self, text: &[u8]) -> Result<bool, TooCostly> {
        let Compiled { automaton, caches, regex } = &*self.compiled;
        let mut cache = caches.get();
        let input = Input::new(text).anchored(Anchored::Yes).earliest(true);
        let found = automaton.try_search_fwd(&mut cache, &input).or_else(|_| {
            // The states of other texts may have taken the room.
            automaton.reset_cache(&mut cache);
            automaton.try_search_fwd(&mut cache, &input)
        });
        match found {
            Ok(found) => Ok(found.is_some()),
            Err(_) if text.len() <= MAX_SIMULATED => Ok(regex.is_match(text)),
            Err(_) => Err(TooCostly),
        }
    }

    /// What the groups of the pattern match; `None` if the pattern does not match, or that would take too long.
    pub(crate) fn captures(&self, text: &[u8]) -> Option<Captures> {
        let Compiled { automaton, regex, .. } = &*self.compiled;
        if text.len().saturating_mul(automaton.get_nfa().states().len()) > MAX_STEPS {
            return None;
        }
        let mut captures = regex.create_captures();
        regex.captures(text, &mut captures);
        captures.is_match().then_some(captures)
    }

    /// The number of a group by its number or name; `None` if there is no such group.
    pub(crate) fn group(&self, name: &str) -> Option<usize> {
        let groups = self.compiled.regex.group_info();
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
            assert_eq!(pattern.is_match(text.as_bytes()), Ok(expected), "{text:?}");
        }
        assert_eq!(Pattern::new("A", true).unwrap().is_match(b"a"), Ok(true));
        assert_eq!(Pattern::new("A", false).unwrap().is_match(b"a"), Ok(false));
        let any = Pattern::new("/a.*", false).unwrap();
        assert_eq!(any.is_match(b"/a/\xff"), Ok(true), "paths are bytes");
        assert_eq!(any.is_match(b"/a\n/b"), Ok(true), "and may have newlines");
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
        assert_eq!(pattern.is_match(&vec![b'a'; 64 << 10]), Ok(false));
    }

    /// A text in which any `a` may begin the counted part, so that a state is needed for every set of counts.
    fn hostile(length: usize) -> Vec<u8> {
        let mut bits = 1_u32;
        let mut letter = || {
            bits = bits.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            if bits >> 31 == 0 { b'a' } else { b'b' }
        };
        (0..length).map(|_| letter()).collect()
    }

    #[test]
    fn a_long_text_that_would_keep_a_core_busy_is_refused_and_others_are_matched_as_before() {
        let pattern = Pattern::new("[ab]*a[ab]{200}c?", false).unwrap();
        let long = hostile(32 << 10);
        for _ in 0..3 {
            assert_eq!(pattern.is_match(&long), Err(TooCostly));
            assert_eq!(pattern.is_match(&[b"a".as_slice(), &[b'b'; 200]].concat()), Ok(true));
            assert_eq!(pattern.is_match(&[b'b'; 300]), Ok(false));
            assert_eq!(pattern.is_match(&vec![b'b'; 32 << 10]), Ok(false), "not every long text is hostile");
        }
        let short = hostile(MAX_SIMULATED);
        assert_eq!(pattern.is_match(&short), Ok(short[short.len() - 201] == b'a'));
        let words: Vec<String> = (0..100).map(|n| format!("{n}name")).collect();
        let names = Pattern::new(&format!("/({})/.*", words.join("|")), false).unwrap();
        let long = [b"/99name/".as_slice(), &hostile(32 << 10)].concat();
        assert_eq!(names.is_match(&long), Ok(true), "a large pattern is no hostile one");
        assert!(names.captures(&long).is_none(), "but its groups are not looked for in a long text");
        assert!(names.captures(&long[..100]).is_some());
    }
}
