//! Few patterns that cover many, for lists of bounded length.

use std::collections::{BTreeMap, BTreeSet};

use crate::Pattern;

/// At most `most` patterns that cover all of these: the same ones if they are few enough, without those that others cover.
///
/// If there are too many, those that begin with the same tokens are replaced by one that ends in `>`. As many tokens are
/// kept as possible, and at least the first: unrelated patterns are never replaced by `>`, which would mean every topic. So
/// if more than `most` of them begin differently, the result is longer than `most`.
#[must_use]
pub fn cover<'a>(patterns: impl IntoIterator<Item = &'a str>, most: usize) -> Vec<String> {
    let all: BTreeSet<&str> = patterns.into_iter().collect();
    if all.contains(">") {
        return vec![">".to_owned()];
    }
    if all.len() <= most {
        return without_covered(all.into_iter().map(str::to_owned).collect());
    }
    let longest = all.iter().map(|text| text.split('.').count()).max().unwrap_or(1);
    // The fewer tokens are kept, the fewer patterns are left: the most tokens with which they fit.
    let (mut fits, mut too_many) = (1, longest);
    while too_many - fits > 1 {
        let middle = fits.midpoint(too_many);
        if cut_all(&all, middle).len() <= most {
            fits = middle;
        } else {
            too_many = middle;
        }
    }
    without_covered(merge_largest(&all, fits, most))
}

/// All patterns, each cut to its first tokens.
fn cut_all(all: &BTreeSet<&str>, tokens: usize) -> BTreeSet<String> {
    all.iter().map(|text| cut(text, tokens)).collect()
}

/// The first `tokens` tokens of a pattern and `>` for the others; the pattern itself if it has no more of them.
fn cut(text: &str, tokens: usize) -> String {
    match text.match_indices('.').nth(tokens - 1) {
        Some((at, _)) => format!("{}.>", &text[..at]),
        None => text.to_owned(),
    }
}

/// Cuts patterns to `tokens` tokens where most of them begin alike, until there are few enough.
fn merge_largest(all: &BTreeSet<&str>, tokens: usize, most: usize) -> Vec<String> {
    let mut groups = BTreeMap::<String, Vec<&str>>::new();
    for pattern in all {
        groups.entry(cut(pattern, tokens)).or_default().push(pattern);
    }
    let mut groups: Vec<_> = groups.into_iter().collect();
    groups.sort_by_key(|(_, group)| std::cmp::Reverse(group.len()));
    let (mut left, mut merged) = (all.len(), BTreeSet::new());
    for (wide, group) in groups {
        if left > most && group.len() > 1 {
            left -= group.len() - 1;
            merged.insert(wide);
        } else {
            merged.extend(group.into_iter().map(str::to_owned));
        }
    }
    merged.into_iter().collect()
}

/// Leaves out patterns that others of them cover. Compares each with each, if there are few.
fn without_covered(patterns: Vec<String>) -> Vec<String> {
    const FEW: usize = 256;
    if patterns.len() > FEW {
        return patterns;
    }
    let read = |text| Pattern::new(text).ok();
    let is_covered = |at: usize| {
        let others = patterns.iter().enumerate().filter(|(other, _)| *other != at);
        others.filter_map(|(_, other)| read(other)).any(|other| {
            // No two are the same, so that no two cover each other.
            read(&patterns[at]).is_some_and(|pattern| other.covers(pattern))
        })
    };
    let kept: Vec<bool> = (0..patterns.len()).map(|at| !is_covered(at)).collect();
    patterns.into_iter().zip(kept).filter_map(|(pattern, is_kept)| is_kept.then_some(pattern)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_patterns_stay_as_they_are_and_covered_ones_are_left_out() {
        assert_eq!(cover(["a.*", "b.>", "a.*"], 2), ["a.*", "b.>"]);
        assert_eq!(cover(["a.*", "a.>", "b.*.c"], 3), ["a.>", "b.*.c"]);
        assert_eq!(cover(["a.*", ">", "b.*"], 1), [">"]);
        assert_eq!(cover([], 3), [""; 0]);
    }

    #[test]
    fn too_many_patterns_are_merged_where_most_of_them_begin_alike() {
        let rooms: Vec<String> = (0..5).map(|room| format!("chat.room.{room}.*")).collect();
        let users: Vec<String> = (0..3).map(|user| format!("chat.user.{user}.*")).collect();
        let all = || rooms.iter().chain(&users).map(String::as_str).chain(["news.*"]);
        assert_eq!(cover(all(), 9).len(), 9);
        let eight = cover(all(), 8);
        assert_eq!(eight.len(), 5, "{eight:?}");
        assert!(eight.contains(&"chat.room.>".to_owned()) && eight.contains(&"chat.user.2.*".to_owned()));
        assert_eq!(cover(all(), 3), ["chat.room.>", "chat.user.>", "news.*"]);
        assert_eq!(cover(all(), 2), ["chat.>", "news.*"]);
        assert_eq!(cover(all(), 1), ["chat.>", "news.*"], "never everything");
    }
}
