//! What is known of one publisher in one topic: which numbers were delivered, which are missing, who has them.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use oap::{Entry, Head, Proof};
use types::{Moment, NodeId};

use crate::event::PeerKey;

/// The highest number a publication may have; no honest publisher gets there.
pub(crate) const SEQ_MAX: u64 = 1 << 62;

/// The most peers remembered as having a publisher's publications.
const CLAIMS_MAX: usize = 8;

/// One publisher's numbers. Invariants: `base <= floor`, and `floor` is at most the highest number seen or proven.
#[derive(Debug)]
pub(crate) struct Track {
    pub(crate) origin: Arc<Origin>,
    /// Up to here everything counts as seen. Publications that came move it, and so does a search, but only over what was
    /// delivered or named: no claim of a peer makes a publication count as seen that was not.
    base: u64,
    /// One bit per number from `base + 1`, a ring by number.
    bits: Box<[u64]>,
    /// Up to here everything was delivered or named as a gap.
    floor: u64,
    /// The highest number that was delivered; zero if none was.
    seen: u64,
    /// The highest number that the publisher has signed; zero if it signed none.
    proven: u64,
    /// The publisher's signature of that number.
    proof: Option<Proof>,
    /// The highest number that some peer claims to have and that was neither seen nor proven. It is asked for, and never
    /// named or repeated. Zero if there is none.
    hinted: u64,
    /// How many of the publisher's publications were delivered to subscribers of this node.
    pub(crate) deliveries: u64,
    /// The peer that told of the publisher first; absent for this node itself.
    pub(crate) introducer: Option<NodeId>,
    pub(crate) search: Option<Search>,
    /// When to look at the search again.
    pub(crate) search_at: Option<Moment>,
    /// Who claims to have up to which number, oldest first.
    claims: Vec<(PeerKey, u64)>,
    /// The head changed since it was last announced.
    pub(crate) dirty: bool,
    pub(crate) heard_at: Moment,
}

/// Whose publications. Remembered by what is to be sent, also when the publisher is forgotten.
#[derive(Debug)]
pub(crate) struct Origin {
    pub(crate) publisher: NodeId,
    pub(crate) incarnation: u64,
    /// Never used again, unlike the track's place in the list.
    pub(crate) uid: u64,
}

/// Numbers up to `upto` are missing since `since`. They are asked for, and so are those above them that did not come by
/// themselves meanwhile.
#[derive(Debug)]
pub(crate) struct Search {
    since: Moment,
    /// When one of them last came; the beginning of the search if none did.
    progress: Moment,
    /// What is missing up to here is named once it was looked for long enough.
    pub(crate) upto: u64,
    /// Peers claim that there is something up to there, and nothing else says so: nothing of it is named.
    is_for_claims: bool,
    /// What is missing up to here is asked for: at least `upto`, and what was known for long enough.
    pub(crate) reach: u64,
    /// The number that `reach` becomes, and since when it is known.
    known: (u64, Moment),
    /// Every missing number below this was asked for at least once.
    pub(crate) next: u64,
    /// When a peer was last asked to push.
    pub(crate) grafted_at: Option<Moment>,
    /// Answers that are waited for; the last look at the search counted them.
    pub(crate) waiting: usize,
    /// By number: what was asked for and has not come. At most as many as the window is wide.
    pub(crate) asked: BTreeMap<u64, Asked>,
}

/// A search lasts at most so many times the patience, however much comes meanwhile: a peer that gives out 500 publications a
/// second needs seven for a whole window of them.
const LONGEST_SEARCH: u32 = 12;

/// A number that was asked for again so many times makes room for others.
const IN_VAIN: u32 = 2;

/// One number that a peer was asked for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    pub(crate) peer: PeerKey,
    pub(crate) attempts: u32,
    pub(crate) due: Moment,
    /// It came without the signature that its topic demands.
    pub(crate) is_unsigned: bool,
}

impl Search {
    /// A search for everything that is missing up to a number, which may be only what peers claim.
    pub(crate) fn new(since: Moment, upto: u64, is_for_claims: bool) -> Self {
        Self {
            since,
            progress: since,
            upto,
            is_for_claims,
            reach: upto,
            known: (upto, since),
            next: 0,
            grafted_at: None,
            waiting: 0,
            asked: BTreeMap::new(),
        }
    }

    /// Numbers up to `upto` are missing for certain by now. A search for claims makes way: these numbers have all the time that there
    /// is, and are asked for though they were claimed, and asked for in vain, before they were published.
    fn turn_to(&mut self, upto: u64, now: Moment) {
        if self.is_for_claims {
            *self = Self { reach: self.reach, known: self.known, ..Self::new(now, upto, false) };
        }
    }

    /// A number came; if it is one of those that are looked for, there is hope for the others.
    pub(crate) fn note_progress(&mut self, seq: u64, now: Moment) {
        if seq <= self.upto {
            self.progress = now;
        }
    }

    /// When what is missing is named: `patience` after the last of them came, and at the latest after a multiple of that, so
    /// that a peer that gives them out one at a time does not keep the others from being named.
    pub(crate) fn end(&self, patience: Duration) -> Moment {
        self.progress.after(patience).min(self.since.after(patience * LONGEST_SEARCH))
    }

    /// Numbers that came only without the signature that their topic demands.
    pub(crate) fn unsigned(&self) -> BTreeSet<u64> {
        self.asked.iter().filter(|(_, asked)| asked.is_unsigned).map(|(seq, _)| *seq).collect()
    }

    /// What became known after the search began is asked for as well once it had `time` to come by itself. Otherwise numbers
    /// that nobody has would keep later ones waiting until they are named.
    fn extend(&mut self, highest: u64, now: Moment, time: Duration) {
        if now.since(self.known.1) >= time {
            self.reach = self.reach.max(self.known.0);
            self.known = (highest, now);
        }
    }

    /// Forgets numbers that were asked for several times in vain once there is room for no more than these `most`: others
    /// behind them are asked for in their place, and they are named if they do not come.
    pub(crate) fn make_room(&mut self, most: usize, now: Moment) {
        if self.asked.len() >= most {
            self.asked.retain(|_, asked| asked.attempts < IN_VAIN || asked.due > now);
        }
    }
}

/// A run of numbers, both ends included.
pub(crate) type Run = (u64, u64);

impl Track {
    /// A track that begins after `start`.
    pub(crate) fn new(origin: Origin, start: u64, window: usize) -> Self {
        Self {
            origin: Arc::new(origin),
            base: start,
            bits: vec![0; window / 64].into(),
            floor: start,
            seen: 0,
            proven: start,
            proof: None,
            hinted: 0,
            deliveries: 0,
            introducer: None,
            search: None,
            search_at: None,
            claims: Vec::new(),
            dirty: false,
            heard_at: Moment::ORIGIN,
        }
    }

    /// The highest number seen, proven or claimed: up to here is searched for.
    pub(crate) fn highest(&self) -> u64 {
        self.known().max(self.hinted)
    }

    /// The highest number seen or proven: up to here gaps are named.
    pub(crate) fn known(&self) -> u64 {
        self.seen.max(self.proven)
    }

    /// The highest number that the publisher has signed.
    pub(crate) fn proven(&self) -> u64 {
        self.proven
    }

    /// The highest number that was delivered.
    pub(crate) fn seen(&self) -> u64 {
        self.seen
    }

    /// What peers can be told with the publisher's own word for it.
    pub(crate) fn head(&self) -> Option<Head> {
        self.proof.map(|proof| Head { entry: self.entry(self.proven), proof })
    }

    /// What peers can be told because it is here, beyond what is proven.
    pub(crate) fn unproven(&self) -> Option<Entry> {
        (self.seen > self.proven).then(|| self.entry(self.seen))
    }

    /// Whether a number is too far beyond what is proven to be believed.
    pub(crate) fn is_too_far(&self, seq: u64) -> bool {
        seq > self.proven.saturating_add(self.window())
    }

    /// A number's name in its topic.
    pub(crate) fn entry(&self, seq: u64) -> Entry {
        Entry { publisher: self.origin.publisher, incarnation: self.origin.incarnation, seq }
    }

    /// Whether everything up to the head was delivered or named.
    pub(crate) fn is_settled(&self) -> bool {
        self.is_settled_up_to(self.highest())
    }

    /// Whether the number was delivered, or is too old to tell.
    pub(crate) fn has(&self, seq: u64) -> bool {
        seq <= self.base || (seq - self.base <= self.window() && self.bit(seq))
    }

    /// Whether everything up to a number was delivered or named.
    pub(crate) fn is_settled_up_to(&self, seq: u64) -> bool {
        self.floor >= seq
    }

    /// Whether the number was named as a gap, if it was not delivered.
    pub(crate) fn is_named(&self, seq: u64) -> bool {
        seq <= self.floor
    }

    /// The number was delivered. Returns what fell out of the window without having been delivered or named.
    pub(crate) fn deliver(&mut self, seq: u64) -> Vec<Run> {
        let mut fallen = Vec::new();
        if seq - self.base > self.window() {
            let base = seq - self.window();
            fallen = self.name_up_to(base);
            self.move_base(base);
        }
        self.set_bit(seq);
        self.seen = self.seen.max(seq);
        self.deliveries += 1;
        self.advance();
        if let Some(search) = &mut self.search {
            let was_asked = search.asked.remove(&seq).is_some();
            search.waiting = search.waiting.saturating_sub(usize::from(was_asked));
        }
        fallen
    }

    /// The publisher has signed that it has got this far. Whether that was news.
    pub(crate) fn prove(&mut self, seq: u64, proof: Proof) -> bool {
        let is_news = seq > self.proven || (seq == self.proven && self.proof.is_none());
        if is_news {
            self.proven = seq;
            self.proof = Some(proof);
        }
        is_news
    }

    /// A peer claims to have a number, which nobody has proven. It is believed if it is not too far.
    pub(crate) fn hint(&mut self, seq: u64) {
        if !self.is_too_far(seq) {
            self.hinted = self.hinted.max(seq);
        }
    }

    /// What peers only claimed up to a number did not come.
    pub(crate) fn drop_hint(&mut self, upto: u64) {
        if self.hinted <= upto {
            self.hinted = 0;
        }
    }

    /// A peer claims to have what was published up to `head`.
    pub(crate) fn claim(&mut self, peer: PeerKey, head: u64) {
        let before = self.claims.iter().position(|(who, _)| *who == peer).map(|at| self.claims.remove(at));
        if self.claims.len() == CLAIMS_MAX {
            self.claims.remove(0);
        }
        self.claims.push((peer, before.map_or(head, |(_, known)| known.max(head))));
    }

    /// Forgets what a peer that is gone claimed and was asked for.
    pub(crate) fn forget(&mut self, peer: PeerKey) {
        self.claims.retain(|(who, _)| *who != peer);
        if let Some(search) = &mut self.search {
            search
                .asked
                .values_mut()
                .filter(|asked| asked.peer == peer)
                .for_each(|asked| asked.due = search.since);
        }
    }

    /// The peers that claim to have a number.
    pub(crate) fn holders(&self, seq: u64) -> impl DoubleEndedIterator<Item = PeerKey> + '_ {
        self.claims.iter().filter(move |(_, head)| *head >= seq).map(|(peer, _)| *peer)
    }

    /// Whether a peer was asked for a number and has not answered yet.
    pub(crate) fn was_asked(&self, peer: PeerKey, seq: u64) -> bool {
        let asked = self.search.as_ref().and_then(|search| search.asked.get(&seq));
        asked.is_some_and(|asked| asked.peer == peer)
    }

    /// A number came without the signature that its topic demands. Whether that is not known yet.
    pub(crate) fn refuse_unsigned(&mut self, seq: u64) -> bool {
        let asked = self.search.as_mut().and_then(|search| search.asked.get_mut(&seq));
        asked.is_none_or(|asked| !std::mem::replace(&mut asked.is_unsigned, true))
    }

    /// Looks for what is missing, if anything is: for what was seen or proven, else for what peers claim. Whether a search begins
    /// with that.
    pub(crate) fn begin_search(&mut self, now: Moment) -> bool {
        let (known, highest) = (self.known(), self.highest());
        let is_missing = !self.is_settled_up_to(known);
        if let Some(search) = self.search.as_mut() {
            if is_missing {
                search.turn_to(known, now);
            }
            return false;
        }
        if self.is_settled() {
            return false;
        }
        self.search = Some(match is_missing {
            true => Search { known: (highest, now), ..Search::new(now, known, false) },
            false => Search::new(now, highest, true),
        });
        true
    }

    /// Whether a search has something left to ask for and waits for at most so many answers.
    pub(crate) fn is_search_idle(&self, most: usize) -> bool {
        let is_idle = |search: &Search| search.waiting <= most && search.next <= search.reach;
        self.search.as_ref().is_some_and(is_idle) && !self.is_settled()
    }

    /// Moves the window up to what is searched for, as far as what was delivered or named leaves it. `time` is how long a
    /// publication may take to come by itself.
    pub(crate) fn reach(&mut self, search: &mut Search, now: Moment, time: Duration) {
        search.extend(self.highest(), now, time);
        let base = search.reach.saturating_sub(self.window()).min(self.floor);
        if base > self.base {
            self.move_base(base);
        }
    }

    /// The missing numbers within the window from `from` to `upto`.
    pub(crate) fn missing(&self, from: u64, upto: u64) -> impl Iterator<Item = u64> + '_ {
        let last = upto.min(self.highest()).min(self.base.saturating_add(self.window()));
        (from.max(self.floor + 1)..=last).filter(|seq| !self.bit(*seq))
    }

    /// Names what is missing up to a number, as far as that was seen or proven: from now on that counts as reported.
    pub(crate) fn name_up_to(&mut self, upto: u64) -> Vec<Run> {
        let upto = upto.min(self.known());
        let mut runs: Vec<Run> = Vec::new();
        let in_window = upto.min(self.base.saturating_add(self.window()));
        for seq in self.floor + 1..=in_window {
            if !self.bit(seq) {
                extend(&mut runs, (seq, seq));
            }
        }
        let beyond = self.floor.max(in_window) + 1;
        if beyond <= upto {
            extend(&mut runs, (beyond, upto));
        }
        self.floor = self.floor.max(upto);
        self.advance();
        runs
    }

    /// Raises the floor over what was delivered.
    fn advance(&mut self) {
        while self.floor < self.seen && self.floor - self.base < self.window() && self.bit(self.floor + 1) {
            self.floor += 1;
        }
    }

    fn window(&self) -> u64 {
        self.bits.len() as u64 * 64
    }

    fn place(&self, seq: u64) -> (usize, u64) {
        let bit = seq & (self.window() - 1);
        let word = usize::try_from(bit / 64).expect("below the number of words, which is a usize");
        (word, 1 << (bit % 64))
    }

    fn bit(&self, seq: u64) -> bool {
        let (word, mask) = self.place(seq);
        self.bits[word] & mask != 0
    }

    fn set_bit(&mut self, seq: u64) {
        let (word, mask) = self.place(seq);
        self.bits[word] |= mask;
    }

    /// The bits of the numbers that fall out of the window become those of the numbers that enter it.
    fn move_base(&mut self, base: u64) {
        if base - self.base >= self.window() {
            self.bits.fill(0);
        } else {
            for seq in self.base + 1..=base {
                let (word, mask) = self.place(seq);
                self.bits[word] &= !mask;
            }
        }
        self.base = base;
    }
}

/// Divides runs into the numbers that are in a set and the others.
pub(crate) fn divide(runs: Vec<Run>, set: &BTreeSet<u64>) -> (Vec<Run>, Vec<Run>) {
    let (mut inside, mut outside) = (Vec::new(), Vec::new());
    for (mut from, to) in runs {
        for seq in set.range(from..=to) {
            if from < *seq {
                outside.push((from, *seq - 1));
            }
            extend(&mut inside, (*seq, *seq));
            from = *seq + 1;
        }
        if from <= to {
            outside.push((from, to));
        }
    }
    (inside, outside)
}

/// Adds a run behind the others, or to the last one.
fn extend(runs: &mut Vec<Run>, (from, to): Run) {
    match runs.last_mut() {
        Some(last) if last.1 + 1 == from => last.1 = to,
        _ => runs.push((from, to)),
    }
}
