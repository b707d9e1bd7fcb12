//! Housekeeping: what services register is called every ten seconds, and routes that are gone leave the metrics.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use ron_kernel::{ExitCode, topology::Topology};

use crate::support::{conduct, kernel_here, stop, topology, until};

static TOPOLOGY: Topology = topology(&[], &[], &[]);

#[tokio::test(start_paused = true)]
async fn a_chore_runs_every_ten_seconds_until_the_node_stops() {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    let runs = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&runs);
    scope.housekept(move || {
        seen.fetch_add(1, Ordering::Relaxed);
    });
    let conductor = conduct(kernel);
    until(|| runs.load(Ordering::Relaxed) == 1).await;
    tokio::time::sleep(Duration::from_secs(35)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 4);
    assert_eq!(stop(&scope, conductor).await.code, ExitCode::Clean);
    tokio::time::sleep(Duration::from_secs(60)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 4);
}

#[tokio::test(start_paused = true)]
async fn a_chore_that_panics_is_reported_and_tried_again() {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    let metrics = kernel.own().metrics().clone();
    let runs = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&runs);
    scope.housekept(move || assert!(seen.fetch_add(1, Ordering::Relaxed) > 0, "on purpose"));
    let conductor = conduct(kernel);
    tokio::time::sleep(Duration::from_secs(21)).await;
    assert_eq!(runs.load(Ordering::Relaxed), 2);
    assert_eq!(metrics.restarts("housekeeping").get(), 1);
    assert_eq!(metrics.tasks("housekeeping").panicked.get(), 1);
    stop(&scope, conductor).await;
}

#[tokio::test(start_paused = true)]
async fn a_route_that_was_forgotten_is_gone_from_the_metrics_after_the_next_housekeeping() {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    let conductor = conduct(kernel);
    scope.metrics().route("/old").record("GET", 200, Duration::from_millis(1));
    scope.metrics().forget_route("/old");
    let listed = || scope.all_metrics().prometheus_text().contains("route=\"/old\"");
    assert!(listed());
    tokio::time::sleep(Duration::from_secs(11)).await;
    assert!(!listed());
    stop(&scope, conductor).await;
}
