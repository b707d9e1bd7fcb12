//! `docs/logging.md` lists the fields of the log: each that is logged, and none that is not.

use crate::{Finding, Tree, rust_code::code_only};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "docs/logging.md";
/// The part of the page about fields of events, and that about the access log.
const EVENTS: &str = "### Fields of events";
const ACCESS: &str = "## The access log";
/// Where the access log's fields are declared.
const ACCESS_LINE: &str = "svc/svc-gateway/src/access_log/line.rs";

/// Fields of events that the page lacks, and those that it makes up.
#[must_use]
pub fn of_events_are_listed(tree: &Tree) -> Vec<Finding> {
    let logged = logged(tree);
    let listed = listed(tree.text(PAGE).unwrap_or_default(), EVENTS);
    compare(&listed, &logged)
}

/// The same for the access log, in the order in which a line has them.
#[must_use]
pub fn of_the_access_log_are_listed(tree: &Tree) -> Vec<Finding> {
    let source = tree.text(ACCESS_LINE).unwrap_or_default();
    let body =
        source.split_once("struct Json<'a> {").map_or("", |(_, rest)| rest.split('}').next().unwrap_or(""));
    let field = |line: &str| Some(line.trim().split_once(':')?.0.to_owned());
    let written = body.lines().filter_map(field).map(|name| (name, (ACCESS_LINE.to_owned(), 1))).collect();
    compare(&listed(tree.text(PAGE).unwrap_or_default(), ACCESS), &written)
}

fn compare(listed: &BTreeSet<String>, used: &BTreeMap<String, (String, usize)>) -> Vec<Finding> {
    let missing = used.iter().filter(|(name, _)| !listed.contains(*name));
    let missing = missing.map(|(name, (path, line))| {
        Finding::new(path, *line, format!("`{name}` is not explained in {PAGE}"))
    });
    let made_up = listed.iter().filter(|name| !used.contains_key(*name));
    missing.chain(made_up.map(|name| Finding::new(PAGE, 1, format!("nobody logs `{name}`")))).collect()
}

/// What stands in backticks in the first cells of a section's tables.
fn listed(page: &str, heading: &str) -> BTreeSet<String> {
    let section = page.split_once(&format!("\n{heading}\n")).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    let cells = section.lines().filter_map(|line| line.strip_prefix("| ")?.split(" | ").next());
    cells.flat_map(|cell| cell.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// The fields of all events, and one place where each is logged.
fn logged(tree: &Tree) -> BTreeMap<String, (String, usize)> {
    let mut fields = BTreeMap::new();
    let ours =
        |path: &str| ["core/", "rt/", "store/", "svc/", "bin/"].iter().any(|layer| path.starts_with(layer));
    for (path, text) in tree.ending(".rs").filter(|(path, _)| ours(path) && !path.contains("/tests")) {
        let code = code_only(text);
        for level in ["trace", "debug", "info", "warn", "error"] {
            let opening = format!("tracing::{level}!(");
            for (at, _) in code.match_indices(&opening) {
                let line = 1 + code[..at].matches('\n').count();
                for field in fields_of(&code[at + opening.len()..]) {
                    fields.entry(field).or_insert_with(|| (path.to_owned(), line));
                }
            }
        }
    }
    fields
}

/// The fields that stand before the message, of which nothing is left: literals are blanked.
fn fields_of(code: &str) -> Vec<String> {
    let mut fields = Vec::new();
    let is_target = |argument: &&str| argument.trim_start().starts_with("target:");
    for argument in arguments(code).into_iter().filter(|argument| !is_target(argument)) {
        let name = argument.split('=').next().unwrap_or_default().trim().trim_start_matches(['%', '?']);
        if name.is_empty() {
            break;
        }
        fields.push(name.to_owned());
    }
    fields
}

/// What stands between the commas of a call whose parenthesis is open.
fn arguments(code: &str) -> Vec<&str> {
    let (mut found, mut depth, mut start) = (Vec::new(), 0_usize, 0);
    for (at, byte) in code.bytes().enumerate() {
        match byte {
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' if depth == 0 => {
                found.push(&code[start..at]);
                return found;
            }
            b')' | b']' | b'}' => depth -= 1,
            b',' if depth == 0 => {
                found.push(&code[start..at]);
                start = at + 1;
            }
            _ => {}
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    const SOURCE: &str = "//! x\nfn f() {\n    tracing::warn!(task, %fault, wait_ms = wait.get(1, 2), \"gone: {a}\", a = 1);\n}\n";

    fn tree(table: &str) -> Tree {
        let page = format!("# Logs\n\n### Fields of events\n\n{table}\n## Next\n| `other` | x |\n");
        Tree::of(&[
            ("rt/a/src/lib.rs", SOURCE),
            ("rt/a/tests/t.rs", "tracing::info!(only_in_tests, \"x\");"),
            (PAGE, &page),
        ])
    }

    #[test]
    fn a_page_with_every_field_is_fine() {
        assert_eq!(of_events_are_listed(&tree("| `task`, `fault` | x |\n| `wait_ms` | y |\n")), []);
    }

    #[test]
    fn a_field_that_is_missing_and_one_that_is_made_up_are_found() {
        let findings = of_events_are_listed(&tree("| `task`, `made_up` | x |\n| `wait_ms` | y |\n"));
        assert_eq!(places(&findings), [("rt/a/src/lib.rs", 3), (PAGE, 1)]);
    }

    #[test]
    fn the_access_log_is_compared_with_its_line() {
        let source = "struct Json<'a> {\n    time: String,\n    path: &'a str,\n}\n";
        let page = "\n## The access log\n\n| `time` | x |\n| `gone` | x |\n";
        let tree = Tree::of(&[(ACCESS_LINE, source), (PAGE, page)]);
        let findings = of_the_access_log_are_listed(&tree);
        assert_eq!(places(&findings), [(ACCESS_LINE, 1), (PAGE, 1)]);
    }
}
