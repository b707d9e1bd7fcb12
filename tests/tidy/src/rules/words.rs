//! Words that must not leave the machine they were written on.

use crate::{Finding, Tree};

/// Paths and hosts that mean nothing to anybody else. Split, because this file is searched as well.
const FORBIDDEN: [&str; 7] = [
    concat!("/wo", "rk/"),
    concat!("/fa", "rm/"),
    concat!("../sha", "red"),
    concat!("crates", ".io"),
    concat!("pypi", ".org"),
    concat!("python", "hosted.org"),
    concat!("npmjs", ".org"),
];

/// No text file names a private path or a registry's host. Lock files do, and are cargo's to write.
#[must_use]
pub fn are_fit_to_print(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (path, text) in tree.texts().filter(|(path, _)| !path.ends_with("Cargo.lock")) {
        for word in FORBIDDEN {
            let found = text.match_indices(word);
            findings.extend(
                found.map(|(at, _)| Finding::at(path, text, at, format!("`{word}` must not be printed"))),
            );
        }
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn each_forbidden_word_is_found_in_any_text_file() {
        for word in FORBIDDEN {
            let text = format!("first\nsecond {word}x");
            let tree = Tree::of(&[("notes.txt", &text), ("fuzz/Cargo.lock", &text)]);
            assert_eq!(places(&are_fit_to_print(&tree)), [("notes.txt", 2)], "{word}");
        }
    }

    #[test]
    fn words_that_contain_only_half_of_it_are_left_alone() {
        let tree = Tree::of(&[("a.md", "/workers/1, a workshop, shared, an io error, ../share")]);
        assert_eq!(are_fit_to_print(&tree), []);
    }
}
