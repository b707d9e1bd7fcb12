//! What every ledger does, wherever it keeps its rows.

use std::fmt::Debug;

use ledgerbook::{Account, AccountId, Batch, Checkpoint, Entry, Key, Link, Receipt, Request};

use crate::LedgerError;

/// A batch is in the ledger, and on the disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Posted {
    /// Where it stands in the journal.
    pub receipt: Receipt,
    /// Whether it was there before: the receipt is that of the first time.
    pub replayed: bool,
}

/// A ledger. Every call blocks until it is done; calls from many threads are committed together.
pub trait Ledger: Send + Sync + Debug {
    /// Posts a batch, exactly once however often it is sent. When this returns, it is on the disk.
    ///
    /// # Errors
    /// [`LedgerError`], whose table says what to do. A batch that is refused leaves nothing, and its key stays free.
    fn post(&self, batch: &Batch) -> Result<Posted, LedgerError>;

    /// The account of this name, as it stands.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn account(&self, id: &AccountId) -> Result<Option<Account>, LedgerError>;

    /// The request that was posted under a key.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn request(&self, key: &Key) -> Result<Option<Request>, LedgerError>;

    /// The ledger as it stands now, to be read at leisure: what is posted meanwhile does not show.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, LedgerError>;

    /// Stores a checkpoint that was signed. One that is there already is left as it is.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn keep_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), LedgerError>;

    /// Takes over everything another ledger has, in one transaction.
    ///
    /// # Errors
    /// [`LedgerError::BadSetup`] unless this one is empty.
    fn fill(&self, from: &mut dyn Snapshot) -> Result<(), LedgerError>;
}

/// A moment of a ledger. Rows come in order of their numbers, those after `after`, at most `limit`.
pub trait Snapshot {
    /// Checks what the store itself can check of its files: that its indexes agree with its tables.
    ///
    /// # Errors
    /// [`LedgerError::Damaged`] if they do not.
    fn check_structure(&mut self) -> Result<(), LedgerError>;

    /// The last link.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn head(&mut self) -> Result<Link, LedgerError>;

    /// Accounts.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn accounts(&mut self, after: u64, limit: u32) -> Result<Vec<Account>, LedgerError>;

    /// Requests.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn requests(&mut self, after: u64, limit: u32) -> Result<Vec<Request>, LedgerError>;

    /// Entries.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn entries(&mut self, after: u64, limit: u32) -> Result<Vec<Entry>, LedgerError>;

    /// Links.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn links(&mut self, after: u64, limit: u32) -> Result<Vec<Link>, LedgerError>;

    /// Checkpoints in order of their links, without the first `skip`.
    ///
    /// # Errors
    /// [`LedgerError`].
    fn checkpoints(&mut self, skip: u64, limit: u32) -> Result<Vec<Checkpoint>, LedgerError>;
}
