//! Files that are being written, and how they get to their places.

#![expect(clippy::disallowed_methods, reason = "everything in this crate blocks, and says so")]

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use b3tree::Tree;

use super::layout::{Layout, sync_folder};
use crate::{backend::Spool, tail::Written};

/// How many names are tried that others may have left behind.
const NAMES_MAX: usize = 1000;

/// An object in `tmp/`.
#[derive(Debug)]
pub(super) struct FileSpool {
    layout: Arc<Layout>,
    draft: Draft,
    syncs: bool,
}

impl FileSpool {
    /// An object that is on the disk before it is in its place, if `syncs`.
    pub(super) fn new(layout: Arc<Layout>, syncs: bool) -> io::Result<Self> {
        let draft = Draft::new(&layout)?;
        Ok(Self { layout, draft, syncs })
    }
}

impl Spool for FileSpool {
    fn write(&mut self, data: &[u8]) -> io::Result<()> {
        self.draft.file.write_all(data)
    }

    fn written(&mut self) -> io::Result<Written> {
        let path = self.draft.path.as_ref().ok_or(io::ErrorKind::NotFound)?;
        Ok(Written::File(File::open(path)?))
    }

    fn publish(self: Box<Self>, tree: &Arc<Tree>) -> io::Result<()> {
        let Self { layout, draft, syncs } = *self;
        let (id, path) = (tree.root(), layout.object(tree.root()));
        let publish = || {
            // Before the object: there is never one without its tree.
            if tree.groups() > 1 {
                write_tree(&layout, tree, syncs)?;
            }
            draft.rename(&path, syncs)?;
            if syncs { sync_folder(path.parent().unwrap_or(&path)) } else { Ok(()) }
        };
        publish().inspect_err(|_| {
            // What cannot be removed either is swept at the next start, or is whole.
            let _ = fs::remove_file(&path);
            let _ = fs::remove_file(layout.tree(id));
        })
    }
}

/// Writes an object's tree beside it. The folder is not synced.
pub(super) fn write_tree(layout: &Layout, tree: &Tree, syncs: bool) -> io::Result<()> {
    let mut draft = Draft::new(layout)?;
    draft.file.write_all(&tree.encode())?;
    draft.rename(&layout.tree(tree.root()), syncs)
}

/// A file in `tmp/` that is removed unless it gets a name.
#[derive(Debug)]
struct Draft {
    file: File,
    path: Option<PathBuf>,
}

impl Draft {
    fn new(layout: &Layout) -> io::Result<Self> {
        let mut tried = 0;
        loop {
            let path = layout.draft();
            match OpenOptions::new().write(true).create_new(true).open(&path) {
                Ok(file) => return Ok(Self { file, path: Some(path) }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists && tried < NAMES_MAX => tried += 1,
                Err(error) => return Err(error),
            }
        }
    }

    /// Gives the file a name, if `syncs` once all of it is on the disk.
    fn rename(mut self, path: &Path, syncs: bool) -> io::Result<()> {
        if syncs {
            self.file.sync_all()?;
        }
        if let Some(draft) = &self.path {
            fs::rename(draft, path)?;
        }
        self.path = None;
        Ok(())
    }
}

impl Drop for Draft {
    fn drop(&mut self) {
        if let Some(path) = &self.path {
            // What cannot be removed now is swept at the next start.
            let _ = fs::remove_file(path);
        }
    }
}
