//! The compute scheduler: closes epochs that are over, and hands each to one worker, by the clock and by request.

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use rewards::Epoch;
use ron_kernel::{
    Fault,
    queue::{Sender, SharedReceiver},
    supervisor::{TaskCtx, TaskResult},
};
use tokio::sync::oneshot;
use types::Deadline;

use crate::{
    RewarderError, calculus, crash, policies,
    registry::Claim,
    shared::Shared,
    store::{EpochStore, Record, State},
};

/// Between two looks at what is due, unless somebody rings.
const PERIOD: Duration = Duration::from_secs(1);
/// Pages of epochs that are looked through at once for those that can be closed.
const MAX_PAGES: usize = 4;

/// A request to compute an epoch.
#[derive(Debug)]
pub(crate) struct WorkRequest {
    pub(crate) epoch: u64,
    pub(crate) expected: Expected,
    pub(crate) deadline: Deadline,
    pub(crate) reply: oneshot::Sender<Result<Taken, RewarderError>>,
}

/// What a caller says of the epoch that it means. What it leaves out may be anything.
#[derive(Clone, Debug, Default)]
pub(crate) struct Expected {
    /// The hash of the list of snapshots.
    pub(crate) inputs: Option<String>,
    /// The hash of the policy.
    pub(crate) policy: Option<String>,
}

impl Expected {
    /// Refuses an epoch that is closed, or would be closed, with other inputs or another policy.
    fn check(&self, epoch: u64, inputs: &str, policy: &str) -> Result<(), RewarderError> {
        for (asked, closed) in [(&self.inputs, inputs), (&self.policy, policy)] {
            if let Some(asked) = asked.as_ref().filter(|asked| *asked != closed) {
                let (closed, asked) = (closed.to_owned(), asked.clone());
                return Err(RewarderError::OtherInputs { epoch, closed, asked });
            }
        }
        Ok(())
    }
}

/// The result of a request to compute an epoch.
#[derive(Debug)]
pub(crate) enum Taken {
    /// The epoch will be computed.
    Accepted(Record),
    /// The epoch is computed already.
    Exists(Record),
}

/// An epoch to compute.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) claim: Claim,
    pub(crate) epoch: u64,
    /// By when the caller wants it; never, if the clock asks.
    pub(crate) wished: Deadline,
}

/// The task that decides which epochs are computed.
#[derive(Clone, Debug)]
pub(crate) struct Scheduler {
    pub(crate) shared: Arc<Shared>,
    pub(crate) requests: SharedReceiver<WorkRequest>,
    pub(crate) work: Sender<Job>,
    pub(crate) doorbell: Sender<u64>,
}

impl Scheduler {
    /// Runs until the node accepts no more work. Callers that still wait are told so.
    ///
    /// Cancel safe: what was not handed on is found in the store again.
    pub(crate) async fn run(self, ctx: TaskCtx) -> TaskResult {
        let mut next = 0;
        loop {
            self.cycle(&mut next).await;
            let wake = self.shared.clock.within(PERIOD);
            let requested = tokio::select! {
                biased;
                () = ctx.stopping() => break,
                request = self.shared.clock.by(wake, self.requests.recv()) => request,
                () = self.shared.due.notified() => None,
            };
            if let Some(Some(request)) = requested {
                self.answer(request).await;
            }
        }
        self.requests.close();
        while let Some(request) = self.requests.recv().await {
            let _ = request.reply.send(Err(Fault::Canceled.into()));
        }
        Ok(())
    }

    async fn answer(&self, request: WorkRequest) {
        let WorkRequest { epoch, expected, deadline, reply } = request;
        let taken = self.take(epoch, expected, deadline).await;
        // Who no longer waits for the answer will find it in the store.
        let _ = reply.send(taken);
    }

    /// Takes an epoch that somebody asks for.
    async fn take(&self, epoch: u64, expected: Expected, deadline: Deadline) -> Result<Taken, RewarderError> {
        let record = match self.shared.with_store("find epoch", move |store| store.record(epoch)).await? {
            Some(record) => record,
            None => self.close(epoch, expected.clone()).await?,
        };
        // Also after closing: another process may have closed it first, with something else.
        expected.check(epoch, &record.inputs, &record.policy)?;
        match record.state {
            State::Sealed | State::Computing => {
                self.enqueue(epoch, deadline).await?;
                Ok(Taken::Accepted(record))
            }
            State::Computed | State::Emitting => {
                // Rung without waiting: what is to be paid is found without the bell too.
                let _ = self.doorbell.try_send(epoch);
                Ok(Taken::Exists(record))
            }
            State::Settled => Ok(Taken::Exists(record)),
            State::Quarantined => {
                Err(RewarderError::Quarantine { epoch, reason: record.reason.unwrap_or_default() })
            }
        }
    }

    /// Closes what is over, and takes up what was left.
    async fn cycle(&self, next: &mut u64) {
        if self.shared.settings.load().automatic
            && let Err(error) = self.close_due(next).await
        {
            tracing::warn!(%error, "epochs that are over could not be closed");
        }
        if let Err(error) = self.take_up().await {
            tracing::warn!(%error, "unfinished epochs could not be found");
        }
    }

    /// Hands all epochs that are not computed to the workers, as long as there is room: some wait for others.
    async fn take_up(&self) -> Result<(), RewarderError> {
        let mut first = 0;
        loop {
            let find = move |store: &EpochStore| store.to_compute(first);
            let page = self.shared.with_store("find unfinished epochs", find).await?;
            let Some(last) = page.last() else { return Ok(()) };
            first = last.epoch.saturating_add(1);
            for Record { epoch, .. } in page {
                if !self.shared.registry.rests(epoch, self.shared.clock.now())
                    && self.enqueue(epoch, Deadline::NEVER).await.is_err()
                {
                    return Ok(());
                }
            }
        }
    }

    /// Closes epochs that are over, the oldest first. Those that cannot be closed do not stand in the way of later ones: the next
    /// look begins at `next`, until all were looked at.
    async fn close_due(&self, next: &mut u64) -> Result<(), RewarderError> {
        let Some(last) = self.last_over() else { return Ok(()) };
        let recent = self.shared.first_recent();
        let find = move |store: &EpochStore| store.first_to_close(recent);
        let mut first = self.shared.with_store("find epochs to close", find).await?.max(*next);
        for _ in 0..MAX_PAGES {
            let find = move |store: &EpochStore| store.unclosed(first, last);
            let due = self.shared.with_store("find epochs to close", find).await?;
            let Some(end) = due.last().copied() else {
                *next = 0;
                return Ok(());
            };
            let mut is_closed = false;
            for epoch in due {
                is_closed |= self.close_if_possible(epoch).await?;
            }
            if is_closed {
                return Ok(());
            }
            first = end.saturating_add(1);
            *next = first;
        }
        Ok(())
    }

    /// Closes an epoch, and says whether it is closed.
    async fn close_if_possible(&self, epoch: u64) -> Result<bool, RewarderError> {
        match self.close(epoch, Expected::default()).await {
            Ok(_) => {
                self.shared.conditions.policy.clear();
                Ok(true)
            }
            Err(error @ (RewarderError::NoPolicy(_) | RewarderError::Policy(_))) => {
                self.shared.conditions.policy.raise(format!("epoch {epoch}: {error}"));
                Ok(false)
            }
            // Snapshots of nodes that do not count are no reason to close.
            Err(RewarderError::Unknown(_)) => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// The last epoch whose inputs may be closed.
    fn last_over(&self) -> Option<u64> {
        let (windows, unix) = (&self.shared.windows, self.shared.unix());
        let present = windows.epoch_at(unix);
        (present.saturating_sub(2)..present).rev().find(|epoch| windows.is_over(*epoch, unix))
    }

    /// Closes the inputs of an epoch that is over, unless the caller expects others: then nothing is changed.
    async fn close(&self, epoch: u64, expected: Expected) -> Result<Record, RewarderError> {
        let (shared, unix) = (&self.shared, self.shared.unix());
        if !shared.windows.is_over(epoch, unix) {
            let closes_in = shared.windows.close(epoch).saturating_sub(unix);
            return Err(RewarderError::NotOver { epoch, closes_in });
        }
        let number = Epoch::new(epoch).ok_or(RewarderError::Unknown("epoch"))?;
        let (store, settings) = (shared.store.clone(), shared.settings.load_full());
        let close = move || {
            // First whether there is anything, so that a policy is asked for only where it matters.
            if store.snapshots(epoch)?.is_empty() {
                return Err(RewarderError::Unknown("epoch"));
            }
            let policy = policies::for_epoch(&store, &settings, number)?;
            let closing = calculus::closing(&store, epoch, &settings.nodes, policy)?;
            let closing = closing.ok_or(RewarderError::Unknown("epoch"))?;
            expected.check(epoch, &closing.inputs, &closing.policy)?;
            crash::point("close.before_insert");
            let record = store.close(&closing)?;
            crash::point("close.after_insert");
            Ok(record)
        };
        let record = shared.ask("close epoch", close).await?;
        shared.may_be_late.store(true, Ordering::Release);
        tracing::info!(
            epoch,
            inputs = record.inputs,
            policy = record.policy,
            "the inputs of an epoch are closed"
        );
        Ok(record)
    }

    /// Hands an epoch to the workers, unless one has it.
    async fn enqueue(&self, epoch: u64, wished: Deadline) -> Result<(), RewarderError> {
        let Some(claim) = self.shared.registry.claim(epoch) else { return Ok(()) };
        self.work.send(Job { claim, epoch, wished }).await.map_err(|error| Fault::from(error).into())
    }
}
