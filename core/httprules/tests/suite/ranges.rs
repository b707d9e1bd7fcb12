//! Ranges against a model that counts bytes one by one.

use std::{collections::BTreeSet, ops::Range};

use httprules::range::{MAX_RANGES, Verdict, judge};
use proptest::prelude::*;

/// One range of a set, as its writer means it.
#[derive(Clone, Copy, Debug)]
enum Spec {
    FromTo(u64, u64),
    From(u64),
    Last(u64),
}

impl Spec {
    fn text(self) -> String {
        match self {
            Self::FromTo(first, last) => format!("{first}-{last}"),
            Self::From(first) => format!("{first}-"),
            Self::Last(count) => format!("-{count}"),
        }
    }

    /// Which bytes of `len` it means.
    fn positions(self, len: u64) -> Range<u64> {
        match self {
            Self::FromTo(first, last) => first..len.min(last + 1),
            Self::From(first) => first..len,
            Self::Last(count) => len.saturating_sub(count)..len,
        }
    }
}

fn specs() -> impl Strategy<Value = Spec> {
    prop_oneof![
        3 => (0..24_u64, 0..24_u64).prop_map(|(first, more)| Spec::FromTo(first, first + more)),
        1 => (0..24_u64, 0..24_u64).prop_map(|(first, last)| Spec::FromTo(first, last)),
        2 => (0..24_u64).prop_map(Spec::From),
        2 => (0..24_u64).prop_map(Spec::Last),
    ]
}

/// What the rules say, by marking each byte that is asked for.
fn model(specs: &[Spec], len: u64) -> Verdict {
    let backwards = |spec: &Spec| matches!(spec, Spec::FromTo(first, last) if first > last);
    if specs.iter().take(MAX_RANGES).any(backwards) {
        return Verdict::Unsatisfiable;
    }
    if specs.len() > MAX_RANGES {
        return Verdict::Whole;
    }
    let asked: BTreeSet<u64> = specs.iter().flat_map(|spec| spec.positions(len)).collect();
    let last_of_nothing = len == 0 && specs.iter().any(|spec| matches!(spec, Spec::Last(1..)));
    match (asked.first(), asked.last()) {
        (Some(first), Some(last)) if last - first + 1 == asked.len() as u64 => {
            Verdict::Part(*first..last + 1)
        }
        (None, None) if last_of_nothing => Verdict::Whole,
        (None, None) => Verdict::Unsatisfiable,
        _ => Verdict::Whole,
    }
}

proptest! {
    #[test]
    fn a_set_of_ranges_is_judged_as_by_counting(
        specs in prop::collection::vec(specs(), 1..20),
        len in 0..24_u64,
        blank in prop::sample::select(vec!["", " ", "\t ", " , ,"]),
    ) {
        let texts: Vec<_> = specs.iter().map(|spec| spec.text()).collect();
        let value = format!("bytes={}", texts.join(&format!("{blank},{blank}")));
        prop_assert_eq!(judge(value.as_bytes(), len), model(&specs, len), "{} of {}", value, len);
    }

    #[test]
    fn whatever_is_sent_no_byte_is_given_that_is_not_there(
        value in prop_oneof!["\\PC*", "bytes=[0-9, -]{0,40}", "[a-z]{0,6}=[0-9,-]{0,10}"],
        len in prop_oneof![0..30_u64, any::<u64>()],
    ) {
        if let Verdict::Part(part) = judge(value.as_bytes(), len) {
            prop_assert!(part.start < part.end && part.end <= len, "{:?} of {}", part, len);
        }
    }
}
