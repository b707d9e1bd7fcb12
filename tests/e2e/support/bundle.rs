//! Bundles of epochs as a rewarder writes them, made from the keys, rows and terms that a test wants.

use std::{collections::BTreeMap, fs, path::Path, sync::Arc};

use rewards::{
    Attestation, Brought, Carried, Epoch, InputSet, Int, Limits, Row, RowsHasher, Run, RunName, Sign,
    SignedCorrection, SignedPayees, SignedPolicy, Snapshot, SnapshotSeal, bundle, compute_after,
    ed25519::SecretKey, write_row,
};
use types::{ActorId, NodeId};

/// The files of a bundle by their names.
pub(crate) type Files = BTreeMap<String, Vec<u8>>;

/// Units by actor and metric.
pub(crate) type Rows = BTreeMap<(String, String), u128>;

/// The key that tests call by this number.
pub(crate) fn key(seed: u8) -> SecretKey {
    SecretKey::from_seed(&[seed; 32])
}

/// The id of the node with this key.
pub(crate) fn node_id(seed: u8) -> NodeId {
    NodeId::of_key(key(seed).public_key().as_bytes())
}

/// What one node counted, under the name of a node that may be another.
#[derive(Clone, Debug)]
pub(crate) struct Counted {
    /// Whose key seals it.
    pub(crate) seed: u8,
    /// The node that it is said to be from.
    pub(crate) node: ActorId,
    pub(crate) epoch: u64,
    pub(crate) rows: Rows,
}

impl Counted {
    /// As a node seals its own rows.
    pub(crate) fn by(seed: u8, epoch: u64, rows: Rows) -> Self {
        Self { seed, node: ActorId::new(&node_id(seed).to_string()).unwrap(), epoch, rows }
    }

    pub(crate) fn snapshot(&self) -> Snapshot {
        let mut hasher = RowsHasher::new();
        self.rows().for_each(|row| hasher.push(row).unwrap());
        let rows = Int::new(hasher.rows()).unwrap();
        let epoch = Epoch::new(self.epoch).unwrap();
        Snapshot { node: self.node.clone(), epoch, rows, rows_root: hasher.finish() }
    }

    pub(crate) fn seal(&self) -> SnapshotSeal {
        self.snapshot().seal(&key(self.seed))
    }

    pub(crate) fn lines(&self) -> Vec<u8> {
        let mut lines = Vec::new();
        self.rows().for_each(|row| write_row(&mut lines, row));
        lines
    }

    fn rows(&self) -> impl Iterator<Item = Row<'_>> {
        self.rows.iter().map(|((actor, metric), units)| Row { actor, metric, units: *units })
    }
}

/// Everything that an epoch's bundle is made from.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) policy: SignedPolicy,
    pub(crate) epoch: u64,
    pub(crate) counted: Vec<Counted>,
    /// Whose keys attest to the run.
    pub(crate) attesters: Vec<u8>,
    /// What an epoch of ruleset 3 takes over.
    pub(crate) taken: TakenOver,
}

/// What an epoch takes over from before it, with the signatures.
#[derive(Clone, Debug, Default)]
pub(crate) struct TakenOver {
    pub(crate) previous: Option<RunName>,
    pub(crate) carried: Carried,
    pub(crate) corrections: Vec<SignedCorrection>,
    pub(crate) payees: Option<SignedPayees>,
}

impl TakenOver {
    fn brought(&self) -> Brought {
        let corrections = self.corrections.iter().map(|signed| signed.correction().clone()).collect();
        Brought {
            previous: self.previous,
            carried: Arc::new(self.carried.clone()),
            corrections: Arc::new(corrections),
            payees: self.payees.as_ref().map(|signed| Arc::new(signed.payees().clone())),
        }
    }

    fn files(&self) -> Files {
        let mut files = Files::from([
            (bundle::BROUGHT.to_owned(), self.brought().names().to_bytes()),
            (bundle::CARRIED.to_owned(), self.carried.to_bytes()),
        ]);
        for signed in &self.corrections {
            files.insert(bundle::correction_file(signed.correction().hash()), signed.to_bytes());
        }
        if let Some(signed) = &self.payees {
            files.insert(bundle::PAYEES.to_owned(), signed.to_bytes());
        }
        files
    }
}

impl Plan {
    /// The same policy and rows as in the bundle in a folder, in the same order, counted by nodes with keys of these
    /// numbers. The first of them attests to the run.
    pub(crate) fn resealed(folder: &Path, seeds: &[u8]) -> Self {
        let mut seeds = seeds.to_vec();
        seeds.sort_by_key(|seed| node_id(*seed));
        let policy = SignedPolicy::read(&fs::read(folder.join(bundle::POLICY)).unwrap()).unwrap();
        let list = InputSet::read_list(&fs::read(folder.join(bundle::INPUTS)).unwrap()).unwrap();
        let epoch = list[0].epoch.number();
        let counted = list.iter().zip(&seeds).map(|(snapshot, seed)| {
            let lines = fs::read(folder.join(bundle::rows_file(snapshot.rows_root))).unwrap();
            Counted::by(*seed, epoch, read_rows(&lines))
        });
        Self {
            policy,
            epoch,
            counted: counted.collect(),
            attesters: vec![seeds[0]],
            taken: TakenOver::default(),
        }
    }

    pub(crate) fn run(&self) -> Run {
        let epoch = Epoch::new(self.epoch).unwrap();
        let nodes = self.counted.iter().map(|counted| counted.node.clone()).collect();
        let mut set = InputSet::builder(epoch, nodes, Limits::default());
        for counted in &self.counted {
            // A forger calls it a snapshot of this epoch, whatever is sealed.
            let mut rows = set.snapshot(Snapshot { epoch, ..counted.snapshot() }).unwrap();
            counted.rows().for_each(|row| rows.row(row).unwrap());
            rows.finish().unwrap();
        }
        compute_after(self.policy.policy(), &set.close().unwrap(), &self.taken.brought()).unwrap()
    }

    /// The bundle.
    pub(crate) fn files(&self) -> Files {
        let run = self.run();
        let mut allocations = Vec::new();
        (0..run.lines()).for_each(|line| run.write_line(line, &mut allocations));
        let mut files = Files::from([
            (bundle::POLICY.to_owned(), self.policy.to_bytes()),
            (bundle::INPUTS.to_owned(), run.inputs().list()),
            (bundle::RUN.to_owned(), run.document().to_vec()),
            (bundle::ALLOCATIONS.to_owned(), allocations),
            (bundle::COMMITMENT.to_owned(), format!("{}\n", run.commitment()).into_bytes()),
        ]);
        if self.policy.policy().terms().ruleset.is_chained() {
            files.extend(self.taken.files());
        }
        for counted in &self.counted {
            let (root, seal) = (counted.snapshot().rows_root, counted.seal());
            files.insert(bundle::rows_file(root), counted.lines());
            files.insert(bundle::seal_file(root, seal.key), seal.to_bytes());
        }
        for attester in &self.attesters {
            let attestation = Attestation::of(&run, &key(*attester));
            files.insert(bundle::attestation_file(attestation.key), attestation.to_bytes());
        }
        files
    }
}

/// Units by actor and metric, from lines of rows.
fn read_rows(lines: &[u8]) -> Rows {
    let mut rows = Rows::new();
    for line in lines.strip_suffix(b"\n").unwrap_or_default().split(|byte| *byte == b'\n') {
        let mut room = String::new();
        let row = rewards::read_row(line, &mut room).unwrap();
        rows.insert((row.actor.to_owned(), row.metric.to_owned()), row.units);
    }
    rows
}

/// Writes files into a folder, and nothing else.
pub(crate) fn write(files: &Files, folder: &Path) {
    let _ = fs::remove_dir_all(folder);
    for (name, bytes) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, bytes).unwrap();
    }
}
