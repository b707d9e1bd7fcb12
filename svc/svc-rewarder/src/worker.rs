//! The workers: rows in, payouts out.

use std::{sync::Arc, time::Duration};

use ron_kernel::{
    metrics::Counter,
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
    pub(crate) written: Written,
}

/// Tells a worker once its result is written down, or cannot be. A result that is dropped before that is counted as lost:
/// at a drain's deadline it may wait in the queue, or be in the hands of a writer that is aborted.
#[derive(Debug)]
pub(crate) struct Written {
    worker: Option<oneshot::Sender<()>>,
    lost: Counter,
}

impl Written {
    pub(crate) fn new(lost: &Counter) -> (Self, oneshot::Receiver<()>) {
        let (worker, done) = oneshot::channel();
        (Self { worker: Some(worker), lost: lost.clone() }, done)
    }

    /// The result has been dealt with.
    pub(crate) fn tell(mut self) {
        if let Some(worker) = self.worker.take() {
            // A worker that is gone has nothing to wait for.
            let _ = worker.send(());
        }
    }
}

impl Drop for Written {
    fn drop(&mut self) {
        if self.worker.is_some() {
            self.lost.inc();
        }
    }
}

/// The task that computes epochs.
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
        while let Some(job) = self.work.recv_until_stop(&ctx).await {
            let registry = &self.shared.registry;
            match self.compute(&job).await {
                Ok(()) => registry.succeeded(job.epoch),
                Err(RewarderError::Waits(epoch)) => {
                    registry.rest_briefly(epoch, self.shared.clock.now());
                    tracing::debug!(epoch, "an epoch waits for one before it");
                }
                Err(error) => {
                    self.shared.metrics.ended(Status::Failed);
                    registry.failed(job.epoch, error.to_string(), self.shared.clock.now());
                    tracing::warn!(epoch = job.epoch, %error, "an epoch could not be computed; it is retried");
                }
            }
        }
        Ok(())
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
        let (written, done) = Written::new(&shared.metrics.dropped_results);
        // What is not taken is dropped here, and counted.
        if self.results.send(ResultItem { epoch, outcome, took, written }).await.is_err() {
            return Err(ron_kernel::Fault::Canceled.into());
        }
        // A worker holds no second run while the first is being written.
        let _ = done.await;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_result_that_nobody_deals_with_is_counted_once_wherever_it_is_dropped() {
        let lost = Counter::default();
        let (written, done) = Written::new(&lost);
        written.tell();
        assert_eq!((done.await, lost.get()), (Ok(()), 0), "one that was written is not lost");
        let (aborted, done) = Written::new(&lost);
        drop(aborted);
        assert!(done.await.is_err(), "its worker hears of it");
        assert_eq!(lost.get(), 1);
        let (written, done) = Written::new(&lost);
        drop(done);
        written.tell();
        assert_eq!(lost.get(), 1, "a worker that is gone loses nothing");
    }
}
