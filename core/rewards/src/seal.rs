//! A node's word for what it counted: the snapshot's name, signed.

use types::{ActorId, NodeId};

use crate::{
    Digest, DocumentError, Epoch, Int, Json, PublicKey, Sign, Signature, Verify, json::fields::Fields,
};

/// What a snapshot is: whose, of which epoch, which rows.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Snapshot {
    /// The node that counted.
    pub node: ActorId,
    /// The epoch of the snapshot.
    pub epoch: Epoch,
    /// Number of rows in the snapshot.
    pub rows: Int,
    /// The hash over the rows, as [`RowsHasher`](crate::RowsHasher) gives it.
    pub rows_root: Digest,
}

/// A snapshot's name with a signature. Whether it is that of the node is for [`SnapshotSeal::is_by_its_node`] to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SnapshotSeal {
    /// The snapshot that is sealed.
    pub snapshot: Snapshot,
    /// The public key of the node.
    pub key: PublicKey,
    /// The signature over [`Snapshot::message`].
    pub signature: Signature,
}

impl Snapshot {
    /// What a node signs: a line that says what it is, and the snapshot in canonical JSON.
    #[must_use]
    pub fn message(&self) -> Vec<u8> {
        [b"omnigate.rewards.seal.1\n", self.json().to_canonical().as_slice()].concat()
    }

    /// Signs the snapshot with the node's key.
    #[must_use]
    pub fn seal(self, with: &dyn Sign) -> SnapshotSeal {
        let signature = with.sign(&self.message());
        SnapshotSeal { snapshot: self, key: with.public_key(), signature }
    }

    pub(crate) fn json(&self) -> Json {
        Json::map([
            ("epoch", Json::Int(self.epoch.int())),
            ("node", Json::text(&self.node)),
            ("rows", Json::Int(self.rows)),
            ("rows_root", Json::text(self.rows_root)),
        ])
    }

    pub(crate) fn from_json(json: Json) -> Result<Self, DocumentError> {
        let mut fields = Fields::of(json, "snapshot")?;
        let snapshot = Self {
            node: fields.text("node", ActorId::new)?,
            epoch: fields.int("epoch")?.into(),
            rows: fields.int("rows")?,
            rows_root: fields.parsed("rows_root")?,
        };
        fields.end()?;
        Ok(snapshot)
    }
}

impl SnapshotSeal {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-seal/1";

    /// Whether the signature is good. Whose key it is, is another question: see [`Self::is_by_its_node`].
    #[must_use]
    pub fn is_good(&self, verify: &dyn Verify) -> bool {
        verify.is_signed(&self.key, &self.snapshot.message(), &self.signature)
    }

    /// Whether the key is that of the node that the snapshot names: a node's id is the hash of its key.
    #[must_use]
    pub fn is_by_its_node(&self) -> bool {
        NodeId::of_key(self.key.as_bytes()).to_string() == self.snapshot.node.as_str()
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Json::map([
            ("format", Json::text(Self::FORMAT)),
            ("key", Json::text(self.key)),
            ("signature", Json::text(self.signature)),
            ("snapshot", self.snapshot.json()),
        ])
        .to_canonical()
    }

    /// Reads a document. The signature is not checked.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical or lacks something.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let mut fields = Fields::of_document(Json::read_canonical(bytes)?, Self::FORMAT)?;
        let seal = Self {
            key: fields.parsed("key")?,
            signature: fields.parsed("signature")?,
            snapshot: Snapshot::from_json(fields.take("snapshot")?)?,
        };
        fields.end()?;
        Ok(seal)
    }
}
