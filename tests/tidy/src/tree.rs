//! The repository's files: those git tracks or would track, read once.

use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    path::Path,
    process::Command,
};

/// Every path of the repository, and the text of those files that are text.
#[derive(Debug, Default)]
pub struct Tree {
    paths: BTreeSet<String>,
    texts: BTreeMap<String, String>,
}

impl Tree {
    /// Reads the repository at `root`: by git's list where git knows it, else by walking what `.gitignore` leaves.
    ///
    /// # Errors
    /// When a folder or file cannot be read.
    pub fn load(root: &Path) -> io::Result<Self> {
        let paths = match listed_by_git(root) {
            Some(paths) => paths,
            None => walked(root)?,
        };
        let mut tree = Self::default();
        for path in paths {
            match read(&root.join(&path)) {
                Ok(bytes) => tree.insert(&path, bytes),
                // Tracked, but deleted in the working tree.
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                Err(error) => return Err(io::Error::new(error.kind(), format!("{path}: {error}"))),
            }
        }
        Ok(tree)
    }

    /// A tree made of `files`, for examples.
    #[must_use]
    pub fn of(files: &[(&str, &str)]) -> Self {
        let mut tree = Self::default();
        for (path, text) in files {
            tree.insert(path, text.as_bytes().to_vec());
        }
        tree
    }

    /// The text of one file.
    #[must_use]
    pub fn text(&self, path: &str) -> Option<&str> {
        self.texts.get(path).map(String::as_str)
    }

    /// Every text file, in the order of their paths.
    pub fn texts(&self) -> impl Iterator<Item = (&str, &str)> {
        self.texts.iter().map(|(path, text)| (path.as_str(), text.as_str()))
    }

    /// The text files whose name ends in `suffix`.
    pub fn ending<'a>(&'a self, suffix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.texts().filter(move |(path, _)| path.ends_with(suffix))
    }

    /// Whether `path` is a file or a folder of the repository (the root included).
    #[must_use]
    pub fn exists(&self, path: &str) -> bool {
        let folder = format!("{path}/");
        path.is_empty()
            || self.paths.contains(path)
            || self.paths.range(folder.clone()..).next().is_some_and(|p| p.starts_with(&folder))
    }

    fn insert(&mut self, path: &str, bytes: Vec<u8>) {
        self.paths.insert(path.to_owned());
        if let Ok(text) = String::from_utf8(bytes) {
            self.texts.insert(path.to_owned(), text);
        }
    }
}

/// New files count as well: they are about to be tracked.
fn listed_by_git(root: &Path) -> Option<Vec<String>> {
    let list = ["ls-files", "-z", "--cached", "--others", "--exclude-standard"];
    let output = Command::new("git").args(list).current_dir(root).output().ok()?;
    let names = String::from_utf8(output.stdout).ok()?;
    let paths: Vec<_> = names.split('\0').filter(|name| !name.is_empty()).map(str::to_owned).collect();
    (output.status.success() && !paths.is_empty()).then_some(paths)
}

fn walked(root: &Path) -> io::Result<Vec<String>> {
    let ignore = read(&root.join(".gitignore")).unwrap_or_default();
    let ignore = String::from_utf8_lossy(&ignore);
    let skipped: BTreeSet<&str> = ignore.lines().map(|line| line.trim().trim_end_matches('/')).collect();
    let mut paths = Vec::new();
    let mut folders = vec![String::new()];
    while let Some(folder) = folders.pop() {
        #[expect(clippy::disallowed_methods, reason = "a tool without a runtime may block")]
        let entries = std::fs::read_dir(root.join(folder.trim_start_matches('/')))?;
        for entry in entries {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            let path = format!("{folder}/{name}");
            // Anchored at the root, or a name anywhere.
            if name == ".git" || skipped.contains(path.as_str()) || skipped.contains(name.as_str()) {
                continue;
            }
            if entry.file_type()?.is_dir() {
                folders.push(path);
            } else {
                paths.push(path.trim_start_matches('/').to_owned());
            }
        }
    }
    Ok(paths)
}

#[expect(clippy::disallowed_methods, reason = "a tool without a runtime may block")]
fn read(path: &Path) -> io::Result<Vec<u8>> {
    std::fs::read(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_and_their_folders_exist() {
        let tree = Tree::of(&[("docs/a.md", "a"), ("docs-old/b.md", "b")]);
        for path in ["", "docs", "docs/a.md", "docs-old"] {
            assert!(tree.exists(path), "{path:?}");
        }
        for path in ["doc", "docs/b.md", "docs/a.md/x"] {
            assert!(!tree.exists(path), "{path:?}");
        }
    }

    #[test]
    fn what_is_not_utf8_has_a_path_and_no_text() {
        let mut tree = Tree::default();
        tree.insert("logo.png", vec![0x89, 0xff]);
        assert!(tree.exists("logo.png"));
        assert_eq!(tree.text("logo.png"), None);
    }

    #[test]
    fn a_walk_sees_files_that_git_would_list() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let walked = walked(root).expect("the package's own folder can be read");
        assert!(walked.contains(&"src/tree.rs".to_owned()), "{walked:?}");
        if let Some(listed) = listed_by_git(root) {
            assert!(walked.iter().all(|path| listed.contains(path)), "{walked:?} are not all in {listed:?}");
        }
    }
}
