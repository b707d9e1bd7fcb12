//! What a node is called: by the BLAKE3 hash of its public key, so that whoever proves the key proves the name.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de};

use crate::b3_text;

/// The name of a node, `b3:` and 64 lower-case hexadecimal digits: the BLAKE3 hash of its raw Ed25519 public key.
///
/// One node has one name and one text for it, so that names can be compared as text wherever they travel.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct NodeId([u8; 32]);

/// The text does not name a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a node is named by `b3:` and 64 lower-case hexadecimal digits")]
pub struct InvalidNodeId;

impl NodeId {
    /// The length of a name as text.
    pub const TEXT_LEN: usize = b3_text::TEXT_LEN;

    /// The name with these bytes, as it travels in frames.
    #[must_use]
    pub const fn new(hash: [u8; 32]) -> Self {
        Self(hash)
    }

    /// The name of the node with this raw Ed25519 public key.
    #[must_use]
    pub fn of_key(public_key: &[u8; 32]) -> Self {
        Self(*blake3::hash(public_key).as_bytes())
    }

    /// Returns the hash as raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl FromStr for NodeId {
    type Err = InvalidNodeId;

    fn from_str(text: &str) -> Result<Self, InvalidNodeId> {
        b3_text::decode(text).map(Self).ok_or(InvalidNodeId)
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(b3_text::encode(&self.0, &mut [0; Self::TEXT_LEN]))
    }
}

impl fmt::Debug for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl Serialize for NodeId {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(b3_text::encode(&self.0, &mut [0; Self::TEXT_LEN]))
    }
}

impl<'de> Deserialize<'de> for NodeId {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_node_is_named_by_the_hash_of_its_key() {
        let key = [7; 32];
        let id = NodeId::of_key(&key);
        assert_eq!(id.as_bytes(), blake3::hash(&key).as_bytes());
        assert_eq!((NodeId::new(*id.as_bytes()), id.to_string().parse()), (id, Ok(id)));
        assert_eq!((id.to_string(), id.to_string().len()), (format!("{id:?}"), NodeId::TEXT_LEN));
    }

    #[test]
    fn any_other_text_is_refused() {
        let text = NodeId::of_key(&[7; 32]).to_string();
        let capitals = text.to_uppercase();
        let long = format!("{text}0");
        for wrong in ["", "b3:", &text[3..], &text[..66], &long, &capitals] {
            assert_eq!(wrong.parse::<NodeId>(), Err(InvalidNodeId), "{wrong}");
        }
    }

    #[test]
    fn names_travel_as_strings() {
        let id = NodeId::of_key(&[7; 32]);
        let json = serde_json::to_string(&id).expect("a string");
        assert_eq!((json.as_str(), serde_json::from_str(&json).ok()), (&*format!("\"{id}\""), Some(id)));
        assert!(serde_json::from_str::<NodeId>("\"b3:00\"").is_err());
    }
}
