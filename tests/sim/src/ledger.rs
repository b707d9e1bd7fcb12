//! The accounts: what was published and accepted, who was delivered it, and who named it as missing.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use gossip::{Gap, Loss};
use types::{Moment, NodeId};

/// Which publisher, which of its lives.
type Life = (NodeId, u64);

/// Everything that is accounted for. Publications are numbered in the order they were published.
#[derive(Debug, Default)]
pub struct Ledger {
    publications: Vec<Published>,
    by_life: BTreeMap<Life, Vec<usize>>,
    nodes: Vec<Books>,
    /// What must never happen, as it happened.
    pub violations: Vec<String>,
    /// Deliveries of what was published elsewhere, after the tree was formed.
    pub deliveries: u64,
    /// Copies of publications received, after the tree was formed.
    pub copies: u64,
    /// How long each delivery took.
    pub latencies: Vec<Duration>,
}

/// One publication.
#[derive(Debug)]
pub struct Published {
    /// Which node published it.
    pub node: usize,
    /// In which of its lives.
    pub life: Life,
    /// Whether a neighbour acknowledged it.
    pub accepted: bool,
    /// Whether it came after the tree was formed.
    pub counts: bool,
    /// Links that its furthest delivery came over.
    pub hops: u8,
    at: Moment,
}

/// The books of one node in its present life.
#[derive(Clone, Debug, Default)]
struct Books {
    delivered: BTreeSet<usize>,
    gaps: BTreeMap<Life, Vec<(u64, u64)>>,
}

/// How the accounts stand.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Balance {
    /// Publications times nodes that are owed them.
    pub owed: u64,
    /// Of these: delivered.
    pub delivered: u64,
    /// Of these: named as missing, and not delivered.
    pub reported: u64,
    /// Accepted publications that nobody who is left ever had.
    pub extinct: u64,
    /// Of what is owed, what is neither delivered nor named: node and publication, the first few.
    pub unexplained: Vec<(usize, usize)>,
}

impl Ledger {
    /// Accounts of so many nodes.
    #[must_use]
    pub fn new(nodes: usize) -> Self {
        Self { nodes: vec![Books::default(); nodes], ..Self::default() }
    }

    /// A node published.
    pub fn published(&mut self, node: usize, life: Life, seq: u64, counts: bool, at: Moment) {
        let number = self.publications.len();
        let of_life = self.by_life.entry(life).or_default();
        of_life.push(number);
        if of_life.len() as u64 != seq {
            self.violations.push(format!("node {node} published {seq} as its number {}", of_life.len()));
        }
        self.publications.push(Published { node, life, accepted: false, counts, hops: 0, at });
    }

    /// The last publication was refused, so it never was.
    pub fn withdrawn(&mut self, life: Life) {
        self.publications.pop();
        self.by_life.get_mut(&life).map(Vec::pop);
    }

    /// How many publications a life of a publisher has.
    #[must_use]
    pub fn count(&self, life: Life) -> u64 {
        self.by_life.get(&life).map_or(0, Vec::len) as u64
    }

    /// A neighbour acknowledged.
    pub fn accepted(&mut self, life: Life, seq: u64) {
        match self.number(life, seq) {
            Some(number) => self.publications[number].accepted = true,
            None => self.violations.push(format!("accepted what was never published: {life:?} {seq}")),
        }
    }

    /// A copy of a publication came to some node.
    pub fn copied(&mut self, life: Life, seq: u64) {
        if self.number(life, seq).is_some_and(|number| self.publications[number].counts) {
            self.copies += 1;
        }
    }

    /// A node was delivered a publication.
    pub fn delivered(&mut self, node: usize, life: Life, seq: u64, hops: u8, now: Moment) {
        let Some(number) = self.number(life, seq) else {
            return self.violations.push(format!("node {node} was delivered what was never published"));
        };
        if !self.nodes[node].delivered.insert(number) {
            self.violations.push(format!("node {node} was delivered publication {number} twice"));
        }
        let publication = &mut self.publications[number];
        publication.hops = publication.hops.max(hops);
        if publication.counts && hops > 0 {
            self.deliveries += 1;
            self.latencies.push(now.since(publication.at));
        }
    }

    /// A node named publications as missing.
    pub fn named(&mut self, node: usize, gap: &Gap) {
        let life = (gap.publisher, gap.incarnation);
        let last = self.count(life);
        if gap.to > last || gap.from > gap.to || gap.from == 0 {
            self.violations.push(format!("node {node} named what was never published: {gap:?}"));
        }
        self.nodes[node].gaps.entry(life).or_default().push((gap.from, gap.to));
    }

    /// A node gave publications up on the way to or from a neighbour. They may come another way, so this settles nothing.
    pub fn lost(&mut self, node: usize, loss: &Loss) {
        let published = self.count((loss.id.publisher, loss.id.incarnation));
        if loss.id.seq == 0 || loss.last < loss.id.seq || loss.last > published {
            self.violations.push(format!("node {node} lost what was never published: {loss:?}"));
        }
    }

    /// A node forgot everything.
    pub fn forgot(&mut self, node: usize) {
        self.nodes[node] = Books::default();
    }

    /// The publications so far.
    #[must_use]
    pub fn publications(&self) -> &[Published] {
        &self.publications
    }

    /// The accounts of the nodes that are left, which fall into `parts`. `lives` tells the present life of each.
    ///
    /// What was accepted is owed to every node of a part in which anybody has it, or published it.
    #[must_use]
    pub fn balance(&self, parts: &[Vec<usize>], lives: &[Life]) -> Balance {
        let mut balance = Balance::default();
        for (number, publication) in self.publications.iter().enumerate().filter(|(_, p)| p.accepted) {
            let has = |node: &usize| {
                self.nodes[*node].delivered.contains(&number) || lives[*node] == publication.life
            };
            let owing = parts.iter().filter(|part| part.iter().any(has));
            let mut is_extinct = true;
            for node in owing.flatten() {
                is_extinct = false;
                balance.owed += 1;
                match self.account(*node, number) {
                    Some(true) => balance.delivered += 1,
                    Some(false) => balance.reported += 1,
                    None if balance.unexplained.len() < 10 => balance.unexplained.push((*node, number)),
                    None => {}
                }
            }
            balance.extinct += u64::from(is_extinct);
        }
        balance
    }

    /// Whether a publication was delivered to a node (true) or named by it (false).
    fn account(&self, node: usize, number: usize) -> Option<bool> {
        let books = &self.nodes[node];
        if books.delivered.contains(&number) {
            return Some(true);
        }
        let life = self.publications[number].life;
        let seq = self.seq(number);
        let is_named = |(from, to): &(u64, u64)| (*from..=*to).contains(&seq);
        books.gaps.get(&life)?.iter().any(is_named).then_some(false)
    }

    fn number(&self, life: Life, seq: u64) -> Option<usize> {
        let at = usize::try_from(seq.checked_sub(1)?).ok()?;
        self.by_life.get(&life)?.get(at).copied()
    }

    fn seq(&self, number: usize) -> u64 {
        let of_life = &self.by_life[&self.publications[number].life];
        of_life.binary_search(&number).map_or(0, |at| at as u64 + 1)
    }
}
