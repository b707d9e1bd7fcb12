//! `docs/SECURITY.md`: every row of the table of defences names the tests that hold it, and these tests exist.

use crate::{Finding, Tree};

const PAGE: &str = "docs/SECURITY.md";
const HEADING: &str = "## What is defended against, and how";

/// Rows without a test, and tests that do not exist.
///
/// The third column of the table names them in code spans: a file (`adversary/slots.rs`), or functions of a file
/// (`adversary/slots.rs: a_test, another_one, a_prefix…`). A file is named by the end of its path.
#[must_use]
pub fn names_tests_that_exist(tree: &Tree) -> Vec<Finding> {
    let page = tree.text(PAGE).unwrap_or_default();
    let section = page.lines().enumerate().skip_while(|(_, line)| line.trim_end() != HEADING).skip(1);
    let section = section.take_while(|(_, line)| !line.starts_with("## "));
    let rows: Vec<_> = section.filter(|(_, line)| line.starts_with('|')).skip(2).collect();
    if rows.is_empty() {
        return vec![Finding::new(PAGE, 1, format!("has no table in \"{HEADING}\""))];
    }
    let complaints = rows.iter().flat_map(|(at, row)| row_complaints(tree, row).map(move |what| (at, what)));
    complaints.map(|(at, what)| Finding::new(PAGE, at + 1, what)).collect()
}

fn row_complaints(tree: &Tree, row: &str) -> impl Iterator<Item = String> {
    let cells: Vec<&str> = row.trim().trim_matches('|').split(" | ").collect();
    let spans: Vec<&str> = match cells[..] {
        [_, _, held_by] => held_by.split('`').skip(1).step_by(2).collect(),
        _ => Vec::new(),
    };
    let missing = spans.is_empty().then(|| "the row does not name a test in its third column".to_owned());
    let wrong: Vec<String> = spans.into_iter().flat_map(|span| span_complaints(tree, span)).collect();
    missing.into_iter().chain(wrong)
}

fn span_complaints(tree: &Tree, span: &str) -> Vec<String> {
    let (file, functions) = span.split_once(": ").unwrap_or((span, ""));
    let end = format!("/{file}");
    let mut files = tree.ending(".rs").filter(|(path, _)| path.ends_with(&end) || *path == file);
    let (Some((_, text)), None) = (files.next(), files.next()) else {
        return vec![format!("`{file}` is not the end of the path of exactly one Rust file")];
    };
    let tests = tests_in(text);
    if functions.is_empty() && tests.is_empty() {
        return vec![format!("`{file}` has no test")];
    }
    let exists = |name: &str| match name.strip_suffix('…') {
        Some(prefix) => tests.iter().any(|test| test.starts_with(prefix)),
        None => tests.contains(&name),
    };
    let unknown = functions.split(", ").filter(|name| !name.is_empty() && !exists(name));
    unknown.map(|name| format!("`{file}` has no test `{name}`")).collect()
}

/// The names of the functions behind an attribute that makes them tests.
fn tests_in(text: &str) -> Vec<&str> {
    let (mut is_test, mut found) = (false, Vec::new());
    for line in text.lines().map(str::trim_start) {
        is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        if let Some((_, rest)) = line.split_once("fn ").filter(|_| is_test && !line.starts_with("//")) {
            found.extend(rest.split('(').next());
            is_test = false;
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn a_row_without_a_test_and_a_test_that_does_not_exist_are_found() {
        let rows = [
            "| floods | limits | `adversary/a.rs: good, asyn…`, `c/src/b.rs` |",
            "| floods | limits `adversary/a.rs` |",
            "| floods | limits | by hand |",
            "| floods | limits | `adversary/gone.rs` |",
            "| floods | limits | `adversary/a.rs: good, gone` |",
            "| floods | limits | `adversary/a.rs: helper` |",
            "| floods | limits | `a.rs` |",
            "| floods | limits | `c/src/none.rs` |",
        ];
        let page = format!(
            "# S\n\n{HEADING}\n\n| threat | defence | held by |\n|---|---|---|\n{}\n\n## Next\n| x | y |\n",
            rows.join("\n")
        );
        let tests = "#[test]\nfn good() {\n    helper();\n}\n\n#[tokio::test(start_paused = true)]\n/// Words.\n\
                     async fn asynchronous() {}\n\nfn helper() {}\n";
        let tree = Tree::of(&[
            (PAGE, &page),
            ("tests/adversary/a.rs", tests),
            ("core/c/src/a.rs", tests),
            ("core/c/src/b.rs", tests),
            ("core/c/src/none.rs", "fn helper() {}\n"),
        ]);
        let lines: Vec<usize> = (8..15).collect();
        assert_eq!(
            places(&names_tests_that_exist(&tree)),
            lines.iter().map(|at| (PAGE, *at)).collect::<Vec<_>>()
        );
        assert_eq!(places(&names_tests_that_exist(&Tree::of(&[(PAGE, "# S\n")]))), [(PAGE, 1)]);
    }
}
