//! Capacity that is lost under load: readiness tells, the workers come back, and no epoch is lost.

use std::{
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::Duration,
};

use ron_kernel::{bus::KernelEvent, readiness::Effect};

use crate::support::{Running, eventually};

/// Longer than anything takes on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Kills these workers, and waits until readiness has told so and is content again. By the events, because it may be over
/// before one looks.
fn kill_workers(running: &Running, workers: &[&str]) {
    let mut events = running.scope.bus().subscribe();
    for worker in workers {
        eventually("there is a worker to kill", || running.scope.supervisor().kill("rewarder", worker));
    }
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        // Without its workers the rewarder is not ready.
        for expected in [Some(Effect::ServiceDown), None] {
            let about = |event: &KernelEvent| {
                matches!(event, KernelEvent::Condition { service: "rewarder", name: "lost_workers", effect, .. }
                    if *effect == expected)
            };
            let told = async { while !events.next().await.unwrap().is_ok_and(|event| about(&event)) {} };
            tokio::time::timeout(PATIENCE, told).await.expect("readiness tells");
        }
    });
}

/// Lets the load end, also when the test fails.
struct SetAtTheEnd<'a>(&'a AtomicBool);

impl Drop for SetAtTheEnd<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn half_of_the_workers_killed_under_load_are_told_of_and_back_and_no_epoch_is_lost() {
    let running = Running::start();
    let done = AtomicBool::new(false);
    let settled = || running.epochs().iter().filter(|epoch| epoch["state"] == "settled").count();
    thread::scope(|scope| {
        scope.spawn(|| {
            while !done.load(Ordering::Relaxed) {
                running.book("alice", 1);
                thread::sleep(Duration::from_millis(20));
            }
        });
        let _done = SetAtTheEnd(&done);
        eventually("epochs are settled", || settled() >= 1);
        kill_workers(&running, &["worker#0", "worker#1"]);
        let before = settled();
        eventually("epochs are settled again", || settled() > before + 1);
    });
    // Each epoch that was ever begun ends settled: whatever a worker had in hand came again by the clock.
    eventually("no epoch is left behind", || {
        running.epochs().iter().all(|epoch| epoch["state"] == "settled" || epoch["state"] == "open")
    });
    let restarts =
        running.metric("service_restarts_total{node=\"test\",service=\"rewarder\",task=\"worker\"}");
    assert_eq!(restarts, 2.0);
    assert_eq!(running.metric("dropped_results_total{"), 0.0, "no result was lost");
}
