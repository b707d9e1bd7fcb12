//! Who signs and who checks: the engine decides what is checked and when, somebody else knows the keys.

use oap::Publication;

/// Signs this node's publications and checks those of others.
pub trait Signatures: Send {
    /// The signature of a publication of this node's own, if its topic is signed.
    fn sign(&self, publication: &Publication) -> Option<[u8; 64]>;

    /// Whether a publication of another node is signed as its topic demands. Asked once per publication, whose digest is
    /// known to be right.
    fn verify(&self, publication: &Publication) -> bool;
}

/// Signs nothing and takes everything.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unsigned;

impl Signatures for Unsigned {
    fn sign(&self, _: &Publication) -> Option<[u8; 64]> {
        None
    }

    fn verify(&self, _: &Publication) -> bool {
        true
    }
}
