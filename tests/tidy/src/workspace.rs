//! The root manifest's members and what each of them depends on.

use crate::Tree;
use toml::{Table, Value};

/// The members of the workspace, in the manifest's order.
#[derive(Debug)]
pub struct Workspace {
    /// One entry per member.
    pub members: Vec<Member>,
}

/// A package of the workspace.
#[derive(Debug)]
pub struct Member {
    /// Its folder, such as `core/types`.
    pub folder: String,
    /// Its manifest.
    pub manifest: Table,
}

/// A dependency as a manifest names it.
#[derive(Debug, PartialEq, Eq)]
pub struct Dependency {
    /// The package.
    pub name: String,
    /// Whether only tests and benchmarks use it.
    pub dev: bool,
}

impl Workspace {
    /// Reads the manifests of `tree`.
    ///
    /// # Errors
    /// A sentence, when the root manifest or a member's is missing or cannot be understood.
    pub fn read(tree: &Tree) -> Result<Self, String> {
        let root = manifest(tree, "Cargo.toml")?;
        let members = root.get("workspace").and_then(|w| w.get("members")).and_then(Value::as_array);
        let folders = members.ok_or("Cargo.toml lists no workspace members")?;
        let member = |folder: &Value| {
            let folder = folder.as_str().ok_or("a workspace member is not a string")?.to_owned();
            let manifest = manifest(tree, &format!("{folder}/Cargo.toml"))?;
            Ok(Member { folder, manifest })
        };
        let members = folders.iter().map(member).collect::<Result<_, String>>()?;
        Ok(Self { members })
    }

    /// The member whose package is called `name`.
    #[must_use]
    pub fn member(&self, name: &str) -> Option<&Member> {
        self.members.iter().find(|member| member.name() == name)
    }
}

impl Member {
    /// The package's name, which is its folder's name.
    #[must_use]
    pub fn name(&self) -> &str {
        self.folder.rsplit('/').next().unwrap_or_default()
    }

    /// The top folder it lives in: its layer.
    #[must_use]
    pub fn layer(&self) -> &str {
        self.folder.split('/').next().unwrap_or_default()
    }

    /// The path of its manifest.
    #[must_use]
    pub fn manifest_path(&self) -> String {
        format!("{}/Cargo.toml", self.folder)
    }

    /// Everything it depends on, on any target and for any purpose.
    #[must_use]
    pub fn dependencies(&self) -> Vec<Dependency> {
        let targets = self.manifest.get("target").and_then(Value::as_table);
        let per_target = targets.into_iter().flat_map(Table::values).filter_map(Value::as_table);
        [&self.manifest].into_iter().chain(per_target).flat_map(listed).collect()
    }
}

fn listed(table: &Table) -> Vec<Dependency> {
    let kinds = [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)];
    let entries = |(kind, dev)| {
        let names = table.get(kind).and_then(Value::as_table).into_iter().flatten();
        names.map(move |(key, value)| {
            let name = value.get("package").and_then(Value::as_str).unwrap_or(key).to_owned();
            Dependency { name, dev }
        })
    };
    kinds.into_iter().flat_map(entries).collect()
}

fn manifest(tree: &Tree, path: &str) -> Result<Table, String> {
    let text = tree.text(path).ok_or_else(|| format!("{path} is missing"))?;
    text.parse().map_err(|error| format!("{path}: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dependencies_of_every_kind_and_target_are_listed() {
        let manifest = "[dependencies]\na.workspace = true\nalias = { package = \"b\", version = \"1\" }\n\
                        [target.'cfg(loom)'.dependencies]\nc = \"1\"\n[build-dependencies]\nd = \"1\"\n\
                        [dev-dependencies]\ne = \"1\"";
        let tree = Tree::of(&[
            ("Cargo.toml", "[workspace]\nmembers = [\"core/x\"]"),
            ("core/x/Cargo.toml", manifest),
        ]);
        let workspace = Workspace::read(&tree).expect("both manifests parse");
        let mut found = workspace.members[0].dependencies();
        found.sort_by(|a, b| a.name.cmp(&b.name));
        let expected = [("a", false), ("b", false), ("c", false), ("d", false), ("e", true)];
        assert_eq!(found, expected.map(|(name, dev)| Dependency { name: name.to_owned(), dev }));
    }

    #[test]
    fn a_missing_manifest_is_an_error_that_names_it() {
        let root = ("Cargo.toml", "[workspace]\nmembers = [\"core/x\"]");
        assert_eq!(Workspace::read(&Tree::of(&[])).err(), Some("Cargo.toml is missing".to_owned()));
        assert_eq!(
            Workspace::read(&Tree::of(&[root])).err(),
            Some("core/x/Cargo.toml is missing".to_owned())
        );
        let empty = Tree::of(&[("Cargo.toml", "[workspace]")]);
        assert_eq!(Workspace::read(&empty).err(), Some("Cargo.toml lists no workspace members".to_owned()));
    }
}
