//! `docs/operations.md` lists the conditions of readiness: each that is raised, and none that is not.

use crate::{Finding, Tree};
use std::collections::{BTreeMap, BTreeSet};

const PAGE: &str = "docs/operations.md";
const HEADING: &str = "\n## Conditions and what to do\n";

/// Conditions that the page lacks, and those that it makes up.
#[must_use]
pub fn are_listed(tree: &Tree) -> Vec<Finding> {
    let listed = listed(tree.text(PAGE).unwrap_or_default());
    let raised = raised(tree);
    let missing = raised.iter().filter(|(name, _)| !listed.contains(*name));
    let missing = missing
        .map(|(name, (path, line))| Finding::new(path, *line, format!("{PAGE} says nothing of `{name}`")));
    let made_up = listed.iter().filter(|name| !raised.contains_key(*name));
    missing.chain(made_up.map(|name| Finding::new(PAGE, 1, format!("nobody raises `{name}`")))).collect()
}

fn listed(page: &str) -> BTreeSet<&str> {
    let section = page.split_once(HEADING).map_or("", |(_, rest)| rest);
    let section = section.split("\n## ").next().unwrap_or_default();
    section.lines().filter_map(|line| line.strip_prefix("| `")?.split('`').next()).collect()
}

/// The first literal of each call of `condition(…)` outside tests, and where it stands.
fn raised(tree: &Tree) -> BTreeMap<&str, (&str, usize)> {
    let mut found = BTreeMap::new();
    let ours = |path: &str| ["rt/", "store/", "svc/", "bin/"].iter().any(|layer| path.starts_with(layer));
    for (path, text) in tree.ending(".rs").filter(|(path, _)| ours(path) && is_product(path)) {
        let code = text.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        // `report` is what a service with several of them calls its shorthand.
        for opening in [".condition(", " report(\""] {
            for (at, _) in code.match_indices(opening) {
                let arguments = code[at..].split(';').next().unwrap_or_default();
                let Some(name) = arguments.split('"').nth(1) else { continue };
                let line = 1 + code[..at].matches('\n').count();
                found.entry(name).or_insert((path, line));
            }
        }
    }
    found
}

/// What is shipped: no tests, no measurements.
fn is_product(path: &str) -> bool {
    path.contains("/src/") && !path.contains("/tests")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    #[test]
    fn a_condition_without_a_row_and_a_row_without_a_condition_are_found() {
        let source = "//! x\nlet a = scope.condition(\"lost\", Effect::Down);\nlet b = board.condition(service, \"slow\", e);\n\
                      ledger: report(\"ledger\"),\n\
                      self.condition.raise(\"words\");\n#[cfg(test)]\nmod tests { b.condition(\"svc\", \"other\", e); }\n";
        let page = "# X\n\n## Conditions and what to do\n\n| `lost` | x |\n| `made_up` | x |\n\n## Next\n| `no` | x |\n";
        let tree = Tree::of(&[("rt/a/src/lib.rs", source), (PAGE, page)]);
        assert_eq!(places(&are_listed(&tree)), [("rt/a/src/lib.rs", 4), ("rt/a/src/lib.rs", 3), (PAGE, 1)]);
    }
}
