//! Crews: children that stand and fall with the task that leads them.

use std::sync::{Arc, Mutex};

use ron_kernel::{
    Kernel, Scope,
    supervisor::{Crew, Lead},
    topology::{ChildSpec, Stage, Topology},
};

use crate::support::{child, kernel_here, topology, until};

const MEMBER: ChildSpec = child("member", Stage::Writers);

static TOPOLOGY: Topology = topology(&[], &[MEMBER], &[]);

fn crew() -> (Kernel, Scope, Arc<Crew>) {
    let kernel = kernel_here();
    let scope = kernel.scope(&TOPOLOGY);
    let crew = Crew::new(scope.children(&MEMBER));
    (kernel, scope, crew)
}

/// Adds members that never end by themselves.
fn add(scope: &Scope, crew: &Arc<Crew>, members: usize) {
    for _ in 0..members {
        crew.spawn_on(&scope.planes().cores()[0], std::future::pending());
    }
}

#[tokio::test(start_paused = true)]
async fn members_end_with_their_leader_and_those_of_the_next_do_not() {
    let (_kernel, scope, crew) = crew();
    let children = scope.children(&MEMBER);
    assert!(!crew.is_led());
    let lead = crew.lead();
    assert!(crew.is_led());
    add(&scope, &crew, 5);
    assert_eq!(children.live(), 5);
    drop(lead);
    assert!(!crew.is_led());
    until(|| children.live() == 0).await;
    assert_eq!(scope.metrics().tasks("member").aborted.get(), 5);
    let _lead = crew.lead();
    add(&scope, &crew, 2);
    tokio::task::yield_now().await;
    assert_eq!(children.live(), 2);
}

#[tokio::test(start_paused = true)]
async fn who_gives_the_lead_up_in_good_order_leaves_the_crew_be() {
    let (_kernel, scope, crew) = crew();
    let lead = crew.lead();
    add(&scope, &crew, 3);
    lead.dismiss();
    tokio::task::yield_now().await;
    assert_eq!(scope.children(&MEMBER).live(), 3);
    assert!(!crew.is_led());
}

/// A member that ends takes the lock that the leader's death holds: neither may wait for the other.
#[tokio::test(start_paused = true)]
async fn a_member_may_end_its_leader() {
    let (_kernel, scope, crew) = crew();
    let lead: Arc<Mutex<Option<Lead>>> = Arc::new(Mutex::new(Some(crew.lead())));
    let held = Arc::clone(&lead);
    add(&scope, &crew, 1);
    crew.spawn_on(&scope.planes().cores()[0], async move { drop(held.lock().unwrap().take()) });
    until(|| scope.children(&MEMBER).live() == 0).await;
    assert!(lead.lock().unwrap().is_none());
}
