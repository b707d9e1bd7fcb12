//! Snapshots: the rows of one node and epoch as a file, and the node's word for them.

use std::collections::BTreeSet;

use rewards::{Digest, Epoch, Int, Row, RowFault, RowsHasher, Sign, Snapshot, SnapshotSeal};
use types::{ActorId, NodeId, ObjectId};

use crate::{
    Ed25519, FileFault, SigningKey, Used, node_actor, node_id,
    rowfile::{read_rows, write_file},
};

/// The longest file of rows that is taken from somebody else.
pub const MAX_ROW_BYTES: usize = 256 << 20;

/// A snapshot that was sealed: the node's word, and where the rows are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sealed {
    /// Whose, of which epoch, which rows; signed.
    pub seal: SnapshotSeal,
    /// The address of the file of rows. It is not signed: what is in the file is.
    pub object: ObjectId,
}

/// Why somebody's snapshot is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SnapshotError {
    /// It is no document of a seal.
    #[error("it is not a sealed snapshot: {0}")]
    Malformed(String),
    /// The key is not that of the node it names.
    #[error("it is not signed by the key of {0}")]
    OtherKey(ActorId),
    /// Somebody else than the node, or nobody, said so.
    #[error("its signature is not good")]
    BadSignature,
    /// Usage that this node says it has does not count here.
    #[error("snapshots of {0} do not count here")]
    UnknownNode(ActorId),
    /// The snapshot belongs to another epoch.
    #[error("it belongs to epoch {0}")]
    OtherEpoch(Epoch),
    /// The file is too long.
    #[error("its rows take more than {MAX_ROW_BYTES} bytes")]
    TooLong,
    /// The file is none of rows.
    #[error("its file: {0}")]
    File(FileFault),
    /// The file could not be made.
    #[error("its file cannot be written: {0}")]
    NotWritten(String),
    /// A row cannot be.
    #[error("row {row}: {fault}")]
    Row {
        /// Index of the row, counted from zero.
        row: u64,
        /// What is wrong with the row.
        fault: RowFault,
    },
    /// The rows are not the sealed ones.
    #[error("its rows are not the sealed ones")]
    RowsDiffer,
    /// More rows, or a greater epoch, than can be written down.
    #[error("it has a number that is too large")]
    TooLarge,
}

impl From<SnapshotError> for std::io::Error {
    /// For those who write rows on while they read them.
    fn from(error: SnapshotError) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, error)
    }
}

/// The file of what was used in an epoch, each row once and in order; and the name of these rows, which any file of them
/// has.
///
/// # Errors
/// [`SnapshotError::Row`] if a name is not canonical or rows are out of order.
pub fn rows_of(used: &[Used]) -> Result<(Vec<u8>, Digest), SnapshotError> {
    let mut hasher = RowsHasher::new();
    for one in used {
        let row = Row { actor: one.actor.as_str(), metric: &one.metric, units: one.units };
        push(&mut hasher, row)?;
    }
    Ok((write_file(used)?, hasher.finish()))
}

/// A node's word for its rows.
///
/// # Errors
/// [`SnapshotError::TooLarge`].
pub fn seal_rows(
    key: &SigningKey,
    epoch: u64,
    rows: usize,
    rows_root: Digest,
) -> Result<SnapshotSeal, SnapshotError> {
    let epoch = Epoch::new(epoch).ok_or(SnapshotError::TooLarge)?;
    let rows = u64::try_from(rows).ok().and_then(Int::new).ok_or(SnapshotError::TooLarge)?;
    let node = node_actor(node_id(&key.public_key()));
    Ok(Snapshot { node, epoch, rows, rows_root }.seal(key))
}

/// Reads somebody's seal: well-formed, signed by the key of the node it names, which is one of `nodes`.
///
/// # Errors
/// [`SnapshotError`].
pub fn check_seal(document: &[u8], nodes: &BTreeSet<NodeId>) -> Result<SnapshotSeal, SnapshotError> {
    let seal = SnapshotSeal::read(document).map_err(|error| SnapshotError::Malformed(error.to_string()))?;
    let (node, named) = (node_id(&seal.key), &seal.snapshot.node);
    if node_actor(node) != *named {
        return Err(SnapshotError::OtherKey(named.clone()));
    }
    if !seal.is_good(&Ed25519) {
        return Err(SnapshotError::BadSignature);
    }
    if !nodes.contains(&node) {
        return Err(SnapshotError::UnknownNode(named.clone()));
    }
    Ok(seal)
}

/// Sees to it that a file has exactly the rows that were sealed.
///
/// # Errors
/// [`SnapshotError`].
pub fn check_rows(seal: &SnapshotSeal, file: &[u8]) -> Result<(), SnapshotError> {
    if file.len() > MAX_ROW_BYTES {
        return Err(SnapshotError::TooLong);
    }
    let mut hasher = RowsHasher::new();
    read_rows(file, |row| push(&mut hasher, row))?;
    let same = hasher.rows() == seal.snapshot.rows.get() && hasher.finish() == seal.snapshot.rows_root;
    if same { Ok(()) } else { Err(SnapshotError::RowsDiffer) }
}

fn push(hasher: &mut RowsHasher, row: Row<'_>) -> Result<(), SnapshotError> {
    let at = hasher.rows();
    hasher.push(row).map_err(|fault| SnapshotError::Row { row: at, fault })
}
