//! The snapshots that an epoch is paid by, each checked row by row while it is added up.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use types::ActorId;

use crate::{
    Digest, DocumentError, Epoch, Json, Metric, Policy, Quarantine, Row, RowFault, RowsHasher, Snapshot,
    digest::Domain,
    read_row,
    usage::{Usage, UsageFault, UsageTable},
};

/// Limits on the size of the inputs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Actors in one epoch.
    pub max_actors: usize,
    /// Metrics in one epoch.
    pub max_metrics: usize,
    /// Snapshots in one epoch.
    pub max_snapshots: usize,
}

impl Default for Limits {
    /// Ten million actors, 64 metrics, 4096 snapshots.
    fn default() -> Self {
        Self { max_actors: 10_000_000, max_metrics: 64, max_snapshots: 4096 }
    }
}

/// Everything an epoch is computed from, checked and added up. Cheap to clone.
#[derive(Clone, Debug)]
pub struct InputSet(Arc<Closed>);

#[derive(Debug)]
struct Closed {
    epoch: Epoch,
    snapshots: Vec<Snapshot>,
    root: Digest,
    usage: UsageTable,
}

/// An input set that still takes snapshots, in any order.
#[derive(Debug)]
pub struct InputSetBuilder {
    epoch: Epoch,
    nodes: BTreeSet<ActorId>,
    limits: Limits,
    /// The metrics that are added up; all, if it is not said which.
    counted: Option<BTreeSet<Metric>>,
    snapshots: BTreeMap<ActorId, Snapshot>,
    usage: Usage,
    /// The node whose rows were begun and not finished: sums without a snapshot to account for them.
    unfinished: Option<ActorId>,
    failed: Option<Quarantine>,
}

/// A snapshot whose rows are being taken in.
#[derive(Debug)]
pub struct SnapshotRows<'a> {
    set: &'a mut InputSetBuilder,
    snapshot: Snapshot,
    hasher: RowsHasher,
    room: String,
}

impl InputSet {
    /// An input set of `epoch` that takes snapshots of `nodes` and nobody else.
    #[must_use]
    pub fn builder(epoch: Epoch, nodes: BTreeSet<ActorId>, limits: Limits) -> InputSetBuilder {
        let usage = Usage::new(limits.max_actors, limits.max_metrics);
        let (snapshots, counted, unfinished, failed) = (BTreeMap::new(), None, None, None);
        InputSetBuilder { epoch, nodes, limits, counted, snapshots, usage, unfinished, failed }
    }

    /// Returns the epoch of the inputs.
    #[must_use]
    pub fn epoch(&self) -> Epoch {
        self.0.epoch
    }

    /// The snapshots, in the order of their nodes.
    #[must_use]
    pub fn snapshots(&self) -> &[Snapshot] {
        &self.0.snapshots
    }

    /// The hash over the list of snapshots: the same for the same inputs, in whatever order they came.
    #[must_use]
    pub fn root(&self) -> Digest {
        self.0.root
    }

    /// Returns the number of actors.
    #[must_use]
    pub fn actors(&self) -> usize {
        self.0.usage.actors()
    }

    pub(crate) fn usage(&self) -> &UsageTable {
        &self.0.usage
    }

    /// The list of snapshots as a document, `inputs.json`: what [`InputSet::root`] is the hash of.
    #[must_use]
    pub fn list(&self) -> Vec<u8> {
        list(&self.0.snapshots)
    }

    /// Reads the list of snapshots.
    ///
    /// # Errors
    /// [`DocumentError`], if it is not canonical or not in the order of nodes.
    pub fn read_list(bytes: &[u8]) -> Result<Vec<Snapshot>, DocumentError> {
        let Json::List(items) = Json::read_canonical(bytes)? else {
            return Err(DocumentError::Wrong("inputs"));
        };
        let snapshots = items.into_iter().map(Snapshot::from_json).collect::<Result<Vec<_>, _>>()?;
        let in_order = snapshots.windows(2).all(|pair| pair[0].node < pair[1].node);
        if in_order { Ok(snapshots) } else { Err(DocumentError::Wrong("inputs")) }
    }

    /// An input set as its caller added it up: its usage was not compared with the snapshots' rows.
    ///
    /// For those who have an epoch's allocations, which name the units that count, and not its snapshots.
    #[must_use]
    pub fn unchecked(epoch: Epoch, snapshots: Vec<Snapshot>, usage: impl Into<UsageTable>) -> Self {
        Self::closed(epoch, snapshots, usage.into())
    }

    fn closed(epoch: Epoch, snapshots: Vec<Snapshot>, usage: UsageTable) -> Self {
        let root = Domain::INPUTS.hash(&list(&snapshots));
        Self(Arc::new(Closed { epoch, snapshots, root, usage }))
    }
}

fn list(snapshots: &[Snapshot]) -> Vec<u8> {
    Json::List(snapshots.iter().map(Snapshot::json).collect()).to_canonical()
}

impl InputSetBuilder {
    /// The same, with only those metrics added up that a policy pays for. Rows of others are checked and count nothing, so
    /// that nobody reaches a limit by way of them.
    #[must_use]
    pub fn paid_by(mut self, policy: &Policy) -> Self {
        self.counted = Some(policy.terms().weights_ppm.keys().cloned().collect());
        self
    }

    /// Begins to take in a snapshot. Its seal is for the caller to check.
    ///
    /// # Errors
    /// [`Quarantine`], if it is of another epoch or an unknown node, or the node gave one already.
    pub fn snapshot(&mut self, snapshot: Snapshot) -> Result<SnapshotRows<'_>, Quarantine> {
        let node = &snapshot.node;
        let wrong = if snapshot.epoch != self.epoch {
            Some(Quarantine::WrongEpoch { node: node.clone(), epoch: snapshot.epoch })
        } else if !self.nodes.contains(node) {
            Some(Quarantine::UnknownNode(node.clone()))
        } else if self.snapshots.contains_key(node) {
            Some(Quarantine::SnapshotTwice(node.clone()))
        } else if self.snapshots.len() >= self.limits.max_snapshots {
            Some(Quarantine::TooMany("snapshots"))
        } else {
            None
        };
        if let Some(wrong) = wrong {
            return Err(self.fail(wrong));
        }
        if let Some(node) = self.unfinished.replace(node.clone()) {
            return Err(self.fail(Quarantine::RowsDiffer(node)));
        }
        Ok(SnapshotRows { set: self, snapshot, hasher: RowsHasher::new(), room: String::new() })
    }

    /// Takes in the snapshots of another set of the same epoch, which may have been filled on another thread.
    ///
    /// # Errors
    /// [`Quarantine`], as for the snapshots themselves.
    pub fn merge(&mut self, other: Self) -> Result<(), Quarantine> {
        if let Some(wrong) = other.fault() {
            return Err(self.fail(wrong));
        }
        for (node, snapshot) in other.snapshots {
            if snapshot.epoch != self.epoch {
                return Err(self.fail(Quarantine::WrongEpoch { node, epoch: snapshot.epoch }));
            }
            if self.snapshots.insert(node.clone(), snapshot).is_some() {
                return Err(self.fail(Quarantine::SnapshotTwice(node)));
            }
        }
        if self.snapshots.len() > self.limits.max_snapshots {
            return Err(self.fail(Quarantine::TooMany("snapshots")));
        }
        self.usage.merge(other.usage).map_err(|fault| {
            let wrong = unfit(fault).unwrap_or(Quarantine::Overflow("units"));
            self.failed.get_or_insert(wrong).clone()
        })
    }

    /// Closes the set.
    ///
    /// # Errors
    /// The first [`Quarantine`] that any snapshot gave: a set is whole or it is not.
    pub fn close(self) -> Result<InputSet, Quarantine> {
        match self.fault() {
            Some(wrong) => Err(wrong),
            None => Ok(InputSet::closed(
                self.epoch,
                self.snapshots.into_values().collect(),
                self.usage.into_table(),
            )),
        }
    }

    fn fault(&self) -> Option<Quarantine> {
        self.failed.clone().or_else(|| self.unfinished.clone().map(Quarantine::RowsDiffer))
    }

    fn fail(&mut self, wrong: Quarantine) -> Quarantine {
        self.failed.get_or_insert(wrong).clone()
    }
}

impl SnapshotRows<'_> {
    /// Takes the next row.
    ///
    /// # Errors
    /// [`Quarantine`], if it cannot stand there.
    pub fn row(&mut self, row: Row<'_>) -> Result<(), Quarantine> {
        match self.hasher.push(row) {
            Ok(()) => self.add(row),
            Err(fault) => Err(self.bad_row(fault)),
        }
    }

    fn add(&mut self, row: Row<'_>) -> Result<(), Quarantine> {
        if self.set.counted.as_ref().is_some_and(|counted| !counted.contains(row.metric)) {
            return Ok(());
        }
        self.set.usage.add(row).map_err(|fault| {
            // Names were checked just now, so what is left are limits and sums.
            let wrong = unfit(fault).unwrap_or(Quarantine::Overflow("units"));
            self.set.fail(wrong)
        })
    }

    /// Takes the next row as its line, without the line feed.
    ///
    /// # Errors
    /// [`Quarantine`], if it is no row or cannot stand there.
    pub fn line(&mut self, line: &[u8]) -> Result<(), Quarantine> {
        let mut room = std::mem::take(&mut self.room);
        let taken = match read_row(line, &mut room) {
            Ok(row) => match self.hasher.push_line(row, line) {
                Ok(()) => self.add(row),
                Err(fault) => Err(self.bad_row(fault)),
            },
            Err(fault) => Err(self.bad_row(fault)),
        };
        self.room = room;
        taken
    }

    /// Ends the snapshot: its rows must be those it is named by.
    ///
    /// # Errors
    /// [`Quarantine::RowsDiffer`] if they are not.
    pub fn finish(self) -> Result<(), Quarantine> {
        let rows = self.hasher.rows();
        if rows != self.snapshot.rows.get() || self.hasher.finish() != self.snapshot.rows_root {
            return Err(self.set.fail(Quarantine::RowsDiffer(self.snapshot.node)));
        }
        self.set.unfinished = None;
        self.set.snapshots.insert(self.snapshot.node.clone(), self.snapshot);
        Ok(())
    }

    /// The fault of the row that would have been the next one.
    fn bad_row(&mut self, fault: RowFault) -> Quarantine {
        let row = self.hasher.rows();
        let node = self.snapshot.node.clone();
        self.set.fail(Quarantine::Row { node, row, fault })
    }
}

fn unfit(fault: UsageFault) -> Option<Quarantine> {
    match fault {
        UsageFault::TooManyActors => Some(Quarantine::TooMany("actors")),
        UsageFault::TooManyMetrics => Some(Quarantine::TooMany("metrics")),
        UsageFault::Overflow => Some(Quarantine::Overflow("units")),
        UsageFault::Actor | UsageFault::Metric => None,
    }
}
