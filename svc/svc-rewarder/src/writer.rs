//! The artifact writer: an epoch's files first, then its state, then the bell.

use std::{io::Write, sync::Arc};

use rewards::{Attestation, Dispute, Excluded, ExclusionNotice, Quarantine, Run, bundle, write_row};
use ron_accounting::{SigningKey, read_rows};
use ron_kernel::{
    queue::{Sender, SharedReceiver},
    supervisor::{TaskCtx, TaskResult},
};

use crate::{
    RewarderError,
    artifacts::{Artifacts, FileToWrite},
    calculus::{self, Calculus, Outcome},
    crash, files, links,
    registry::Progress,
    shared::Shared,
    store::{Changed, EpochStore, Record},
    taken_over,
    worker::ResultItem,
};

/// The task that writes the files of an epoch.
#[derive(Clone, Debug)]
pub(crate) struct ArtifactWriter {
    pub(crate) shared: Arc<Shared>,
    pub(crate) results: SharedReceiver<ResultItem>,
    pub(crate) doorbell: Sender<u64>,
}

impl ArtifactWriter {
    /// Runs until the node stops, and then writes what was computed by then.
    ///
    /// Cancel safe: an epoch that is not written down is computed again.
    pub(crate) async fn run(self, ctx: TaskCtx) -> TaskResult {
        while let Some(item) = self.results.recv_until_stop(&ctx).await {
            self.write(item).await;
        }
        self.results.close();
        while let Some(item) = self.results.recv().await {
            self.write(item).await;
        }
        Ok(())
    }

    async fn write(&self, item: ResultItem) {
        let ResultItem { epoch, outcome, took, written } = item;
        let done = match outcome {
            Outcome::Quarantine(wrong) => self.set_aside(epoch, &wrong).await,
            Outcome::Run(run) => {
                let manifest = run.manifest();
                let (pool, paid) = (manifest.pool, manifest.paid);
                let done = self.computed(epoch, Arc::new(*run)).await;
                if done.is_ok() {
                    self.shared.metrics.computed(took, pool.minor(), paid.minor());
                }
                done
            }
        };
        match done {
            Ok(()) => self.shared.conditions.artifacts.clear(),
            Err(error) => {
                self.shared.registry.rest(epoch, self.shared.clock.now());
                self.shared.conditions.artifacts.raise(format!("epoch {epoch}: {error}"));
                tracing::error!(epoch, %error, "the computed result could not be written; it is retried");
            }
        }
        written.tell();
    }

    async fn computed(&self, epoch: u64, run: Arc<Run>) -> Result<(), RewarderError> {
        let shared = &self.shared;
        // Before anything is noted: from then on another run may follow.
        if let Some(why) = links::contradiction(shared, &run).await? {
            return files::quarantine(shared, epoch, "conflict", &why).await;
        }
        let (artifacts, calculus, key, written) =
            (shared.artifacts.clone(), shared.calculus(), shared.key.clone(), Arc::clone(&run));
        // Not bounded by the time of a call: there may be a million lines.
        let write = move || -> Result<(Record, Option<ExclusionNotice>), RewarderError> {
            let attestation = Attestation::of(&written, &key);
            let notice = notice_of(&calculus, &written, &key)?;
            let failed =
                |error: std::io::Error| RewarderError::Files(format!("files cannot be written: {error}"));
            let files = epoch_files(&calculus, epoch, &written, &attestation, notice.as_ref())?;
            artifacts.write(epoch, files).map_err(failed)?;
            Ok((note(&calculus.store, epoch, &written)?, notice))
        };
        let (record, notice) = shared.scope.blocking().run("write epoch", write).await??;
        self.tell_of_excluded(epoch, notice);
        if record.commitment.as_deref() != Some(run.commitment().to_string().as_str()) {
            let why = format!("another run of the same inputs came to {:?}", record.commitment);
            return files::quarantine(shared, epoch, "other_run", &why).await;
        }
        tracing::info!(epoch, commitment = %run.commitment(), paid = %run.manifest().paid, "an epoch is computed");
        shared.registry.keep(epoch, run);
        // Without room the emitter finds it by itself.
        let _ = self.doorbell.send(epoch).await;
        Ok(())
    }

    /// Tells of nodes whose snapshots are left out; of the latest epoch that was computed.
    fn tell_of_excluded(&self, epoch: u64, notice: Option<ExclusionNotice>) {
        let excluded = notice.map(|notice| notice.excluded).unwrap_or_default();
        for Excluded { snapshot, reason, detail } in &excluded {
            tracing::error!(epoch, node_id = %snapshot.node, code = reason, reason = detail, "a snapshot is left out");
        }
        match excluded.first() {
            Some(first) => {
                let told =
                    format!("epoch {epoch}: {} snapshots are left out: {}", excluded.len(), first.detail);
                self.shared.conditions.excluded.raise(told);
            }
            None => self.shared.conditions.excluded.clear(),
        }
    }

    async fn set_aside(&self, epoch: u64, wrong: &Quarantine) -> Result<(), RewarderError> {
        files::quarantine(&self.shared, epoch, wrong.code(), &wrong.to_string()).await
    }
}

/// Writes the files of an epoch that another node has computed, or that a disk has lost: the same bytes, under this node's
/// own attestation. Blocking.
pub(crate) fn write_again(
    (artifacts, calculus, key): (&Artifacts, &Calculus, &SigningKey),
    record: &Record,
) -> Result<(), RewarderError> {
    let epoch = record.epoch;
    let run = match calculus.run(epoch, &Progress::default())? {
        Outcome::Run(run) => run,
        Outcome::Quarantine(wrong) => {
            return Err(RewarderError::Quarantine { epoch, reason: wrong.to_string() });
        }
    };
    if record.commitment.as_deref() != Some(run.commitment().to_string().as_str()) {
        let why = format!("epoch {epoch} comes to {} here", run.commitment());
        return Err(RewarderError::Files(why));
    }
    let attestation = Attestation::of(&run, key);
    let failed = |error: std::io::Error| RewarderError::Files(format!("files cannot be written: {error}"));
    let notice = notice_of(calculus, &run, key)?;
    let mut files = epoch_files(calculus, epoch, &run, &attestation, notice.as_ref())?;
    // What this node has parked is known here alone.
    if let Some(parked) = artifacts.read(epoch, bundle::PARKED).map_err(failed)? {
        files.push((bundle::PARKED.to_owned(), Box::new(move |out| out.write_all(&parked))));
    }
    artifacts.write(epoch, files).map_err(failed)
}

/// This node's word for the snapshots that a run leaves out; `None` if it leaves none out.
fn notice_of(
    calculus: &Calculus,
    run: &Run,
    key: &SigningKey,
) -> Result<Option<ExclusionNotice>, RewarderError> {
    let excluded = calculus.excluded(run.epoch().number(), run)?;
    Ok((!excluded.is_empty()).then(|| ExclusionNotice::of(run.epoch(), excluded, key)))
}

/// Says in the store that an epoch is computed, and what the store then says.
fn note(store: &EpochStore, epoch: u64, run: &Run) -> Result<Record, RewarderError> {
    let (key, commitment) = (run.key().to_string(), run.commitment().to_string());
    // Before the run is noted: from then on another may follow it.
    if let Some(carried) = run.carried_out() {
        store.keep_carried(epoch, &commitment, &carried.to_bytes())?;
        crash::point("carried.after_insert");
    }
    let noted = store.computed(epoch, &key, &commitment, run.manifest().batches.get())?;
    if noted == Changed::Now {
        crash::point("computed.after_update");
    }
    store.record(epoch)?.ok_or(RewarderError::Unknown("epoch"))
}

/// Everything that a stranger needs to check an epoch: see [`bundle`].
fn epoch_files<'a>(
    calculus: &'a Calculus,
    epoch: u64,
    run: &'a Run,
    attestation: &'a Attestation,
    notice: Option<&'a ExclusionNotice>,
) -> Result<Vec<FileToWrite<'a>>, RewarderError> {
    let (inputs, policy) = calculus.store.documents(epoch)?.ok_or(RewarderError::Unknown("epoch"))?;
    let mut files: Vec<FileToWrite<'a>> = vec![
        (bundle::RUN.to_owned(), Box::new(|out| out.write_all(run.document()))),
        (bundle::COMMITMENT.to_owned(), Box::new(|out| writeln!(out, "{}", run.commitment()))),
        (bundle::ALLOCATIONS.to_owned(), Box::new(|out| write_lines(run, out))),
        (bundle::POLICY.to_owned(), Box::new(move |out| out.write_all(policy.as_bytes()))),
        (bundle::INPUTS.to_owned(), Box::new(|out| out.write_all(&run.inputs().list()))),
        (bundle::attestation_file(attestation.key), Box::new(|out| out.write_all(&attestation.to_bytes()))),
    ];
    if let Some(notice) = notice {
        files.push((bundle::EXCLUDED.to_owned(), Box::new(|out| out.write_all(&notice.to_bytes()))));
    }
    if let Some(brought) = run.brought() {
        for (name, bytes) in taken_over::files(&calculus.store, epoch, run.policy(), brought)? {
            files.push((name, Box::new(move |out| out.write_all(&bytes))));
        }
    }
    let orders = calculus.store.orders(epoch)?;
    if !orders.is_empty() {
        files.push((bundle::ORDERS.to_owned(), Box::new(move |out| out.write_all(orders.as_bytes()))));
    }
    for document in calculus.store.disputes(epoch)? {
        let dispute = Dispute::read(document.as_bytes());
        let dispute = dispute.map_err(|_| RewarderError::Files("a dispute is damaged".to_owned()))?;
        // An objection to a run that was taken back says nothing of this one.
        if dispute.run.commitment != run.commitment() {
            continue;
        }
        let name = bundle::dispute_file(dispute.hash());
        files.push((name, Box::new(move |out| out.write_all(document.as_bytes()))));
    }
    for snapshot in calculus::closed_inputs(&inputs) {
        let snapshot = snapshot?;
        let seal = calculus::seal_of(&snapshot)?;
        if !run.inputs().snapshots().contains(&seal.snapshot) {
            continue;
        }
        let object = snapshot.object;
        let (rows_root, document) = (seal.snapshot.rows_root, snapshot.document);
        let rows = move |out: &mut dyn Write| {
            let file = calculus.rows(&object).map_err(std::io::Error::other)?;
            write_rows(&file, out)
        };
        files.push((bundle::rows_file(rows_root), Box::new(rows)));
        let name = bundle::seal_file(rows_root, seal.key);
        files.push((name, Box::new(move |out| out.write_all(document.as_bytes()))));
    }
    Ok(files)
}

/// The rows as canonical lines, whatever file they were kept in: what `rows_root` is the hash of.
fn write_rows(file: &[u8], out: &mut dyn Write) -> std::io::Result<()> {
    let mut line = Vec::new();
    read_rows(file, |row| {
        line.clear();
        write_row(&mut line, row);
        out.write_all(&line)
    })
}

fn write_lines(run: &Run, out: &mut dyn Write) -> std::io::Result<()> {
    let mut line = Vec::new();
    for at in 0..run.lines() {
        line.clear();
        run.write_line(at, &mut line);
        out.write_all(&line)?;
    }
    Ok(())
}
