//! The header fields that tell callers of their limits (draft-ietf-httpapi-ratelimit-headers-10).

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use crate::{Exhausted, Passed, Rate};

/// The value of `RateLimit-Policy`: what the limit is, as a quota per window of seconds.
#[derive(Clone, Copy, Debug)]
pub struct PolicyField<'a> {
    name: &'a str,
    rate: Rate,
}

impl<'a> PolicyField<'a> {
    /// The name of the field.
    pub const FIELD: &'static str = "ratelimit-policy";

    /// The policy called `name`: as many requests as a burst has, in as many seconds as it takes to come back.
    #[must_use]
    pub const fn new(name: &'a str, rate: Rate) -> Self {
        Self { name, rate }
    }
}

impl fmt::Display for PolicyField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, self.name)?;
        let window = seconds(self.rate.window()).max(1);
        write!(f, ";q={};w={window}", self.rate.burst())
    }
}

/// The value of `RateLimit`: what is left of a limit, and for how many seconds that has to do.
#[derive(Clone, Copy, Debug)]
pub struct LimitField<'a> {
    name: &'a str,
    remaining: u32,
    reset: Duration,
}

impl<'a> LimitField<'a> {
    /// The name of the field.
    pub const FIELD: &'static str = "ratelimit";

    /// What is left of the policy called `name` after a request was judged.
    #[must_use]
    pub const fn new(name: &'a str, verdict: &Result<Passed, Exhausted>) -> Self {
        match verdict {
            Ok(passed) => Self { name, remaining: passed.remaining, reset: passed.whole_in },
            Err(exhausted) => Self { name, remaining: 0, reset: exhausted.wait },
        }
    }
}

impl fmt::Display for LimitField<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_name(f, self.name)?;
        write!(f, ";r={};t={}", self.remaining, seconds(self.reset))
    }
}

/// Whole seconds, rounded up: who waits that long has waited long enough.
const fn seconds(duration: Duration) -> u64 {
    duration.as_secs() + (duration.subsec_nanos() > 0) as u64
}

/// Writes a string of structured fields (RFC 9651, 3.3.3), which has only printable ASCII.
fn write_name(f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
    f.write_char('"')?;
    for char in name.chars() {
        match char {
            '"' | '\\' => write!(f, "\\{char}")?,
            ' '..='~' => f.write_char(char)?,
            _ => f.write_char('?')?,
        }
    }
    f.write_char('"')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Bucket;
    use types::Moment;

    fn rate(count: u32, burst: u32) -> Rate {
        Rate::per_second(count, burst).expect("a rate")
    }

    #[test]
    fn a_policy_is_its_burst_and_the_time_that_takes_to_come_back() {
        let table = [
            (rate(10, 100), r#""default";q=100;w=10"#),
            (rate(50, 100), r#""default";q=100;w=2"#),
            (rate(50, 1), r#""default";q=1;w=1"#),
            (rate(3, 4), r#""default";q=4;w=2"#),
        ];
        for (rate, text) in table {
            assert_eq!(PolicyField::new("default", rate).to_string(), text);
        }
    }

    #[test]
    fn a_limit_tells_what_is_left_and_then_how_long_to_wait() {
        let (bucket, rate, now) = (Bucket::default(), rate(2, 3), Moment::from_nanos(77));
        let told = || LimitField::new("default", &bucket.check(&rate, now)).to_string();
        assert_eq!(told(), r#""default";r=2;t=1"#);
        assert_eq!(told(), r#""default";r=1;t=1"#);
        assert_eq!(told(), r#""default";r=0;t=2"#);
        assert_eq!(told(), r#""default";r=0;t=1"#);
    }

    #[test]
    fn a_name_cannot_break_out_of_its_quotes() {
        let field = PolicyField::new("a\"b\\c\r\né", rate(1, 1));
        assert_eq!(field.to_string(), r#""a\"b\\c???";q=1;w=1"#);
    }

    #[test]
    fn seconds_are_rounded_up() {
        let table = [(0, 0), (1, 1), (999_999_999, 1), (1_000_000_000, 1), (1_000_000_001, 2)];
        for (nanos, whole) in table {
            assert_eq!(seconds(Duration::from_nanos(nanos)), whole);
        }
    }
}
