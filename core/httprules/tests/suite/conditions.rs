//! Conditions: every combination of what each field can say, against the standard's steps.

use http::{HeaderMap, HeaderName, HeaderValue, Method, header};
use httprules::{
    etag::{ETag, Listed, look_up},
    precondition::{Current, Outcome, decide},
};
use proptest::prelude::*;

const NOW: u64 = 1_790_000_000;
const MODIFIED: u64 = 784_111_777;
const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
const SAME: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const SAME_OLD: &str = "Sunday, 06-Nov-94 08:49:37 GMT";
const AFTER: &str = "Sun, 06 Nov 1994 08:49:38 GMT";

/// What the field means for a representation tagged `"x"` and modified at [`MODIFIED`]: `None` for a field that is not there
/// or does not count, else whether its condition holds.
type Choice = (Option<&'static str>, Option<bool>);

const IF_MATCH: [Choice; 7] = [
    (None, None),
    (Some("*"), Some(true)),
    (Some(r#""a", "x""#), Some(true)),
    (Some(r#""a""#), Some(false)),
    (Some(r#"W/"x""#), Some(false)),
    (Some("x"), Some(false)),
    (Some(""), Some(false)),
];
const IF_UNMODIFIED: [Choice; 6] = [
    (None, None),
    (Some(BEFORE), Some(false)),
    (Some(SAME), Some(true)),
    (Some(SAME_OLD), Some(true)),
    (Some(AFTER), Some(true)),
    (Some("yesterday"), None),
];
const IF_NONE_MATCH: [Choice; 7] = [
    (None, None),
    (Some("*"), Some(false)),
    (Some(r#""x""#), Some(false)),
    (Some(r#""a", W/"x""#), Some(false)),
    (Some(r#""a""#), Some(true)),
    (Some("x"), Some(true)),
    (Some(r#""x", x"#), Some(true)),
];
const IF_MODIFIED: [Choice; 6] = [
    (None, None),
    (Some(BEFORE), Some(true)),
    (Some(SAME), Some(false)),
    (Some(SAME_OLD), Some(false)),
    (Some(AFTER), Some(false)),
    (Some("0"), None),
];
const IF_RANGE: [Choice; 7] = [
    (None, None),
    (Some(r#""x""#), Some(true)),
    (Some(r#""a""#), Some(false)),
    (Some(r#"W/"x""#), Some(false)),
    (Some(SAME), Some(true)),
    (Some(AFTER), Some(false)),
    (Some("x"), Some(false)),
];
const RANGES: [(Option<&str>, Outcome); 4] = [
    (None, Outcome::Whole),
    (Some("bytes=1-2"), Outcome::Part(1..3)),
    (Some("bytes=10-"), Outcome::Unsatisfiable),
    (Some("items=1-2"), Outcome::Whole),
];

fn current(etag: Option<ETag<'static>>, last_modified: Option<u64>) -> Current<'static> {
    Current { etag, last_modified, dates_are_strong: true, len: 10 }
}

fn tagged() -> Current<'static> {
    current(ETag::strong(b"x"), Some(MODIFIED))
}

fn headers(fields: &[(HeaderName, Option<&'static str>)]) -> HeaderMap {
    let there = fields.iter().filter_map(|(name, value)| Some((name.clone(), (*value)?)));
    there.map(|(name, value)| (name, HeaderValue::from_static(value))).collect()
}

/// The steps of RFC 9110, 13.2.2, given what each condition evaluates to.
fn steps(method: &Method, conditions: [Option<bool>; 5], range: &Outcome) -> Outcome {
    let [if_match, if_unmodified, if_none_match, if_modified, if_range] = conditions;
    let reads = method == Method::GET || method == Method::HEAD;
    if if_match == Some(false) || if_match.is_none() && if_unmodified == Some(false) {
        return Outcome::Failed;
    }
    if if_none_match == Some(false) {
        return if reads { Outcome::NotModified } else { Outcome::Failed };
    }
    if if_none_match.is_none() && reads && if_modified == Some(false) {
        return Outcome::NotModified;
    }
    let counts = method == Method::GET && if_range != Some(false);
    if counts { range.clone() } else { Outcome::Whole }
}

#[test]
fn every_combination_follows_the_standards_steps() {
    let mut seen = 0;
    for method in [Method::GET, Method::HEAD, Method::PUT] {
        for (if_match, if_unmodified) in pairs(&IF_MATCH, &IF_UNMODIFIED) {
            for (if_none_match, if_modified) in pairs(&IF_NONE_MATCH, &IF_MODIFIED) {
                for (if_range, (range, outcome)) in pairs(&IF_RANGE, &RANGES) {
                    let headers = headers(&[
                        (header::IF_MATCH, if_match.0),
                        (header::IF_UNMODIFIED_SINCE, if_unmodified.0),
                        (header::IF_NONE_MATCH, if_none_match.0),
                        (header::IF_MODIFIED_SINCE, if_modified.0),
                        (header::IF_RANGE, if_range.0),
                        (header::RANGE, range),
                    ]);
                    let conditions =
                        [if_match.1, if_unmodified.1, if_none_match.1, if_modified.1, if_range.1];
                    let expected = steps(&method, conditions, &outcome);
                    assert_eq!(decide(&method, &headers, &tagged(), NOW), expected, "{method} {headers:?}");
                    seen += 1;
                }
            }
        }
    }
    assert_eq!(seen, 3 * 7 * 6 * 7 * 6 * 7 * 4);
}

fn pairs<A: Clone, B: Clone>(these: &[A], those: &[B]) -> Vec<(A, B)> {
    these.iter().flat_map(|this| those.iter().map(move |that| (this.clone(), that.clone()))).collect()
}

#[track_caller]
fn check(fields: &[(HeaderName, &'static str)], current: &Current<'_>, expected: Outcome) {
    let headers: HeaderMap =
        fields.iter().map(|(name, value)| (name.clone(), HeaderValue::from_static(value))).collect();
    assert_eq!(decide(&Method::GET, &headers, current, NOW), expected, "{headers:?}");
}

#[test]
fn without_a_tag_or_a_date_conditions_on_them_hold_or_do_not_count() {
    let untagged = current(None, None);
    check(&[(header::IF_MATCH, "*")], &untagged, Outcome::Whole);
    check(&[(header::IF_MATCH, r#""x""#)], &untagged, Outcome::Failed);
    check(&[(header::IF_NONE_MATCH, "*")], &untagged, Outcome::NotModified);
    check(&[(header::IF_NONE_MATCH, r#""x""#)], &untagged, Outcome::Whole);
    check(&[(header::IF_MODIFIED_SINCE, AFTER)], &untagged, Outcome::Whole);
    check(&[(header::IF_UNMODIFIED_SINCE, BEFORE)], &untagged, Outcome::Whole);
    check(&[(header::IF_RANGE, r#""x""#), (header::RANGE, "bytes=1-2")], &untagged, Outcome::Whole);
    check(&[(header::IF_RANGE, SAME), (header::RANGE, "bytes=1-2")], &untagged, Outcome::Whole);
}

#[test]
fn a_date_that_is_not_strong_makes_no_part() {
    let fields = [(header::IF_RANGE, SAME), (header::RANGE, "bytes=1-2")];
    check(&fields, &tagged(), Outcome::Part(1..3));
    check(&fields, &Current { dates_are_strong: false, ..tagged() }, Outcome::Whole);
}

#[test]
fn a_weak_tag_of_ours_makes_no_part() {
    let weak = current(ETag::parse(br#"W/"x""#), None);
    check(&[(header::IF_RANGE, r#"W/"x""#), (header::RANGE, "bytes=1-2")], &weak, Outcome::Whole);
    check(&[(header::IF_MATCH, r#"W/"x""#)], &weak, Outcome::Failed);
    check(&[(header::IF_NONE_MATCH, r#""x""#)], &weak, Outcome::NotModified);
}

#[test]
fn fields_that_may_be_there_once_do_not_count_twice() {
    let twice = |name: HeaderName, value: &'static str| {
        let mut headers = HeaderMap::new();
        headers.append(name.clone(), HeaderValue::from_static(value));
        headers.append(name, HeaderValue::from_static(value));
        decide(&Method::GET, &headers, &tagged(), NOW)
    };
    assert_eq!(twice(header::IF_MODIFIED_SINCE, AFTER), Outcome::Whole);
    assert_eq!(twice(header::IF_UNMODIFIED_SINCE, BEFORE), Outcome::Whole);
    assert_eq!(twice(header::RANGE, "bytes=1-2"), Outcome::Unsatisfiable);
    assert_eq!(twice(header::IF_NONE_MATCH, r#""x""#), Outcome::NotModified);
    let mut headers = headers(&[(header::IF_RANGE, Some(r#""x""#)), (header::RANGE, Some("bytes=1-2"))]);
    headers.append(header::IF_RANGE, HeaderValue::from_static(r#""x""#));
    assert_eq!(decide(&Method::GET, &headers, &tagged(), NOW), Outcome::Whole);
}

proptest! {
    #[test]
    fn a_list_is_searched_as_its_elements_are(
        tags in prop::collection::vec(("[a-c,\\\\*]{0,2}", any::<bool>()), 1..6),
        sought in "[a-c,\\\\*]{0,2}",
        lines in 1..4_usize,
    ) {
        let texts: Vec<_> =
            tags.iter().map(|(tag, weak)| format!("{}\"{tag}\"", if *weak { "W/" } else { "" })).collect();
        let values: Vec<_> = texts.chunks(lines).map(|line| line.join(" , ")).collect();
        let sought_tag = ETag::strong(sought.as_bytes()).expect("printable");
        let found = |same: fn(&ETag<'_>, &ETag<'_>) -> bool| {
            look_up(values.iter().map(|value| value.as_bytes()), |tag| same(tag, &sought_tag))
        };
        let strongly = tags.iter().any(|(tag, weak)| *tag == sought && !weak);
        let weakly = tags.iter().any(|(tag, _)| *tag == sought);
        let expected = |is_there| if is_there { Listed::Found } else { Listed::NotFound };
        prop_assert_eq!(found(|one, other| one.strong_eq(other)), expected(strongly));
        prop_assert_eq!(found(|one, other| one.weak_eq(other)), expected(weakly));
    }

    #[test]
    fn a_tag_that_reads_is_written_that_way(text in prop_oneof!["\\PC*", "(W/)?\"[!#-~]{0,9}\""]) {
        if let Some(tag) = ETag::parse(text.as_bytes()) {
            let weak: &[u8] = if tag.is_strong() { b"" } else { b"W/" };
            prop_assert_eq!([weak, b"\"", tag.opaque(), b"\""].concat(), text.as_bytes());
        }
    }
}
