//! Patterns, lists and filters against what they are said to mean, on topics of few tokens so that all cases meet.
#![expect(clippy::unwrap_used, reason = "tests")]

use proptest::{collection::vec, prelude::*, sample::select};
use topics::{FILTER_MAX, Filter, LIST_MAX, Pattern, PatternList};

/// Topics of one to three of the tokens that patterns are made of, and one that no pattern names.
fn topics() -> Vec<String> {
    let tokens = ["a", "b", "", "x"];
    let mut all: Vec<Vec<&str>> = tokens.iter().map(|token| vec![*token]).collect();
    for _ in 0..2 {
        let longer: Vec<Vec<&str>> =
            all.iter().flat_map(|head| tokens.map(|token| [head.as_slice(), &[token]].concat())).collect();
        all.extend(longer);
    }
    all.iter().map(|tokens| tokens.join(".")).filter(|topic| !topic.is_empty()).collect()
}

fn pattern() -> impl Strategy<Value = String> {
    (vec(select(&["a", "b", "*", ""][..]), 0..3), select(&["a", "b", "*", ">"][..]))
        .prop_map(|(head, last)| head.into_iter().chain([last]).collect::<Vec<_>>().join("."))
}

/// The rule in words: a star for one token, an angle for one or more.
fn means(pattern: &[&str], topic: &[&str]) -> bool {
    match (pattern, topic) {
        ([], []) => true,
        ([">"], rest) => !rest.is_empty(),
        (["*", pattern @ ..], [_, topic @ ..]) => means(pattern, topic),
        ([one, pattern @ ..], [other, topic @ ..]) => one == other && means(pattern, topic),
        _ => false,
    }
}

fn means_text(pattern: &str, topic: &str) -> bool {
    means(&pattern.split('.').collect::<Vec<_>>(), &topic.split('.').collect::<Vec<_>>())
}

proptest! {
    #[test]
    fn a_pattern_matches_what_the_rule_says(text in pattern()) {
        let pattern = Pattern::new(&text).unwrap();
        for topic in topics() {
            prop_assert_eq!(pattern.matches(&topic), means_text(&text, &topic), "{} {}", text, topic);
        }
    }

    #[test]
    fn what_is_covered_never_means_more(wide in pattern(), narrow in pattern()) {
        let (wide, narrow) = (Pattern::new(&wide).unwrap(), Pattern::new(&narrow).unwrap());
        let all = topics();
        let is_within = all.iter().all(|topic| !narrow.matches(topic) || wide.matches(topic));
        // With a token that neither names, and one more than either has, all differences show.
        let longer: Vec<String> = all.iter().map(|topic| format!("{topic}.x")).collect();
        let is_within = is_within && longer.iter().all(|topic| !narrow.matches(topic) || wide.matches(topic));
        prop_assert_eq!(wide.covers(narrow), is_within, "{} {}", wide, narrow);
    }

    #[test]
    fn a_filter_means_what_its_patterns_mean(texts in vec(pattern(), 1..=FILTER_MAX)) {
        let filter = Filter::new(texts.iter().map(String::as_str)).unwrap();
        for topic in topics() {
            let any = texts.iter().any(|text| means_text(text, &topic));
            prop_assert_eq!(filter.matches(&topic), any, "{:?} {}", texts, topic);
        }
        let again = Filter::new(filter.patterns().map(Pattern::as_str)).unwrap();
        prop_assert_eq!(&again, &filter);
        prop_assert_eq!(filter.single().is_some(), filter.patterns().count() == 1 && !filter.is_wild());
    }

    #[test]
    fn merged_patterns_cover_all_of_them_and_fit_if_they_begin_alike(
        texts in vec(pattern(), 1..40),
        most in 1_usize..20,
    ) {
        let merged = topics::cover(texts.iter().map(String::as_str), most);
        for text in &texts {
            let covers = |wide: &String| Pattern::new(wide).unwrap().covers(Pattern::new(text).unwrap());
            prop_assert!(merged.iter().any(covers), "{} in {:?}", text, merged);
        }
        // Names cannot be merged, nor what begins differently: of these tokens there are fewer than eight such.
        prop_assert!(merged.len() <= most.max(8), "{:?}", merged);
        let is_wider = merged.iter().any(|wide| wide == ">");
        prop_assert_eq!(is_wider, texts.iter().any(|text| text == ">"), "never everything by itself");
        let again = topics::cover(merged.iter().map(String::as_str), merged.len());
        prop_assert_eq!(again, merged);
    }

    #[test]
    fn a_list_covers_what_one_of_it_covers(texts in vec(pattern(), 1..=LIST_MAX), asked in pattern()) {
        let text = texts.join(",");
        let list = PatternList::new(&text).unwrap();
        let asked = Pattern::new(&asked).unwrap();
        let any = texts.iter().any(|text| Pattern::new(text).unwrap().covers(asked));
        prop_assert_eq!(list.covers(asked), any);
        prop_assert_eq!(list.iter().map(Pattern::as_str).collect::<Vec<_>>(), texts);
    }

    #[test]
    fn no_text_is_taken_that_reads_differently(text in "\\PC{0,140}") {
        if let Ok(pattern) = Pattern::new(&text) {
            prop_assert_eq!(pattern.as_str(), &text);
            prop_assert!(text.len() <= topics::PATTERN_MAX && !text.contains(','));
        }
    }
}

#[test]
fn lists_and_filters_are_bounded() {
    let names: Vec<String> = (0..=FILTER_MAX).map(|n| format!("t{n}")).collect();
    assert!(Filter::new(names[1..].iter().map(String::as_str)).is_ok());
    assert!(Filter::new(names.iter().map(String::as_str)).is_err());
    assert!(Filter::new([]).is_err() && Filter::new(["a", "A"]).is_err());
    assert!(PatternList::new(&names[1..].join(",")).is_ok());
    assert!(PatternList::new(&names.join(",")).is_err());
    assert!(PatternList::new("").is_err() && PatternList::new("a,").is_err());
}
