//! The node's key: who it is to its peers, kept in `{data_dir}/node.key`.

use std::path::{Path, PathBuf};

use ron_transport::tls::{TlsError, raw_key::NodeKey};

/// The file's name in the node's data.
pub const NODE_KEY_FILE: &str = "node.key";

/// The reason why the node has no key.
#[derive(Debug, thiserror::Error)]
pub enum NodeKeyError {
    /// The file is there and cannot be used, or a key cannot be made.
    #[error("the node's key: {0}")]
    Key(#[from] TlsError),
    /// The folder cannot be made.
    #[error("the node's key: {} cannot be created: {error}", .path.display())]
    Folder {
        /// The path of the key file.
        path: PathBuf,
        /// The error of the operating system.
        error: std::io::Error,
    },
}

/// The node's key; made and written down if there is none yet, and made for this life alone without a folder. Blocking.
///
/// # Errors
/// [`NodeKeyError`].
pub fn load_or_make(data_dir: Option<&Path>) -> Result<NodeKey, NodeKeyError> {
    let Some(data_dir) = data_dir else { return Ok(NodeKey::generate()?) };
    let path = data_dir.join(NODE_KEY_FILE);
    // A file that cannot be looked at counts as present: loading it then says why.
    if path.try_exists().unwrap_or(true) {
        return Ok(NodeKey::load(&path)?);
    }
    make_folder(data_dir)?;
    let key = NodeKey::generate()?;
    key.save(&path)?;
    Ok(key)
}

#[expect(clippy::disallowed_methods, reason = "runs on the blocking pool, or where no runtime is running")]
fn make_folder(path: &Path) -> Result<(), NodeKeyError> {
    std::fs::create_dir_all(path).map_err(|error| NodeKeyError::Folder { path: path.to_owned(), error })
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn a_node_stays_who_it_is_unless_it_forgets() {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        let first = load_or_make(Some(&data)).unwrap().public_key();
        assert_eq!(load_or_make(Some(&data)).unwrap().public_key(), first);
        assert_ne!(load_or_make(None).unwrap().public_key(), load_or_make(None).unwrap().public_key());
    }
}
