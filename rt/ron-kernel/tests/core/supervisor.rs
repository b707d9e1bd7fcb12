//! Supervision: what fails is restarted within its bounds, and given up with its declared consequence.

use std::{
    sync::{Arc, Mutex},
    time::Duration,
};

use ron_kernel::{
    Clock, ExitCode, Kernel, Scope,
    bus::KernelEvent,
    readiness::Effect,
    supervisor::{TaskFault, TaskState},
    topology::{ChildSpec, Escalation, Restart, Stage, TaskSpec, Topology},
};

use crate::support::{
    SERVICE, USUAL, child, conduct, kernel_here, standing, state, stop, task, topology, until, wait_for,
};

const fn fails(name: &'static str, then: Escalation) -> TaskSpec {
    task(name, Restart::usual(then), Stage::Workers)
}

const REPORTS: TaskSpec = fails("reports", Escalation::Degrade(Effect::Report));
const SHEDS: TaskSpec = fails("sheds", Escalation::Degrade(Effect::ShedWrites));
const DOWNS: TaskSpec = fails("downs", Escalation::Degrade(Effect::Down));
const CLOSES: TaskSpec = fails("closes", Escalation::FailClosed);
const ONCE: TaskSpec = task("once", Restart::Never(Escalation::Degrade(Effect::ShedWrites)), Stage::Workers);
const WORKER: TaskSpec = fails("worker", Escalation::Degrade(Effect::Down));
const UNDECLARED: TaskSpec = task("undeclared", USUAL, Stage::Workers);
const CHILD: ChildSpec = child("child", Stage::Workers);

static TOPOLOGY: Topology = topology(&[REPORTS, SHEDS, DOWNS, CLOSES, ONCE, WORKER], &[CHILD], &[]);

fn scope() -> (Kernel, Scope) {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    (kernel, scope)
}

async fn given_up(scope: &Scope, spec: &'static TaskSpec) {
    let mut events = scope.bus().subscribe();
    scope.task(spec, |_| async { Err(TaskFault::new("no luck")) });
    let name = format!("{SERVICE}/{}", spec.name);
    wait_for(&mut events, |e| matches!(e, KernelEvent::TaskGivenUp { task } if *task == name)).await;
}

#[tokio::test(start_paused = true)]
async fn work_that_is_done_every_so_often_begins_after_one_period_and_ends_with_the_task() {
    let (kernel, scope) = scope();
    let (start, times) = (tokio::time::Instant::now(), Arc::new(Mutex::new(Vec::new())));
    let noted = Arc::clone(&times);
    scope.task(&WORKER, move |ctx| {
        let noted = Arc::clone(&noted);
        async move {
            ctx.every(Duration::from_secs(2), || noted.lock().unwrap().push(start.elapsed().as_secs())).await
        }
    });
    let conductor = conduct(kernel);
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert_eq!(stop(&scope, conductor).await.code, ExitCode::Clean);
    assert_eq!(*times.lock().unwrap(), [2, 4, 6]);
}

#[tokio::test(start_paused = true)]
async fn a_failing_task_starts_six_times_with_doubling_waits_and_is_then_given_up() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    let starts = Arc::new(Mutex::new(Vec::new()));
    let (seen, clock): (_, Clock) = (Arc::clone(&starts), scope.clock());
    let mut events = scope.bus().subscribe();
    scope.task(&REPORTS, move |ctx| {
        seen.lock().unwrap().push((clock.now(), ctx.restarts));
        async { Err(TaskFault::new("no luck")) }
    });
    for restarts in 1..=5 {
        let failed =
            KernelEvent::TaskFailed { task: "svc/reports".into(), fault: "no luck".into(), restarts };
        wait_for(&mut events, |e| *e == failed).await;
    }
    wait_for(&mut events, |e| matches!(e, KernelEvent::TaskGivenUp { task } if task == "svc/reports")).await;
    let starts = starts.lock().unwrap().clone();
    assert_eq!(starts.iter().map(|(_, n)| *n).collect::<Vec<_>>(), [0, 1, 2, 3, 4, 5]);
    for (n, pair) in starts.windows(2).enumerate() {
        let full = Duration::from_millis(100 << n);
        let waited = pair[1].0.since(pair[0].0);
        // Timers have a resolution of a millisecond.
        let most = full + Duration::from_millis(1);
        assert!(waited >= full / 2 && waited <= most, "restart {n} came after {waited:?}");
    }
    assert_eq!(state(&scope, "reports"), (TaskState::GivenUp, 5));
    assert_eq!(scope.metrics().restarts("reports").get(), 5);
    assert_eq!(scope.metrics().tasks("reports").spawned.get(), 6);
    let exit = stop(&scope, conductor).await;
    assert_eq!(exit.code, ExitCode::Clean, "{exit}");
}

#[tokio::test(start_paused = true)]
async fn a_killed_task_runs_again_and_readiness_is_content_within_a_second() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    let mut events = scope.bus().subscribe();
    scope.task(&WORKER, |ctx| async move {
        ctx.stopping().await;
        Ok(())
    });
    let lost = |event: &KernelEvent, is_lost: bool| {
        matches!(event, KernelEvent::Condition { service: SERVICE, name: "lost_workers", effect, .. }
            if effect.is_some() == is_lost)
    };
    for restarts in 1..=3 {
        until(|| state(&scope, "worker").0 == TaskState::Running).await;
        let killed = tokio::time::Instant::now();
        until(|| scope.supervisor().kill(SERVICE, "worker")).await;
        wait_for(&mut events, |event| lost(event, true)).await;
        until(|| state(&scope, "worker") == (TaskState::Running, restarts)).await;
        let back = tokio::time::Instant::now();
        wait_for(&mut events, |event| lost(event, false)).await;
        assert!(back.elapsed() <= Duration::from_secs(1), "{:?} after it was back", back.elapsed());
        // The first waits are 100, 200 and 400 ms at most.
        assert!(killed.elapsed() <= Duration::from_secs(1), "{:?} after it was killed", killed.elapsed());
    }
    assert_eq!(stop(&scope, conductor).await.code, ExitCode::Clean);
}

#[tokio::test(start_paused = true)]
async fn a_panic_an_error_and_a_kill_are_faults_that_are_told_apart() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    let mut events = scope.bus().subscribe();
    scope.task(&WORKER, |ctx| async move {
        match ctx.restarts {
            0 => panic!("on purpose"),
            1 => Err(TaskFault::new("an error")),
            _ => {
                ctx.stopping().await;
                Ok(())
            }
        }
    });
    let mut faults = Vec::new();
    for _ in 0..3 {
        if faults.len() == 2 {
            until(|| state(&scope, "worker").0 == TaskState::Running).await;
            assert!(scope.supervisor().kill(SERVICE, "worker"));
        }
        let event = wait_for(&mut events, |e| matches!(e, KernelEvent::TaskFailed { .. })).await;
        if let KernelEvent::TaskFailed { fault, .. } = event {
            faults.push(fault);
        }
    }
    assert_eq!(faults, ["panicked: on purpose", "an error", "killed"]);
    assert_eq!(scope.metrics().tasks("worker").panicked.get(), 1);
    until(|| state(&scope, "worker") == (TaskState::Running, 3)).await;
    assert!(!scope.supervisor().kill(SERVICE, "nobody"));
    assert_eq!(stop(&scope, conductor).await.code, ExitCode::Clean);
}

#[tokio::test(start_paused = true)]
async fn a_task_that_returns_ok_is_done_and_never_comes_back() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    scope.task(&WORKER, |_| async { Ok(()) });
    until(|| state(&scope, "worker") == (TaskState::Done, 0)).await;
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(scope.metrics().tasks("worker").spawned.get(), 1);
    assert!(standing(&scope).is_empty());
    assert!(!scope.supervisor().kill(SERVICE, "worker"), "there is nothing to kill");
    stop(&scope, conductor).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_was_given_up_does_to_readiness_what_it_declares_and_no_more() {
    let cases = [
        (&REPORTS, Effect::Report),
        (&SHEDS, Effect::ShedWrites),
        (&DOWNS, Effect::Down),
        (&ONCE, Effect::ShedWrites),
    ];
    for (spec, effect) in cases {
        let (kernel, scope) = scope();
        let conductor = conduct(kernel);
        given_up(&scope, spec).await;
        // While it was being restarted the service had lost a worker; that clears.
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(standing(&scope), [("task_given_up", effect)], "{}", spec.name);
        let reason = &scope.readiness().standing(Some(SERVICE))[0].reason;
        assert_eq!(*reason, format!("{} failed: no luck", spec.name));
        let sheds = scope.readiness().service(SERVICE).sheds_writes();
        assert_eq!(sheds, effect >= Effect::ShedWrites, "{}", spec.name);
        assert_eq!(stop(&scope, conductor).await.code, ExitCode::Clean);
    }
}

#[tokio::test(start_paused = true)]
async fn a_lesser_loss_does_not_cover_up_a_greater_one() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    given_up(&scope, &DOWNS).await;
    given_up(&scope, &REPORTS).await;
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(standing(&scope), [("task_given_up", Effect::Down)]);
    let reason = &scope.readiness().standing(Some(SERVICE))[0].reason;
    assert_eq!(reason, "downs failed: no luck; reports failed: no luck");
    stop(&scope, conductor).await;
}

#[tokio::test(start_paused = true)]
async fn a_task_that_the_node_cannot_do_without_takes_the_node_down_with_its_cause() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    scope.task(&WORKER, |ctx| async move {
        ctx.stopping().await;
        Ok(())
    });
    scope.task(&CLOSES, |_| async { Err(TaskFault::new("the disk is gone")) });
    let exit = conductor.await.unwrap();
    assert_eq!(exit.code, ExitCode::Failed);
    assert_eq!(exit.cause, "svc/closes was given up: the disk is gone");
    assert_eq!((exit.aborted, exit.stuck), (vec![], vec![]));
    assert_eq!(scope.readiness().worst(Some(SERVICE)), Some(Effect::Down));
    assert_eq!(state(&scope, "worker").0, TaskState::Done);
}

#[tokio::test(start_paused = true)]
async fn a_service_says_which_tasks_it_is_restarting_until_all_are_back() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    scope.pool(&WORKER, 4, |ctx| async move {
        ctx.stopping().await;
        Ok(())
    });
    until(|| scope.metrics().tasks("worker").spawned.get() == 4).await;
    for name in ["worker#1", "worker#3"] {
        assert!(scope.supervisor().kill(SERVICE, name));
    }
    until(|| state(&scope, "worker#1").0 == TaskState::BackingOff).await;
    until(|| state(&scope, "worker#3").0 == TaskState::BackingOff).await;
    assert_eq!(standing(&scope), [("lost_workers", Effect::ShedWrites)]);
    let reason = scope.readiness().standing(Some(SERVICE))[0].reason.clone();
    assert_eq!(reason, "restarting worker#1, worker#3");
    until(|| standing(&scope).is_empty()).await;
    assert!((0..4).all(|n| state(&scope, &format!("worker#{n}")).0 == TaskState::Running));
    stop(&scope, conductor).await;
}

#[tokio::test(start_paused = true)]
async fn restarting_a_task_is_never_worse_than_being_without_it() {
    let cases = [
        (&REPORTS, Effect::Report),
        (&SHEDS, Effect::ShedWrites),
        (&DOWNS, Effect::ShedWrites),
        (&CLOSES, Effect::ShedWrites),
    ];
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    for (spec, effect) in cases {
        scope.task(spec, |ctx| async move {
            ctx.stopping().await;
            Ok(())
        });
        until(|| scope.supervisor().kill(SERVICE, spec.name)).await;
        until(|| state(&scope, spec.name).0 == TaskState::BackingOff).await;
        assert_eq!(standing(&scope), [("lost_workers", effect)], "{}", spec.name);
        until(|| standing(&scope).is_empty()).await;
    }
    stop(&scope, conductor).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_the_prober_is_reported_and_the_node_stays_ready() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    until(|| scope.supervisor().kill("kernel", "prober")).await;
    until(|| scope.readiness().worst(None).is_some()).await;
    let standing = scope.readiness().standing(None);
    assert_eq!(standing.len(), 1, "{standing:?}");
    assert_eq!((standing[0].name, standing[0].effect), ("lost_workers", Effect::Report));
    assert_eq!(standing[0].reason, "restarting prober");
    until(|| scope.readiness().worst(None).is_none()).await;
    stop(&scope, conductor).await;
}

#[tokio::test(start_paused = true)]
async fn only_tasks_that_end_because_the_node_stops_count_as_canceled() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    scope.task(&WORKER, |ctx| async move {
        ctx.stopping().await;
        Ok(())
    });
    scope.task(&ONCE, |_| async { Ok(()) });
    until(|| state(&scope, "once").0 == TaskState::Done).await;
    stop(&scope, conductor).await;
    let canceled = |kind| scope.metrics().tasks(kind).canceled.get();
    assert_eq!((canceled("worker"), canceled("once")), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_childs_panic_is_caught_and_counted_and_no_child_stays() {
    let (kernel, scope) = scope();
    let conductor = conduct(kernel);
    let children = scope.children(&CHILD);
    for n in 0..10 {
        children.spawn(async move {
            tokio::time::sleep(Duration::from_millis(n)).await;
            assert!(n % 2 == 0, "on purpose");
        });
    }
    assert_eq!(children.live(), 10);
    until(|| children.live() == 0).await;
    let metrics = scope.metrics().tasks("child");
    assert_eq!((metrics.spawned.get(), metrics.panicked.get()), (10, 5));
    let exit = stop(&scope, conductor).await;
    assert_eq!(exit.code, ExitCode::Clean, "{exit}");
    let live: usize = scope.supervisor().children().iter().map(|(_, _, n)| n).sum();
    assert_eq!(live, 0, "{:?}", scope.supervisor().children());
}

#[tokio::test]
#[should_panic(expected = "declares no task `undeclared`")]
async fn a_task_that_is_not_declared_cannot_be_started() {
    scope().1.task(&UNDECLARED, |_| async { Ok(()) });
}

#[tokio::test]
#[should_panic(expected = "`svc/worker` is already running")]
async fn two_tasks_cannot_run_under_one_name() {
    let (_kernel, scope) = scope();
    scope.task(&WORKER, |_| std::future::pending());
    scope.task(&WORKER, |_| std::future::pending());
}
