//! The modes of what a node keeps: a file or folder that older versions, or somebody's hands, left open to other users is
//! its owner's alone from the next start on.

#![expect(clippy::disallowed_methods, reason = "runs before the runtimes start")]

use std::{
    fs::{self, Permissions},
    io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use ron_kernel::config::Snapshot;
use ron_ledger::Place;

use crate::settings::{LedgerConfig, NodeConfig};

/// What begins the names of everything that a node keeps in its data folder. What is inside of a folder is out of reach
/// with the folder.
const OURS: [&str; 10] = [
    "acme",
    "cas",
    "gateway-cache",
    "outboards",
    "snapshots",
    "rewards",
    "usage.sqlite",
    "epochs.sqlite",
    "ledger.db",
    "overlay.lives",
];
/// The node's key: ours too, and left as it is, because a key that others could read is refused when it is read.
const KEY: &str = "node.key";
/// The files that SQLite keeps beside a database, and the database.
const DATABASE: [&str; 4] = ["", "-wal", "-shm", "-journal"];
/// Permissions of everybody but the owner.
const OTHERS: u32 = 0o077;

/// Takes the rights of other users from what the node has kept so far, and logs where there were any.
pub(crate) fn tighten(config: &Snapshot) {
    let node = config.get::<NodeConfig>();
    if node.amnesia {
        return;
    }
    tighten_folder(&node.data_dir);
    if let Place::File(path) = config.get::<LedgerConfig>().place(&node.data_dir, node.amnesia) {
        for end in DATABASE {
            let mut file = path.clone().into_os_string();
            file.push(end);
            tell(Path::new(&file), tighten_one(Path::new(&file)));
        }
    }
}

/// Tightens what is ours in the data folder, and the folder itself if there is nothing else in it.
fn tighten_folder(folder: &Path) {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let (ours, others): (Vec<PathBuf>, Vec<PathBuf>) =
        entries.map(|entry| entry.path()).partition(|path| is_ours(path));
    for path in ours {
        tell(&path, tighten_one(&path));
    }
    match others.iter().find(|path| !path.ends_with(KEY)) {
        None => tell(folder, tighten_one(folder)),
        Some(other) if is_open(folder) => {
            let (path, other) = (folder.display(), other.display());
            tracing::warn!(%path, "other users can read the data folder; its mode is kept because of {other}");
        }
        Some(_) => {}
    }
}

/// Whether other users have any right to a file or folder.
fn is_open(path: &Path) -> bool {
    fs::metadata(path).is_ok_and(|metadata| metadata.permissions().mode() & OTHERS != 0)
}

fn is_ours(path: &Path) -> bool {
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    OURS.iter().any(|ours| name.strip_prefix(ours).is_some_and(|rest| DATABASE.contains(&rest)))
}

/// Takes the rights of other users from a file or folder; the mode it had, if there were any. A link is not followed.
fn tighten_one(path: &Path) -> io::Result<Option<u32>> {
    let metadata = match fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        found => found?,
    };
    let mode = metadata.permissions().mode() & 0o7777;
    if metadata.is_symlink() || mode & OTHERS == 0 {
        return Ok(None);
    }
    fs::set_permissions(path, Permissions::from_mode(mode & !OTHERS))?;
    Ok(Some(mode))
}

fn tell(path: &Path, tightened: io::Result<Option<u32>>) {
    let path = path.display();
    match tightened {
        Ok(None) => {}
        Ok(Some(was)) => {
            let now = was & !OTHERS;
            tracing::warn!(%path, "other users had access: its mode is tightened from {was:04o} to {now:04o}");
        }
        Err(error) => {
            tracing::warn!(%path, %error, "other users may have access to the node's data: its mode cannot be tightened");
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().permissions().mode() & 0o777
    }

    fn make(path: &Path, mode: u32) {
        fs::write(path, "").unwrap();
        fs::set_permissions(path, Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn a_folder_that_holds_other_things_too_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        fs::set_permissions(dir.path(), Permissions::from_mode(0o755)).unwrap();
        let [ours, wal, other] =
            ["ledger.db", "ledger.db-wal", "ledger.db.md"].map(|name| dir.path().join(name));
        make(&ours, 0o664);
        make(&wal, 0o604);
        make(&other, 0o644);
        tighten_folder(dir.path());
        assert_eq!([&ours, &wal, &other].map(|path| mode(path)), [0o600, 0o600, 0o644]);
        assert_eq!(mode(dir.path()), 0o755);
        fs::remove_file(&other).unwrap();
        tighten_folder(dir.path());
        assert_eq!(mode(dir.path()), 0o700);
    }

    #[test]
    fn what_a_link_leads_to_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let target = dir.path().join("target");
        make(&target, 0o644);
        std::os::unix::fs::symlink(&target, dir.path().join("ledger.db")).unwrap();
        tighten_folder(dir.path());
        assert_eq!(mode(&target), 0o644);
    }
}
