//! Deadlines on the wire: how long the client is ready to wait, and how long a server may take.

use std::time::{Duration, UNIX_EPOCH};

use http::{HeaderMap, HeaderName, HeaderValue};
use types::{Deadline, Moment};

/// How many milliseconds are left for the answer. A client that sends it can shorten our timeout, never lengthen it; a
/// server always gets it.
const TIMEOUT_MS: HeaderName = HeaderName::from_static("x-request-timeout-ms");
/// The same in gRPC's form: up to eight digits and a unit.
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");
/// The same in seconds, with up to three digits after the point.
const REQUEST_TIMEOUT: HeaderName = HeaderName::from_static("request-timeout");
/// When the client stops waiting: a date as HTTP writes it, or seconds since 1970 with up to three digits after the point.
const DEADLINE: HeaderName = HeaderName::from_static("deadline");

/// The fields in which clients say how long they wait.
pub const FIELDS: [HeaderName; 4] = [TIMEOUT_MS, GRPC_TIMEOUT, REQUEST_TIMEOUT, DEADLINE];

/// The most that gRPC's eight digits can say.
const GRPC_MOST: u128 = 99_999_999;
/// gRPC's units in nanoseconds, finest first.
const GRPC_UNITS: [(u8, u128); 6] = [
    (b'n', 1),
    (b'u', 1_000),
    (b'm', 1_000_000),
    (b'S', 1_000_000_000),
    (b'M', 60_000_000_000),
    (b'H', 3_600_000_000_000),
];

/// By when the client wants its answer: the shortest of the times that it gives, in several fields or in a list. What
/// cannot be read is no wish. `unix` is the present time since 1970, which is as good as the clocks of both machines.
#[must_use]
pub fn wished(headers: &HeaderMap, now: Moment, unix: Duration) -> Deadline {
    let waits = [
        shortest(headers, &TIMEOUT_MS, from_millis),
        shortest(headers, &GRPC_TIMEOUT, from_grpc),
        shortest(headers, &REQUEST_TIMEOUT, from_seconds),
        headers.get_all(DEADLINE).iter().filter_map(|value| until(value.as_bytes(), unix)).min(),
    ];
    let shortest = waits.into_iter().flatten().min();
    shortest.map_or(Deadline::NEVER, |wait| Deadline::within(now, wait))
}

/// How long it is until a point in time that a client names; no time at all, if it is over.
fn until(text: &[u8], unix: Duration) -> Option<Duration> {
    let text = text.trim_ascii();
    let date = || {
        let date = httpdate::parse_http_date(std::str::from_utf8(text).ok()?).ok()?;
        date.duration_since(UNIX_EPOCH).ok()
    };
    from_seconds(text).or_else(date).map(|at| at.saturating_sub(unix))
}

/// The shortest of the times that the fields of a name give; `None` if they give none.
fn shortest(headers: &HeaderMap, name: &HeaderName, read: fn(&[u8]) -> Option<Duration>) -> Option<Duration> {
    let values = headers.get_all(name).iter();
    values
        .flat_map(|value| value.as_bytes().split(|byte| *byte == b','))
        .filter_map(|one| read(one.trim_ascii()))
        .min()
}

/// Tells the server how long it has: `left`, which `millis` says in the plain form.
pub fn tell(headers: &mut HeaderMap, millis: HeaderValue, left: Duration) {
    headers.insert(TIMEOUT_MS, millis);
    if headers.contains_key(GRPC_TIMEOUT) {
        // Takes the place of all fields of that name.
        headers.insert(GRPC_TIMEOUT, to_grpc(left));
    }
    if headers.contains_key(REQUEST_TIMEOUT) {
        headers.insert(REQUEST_TIMEOUT, to_seconds(left));
    }
}

/// Tells the server how much time is left, if there is a deadline.
pub fn tell_deadline(headers: &mut HeaderMap, deadline: Deadline, now: Moment) {
    if deadline != Deadline::NEVER {
        let left = deadline.remaining(now);
        tell(headers, in_millis(left), left);
    }
}

/// A duration in whole milliseconds.
#[must_use]
pub fn in_millis(left: Duration) -> HeaderValue {
    HeaderValue::from(u64::try_from(left.as_millis()).unwrap_or(u64::MAX))
}

fn from_millis(text: &[u8]) -> Option<Duration> {
    std::str::from_utf8(text).ok()?.parse().ok().map(Duration::from_millis)
}

/// Up to eleven digits, then perhaps a point and up to three more.
fn from_seconds(text: &[u8]) -> Option<Duration> {
    let text = std::str::from_utf8(text).ok()?;
    let (seconds, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let is_number = |digits: &str, most| {
        (1..=most).contains(&digits.len()) && digits.bytes().all(|digit| digit.is_ascii_digit())
    };
    if !is_number(seconds, 11) || !is_number(fraction, 3) {
        return None;
    }
    let millis: u64 = format!("{fraction:0<3}").parse().ok()?;
    Some(Duration::from_secs(seconds.parse().ok()?) + Duration::from_millis(millis))
}

/// Rounded down to milliseconds.
fn to_seconds(left: Duration) -> HeaderValue {
    let text = format!("{}.{:03}", left.as_secs(), left.subsec_millis());
    HeaderValue::try_from(text).expect("digits and a point")
}

fn from_grpc(text: &[u8]) -> Option<Duration> {
    let (unit, digits) = text.split_last()?;
    let (_, nanos) = GRPC_UNITS.iter().find(|(name, _)| name == unit)?;
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u128 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    Some(Duration::from_nanos(u64::try_from(number * nanos).unwrap_or(u64::MAX)))
}

/// In the finest unit that has room for it, rounded down.
fn to_grpc(left: Duration) -> HeaderValue {
    let fits = |(_, nanos): &&(u8, u128)| left.as_nanos() / nanos <= GRPC_MOST;
    let (unit, nanos) = GRPC_UNITS.iter().find(fits).unwrap_or(&GRPC_UNITS[5]);
    let text = format!("{}{}", (left.as_nanos() / nanos).min(GRPC_MOST), char::from(*unit));
    HeaderValue::try_from(text).expect("digits and a letter")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    const NOW: Moment = Moment::from_nanos(5_000_000_000);
    /// Sun, 06 Nov 1994 08:49:37 GMT, and a quarter of a second.
    const UNIX: Duration = Duration::from_millis(784_111_777_250);

    fn wish(name: &'static str, value: &str) -> Option<Duration> {
        let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())]);
        let deadline = wished(&headers, NOW, UNIX);
        (deadline != Deadline::NEVER).then(|| deadline.remaining(NOW))
    }

    #[test]
    fn a_client_says_how_long_it_waits_and_nonsense_says_nothing() {
        assert_eq!(wish("x-request-timeout-ms", "250"), Some(Duration::from_millis(250)));
        for nonsense in ["", "-1", "1.5", "250ms", "99999999999999999999"] {
            assert_eq!(wish("x-request-timeout-ms", nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn seconds_have_a_point_and_up_to_three_digits_behind_it() {
        for (text, expected) in [("2", 2000), ("2.5", 2500), ("0.007", 7), ("0", 0), ("86400", 86_400_000)] {
            assert_eq!(wish("request-timeout", text), Some(Duration::from_millis(expected)), "{text}");
        }
        for nonsense in ["", ".", "1.", ".5", "-1", "+1", "1.0000", "999999999999", "1e3", "2s"] {
            assert_eq!(wish("request-timeout", nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn a_deadline_is_a_date_or_a_time_since_1970_and_one_that_is_over_leaves_no_time() {
        for (text, millis) in [
            ("Sun, 06 Nov 1994 08:49:38 GMT", 750),
            ("Sun, 06 Nov 1994 08:49:37 GMT", 0),
            ("784111777.251", 1),
            ("784111777.250", 0),
            ("784111779", 1750),
            ("0", 0),
        ] {
            assert_eq!(wish("deadline", text), Some(Duration::from_millis(millis)), "{text}");
        }
        for nonsense in ["", "tomorrow", "1994-11-06T08:49:38Z", "Sun, 06 Nov 1994 08:49:38 CET"] {
            assert_eq!(wish("deadline", nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn of_all_fields_the_shortest_time_counts() {
        let all = [
            ("x-request-timeout-ms", "900"),
            ("grpc-timeout", "800m"),
            ("request-timeout", "0.7"),
            ("deadline", "784111777.85"),
        ];
        for (at, (shortest, _)) in all.iter().enumerate() {
            let one_less = all.iter().cycle().skip(at + 1).take(all.len() - 1);
            let headers = HeaderMap::from_iter(
                one_less.map(|(name, value)| (HeaderName::from_static(name), value.parse().unwrap())),
            );
            let expected = if *shortest == "deadline" { 700 } else { 600 };
            let wait = wished(&headers, NOW, UNIX).remaining(NOW);
            assert_eq!(wait, Duration::from_millis(expected), "without {shortest}");
        }
    }

    #[test]
    fn of_several_times_the_shortest_counts() {
        let several = |name: &'static str, values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HeaderName::from_static(name), value.parse().unwrap());
            }
            let wait = wished(&headers, NOW, UNIX).remaining(NOW);
            tell(&mut headers, in_millis(wait), wait);
            (wait.as_millis(), headers.get_all(name).iter().count())
        };
        assert_eq!(several("x-request-timeout-ms", &["900", "x", "250"]), (250, 1));
        assert_eq!(several("x-request-timeout-ms", &["900, 250", "700"]), (250, 1));
        assert_eq!(several("grpc-timeout", &["1H", "250m", "nonsense"]), (250, 1));
        assert_eq!(several("grpc-timeout", &["1H,2S", "3S"]), (2000, 1));
        assert_eq!(several("request-timeout", &["3, 2.5", "nonsense"]), (2500, 1));
    }

    #[test]
    fn grpc_timeouts_have_up_to_eight_digits_and_a_unit() {
        for (text, expected) in [
            ("100m", Some(Duration::from_millis(100))),
            ("99999999n", Some(Duration::from_nanos(99_999_999))),
            ("7u", Some(Duration::from_micros(7))),
            ("2S", Some(Duration::from_secs(2))),
            ("3M", Some(Duration::from_secs(180))),
            ("1H", Some(Duration::from_secs(3600))),
            ("0m", Some(Duration::ZERO)),
            ("999999999n", None),
            ("m", None),
            ("1", None),
            ("1x", None),
            ("+1m", None),
            ("", None),
        ] {
            assert_eq!(wish("grpc-timeout", text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_told_in_grpcs_form_reads_back_as_the_same_or_a_little_less() {
        for left in [0, 1, 99_999_999, 100_000_000, 5_000_000_000, 86_400_000_000_000, u64::MAX] {
            let left = Duration::from_nanos(left);
            let read = from_grpc(to_grpc(left).as_bytes()).unwrap();
            assert!(read <= left, "{read:?} of {left:?}");
            assert!(left - read <= left / 1_000, "{read:?} of {left:?}");
        }
    }

    #[test]
    fn a_server_is_told_once_and_in_grpcs_form_only_if_the_client_used_it() {
        let mut headers = HeaderMap::new();
        tell(&mut headers, in_millis(Duration::from_millis(1500)), Duration::from_millis(1500));
        assert_eq!(headers.len(), 1);
        assert_eq!(headers["x-request-timeout-ms"], "1500");
        headers.insert(GRPC_TIMEOUT, HeaderValue::from_static("9S"));
        tell(&mut headers, in_millis(Duration::from_millis(20)), Duration::from_millis(20));
        assert_eq!(headers["x-request-timeout-ms"], "20");
        assert_eq!(headers["grpc-timeout"], "20000000n");
        headers.insert(REQUEST_TIMEOUT, HeaderValue::from_static("9"));
        tell(&mut headers, in_millis(Duration::from_millis(1020)), Duration::from_millis(1020));
        assert_eq!(headers["request-timeout"], "1.020");
    }
}
