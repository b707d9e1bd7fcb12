//! What the benchmarks declare to the kernel, as a service would.

use std::{num::NonZeroUsize, time::Duration};

use ron_kernel::{
    Kernel, KernelError, Scope,
    topology::{ChildSpec, Plane, Policy, QueueSpec, Stage, Topology},
};
use ron_transport::serve::{CONNECTION, H2_STREAM, LISTENER, TIMEOUTS};

use crate::Failure;

/// Items a queue holds, in every case.
pub(crate) const CAPACITY: usize = 1024;

pub(crate) const REJECT_NEW: QueueSpec = queue("reject_new", Policy::RejectNew);
pub(crate) const DROP_OLDEST: QueueSpec = queue("drop_oldest", Policy::DropOldest);
pub(crate) const AWAIT: QueueSpec = queue("await", Policy::Await { deadline: Duration::from_secs(10) });

pub(crate) const CHILD: ChildSpec = ChildSpec {
    kind: "child",
    plane: Plane::Data,
    stop: Stage::Workers,
    bound: "the size of a round",
    doc: "a future that is ready at once or at its second poll",
};

static TOPOLOGY: Topology = Topology {
    service: "micro",
    purpose: "measures the kernel",
    last_reviewed: "2026-01-01",
    invariants: &[],
    tasks: &[LISTENER],
    children: &[CONNECTION, H2_STREAM, CHILD],
    queues: &[REJECT_NEW, DROP_OLDEST, AWAIT],
    locks: &[],
    timeouts: &TIMEOUTS,
    metrics: &[],
    trade_offs: &[],
};

/// A kernel of two cores, and the benchmark's scope on it.
pub(crate) fn kernel() -> Result<(Kernel, Scope), KernelError> {
    let kernel = Kernel::builder("bench").cores(CORES).build()?;
    let scope = kernel.scope(&TOPOLOGY);
    Ok((kernel, scope))
}

/// Calls `work` with the benchmark's scope on a kernel of its own, which then drains and ends.
pub(crate) fn with_scope(work: impl FnOnce(&Scope) -> Result<(), Failure>) -> Result<(), Failure> {
    let (kernel, scope) = kernel()?;
    let result = work(&scope);
    scope.shutdown().request("the benchmark is over");
    kernel.run()?;
    result
}

/// Cores of every data plane here.
pub(crate) const CORES: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

const fn queue(name: &'static str, policy: Policy) -> QueueSpec {
    QueueSpec {
        name,
        capacity: CAPACITY,
        policy,
        from: "the producer",
        to: "the consumer",
        doc: "items of the benchmark",
    }
}
