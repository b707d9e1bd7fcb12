//! The model: three tenants, one lane, stamps relative to the clock. Small enough to visit every state there is.
//!
//! It says what `fairq` does, in other words and without its data structures: lists are searched from end to end. Times
//! are in half rounds, so that a weight of 2 divides them. An estimate is 2 ms; a request takes 1 ms or 3 ms.

use std::collections::HashMap;

/// Milliseconds that every request is thought to take.
pub(crate) const ESTIMATE: u8 = 2;
const TAKES: [u8; 2] = [1, 3];
/// Half rounds per millisecond.
const UNIT: i32 = 2;
/// By how many half rounds refunds of two slots can set the clock back.
const MOST_SET_BACK: i32 = 2 * UNIT;

#[derive(Debug, Clone, Copy)]
pub(crate) struct Model {
    /// A weight of 0: there is no such tenant.
    pub(crate) weights: [u8; 3],
    pub(crate) slots: usize,
    /// Tickets of each tenant that can wait.
    pub(crate) room: u8,
    /// Of so many grants in a row, one goes to the rounds; `None` in a model that is meant to fail.
    pub(crate) newcomers_in_a_row: Option<u8>,
    /// Whether requests are charged; not so in a model that is meant to fail.
    pub(crate) charges: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Action {
    Arrive(usize),
    Grant,
    /// The slot of a tenant is returned after so many milliseconds.
    Return {
        tenant: usize,
        took: u8,
    },
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub(crate) struct State {
    waiting: [u8; 3],
    running: [u8; 3],
    /// Half rounds until all that was charged is paid.
    stamps: [i32; 3],
    /// The clock's place within its round.
    phase: i32,
    /// Who waits without debt, in order.
    fresh: Vec<usize>,
    /// Who waits for a round, in order of filing.
    filed: Vec<usize>,
    newcomers_in_a_row: u8,
}

impl State {
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.iter().map(|&waiting| usize::from(waiting)).sum()
    }

    pub(crate) fn running(&self) -> usize {
        self.running.iter().map(|&running| usize::from(running)).sum()
    }

    pub(crate) fn largest_stamp(&self) -> i32 {
        self.stamps.into_iter().max().unwrap_or(0)
    }

    fn advance_clock(&mut self, by: i32) {
        self.stamps.iter_mut().for_each(|stamp| *stamp -= by);
        self.phase = (self.phase + by).rem_euclid(UNIT);
    }

    fn round(&self, tenant: usize) -> i32 {
        (self.phase + self.stamps[tenant]).div_euclid(UNIT)
    }

    /// What is past and can no longer matter is forgotten, so that equal states look equal.
    fn normalised(mut self, slots: usize) -> Self {
        for tenant in 0..3 {
            if self.waiting[tenant] == 0 {
                // Below this, neither what runs nor a clock set back by refunds can lift it above the clock any more.
                // With one slot the clock is never set back: a refund leaves a tenant above where it was served.
                let set_back = if slots > 1 { MOST_SET_BACK } else { 0 };
                let least = -(set_back + UNIT * i32::from(self.running[tenant]));
                self.stamps[tenant] = self.stamps[tenant].max(least);
            }
        }
        self
    }
}

impl Model {
    /// What can happen next, with the tenant that is granted a slot.
    fn steps(&self, state: &State) -> Vec<(Action, State, Option<usize>)> {
        let arrivals = (0..3).filter(|&tenant| self.weights[tenant] > 0 && state.waiting[tenant] < self.room);
        let mut steps: Vec<_> = arrivals
            .map(|tenant| (Action::Arrive(tenant), Self::arrive(state.clone(), tenant), None))
            .collect();
        if state.running() < self.slots && state.waiting() > 0 {
            let (next, tenant) = self.grant(state.clone());
            steps.push((Action::Grant, next, Some(tenant)));
        }
        for tenant in (0..3).filter(|&tenant| state.running[tenant] > 0) {
            for took in TAKES {
                let next = self.give_back(state.clone(), tenant, took);
                steps.push((Action::Return { tenant, took }, next, None));
            }
        }
        steps
    }

    fn arrive(mut state: State, tenant: usize) -> State {
        state.waiting[tenant] += 1;
        if state.waiting[tenant] == 1 {
            let list = if state.stamps[tenant] <= 0 { &mut state.fresh } else { &mut state.filed };
            list.push(tenant);
            state.stamps[tenant] = state.stamps[tenant].max(0);
        }
        state
    }

    fn grant(&self, mut state: State) -> (State, usize) {
        let most = self.newcomers_in_a_row;
        let newcomers_may = state.filed.is_empty() || most.is_none_or(|most| state.newcomers_in_a_row < most);
        let tenant = if !state.fresh.is_empty() && newcomers_may {
            let counts = !state.filed.is_empty() && most.is_some();
            state.newcomers_in_a_row = if counts { state.newcomers_in_a_row + 1 } else { 0 };
            state.fresh.remove(0)
        } else {
            state.newcomers_in_a_row = 0;
            let first = (0..state.filed.len()).min_by_key(|&at| (state.round(state.filed[at]), at));
            let tenant = state.filed.remove(first.expect("somebody waits"));
            let same_round = state.round(tenant) == 0;
            state.advance_clock(if same_round { state.stamps[tenant].max(0) } else { state.stamps[tenant] });
            tenant
        };
        state.waiting[tenant] -= 1;
        state.running[tenant] += 1;
        state.stamps[tenant] += self.half_rounds(tenant, ESTIMATE);
        if state.waiting[tenant] > 0 {
            state.filed.push(tenant);
        }
        (state.normalised(self.slots), tenant)
    }

    fn give_back(&self, mut state: State, tenant: usize, took: u8) -> State {
        state.running[tenant] -= 1;
        state.stamps[tenant] += self.half_rounds(tenant, took) - self.half_rounds(tenant, ESTIMATE);
        if took != ESTIMATE && state.filed.contains(&tenant) {
            state.filed.retain(|&filed| filed != tenant);
            state.filed.push(tenant);
        }
        if state.waiting() == 0 {
            state.advance_clock(i32::from(took) * UNIT);
        }
        state.normalised(self.slots)
    }

    fn half_rounds(&self, tenant: usize, millis: u8) -> i32 {
        if self.charges { i32::from(millis) * UNIT / i32::from(self.weights[tenant]) } else { 0 }
    }

    /// Every state that can be reached, and every step between them.
    pub(crate) fn explore(&self) -> Space {
        let mut space = Space {
            model: *self,
            states: vec![State::default()],
            edges: Vec::new(),
            grants: Vec::new(),
            found: vec![None],
        };
        let mut numbers = HashMap::from([(State::default(), 0)]);
        while space.edges.len() < space.states.len() {
            let from = space.edges.len();
            let (mut edges, mut granted) = (Vec::new(), None);
            for (action, next, grant) in self.steps(&space.states[from]) {
                let fresh_number = space.states.len();
                let number = *numbers.entry(next.clone()).or_insert(fresh_number);
                if number == fresh_number {
                    space.states.push(next);
                    space.found.push(Some((from, action)));
                }
                edges.push((action, number));
                granted = granted.or(grant);
            }
            space.edges.push(edges);
            space.grants.push(granted);
            assert!(space.states.len() < 1_000_000, "the model is meant to be small");
        }
        space
    }
}

/// All states and steps of a model.
pub(crate) struct Space {
    pub(crate) model: Model,
    pub(crate) states: Vec<State>,
    pub(crate) edges: Vec<Vec<(Action, usize)>>,
    /// Whom a grant in this state goes to.
    grants: Vec<Option<usize>>,
    /// From which state each was found first, and how.
    found: Vec<Option<(usize, Action)>>,
}

impl Space {
    pub(crate) fn steps(&self) -> usize {
        self.edges.iter().map(Vec::len).sum()
    }

    /// The shortest way to a state, with whom each step grants a slot.
    pub(crate) fn path_to(&self, mut state: usize) -> Vec<(Action, Option<usize>)> {
        let mut path = Vec::new();
        while let Some((from, action)) = self.found[state] {
            path.push((action, if action == Action::Grant { self.grants[from] } else { None }));
            state = from;
        }
        path.reverse();
        path
    }

    /// The most slots that can be granted to others while a tenant waits; `None` if there is no such number, because
    /// some cycle passes it over for ever. That is decided by ordering the states in which it waits: what cannot be
    /// ordered is on a cycle, or behind one.
    pub(crate) fn most_grants_to_others(&self, tenant: usize) -> Option<usize> {
        let waits = |state: usize| self.states[state].waiting[tenant] > 0;
        let onward = |from: usize| {
            let granted = self.grants[from] == Some(tenant);
            let stays =
                self.edges[from].iter().filter(move |(action, _)| *action != Action::Grant || !granted);
            stays.filter(move |(_, to)| waits(*to))
        };
        let mut incoming = vec![0_usize; self.states.len()];
        (0..self.states.len())
            .filter(|&at| waits(at))
            .flat_map(onward)
            .for_each(|(_, to)| incoming[*to] += 1);
        let mut ready: Vec<_> = (0..self.states.len()).filter(|&at| waits(at) && incoming[at] == 0).collect();
        let mut longest = vec![0; self.states.len()];
        let mut ordered = 0;
        while let Some(from) = ready.pop() {
            ordered += 1;
            for &(action, to) in onward(from) {
                longest[to] = longest[to].max(longest[from] + usize::from(action == Action::Grant));
                incoming[to] -= 1;
                if incoming[to] == 0 {
                    ready.push(to);
                }
            }
        }
        let all = (0..self.states.len()).filter(|&at| waits(at)).count();
        (ordered == all).then(|| longest.into_iter().max().unwrap_or(0))
    }
}
