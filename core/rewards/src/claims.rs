//! Payouts that are claimed on a chain instead of being transferred by a ledger.
//!
//! The payouts of an epoch become leaves of (address, amount), and a contract that knows their root pays each leaf once to
//! whoever shows its proof. The tree is laid out as OpenZeppelin's `StandardMerkleTree` does it (npm
//! `@openzeppelin/merkle-tree`, format `standard-v1`), so its proofs hold in OpenZeppelin's `MerkleProof` contract.

mod address;
mod tree;

use std::collections::BTreeMap;

use types::ActorId;

use crate::{AllocationLine, Amount, Digest, DocumentError, Epoch, Manifest, Payees, Tree, digest::Domain};

pub use address::{AddressBook, AddressBookError, EvmAddress, InvalidAddress};
pub use tree::{ClaimLeaf, ClaimTree, Keccak};

/// So many actors without an address are named in an error.
const NAMED: usize = 8;

/// Collects the claims of an epoch from the lines of `allocations.jsonl`.
#[derive(Debug)]
pub struct ClaimsBuilder<'a> {
    addresses: &'a AddressBook,
    payees: Option<(&'a Payees, Epoch)>,
    leaves: Vec<Digest>,
    amounts: BTreeMap<EvmAddress, Amount>,
    paid: Amount,
    unbound: Unbound,
}

/// Payouts of actors whose receivers have no address.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unbound {
    /// The number of actors that are paid and whose receivers have no address.
    pub actors: usize,
    /// What they are paid in all.
    pub amount: Amount,
    /// The receivers of the first of them: the actors, or their payees.
    pub first: Vec<ActorId>,
}

/// The reason why no claims can be made.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClaimsError {
    /// A line cannot be read.
    #[error("line {line} of allocations.jsonl: {error}")]
    Malformed {
        /// Line number, counted from one.
        line: usize,
        /// What is wrong with the line.
        error: DocumentError,
    },
    /// The lines are not those of the run.
    #[error("the lines are not those that run.json names")]
    OtherRun,
    /// The epoch pays nobody who has an address.
    #[error("there is nothing to claim: nobody with an address is paid")]
    Nothing,
}

impl<'a> ClaimsBuilder<'a> {
    /// Nothing is collected yet. Receivers have the addresses of the book; one whose name is an address has that one
    /// unless the book says otherwise.
    #[must_use]
    pub const fn new(addresses: &'a AddressBook) -> Self {
        let unbound = Unbound { actors: 0, amount: Amount::ZERO, first: Vec::new() };
        Self {
            addresses,
            payees: None,
            leaves: Vec::new(),
            amounts: BTreeMap::new(),
            paid: Amount::ZERO,
            unbound,
        }
    }

    /// Has actors paid to their payees, as this registry says for the epoch.
    #[must_use]
    pub const fn to_payees(mut self, payees: &'a Payees, epoch: Epoch) -> Self {
        self.payees = Some((payees, epoch));
        self
    }

    /// Takes the next line, given without its line feed.
    ///
    /// # Errors
    /// [`ClaimsError::Malformed`] if it is no allocation, [`ClaimsError::OtherRun`] if the payouts exceed any pool.
    pub fn line(&mut self, line: &[u8]) -> Result<(), ClaimsError> {
        self.leaves.push(Domain::LEAF.hash(line));
        let malformed = |error| ClaimsError::Malformed { line: self.leaves.len(), error };
        let line = AllocationLine::read(line).map_err(malformed)?;
        if line.payout == Amount::ZERO {
            return Ok(());
        }
        self.paid = self.paid.checked_add(line.payout).ok_or(ClaimsError::OtherRun)?;
        let receiver = self.receiver_of(line.actor);
        let sum = match self.addresses.of(&receiver) {
            Some(address) => self.amounts.entry(address).or_default(),
            None => self.unbound.add(receiver),
        };
        // No sum exceeds what is paid in all.
        *sum = sum.checked_add(line.payout).ok_or(ClaimsError::OtherRun)?;
        Ok(())
    }

    /// Whose account the payout of an actor goes to.
    fn receiver_of(&self, actor: ActorId) -> ActorId {
        let payee = self.payees.map(|(payees, epoch)| payees.payee_of(actor.as_str(), epoch));
        payee.and_then(|payee| ActorId::new(payee).ok()).unwrap_or(actor)
    }

    /// The tree of all claims, and who is left out of it for want of an address. The lines have to be those of the run.
    ///
    /// # Errors
    /// [`ClaimsError`], if they are not, or if nobody can claim anything.
    pub fn finish(self, manifest: &Manifest) -> Result<(ClaimTree, Unbound), ClaimsError> {
        if Tree::new(self.leaves).root() != manifest.allocations.root || self.paid != manifest.paid {
            return Err(ClaimsError::OtherRun);
        }
        let leaves = self.amounts.into_iter().map(|(address, amount)| ClaimLeaf { address, amount });
        let tree = ClaimTree::new(leaves.collect()).ok_or(ClaimsError::Nothing)?;
        Ok((tree, self.unbound))
    }
}

impl Unbound {
    /// Counts an actor by its receiver; gives the sum that its payout is added to.
    fn add(&mut self, receiver: ActorId) -> &mut Amount {
        self.actors += 1;
        if self.first.len() < NAMED && !self.first.contains(&receiver) {
            self.first.push(receiver);
        }
        &mut self.amount
    }
}
