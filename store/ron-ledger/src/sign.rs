//! Signed checkpoints.

use aws_lc_rs::signature::{ED25519, Ed25519KeyPair, KeyPair, UnparsedPublicKey};
use ledgerbook::{Checkpoint, StateRoot};

use crate::{Ledger, LedgerError, pages, verify};

/// A signer of checkpoints: the node, with its Ed25519 key.
pub trait Signer {
    /// Returns the public key.
    fn public_key(&self) -> [u8; 32];

    /// The signature over a payload.
    fn sign(&self, payload: &[u8]) -> [u8; 64];
}

/// A node's key pair.
pub struct NodeKey(Ed25519KeyPair);

impl NodeKey {
    /// The key pair of a seed. `None` if there is none.
    #[must_use]
    pub fn from_seed(seed: &[u8; 32]) -> Option<Self> {
        Ed25519KeyPair::from_seed_unchecked(seed).ok().map(Self)
    }

    /// The key pair in a PKCS #8 document. `None` if it is none of an Ed25519 key.
    #[must_use]
    pub fn from_pkcs8(document: &[u8]) -> Option<Self> {
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(document).ok().map(Self)
    }
}

impl std::fmt::Debug for NodeKey {
    /// Formats the key without the secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("NodeKey").field(&self.public_key()).finish()
    }
}

impl Signer for NodeKey {
    fn public_key(&self) -> [u8; 32] {
        let key = self.0.public_key().as_ref();
        key.try_into().expect("an Ed25519 public key has 32 bytes")
    }

    fn sign(&self, payload: &[u8]) -> [u8; 64] {
        let signature = self.0.sign(payload);
        signature.as_ref().try_into().expect("an Ed25519 signature has 64 bytes")
    }
}

/// Checks the whole ledger as it stands, signs what it says, and stores the signature. `None` if it is empty.
///
/// # Errors
/// [`LedgerError::Damaged`] if it is not whole: that is not signed.
pub fn checkpoint(ledger: &dyn Ledger, signer: &dyn Signer) -> Result<Option<Checkpoint>, LedgerError> {
    let mut snapshot = ledger.snapshot()?;
    let link = snapshot.head()?;
    if link.number == 0 {
        return Ok(None);
    }
    // What was signed last by this key is believed, so that a checkpoint costs what happened since.
    verify::since_checkpoint(&mut *snapshot, &[signer.public_key()])?;
    let mut root = StateRoot::new();
    let mut accounts = pages::accounts();
    while let Some(account) = accounts.next(&mut *snapshot)? {
        root.account(&account);
    }
    drop(snapshot);
    let state = root.finish();
    let signature = signer.sign(Checkpoint::payload(&link, &state).as_bytes());
    let checkpoint = Checkpoint { link, state, key: signer.public_key(), signature };
    ledger.keep_checkpoint(&checkpoint)?;
    Ok(Some(checkpoint))
}

/// Whether the signature of a checkpoint is that of its key.
pub(crate) fn is_signed(checkpoint: &Checkpoint) -> bool {
    let payload = Checkpoint::payload(&checkpoint.link, &checkpoint.state);
    UnparsedPublicKey::new(&ED25519, checkpoint.key).verify(payload.as_bytes(), &checkpoint.signature).is_ok()
}
