//! ARCHITECTURE.md lists the crates that exist, all of them and no others.

use crate::{Finding, Tree, Workspace};

/// The page that explains how the parts fit together.
const PAGE: &str = "ARCHITECTURE.md";

/// The heading of the section whose table names each crate's folder in its first column.
const HEADING: &str = "## The crates";

/// The table of crates equals the workspace's members.
#[must_use]
pub fn matches_the_manifest(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let Some(text) = tree.text(PAGE) else {
        return vec![Finding::new(PAGE, 1, "is missing: it is where a reader starts")];
    };
    let listed = listed(text);
    let is_listed = |folder: &str| listed.iter().any(|(_, name)| *name == folder);
    let is_member = |name: &str| workspace.members.iter().any(|member| member.folder == name);
    let unlisted = workspace.members.iter().filter(|member| !is_listed(&member.folder));
    let unlisted =
        unlisted.map(|m| Finding::new(PAGE, 1, format!("add `{}` to the table in \"{HEADING}\"", m.folder)));
    let unknown = listed.iter().filter(|(_, name)| !is_member(name));
    let unknown =
        unknown.map(|(line, name)| Finding::new(PAGE, *line, format!("`{name}` is no workspace member")));
    unlisted.chain(unknown).collect()
}

/// The folders in the first column, with their lines.
fn listed(text: &str) -> Vec<(usize, &str)> {
    let section = text.lines().enumerate().skip_while(|(_, line)| line.trim_end() != HEADING).skip(1);
    let section = section.take_while(|(_, line)| !line.starts_with("## "));
    section.filter_map(|(at, line)| Some((at + 1, folder(line)?))).collect()
}

fn folder(row: &str) -> Option<&str> {
    let cell = row.trim_start().strip_prefix('|')?.split('|').next()?.trim();
    cell.strip_prefix('`')?.strip_suffix('`')
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    fn findings(page: &[(&str, &str)]) -> Vec<Finding> {
        let root = "[workspace]\nmembers = [\"core/a\", \"rt/b\"]";
        let files = [("Cargo.toml", root), ("core/a/Cargo.toml", ""), ("rt/b/Cargo.toml", "")];
        let tree = Tree::of(&[&files, page].concat());
        matches_the_manifest(&tree, &Workspace::read(&tree).expect("manifests parse"))
    }

    #[test]
    fn a_missing_page_is_a_finding() {
        assert_eq!(places(&findings(&[])), [(PAGE, 1)]);
    }

    #[test]
    fn the_table_and_the_manifest_must_agree_both_ways() {
        let table = |rows: &str| {
            format!("# A\n\n## The crates\n\n| crate | purpose |\n|---|---|\n{rows}\n## Next\n| `x/y` | |")
        };
        let check = |rows: &str| findings(&[(PAGE, &table(rows))]);
        assert_eq!(check("| `core/a` | words |\n| `rt/b` | runtime |\n"), []);
        assert_eq!(places(&check("| `core/a` | words |\n")), [(PAGE, 1)]);
        assert_eq!(places(&check("| `core/a` | |\n| `rt/b` | |\n| `rt/gone` | |\n")), [(PAGE, 9)]);
        assert_eq!(places(&check("| core/a | |\n| `rt/b` | |\n")), [(PAGE, 1)]);
    }
}
