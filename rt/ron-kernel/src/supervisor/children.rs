//! Counted children: short-lived tasks of one declared kind, as cheap as a bare spawn allows.
//!
//! A child has no handle, unless it belongs to a [`Crew`](super::Crew). It is counted while it lives, a panic in it is caught and counted, and at the end of the
//! drain deadline it goes with the runtime it runs on.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use pin_project_lite::pin_project;
use ron_sync::phase::Stage;
use tokio::task::AbortHandle;

use crate::{
    InFlight, InFlightShard, lock::NoLockAcrossAwait, metrics::TaskMetrics, planes::Core, topology::ChildSpec,
};

/// The children of one kind. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Children(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    metrics: TaskMetrics,
    live: InFlight,
    spec: &'static ChildSpec,
}

impl Children {
    pub(super) fn new(metrics: TaskMetrics, spec: &'static ChildSpec) -> Self {
        Self(Arc::new(Inner { metrics, live: InFlight::new(), spec }))
    }

    /// Starts a child on the runtime that is running now.
    #[expect(clippy::disallowed_methods, reason = "the supervisor is where tasks are started")]
    #[inline]
    pub fn spawn<F>(&self, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        tokio::spawn(self.child(work));
    }

    /// Starts a child on a core.
    #[expect(clippy::disallowed_methods, reason = "the supervisor is where tasks are started")]
    #[inline]
    pub fn spawn_on<F>(&self, core: &Core, work: F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        core.handle().spawn(self.child(work));
    }

    /// Starts a child on a core, and returns how to end it.
    #[expect(clippy::disallowed_methods, reason = "the supervisor is where tasks are started")]
    pub(super) fn start_on<F>(&self, core: &Core, work: F) -> AbortHandle
    where
        F: Future<Output = ()> + Send + 'static,
    {
        core.handle().spawn(self.child(work)).abort_handle()
    }

    /// Returns the number of running children.
    #[must_use]
    pub fn live(&self) -> usize {
        self.0.live.count()
    }

    /// Counts a child that ended early because the node stops.
    pub fn count_canceled(&self) {
        self.0.metrics.canceled.inc();
    }

    pub(super) fn stage(&self) -> Stage {
        self.0.spec.stop
    }

    pub(super) fn count_aborted(&self) {
        self.count_lost(self.live());
    }

    pub(super) fn count_lost(&self, children: usize) {
        self.0.metrics.aborted.inc_by(children as u64);
    }

    #[inline]
    fn child<F: Future<Output = ()>>(&self, work: F) -> Child<F> {
        self.0.metrics.spawned.inc();
        let tally = Tally { shard: self.0.live.begin(), kind: Arc::clone(&self.0) };
        Child { work: NoLockAcrossAwait::new(work), _tally: tally }
    }
}

pin_project! {
    struct Child<F> {
        #[pin]
        work: NoLockAcrossAwait<F>,
        _tally: Tally,
    }
}

impl<F: Future<Output = ()>> Future for Child<F> {
    type Output = ();

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        self.project().work.poll(cx)
    }
}

/// Counts the child out, and its panic if that is how it ends.
struct Tally {
    kind: Arc<Inner>,
    shard: InFlightShard,
}

impl Drop for Tally {
    fn drop(&mut self) {
        self.kind.live.end(self.shard);
        if std::thread::panicking() {
            self.kind.metrics.panicked.inc();
            tracing::error!(kind = self.kind.spec.kind, "a child panicked; the panic was caught");
        }
    }
}
