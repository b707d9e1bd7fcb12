//! Freshness: the arithmetic of ages and lifetimes, what may be kept, and a grid of verdicts against the rules.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header};
use httprules::{
    cache_control::{RequestDirectives, ResponseDirectives},
    freshness::{HEURISTIC_MAX, Stored, Time, Unstorable, Verdict, judge, may_store},
};
use proptest::prelude::*;

/// The moment of [`DATE`].
const MADE: u64 = 784_111_777;
const DATE: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
const TEN_LATER: &str = "Sun, 06 Nov 1994 08:49:47 GMT";
const DAY_BEFORE: &str = "Sat, 05 Nov 1994 08:49:37 GMT";

/// Some header fields.
type Fields<'a> = &'a [(HeaderName, &'a str)];

fn fields(fields: Fields<'_>) -> HeaderMap {
    let value = |text: &str| HeaderValue::from_str(text).expect("a value");
    fields.iter().map(|(name, text)| (name.clone(), value(text))).collect()
}

/// A response that was asked for and received in the second it was made.
fn stored(with: Fields<'_>) -> Stored {
    Stored::of(StatusCode::OK, &fields(&[&[(header::DATE, DATE)], with].concat()), MADE, MADE)
}

#[test]
fn a_lifetime_is_the_first_that_is_told() {
    let table: [(Fields<'_>, u64); 12] = [
        (&[], 0),
        (&[(header::CACHE_CONTROL, "max-age=60")], 60),
        (&[(header::CACHE_CONTROL, "max-age=60, s-maxage=5")], 5),
        (&[(header::CACHE_CONTROL, "max-age=60"), (header::EXPIRES, TEN_LATER)], 60),
        (&[(header::CACHE_CONTROL, "max-age=x"), (header::EXPIRES, TEN_LATER)], 0),
        (&[(header::CACHE_CONTROL, "no-transform"), (header::EXPIRES, TEN_LATER)], 10),
        (&[(header::EXPIRES, DAY_BEFORE)], 0),
        (&[(header::EXPIRES, "0"), (header::LAST_MODIFIED, DAY_BEFORE)], 0),
        (&[(header::LAST_MODIFIED, DAY_BEFORE)], 8640),
        (&[(header::LAST_MODIFIED, TEN_LATER)], 0),
        (&[(header::LAST_MODIFIED, "Thu, 01 Jan 1970 00:00:00 GMT")], HEURISTIC_MAX),
        (&[(header::LAST_MODIFIED, "long ago")], 0),
    ];
    for (with, seconds) in table {
        assert_eq!(stored(with).lifetime(), seconds, "{with:?}");
    }
}

#[test]
fn only_some_statuses_have_their_lifetime_guessed() {
    let modified = fields(&[(header::DATE, DATE), (header::LAST_MODIFIED, DAY_BEFORE)]);
    let lifetime = |status| Stored::of(status, &modified, MADE, MADE).lifetime();
    assert_eq!(lifetime(StatusCode::NOT_FOUND), 8640);
    assert_eq!(lifetime(StatusCode::FOUND), 0);
}

#[test]
fn a_lifetime_nobody_tells_is_ours_and_none_is_beyond_what_we_allow() {
    let silent = Stored { unsaid: 60, ..stored(&[]) };
    assert_eq!((silent.told_lifetime(), silent.lifetime()), (None, 60));
    assert_eq!(Stored { unsaid: 60, ..stored(&[(header::LAST_MODIFIED, DAY_BEFORE)]) }.lifetime(), 8640);
    assert_eq!(Stored { status: StatusCode::FOUND, ..silent }.lifetime(), 0);
    let told = Stored { unsaid: 60, ..stored(&[(header::CACHE_CONTROL, "max-age=0")]) };
    assert_eq!((told.told_lifetime(), told.lifetime()), (Some(0), 0));
    let bounded = Stored { at_most: 5, ..stored(&[(header::CACHE_CONTROL, "max-age=60")]) };
    assert_eq!((bounded.lifetime(), Stored { at_most: 70, ..bounded }.lifetime()), (5, 60));
    assert_eq!(bounded.validated(&HeaderMap::new(), MADE, MADE).lifetime(), 5);
}

#[test]
fn an_age_is_what_others_say_or_the_clocks_tell_whichever_is_more() {
    let of = |age: &str, requested_at, received_at| {
        let headers = fields(&[(header::DATE, DATE), (header::AGE, age)]);
        Stored::of(StatusCode::OK, &headers, requested_at, received_at)
    };
    // Told 100, and the answer took 4 seconds.
    assert_eq!(of("100", MADE, MADE + 4).age_at(MADE + 4), 104);
    // Its date is 200 seconds old when it comes.
    assert_eq!(of("100", MADE + 196, MADE + 200).age_at(MADE + 200), 200);
    // Here for 30 seconds.
    assert_eq!(of("100", MADE, MADE + 4).age_at(MADE + 34), 134);
    // A date in the future, a clock that was set back, an age that is none.
    assert_eq!(of("0", MADE - 50, MADE - 50).age_at(MADE - 50), 0);
    assert_eq!(of("7", MADE, MADE).age_at(MADE - 1000), 7);
    assert_eq!(of("-7", MADE, MADE).age_at(MADE), 0);
    // A list: the first counts.
    assert_eq!(of("7200, 0", MADE, MADE).age_at(MADE), 7200);
    assert_eq!(of("0,7200", MADE, MADE).age_at(MADE), 0);
    assert_eq!(of("99999999999999999999", MADE, MADE).age_at(MADE), 1 << 31);
    assert_eq!(of("1", MADE, MADE).age_at(u64::MAX), u64::MAX - MADE + 1);
}

#[test]
fn a_response_gets_no_younger_when_the_clock_is_moved_back() {
    let (day, steady) = (86_400, 50);
    let received_at = Time { unix: MADE, steady };
    let headers = fields(&[(header::DATE, DATE), (header::CACHE_CONTROL, "max-age=3")]);
    let stored = Stored::of(StatusCode::OK, &headers, MADE, received_at);
    for (unix, steady, age) in [
        (MADE + 2, steady + 2, 2),
        // Moved back, by more and by less than it has been here.
        (MADE + 2 - day, steady + 2, 2),
        (MADE + 3 - day, steady + 3, 3),
        (MADE + 2 * day - day, steady + 2 * day, 2 * day),
        // Moved on, as when the machine slept.
        (MADE + day, steady + 2, day),
    ] {
        let now = Time { unix, steady };
        assert_eq!((stored.age_at(now), stored.is_fresh(now)), (age, age < 3), "{now:?}");
    }
    // What was received after the clock was moved back is as old as it says.
    let moved = Time { unix: MADE, steady: steady + day };
    let later = stored.validated(&headers, MADE, moved);
    assert_eq!((later.age_at(moved), later.age_when_received()), (0, 0));
    // What was stored before a restart has been here for as long as the machine's clock says.
    let now = Time { unix: MADE + 10, steady: 7 };
    assert_eq!(now.since(now.when(MADE)), 10);
    assert_eq!(now.since(now.when(MADE + 20)), 0);
}

#[test]
fn what_has_no_date_was_made_when_it_came() {
    let headers = fields(&[(header::CACHE_CONTROL, "max-age=10")]);
    let stored = Stored::of(StatusCode::OK, &headers, 1000, 1002);
    assert_eq!((stored.date, stored.age_at(1002)), (1002, 2));
    assert!(stored.is_fresh(1009));
    assert!(!stored.is_fresh(1010));
}

#[test]
fn a_validated_response_has_its_new_times_and_keeps_what_was_not_told_anew() {
    let first = stored(&[(header::CACHE_CONTROL, "max-age=10"), (header::LAST_MODIFIED, DAY_BEFORE)]);
    let later = MADE + 500;
    let silent = first.validated(&HeaderMap::new(), later, later + 1);
    assert_eq!((silent.lifetime(), silent.age_at(later + 1)), (10, 1));
    assert_eq!(silent.last_modified, first.last_modified);
    let told = fields(&[(header::CACHE_CONTROL, "max-age=3"), (header::AGE, "2")]);
    let told = first.validated(&told, later, later);
    assert_eq!((told.lifetime(), told.age_at(later), told.status), (3, 2, StatusCode::OK));
}

#[test]
fn what_may_be_kept_is_what_a_shared_cache_may() {
    let cache = header::CACHE_CONTROL;
    let table: [(u16, Fields<'_>, Result<(), Unstorable>); 24] = [
        (200, &[], Ok(())),
        (200, &[(cache.clone(), "no-store")], Err(Unstorable::NoStore)),
        (200, &[(cache.clone(), "no-store, must-understand")], Ok(())),
        (299, &[(cache.clone(), "max-age=5, must-understand")], Err(Unstorable::Status)),
        (299, &[(cache.clone(), "max-age=5")], Ok(())),
        (200, &[(cache.clone(), "private, max-age=5")], Err(Unstorable::Private)),
        (200, &[(cache.clone(), "private=\"x\"")], Err(Unstorable::Private)),
        (200, &[(header::SET_COOKIE, "a=b")], Err(Unstorable::Private)),
        (200, &[(cache.clone(), "no-cache")], Ok(())),
        (200, &[(header::VARY, "Accept-Encoding")], Ok(())),
        (200, &[(header::VARY, " accept-encoding , Accept-Encoding")], Ok(())),
        (200, &[(header::VARY, "*")], Err(Unstorable::Vary)),
        (200, &[(header::VARY, "Accept-Encoding, Origin")], Err(Unstorable::Vary)),
        (404, &[], Ok(())),
        (410, &[], Ok(())),
        (206, &[(cache.clone(), "max-age=5")], Err(Unstorable::Status)),
        (304, &[(cache.clone(), "max-age=5")], Err(Unstorable::Status)),
        (103, &[(cache.clone(), "max-age=5")], Err(Unstorable::Status)),
        (302, &[], Err(Unstorable::NoLifetime)),
        (302, &[(cache.clone(), "max-age=5")], Ok(())),
        (302, &[(cache.clone(), "public")], Ok(())),
        (302, &[(header::EXPIRES, DATE)], Ok(())),
        (503, &[], Err(Unstorable::NoLifetime)),
        (503, &[(cache.clone(), "s-maxage=5")], Ok(())),
    ];
    let asked = RequestDirectives::default();
    for (status, with, expected) in table {
        let status = StatusCode::from_u16(status).expect("a status");
        assert_eq!(may_store(&asked, false, status, &fields(with)), expected, "{status} {with:?}");
    }
    let refusing = RequestDirectives { no_store: true, ..asked };
    assert_eq!(may_store(&refusing, false, StatusCode::OK, &HeaderMap::new()), Err(Unstorable::NoStore));
}

#[test]
fn what_an_authorised_client_got_is_kept_only_if_others_may_see_it() {
    let judged = |value: &str| {
        let headers = fields(&[(header::CACHE_CONTROL, value)]);
        may_store(&RequestDirectives::default(), true, StatusCode::OK, &headers)
    };
    assert_eq!(judged("max-age=5"), Err(Unstorable::Authorization));
    for value in ["public", "s-maxage=5", "must-revalidate, max-age=5"] {
        assert_eq!(judged(value), Ok(()), "{value}");
    }
}

/// A response with these directives, of this age.
fn aged(value: &str) -> Stored {
    stored(&[(header::CACHE_CONTROL, value)])
}

#[track_caller]
fn check(response: &str, request: &str, age: u64, expected: Verdict) {
    let request = RequestDirectives::parse([request.as_bytes()]);
    assert_eq!(judge(&aged(response), &request, MADE + age), expected, "{response} / {request:?} at {age}");
}

const VALIDATE: Verdict = Verdict::Validate { if_error: false };
const UNLESS_ERROR: Verdict = Verdict::Validate { if_error: true };

#[test]
fn a_response_is_fresh_until_its_lifetime_is_over() {
    check("max-age=10", "", 9, Verdict::Fresh);
    check("max-age=10", "", 10, VALIDATE);
    check("max-age=10, must-revalidate", "", 9, Verdict::Fresh);
    check("max-age=10, no-cache", "", 0, VALIDATE);
    check("max-age=10", "no-cache", 0, VALIDATE);
}

#[test]
fn a_window_lasts_as_long_as_it_says() {
    let both = "max-age=10, stale-while-revalidate=5, stale-if-error=20";
    check(both, "", 10, Verdict::Stale);
    check(both, "", 14, Verdict::Stale);
    check(both, "", 15, UNLESS_ERROR);
    check(both, "", 29, UNLESS_ERROR);
    check(both, "", 30, VALIDATE);
    check("max-age=10, stale-while-revalidate=0", "", 10, VALIDATE);
    check("s-maxage=10, stale-while-revalidate=5", "", 12, Verdict::Stale);
    for strict in ["must-revalidate", "proxy-revalidate"] {
        check(&format!("{both}, {strict}"), "max-stale", 10, VALIDATE);
    }
    check("max-age=10", "stale-if-error=5", 14, UNLESS_ERROR);
    check("max-age=10", "stale-if-error=5", 15, VALIDATE);
}

#[test]
fn a_request_can_ask_for_more_and_put_up_with_less() {
    check("max-age=10", "max-age=5", 5, Verdict::Fresh);
    check("max-age=10", "max-age=5", 6, UNLESS_ERROR);
    check("max-age=10", "min-fresh=5", 5, Verdict::Fresh);
    check("max-age=10", "min-fresh=5", 6, UNLESS_ERROR);
    check("max-age=10", "max-stale=5", 15, Verdict::Stale);
    check("max-age=10", "max-stale=5", 16, VALIDATE);
    check("max-age=10", "max-stale", 1_000_000, Verdict::Stale);
    check("max-age=10", "max-stale=5, max-age=12", 12, Verdict::Stale);
    check("max-age=10", "max-stale=5, max-age=12", 13, VALIDATE);
    check("s-maxage=10", "max-stale=5", 10, VALIDATE);
    check("max-age=10, stale-while-revalidate=5", "max-age=0", 12, VALIDATE);
    check("max-age=10, stale-while-revalidate=5", "min-fresh=0", 12, VALIDATE);
}

proptest! {
    #[test]
    fn no_response_becomes_fresher_with_time(
        max_age in prop::option::of(0..50_u64),
        windows in (prop::option::of(0..50_u64), prop::option::of(0..50_u64)),
        request in (prop::option::of(0..50_u64), prop::option::of(0..50_u64), prop::option::of(0..50_u64)),
        age in 0..200_u64,
    ) {
        let directives = ResponseDirectives {
            max_age,
            stale_while_revalidate: windows.0,
            stale_if_error: windows.1,
            ..ResponseDirectives::default()
        };
        let stored = Stored { directives, ..stored(&[]) };
        let (max_age, min_fresh, max_stale) = request;
        let request = RequestDirectives { max_age, min_fresh, max_stale, ..RequestDirectives::default() };
        let rank = |age| match judge(&stored, &request, MADE + age) {
            Verdict::Fresh => 3,
            Verdict::Stale => 2,
            Verdict::Validate { if_error: true } => 1,
            Verdict::Validate { if_error: false } => 0,
        };
        let fresh = age < stored.lifetime();
        prop_assert_eq!(stored.is_fresh(MADE + age), fresh);
        prop_assert!(fresh || rank(age) < 3, "what is stale is not fresh");
        // A request may put up with staleness that it would not have of what is fresh but not for long.
        prop_assert!(fresh || rank(age) >= rank(age + 1), "at {}", age);
    }

    #[test]
    fn whatever_directives_are_sent_mean_something_bounded(value in "\\PC*") {
        let response = ResponseDirectives::parse([value.as_bytes()]);
        let request = RequestDirectives::parse([value.as_bytes()]);
        prop_assert!(response.max_age.is_none_or(|seconds| seconds <= 1 << 31));
        prop_assert!(request.min_fresh.is_none_or(|seconds| seconds <= 1 << 31));
        let stored = Stored { directives: response, ..stored(&[]) };
        let _ = judge(&stored, &request, MADE);
    }
}
