//! How much a pack may ask for.

const KIB: u64 = 1024;
const MIB: u64 = 1024 * KIB;

/// How much a pack may ask for. The defaults hold a pack of the whole planet.
///
/// Decoding one directory takes at most `directory_bytes` for its decoded form and 24 bytes for each of
/// `directory_entries` (40 MiB with the defaults), besides what its codec holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Entries of one directory.
    pub directory_entries: usize,
    /// Bytes of one directory, encoded and decoded.
    pub directory_bytes: u64,
    /// Directories from the root to a tile, the root among them; more than four are never followed.
    pub depth: usize,
    /// Entries of all directories together.
    pub entries: u64,
    /// Bytes of one tile as stored.
    pub tile_bytes: u32,
    /// Bytes of the metadata, encoded and decoded.
    pub metadata_bytes: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            directory_entries: 1 << 20,
            directory_bytes: 16 * MIB,
            depth: 4,
            entries: 1 << 30,
            tile_bytes: 16 << 20,
            metadata_bytes: 8 * MIB,
        }
    }
}
