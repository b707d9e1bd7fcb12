//! The nodes that a token names.

use std::fmt;

use types::NodeId;

use crate::TokenError;

/// Length of a node's id in bytes.
const ID_LEN: usize = 32;

/// A list of nodes as a caveat holds it: one to seven ids, one after the other.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Nodes<'a>(&'a [u8]);

impl<'a> Nodes<'a> {
    /// Reads and checks a caveat's value.
    pub(crate) fn read(value: &'a [u8]) -> Result<Self, TokenError> {
        match value.len() {
            0 => Err(TokenError::Malformed("a node must be named")),
            len if len % ID_LEN != 0 => Err(TokenError::Malformed("a node has 32 bytes")),
            len if len > usize::from(u8::MAX) => {
                Err(TokenError::Malformed("at most seven nodes can be named"))
            }
            _ => Ok(Self(value)),
        }
    }

    /// The nodes, first to last.
    pub fn iter(self) -> impl Iterator<Item = NodeId> + use<'a> {
        self.0.as_chunks::<ID_LEN>().0.iter().map(|id| NodeId::new(*id))
    }

    /// Whether a node is one of them.
    #[must_use]
    pub fn contains(self, node: NodeId) -> bool {
        self.iter().any(|named| named == node)
    }

    pub(crate) fn as_bytes(self) -> &'a [u8] {
        self.0
    }
}

impl fmt::Display for Nodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (at, node) in self.iter().enumerate() {
            write!(f, "{}{node}", if at == 0 { "" } else { "," })?;
        }
        Ok(())
    }
}

impl fmt::Debug for Nodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Nodes({self})")
    }
}
