//! Content codings: which of those we have a client takes (RFC 9110, 12.5.3).
//!
//! | `Accept-Encoding` | a coding | `identity` |
//! |---|---|---|
//! | none | if there is nothing else: the client did not say that it knows any | first choice |
//! | lists it, with a weight | by its weight, 0 is refused | by its weight, 0 is refused |
//! | has `*`, and does not list it | by the weight of `*` | by the weight of `*` |
//! | says nothing of it | refused | last choice |
//!
//! Elements that cannot be read do not count; of several for one coding the last does.

use crate::list::{elements, is_token, split_once};

/// The name of no coding at all.
pub const IDENTITY: &str = "identity";

/// How much a coding is wanted: twice its weight in thousandths, so that something fits between no and the least of them.
type Rank = u16;
/// What is acceptable though nobody asked for it.
const UNASKED: Rank = 1;

/// Chooses one of the codings we can give, by the client's weights and then in the order of `offered`; `None` if it takes
/// none of them (406).
#[must_use]
pub fn choose<'v, 'o>(
    values: impl IntoIterator<Item = &'v [u8], IntoIter: Clone>,
    offered: &[&'o str],
) -> Option<&'o str> {
    let values = values.into_iter();
    if values.clone().next().is_none() {
        return offered.iter().find(|coding| **coding == IDENTITY).or(offered.first()).copied();
    }
    let mut best: Option<(Rank, &str)> = None;
    for coding in offered {
        let rank = rank(values.clone(), coding);
        if rank > best.map_or(0, |(rank, _)| rank) {
            best = Some((rank, coding));
        }
    }
    best.map(|(_, coding)| coding)
}

/// How much a field that is there wants a coding; 0 if not at all.
fn rank<'v>(values: impl Iterator<Item = &'v [u8]>, coding: &str) -> Rank {
    let (mut named, mut others) = (None, None);
    for (name, weight) in elements(values).filter_map(weighted) {
        if canonical(name).eq_ignore_ascii_case(coding.as_bytes()) {
            named = Some(weight);
        } else if name == b"*" {
            others = Some(weight);
        }
    }
    let unlisted = if coding == IDENTITY { UNASKED } else { 0 };
    named.or(others).map_or(unlisted, |weight| weight * 2)
}

/// A coding and its weight in thousandths.
fn weighted(element: &[u8]) -> Option<(&[u8], u16)> {
    let (name, parameter) = split_once(element, b';');
    let weight = match parameter {
        None => 1000,
        Some(parameter) => match split_once(parameter, b'=') {
            (b"q" | b"Q", Some(weight)) => thousandths(weight)?,
            _ => return None,
        },
    };
    is_token(name).then_some((name, weight))
}

/// Reads a weight: 0 to 1 with at most three digits behind the point.
fn thousandths(weight: &[u8]) -> Option<u16> {
    let (whole, digits) = match weight {
        [whole @ (b'0' | b'1')] => (*whole, &[][..]),
        [whole @ (b'0' | b'1'), b'.', digits @ ..] if digits.len() <= 3 => (*whole, digits),
        _ => return None,
    };
    let mut value = u16::from(whole - b'0');
    for place in 0..3 {
        let digit = digits.get(place).unwrap_or(&b'0');
        value = value * 10 + digit.is_ascii_digit().then(|| u16::from(digit - b'0'))?;
    }
    (value <= 1000).then_some(value)
}

/// A coding that has two names, by the one it is known under here.
fn canonical(name: &[u8]) -> &[u8] {
    if name.eq_ignore_ascii_case(b"x-gzip") { b"gzip" } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn chosen<'o>(values: &[&str], offered: &[&'o str]) -> Option<&'o str> {
        choose(values.iter().map(|value| value.as_bytes()), offered)
    }

    #[test]
    fn a_stored_coding_is_given_to_those_who_take_it() {
        let table: [(&[&str], Option<&str>); 27] = [
            (&[], Some("identity")),
            (&[""], Some("identity")),
            (&["gzip"], Some("gzip")),
            (&["GZip"], Some("gzip")),
            (&["x-gzip"], Some("gzip")),
            (&["deflate, gzip;q=1.0, *;q=0.5"], Some("gzip")),
            (&["br", "gzip"], Some("gzip")),
            (&["br"], Some("identity")),
            (&["identity"], Some("identity")),
            (&["*"], Some("gzip")),
            (&["*;q=0.001"], Some("gzip")),
            (&["gzip;q=0.001"], Some("gzip")),
            (&["gzip;q=0"], Some("identity")),
            (&["gzip;q=0.000"], Some("identity")),
            (&["gzip;q=0, *"], Some("identity")),
            (&["gzip;q=0.5, identity"], Some("identity")),
            (&["gzip;q=0.5, identity;q=0.5"], Some("gzip")),
            (&["gzip;q=0.5, *;q=1"], Some("identity")),
            (&["gzip, gzip;q=0"], Some("identity")),
            (&["gzip ; q=0.8"], Some("gzip")),
            (&["gzip;q=2"], Some("identity")),
            (&["gzip;level=9"], Some("identity")),
            (&["gzip;q=0.5;q=1"], Some("identity")),
            (&["gzip;q=0, identity;q=0"], None),
            (&["identity;q=0"], None),
            (&["*;q=0"], None),
            (&["br, *;q=0"], None),
        ];
        for (values, expected) in table {
            assert_eq!(chosen(values, &["gzip", IDENTITY]), expected, "{values:?}");
        }
        assert_eq!(chosen(&["identity;q=0, gzip"], &["gzip", IDENTITY]), Some("gzip"));
        assert_eq!(chosen(&["*;q=0, identity"], &["gzip", IDENTITY]), Some("identity"));
    }

    #[test]
    fn among_several_the_clients_weights_count_before_our_order() {
        let ours = ["br", "zstd", "gzip", IDENTITY];
        assert_eq!(chosen(&["gzip, br, zstd"], &ours), Some("br"));
        assert_eq!(chosen(&["gzip, br;q=0.9, zstd;q=0.99"], &ours), Some("gzip"));
        assert_eq!(chosen(&["*, br;q=0"], &ours), Some("zstd"));
        assert_eq!(chosen(&[], &["br", "gzip"]), Some("br"));
        assert_eq!(chosen(&["gzip"], &["br"]), None);
        assert_eq!(chosen(&["gzip"], &[]), None);
    }

    #[test]
    fn a_weight_has_at_most_three_digits_behind_the_point() {
        let table: [(&[u8], _); 14] = [
            (b"0", Some(0)),
            (b"1", Some(1000)),
            (b"0.", Some(0)),
            (b"1.000", Some(1000)),
            (b"0.5", Some(500)),
            (b"0.25", Some(250)),
            (b"0.999", Some(999)),
            (b"1.001", None),
            (b"0.0001", None),
            (b".5", None),
            (b"2", None),
            (b"-0", None),
            (b"0.a", None),
            (b"", None),
        ];
        for (text, expected) in table {
            assert_eq!(thousandths(text), expected, "{text:?}");
        }
    }
}
