//! The drain: stage by stage, waiting for what is in flight, and naming what does not end.

use std::{
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ron_kernel::{
    Exit, ExitCode, Kernel, Scope,
    bus::{BUS_CAPACITY, KernelEvent},
    readiness::Effect,
    supervisor::{TaskFault, TaskState},
    topology::{ChildSpec, Stage, TaskSpec, Topology},
};

use crate::support::{USUAL, child, conduct, kernel_here, state, stop, task, topology, until};

const INTAKE: TaskSpec = task("intake", USUAL, Stage::Intake);
const WORKER: TaskSpec = task("worker", USUAL, Stage::Workers);
const WRITER: TaskSpec = task("writer", USUAL, Stage::Writers);
const SUPPORT: TaskSpec = task("support", USUAL, Stage::Support);
const REQUEST: ChildSpec = child("request", Stage::Workers);
const CONNECTION: ChildSpec = child("connection", Stage::Support);
const STAGES: [&TaskSpec; 4] = [&INTAKE, &WORKER, &WRITER, &SUPPORT];

static TOPOLOGY: Topology = topology(&[INTAKE, WORKER, WRITER, SUPPORT], &[REQUEST, CONNECTION], &[]);

const DEADLINE: Duration = Duration::from_secs(3);
const MS: Duration = Duration::from_millis(1);

type Log = Arc<Mutex<Vec<String>>>;

fn scope() -> (Kernel, Scope) {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    (kernel, scope)
}

/// One task per stage, last stage first, that logs when it is told to stop and when it has, 10 ms later.
fn start_stages(scope: &Scope) -> Log {
    let log = Log::default();
    for spec in STAGES.into_iter().rev() {
        let log = Arc::clone(&log);
        scope.task(spec, move |ctx| {
            let log = Arc::clone(&log);
            async move {
                ctx.stopping().await;
                let ready = ctx.scope.readiness().worst(Some("svc"));
                log.lock().unwrap().push(format!("{} told, {ready:?}", spec.name));
                tokio::time::sleep(10 * MS).await;
                log.lock().unwrap().push(format!("{} done", spec.name));
                Ok(())
            }
        });
    }
    log
}

fn expected() -> Vec<String> {
    let lines = |spec: &TaskSpec| {
        let name = spec.name;
        [format!("{name} told, Some(Down)"), format!("{name} done")]
    };
    STAGES.into_iter().flat_map(lines).collect()
}

fn assert_clean(exit: &Exit, cause: &str) {
    assert_eq!((exit.code, exit.cause.as_str()), (ExitCode::Clean, cause), "{exit}");
    assert_eq!((exit.aborted.len(), exit.stuck.len()), (0, 0), "{exit}");
}

#[tokio::test(start_paused = true)]
async fn a_request_drains_the_stages_in_order_after_readiness_has_flipped() {
    let (kernel, scope) = scope();
    let log = start_stages(&scope);
    let conductor = conduct(kernel);
    tokio::time::sleep(DEADLINE).await;
    assert_eq!(scope.readiness().worst(None), None);
    assert!(!scope.shutdown().is_draining());
    scope.shutdown().request("maintenance");
    scope.shutdown().request("asking again changes nothing");
    let exit = conductor.await.unwrap();
    assert_clean(&exit, "maintenance");
    assert_eq!(*log.lock().unwrap(), expected());
    assert!(exit.took >= 40 * MS && exit.took < 100 * MS, "{exit}");
    assert_eq!(scope.readiness().worst(Some("kernel")), Some(Effect::Down));
}

#[tokio::test(start_paused = true)]
async fn an_event_on_the_bus_drains_the_node_like_a_request() {
    let (kernel, scope) = scope();
    let log = start_stages(&scope);
    let conductor = conduct(kernel);
    tokio::time::sleep(MS).await;
    let cause = "the bus said so".to_owned();
    scope.bus().publish(KernelEvent::Shutdown { cause });
    assert_clean(&conductor.await.unwrap(), "the bus said so");
    assert_eq!(*log.lock().unwrap(), expected());
}

#[tokio::test(start_paused = true)]
async fn a_request_is_not_lost_before_anybody_listens_nor_in_a_burst_of_events() {
    let (kernel, scope) = scope();
    scope.shutdown().request("early");
    assert_clean(&conduct(kernel).await.unwrap(), "early");

    let (kernel, scope) = self::scope();
    let conductor = conduct(kernel);
    tokio::time::sleep(MS).await;
    scope.shutdown().request("drowned");
    for n in 0..2 * BUS_CAPACITY {
        scope.bus().publish(KernelEvent::CoreBack { core: n.to_string() });
    }
    assert_clean(&conductor.await.unwrap(), "drowned");
}

#[tokio::test(start_paused = true)]
async fn writers_begin_only_when_the_work_in_flight_has_finished() {
    let (kernel, scope) = scope();
    let log = start_stages(&scope);
    let conductor = conduct(kernel);
    let (guard, shutdown, seen) = (scope.work().enter(), scope.shutdown().clone(), Arc::clone(&log));
    // A connection stays until the end, but the request on it is work.
    scope.children(&CONNECTION).spawn(async move {
        shutdown.reached(Stage::Workers).await;
        tokio::time::sleep(200 * MS).await;
        seen.lock().unwrap().push("request done".to_owned());
        drop(guard);
        shutdown.reached(Stage::Support).await;
    });
    let exit = stop(&scope, conductor).await;
    assert_clean(&exit, "the test is over");
    let mut lines = expected();
    lines.insert(4, "request done".to_owned());
    assert_eq!(*log.lock().unwrap(), lines);
    assert_eq!(scope.supervisor().children().iter().map(|c| c.2).sum::<usize>(), 0);
}

#[tokio::test(start_paused = true)]
async fn what_appears_late_in_an_early_stage_is_waited_for_too() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    let requests = scope.children(&REQUEST);
    let shutdown = scope.shutdown().clone();
    let late = requests.clone();
    scope.children(&CONNECTION).spawn(async move {
        shutdown.reached(Stage::Support).await;
        late.spawn(tokio::time::sleep(100 * MS));
    });
    let exit = stop(&scope, conductor).await;
    assert_clean(&exit, "the test is over");
    assert!(exit.took >= 100 * MS, "{exit}");
    assert_eq!(requests.live(), 0);
}

#[tokio::test(start_paused = true)]
async fn work_that_ends_just_before_the_deadline_is_clean_and_just_after_it_is_not() {
    for (takes, code) in [(DEADLINE - 10 * MS, ExitCode::Clean), (DEADLINE + 10 * MS, ExitCode::Aborted)] {
        let (kernel, scope) = scope();
        let conductor = conduct(kernel);
        scope.task(&WORKER, move |ctx| async move {
            ctx.stopping().await;
            tokio::time::sleep(takes).await;
            Ok(())
        });
        tokio::time::sleep(MS).await;
        let exit = stop(&scope, conductor).await;
        assert_eq!(exit.code, code, "{exit}");
        assert!(exit.took <= DEADLINE + 10 * MS, "{exit}");
    }
}

#[tokio::test(start_paused = true)]
async fn what_outlasts_the_deadline_is_aborted_named_and_counted_exactly() {
    let (kernel, scope) = scope();
    scope.pool(&WORKER, 2, |_| std::future::pending());
    // Told only when the deadline has passed, and given a moment to flush.
    scope.task(&WRITER, |ctx| async move {
        ctx.stopping().await;
        tokio::time::sleep(5 * MS).await;
        Ok(())
    });
    let requests = scope.children(&REQUEST);
    (0..3).for_each(|_| requests.spawn(std::future::pending()));
    let _in_flight = scope.work().enter();
    let conductor = conduct(kernel);
    tokio::time::sleep(MS).await;
    let exit = stop(&scope, conductor).await;
    assert_eq!(exit.code, ExitCode::Aborted, "{exit}");
    let names = ["svc/worker#0", "svc/worker#1", "svc/request × 3", "svc/in flight × 1"];
    assert_eq!(exit.aborted, names);
    assert!(exit.took >= DEADLINE && exit.took <= DEADLINE + 10 * MS, "{exit}");
    let aborted = |kind| scope.metrics().tasks(kind).aborted.get();
    assert_eq!([aborted("worker"), aborted("writer"), aborted("request")], [2, 0, 3]);
    assert_eq!(scope.metrics().tasks("writer").canceled.get(), 1);
    assert_eq!(state(&scope, "writer").0, TaskState::Done);
    until(|| state(&scope, "worker#0").0 == TaskState::Done).await;
    assert_eq!(scope.metrics().tasks("worker").canceled.get(), 0, "counted once");
}

#[tokio::test(start_paused = true)]
async fn metrics_are_sampled_and_no_runtime_is_called_silent_while_a_drain_takes_its_time() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    let samples = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&samples);
    scope.sampled(move || {
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let at_start = Arc::clone(&samples);
    scope.task(&WORKER, move |ctx| {
        let at_start = Arc::clone(&at_start);
        async move {
            ctx.stopping().await;
            at_start.store(0, Ordering::Relaxed);
            tokio::time::sleep(DEADLINE - 100 * MS).await;
            Ok(())
        }
    });
    tokio::time::sleep(MS).await;
    let mut events = scope.bus().subscribe();
    assert_clean(&stop(&scope, conductor).await, "the test is over");
    let samples = samples.load(Ordering::Relaxed);
    assert!((10..=13).contains(&samples), "four a second, not {samples}");
    while let Ok(Some(heard)) = tokio::time::timeout(MS, events.next()).await {
        assert!(!matches!(heard, Ok(KernelEvent::CoreSilent { .. })), "{heard:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn work_in_flight_alone_is_enough_to_miss_the_deadline() {
    let (kernel, scope) = scope();
    let _in_flight = scope.work().enter();
    let conductor = conduct(kernel);
    tokio::time::sleep(MS).await;
    let exit = stop(&scope, conductor).await;
    assert_eq!(exit.code, ExitCode::Aborted, "{exit}");
    assert_eq!(exit.aborted, ["svc/in flight × 1"]);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_while_it_stops_is_not_started_again() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    scope.task(&WORKER, |ctx| async move {
        ctx.stopping().await;
        Err(TaskFault::new("too late"))
    });
    tokio::time::sleep(MS).await;
    let exit = stop(&scope, conductor).await;
    assert_clean(&exit, "the test is over");
    let metrics = scope.metrics().tasks("worker");
    assert_eq!((metrics.spawned.get(), metrics.canceled.get()), (1, 1));
}

#[tokio::test(start_paused = true)]
async fn a_task_that_fails_before_its_stage_is_still_started_again() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    // Keeps the drain in its first stage for a while.
    scope.task(&INTAKE, |ctx| async move {
        ctx.stopping().await;
        tokio::time::sleep(Duration::from_secs(1)).await;
        Ok(())
    });
    scope.task(&WRITER, |ctx| async move {
        if ctx.restarts == 0 {
            ctx.scope.shutdown().reached(Stage::Intake).await;
            return Err(TaskFault::new("in the middle"));
        }
        ctx.stopping().await;
        Ok(())
    });
    tokio::time::sleep(MS).await;
    assert_clean(&stop(&scope, conductor).await, "the test is over");
    assert_eq!(state(&scope, "writer"), (TaskState::Done, 1));
}
