//! What goes wrong, and when: planned from the seed, all of it over before the accounts are looked at.

use std::time::Duration;

use gossip::{Claim, Event};
use types::Moment;

use crate::world::{Happening, World};

/// After this long without a frame a link is given up.
const IDLE_TIMEOUT: Duration = Duration::from_secs(3);

/// Publishing begins once everybody knows of everybody.
const START: Duration = Duration::from_secs(1);

impl World<'_> {
    /// Plans what is published and what goes wrong. Returns the moment from which nothing more does.
    pub(crate) fn plan(&mut self) -> Moment {
        let mut nodes: Vec<_> = (0..self.scenario.nodes).collect();
        self.rng.shuffle(&mut nodes);
        let senders = &nodes[..self.scenario.senders.clamp(1, self.scenario.nodes)];
        let step = Duration::from_millis(self.scenario.interval_ms);
        for number in 0..self.scenario.warm_up + self.scenario.messages {
            let round = u32::try_from(number / self.scenario.burst.max(1)).unwrap_or(u32::MAX);
            let at = Moment::ORIGIN.after(START + step * round);
            let (node, counts) = (senders[number % senders.len()], number >= self.scenario.warm_up);
            self.agenda.plan(at, Happening::Publish { node, counts });
        }
        let published = START + self.scenario.publishing_time();
        let healed = self.plan_faults(published);
        Moment::ORIGIN.after(published.max(healed))
    }

    fn plan_faults(&mut self, within: Duration) -> Duration {
        let mut last = Duration::ZERO;
        for _ in 0..self.scenario.resets {
            let link = self.rng.usize(..self.links.len());
            let (at, back) = self.interval(within, 3000);
            self.agenda.plan(Moment::ORIGIN.after(at), Happening::Break { link });
            self.agenda.plan(Moment::ORIGIN.after(back), Happening::Mend { link });
            last = last.max(back);
        }
        for _ in 0..self.scenario.partitions {
            let side = (0..self.scenario.nodes).map(|_| self.rng.bool()).collect();
            let (at, back) = self.interval(within, self.scenario.partition_ms);
            self.agenda.plan(Moment::ORIGIN.after(at), Happening::Split { side });
            self.agenda.plan(Moment::ORIGIN.after(at + IDLE_TIMEOUT), Happening::GiveUp);
            self.agenda.plan(Moment::ORIGIN.after(back), Happening::Heal);
            last = last.max(back);
        }
        let mut nodes: Vec<_> = (0..self.scenario.nodes).collect();
        self.rng.shuffle(&mut nodes);
        for (number, node) in
            nodes.into_iter().take(self.scenario.crashes + self.scenario.restarts).enumerate()
        {
            let (at, back) = self.interval(within, 6000);
            self.agenda.plan(Moment::ORIGIN.after(at), Happening::Crash { node });
            if number >= self.scenario.crashes {
                self.agenda.plan(Moment::ORIGIN.after(back), Happening::Restart { node });
                last = last.max(back);
            }
        }
        last + IDLE_TIMEOUT
    }

    /// Some time after the start, and some time after that.
    fn interval(&mut self, within: Duration, most_ms: u64) -> (Duration, Duration) {
        let most = u64::try_from(within.as_millis()).unwrap_or(u64::MAX);
        let at = Duration::from_millis(self.rng.u64(1000..most.max(1001)));
        (at, at + Duration::from_millis(self.rng.u64(1..=most_ms)))
    }

    pub(crate) fn fault(&mut self, fault: Happening) {
        match fault {
            Happening::Break { link } => self.break_link(link, Duration::ZERO),
            Happening::Mend { link } => self.mend(link),
            Happening::Crash { node } => self.crash(node),
            Happening::Restart { node } => self.restart(node),
            Happening::Split { side } => {
                for link in &mut self.links {
                    link.blocked = side[link.nodes[0]] != side[link.nodes[1]];
                }
            }
            Happening::GiveUp => {
                for link in 0..self.links.len() {
                    if self.links[link].blocked && self.links[link].up {
                        self.break_link(link, Duration::ZERO);
                    }
                }
            }
            Happening::Heal => {
                for link in 0..self.links.len() {
                    self.links[link].blocked = false;
                    self.mend(link);
                }
            }
            _ => {}
        }
    }

    /// A node is gone, at once; its neighbours notice within the idle timeout.
    fn crash(&mut self, node: usize) {
        self.nodes[node].alive = false;
        self.ledger.forgot(node);
        for number in self.links_of(node) {
            let after = Duration::from_millis(self.rng.u64(..=3000));
            self.links[number].forget_belief_of(node);
            self.break_link(number, after);
        }
    }

    fn restart(&mut self, node: usize) {
        let (id, incarnation) = (self.nodes[node].id, self.nodes[node].incarnation + 1);
        let engine = self.engine(id, incarnation);
        self.nodes[node].revive(engine, incarnation);
        let topic = self.topic();
        self.tell(node, Event::Subscribe { topic, claim: Claim::Own });
        for number in self.links_of(node) {
            self.mend(number);
        }
    }

    fn links_of(&self, node: usize) -> Vec<usize> {
        self.nodes[node].links.iter().map(|(link, _)| *link).collect()
    }

    /// The nodes that are left, in the parts into which they fall.
    pub(crate) fn parts(&self) -> Vec<Vec<usize>> {
        let alive: Vec<_> = (0..self.nodes.len()).filter(|node| self.nodes[*node].alive).collect();
        let is_whole = |link: &&crate::world::Link| link.up && !link.blocked;
        let links: Vec<_> =
            self.links.iter().filter(is_whole).map(|link| (link.nodes[0], link.nodes[1])).collect();
        crate::graph::parts(&alive, &links)
    }
}
