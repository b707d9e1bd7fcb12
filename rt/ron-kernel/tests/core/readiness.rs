//! Readiness as services and the admin listener see it: folded, settled, and told on the bus and in metrics.

use std::time::Duration;

use ron_kernel::{bus::KernelEvent, readiness::Effect, topology::Topology};

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
