//! Stored parts: which belong together, what they make, and what is asked for to complete them.

use std::ops::Range;

use httpcache::{
    answer::Part,
    partial::{Joined, are_same, combined, conditions, join, missing, strip_content},
};

use crate::fields;

const WHOLE: &[u8] = b"0123456789";

fn part(range: Range<u64>) -> Part {
    Part { range, len: WHOLE.len() as u64 }
}

fn bytes(range: &Range<u64>) -> &'static [u8] {
    &WHOLE[usize::try_from(range.start).unwrap()..usize::try_from(range.end).unwrap()]
}

#[test]
fn only_the_same_strong_validator_makes_parts_of_one_representation() {
    let table = [
        ("ETag: \"a\"", "ETag: \"a\"", true),
        ("ETag: \"a\"", "ETag: \"b\"", false),
        ("ETag: \"a\"", "", false),
        ("", "", false),
        ("ETag: W/\"a\"", "ETag: W/\"a\"", false),
        ("ETag: \"a\"", "ETag: W/\"a\"", false),
        ("ETag: a", "ETag: a", false),
        ("ETag: \"a\"\nETag: \"b\"", "ETag: \"a\"", false),
        ("Last-Modified: x", "Last-Modified: x", false),
        ("ETag: \"a\"\nContent-Encoding: br", "ETag: \"a\"\nContent-Encoding: br", true),
        ("ETag: \"a\"\nContent-Encoding: br", "ETag: \"a\"", true),
        ("ETag: \"a\"\nContent-Encoding: br", "ETag: \"a\"\nContent-Encoding: gzip", false),
        ("ETag: \"a\"", "ETag: \"a\"\nContent-Encoding: gzip", false),
    ];
    for (stored, new, expected) in table {
        assert_eq!(are_same(&fields(stored), &fields(new)), expected, "{stored} / {new}");
    }
}

#[test]
fn any_two_parts_that_touch_make_the_bytes_of_their_representation() {
    for (a, b) in (0..10).flat_map(|a| (a + 1..=10).map(move |b| (a, b))) {
        for (c, d) in (0..10).flat_map(|c| (c + 1..=10).map(move |d| (c, d))) {
            let joined = join((&part(a..b), bytes(&(a..b))), (&part(c..d), bytes(&(c..d))), 10);
            let expected = if c > b || a > d {
                Joined::Apart
            } else {
                let range = a.min(c)..b.max(d);
                Joined::One(part(range.clone()), bytes(&range).to_vec())
            };
            assert_eq!(joined, expected, "{a}..{b} and {c}..{d}");
        }
    }
}

#[test]
fn parts_that_contradict_each_other_or_are_too_long_are_not_joined() {
    let new = (&part(2..6), bytes(&(2..6)));
    assert_eq!(join(new, (&part(4..8), b"45x7"), 10), Joined::One(part(2..8), b"2345x7".to_vec()));
    assert_eq!(join(new, (&part(4..8), b"x567"), 10), Joined::Contradiction);
    assert_eq!(join(new, (&part(4..8), b"4567"), 6), Joined::One(part(2..8), b"234567".to_vec()));
    assert_eq!(join(new, (&part(4..8), b"4567"), 5), Joined::Apart);
    assert_eq!(join(new, (&Part { range: 4..8, len: 11 }, b"4567"), 10), Joined::Contradiction);
    // What is not as long as it says.
    assert_eq!(join(new, (&part(4..8), b"456"), 10), Joined::Contradiction);
    assert_eq!(join((&part(2..6), b"234567"), (&part(4..8), b"4567"), 10), Joined::Contradiction);
}

#[test]
fn a_few_bytes_more_do_not_have_a_long_part_copied() {
    let whole: Vec<u8> = (0..1_000_000_u32).map(|at| at.to_le_bytes()[1]).collect();
    let joined = |new: Range<usize>, old: Range<usize>| {
        let part =
            |range: &Range<usize>| Part { range: range.start as u64..range.end as u64, len: 1_000_000 };
        let (one, other) = ((&part(&new), &whole[new.clone()]), (&part(&old), &whole[old.clone()]));
        match join(one, other, u64::MAX) {
            Joined::One(part, bytes) => {
                let at = usize::try_from(part.range.start).unwrap();
                assert_eq!(bytes, whole[at..at + bytes.len()], "{new:?} {old:?}");
                true
            }
            Joined::Apart => false,
            Joined::Contradiction => panic!("{new:?} {old:?}"),
        }
    };
    assert!(joined(60_000..60_001, 0..60_000), "short as both are");
    assert!(!joined(70_000..70_001, 0..70_000));
    assert!(!joined(10..11, 0..70_000));
    assert!(!joined(70_000..74_665, 0..70_000));
    assert!(joined(70_000..74_667, 0..70_000), "a sixteenth of both");
    assert!(joined(0..70_000, 70_000..74_667));
    assert!(joined(999_999..1_000_000, 0..999_999), "nothing is missing then");
}

#[test]
fn what_is_combined_has_the_newer_fields_and_its_own_range() {
    let stored = fields(
        "A: 1\nB: 1\nContent-Type: x\nContent-Range: bytes 0-3/10\nContent-Length: 4\nContent-Digest: sha-256=:x:",
    );
    let new = fields("A: 2\nContent-Range: bytes 4-5/10\nContent-Length: 2\nContent-MD5: x");
    assert_eq!(
        combined(&stored, &new, Some(&part(0..6)), 6),
        fields("B: 1\nContent-Type: x\nA: 2\nContent-Length: 6\nContent-Range: bytes 0-5/10")
    );
    assert_eq!(combined(&stored, &new, None, 10), fields("B: 1\nContent-Type: x\nA: 2\nContent-Length: 10"));
    let mut digests = fields("Content-Digest: a\nContent-MD5: b\nRepr-Digest: c");
    strip_content(&mut digests);
    assert_eq!(digests, fields("Repr-Digest: c"));
}

#[test]
fn what_is_missing_at_one_end_is_asked_for_unless_the_representation_changed() {
    let asked = |range: Range<u64>, etag: &str| {
        let missing = missing(&part(range))?;
        let fields = conditions(&fields(etag), &missing)?;
        Some(fields.map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).join(", "))
    };
    let strong = "ETag: \"a\"";
    assert_eq!(asked(0..4, strong).unwrap(), "range: bytes=4-9, if-range: \"a\"");
    assert_eq!(asked(4..10, strong).unwrap(), "range: bytes=0-3, if-range: \"a\"");
    for (range, etag) in
        [(2..4, strong), (0..10, strong), (0..4, "ETag: W/\"a\""), (0..4, "Last-Modified: x")]
    {
        assert_eq!(asked(range.clone(), etag), None, "{range:?} {etag}");
    }
}
