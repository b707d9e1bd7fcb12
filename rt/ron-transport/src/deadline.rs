//! Deadlines on the wire: how long the client is ready to wait, and how long a server may take.

use std::time::Duration;

use http::{HeaderMap, HeaderName, HeaderValue};
use types::{Deadline, Moment};

/// How many milliseconds are left for the answer. A client that sends it can shorten our timeout, never lengthen it; a
/// server always gets it.
const TIMEOUT_MS: HeaderName = HeaderName::from_static("x-request-timeout-ms");
/// The same in gRPC's form: up to eight digits and a unit.
const GRPC_TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

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
/// cannot be read is no wish.
#[must_use]
pub fn wished(headers: &HeaderMap, now: Moment) -> Deadline {
    let within = |wait: Option<Duration>| wait.map_or(Deadline::NEVER, |wait| Deadline::within(now, wait));
    let millis = shortest(headers, &TIMEOUT_MS, from_millis);
    let grpc = shortest(headers, &GRPC_TIMEOUT, from_grpc);
    within(millis).tightened(within(grpc))
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
}

/// Tells whoever answers how long there is, if there is a deadline.
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

    fn wish(name: &'static str, value: &str) -> Option<Duration> {
        let headers = HeaderMap::from_iter([(HeaderName::from_static(name), value.parse().unwrap())]);
        let deadline = wished(&headers, NOW);
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
    fn of_several_times_the_shortest_counts() {
        let several = |name: &'static str, values: &[&str]| {
            let mut headers = HeaderMap::new();
            for value in values {
                headers.append(HeaderName::from_static(name), value.parse().unwrap());
            }
            let wait = wished(&headers, NOW).remaining(NOW);
            tell(&mut headers, in_millis(wait), wait);
            (wait.as_millis(), headers.get_all(name).iter().count())
        };
        assert_eq!(several("x-request-timeout-ms", &["900", "x", "250"]), (250, 1));
        assert_eq!(several("x-request-timeout-ms", &["900, 250", "700"]), (250, 1));
        assert_eq!(several("grpc-timeout", &["1H", "250m", "nonsense"]), (250, 1));
        assert_eq!(several("grpc-timeout", &["1H,2S", "3S"]), (2000, 1));
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
    }
}
