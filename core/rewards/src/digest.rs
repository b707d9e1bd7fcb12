//! Keyed BLAKE3: each kind of thing is hashed under a key of its own, so that no hash of one can pass for another's.

use std::{fmt, str::FromStr};

use types::ObjectId;

/// The hash of something of a known kind: `b3k:` and 64 lower-case hexadecimal digits.
///
/// It is BLAKE3's keyed hash; the key is the kind's name, filled up with dots to 32 bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

/// The text is no digest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a digest is `b3k:` and 64 lower-case hexadecimal digits")]
pub struct InvalidDigest;

/// A kind of thing that is hashed: the key.
#[derive(Clone, Copy)]
pub(crate) struct Domain([u8; 32]);

impl Domain {
    /// The rows of a snapshot.
    pub(crate) const ROWS: Self = Self::named("omnigate.rewards.rows.1");
    /// The list of an epoch's snapshots.
    pub(crate) const INPUTS: Self = Self::named("omnigate.rewards.inputs.1");
    /// Hash context of a policy's terms.
    pub(crate) const POLICY: Self = Self::named("omnigate.rewards.policy.1");
    /// What a run is made of.
    pub(crate) const RUN_KEY: Self = Self::named("omnigate.rewards.run-key.1");
    /// Hash context of a run's manifest.
    pub(crate) const COMMITMENT: Self = Self::named("omnigate.rewards.commitment.1");
    /// A line of `allocations.jsonl`, without its line feed.
    pub(crate) const LEAF: Self = Self::named("omnigate.rewards.leaf.1");
    /// Two nodes of the tree over the lines, left before right.
    pub(crate) const NODE: Self = Self::named("omnigate.rewards.node.1");

    /// A correction of an earlier run.
    pub(crate) const CORRECTION: Self = Self::named("omnigate.rewards.correction.1");
    /// A registry of payees.
    pub(crate) const PAYEES: Self = Self::named("omnigate.rewards.payees.1");
    /// What a run takes over from before.
    pub(crate) const BROUGHT: Self = Self::named("omnigate.rewards.brought.1");

    /// An objection to a run.
    pub(crate) const DISPUTE: Self = Self::named("omnigate.rewards.dispute.1");

    const fn named(name: &str) -> Self {
        let (name, mut key, mut at) = (name.as_bytes(), [b'.'; 32], 0);
        assert!(name.len() <= 32, "a key has 32 bytes");
        while at < name.len() {
            key[at] = name[at];
            at += 1;
        }
        Self(key)
    }

    pub(crate) fn hash(self, bytes: &[u8]) -> Digest {
        Digest(*blake3::keyed_hash(&self.0, bytes).as_bytes())
    }

    pub(crate) fn hasher(self) -> blake3::Hasher {
        blake3::Hasher::new_keyed(&self.0)
    }
}

impl Digest {
    /// The prefix of every digest in text form.
    pub const PREFIX: &str = "b3k:";

    /// The digest of these bytes.
    #[must_use]
    pub const fn new(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    /// Returns the digest as raw bytes.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }

    /// The digits alone, for the names of files.
    #[must_use]
    pub fn hex(&self) -> String {
        ObjectId::new(self.0).hex()
    }
}

impl From<blake3::Hash> for Digest {
    fn from(hash: blake3::Hash) -> Self {
        Self(*hash.as_bytes())
    }
}

impl FromStr for Digest {
    type Err = InvalidDigest;

    fn from_str(text: &str) -> Result<Self, InvalidDigest> {
        let digits = text.strip_prefix(Self::PREFIX).ok_or(InvalidDigest)?;
        ObjectId::from_hex(digits).map(|id| Self(*id.as_bytes())).map_err(|_| InvalidDigest)
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&format!("{}{}", Self::PREFIX, self.hex()))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_do_not_share_hashes() {
        let all = [
            Domain::ROWS,
            Domain::INPUTS,
            Domain::POLICY,
            Domain::RUN_KEY,
            Domain::COMMITMENT,
            Domain::LEAF,
            Domain::NODE,
            Domain::CORRECTION,
            Domain::PAYEES,
            Domain::BROUGHT,
            Domain::DISPUTE,
        ];
        let hashes: std::collections::BTreeSet<_> = all.iter().map(|domain| domain.hash(b"same")).collect();
        assert_eq!(hashes.len(), all.len());
        assert_eq!(&Domain::LEAF.0, b"omnigate.rewards.leaf.1.........");
    }

    #[test]
    fn a_digest_has_one_text() {
        let digest = Domain::LEAF.hash(b"x");
        assert_eq!((digest.to_string().parse(), format!("{digest:?}")), (Ok(digest), digest.to_string()));
        let capital = digest.to_string().to_uppercase();
        for wrong in ["", "b3k:", "b3:00", capital.as_str(), &digest.hex()] {
            assert_eq!(wrong.parse::<Digest>(), Err(InvalidDigest), "{wrong}");
        }
    }
}
