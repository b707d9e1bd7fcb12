//! The workers: rows in, payouts out.

use std::{sync::Arc, time::Duration};

use ron_kernel::{
    queue::{Sender, SharedReceiver},
    supervisor::{TaskCtx, TaskResult},
};
use tokio::sync::oneshot;

use crate::{
    RewarderError, calculus::Outcome, crash, metrics::Status, scheduler::Job, shared::Shared, store::Changed,
};

/// An epoch that is computed and not written down.
#[derive(Debug)]
pub(crate) struct ResultItem {
    pub(crate) epoch: u64,
    pub(crate) outcome: Outcome,
    pub(crate) took: Duration,
    /// Told once it is written down, or cannot be.
    pub(crate) written: oneshot::Sender<()>,
}

/// A worker.
#[derive(Clone, Debug)]
pub(crate) struct Worker {
    pub(crate) shared: Arc<Shared>,
    pub(crate) work: SharedReceiver<Job>,
    pub(crate) results: Sender<ResultItem>,
}

impl Worker {
    /// Runs until the node stops. What it has begun it finishes; what waits is found in the store by the next process.
    ///
    /// Cancel safe: an epoch that is dropped on the way is taken up again.
    pub(crate) async fn run(self, ctx: TaskCtx) -> TaskResult {
        loop {
            let job = tokio::select! {
                biased;
                () = ctx.stopping() => return Ok(()),
                job = self.work.recv() => job,
            };
            let Some(job) = job else { return Ok(()) };
            if let Err(error) = self.compute(&job).await {
                self.shared.metrics.ended(Status::Failed);
                self.shared.registry.rest(job.epoch, self.shared.clock.now());
                tracing::warn!(epoch = job.epoch, %error, "an epoch could not be computed; it comes again");
            }
        }
    }

    async fn compute(&self, job: &Job) -> Result<(), RewarderError> {
        let (shared, epoch) = (&self.shared, job.epoch);
        if shared.with_store("begin epoch", move |store| store.computing(epoch)).await? == Changed::Before {
            return Ok(());
        }
        crash::point("compute.begun");
        let began = shared.clock.now();
        let (calculus, progress) = (shared.calculus(), Arc::clone(&job.claim.progress));
        let computed = shared.scope.blocking().run("compute epoch", move || calculus.run(epoch, &progress));
        // From when it is taken up: an epoch that had to wait its turn has not had its time.
        let deadline = shared.clock.within(shared.windows.duration() / 2).tightened(job.wished);
        let outcome = shared.scope.by("compute", deadline, computed).await???;
        crash::point("compute.done");
        let took = shared.clock.now().since(began);
        let (written, done) = oneshot::channel();
        if self.results.send(ResultItem { epoch, outcome, took, written }).await.is_err() {
            shared.metrics.dropped_results.inc();
            return Err(ron_kernel::Fault::Canceled.into());
        }
        // A worker holds no second run while the first is being written.
        let _ = done.await;
        Ok(())
    }
}
