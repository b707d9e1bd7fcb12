//! What does not let go: it is named in time, and the process ends around it.

use std::time::Duration;

use ron_kernel::{
    Exit, ExitCode, Kernel, Scope,
    bus::KernelEvent,
    planes::RuntimeMode,
    readiness::Effect,
    topology::{ChildSpec, Stage, TaskSpec, Topology},
};

use crate::support::{
    Door, PATIENCE, USUAL, child, conduct, kernel, stop, task, topology, unless_stalled, until, wait_for,
};

const DEADLINE: Duration = Duration::from_millis(300);
const WORKER: TaskSpec = task("worker", USUAL, Stage::Workers);
const CHILD: ChildSpec = child("child", Stage::Workers);

static TOPOLOGY: Topology = topology(&[WORKER], &[CHILD], &[]);

/// A node that is to end around what does not let go.
fn scope(mode: RuntimeMode) -> (Kernel, Scope) {
    scope_within(mode, DEADLINE)
}

/// A node that has so long to drain.
fn scope_within(mode: RuntimeMode, drain_deadline: Duration) -> (Kernel, Scope) {
    let kernel = kernel(mode, drain_deadline);
    let scope = kernel.scope(&TOPOLOGY);
    (kernel, scope)
}

/// Stops the node, which ends although something does not let go. How soon is the machine's business.
async fn stop_in_time(kernel: Kernel, scope: &Scope) -> Exit {
    let stopped = stop(scope, conduct(kernel));
    tokio::time::timeout(PATIENCE, stopped).await.expect("the node ends around what does not let go")
}

#[tokio::test]
async fn a_task_that_ignores_the_stop_is_aborted_and_named() {
    unless_stalled(|| async {
        let (kernel, scope) = scope(RuntimeMode::PerCore);
        scope.task(&WORKER, |_| std::future::pending());
        let exit = stop_in_time(kernel, &scope).await;
        assert_eq!(exit.code, ExitCode::Aborted, "{exit}");
        assert_eq!(exit.aborted, ["svc/worker"]);
        assert_eq!(exit.stuck, Vec::<String>::new());
    })
    .await;
}

#[tokio::test]
async fn a_blocking_job_that_never_ends_is_named_and_the_node_ends_around_it() {
    unless_stalled(|| async {
        let (kernel, scope) = scope(RuntimeMode::PerCore);
        let metrics = kernel.own().metrics().tasks("blocking");
        let door = Door::default();
        let _end = door.opened_at_the_end();
        let (pool, inside) = (scope.blocking().clone(), door.clone());
        let caller = tokio::spawn(async move { pool.run("read the tape", move || inside.wait()).await });
        until(|| scope.blocking().running() == ["read the tape"]).await;
        let exit = stop_in_time(kernel, &scope).await;
        assert_eq!(exit.code, ExitCode::Stuck, "{exit}");
        assert_eq!(exit.stuck, ["blocking: read the tape"]);
        assert_eq!(metrics.aborted.get(), 1);
        door.open();
        assert_eq!(caller.await.unwrap(), Ok(()), "its caller still gets the answer");
    })
    .await;
}

#[tokio::test]
async fn a_job_that_may_hang_is_neither_waited_for_nor_named() {
    let (kernel, scope) = scope(RuntimeMode::PerCore);
    let door = Door::default();
    let _end = door.opened_at_the_end();
    let (pool, inside) = (scope.blocking().clone(), door.clone());
    let (begins, begun) = tokio::sync::oneshot::channel();
    let caller = tokio::spawn(async move {
        let work = move || {
            let _ = begins.send(());
            inside.wait();
        };
        pool.run_apart("ask a name server", work).await
    });
    begun.await.unwrap();
    let exit = stop_in_time(kernel, &scope).await;
    assert_eq!((exit.code, exit.stuck), (ExitCode::Clean, vec![]));
    door.open();
    assert_eq!(caller.await.unwrap(), Ok(()), "its caller still gets the answer");
}

#[tokio::test]
async fn a_blocking_job_that_ends_in_time_is_waited_for() {
    let (kernel, scope) = scope_within(RuntimeMode::PerCore, PATIENCE);
    let metrics = kernel.own().metrics().tasks("blocking");
    let door = Door::default();
    let (pool, inside) = (scope.blocking().clone(), door.clone());
    let caller = tokio::spawn(async move { pool.run("write the tape", move || inside.wait()).await });
    until(|| !scope.blocking().running().is_empty()).await;
    let (shutdown, opener) = (scope.shutdown().clone(), door.clone());
    tokio::spawn(async move {
        shutdown.reached(Stage::Support).await;
        opener.open();
    });
    let exit = stop(&scope, conduct(kernel)).await;
    assert_eq!((exit.code, metrics.aborted.get()), (ExitCode::Clean, 0), "{exit}");
    assert_eq!(caller.await.unwrap(), Ok(()));
}

#[tokio::test]
async fn a_blocked_core_is_named_and_again_when_it_is_back() {
    unless_stalled(|| async {
        let (kernel, scope) = scope_within(RuntimeMode::PerCore, PATIENCE);
        let door = Door::default();
        let _end = door.opened_at_the_end();
        let mut events = scope.bus().subscribe();
        let conductor = conduct(kernel);
        let inside = door.clone();
        let core = &scope.planes().cores()[1];
        scope.children(&CHILD).spawn_on(core, async move { inside.wait() });
        let silent = KernelEvent::CoreSilent { core: "core-1".into() };
        wait_for(&mut events, |e| *e == silent).await;
        until(|| scope.readiness().worst(Some("kernel")) == Some(Effect::Down)).await;
        let standing = scope.readiness().standing(Some("kernel"));
        assert_eq!((standing[0].name, standing[0].reason.as_str()), ("core_silent", "no answer from core-1"));
        assert_eq!(scope.readiness().worst(Some("svc")), None);

        door.open();
        let back = KernelEvent::CoreBack { core: "core-1".into() };
        wait_for(&mut events, |e| *e == back).await;
        until(|| scope.readiness().worst(None).is_none()).await;
        let exit = stop(&scope, conductor).await;
        assert_eq!(exit.code, ExitCode::Clean, "{exit}");
    })
    .await;
}

#[tokio::test]
async fn a_blocked_control_plane_is_named_while_the_node_runs_and_again_when_it_is_back() {
    unless_stalled(|| async {
        let (kernel, scope) = scope_within(RuntimeMode::PerCore, PATIENCE);
        let silent = kernel.own().metrics().core_silent("control");
        let door = Door::default();
        let _end = door.opened_at_the_end();
        let mut events = scope.bus().subscribe();
        let conductor = conduct(kernel);
        let inside = door.clone();
        // More than it has threads.
        scope.pool(&WORKER, 4, move |_| {
            let inside = inside.clone();
            async move {
                inside.wait();
                Ok(())
            }
        });
        let named = KernelEvent::CoreSilent { core: "control".into() };
        wait_for(&mut events, |e| *e == named).await;
        assert_eq!(silent.get(), 1);
        until(|| scope.readiness().worst(Some("kernel")) == Some(Effect::Down)).await;
        door.open();
        let back = KernelEvent::CoreBack { core: "control".into() };
        wait_for(&mut events, |e| *e == back).await;
        assert_eq!(silent.get(), 0);
        let exit = stop(&scope, conductor).await;
        assert_eq!(exit.code, ExitCode::Clean, "{exit}");
    })
    .await;
}

#[tokio::test]
async fn a_core_that_falls_silent_during_a_drain_is_named_and_only_that_one() {
    unless_stalled(|| async {
        let (kernel, scope) = scope_within(RuntimeMode::PerCore, PATIENCE);
        let door = Door::default();
        let _end = door.opened_at_the_end();
        let mut events = scope.bus().subscribe();
        let core = &scope.planes().cores()[1];
        scope.children(&CHILD).spawn_on(core, block_when_stopping(&scope, &door));
        let conductor = conduct(kernel);
        scope.shutdown().request("the test is over");
        let named = wait_for(&mut events, |e| matches!(e, KernelEvent::CoreSilent { .. })).await;
        assert_eq!(named, KernelEvent::CoreSilent { core: "core-1".into() });
        door.open();
        let exit = conductor.await.unwrap();
        assert_eq!(exit.code, ExitCode::Clean, "{exit}");
    })
    .await;
}

/// Blocks whatever polls it from when the node stops.
fn block_when_stopping(scope: &Scope, door: &Door) -> impl Future<Output = ()> + Send + use<> {
    let (shutdown, inside) = (scope.shutdown().clone(), door.clone());
    async move {
        shutdown.reached(Stage::Intake).await;
        inside.wait();
    }
}

#[tokio::test]
async fn a_core_that_never_yields_is_named_at_the_end_and_the_node_ends_around_it() {
    unless_stalled(|| async {
        let (kernel, scope) = scope(RuntimeMode::PerCore);
        let door = Door::default();
        let _end = door.opened_at_the_end();
        let core = &scope.planes().cores()[0];
        scope.children(&CHILD).spawn_on(core, block_when_stopping(&scope, &door));
        let exit = stop_in_time(kernel, &scope).await;
        assert_eq!(exit.code, ExitCode::Stuck, "{exit}");
        assert_eq!(exit.stuck, ["core-0"]);
        assert!(exit.aborted.contains(&"svc/child × 1".to_owned()), "{exit}");
    })
    .await;
}

#[tokio::test]
async fn a_core_that_is_blocked_from_before_the_stop_does_not_keep_the_others_from_being_told() {
    unless_stalled(|| async {
        let (kernel, scope) = scope(RuntimeMode::PerCore);
        let door = Door::default();
        let _end = door.opened_at_the_end();
        let inside = door.clone();
        let core = &scope.planes().cores()[0];
        // At a late stage, so that only the heartbeat would be in the way.
        scope.children(&CHILD).spawn_on(core, async move { inside.wait() });
        scope.task(&WORKER, |ctx| async move {
            ctx.stopping().await;
            Ok(())
        });
        let exit = stop_in_time(kernel, &scope).await;
        assert_eq!((exit.code, exit.stuck.as_slice()), (ExitCode::Stuck, &["core-0".to_owned()][..]));
        assert!(!exit.aborted.contains(&"svc/worker".to_owned()), "{exit}");
    })
    .await;
}

#[tokio::test]
async fn a_blocked_work_stealing_data_plane_is_named() {
    unless_stalled(|| async {
        let (kernel, scope) = scope(RuntimeMode::Shared);
        let door = Door::default();
        let _end = door.opened_at_the_end();
        let core = &scope.planes().cores()[0];
        scope.children(&CHILD).spawn_on(core, block_when_stopping(&scope, &door));
        let exit = stop_in_time(kernel, &scope).await;
        assert_eq!((exit.code, exit.stuck.as_slice()), (ExitCode::Stuck, &["data".to_owned()][..]));
    })
    .await;
}

#[tokio::test]
async fn a_blocked_control_plane_is_named() {
    unless_stalled(|| async {
        let (kernel, scope) = scope(RuntimeMode::PerCore);
        let door = Door::default();
        let _end = door.opened_at_the_end();
        let blocks = block_when_stopping(&scope, &door);
        let blocks = std::sync::Mutex::new(Some(Box::pin(blocks)));
        let blocks = std::sync::Arc::new(blocks);
        scope.task(&WORKER, move |_| {
            let blocks = blocks.lock().unwrap().take();
            async move {
                blocks.expect("it runs once").await;
                Ok(())
            }
        });
        let exit = stop_in_time(kernel, &scope).await;
        assert_eq!(
            (exit.code, exit.stuck.as_slice()),
            (ExitCode::Stuck, &["control".to_owned()][..]),
            "{exit}"
        );
        assert!(exit.aborted.contains(&"svc/worker".to_owned()), "{exit}");
    })
    .await;
}
