//! Which stored response a request selects.

use http::HeaderName;
use std::sync::Arc;

use httpcache::variant::{RequestFields, Variant, Vary};
use proptest::prelude::*;

use crate::fields;

fn names(text: &str) -> Vec<HeaderName> {
    match Vary::of(&fields(&format!("Vary: {text}"))) {
        Vary::Fields(names) => names,
        Vary::Anything => panic!("it names fields"),
    }
}

fn same(vary: &str, one: &str, other: &str) -> bool {
    let (one, other) = (fields(one), fields(other));
    let stored = Variant::of(&names(vary), &RequestFields { headers: &one, removed: &[] });
    stored.fits(&RequestFields { headers: &other, removed: &[] })
}

#[test]
fn what_vary_names_is_read_from_all_lines() {
    let read = Vary::of(&fields("Vary: Foo, bar\nVary: , baz ,foo"));
    assert_eq!(read, Vary::Fields(names("bar, baz, foo")));
    for text in ["*", "*, *", "foo, *", "fo o", "foo, \u{e9}", "a,b,c,d,e,f,g,h,i,j,k,l,m,n,o,p,q"] {
        assert_eq!(Vary::of(&fields(&format!("Vary: {text}"))), Vary::Anything, "{text}");
    }
}

#[test]
fn a_variant_fits_requests_with_the_same_values() {
    let table = [
        ("foo", "Foo: 1", "Foo: 1\nBar: 2", true),
        ("foo", "Foo: 1", "Foo: 2", false),
        ("foo", "Foo: 1", "", false),
        ("foo", "", "Foo:", false),
        ("foo, bar", "Foo: 1", "Foo: 1", true),
        ("foo, bar", "Foo: 1", "Foo: 1\nBar: 1", false),
        ("foo", "Foo: 1,2", "Foo: 1\nFoo:  2 ", true),
        ("foo", "Foo: a", "Foo: A", false),
        ("accept-language", "Accept-Language: en, de", "Accept-Language: EN,  de", true),
        // Servers commonly take the first of equal weight.
        ("accept-language", "Accept-Language: en, de", "Accept-Language: de, en", false),
        ("accept-language", "Accept-Language: de;q=0.9, en", "Accept-Language: en, de;q=0.9", true),
        ("accept-language", "Accept-Language: en;500", "Accept-Language: en;q=0.5", false),
        ("cookie", "Cookie: a=1; b=2", "Cookie: a=1\nCookie: b=2", true),
        ("cookie", "Cookie: a=1,b=2", "Cookie: a=1\nCookie: b=2", false),
        ("accept-language", "Accept-Language: en, de", "Accept-Language: en, de;q=0.5", false),
        ("accept-language", "Accept-Language: en;q=0.50", "Accept-Language: en;q=0.5", true),
        ("accept-language", "Accept-Language: en;q=5", "Accept-Language: en", false),
        ("accept-encoding", "Accept-Encoding: gzip, br", "Accept-Encoding: br, gzip", true),
    ];
    for (vary, one, other, expected) in table {
        assert_eq!(same(vary, one, other), expected, "{vary}: {one} / {other}");
    }
}

#[test]
fn a_field_that_is_not_passed_on_counts_as_absent() {
    let (sent, none) = (fields("Foo: 1"), fields(""));
    let removed = [HeaderName::from_static("foo")];
    let stored = Variant::of(&names("foo"), &RequestFields { headers: &sent, removed: &removed });
    assert!(stored.fits(&RequestFields { headers: &none, removed: &[] }));
    assert!(!stored.fits(&RequestFields { headers: &sent, removed: &[] }));
}

proptest! {
    #[test]
    fn a_request_always_selects_its_own_variant(value in "[ -~]{0,60}", language in "[ -~]{0,60}") {
        let request = fields(&format!("Foo:{value}\nAccept-Language:{language}"));
        let request = RequestFields { headers: &request, removed: &[] };
        prop_assert!(Variant::of(&names("foo, accept-language"), &request).fits(&request));
    }
}

#[test]
fn a_very_long_value_is_compared_as_it_is() {
    let long = |blank: &str| vec!["en"; 1000].join(&format!(",{blank}"));
    let (plain, spaced) = (long(""), long(" "));
    assert!(same(
        "accept-language",
        &format!("accept-language: {plain}"),
        &format!("accept-language: {plain}")
    ));
    assert!(!same(
        "accept-language",
        &format!("accept-language: {plain}"),
        &format!("accept-language: {spaced}")
    ));
}

#[test]
fn a_variant_on_a_disk_has_hashes_for_values_and_fits_the_same_requests() {
    let (one, other) = (fields("Cookie: session=hunter2"), fields("Cookie: session=hunter3"));
    let [one, other] = [&one, &other].map(|headers| RequestFields { headers, removed: &[] });
    let stored = Variant::of(&names("cookie, foo"), &one);
    let key = Arc::new([7; 32]);
    let hashed = stored.hashed(&key);
    assert!(hashed.fits(&one) && !hashed.fits(&other));
    assert_eq!(hashed.hashed(&key), hashed);
    assert!(!stored.hashed(&Arc::new([8; 32])).hashed(&key).fits(&one), "another key");
    assert!(!format!("{stored:?}").contains("hunter2"));
}
