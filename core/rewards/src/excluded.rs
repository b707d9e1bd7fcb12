//! Snapshots that are left out of an epoch, because one node's rows must not keep everybody else from being paid.
//!
//! Each snapshot is judged by itself. The limit on its points is such that those of as many snapshots as an epoch may have
//! add up within 128 bits, so that no node can make the sums of others overflow.

use crate::{
    DocumentError, Epoch, InputSet, Json, Policy, PublicKey, Quarantine, Sign, Signature, Snapshot, Verify,
    json::fields::Fields, run::total_score,
};

/// The most points that one snapshot may have: 4096 of them add up to less than 2¹²⁸.
pub const MAX_SNAPSHOT_POINTS: u128 = (1 << 116) - 1;
/// The most actors with points that one snapshot may have.
pub const MAX_SNAPSHOT_ACTORS: usize = 1_000_000;

/// Judges a snapshot by itself: `alone` has its rows and nobody else's.
///
/// # Errors
/// [`Quarantine`], with the reason why it is left out of an epoch that cannot be computed with it.
pub fn judge_snapshot(policy: &Policy, alone: &InputSet) -> Result<(), Quarantine> {
    if alone.actors() > MAX_SNAPSHOT_ACTORS {
        return Err(Quarantine::TooMany("actors in one snapshot"));
    }
    if total_score(policy, alone)? > MAX_SNAPSHOT_POINTS {
        return Err(Quarantine::Overflow("the points of one snapshot"));
    }
    Ok(())
}

/// A snapshot that is left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Excluded {
    /// The snapshot that was left out.
    pub snapshot: Snapshot,
    /// Why, as one word: see [`Quarantine::code`].
    pub reason: String,
    /// A sentence for people.
    pub detail: String,
}

/// `excluded.json`: the snapshots that are left out of an epoch, signed by the node that computed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExclusionNotice {
    /// The epoch that was computed without these snapshots.
    pub epoch: Epoch,
    /// In the order of their nodes.
    pub excluded: Vec<Excluded>,
    /// The key of the node that excluded the snapshots.
    pub key: PublicKey,
    /// The signature by this key.
    pub signature: Signature,
}

impl ExclusionNotice {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-excluded/1";

    /// States that these are left out.
    #[must_use]
    pub fn of(epoch: Epoch, excluded: Vec<Excluded>, signer: &dyn Sign) -> Self {
        let signature = signer.sign(&message(epoch, &excluded));
        Self { epoch, excluded, key: signer.public_key(), signature }
    }

    /// Whether the signature is good. Whose key it is, is another question.
    #[must_use]
    pub fn is_good(&self, verify: &dyn Verify) -> bool {
        verify.is_signed(&self.key, &message(self.epoch, &self.excluded), &self.signature)
    }

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        Json::map([
            ("epoch", Json::Int(self.epoch.int())),
            ("excluded", list(&self.excluded)),
            ("format", Json::text(Self::FORMAT)),
            ("key", Json::text(self.key)),
            ("signature", Json::text(self.signature)),
        ])
        .to_canonical()
    }

    /// Reads a document. The signature is not checked.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical or lacks something.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let mut fields = Fields::of_document(Json::read_canonical(bytes)?, Self::FORMAT)?;
        let notice = Self {
            epoch: fields.int("epoch")?.into(),
            excluded: fields.list("excluded")?.into_iter().map(one).collect::<Result<_, _>>()?,
            key: fields.parsed("key")?,
            signature: fields.parsed("signature")?,
        };
        fields.end()?;
        Ok(notice)
    }
}

fn list(excluded: &[Excluded]) -> Json {
    let one = |excluded: &Excluded| {
        Json::map([
            ("detail", Json::text(&excluded.detail)),
            ("reason", Json::text(&excluded.reason)),
            ("snapshot", excluded.snapshot.json()),
        ])
    };
    Json::List(excluded.iter().map(one).collect())
}

fn one(json: Json) -> Result<Excluded, DocumentError> {
    let mut fields = Fields::of(json, "excluded")?;
    let text = |text: &str| Ok::<_, ()>(text.to_owned());
    let excluded = Excluded {
        snapshot: Snapshot::from_json(fields.take("snapshot")?)?,
        reason: fields.text("reason", text)?,
        detail: fields.text("detail", text)?,
    };
    fields.end()?;
    Ok(excluded)
}

/// A line that says what is signed, and the epoch and the list in canonical JSON.
fn message(epoch: Epoch, excluded: &[Excluded]) -> Vec<u8> {
    let said = Json::map([("epoch", Json::Int(epoch.int())), ("excluded", list(excluded))]);
    [b"omnigate.rewards.excluded.1\n", said.to_canonical().as_slice()].concat()
}
