//! Which directives count.

use httpcache::control::Control;

use crate::fields;

#[test]
fn a_targeted_field_counts_instead_of_cache_control() {
    let table = [
        ("Cache-Control: max-age=1", Some(1), false),
        ("Cache-Control: max-age=1\nCDN-Cache-Control: max-age=60", Some(60), true),
        ("CDN-Cache-Control: max-age=60\nOmnigate-Cache-Control: max-age=5", Some(5), true),
        ("Cache-Control: max-age=9\nCDN-Cache-Control: public", None, true),
        ("Cache-Control: max-age=9\nCDN-Cache-Control: max-age=99999999999", Some(1 << 31), true),
        ("Cache-Control: max-age=9\nCDN-Cache-Control: max-age=-5", Some(0), true),
        ("Cache-Control: max-age=9\nCDN-Cache-Control: foo\nCDN-Cache-Control: max-age=7", Some(7), true),
    ];
    for (text, max_age, is_targeted) in table {
        let control = Control::of(&fields(text));
        assert_eq!((control.directives.max_age, control.is_targeted), (max_age, is_targeted), "{text}");
    }
}

#[test]
fn a_targeted_field_that_is_no_dictionary_is_ignored() {
    for flawed in ["", "max-age =60", "max-age=60, &&&&", "Max-Age=60", "\"x\""] {
        let control = Control::of(&fields(&format!("Cache-Control: no-store\nCDN-Cache-Control: {flawed}")));
        assert!(control.directives.no_store && !control.is_targeted, "{flawed}");
    }
    let wrong_type = Control::of(&fields("Cache-Control: no-store\nCDN-Cache-Control: max-age=\"60\""));
    assert_eq!(wrong_type.directives.max_age, None);
}

#[test]
fn a_targeted_field_that_cannot_be_read_and_names_a_restriction_is_obeyed() {
    for flawed in ["private;", "No-Store", "max-age=60, &&&&, no-cache"] {
        let control =
            Control::of(&fields(&format!("Cache-Control: max-age=60\nCDN-Cache-Control: {flawed}")));
        assert!(control.directives.no_store, "{flawed}");
    }
}

#[test]
fn directives_that_name_fields_concern_only_those() {
    let control =
        Control::of(&fields("Cache-Control: max-age=60, no-cache=\"a, b\", private=\"set-cookie\""));
    assert!(!control.directives.no_cache && !control.directives.private);
    assert_eq!(control.unstored_fields, ["a", "b", "set-cookie"]);
    for text in ["no-cache", "no-cache=\"a\", no-cache", "no-cache=\"\"", "no-cache=\"a b\"", "no-cache="] {
        let control = Control::of(&fields(&format!("Cache-Control: {text}")));
        assert!(control.directives.no_cache, "{text}");
    }
    let many = (0..33).map(|number| format!("f{number}")).collect::<Vec<_>>().join(",");
    let control = Control::of(&fields(&format!("Cache-Control: private=\"{many}\"")));
    assert!(control.directives.private);
}

#[test]
fn a_directive_that_names_what_describes_the_content_concerns_the_whole_response() {
    for name in ["Content-Encoding", "content-type", "content-range", "Vary", "a, content-language"] {
        let control = Control::of(&fields(&format!("Cache-Control: max-age=60, no-cache=\"{name}\"")));
        assert!(control.directives.no_cache && control.unstored_fields.is_empty(), "{name}");
        let control = Control::of(&fields(&format!("Cache-Control: max-age=60, private=\"{name}\"")));
        assert!(control.directives.private && control.unstored_fields.is_empty(), "{name}");
    }
}
