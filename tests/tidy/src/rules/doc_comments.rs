//! Doc comments are sentences that help in an editor's hover.

use crate::{Finding, Tree};

/// Words that begin a question in place of a description, as in `Why.` or `How often.`
const QUESTIONS: [&str; 9] = ["How", "What", "When", "Where", "Which", "Who", "Whom", "Whose", "Why"];
/// The fewest words of a description.
const FEWEST: usize = 3;
/// The fewest words of a description that begins with one of [`QUESTIONS`].
const FEWEST_OF_A_QUESTION: usize = 5;

/// No doc comment outside of tests is a fragment such as `Why.`, `Its name.` or `What it says.`
#[must_use]
pub fn are_sentences(tree: &Tree) -> Vec<Finding> {
    let sources = tree.ending(".rs").filter(|(path, _)| !is_test(path));
    sources.flat_map(|(path, text)| fragments(path, text)).collect()
}

fn is_test(path: &str) -> bool {
    path.starts_with("tests/") || path.contains("/tests/") || path.ends_with("/tests.rs")
}

fn fragments(path: &str, text: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    let mut block: Option<(usize, String)> = None;
    // The empty line at the end closes the last block.
    for (at, line) in text.lines().chain([""]).enumerate() {
        if let Some(words) = line.trim_start().strip_prefix("///") {
            let (_, doc) = block.get_or_insert_with(|| (at + 1, String::new()));
            doc.push_str(words);
            doc.push(' ');
        } else if let Some((first, doc)) = block.take()
            && is_fragment(&doc)
        {
            let what = format!("`{}` is a fragment: write a sentence that helps in a hover", doc.trim());
            found.push(Finding::new(path, first, what));
        }
    }
    found
}

fn is_fragment(doc: &str) -> bool {
    let mut words = doc.split_whitespace();
    let first = words.next().unwrap_or_default().trim_end_matches(['.', ',', ':', ';']);
    let fewest = if QUESTIONS.contains(&first) { FEWEST_OF_A_QUESTION } else { FEWEST };
    1 + words.count() < fewest
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn fragments_are_found_at_the_first_line_of_their_comment() {
        let bad = ["Why.", "Its name.", "The epoch.", "How often.", "What it says.", "Who asks, and when."];
        for doc in bad {
            let text = format!("struct A {{\n    /// {doc}\n    b: u8,\n}}\n/// {doc}");
            let tree = Tree::of(&[("core/a/src/lib.rs", &text)]);
            assert_eq!(places(&are_sentences(&tree)), [("core/a/src/lib.rs", 2), ("core/a/src/lib.rs", 5)]);
        }
    }

    #[test]
    fn sentences_and_tests_are_left_alone() {
        let good = "/// The queue is full.\n/// Why.\nfn a() {}\n/// How long a request may wait.\nfn b() {}\n// Why.\n";
        let tree = Tree::of(&[
            ("core/a/src/lib.rs", good),
            ("core/a/src/lib/tests.rs", "/// Why.\n"),
            ("svc/a/tests/b.rs", "/// Why.\n"),
            ("tests/a/src/lib.rs", "/// Why.\n"),
        ]);
        assert_eq!(are_sentences(&tree), []);
    }
}
