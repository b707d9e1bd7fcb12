//! Readiness as services and the admin listener see it: folded, settled, and told on the bus and in metrics.

use std::time::Duration;

use ron_kernel::{bus::KernelEvent, readiness::Effect, topology::Topology};

use tokio::time::timeout;

use crate::support::{SERVICE, conduct, kernel_here, standing, stop, topology, until};

static TOPOLOGY: Topology = topology(&[], &[], &[]);

const SETTLE: Duration = Duration::from_millis(500);

#[tokio::test(start_paused = true)]
async fn a_condition_is_told_once_when_it_stands_and_once_when_it_has_settled() {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    let conductor = conduct(kernel);
    let mut events = scope.bus().subscribe();
    let outage = scope.condition("outage", Effect::ShedWrites, SETTLE);
    let gauge = scope.metrics().degraded("outage");
    outage.raise("no answer");
    outage.raise("no answer");
    assert_eq!((gauge.get(), standing(&scope)), (1, vec![("outage", Effect::ShedWrites)]));
    let start = tokio::time::Instant::now();
    outage.clear();
    assert!(outage.stands(), "it has not settled yet");
    until(|| !outage.stands()).await;
    // The prober looks four times a second.
    let most = SETTLE + Duration::from_millis(252);
    assert!(start.elapsed() >= SETTLE && start.elapsed() <= most, "{:?}", start.elapsed());
    assert_eq!(gauge.get(), 0);
    for effect in [Some(Effect::ShedWrites), None] {
        let heard = events.next().await;
        assert!(
            matches!(&heard, Some(Ok(KernelEvent::Condition { name: "outage", effect: e, .. })) if *e == effect),
            "{heard:?}"
        );
    }
    stop(&scope, conductor).await;
}

#[tokio::test(start_paused = true)]
async fn a_condition_raised_as_something_else_is_next_raised_as_declared() {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    let mut events = scope.bus().subscribe();
    let condition = scope.condition("disk", Effect::Down, Duration::ZERO);
    condition.raise_as(Effect::Report, "slow");
    assert_eq!(standing(&scope), [("disk", Effect::Report)]);
    assert!(!scope.readiness().service(SERVICE).sheds_writes());
    condition.raise("slow");
    assert_eq!(standing(&scope), [("disk", Effect::Down)]);
    assert!(scope.readiness().service(SERVICE).sheds_writes());
    for expected in [Effect::Report, Effect::Down] {
        let heard = events.next().await;
        assert!(
            matches!(&heard, Some(Ok(KernelEvent::Condition { effect: Some(e), .. })) if *e == expected),
            "{heard:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn the_worst_comes_first_and_a_service_answers_only_for_itself() {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    for (name, effect) in [("a", Effect::Report), ("b", Effect::Down), ("c", Effect::ShedWrites)] {
        scope.condition(name, effect, Duration::ZERO).raise(name);
    }
    let order = [("b", Effect::Down), ("c", Effect::ShedWrites), ("a", Effect::Report)];
    assert_eq!(standing(&scope), order);
    assert_eq!(scope.readiness().worst(None), Some(Effect::Down));
    assert_eq!(scope.readiness().worst(Some("kernel")), None);
    scope.condition("b", Effect::Down, Duration::ZERO).clear();
    assert_eq!(scope.readiness().worst(None), Some(Effect::ShedWrites));
}

/// What the rule of one writer at a time protects: however many raise and clear at once, the board, the load that requests
/// make, the gauge and the last event agree in the end, and a condition that stands throughout is never missed.
#[tokio::test]
async fn writers_at_once_leave_board_fold_gauge_and_events_of_one_mind() {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    for round in 0..20 {
        let mut events = scope.bus().subscribe();
        let condition = scope.condition("contended", Effect::ShedWrites, Duration::ZERO);
        let steady = scope.condition("steady", Effect::ShedWrites, Duration::ZERO);
        steady.raise("all the time");
        let readiness = scope.readiness().service(SERVICE);
        std::thread::scope(|threads| {
            for writer in 0..4 {
                let (condition, readiness) = (condition.clone(), readiness.clone());
                threads.spawn(move || {
                    for n in 0..50 {
                        condition.raise(format!("{writer} says so for the {n}th time"));
                        assert!(readiness.sheds_writes(), "the steady one stands");
                        if (n + writer) % 3 != 0 {
                            condition.clear();
                        }
                    }
                });
            }
        });
        steady.clear();
        let mut told = None;
        while let Ok(Some(Ok(heard))) = timeout(Duration::ZERO, events.next()).await {
            if let KernelEvent::Condition { name: "contended", effect, .. } = heard {
                told = effect;
            }
        }
        let stands = condition.stands();
        assert_eq!(told.is_some(), stands, "the last event in round {round}");
        assert_eq!(readiness.sheds_writes(), stands, "the fold in round {round}");
        assert_eq!(
            scope.metrics().degraded("contended").get(),
            i64::from(stands),
            "the gauge in round {round}"
        );
        condition.clear();
    }
}
