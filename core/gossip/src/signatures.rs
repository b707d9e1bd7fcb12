//! Who signs and who checks: the engine decides what is checked and when, somebody else knows the keys.

use oap::{MessageId, Proof, Publication, Topic};
use types::NodeId;

/// Signs this node's publications and heads, and checks those of others.
pub trait Signatures: Send {
    /// The signature of a publication of this node's own, if its topic is signed.
    fn sign(&self, publication: &Publication) -> Option<[u8; 64]>;

    /// Whether a publication of another node is signed as its topic demands. Asked once per publication, whose digest is
    /// known to be right.
    fn verify(&self, publication: &Publication) -> bool;

    /// This node's word that it has published up to `head`.
    fn sign_head(&self, head: &MessageId) -> Proof;

    /// Whether a proof is the publisher's word that it has published up to `head`: the key is the publisher's, and the
    /// signature is the key's.
    fn verify_head(&self, head: &MessageId, proof: &Proof) -> bool;

    /// Whether what this publisher says in this topic can be checked as the topic demands. What cannot is passed
    /// over, and not held against the peer that relayed it.
    fn is_known(&self, _topic: &Topic, _publisher: NodeId) -> bool {
        true
    }

    /// Whether a publisher is listed by this node's operator, so that there is always room for it.
    fn is_listed(&self, _publisher: NodeId) -> bool {
        false
    }
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

    fn sign_head(&self, _: &MessageId) -> Proof {
        Proof { key: [0; 32], signature: [0; 64] }
    }

    fn verify_head(&self, _: &MessageId, _: &Proof) -> bool {
        true
    }
}
