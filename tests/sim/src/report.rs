//! What a run came to: one line to read, and a verdict.

use std::{fmt, time::Duration};

use crate::{ledger::Balance, scenario::Scenario, world::World};

/// How long the accounts may take to balance once nothing goes wrong any more.
const SETTLING: Duration = Duration::from_secs(90);

/// How often they are looked at.
const LOOK: Duration = Duration::from_millis(500);

/// What a run came to.
#[derive(Clone, Debug)]
pub struct Report {
    /// The scenario.
    pub scenario: String,
    /// The seed that gives this run again.
    pub seed: u64,
    /// Publications that a neighbour acknowledged.
    pub accepted: usize,
    /// All publications.
    pub published: usize,
    /// How the accounts stand.
    pub balance: Balance,
    /// Copies received beyond the first, per delivery, once the tree was formed.
    pub redundancy: f64,
    /// Links that the last delivery of a publication came over: the mean and the most.
    pub hops: (f64, u8),
    /// Half of the deliveries, 99 of 100, all of them took no longer.
    pub latency: [Duration; 3],
    /// How long it took until the accounts balanced, from the moment nothing went wrong any more.
    pub settled: Duration,
    /// Frames sent.
    pub frames: u64,
    /// What must never happen, and bounds that were not kept.
    pub violations: Vec<String>,
}

/// Runs a scenario with a seed: the same seed gives the same run.
#[must_use]
pub fn run(scenario: &Scenario, seed: u64, trace: bool) -> Report {
    let mut world = World::new(scenario, seed, trace);
    let calm = world.plan();
    // Verdicts are given by then.
    let first_look = calm.after(scenario.settings().accept_timeout + LOOK);
    let mut until = first_look;
    let balance = loop {
        world.run_until(until);
        let lives: Vec<_> = (0..world.nodes.len()).map(|node| world.life(node)).collect();
        let balance = world.ledger.balance(&world.parts(), &lives);
        let wants_all = scenario.bounds.all_delivered || scenario.bounds.no_gaps;
        let is_whole = !wants_all || balance.delivered == balance.owed;
        if (balance.unexplained.is_empty() && is_whole) || until.since(first_look) >= SETTLING {
            break balance;
        }
        until = until.after(LOOK);
    };
    Report::new(&world, seed, balance, until.since(calm))
}

impl Report {
    fn new(world: &World<'_>, seed: u64, balance: Balance, settled: Duration) -> Self {
        let ledger = &world.ledger;
        let counted: Vec<_> = ledger.publications().iter().filter(|publication| publication.counts).collect();
        let most = counted.iter().map(|publication| publication.hops).max().unwrap_or(0);
        let total: u64 = counted.iter().map(|publication| u64::from(publication.hops)).sum();
        let mut latencies = ledger.latencies.clone();
        latencies.sort_unstable();
        let mut report = Self {
            scenario: world.scenario.name.clone(),
            seed,
            accepted: ledger.publications().iter().filter(|publication| publication.accepted).count(),
            published: ledger.publications().len(),
            redundancy: ledger.copies as f64 / ledger.deliveries.max(1) as f64 - 1.0,
            hops: (total as f64 / counted.len().max(1) as f64, most),
            latency: [50, 99, 100].map(|percent| percentile(&latencies, percent)),
            balance,
            settled,
            frames: world.frames,
            violations: ledger.violations.clone(),
        };
        report.hold_to_bounds(world.scenario);
        report
    }

    /// Whether every account balances and nothing happened that must not.
    #[must_use]
    pub fn is_good(&self) -> bool {
        self.violations.is_empty()
    }

    fn hold_to_bounds(&mut self, scenario: &Scenario) {
        let (bounds, balance) = (&scenario.bounds, &self.balance);
        let mut broken = Vec::new();
        if !balance.unexplained.is_empty() {
            broken
                .push(format!("neither delivered nor named (node, publication): {:?}", balance.unexplained));
        }
        if balance.delivered + balance.reported != balance.owed {
            broken.push("what is owed is not what was delivered and named".into());
        }
        if bounds.all_delivered && (balance.delivered != balance.owed || self.accepted != self.published) {
            broken.push("not everything was accepted and delivered".into());
        }
        if bounds.no_gaps && balance.delivered != balance.owed {
            broken.push(format!("{} were only named", balance.reported));
        }
        if bounds.redundancy.is_some_and(|most| self.redundancy >= most) {
            broken.push(format!("redundancy {:.3}", self.redundancy));
        }
        if bounds.hops.is_some_and(|most| self.hops.0 >= most) {
            broken.push(format!("the last delivery came over {:.1} links in the mean", self.hops.0));
        }
        self.violations.extend(broken);
    }
}

fn percentile(sorted: &[Duration], percent: usize) -> Duration {
    let at = (sorted.len() * percent).div_ceil(100).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Balance { owed, delivered, reported, extinct, .. } = &self.balance;
        let [half, most, all] = self.latency.map(|latency| latency.as_millis());
        write!(
            f,
            "{} seed {}: published {}, accepted {}, owed {owed} = delivered {delivered} + named {reported}, extinct {extinct}, \
             redundancy {:.3}, hops {:.1} / {}, latency {half} / {most} / {all} ms, settled in {:.1} s, {} frames",
            self.scenario,
            self.seed,
            self.published,
            self.accepted,
            self.redundancy,
            self.hops.0,
            self.hops.1,
            self.settled.as_secs_f64(),
            self.frames,
        )?;
        for violation in &self.violations {
            write!(f, "\n  {violation}")?;
        }
        if !self.is_good() {
            write!(f, "\n  again: cargo run -p sim -- {} --seed {}", self.scenario, self.seed)?;
        }
        Ok(())
    }
}
