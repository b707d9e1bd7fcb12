//! Every layout of the data plane runs the same code and ends the same way.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex},
    time::Duration,
};

use ron_kernel::{
    ExitCode,
    planes::RuntimeMode,
    supervisor::TaskState,
    topology::{ChildSpec, Plane, Stage, TaskSpec, Topology},
};

use crate::support::{PATIENCE, USUAL, child, conduct, kernel, stop, task, topology, until};

const ACCEPTOR: TaskSpec = TaskSpec { plane: Plane::Data, ..task("acceptor", USUAL, Stage::Intake) };
const CONNECTION: ChildSpec = child("connection", Stage::Support);

static TOPOLOGY: Topology = topology(&[ACCEPTOR], &[CONNECTION], &[]);

async fn smoke(mode: RuntimeMode, cores: usize) {
    let kernel = kernel(mode, PATIENCE);
    let scope = kernel.scope(&TOPOLOGY);
    assert_eq!(scope.planes().cores().len(), cores, "{mode:?}");
    let conductor = conduct(kernel);
    let seen: Arc<Mutex<BTreeSet<usize>>> = Arc::default();
    let at = Arc::clone(&seen);
    scope.task_per_core(&ACCEPTOR, move |core, ctx| {
        at.lock().unwrap().insert(core.index());
        async move {
            ctx.stopping().await;
            Ok(())
        }
    });
    let connections = scope.children(&CONNECTION);
    for core in scope.planes().cores() {
        let shutdown = scope.shutdown().clone();
        connections.spawn_on(core, async move { shutdown.reached(Stage::Support).await });
    }
    until(|| seen.lock().unwrap().len() == cores).await;
    assert_eq!(connections.live(), cores, "{mode:?}");
    let done = scope.blocking().run("add", || 1 + 1).await;
    assert_eq!(done, Ok(2), "{mode:?}");
    let exit = stop(&scope, conductor).await;
    assert_eq!((exit.code, connections.live()), (ExitCode::Clean, 0), "{mode:?}: {exit}");
    let tasks = scope.supervisor().tasks();
    assert!(tasks.iter().all(|t| t.state == TaskState::Done), "{mode:?}: {tasks:?}");
}

#[tokio::test]
async fn a_data_plane_of_single_threaded_cores_runs_and_drains() {
    smoke(RuntimeMode::PerCore, 2).await;
}

#[tokio::test]
async fn a_work_stealing_data_plane_runs_and_drains() {
    smoke(RuntimeMode::Shared, 1).await;
}

#[tokio::test(start_paused = true)]
async fn a_kernel_on_the_callers_runtime_runs_and_drains() {
    smoke(RuntimeMode::Current, 1).await;
}

#[test]
fn a_kernel_runs_on_a_plain_thread_and_its_services_are_built_from_there() {
    let kernel = kernel(RuntimeMode::PerCore, PATIENCE);
    let scope = kernel.scope(&TOPOLOGY);
    let answer = kernel.block_on(async { scope.blocking().run("answer", || 42).await });
    assert_eq!(answer, Ok(42));
    scope.shutdown().request("no more questions");
    let exit = kernel.run().unwrap();
    assert_eq!((exit.code, exit.cause.as_str()), (ExitCode::Clean, "no more questions"));
}

/// Drops a kernel with a task that never ends by itself. Nothing is waited for, so of some times that this is done, one
/// at least takes no time, however busy the machine is.
fn drop_with_a_task(mode: RuntimeMode) {
    let took: Vec<_> = (0..5).map(|_| time_to_drop(mode)).collect();
    assert!(took.iter().any(|took| *took < Duration::from_secs(1)), "{mode:?}: {took:?}");
}

/// Starts a task, drops the kernel, and checks that the task goes too. How long the drop took.
fn time_to_drop(mode: RuntimeMode) -> Duration {
    let kernel = kernel(mode, PATIENCE);
    let scope = kernel.scope(&TOPOLOGY);
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    scope.task(&ACCEPTOR, move |_| {
        let held = Arc::clone(&held);
        async move {
            let _held = held;
            std::future::pending().await
        }
    });
    let start = std::time::Instant::now();
    drop(kernel);
    let took = start.elapsed();
    drop(scope);
    let gone = || Arc::strong_count(&alive) == 1;
    while !gone() && start.elapsed() < PATIENCE {
        std::thread::yield_now();
    }
    assert!(gone(), "{mode:?}: the task outlives its kernel");
    took
}

#[test]
fn a_kernel_that_was_never_conducted_is_dropped_on_a_plain_thread_without_waiting() {
    drop_with_a_task(RuntimeMode::PerCore);
    drop_with_a_task(RuntimeMode::Shared);
}

#[tokio::test]
async fn a_kernel_that_was_never_conducted_is_dropped_inside_a_runtime_without_a_panic() {
    drop_with_a_task(RuntimeMode::PerCore);
    drop_with_a_task(RuntimeMode::Shared);
}

#[tokio::test]
async fn the_last_holder_of_a_dropped_kernel_may_be_one_of_its_own_tasks() {
    let kernel = kernel(RuntimeMode::PerCore, PATIENCE);
    let scope = kernel.scope(&TOPOLOGY);
    let (planes, connections) = (Arc::downgrade(scope.planes()), scope.children(&CONNECTION));
    let core = Arc::clone(&scope.planes().cores()[0]);
    connections.spawn_on(&core, async move {
        let _scope = scope;
        std::future::pending::<()>().await;
    });
    drop(kernel);
    until(|| planes.strong_count() == 0).await;
    assert_eq!(connections.live(), 0);
}

#[tokio::test]
async fn seats_go_to_the_core_with_the_fewest_and_are_given_back() {
    let kernel = kernel(RuntimeMode::PerCore, PATIENCE);
    let scope = kernel.scope(&TOPOLOGY);
    let conductor = conduct(kernel);
    let load = || scope.planes().cores().iter().map(|c| c.load()).collect::<Vec<_>>();
    let mut seats: Vec<_> = (0..5).map(|_| scope.planes().seat()).collect();
    assert_eq!(load(), [3, 2]);
    seats.retain(|seat| seat.core().index() == 1);
    assert_eq!(load(), [0, 2]);
    seats.clear();
    assert_eq!(load(), [0, 0]);
    stop(&scope, conductor).await;
}
