//! "Did you mean": the nearest of the names that are allowed.

/// How much of a name must be written for the rest to be guessed.
const MIN_STEM: usize = 3;

/// The candidate nearest to what was written, if it is near enough to be what was meant.
pub(crate) fn nearest<'c>(written: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let written = written.to_lowercase();
    let mut candidates: Vec<&str> = candidates.into_iter().collect();
    candidates
        .sort_by_cached_key(|candidate| strsim::damerau_levenshtein(&written, &candidate.to_lowercase()));
    candidates.into_iter().find(|candidate| {
        let candidate = candidate.to_lowercase();
        // One slip in three letters is a typo; more is another word, unless one of the two is only cut short.
        let slips = written.chars().count().max(candidate.chars().count()).div_ceil(3);
        let cut_short = written.len() >= MIN_STEM && candidate.starts_with(&written);
        strsim::damerau_levenshtein(&written, &candidate) <= slips || cut_short
    })
}

/// Names as a list in a sentence: "`a`, `b`, `c`".
pub(crate) fn listed<'c>(names: impl IntoIterator<Item = &'c str>) -> String {
    let quoted: Vec<String> = names.into_iter().map(|name| format!("`{name}`")).collect();
    quoted.join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slip_finds_the_name_and_another_word_does_not() {
        let names = ["max_conns", "listen", "limits"];
        assert_eq!(nearest("max_cons", names), Some("max_conns"));
        assert_eq!(nearest("lisetn", names), Some("listen"));
        assert_eq!(nearest("MAX_CONNS", names), Some("max_conns"));
        assert_eq!(nearest("max", names), Some("max_conns"));
        assert_eq!(nearest("ma", names), None);
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("x", []), None);
    }
}
