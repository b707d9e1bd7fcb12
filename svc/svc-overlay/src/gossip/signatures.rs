//! Which publications are signed, and whose keys are known.

use std::sync::Arc;

use gossip::Signatures;
use oap::{MessageId, Proof, Publication, Topic};
use ron_transport::tls::raw_key::PeerKey;
use types::NodeId;

use crate::shared::Shared;

/// Signs with this node's key, and checks with those that are known: of neighbours, and of the configuration. Heads bring
/// their publisher's key along, whose digest is the publisher's name.
pub(super) struct Keys(pub(super) Arc<Shared>);

impl Keys {
    fn key_of(&self, publisher: NodeId) -> Option<PeerKey> {
        let listed = self.0.settings.load().publishers.get(&publisher).copied();
        listed.or_else(|| self.0.peers.get(&publisher).and_then(|conn| conn.key))
    }

    fn is_signed(&self, topic: &Topic) -> bool {
        self.0.settings.load().signed.contains(topic)
    }
}

impl Signatures for Keys {
    fn sign(&self, publication: &Publication) -> Option<[u8; 64]> {
        self.is_signed(&publication.id.topic).then(|| self.0.key.sign(&publication.signed_bytes()))
    }

    fn verify(&self, publication: &Publication) -> bool {
        if !self.is_signed(&publication.id.topic) {
            return true;
        }
        let Some(signature) = &publication.signature else { return false };
        let key = self.key_of(publication.id.publisher);
        key.is_some_and(|key| key.verify(&publication.signed_bytes(), signature))
    }

    fn sign_head(&self, head: &MessageId) -> Proof {
        let key = *self.0.key.public_key().ed25519();
        Proof { key, signature: self.0.key.sign(&head.head_bytes()) }
    }

    fn verify_head(&self, head: &MessageId, proof: &Proof) -> bool {
        proof.is_key_of(head.publisher)
            && PeerKey::from_ed25519(proof.key).verify(&head.head_bytes(), &proof.signature)
    }

    fn is_known(&self, topic: &Topic, publisher: NodeId) -> bool {
        publisher == self.0.me || !self.is_signed(topic) || self.key_of(publisher).is_some()
    }

    fn is_listed(&self, publisher: NodeId) -> bool {
        let settings = self.0.settings.load();
        settings.publishers.contains_key(&publisher) || settings.listed.contains(&publisher)
    }
}
