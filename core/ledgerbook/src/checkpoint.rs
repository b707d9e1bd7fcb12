//! A signed statement of where the chain stood and what every account had.

use crate::{
    Account, Hash, Link,
    encode::{Encoder, Tag},
    merkle,
};

/// Where the chain ended and what every account had, signed. Everything before it can be believed by the signature.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoint {
    /// The last link of the hash chain that the checkpoint covers.
    pub link: Link,
    /// The root over all accounts at that link.
    pub state: Hash,
    /// Whose signature it is: an Ed25519 public key.
    pub key: [u8; 32],
    /// The signature over [`Checkpoint::payload`].
    pub signature: [u8; 64],
}

impl Checkpoint {
    /// What is signed: lines of text, the first of which keeps the signature from meaning anything elsewhere.
    #[must_use]
    pub fn payload(link: &Link, state: &Hash) -> String {
        let (hash, state) = (hex(&link.hash), hex(state));
        format!(
            "omnigate-ledger-checkpoint-v1\nlink {}\naccounts {}\nrequests {}\nentries {}\nchain {hash}\nstate {state}\n",
            link.number, link.accounts, link.requests, link.entries
        )
    }
}

/// The root over all accounts, told in order of their numbers.
#[derive(Debug)]
pub struct StateRoot {
    encoder: Encoder,
    leaves: Vec<Hash>,
}

impl StateRoot {
    /// Starts a Merkle root over no accounts.
    #[must_use]
    pub fn new() -> Self {
        Self { encoder: Encoder::new(), leaves: Vec::new() }
    }

    /// Adds the next account.
    pub fn account(&mut self, account: &Account) {
        let encoder = self.encoder.begin(Tag::Account).number(account.number).text(account.id.as_str());
        encoder.text(account.asset.as_str()).floor(account.floor).balance(account.balance);
        self.leaves.push(encoder.balance(account.held).number(account.opened).finish());
    }

    /// Returns the Merkle root over all accounts.
    #[must_use]
    pub fn finish(self) -> Hash {
        merkle::root(self.leaves)
    }
}

impl Default for StateRoot {
    fn default() -> Self {
        Self::new()
    }
}

fn hex(hash: &Hash) -> String {
    hash.iter().map(|byte| format!("{byte:02x}")).collect()
}
