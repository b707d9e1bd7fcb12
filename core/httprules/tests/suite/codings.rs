//! Negotiation against the standard's words, taken one by one.

use httprules::negotiate::{IDENTITY, choose};
use proptest::prelude::*;

const NAMES: [&str; 6] = ["gzip", "br", "zstd", IDENTITY, "*", "compress"];

/// The weight a list gives a coding: its own, else that of `*`, else none; in thousandths.
fn weight(list: &[(&str, u16)], coding: &str) -> Option<u16> {
    let of = |name: &str| list.iter().rev().find(|(listed, _)| *listed == name).map(|(_, weight)| *weight);
    of(coding).or(of("*"))
}

fn text(list: &[(&str, u16)]) -> String {
    let element = |(name, weight): &(&str, u16)| match weight {
        1000 => (*name).to_owned(),
        weight => format!("{name};q=0.{weight:03}"),
    };
    list.iter().map(element).collect::<Vec<_>>().join(", ")
}

fn lists() -> impl Strategy<Value = Vec<(&'static str, u16)>> {
    let weights = prop_oneof![2 => Just(0), 2 => Just(1000), 1 => 1..1000_u16];
    prop::collection::vec((prop::sample::select(&NAMES[..]), weights), 0..6)
}

proptest! {
    #[test]
    fn no_choice_is_one_that_the_client_refuses_or_wants_less(
        list in lists(),
        offered in prop::sample::subsequence(vec!["br", "zstd", "gzip", IDENTITY], 0..=4),
    ) {
        let value = text(&list);
        let wanted = |coding: &str| match weight(&list, coding) {
            None => coding == IDENTITY,
            Some(weight) => weight > 0,
        };
        match choose([value.as_bytes()], &offered) {
            None => prop_assert!(!offered.iter().any(|coding| wanted(coding)), "{}", value),
            Some(chosen) => {
                prop_assert!(wanted(chosen), "{} of {}", chosen, value);
                for other in offered.iter().filter(|coding| wanted(coding)) {
                    prop_assert!(weight(&list, chosen) >= weight(&list, other), "{} of {}", chosen, value);
                }
                let equal = |coding: &&&str| wanted(coding) && weight(&list, coding) == weight(&list, chosen);
                prop_assert_eq!(offered.iter().find(equal), Some(&chosen));
            }
        }
    }

    #[test]
    fn blanks_and_letters_do_not_matter(list in lists()) {
        let value = text(&list);
        let odd = value.to_uppercase().replace(", ", " ,,\t").replace(';', " ; ");
        let offered = ["br", "zstd", "gzip", IDENTITY];
        prop_assert_eq!(choose([value.as_bytes()], &offered), choose([odd.as_bytes()], &offered));
    }

    #[test]
    fn whatever_is_sent_only_what_is_offered_is_chosen(value in "\\PC*") {
        let chosen = choose([value.as_bytes()], &["gzip", IDENTITY]);
        prop_assert!(matches!(chosen, None | Some("gzip" | IDENTITY)));
    }
}
