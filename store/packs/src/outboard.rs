//! Hashes that are kept between mounts, for as long as it is beyond doubt that they are still those of the file.
//!
//! ```text
//!  magic and version    `OGPK` 1
//!  the pack's path      length (u32) and bytes
//!  the file's stamp     device, inode, size, and when it was modified and changed (seconds, nanoseconds): 7 × 8 bytes
//!  the tree             length (u64) and bytes, as `b3tree` writes them
//!  the table of tiles   number of rows (u64), rows of 40 bytes, rows that are no tiles (u64); none for PMTiles
//!  the check            BLAKE3 of all that
//! ```
//!
//! Whatever does not fit is as good as absent: the pack is hashed again. For the same reason nothing is synced to disk: what
//! a crash leaves half-written fails its check.

use std::{
    fs::{self, File},
    io::{self, Read, Write},
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use b3tree::Tree;

use crate::{
    mbtiles::{ROW_LEN, Table},
    mount::open_regular,
    stamp::Stamp,
};

const MAGIC: &[u8] = b"OGPK\x01";
const CHECK_LEN: usize = 32;

/// The hashes of a file.
pub(crate) struct Hashes {
    pub(crate) tree: Arc<Tree>,
    /// Those of the tiles of an MBTiles pack.
    pub(crate) table: Table,
}

/// Where the hashes of one pack are kept.
pub(crate) struct Outboard {
    path: PathBuf,
    pack: Vec<u8>,
}

impl Outboard {
    /// The place for the pack at `path`, which is absolute.
    pub(crate) fn new(dir: &Path, path: &Path) -> Self {
        let pack = path.as_os_str().as_bytes().to_vec();
        let name = blake3::hash(&pack).to_hex();
        Self { path: dir.join(format!("{}.outboard", &name[..32])), pack }
    }

    /// The hashes that were kept, if they are beyond doubt those of the file with this stamp.
    pub(crate) fn load(&self, stamp: &Stamp, max_rows: usize) -> Option<Hashes> {
        let file = open_regular(&self.path).ok()??;
        let most = self.head(stamp).len() as u64
            + Tree::encoded_len(stamp.size)
            + ROW_LEN as u64 * max_rows as u64
            + 1024;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes).ok()?;
        let (body, check) = bytes.split_last_chunk::<CHECK_LEN>()?;
        if blake3::hash(body) != *check {
            return None;
        }
        let mut rest = body.strip_prefix(self.head(stamp).as_slice())?;
        let tree = Tree::decode(take(&mut rest, 1)?, None).ok()?;
        let rows = take(&mut rest, ROW_LEN)?;
        let table = Table::decode(rows, u64::from_le_bytes(rest.try_into().ok()?))?;
        (tree.len() == stamp.size).then(|| Hashes { tree: Arc::new(tree), table })
    }

    /// Keeps the hashes of the file with this stamp. A file that was written within the last second is not worth it: the
    /// clock of its file system may be too coarse to show that it is written again.
    pub(crate) fn save(&self, stamp: &Stamp, hashes: &Hashes) -> io::Result<()> {
        let mut bytes = self.head(stamp);
        let tree = hashes.tree.encode();
        bytes.extend((tree.len() as u64).to_le_bytes());
        bytes.extend(tree);
        bytes.extend((hashes.table.len() as u64).to_le_bytes());
        hashes.table.encode(&mut bytes);
        bytes.extend(hashes.table.ignored().to_le_bytes());
        let check = blake3::hash(&bytes);
        bytes.extend(check.as_bytes());
        if let Some(dir) = self.path.parent() {
            fs::create_dir_all(dir)?;
        }
        // Two mounts that write it at once make something that fails its check.
        let temporary = self.path.with_extension("tmp");
        let mut file = File::create(&temporary)?;
        file.write_all(&bytes)?;
        let (seconds, nanoseconds) = stamp.modified;
        if Stamp::of_file(&file)?.modified < (seconds.saturating_add(1), nanoseconds) {
            return fs::remove_file(&temporary);
        }
        fs::rename(&temporary, &self.path)
    }

    fn head(&self, stamp: &Stamp) -> Vec<u8> {
        let mut head = MAGIC.to_vec();
        head.extend(u32::try_from(self.pack.len()).unwrap_or(u32::MAX).to_le_bytes());
        head.extend(&self.pack);
        head.extend([stamp.device, stamp.inode, stamp.size].map(u64::to_le_bytes).as_flattened());
        let times = [stamp.modified.0, stamp.modified.1, stamp.changed.0, stamp.changed.1];
        head.extend(times.map(i64::to_le_bytes).as_flattened());
        head
    }
}

/// Takes a number of things of `len` bytes from the front.
fn take<'a>(rest: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (count, behind) = rest.split_first_chunk::<8>()?;
    let bytes = usize::try_from(u64::from_le_bytes(*count)).ok()?.checked_mul(len)?;
    let (taken, left) = behind.split_at_checked(bytes)?;
    *rest = left;
    Some(taken)
}
