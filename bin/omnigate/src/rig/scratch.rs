//! A folder for the length of a command.

use std::{
    io,
    path::{Path, PathBuf},
};

/// A folder that goes with its last use.
#[derive(Debug)]
pub(crate) struct ScratchDir(PathBuf);

#[expect(clippy::disallowed_methods, reason = "the command has nothing else to do meanwhile")]
impl ScratchDir {
    /// Makes one whose name tells what it is for.
    pub(crate) fn make(purpose: &str) -> io::Result<Self> {
        let dir = std::env::temp_dir().join(format!("omnigate-{purpose}-{}", std::process::id()));
        std::fs::create_dir(&dir)?;
        Ok(Self(dir))
    }

    /// Returns the path of the folder.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

#[expect(clippy::disallowed_methods, reason = "the command has nothing else to do meanwhile")]
impl Drop for ScratchDir {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
