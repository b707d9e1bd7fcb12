//! Byte ranges: what of a representation a `Range` asks for (RFC 9110, 14).
//!
//! | the field | verdict |
//! |---|---|
//! | none, or of another unit than bytes | the whole |
//! | one range, or several that overlap or touch and make one | that part |
//! | some that lie behind the end, besides such | that part: the others do not count |
//! | several with gaps between them; more than [`MAX_RANGES`] | the whole: a server may ignore the field (14.2) |
//! | the last bytes of nothing | the whole, which is nothing |
//! | all behind the end; not a set of ranges | unsatisfiable |
//!
//! Several parts are never sent in one answer (`multipart/byteranges`): they cost more than the requests they save and are
//! mostly asked for by those who want to make a server work. A client that asks for them takes the whole as well.

use std::{fmt, ops::Range};

use crate::list::{elements, is_token, number};

/// How many ranges a request may list.
pub const MAX_RANGES: usize = 16;

/// The response to a range request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The whole representation (200).
    Whole,
    /// These bytes of it, which are never none (206).
    Part(Range<u64>),
    /// Nothing that is there was asked for in a way that is understood (416).
    Unsatisfiable,
}

/// Judges the value of a `Range` for a representation of `len` bytes.
#[must_use]
pub fn judge(value: &[u8], len: u64) -> Verdict {
    let Some(at) = value.iter().position(|byte| *byte == b'=') else { return Verdict::Unsatisfiable };
    let (unit, set) = (&value[..at], &value[at + 1..]);
    if !unit.eq_ignore_ascii_case(b"bytes") {
        return if is_token(unit) { Verdict::Whole } else { Verdict::Unsatisfiable };
    }
    let Some(mut asked) = Asked::read(set, len) else { return Verdict::Unsatisfiable };
    match asked.merged() {
        _ if asked.too_many => Verdict::Whole,
        Some(part) => Verdict::Part(part),
        // Parts with gaps between them.
        None if asked.count > 0 => Verdict::Whole,
        None if asked.last_of_nothing => Verdict::Whole,
        None => Verdict::Unsatisfiable,
    }
}

/// The value of `Content-Range`: which part of how much an answer has, or for 416 only how much there is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ContentRange {
    /// The part; `None` when no part that was asked for is there.
    pub part: Option<Range<u64>>,
    /// The length of the whole.
    pub len: u64,
}

impl fmt::Display for ContentRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.part {
            Some(part) => write!(f, "bytes {}-{}/{}", part.start, part.end.saturating_sub(1), self.len),
            None => write!(f, "bytes */{}", self.len),
        }
    }
}

/// The ranges of a set that have something of the representation.
struct Asked {
    parts: [(u64, u64); MAX_RANGES],
    count: usize,
    /// Whether the set has more ranges than are kept.
    too_many: bool,
    last_of_nothing: bool,
}

impl Asked {
    /// Reads a set of ranges, of a large one only the first; `None` if it is none.
    fn read(set: &[u8], len: u64) -> Option<Self> {
        let mut asked =
            Self { parts: [(0, 0); MAX_RANGES], count: 0, too_many: false, last_of_nothing: false };
        let mut listed = 0;
        for spec in elements([set]) {
            listed += 1;
            if listed > MAX_RANGES {
                asked.too_many = true;
                break;
            }
            match read_spec(spec, len)? {
                Spec::Part(start, end) => {
                    asked.parts[asked.count] = (start, end);
                    asked.count += 1;
                }
                Spec::LastOfNothing => asked.last_of_nothing = true,
                Spec::Behind => {}
            }
        }
        (listed > 0).then_some(asked)
    }

    /// The one range that all of them make, if they do.
    fn merged(&mut self) -> Option<Range<u64>> {
        let parts = &mut self.parts[..self.count];
        parts.sort_unstable();
        let (first, rest) = parts.split_first()?;
        let join = |so_far: (u64, u64), next: &(u64, u64)| {
            (next.0 <= so_far.1).then(|| (so_far.0, so_far.1.max(next.1)))
        };
        rest.iter().try_fold(*first, join).map(|(start, end)| start..end)
    }
}

/// One range of a set, as far as the representation has it.
enum Spec {
    /// From here to before there, not empty.
    Part(u64, u64),
    /// The last bytes of an empty representation: nothing is missing.
    LastOfNothing,
    /// The range lies beyond the end of the representation.
    Behind,
}

/// Reads `first-last`, `first-` or `-suffix`.
fn read_spec(spec: &[u8], len: u64) -> Option<Spec> {
    let at = spec.iter().position(|byte| *byte == b'-')?;
    let (first, last) = (&spec[..at], &spec[at + 1..]);
    if first.is_empty() {
        return Some(match number(last)? {
            0 => Spec::Behind,
            _ if len == 0 => Spec::LastOfNothing,
            suffix => Spec::Part(len.saturating_sub(suffix), len),
        });
    }
    let first = number(first)?;
    let last = if last.is_empty() { u64::MAX } else { number(last)? };
    match () {
        () if first > last => None,
        () if first >= len => Some(Spec::Behind),
        () => Some(Spec::Part(first, len.min(last.saturating_add(1)))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(value: &str, len: u64, expected: Verdict) {
        assert_eq!(judge(value.as_bytes(), len), expected, "{value} of {len}");
    }

    #[test]
    fn one_range_is_cut_to_what_is_there() {
        let table = [
            ("bytes=0-0", 0..1),
            ("bytes=0-9", 0..10),
            ("bytes=0-10", 0..10),
            ("bytes=9-9", 9..10),
            ("bytes=9-", 9..10),
            ("bytes=3-", 3..10),
            ("bytes=-1", 9..10),
            ("bytes=-10", 0..10),
            ("bytes=-11", 0..10),
            ("BYTES=2-3", 2..4),
            ("bytes= 2-3 ", 2..4),
            ("bytes=0002-3", 2..4),
            ("bytes=2-99999999999999999999999", 2..10),
            ("bytes=-99999999999999999999999", 0..10),
        ];
        for (value, part) in table {
            check(value, 10, Verdict::Part(part));
        }
    }

    #[test]
    fn several_ranges_are_one_if_there_is_no_gap() {
        for (value, part) in [
            ("bytes=0-3,4-6", 0..7),
            ("bytes=4-6,0-3", 0..7),
            ("bytes=0-9,2-3", 0..10),
            ("bytes=2-2,2-2", 2..3),
            ("bytes=7-,-5", 5..10),
            ("bytes=0-0,2-2,1-1", 0..3),
            ("bytes=,,1-2, ,", 1..3),
            ("bytes=0-3,50-60", 0..4),
            ("bytes=0-3,-0", 0..4),
        ] {
            check(value, 10, Verdict::Part(part));
        }
        for value in ["bytes=0-3,5-6", "bytes=0-0,-1", "bytes=8-,0-6", "bytes=0-3,5-6,50-60"] {
            check(value, 10, Verdict::Whole);
        }
    }

    #[test]
    fn no_more_ranges_are_read_than_a_request_may_list() {
        let set = |count: usize| format!("bytes={}", vec!["0-1"; count].join(","));
        check(&set(MAX_RANGES), 10, Verdict::Part(0..2));
        check(&set(MAX_RANGES + 1), 10, Verdict::Whole);
        check(&set(100_000), 10, Verdict::Whole);
    }

    #[test]
    fn what_is_behind_the_end_is_not_there() {
        for value in ["bytes=10-", "bytes=10-20", "bytes=99999999999999999999-", "bytes=-0", "bytes=10-,-0"] {
            check(value, 10, Verdict::Unsatisfiable);
        }
    }

    #[test]
    fn of_nothing_only_the_end_can_be_had() {
        check("bytes=-5", 0, Verdict::Whole);
        check("bytes=0-,-5", 0, Verdict::Whole);
        check("bytes=-0", 0, Verdict::Unsatisfiable);
        check("bytes=0-", 0, Verdict::Unsatisfiable);
        check("bytes=0-0", 0, Verdict::Unsatisfiable);
    }

    #[test]
    fn other_units_do_not_count() {
        for value in ["items=0-5", "none=", "bits=x", "byte=0-1"] {
            check(value, 10, Verdict::Whole);
        }
    }

    #[test]
    fn what_is_no_set_of_ranges_is_unsatisfiable() {
        for value in [
            "",
            "bytes",
            "0-5",
            "=0-5",
            "bytes =0-5",
            "by tes=0-5",
            "bytes=",
            "bytes=,",
            "bytes=-",
            "bytes=5",
            "bytes=5-4",
            "bytes=a-",
            "bytes=-a",
            "bytes=1-a",
            "bytes=--1",
            "bytes=1--2",
            "bytes=1-2-3",
            "bytes=+1-2",
            "bytes=0x1-2",
            "bytes=1 -2",
            "bytes=0-1,x",
            "bytes=0-1;2-3",
            "bytes=0-1,bytes=2-3",
            "bytes=\"0-1\"",
        ] {
            check(value, 10, Verdict::Unsatisfiable);
        }
    }

    #[test]
    fn the_largest_lengths_are_no_special_case() {
        check("bytes=0-", u64::MAX, Verdict::Part(0..u64::MAX));
        check("bytes=18446744073709551614-", u64::MAX, Verdict::Part(u64::MAX - 1..u64::MAX));
        check("bytes=18446744073709551615-", u64::MAX, Verdict::Unsatisfiable);
        check("bytes=-18446744073709551615", u64::MAX, Verdict::Part(0..u64::MAX));
    }

    #[test]
    fn a_content_range_tells_the_part_and_the_whole() {
        assert_eq!(ContentRange { part: Some(2..5), len: 10 }.to_string(), "bytes 2-4/10");
        assert_eq!(ContentRange { part: None, len: 0 }.to_string(), "bytes */0");
    }
}
