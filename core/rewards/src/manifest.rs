//! `run.json`: small, canonical, and with nothing in it that another machine would write differently.

use types::ObjectId;

use crate::{
    Amount, Digest, DocumentError, Epoch, Int, Json, PolicyId, Ruleset, decimal, digest::Domain,
    json::fields::Fields,
};

/// What `run.json` says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The epoch.
    pub epoch: Epoch,
    /// The hash of what the run was made of.
    pub run_key: Digest,
    /// The policy's name.
    pub policy_id: PolicyId,
    /// The policy's version.
    pub policy_version: Int,
    /// The hash of the policy's terms.
    pub policy_hash: Digest,
    /// The rules.
    pub ruleset: Ruleset,
    /// The hash of the list of snapshots.
    pub inputs_root: Digest,
    /// How many snapshots there are.
    pub snapshots: Int,
    /// What there was to pay.
    pub pool: Amount,
    /// What is paid.
    pub paid: Amount,
    /// What is left. `paid + residual = pool`.
    pub residual: Amount,
    /// What all scores add up to.
    pub score_total: u128,
    /// How many intents follow.
    pub batches: Int,
    /// The file with everybody's line.
    pub allocations: AllocationsFile,
}

/// `allocations.jsonl`, by its hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationsFile {
    /// How many lines.
    pub lines: Int,
    /// The root of the tree over the lines.
    pub root: Digest,
    /// The hash of the file.
    pub hash: ObjectId,
}

impl Manifest {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-run/1";

    /// The name of the file with everybody's line.
    pub const ALLOCATIONS: &str = "allocations.jsonl";

    /// The document, in canonical JSON.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let allocations = Json::map([
            ("file", Json::text(Self::ALLOCATIONS)),
            ("hash", Json::text(self.allocations.hash)),
            ("lines", Json::Int(self.allocations.lines)),
            ("root", Json::text(self.allocations.root)),
        ]);
        let inputs =
            Json::map([("root", Json::text(self.inputs_root)), ("snapshots", Json::Int(self.snapshots))]);
        let policy = Json::map([
            ("hash", Json::text(self.policy_hash)),
            ("id", Json::text(&self.policy_id)),
            ("version", Json::Int(self.policy_version)),
        ]);
        Json::map([
            ("allocations", allocations),
            ("batches", Json::Int(self.batches)),
            ("epoch", Json::Int(self.epoch.int())),
            ("format", Json::text(Self::FORMAT)),
            ("inputs", inputs),
            ("paid", Json::text(self.paid)),
            ("policy", policy),
            ("pool", Json::text(self.pool)),
            ("residual", Json::text(self.residual)),
            ("ruleset", Json::Int(self.ruleset.number().into())),
            ("run_key", Json::text(self.run_key)),
            ("score_total", Json::text(self.score_total)),
        ])
        .to_canonical()
    }

    /// The commitment of a run with this manifest.
    #[must_use]
    pub fn commitment(&self) -> Digest {
        Domain::COMMITMENT.hash(&self.to_bytes())
    }

    /// Reads a document.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical, lacks something, or its sums do not close.
    pub fn read(bytes: &[u8]) -> Result<Self, DocumentError> {
        let mut fields = Fields::of_document(Json::read_canonical(bytes)?, Self::FORMAT)?;
        let mut inputs = fields.map("inputs")?;
        let mut policy = fields.map("policy")?;
        let ruleset = Ruleset::from_number(fields.int("ruleset")?.get());
        let manifest = Self {
            epoch: fields.int("epoch")?.into(),
            run_key: fields.parsed("run_key")?,
            policy_id: policy.text("id", PolicyId::new)?,
            policy_version: policy.int("version")?,
            policy_hash: policy.parsed("hash")?,
            ruleset: ruleset.ok_or(DocumentError::Wrong("ruleset"))?,
            inputs_root: inputs.parsed("root")?,
            snapshots: inputs.int("snapshots")?,
            pool: fields.parsed("pool")?,
            paid: fields.parsed("paid")?,
            residual: fields.parsed("residual")?,
            score_total: fields.text("score_total", |text| decimal::read(text.as_bytes()))?,
            batches: fields.int("batches")?,
            allocations: AllocationsFile::from_json(fields.take("allocations")?)?,
        };
        inputs.end()?;
        policy.end()?;
        fields.end()?;
        if manifest.paid.checked_add(manifest.residual) != Some(manifest.pool) {
            return Err(DocumentError::Wrong("residual"));
        }
        Ok(manifest)
    }
}

impl AllocationsFile {
    fn from_json(json: Json) -> Result<Self, DocumentError> {
        let mut fields = Fields::of(json, "allocations")?;
        let expected = |name: &str| if name == Manifest::ALLOCATIONS { Ok(()) } else { Err(()) };
        fields.text("file", expected)?;
        let file =
            Self { lines: fields.int("lines")?, root: fields.parsed("root")?, hash: fields.parsed("hash")? };
        fields.end()?;
        Ok(file)
    }
}
