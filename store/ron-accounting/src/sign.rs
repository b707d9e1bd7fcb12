//! Who says so: the keys of nodes, and the arithmetic of their signatures.

use std::{fmt, sync::Arc};

use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use rewards::{PublicKey, Sign, Signature};
use types::{ActorId, NodeId};

/// The node's key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("it is not an Ed25519 key in PKCS#8, or the system has no random numbers")]
pub struct KeyError;

/// What the node with this key is called.
#[must_use]
pub fn node_id(key: &PublicKey) -> NodeId {
    NodeId::of_key(key.as_bytes())
}

/// The same, as the name that its snapshots carry.
#[must_use]
pub fn node_actor(node: NodeId) -> ActorId {
    ActorId::new(&node.to_string()).expect("67 printable characters name an actor")
}

/// The key pair of this node. Clones share it; nothing prints the private half.
#[derive(Clone)]
pub struct SigningKey(Arc<Ed25519KeyPair>);

impl SigningKey {
    /// A key that ends with the process.
    ///
    /// # Errors
    /// [`KeyError`] without random numbers.
    pub fn generate() -> Result<Self, KeyError> {
        Ed25519KeyPair::generate().map(|pair| Self(Arc::new(pair))).map_err(|_| KeyError)
    }

    /// The key in a PKCS#8 document.
    ///
    /// # Errors
    /// [`KeyError`] if there is none.
    pub fn from_pkcs8(der: &[u8]) -> Result<Self, KeyError> {
        Ed25519KeyPair::from_pkcs8_maybe_unchecked(der).map(|pair| Self(Arc::new(pair))).map_err(|_| KeyError)
    }

    /// Returns the id of this node.
    #[must_use]
    pub fn node(&self) -> NodeId {
        node_id(&self.public_key())
    }
}

impl Sign for SigningKey {
    fn public_key(&self) -> PublicKey {
        let mut key = [0; 32];
        key.copy_from_slice(self.0.public_key().as_ref());
        PublicKey::new(key)
    }

    fn sign(&self, message: &[u8]) -> Signature {
        let mut signature = [0; 64];
        signature.copy_from_slice(self.0.sign(message).as_ref());
        Signature::new(signature)
    }
}

impl fmt::Debug for SigningKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("SigningKey").field(&self.public_key()).finish()
    }
}
