//! Which publications are signed, and whose keys are known.

use std::sync::Arc;

use gossip::Signatures;
use oap::Publication;

use crate::shared::Shared;

/// Signs with this node's key, and checks with those that are known: of neighbours, and of the configuration.
pub(super) struct Keys(pub(super) Arc<Shared>);

impl Signatures for Keys {
    fn sign(&self, publication: &Publication) -> Option<[u8; 64]> {
        let is_signed = self.0.settings.load().signed.contains(&publication.id.topic);
        is_signed.then(|| self.0.key.sign(&publication.signed_bytes()))
    }

    fn verify(&self, publication: &Publication) -> bool {
        let settings = self.0.settings.load();
        if !settings.signed.contains(&publication.id.topic) {
            return true;
        }
        let Some(signature) = &publication.signature else { return false };
        let key = settings.publishers.get(&publication.id.publisher).copied();
        let key = key.or_else(|| self.0.peers.get(&publication.id.publisher).and_then(|conn| conn.key));
        key.is_some_and(|key| key.verify(&publication.signed_bytes(), signature))
    }
}
