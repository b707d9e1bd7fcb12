//! The files that a configuration names, and which of them changed since the last reload. A reload reads all of them again,
//! so the audit trail names those that brought something new, such as a revocation or a certificate.

use std::{
    fmt,
    hash::{BuildHasher as _, Hasher as _, RandomState},
    io::Read as _,
    path::{Path, PathBuf},
    sync::{Arc, Mutex},
};

use zeroize::Zeroizing;

use crate::{Scope, config::Snapshot, files, lock::lock};

/// The files that a configuration names, apart from its own.
pub type FilesOf = fn(&Snapshot) -> Vec<PathBuf>;

/// How much of a file is looked at, in bytes: more than any file that a reload reads may have.
const MAX_BYTES: u64 = 64 * 1024 * 1024;
/// How much is read at a time, in bytes.
const PIECE: usize = 16 * 1024;

/// What the named files held at the last reload.
#[derive(Clone)]
pub struct NamedFiles {
    files_of: FilesOf,
    /// Seeded again for each node, so that a fingerprint says nothing about the key in a file.
    hasher: RandomState,
    in_force: Arc<Mutex<Vec<Seen>>>,
}

/// A file and the fingerprint of what it held; `None` if it could not be read.
type Seen = (PathBuf, Option<u64>);

impl NamedFiles {
    /// The files of the configuration that a node starts with, looked at before any part reads them.
    ///
    /// Cancel safe.
    pub async fn at_start(scope: &Scope, files_of: FilesOf, config: &Snapshot) -> Self {
        let named = Self { files_of, hasher: RandomState::new(), in_force: Arc::default() };
        let seen = named.look(scope, config).await;
        named.put_into_force(seen);
        named
    }

    /// Looks at the files of a configuration. Must come before its parts read them: what changes in between then shows at
    /// the next reload, rather than never.
    ///
    /// Cancel safe.
    pub(super) async fn look(&self, scope: &Scope, config: &Snapshot) -> Vec<Seen> {
        let (paths, hasher) = ((self.files_of)(config), self.hasher.clone());
        let look = move || {
            paths
                .into_iter()
                .map(|path| {
                    let seen = fingerprint(&hasher, &path);
                    (path, seen)
                })
                .collect()
        };
        scope.blocking().run("look at the named files", look).await.unwrap_or_default()
    }

    /// Remembers what the files held. Returns those that held something else before or were not named.
    pub(super) fn put_into_force(&self, seen: Vec<Seen>) -> Vec<PathBuf> {
        let mut in_force = lock(&self.in_force);
        let changed =
            seen.iter().filter(|now| !in_force.contains(now)).map(|(path, _)| path.clone()).collect();
        *in_force = seen;
        changed
    }
}

impl fmt::Debug for NamedFiles {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NamedFiles({})", lock(&self.in_force).len())
    }
}

/// A fingerprint of what a regular file holds. Blocking.
fn fingerprint(hasher: &RandomState, path: &Path) -> Option<u64> {
    let mut file = files::open_regular(path).ok()?.take(MAX_BYTES);
    let mut hasher = hasher.build_hasher();
    // The file may be a key.
    let mut piece = Zeroizing::new(vec![0; PIECE]);
    loop {
        match file.read(&mut piece) {
            Ok(0) => return Some(hasher.finish()),
            Ok(read) => hasher.write(&piece[..read]),
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(_) => return None,
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_file_has_changed_when_it_holds_something_else_or_is_named_for_the_first_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("revoked");
        let named =
            NamedFiles { files_of: |_| Vec::new(), hasher: RandomState::new(), in_force: Arc::default() };
        let reload = || named.put_into_force(vec![(path.clone(), fingerprint(&named.hasher, &path))]);
        for (text, changed) in [("1\n", true), ("1\n", false), ("1\n2\n", true), ("1\n2\n", false)] {
            std::fs::write(&path, text).unwrap();
            assert_eq!(!reload().is_empty(), changed, "{text}");
        }
        std::fs::remove_file(&path).unwrap();
        assert_eq!(reload(), [path.as_path()]);
        assert_eq!(named.put_into_force(Vec::new()), Vec::<PathBuf>::new());
    }
}
