//! Files and folders that the pages name exist, so that whoever follows a page through the code gets there.

use crate::{Finding, Tree};

/// The folders that a path from the root begins with.
const ROOTS: [&str; 10] =
    ["core/", "rt/", "store/", "svc/", "bin/", "tests/", "docs/", "bench/", "tools/", "deploy/"];
/// The page whose table says where each layer of a request is, and the folder of those without a crate.
const WALK: (&str, &str) = ("docs/life-of-a-request.md", "svc/svc-gateway/src");

/// Every path in backticks that begins at the root of the repository leads to a file or a folder.
#[must_use]
pub fn exist(tree: &Tree) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (page, text) in tree.ending(".md") {
        for (at, line) in text.lines().enumerate() {
            let named = spans(line).filter_map(path).filter(|path| !tree.exists(path));
            findings.extend(named.map(|path| Finding::new(page, at + 1, format!("there is no `{path}`"))));
        }
    }
    findings
}

/// Every file that the walk of a request names is there: in the crate named before it in the row, or in the gateway.
#[must_use]
pub fn of_the_walk_exist(tree: &Tree) -> Vec<Finding> {
    let (page, usual) = WALK;
    let mut findings = Vec::new();
    for (at, line) in tree.text(page).unwrap_or_default().lines().enumerate() {
        let Some(place) = line.strip_suffix('|').and_then(|row| row.rsplit('|').next()) else {
            continue;
        };
        let mut folder = usual.to_owned();
        for name in spans(place) {
            if tree.exists(name) {
                folder = format!("{name}/src");
            } else if !tree.exists(&format!("{folder}/{}", name.trim_end_matches('/'))) {
                findings.push(Finding::new(page, at + 1, format!("there is no `{name}` in {folder}")));
            }
        }
    }
    findings
}

/// What stands between backticks.
fn spans(line: &str) -> impl Iterator<Item = &str> {
    line.split('`').skip(1).step_by(2)
}

/// The span as a path from the root, unless it is something else or stands for several.
fn path(span: &str) -> Option<&str> {
    let first = span.split_whitespace().next()?.split(['#', ':']).next()?;
    let one = !first.contains(['<', '*', '…', '{', '$']);
    (one && ROOTS.iter().any(|root| first.starts_with(root))).then(|| first.trim_end_matches('/'))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn a_path_to_nothing_is_found() {
        let text = "`core/a` and `core/b`\n`core/a/src/x.rs` `tests/x.py --all` `svc/svc-<name>` `docs/*.md`\nrt/gone\n";
        let tree = Tree::of(&[("README.md", text), ("core/a/src/x.rs", ""), ("tests/y.py", "")]);
        assert_eq!(places(&exist(&tree)), [("README.md", 1), ("README.md", 2)]);
    }

    #[test]
    fn a_step_of_the_walk_without_code_is_found() {
        let text = "| a | `x.rs`, `y/` |\n| b | `rt/t` `caps.rs`, `serve/` |\n| c | `gone.rs` |\n| d | `rt/t` `x.rs` |\n";
        let tree = Tree::of(&[
            (WALK.0, text),
            ("svc/svc-gateway/src/x.rs", ""),
            ("svc/svc-gateway/src/y/z.rs", ""),
            ("rt/t/src/caps.rs", ""),
            ("rt/t/src/serve/mod.rs", ""),
        ]);
        let page = WALK.0;
        assert_eq!(places(&of_the_walk_exist(&tree)), [(page, 3), (page, 4)]);
    }
}
