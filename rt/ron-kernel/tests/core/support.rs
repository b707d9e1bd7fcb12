//! What the tests share: short declarations, kernels, and waiting for things without sleeping.

use std::{
    num::NonZeroUsize,
    sync::{
        Arc, Condvar, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use ron_kernel::{
    Exit, Kernel, Scope,
    bus::{KernelEvent, Subscription},
    planes::RuntimeMode,
    readiness::Effect,
    supervisor::TaskState,
    topology::{ChildSpec, Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec, Topology},
};
use tokio::task::JoinHandle;

pub(crate) const SERVICE: &str = "svc";

/// Restarted as usual; readiness only reports when it is given up.
pub(crate) const USUAL: Restart = Restart::usual(Escalation::Degrade(Effect::Report));

pub(crate) const fn task(name: &'static str, restart: Restart, stop: Stage) -> TaskSpec {
    TaskSpec { name, plane: Plane::Control, restart, stop, doc: "" }
}

pub(crate) const fn child(kind: &'static str, stop: Stage) -> ChildSpec {
    ChildSpec { kind, plane: Plane::Data, stop, bound: "", doc: "" }
}

pub(crate) const fn queue(name: &'static str, capacity: usize, policy: Policy) -> QueueSpec {
    QueueSpec { name, capacity, policy, from: "", to: "", doc: "" }
}

pub(crate) const fn topology(
    tasks: &'static [TaskSpec],
    children: &'static [ChildSpec],
    queues: &'static [QueueSpec],
) -> Topology {
    Topology {
        service: SERVICE,
        purpose: "",
        last_reviewed: "",
        invariants: &[],
        tasks,
        children,
        queues,
        locks: &[],
        timeouts: &[],
        metrics: &[],
        trade_offs: &[],
    }
}

/// A kernel on the test's own runtime, whose clock the test may own.
pub(crate) fn kernel_here() -> Kernel {
    kernel(RuntimeMode::Current, Duration::from_secs(3))
}

pub(crate) fn kernel(mode: RuntimeMode, drain_deadline: Duration) -> Kernel {
    Kernel::builder("test")
        .runtime(mode)
        .cores(NonZeroUsize::new(2).unwrap())
        .drain_deadline(drain_deadline)
        .build()
        .unwrap()
}

/// Conducts a kernel beside the test.
pub(crate) fn conduct(kernel: Kernel) -> JoinHandle<Exit> {
    tokio::spawn(async { kernel.conduct().await.unwrap() })
}

/// Asks the node to stop and waits until it has.
pub(crate) async fn stop(scope: &Scope, conductor: JoinHandle<Exit>) -> Exit {
    scope.shutdown().request("the test is over");
    conductor.await.unwrap()
}

/// Waits for an event; fails the test if it does not come.
pub(crate) async fn wait_for(
    events: &mut Subscription,
    wanted: impl Fn(&KernelEvent) -> bool,
) -> KernelEvent {
    let search = async {
        loop {
            match events.next().await.expect("the bus is gone") {
                Ok(event) if wanted(&event) => return event,
                _ => {}
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(300), search).await.expect("the event did not come")
}

/// Longer than anything takes on a busy machine: only what hangs meets it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// How much later than asked for a thread may wake up before the machine counts as stalled.
const STALL: Duration = Duration::from_millis(100);
/// How often a test is run again on a machine that stalls.
const STALLED_RUNS: usize = 20;

/// Runs a test about a short time. What fails while the machine stood still says nothing, and is run again; what fails on a
/// machine that runs is wrong.
pub(crate) async fn unless_stalled<F>(test: impl Fn() -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for run in 1.. {
        let stalls = Stalls::watch();
        let Err(failed) = tokio::spawn(test()).await else { return };
        let longest = stalls.longest();
        if longest < STALL || run == STALLED_RUNS {
            std::panic::resume_unwind(failed.into_panic());
        }
        println!("run again: a thread was late by {longest:?}");
    }
}

/// A thread that wants to wake up every few milliseconds, and sees how late it does.
struct Stalls {
    longest: Arc<AtomicU64>,
}

impl Stalls {
    fn watch() -> Self {
        let longest = Arc::<AtomicU64>::default();
        let seen = Arc::downgrade(&longest);
        std::thread::spawn(move || {
            const STEP: Duration = Duration::from_millis(5);
            loop {
                let begun = Instant::now();
                std::thread::sleep(STEP);
                let Some(seen) = seen.upgrade() else { return };
                let late = begun.elapsed().saturating_sub(STEP).as_micros();
                seen.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        Self { longest }
    }

    fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed))
    }
}

/// Lets the runtime turn until `done`; fails the test if that takes too long.
pub(crate) async fn until(done: impl Fn() -> bool) {
    let turn = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    tokio::time::timeout(PATIENCE, turn).await.expect("it did not happen");
}

/// The state of a task and its restarts.
pub(crate) fn state(scope: &Scope, name: &str) -> (TaskState, u32) {
    let tasks = scope.supervisor().tasks();
    let task = tasks.iter().find(|t| t.service == SERVICE && t.name == name);
    task.map(|t| (t.state, t.restarts)).expect("a known task")
}

/// What stands against the test's service: names and effects.
pub(crate) fn standing(scope: &Scope) -> Vec<(&'static str, Effect)> {
    let standing = scope.readiness().standing(Some(SERVICE));
    standing.iter().map(|s| (s.name, s.effect)).collect()
}

/// A door that blocks threads until it is opened; opened at the latest when the test ends, so that no thread stays.
#[derive(Clone, Default)]
pub(crate) struct Door(Arc<(Mutex<bool>, Condvar)>);

impl Door {
    /// Blocks this thread.
    pub(crate) fn wait(&self) {
        let open = self.0.0.lock().unwrap();
        drop(self.0.1.wait_while(open, |open| !*open).unwrap());
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock().unwrap() = true;
        self.0.1.notify_all();
    }

    /// Opens the door when the test ends, however it ends.
    pub(crate) fn opened_at_the_end(&self) -> impl Drop + use<> {
        struct Opener(Door);
        impl Drop for Opener {
            fn drop(&mut self) {
                self.0.open();
            }
        }
        Opener(self.clone())
    }
}
