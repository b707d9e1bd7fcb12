//! The taxonomy of faults, row by row: the real thing is made to fail, and the answer, the advice and the scrape compared.

use std::time::Duration;

use ron_kernel::{
    Fault, Kernel, Scope,
    blocking::{BLOCKING_THREADS, BLOCKING_WAITERS},
    bus::{BUS_CAPACITY, KernelEvent},
    readiness::Effect,
    retry::{Backoff, RetryBudget, RetryError, RetryPolicy, Retryable, retry},
    topology::{Policy, QueueSpec, Stage, TaskSpec, Topology},
};
use tokio::task::JoinSet;
use types::{Deadline, Reason, Refusal};

use crate::support::{Door, USUAL, conduct, kernel_here, queue, stop, task, topology, until};

const DEADLINE: Duration = Duration::from_millis(100);

const WORK: QueueSpec = queue("work", 2, Policy::RejectNew);
const RESULTS: QueueSpec = queue("results", 2, Policy::Await { deadline: DEADLINE });
const WRITER: TaskSpec = task("writer", USUAL, Stage::Workers);
static TOPOLOGY: Topology = topology(&[WRITER], &[], &[WORK, RESULTS]);

/// What a row of the table promises.
struct Row {
    status: u16,
    reason: Reason,
    retryable: bool,
    /// A series of the scrape, as far as it identifies it, and by how much it moves.
    metric: (&'static str, u64),
}

impl Row {
    fn check(&self, fault: &Fault, before: u64, scope: &Scope) {
        let refusal = Refusal::from(fault.clone());
        assert_eq!((refusal.reason, refusal.reason.status()), (self.reason, self.status), "{fault:?}");
        assert_eq!(fault.retryable(), self.retryable, "{fault:?}");
        let (series, by) = self.metric;
        assert_eq!(value(scope, series) - before, by, "{series} after {fault:?}");
    }
}

/// The value of the one series of the scrape that starts so; 0 if it is not there yet.
fn value(scope: &Scope, series: &str) -> u64 {
    let (name, labels) = series.split_once('{').unwrap();
    let labels: Vec<&str> = labels.trim_end_matches('}').split(',').collect();
    let scrape = scope.all_metrics().prometheus_text();
    let lines = scrape.lines().filter(|line| {
        line.split_once('{').is_some_and(|(found, _)| found == name)
            && labels.iter().all(|l| line.contains(l))
    });
    let values: Vec<u64> = lines.filter_map(|line| line.rsplit_once(' ')?.1.parse().ok()).collect();
    assert!(values.len() < 2, "{series} is not one series");
    values.first().copied().unwrap_or(0)
}

fn node() -> (Kernel, Scope) {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    (kernel, scope)
}

#[tokio::test(start_paused = true)]
async fn a_full_queue_is_busy() {
    let (_kernel, scope) = node();
    for (spec, metric) in [
        (&WORK, "busy_rejections_total{service=\"svc\",endpoint=\"door\",queue=\"work\"}"),
        (&RESULTS, "busy_rejections_total{service=\"svc\",endpoint=\"door\",queue=\"results\"}"),
        (&WORK, "queue_dropped_total{service=\"svc\",queue=\"work\"}"),
    ] {
        let row = Row { status: 429, reason: Reason::Busy, retryable: true, metric: (metric, 1) };
        let (tx, _rx) = scope.queue(spec, "door");
        tx.send(1).await.unwrap();
        tx.send(2).await.unwrap();
        let before = value(&scope, metric);
        let fault = Fault::from(tx.send(3).await.unwrap_err());
        assert_eq!(fault, Fault::Busy);
        row.check(&fault, before, &scope);
    }
}

#[tokio::test]
async fn a_full_blocking_pool_is_busy() {
    let (_kernel, scope) = node();
    let door = Door::default();
    let _end = door.opened_at_the_end();
    let mut callers = JoinSet::new();
    for _ in 0..BLOCKING_THREADS + BLOCKING_WAITERS {
        let (pool, inside) = (scope.blocking().clone(), door.clone());
        callers.spawn(async move { pool.run("stand at the door", move || inside.wait()).await });
    }
    until(|| scope.blocking().waiting() == BLOCKING_WAITERS).await;
    let metric = "busy_rejections_total{service=\"kernel\",queue=\"blocking\"}";
    let before = value(&scope, metric);
    let fault = Fault::from(scope.blocking().run("one too many", || ()).await.unwrap_err());
    assert_eq!(fault, Fault::Busy);
    let row = Row { status: 429, reason: Reason::Busy, retryable: true, metric: (metric, 1) };
    row.check(&fault, before, &scope);
    assert_eq!(Refusal::from(fault).retry_after, Some(Duration::from_secs(1)));
}

#[tokio::test(start_paused = true)]
async fn what_takes_too_long_is_a_timeout_of_its_operation() {
    let (_kernel, scope) = node();
    let metric = "io_timeouts_total{service=\"svc\",op=\"rpc\"}";
    let deadline = scope.clock().within(DEADLINE);
    assert_eq!(scope.by("rpc", deadline, async { 7 }).await, Ok(7));
    assert_eq!(value(&scope, metric), 0, "what is in time is not counted");
    let fault = scope.by("rpc", deadline, std::future::pending::<()>()).await.unwrap_err();
    assert_eq!((&fault, fault.to_string()), (&Fault::Timeout { op: "rpc" }, "rpc took too long".to_owned()));
    let row = Row { status: 504, reason: Reason::DownstreamTimeout, retryable: true, metric: (metric, 1) };
    row.check(&fault, 0, &scope);
}

#[tokio::test(start_paused = true)]
async fn what_a_stop_interrupts_is_canceled() {
    let (kernel, scope) = node();
    let (tx, rx) = scope.queue::<u8>(&WORK, "door");
    let rx = rx.share();
    scope.task(&WRITER, move |ctx| {
        let rx = rx.clone();
        async move {
            ctx.stopping().await;
            rx.close();
            Ok(())
        }
    });
    let conductor = conduct(kernel);
    let metric = "tasks_canceled_total{service=\"svc\",kind=\"writer\"}";
    assert_eq!(value(&scope, metric), 0);
    stop(&scope, conductor).await;
    let fault = Fault::from(tx.send(1).await.unwrap_err());
    assert_eq!(fault, Fault::Canceled);
    let row = Row { status: 503, reason: Reason::Draining, retryable: false, metric: (metric, 1) };
    row.check(&fault, 0, &scope);
}

#[tokio::test(start_paused = true)]
async fn a_slow_subscriber_is_lagging() {
    let (_kernel, scope) = node();
    let mut slow = scope.bus().subscribe();
    let metric = "bus_lagged_total{service=\"kernel\",bus=\"events\"}";
    let before = value(&scope, metric);
    for n in 0..BUS_CAPACITY + 3 {
        scope.bus().publish(KernelEvent::CoreBack { core: n.to_string() });
    }
    let fault = slow.next().await.unwrap().unwrap_err();
    assert_eq!(fault, Fault::Lagging { missed: 3 });
    let row = Row { status: 500, reason: Reason::Internal, retryable: false, metric: (metric, 3) };
    row.check(&fault, before, &scope);
    assert!(slow.next().await.unwrap().is_ok(), "it goes on with what is left");
}

#[tokio::test(start_paused = true)]
async fn a_service_that_sheds_writes_is_degraded() {
    let (_kernel, scope) = node();
    let readiness = scope.readiness().service(scope.service());
    let outage = scope.condition("outage", Effect::ShedWrites, Duration::ZERO);
    assert_eq!(readiness.admit_write(), Ok(()));
    outage.raise("no answer");
    let fault = readiness.admit_write().unwrap_err();
    assert_eq!(fault, Fault::Degraded);
    let metric = "readyz_degraded{service=\"svc\",cause=\"outage\"}";
    let row = Row { status: 503, reason: Reason::Degraded, retryable: true, metric: (metric, 1) };
    row.check(&fault, 0, &scope);
    outage.clear();
    assert_eq!(readiness.admit_write(), Ok(()));
}

#[tokio::test(start_paused = true)]
async fn what_fails_again_and_again_is_given_up_with_its_last_fault_and_each_retry_is_counted() {
    let (_kernel, scope) = node();
    let metric = "backoff_retries_total{service=\"svc\",op=\"rpc\"}";
    let call = async |max_tries: u32, budget: RetryBudget, fault: Fault| {
        let backoff = Backoff::Added { base: DEADLINE, cap: DEADLINE, jitter: false };
        let policy = RetryPolicy { max_tries, backoff };
        let (clock, counter) = (scope.clock(), scope.metrics().retries("rpc"));
        let mut rng = fastrand::Rng::with_seed(7);
        let op = |_| std::future::ready(Err::<(), _>(fault.clone()));
        let given_up = retry(&policy, &budget, Deadline::NEVER, clock, &counter, &mut rng, op).await;
        given_up.unwrap_err()
    };
    let exhausted = call(3, RetryBudget::new(0, 9), Fault::Timeout { op: "rpc" }).await;
    assert!(
        matches!(exhausted, RetryError::Exhausted { last: Fault::Timeout { op: "rpc" }, .. }),
        "{exhausted:?}"
    );
    assert_eq!(value(&scope, metric), 2, "three tries are two retries");
    let unaffordable = call(3, RetryBudget::new(0, 1), Fault::Busy).await;
    assert!(matches!(unaffordable, RetryError::BudgetSpent { last: Fault::Busy, .. }), "{unaffordable:?}");
    assert_eq!(value(&scope, metric), 3, "one retry was paid for");
    assert_eq!(call(3, RetryBudget::new(0, 9), Fault::Canceled).await.into_last(), Fault::Canceled);
    assert_eq!(value(&scope, metric), 3, "what cannot get better is not tried again");
}

#[tokio::test]
async fn a_job_that_panics_is_our_fault_and_its_message_stays_here() {
    let (_kernel, scope) = node();
    let metric = "tasks_panicked_total{service=\"kernel\",kind=\"blocking\"}";
    let before = value(&scope, metric);
    let fault = Fault::from(scope.blocking().run::<(), _>("parse", || panic!("key 1234")).await.unwrap_err());
    assert!(matches!(fault, Fault::Panicked { job: "parse", .. }), "{fault:?}");
    let row = Row { status: 500, reason: Reason::Internal, retryable: false, metric: (metric, 1) };
    row.check(&fault, before, &scope);
    assert!(!Refusal::from(fault).detail.contains("1234"));
}
