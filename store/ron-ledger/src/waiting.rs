//! A ledger that is opened when it can be: a node starts before its database does.

use std::sync::{Mutex, OnceLock, TryLockError};

use ledgerbook::{Account, AccountId, Batch, Checkpoint, Key, Request};

use crate::{Ledger, LedgerError, Place, Posted, Scrutiny, Snapshot};

/// A ledger whose place may not answer yet. Every call tries to open it until that is done; until then it says why not.
#[derive(Debug)]
pub struct WaitingLedger {
    place: Place,
    scrutiny: Scrutiny,
    opened: OnceLock<Box<dyn Ledger>>,
    opening: Mutex<()>,
}

impl WaitingLedger {
    /// The ledger at a place; nothing is asked before the first call.
    #[must_use]
    pub fn new(place: Place, scrutiny: Scrutiny) -> Self {
        Self { place, scrutiny, opened: OnceLock::new(), opening: Mutex::default() }
    }

    /// Opens it, unless it is open.
    ///
    /// # Errors
    /// [`LedgerError`]; [`LedgerError::Unavailable`] while another thread opens it.
    pub fn open(&self) -> Result<&dyn Ledger, LedgerError> {
        if let Some(opened) = self.opened.get() {
            return Ok(&**opened);
        }
        // Whoever comes meanwhile is told, and does not wait: opening reads the whole ledger.
        let _opening = match self.opening.try_lock() {
            Ok(opening) => opening,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                return Err(LedgerError::Unavailable("it is being opened and checked".to_owned()));
            }
        };
        if self.opened.get().is_none() {
            let _ = self.opened.set(self.place.open(&self.scrutiny)?);
        }
        let opened =
            self.opened.get().ok_or_else(|| LedgerError::Unavailable("it is not open".to_owned()))?;
        Ok(&**opened)
    }
}

impl Ledger for WaitingLedger {
    fn post(&self, batch: &Batch) -> Result<Posted, LedgerError> {
        self.open()?.post(batch)
    }

    fn account(&self, id: &AccountId) -> Result<Option<Account>, LedgerError> {
        self.open()?.account(id)
    }

    fn request(&self, key: &Key) -> Result<Option<Request>, LedgerError> {
        self.open()?.request(key)
    }

    fn snapshot(&self) -> Result<Box<dyn Snapshot + '_>, LedgerError> {
        self.open()?.snapshot()
    }

    fn keep_checkpoint(&self, checkpoint: &Checkpoint) -> Result<(), LedgerError> {
        self.open()?.keep_checkpoint(checkpoint)
    }

    fn fill(&self, from: &mut dyn Snapshot) -> Result<(), LedgerError> {
        self.open()?.fill(from)
    }
}
