//! `run.json`: small, canonical, and with nothing in it that another machine would write differently.

use types::ObjectId;

use crate::{
    Amount, BroughtNames, CarriedFile, Digest, DocumentError, Epoch, Int, Json, PolicyId, Ruleset, decimal,
    digest::Domain, json::fields::Fields,
};

/// The content of `run.json`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The epoch of the run.
    pub epoch: Epoch,
    /// The hash of what the run was made of.
    pub run_key: Digest,
    /// The id of the policy.
    pub policy_id: PolicyId,
    /// The version of the policy.
    pub policy_version: Int,
    /// The hash of the policy's terms.
    pub policy_hash: Digest,
    /// The ruleset of the calculation.
    pub ruleset: Ruleset,
    /// The hash of the list of snapshots.
    pub inputs_root: Digest,
    /// Number of snapshots that the run adds up.
    pub snapshots: Int,
    /// The amount to distribute.
    pub pool: Amount,
    /// The sum of all payouts.
    pub paid: Amount,
    /// What is left. `paid + residual = pool`, unless something is [taken over](Linked).
    pub residual: Amount,
    /// What all scores add up to.
    pub score_total: u128,
    /// Number of batches of transfers.
    pub batches: Int,
    /// The file with everybody's line.
    pub allocations: AllocationsFile,
    /// What it takes over and hands on; `None` in runs of rulesets that do neither.
    pub linked: Option<Linked>,
}

/// What a run of ruleset 3 takes over from before, and what it hands on.
///
/// `pool + brought.carried.amount + credited = paid + carried_out.amount + residual`
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Linked {
    /// The hashes of what the run takes over from earlier runs.
    pub brought: BroughtNames,
    /// What is carried over to the next run.
    pub carried_out: CarriedFile,
    /// The sum of what corrections add.
    pub credited: Amount,
    /// What corrections take off. It is part of the residual.
    pub deducted: Amount,
}

/// `allocations.jsonl`, by its hashes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AllocationsFile {
    /// Number of lines in the file.
    pub lines: Int,
    /// The root of the tree over the lines.
    pub root: Digest,
    /// The hash of the file.
    pub hash: ObjectId,
}

impl Manifest {
    /// The `format` of the document.
    pub const FORMAT: &str = "omnigate-run/1";

    /// The `format` of the document of a run that takes something over.
    pub const LINKED_FORMAT: &str = "omnigate-run/2";

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
        let format = if self.linked.is_some() { Self::LINKED_FORMAT } else { Self::FORMAT };
        let mut document = Json::map([
            ("allocations", allocations),
            ("batches", Json::Int(self.batches)),
            ("epoch", Json::Int(self.epoch.int())),
            ("format", Json::text(format)),
            ("inputs", inputs),
            ("paid", Json::text(self.paid)),
            ("policy", policy),
            ("pool", Json::text(self.pool)),
            ("residual", Json::text(self.residual)),
            ("ruleset", Json::Int(self.ruleset.number().into())),
            ("run_key", Json::text(self.run_key)),
            ("score_total", Json::text(self.score_total)),
        ]);
        if let (Some(linked), Json::Map(fields)) = (&self.linked, &mut document) {
            fields.insert("brought".into(), linked.brought.json());
            fields.insert("carried_out".into(), linked.carried_out.json());
            fields.insert("credited".into(), Json::text(linked.credited));
            fields.insert("deducted".into(), Json::text(linked.deducted));
        }
        document.to_canonical()
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
        let (mut fields, is_linked) = fields_of(Json::read_canonical(bytes)?)?;
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
            linked: if is_linked { Some(Linked::take(&mut fields)?) } else { None },
        };
        inputs.end()?;
        policy.end()?;
        fields.end()?;
        if manifest.ruleset.is_chained() != is_linked {
            return Err(DocumentError::Wrong("ruleset"));
        }
        if manifest.closes() { Ok(manifest) } else { Err(DocumentError::Wrong("residual")) }
    }

    /// Whether what went in is what came out.
    fn closes(&self) -> bool {
        let linked = self.linked.as_ref();
        let add = |sum: Amount, more: Option<Amount>| sum.checked_add(more.unwrap_or(Amount::ZERO));
        let into = add(self.pool, linked.map(|linked| linked.brought.carried.amount));
        let into = into.and_then(|sum| add(sum, linked.map(|linked| linked.credited)));
        let out = add(self.paid, Some(self.residual));
        let out = out.and_then(|sum| add(sum, linked.map(|linked| linked.carried_out.amount)));
        into.is_some() && into == out
    }

    /// The run as others name it.
    #[must_use]
    pub fn name(&self) -> crate::RunName {
        crate::RunName { epoch: self.epoch, commitment: self.commitment() }
    }
}

/// The fields of a document, and whether it is one of a run that takes something over.
fn fields_of(json: Json) -> Result<(Fields, bool), DocumentError> {
    let is_linked = match &json {
        Json::Map(fields) => fields.get("format") == Some(&Json::text(Manifest::LINKED_FORMAT)),
        _ => false,
    };
    let format = if is_linked { Manifest::LINKED_FORMAT } else { Manifest::FORMAT };
    Ok((Fields::of_document(json, format)?, is_linked))
}

impl Linked {
    fn take(fields: &mut Fields) -> Result<Self, DocumentError> {
        Ok(Self {
            brought: BroughtNames::from_json(fields.take("brought")?)?,
            carried_out: CarriedFile::from_json(fields.take("carried_out")?)?,
            credited: fields.parsed("credited")?,
            deducted: fields.parsed("deducted")?,
        })
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
