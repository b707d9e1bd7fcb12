//! Who used or provided something: a tenant, a node, or the crowd called `other`.

use std::{fmt, sync::Arc};

/// A bounded, printable name that usage is booked under. Never an IP address: snapshots leave the node.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ActorId(Arc<str>);

/// The text cannot name an actor.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("an actor is 1 to {max} printable ASCII characters without spaces", max = ActorId::MAX_LEN)]
pub struct InvalidActor;

impl ActorId {
    /// Begins the names of metrics of what an actor provides, and is paid for; others are of what it uses. Whoever uses
    /// something can be anybody, so bounds on how many actors are named count the two apart.
    pub const PROVIDED: &str = "provided.";

    /// The longest name, in bytes.
    pub const MAX_LEN: usize = 128;

    /// Checks and takes a name.
    ///
    /// # Errors
    /// [`InvalidActor`] if it is empty, too long, or not printable ASCII.
    pub fn new(name: &str) -> Result<Self, InvalidActor> {
        let fits = !name.is_empty() && name.len() <= Self::MAX_LEN;
        if fits && name.bytes().all(|b| b.is_ascii_graphic()) {
            Ok(Self(name.into()))
        } else {
            Err(InvalidActor)
        }
    }

    /// Everybody who has no entry of their own.
    #[must_use]
    pub fn other() -> Self {
        Self("other".into())
    }

    /// Returns the name as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ActorId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_bounded_and_printable() {
        assert_eq!(ActorId::new("acme").map(|a| a.to_string()), Ok("acme".to_owned()));
        assert!(ActorId::new(&"a".repeat(ActorId::MAX_LEN)).is_ok());
        for bad in ["", "two words", "tab\t", "é", &"a".repeat(ActorId::MAX_LEN + 1)] {
            assert_eq!(ActorId::new(bad), Err(InvalidActor), "{bad:?}");
        }
    }
}
