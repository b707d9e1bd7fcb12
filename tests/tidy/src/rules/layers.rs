//! What the manifests promise: layers that depend in one direction, shared lints, a purpose per crate.

use crate::{Finding, Tree, Workspace, workspace::Member};
use toml::Value;

/// The layers, lowest first. A crate depends on its own layer and on those before it; `clients` know nothing of the others, and
/// `tests` see everything.
const LAYERS: [&str; 7] = ["clients", "core", "rt", "store", "svc", "bin", "tests"];

/// Dependencies point from higher layers to lower ones, and services do not know each other.
#[must_use]
pub fn depends_downward_only(workspace: &Workspace) -> Vec<Finding> {
    let mut findings = Vec::new();
    for member in &workspace.members {
        let path = member.manifest_path();
        let Some(own) = rank(member) else {
            let what = format!("`{}` is no layer: use one of {}", member.layer(), LAYERS.join(", "));
            findings.push(Finding::new(&path, 1, what));
            continue;
        };
        let known = member.dependencies();
        let known = known.iter().filter_map(|dependency| workspace.member(&dependency.name));
        for other in known.filter(|other| other.folder != member.folder) {
            let sideways = member.layer() == "svc" && other.layer() == "svc";
            if sideways || rank(other).is_some_and(|theirs| theirs > own) {
                let what =
                    format!("may not depend on {}: {} are composed above it", other.name(), other.layer());
                findings.push(Finding::new(&path, 1, what));
            }
        }
    }
    findings
}

/// Every crate is held to the workspace's lints.
#[must_use]
pub fn shares_the_lints(workspace: &Workspace) -> Vec<Finding> {
    let shares = |member: &Member| {
        let lints = member.manifest.get("lints").and_then(|lints| lints.get("workspace"));
        lints.and_then(Value::as_bool) == Some(true)
    };
    let apart = |member: &Member| member.folder == super::sources::UNSAFE_CRATE;
    let others = workspace.members.iter().filter(|member| !shares(member) && !apart(member));
    others.map(|member| Finding::new(&member.manifest_path(), 1, "add `[lints] workspace = true`")).collect()
}

/// Every member has a purpose in the root manifest, behind its line.
#[must_use]
pub fn states_the_purpose_of_each_member(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let manifest = tree.text("Cargo.toml").unwrap_or_default();
    let purpose = |line: &str| line.split_once('#').is_some_and(|(_, purpose)| !purpose.trim().is_empty());
    let mut findings = Vec::new();
    for member in &workspace.members {
        let quoted = format!("\"{}\"", member.folder);
        let line = manifest.lines().position(|line| line.trim_start().starts_with(&quoted));
        if !line.is_some_and(|line| manifest.lines().nth(line).is_some_and(purpose)) {
            let what = format!("say behind {quoted} what the crate is for: `# ...`");
            findings.push(Finding::new("Cargo.toml", line.map_or(1, |line| line + 1), what));
        }
    }
    findings
}

/// A package inside a layer is a member, or nothing would ever build and test it.
#[must_use]
pub fn leaves_no_crate_out(tree: &Tree, workspace: &Workspace) -> Vec<Finding> {
    let manifests = tree.ending("/Cargo.toml").map(|(path, _)| path);
    let layered = manifests.filter(|path| LAYERS.iter().any(|layer| path.starts_with(&format!("{layer}/"))));
    let left_out = layered.filter(|path| !workspace.members.iter().any(|m| m.manifest_path() == *path));
    left_out.map(|path| Finding::new(path, 1, "list the crate in the root manifest's members")).collect()
}

fn rank(member: &Member) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == member.layer())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::places;

    /// A workspace of empty crates, but for one whose manifest is given.
    fn tree(members: &[&str], special: (&str, &str)) -> Tree {
        let list: Vec<_> = members.iter().map(|member| format!("    \"{member}\", # purpose\n")).collect();
        let root = format!("[workspace]\nmembers = [\n{}]", list.concat());
        let mut files = vec![("Cargo.toml".to_owned(), root)];
        for member in members {
            let manifest = if *member == special.0 { special.1 } else { "[lints]\nworkspace = true" };
            files.push((format!("{member}/Cargo.toml"), manifest.to_owned()));
        }
        Tree::of(&files.iter().map(|(path, text)| (path.as_str(), text.as_str())).collect::<Vec<_>>())
    }

    fn workspace(tree: &Tree) -> Workspace {
        Workspace::read(tree).expect("manifests parse")
    }

    #[test]
    fn a_dependency_that_points_upward_or_to_another_service_is_found() {
        let members = ["core/a", "rt/b", "rt/b2", "store/c", "svc/d", "svc/d2", "bin/e", "tests/f"];
        let direction = |folder: &str, manifest: String| {
            let tree = tree(&members, (folder, &manifest));
            depends_downward_only(&workspace(&tree)).len()
        };
        let allowed =
            [("rt/b", "a"), ("rt/b", "b2"), ("svc/d", "c"), ("bin/e", "d"), ("tests/f", "e"), ("rt/b", "z")];
        for (folder, name) in allowed {
            assert_eq!(direction(folder, format!("[dependencies]\n{name} = \"1\"")), 0, "{folder} -> {name}");
        }
        let refused = [
            ("core/a", "b"),
            ("rt/b", "c"),
            ("store/c", "d"),
            ("svc/d", "e"),
            ("svc/d", "d2"),
            ("bin/e", "f"),
        ];
        for (folder, name) in refused {
            for kind in ["dependencies", "dev-dependencies", "target.'cfg(loom)'.dependencies"] {
                let manifest = format!("[{kind}]\n{name}.workspace = true");
                assert_eq!(direction(folder, manifest), 1, "{folder} -> {name} in {kind}");
            }
        }
    }

    #[test]
    fn a_crate_outside_the_layers_is_found() {
        let tree = tree(&["misc/a"], ("", ""));
        assert_eq!(places(&depends_downward_only(&workspace(&tree))), [("misc/a/Cargo.toml", 1)]);
    }

    #[test]
    fn a_crate_with_lints_of_its_own_is_found() {
        for manifest in ["", "[lints]\nworkspace = false", "[lints.rust]\nunused = \"allow\""] {
            let tree = tree(&["core/a", "core/b"], ("core/b", manifest));
            assert_eq!(
                places(&shares_the_lints(&workspace(&tree))),
                [("core/b/Cargo.toml", 1)],
                "{manifest}"
            );
        }
    }

    #[test]
    fn a_member_without_a_purpose_is_found() {
        let root = "[workspace]\nmembers = [\n  \"core/a\", # words\n  \"core/b\",\n  \"core/c\", #\n]";
        let manifests =
            ["core/a/Cargo.toml", "core/b/Cargo.toml", "core/c/Cargo.toml"].map(|path| (path, ""));
        let tree = Tree::of(&[&[("Cargo.toml", root)], &manifests[..]].concat());
        let findings = states_the_purpose_of_each_member(&tree, &workspace(&tree));
        assert_eq!(places(&findings), [("Cargo.toml", 4), ("Cargo.toml", 5)]);
    }

    #[test]
    fn a_crate_that_is_no_member_is_found() {
        let root = "[workspace]\nmembers = [\"core/a\"]";
        let paths = ["core/a/Cargo.toml", "core/b/Cargo.toml", "fuzz/Cargo.toml"].map(|path| (path, ""));
        let tree = Tree::of(&[&[("Cargo.toml", root)], &paths[..]].concat());
        assert_eq!(places(&leaves_no_crate_out(&tree, &workspace(&tree))), [("core/b/Cargo.toml", 1)]);
    }
}
