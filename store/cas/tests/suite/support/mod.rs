//! Objects and stores for tests.

pub(crate) mod damage;

use std::{
    fs,
    path::{Path, PathBuf},
};

use cas::{Cas, Limits};
use tempfile::TempDir;
use types::ObjectId;

/// The bytes that one hash covers.
pub(crate) const GROUP: usize = b3tree::GROUP_LEN;

/// Bytes that no other seed has, in no period that groups could share.
pub(crate) fn object(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

pub(crate) fn id_of(bytes: &[u8]) -> ObjectId {
    ObjectId::new(*blake3::hash(bytes).as_bytes())
}

pub(crate) fn limits(max_bytes: u64) -> Limits {
    Limits { max_bytes, ..Limits::default() }
}

/// A store in a folder of its own.
pub(crate) struct Folder {
    pub(crate) dir: TempDir,
}

impl Folder {
    pub(crate) fn new() -> Self {
        Self { dir: TempDir::new().expect("a folder") }
    }

    pub(crate) fn path(&self) -> PathBuf {
        self.dir.path().join("cas")
    }

    pub(crate) fn cas(&self) -> Cas {
        Cas::at(&self.path(), Limits::default()).expect("a store")
    }

    /// Where an object's bytes are.
    pub(crate) fn object(&self, id: ObjectId) -> PathBuf {
        let hex = id.hex();
        self.path().join("objects").join(&hex[..2]).join(hex)
    }

    /// Where its tree is.
    pub(crate) fn tree(&self, id: ObjectId) -> PathBuf {
        self.object(id).with_extension("tree")
    }

    /// The files below a folder of the store, with their lengths.
    pub(crate) fn files(&self, below: &str) -> Vec<(PathBuf, u64)> {
        let mut files = Vec::new();
        walk(&self.path().join(below), &mut files);
        files.sort();
        files
    }
}

fn walk(folder: &Path, files: &mut Vec<(PathBuf, u64)>) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let entry = entry.expect("an entry");
        let metadata = entry.metadata().expect("metadata");
        match metadata.is_dir() {
            true => walk(&entry.path(), files),
            false => files.push((entry.path(), metadata.len())),
        }
    }
}

/// Flips one bit of a file.
pub(crate) fn flip(path: &Path, bit: u64) {
    let mut bytes = fs::read(path).expect("a file");
    let at = usize::try_from(bit / 8).expect("an index");
    bytes[at] ^= 1 << (bit % 8);
    fs::write(path, bytes).expect("written");
}
