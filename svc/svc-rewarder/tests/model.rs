//! The formal model of an epoch, explored to its last state: never settled twice, nothing paid twice, and always ended.
//! See `docs/models/epoch.md`.

use std::collections::{BTreeMap, VecDeque};

/// Batches of the epoch.
const BATCHES: u8 = 2;
/// Processes that work on it at once.
const PROCESSES: usize = 2;
/// How often processes may die, all together.
const DEATHS: u8 = 3;
/// How often the ledger may lose a request or its answer.
const LOSSES: u8 = 2;

/// The row of the epoch in the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum State {
    Sealed,
    Computing,
    Computed,
    Emitting,
    Settled,
    Quarantined,
}

/// Where a process is; what it holds in memory is gone when it dies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Process {
    /// Looks at the row.
    Idle,
    /// Has the run in hand, and not written down.
    HasRun,
    /// Has it written down.
    Wrote,
    /// About to send this batch.
    Sending(u8),
    /// Has sent it and knows that it is there.
    Sent(u8),
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct World {
    row: State,
    posted: u8,
    /// Batches that moved money, and how often.
    ledger: [u8; BATCHES as usize],
    settled: u8,
    /// Whether another run's batch has the key of the first.
    stolen: bool,
    processes: [Process; PROCESSES],
    deaths: u8,
    losses: u8,
    /// Whether the pool has money.
    funded: bool,
}

/// Which safeguard is left out, to see that the model would notice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Without {
    Nothing,
    IdempotencyKeys,
    ConditionalUpdates,
}

impl World {
    fn start(stolen: bool) -> Self {
        Self {
            row: State::Sealed,
            posted: 0,
            ledger: [0; BATCHES as usize],
            settled: 0,
            stolen,
            processes: [Process::Idle; PROCESSES],
            deaths: DEATHS,
            losses: LOSSES,
            funded: false,
        }
    }

    /// The ledger takes a batch; says whether it conflicts.
    fn post(&mut self, batch: u8, without: Without) -> bool {
        if self.stolen && batch == 0 {
            return true;
        }
        let times = &mut self.ledger[usize::from(batch)];
        if *times == 0 || without == Without::IdempotencyKeys {
            *times += 1;
        }
        false
    }

    /// Everything that can happen next.
    fn steps(&self, without: Without) -> Vec<Self> {
        let mut next = Vec::new();
        if !self.funded {
            next.push(Self { funded: true, ..self.clone() });
        }
        for at in 0..PROCESSES {
            if self.deaths > 0 && self.processes[at] != Process::Idle {
                let mut world = self.clone();
                world.deaths -= 1;
                world.processes[at] = Process::Idle;
                next.push(world);
            }
            self.process_steps(at, without, &mut next);
        }
        next
    }

    fn process_steps(&self, at: usize, without: Without, next: &mut Vec<Self>) {
        let mut world = self.clone();
        match self.processes[at] {
            Process::Idle => match self.row {
                State::Sealed | State::Computing => {
                    world.row = State::Computing;
                    world.processes[at] = Process::HasRun;
                    next.push(world);
                }
                State::Computed if self.funded => {
                    world.row = State::Emitting;
                    world.processes[at] = Process::Sending(self.posted);
                    next.push(world);
                }
                State::Emitting => {
                    world.processes[at] = Process::Sending(self.posted);
                    next.push(world);
                }
                _ => {}
            },
            Process::HasRun => {
                world.processes[at] = Process::Wrote;
                next.push(world);
            }
            Process::Wrote => {
                if matches!(self.row, State::Sealed | State::Computing)
                    || without == Without::ConditionalUpdates
                {
                    world.row = State::Computed;
                }
                world.processes[at] = Process::Idle;
                next.push(world);
            }
            Process::Sending(BATCHES) => {
                if self.row == State::Emitting && self.posted == BATCHES
                    || without == Without::ConditionalUpdates
                {
                    world.row = State::Settled;
                    world.settled += 1;
                }
                world.processes[at] = Process::Idle;
                next.push(world);
            }
            Process::Sending(batch) => {
                if self.losses > 0 {
                    // The request is lost, or its answer is: either way it is sent again.
                    let mut lost = self.clone();
                    lost.losses -= 1;
                    next.push(lost.clone());
                    let _ = lost.post(batch, without);
                    next.push(lost);
                }
                if world.post(batch, without) {
                    if world.row != State::Settled {
                        world.row = State::Quarantined;
                    }
                    world.processes[at] = Process::Idle;
                } else {
                    world.processes[at] = Process::Sent(batch);
                }
                next.push(world);
            }
            Process::Sent(batch) => {
                if self.row == State::Emitting {
                    world.posted = world.posted.max(batch + 1);
                }
                world.processes[at] = Process::Sending(batch + 1);
                next.push(world);
            }
        }
    }

    fn is_over(&self) -> bool {
        matches!(self.row, State::Settled | State::Quarantined)
    }
}

/// Every world that can be reached, and from which others each can be.
fn explore(start: World, without: Without) -> BTreeMap<World, Vec<World>> {
    let mut found = BTreeMap::new();
    let mut queue = VecDeque::from([start]);
    while let Some(world) = queue.pop_front() {
        if found.contains_key(&world) {
            continue;
        }
        let steps = world.steps(without);
        queue.extend(steps.iter().filter(|next| !found.contains_key(*next)).cloned());
        found.insert(world, steps);
    }
    found
}

/// The worlds from which an ended epoch can be reached.
fn can_end(worlds: &BTreeMap<World, Vec<World>>) -> usize {
    let mut before: BTreeMap<&World, Vec<&World>> = BTreeMap::new();
    for (world, steps) in worlds {
        for next in steps {
            before.entry(next).or_default().push(world);
        }
    }
    let mut queue: VecDeque<&World> = worlds.keys().filter(|world| world.is_over()).collect();
    let mut ends: std::collections::BTreeSet<&World> = queue.iter().copied().collect();
    while let Some(world) = queue.pop_front() {
        for earlier in before.get(world).into_iter().flatten() {
            if ends.insert(earlier) {
                queue.push_back(earlier);
            }
        }
    }
    ends.len()
}

#[test]
fn an_epoch_is_settled_at_most_once_and_nobody_is_paid_twice() {
    for stolen in [false, true] {
        let worlds = explore(World::start(stolen), Without::Nothing);
        println!("another run's key taken: {stolen}: {} worlds", worlds.len());
        for world in worlds.keys() {
            assert!(world.settled <= 1, "{world:?}");
            assert!(world.ledger.iter().all(|times| *times <= 1), "{world:?}");
            if world.row == State::Settled {
                assert_eq!(world.ledger, [1; BATCHES as usize], "settled is paid in full: {world:?}");
            }
            if world.row == State::Quarantined {
                assert!(stolen, "only a conflict quarantines here: {world:?}");
            }
        }
    }
}

#[test]
fn from_everywhere_an_epoch_can_still_end_settled_or_quarantined() {
    for stolen in [false, true] {
        let worlds = explore(World::start(stolen), Without::Nothing);
        assert_eq!(can_end(&worlds), worlds.len(), "no world is a dead end");
        for (world, steps) in &worlds {
            assert!(world.is_over() || !steps.is_empty(), "nothing can happen: {world:?}");
        }
    }
}

#[test]
fn the_model_notices_when_a_safeguard_is_missing() {
    let worlds = explore(World::start(false), Without::IdempotencyKeys);
    assert!(worlds.keys().any(|world| world.ledger.iter().any(|times| *times > 1)), "paid twice");
    let worlds = explore(World::start(false), Without::ConditionalUpdates);
    assert!(worlds.keys().any(|world| world.settled > 1), "settled twice");
}
