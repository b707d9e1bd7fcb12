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

use crate::support::{USUAL, child, conduct, kernel, stop, task, topology, until};

const ACCEPTOR: TaskSpec = TaskSpec { plane: Plane::Data, ..task("acceptor", USUAL, Stage::Intake) };
const CONNECTION: ChildSpec = child("connection", Stage::Support);

static TOPOLOGY: Topology = topology(&[ACCEPTOR], &[CONNECTION], &[]);

async fn smoke(mode: RuntimeMode, cores: usize) {
    let kernel = kernel(mode, Duration::from_secs(3));
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
    let kernel = kernel(RuntimeMode::PerCore, Duration::from_secs(3));
    let scope = kernel.scope(&TOPOLOGY);
    let answer = kernel.block_on(async { scope.blocking().run("answer", || 42).await });
    assert_eq!(answer, Ok(42));
    scope.shutdown().request("no more questions");
    let exit = kernel.run().unwrap();
    assert_eq!((exit.code, exit.cause.as_str()), (ExitCode::Clean, "no more questions"));
}

#[tokio::test]
async fn seats_go_to_the_core_with_the_fewest_and_are_given_back() {
    let kernel = kernel(RuntimeMode::PerCore, Duration::from_secs(3));
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
