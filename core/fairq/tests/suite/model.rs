//! The formal model of the round robin, explored to its last state: nobody starves, everything drains, and the queue
//! does what the model says. See `docs/models/fairq.md`.

#[path = "support/model.rs"]
mod machine;

use fairq::{Arrival, FairQueue, Settings, Verdict};
use machine::{Action, Model, Space, State};
use std::{sync::LazyLock, time::Duration};
use types::Moment;

const RULES: Model =
    Model { weights: [1, 1, 2], slots: 1, room: 2, newcomers_in_a_row: Some(7), charges: true };

static ONE_SLOT: LazyLock<Space> = LazyLock::new(|| explored(&RULES));
static TWO_SLOTS: LazyLock<Space> =
    LazyLock::new(|| explored(&Model { weights: [1, 2, 0], slots: 2, room: 1, ..RULES }));

fn explored(model: &Model) -> Space {
    let space = model.explore();
    println!("{model:?}: {} states, {} steps", space.states.len(), space.steps());
    space
}

#[test]
fn nobody_who_waits_is_passed_over_for_ever() {
    for (space, most) in [(&ONE_SLOT, 9), (&TWO_SLOTS, 8)] {
        for tenant in (0..3).filter(|&tenant| space.model.weights[tenant] > 0) {
            let passed_over = space.most_grants_to_others(tenant);
            println!("  tenant {tenant} waits for at most {passed_over:?} grants to others");
            let passed_over = passed_over.expect("there is no cycle in which it waits");
            assert!(passed_over <= most, "the bound in docs/models/fairq.md is {most}");
        }
    }
}

#[test]
fn a_round_robin_that_neither_charges_nor_limits_newcomers_starves_somebody() {
    let space = explored(&Model { charges: false, newcomers_in_a_row: None, ..RULES });
    assert_eq!(space.most_grants_to_others(0), None, "the model would not notice starvation");
}

#[test]
fn without_arrivals_everything_drains() {
    for space in [&ONE_SLOT, &TWO_SLOTS] {
        for (state, steps) in space.states.iter().zip(&space.edges) {
            let waits = state.waiting() > 0;
            let may_grant = steps.iter().any(|(action, _)| *action == Action::Grant);
            assert_eq!(
                may_grant,
                waits && state.running() < space.model.slots,
                "no slot stays empty in vain: {state:?}"
            );
            for (action, next) in steps {
                let next = &space.states[*next];
                let work = |state: &State| 2 * state.waiting() + state.running();
                assert!(
                    matches!(action, Action::Arrive(_)) || work(next) < work(state),
                    "{action:?} is progress"
                );
            }
        }
    }
}

#[test]
fn the_debts_of_the_model_are_bounded() {
    for (space, most) in [(&ONE_SLOT, 6), (&TWO_SLOTS, 8)] {
        let largest = space.states.iter().map(State::largest_stamp).max();
        println!("  largest stamp {largest:?} half rounds");
        assert!(largest.is_some_and(|stamp| stamp <= most), "the bound in docs/models/fairq.md is {most}");
    }
}

/// The queue, driven by the actions of a path through the model.
struct Driven {
    queue: FairQueue<usize, usize>,
    running: Option<fairq::Pass>,
    tickets: usize,
    owners: Vec<usize>,
    now: Moment,
}

impl Driven {
    fn new() -> Self {
        let now = Moment::from_nanos(1_000_000_000);
        let settings = Settings { slots: 1, ..Settings::default() };
        let queue = FairQueue::new(settings, now).expect("sound settings");
        Self { queue, running: None, tickets: 0, owners: Vec::new(), now }
    }

    /// Returns the tenant that was granted a slot.
    fn apply(&mut self, action: Action) -> Option<usize> {
        match action {
            Action::Arrive(tenant) => {
                let estimate = Duration::from_millis(machine::ESTIMATE.into());
                let weight = u32::from(RULES.weights[tenant]);
                let arrival = Arrival {
                    class: 0,
                    tenant,
                    weight,
                    slot_time: estimate.into(),
                    extra_units: 0,
                    slow: false,
                    slots_held: 0,
                };
                let ticket = self.tickets;
                self.tickets += 1;
                self.owners.push(tenant);
                assert_eq!(self.queue.push(arrival, ticket, ticket, self.now), Verdict::Queued);
                None
            }
            Action::Grant => {
                let grant = self.queue.pop(self.now).expect("the model grants a slot");
                self.running = Some(grant.pass);
                Some(self.owners[grant.ticket])
            }
            Action::Return { took, .. } => {
                self.now = self.now.after(Duration::from_millis(took.into()));
                self.queue.settle(self.running.take().expect("the model returns a slot"), self.now);
                None
            }
        }
    }
}

#[test]
fn the_queue_grants_as_the_model_does() {
    let space = &*ONE_SLOT;
    // Not every state by its shortest path, for the sake of time: one in seven.
    for state in (0..space.states.len()).step_by(7) {
        let mut driven = Driven::new();
        for (action, granted) in space.path_to(state) {
            assert_eq!(driven.apply(action), granted, "on the way to {:?}", space.states[state]);
        }
    }
}

#[test]
fn slow_tenants_held_back_never_stop_the_drain() {
    // Whoever is chosen: with any number waiting and running, somebody can always go on, and the quick are never stopped
    // by the slow.
    for slots in 1..=10_u32 {
        let most_slow = Settings { slots, ..Settings::default() }.slow_slots();
        assert!(most_slow >= 1 && (slots == 1 || most_slow < slots));
        for slow_running in 0..=most_slow {
            for quick_running in 0..=slots - slow_running.min(slots) {
                let free = slots.saturating_sub(slow_running + quick_running);
                let slow_may = free > 0 && slow_running < most_slow;
                assert!(
                    slow_may || slow_running + quick_running > 0,
                    "a slow one waits for a return that will come"
                );
                assert!(
                    free > 0 || quick_running > 0 || slots == 1,
                    "slow tenants alone never hold every slot"
                );
            }
        }
    }
}
