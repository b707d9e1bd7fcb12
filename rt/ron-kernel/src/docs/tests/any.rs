//! Pages of random services: nothing that is declared may be missing.

use proptest::{prelude::*, sample::select};

use super::*;

/// Declarations live as long as the program; those of a test may leak.
fn leaked<T>(items: Vec<T>) -> &'static [T] {
    Vec::leak(items)
}

fn name() -> impl Strategy<Value = &'static str> {
    "[a-z][a-z_]{0,9}( [a-z]{1,5}|[;#|\"])?".prop_map(|name| &*name.leak())
}

fn stage() -> impl Strategy<Value = Stage> {
    select(words::STAGES.to_vec())
}

fn plane() -> impl Strategy<Value = Plane> {
    select(vec![Plane::Control, Plane::Data])
}

fn task() -> impl Strategy<Value = TaskSpec> {
    let restart = select(vec![
        Restart::Never(Escalation::FailClosed),
        Restart::usual(Escalation::FailClosed),
        Restart::usual(Escalation::Degrade(Effect::Down)),
    ]);
    (name(), plane(), restart, stage()).prop_map(|(name, plane, restart, stop)| TaskSpec {
        name,
        plane,
        restart,
        stop,
        doc: "works",
    })
}

fn child() -> impl Strategy<Value = ChildSpec> {
    (name(), plane(), stage(), name()).prop_map(|(kind, plane, stop, bound)| ChildSpec {
        kind,
        plane,
        stop,
        bound,
        doc: "lives briefly",
    })
}

fn queue() -> impl Strategy<Value = QueueSpec> {
    let policy = select(vec![Policy::RejectNew, Policy::DropOldest, Policy::Broadcast, Policy::Watch]);
    (name(), 1..10_000_usize, policy, name(), name()).prop_map(|(name, capacity, policy, from, to)| {
        QueueSpec { name, capacity, policy, from, to, doc: "things" }
    })
}

fn topology() -> impl Strategy<Value = Topology> {
    let many = 0..5_usize;
    let specs = (
        prop::collection::vec(task(), many.clone()),
        prop::collection::vec(child(), many.clone()),
        prop::collection::vec(queue(), many.clone()),
        prop::collection::vec((name(), any::<u8>()), many.clone()),
        prop::collection::vec(name(), many.clone()),
        prop::collection::vec(name(), many),
    );
    (name(), specs).prop_map(|(service, (tasks, children, queues, locks, timeouts, metrics))| Topology {
        service,
        tasks: leaked(tasks),
        children: leaked(children),
        queues: leaked(queues),
        locks: leaked(locks.into_iter().map(|(name, rank)| LockSpec { name, rank, doc: "state" }).collect()),
        timeouts: leaked(
            timeouts
                .into_iter()
                .map(|name| TimeoutSpec { name, default: Duration::from_secs(1), doc: "a wait" })
                .collect(),
        ),
        metrics: leaked(
            metrics.into_iter().map(|name| MetricSpec { name, labels: "", doc: "events" }).collect(),
        ),
        ..EMPTY
    })
}

/// Each section and the names it must show.
fn declared(t: &Topology) -> Vec<(&'static str, Vec<&'static str>)> {
    let tasks: Vec<_> = t.tasks.iter().map(|task| task.name).collect();
    let kinds: Vec<_> = t.children.iter().map(|child| child.kind).collect();
    vec![
        ("Tasks", tasks.clone()),
        ("Children", t.children.iter().flat_map(|child| [child.kind, child.bound]).collect()),
        ("Queues", t.queues.iter().flat_map(|queue| [queue.name, queue.from, queue.to]).collect()),
        ("Locks", t.locks.iter().map(|lock| lock.name).collect()),
        ("Timeouts", t.timeouts.iter().map(|timeout| timeout.name).collect()),
        ("Metrics", t.metrics.iter().map(|metric| metric.name).collect()),
        ("Shutdown", [tasks, kinds].concat()),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_declared_name_appears_in_its_section(topology in topology()) {
        let page = concurrency_page(&topology);
        for (title, names) in declared(&topology) {
            let section = section(&page, title).replace("\\|", "|");
            for name in names {
                prop_assert!(section.contains(name), "{name} is missing in\n{section}");
            }
        }
    }

    #[test]
    fn the_graph_has_an_arrow_for_each_queue_between_nodes_it_draws(topology in topology()) {
        let page = concurrency_page(&topology);
        let graph = section(&page, "Flow").split("```").nth(1).unwrap_or_default();
        let arrows: Vec<_> = graph.lines().filter(|line| line.contains("->|\"")).collect();
        prop_assert_eq!(arrows.len(), topology.queues.len());
        for (arrow, queue) in arrows.iter().zip(topology.queues) {
            let label = format!("({})\"|", queue.capacity);
            prop_assert!(arrow.contains(&label), "{arrow}");
            for end in [arrow.split_whitespace().next(), arrow.split_whitespace().last()].into_iter().flatten() {
                let drawn = ["[", "([", "{{"].iter().any(|open| graph.contains(&format!(" {end}{open}\"")));
                prop_assert!(drawn, "{end} is not drawn in\n{graph}");
            }
        }
    }

    #[test]
    fn the_same_declaration_gives_the_same_page_with_both_diagrams_explained(topology in topology()) {
        let page = concurrency_page(&topology);
        prop_assert_eq!(&page, &concurrency_page(&topology));
        for title in ["Flow", "Shutdown"] {
            let after = section(&page, title).rsplit("```").next().unwrap_or_default();
            prop_assert!(after.trim().len() > 40, "no description after the diagram: {after}");
        }
    }

    #[test]
    fn the_json_holds_every_declaration_in_order(topology in topology()) {
        let json = topology_json(&[&topology], &Live::default());
        let names = |list: &str, key: &str| -> Vec<String> {
            let list = json["services"][0][list].as_array().into_iter().flatten();
            list.filter_map(|entry| entry[key].as_str().map(str::to_owned)).collect()
        };
        let expected = declared(&topology);
        prop_assert_eq!(names("tasks", "name"), expected[0].1.clone());
        prop_assert_eq!(names("children", "kind").len(), topology.children.len());
        prop_assert_eq!(names("queues", "to").len(), topology.queues.len());
        prop_assert_eq!(names("locks", "name"), expected[3].1.clone());
        prop_assert_eq!(names("timeouts", "name"), expected[4].1.clone());
        prop_assert_eq!(names("metrics", "name"), expected[5].1.clone());
    }
}
