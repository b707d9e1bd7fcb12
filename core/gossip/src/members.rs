//! The peers of one topic: who is pushed to, who is only told.

use std::{collections::VecDeque, sync::Arc};

use oap::Topic;
use types::Moment;

use crate::{
    event::{LossReason, PeerKey},
    missed::{Missed, Run, Runs},
    rng::Rng,
    settings::Settings,
    track::Origin,
};

/// How often a peer that brought news may push what is known, in a row, before it is pruned.
///
/// Publishers in different places each have their own best tree. A peer that is pruned for what one of them published may
/// be the one that brings what another publishes, and when two nodes on a cycle each prune another link of it, the tree
/// falls apart. So a peer is forgiven as much as it has earned, and no more than `1 / BLAME` of what arrives is known.
const MERIT_MAX: i32 = 8;

/// What a peer that is new is forgiven.
const MERIT_START: i32 = 4;

/// How much news makes up for one publication that was known.
const BLAME: i32 = 1;

/// The most publications that a peer was asked for and may send though they have come another way.
const ANSWERS_MAX: u32 = 1024;

/// The index that stands for no place.
const NOWHERE: u32 = u32::MAX;

/// Peers that take part in a topic. The first `eager` of them are pushed to, the others are announced to.
#[derive(Debug, Default)]
pub(crate) struct Members {
    list: Vec<Member>,
    eager: usize,
    /// By [`PeerKey`]: the place in the list.
    places: Vec<u32>,
}

/// One peer that takes part.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) peer: PeerKey,
    /// Publications on their way.
    pub(crate) in_flight: u32,
    /// Announcements on their way.
    pub(crate) announcing: u32,
    /// Something was not pushed, or not announced, so the next announcement is for this peer too.
    pub(crate) owed: bool,
    /// What it pushed: up with news, down with what was known. It may push while this is not negative.
    pub(crate) merit: i32,
    /// Publications it was asked for and has not sent; at most [`ANSWERS_MAX`].
    pub(crate) answers: u32,
    /// When it was last asked not to push.
    pub(crate) pruned_at: Option<Moment>,
    /// What is to be sent once the budget has room: whose, and the number.
    pub(crate) backlog: VecDeque<(Arc<Origin>, u64)>,
    /// The publications that were not sent to this member.
    pub(crate) missed: Missed,
}

/// What became of a publication for one peer.
#[derive(Debug)]
pub(crate) enum Offer {
    /// The publication is to be sent.
    Send,
    /// It is remembered until others have left.
    Later,
    /// Too many are remembered; the peer is to be told of it. What has to be named to remember that it is owed.
    No(Option<Run>),
}

impl Member {
    /// A publication that is kept is for this peer.
    pub(crate) fn offer(&mut self, origin: &Arc<Origin>, seq: u64, settings: &Settings) -> Offer {
        let has_budget = self.in_flight < settings.burst_budget && self.backlog.is_empty();
        if !has_budget && self.backlog.len() >= settings.backlog {
            self.owed = true;
            return Offer::No(self.missed.owe(origin, seq, LossReason::Budget));
        }
        if self.missed.owes() {
            self.missed.settle(origin, seq);
        }
        if has_budget {
            self.in_flight += 1;
            return Offer::Send;
        }
        self.backlog.push_back((Arc::clone(origin), seq));
        Offer::Later
    }

    /// Whether nothing of the topic is on its way to this peer.
    pub(crate) fn is_idle(&self) -> bool {
        self.in_flight == 0 && self.announcing == 0
    }

    /// Takes what waits or is owed, to be named: the peer is gone.
    pub(crate) fn take_unsent(&mut self) -> Runs {
        let mut unsent = self.missed.take_owed();
        for (origin, seq) in self.backlog.drain(..) {
            unsent.add(&origin, seq, LossReason::Closed);
        }
        unsent
    }

    /// It was asked for so many publications.
    pub(crate) fn expect_answers(&mut self, count: usize) {
        let count = u32::try_from(count).unwrap_or(ANSWERS_MAX);
        self.answers = self.answers.saturating_add(count).min(ANSWERS_MAX);
    }

    /// It sent a publication; whether that may be one it was asked for.
    pub(crate) fn take_answer(&mut self) -> bool {
        let was_expected = self.answers > 0;
        self.answers = self.answers.saturating_sub(1);
        was_expected
    }

    /// Records that the member pushed a publication that was new.
    pub(crate) fn reward(&mut self) {
        self.merit = (self.merit + 1).min(MERIT_MAX);
    }

    /// It pushed what was known; whether it has done so too often.
    pub(crate) fn blame(&mut self) -> bool {
        self.merit -= BLAME;
        let too_often = self.merit < 0;
        self.merit = self.merit.max(0);
        too_often
    }

    fn new(peer: PeerKey) -> Self {
        Self {
            peer,
            in_flight: 0,
            announcing: 0,
            owed: false,
            merit: MERIT_START,
            answers: 0,
            pruned_at: None,
            backlog: VecDeque::new(),
            missed: Missed::default(),
        }
    }
}

impl Members {
    pub(crate) fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.list.len()
    }

    pub(crate) fn eager_len(&self) -> usize {
        self.eager
    }

    pub(crate) fn eager_mut(&mut self) -> &mut [Member] {
        &mut self.list[..self.eager]
    }

    /// Whether everybody that is pushed to is behind by as much again as may be on its way: what is published now would wait
    /// for long before anybody acknowledges it.
    pub(crate) fn is_congested(&self, settings: &Settings) -> bool {
        let most = settings.backlog.min(settings.burst_budget as usize);
        self.eager > 0 && self.list[..self.eager].iter().all(|member| member.backlog.len() >= most)
    }

    /// The peers, in no order.
    pub(crate) fn peers(&self) -> impl Iterator<Item = PeerKey> + '_ {
        self.list.iter().map(|member| member.peer)
    }

    pub(crate) fn iter_mut(&mut self) -> impl Iterator<Item = (bool, &mut Member)> {
        let eager = self.eager;
        self.list.iter_mut().enumerate().map(move |(at, member)| (at < eager, member))
    }

    pub(crate) fn get_mut(&mut self, peer: PeerKey) -> Option<&mut Member> {
        let at = self.place(peer)?;
        self.list.get_mut(at)
    }

    pub(crate) fn is_eager(&self, peer: PeerKey) -> bool {
        self.place(peer).is_some_and(|at| at < self.eager)
    }

    /// A peer takes part; whether that is new.
    pub(crate) fn insert(&mut self, peer: PeerKey) -> bool {
        if self.place(peer).is_some() {
            return false;
        }
        let index = index(peer);
        if self.places.len() <= index {
            self.places.resize(index + 1, NOWHERE);
        }
        self.list.push(Member::new(peer));
        self.put(self.list.len() - 1);
        true
    }

    /// A peer does not take part any more; what is known of it.
    pub(crate) fn remove(&mut self, peer: PeerKey) -> Option<Member> {
        self.set_eager(peer, false);
        let at = self.place(peer)?;
        let member = self.list.swap_remove(at);
        self.places[index(peer)] = NOWHERE;
        if at < self.list.len() {
            self.put(at);
        }
        Some(member)
    }

    /// From now on a peer is pushed to, or not.
    pub(crate) fn set_eager(&mut self, peer: PeerKey, eager: bool) {
        let Some(at) = self.place(peer) else { return };
        match (at < self.eager, eager) {
            (false, true) => {
                self.swap(at, self.eager);
                self.eager += 1;
            }
            (true, false) => {
                self.eager -= 1;
                self.swap(at, self.eager);
            }
            _ => {}
        }
    }

    /// Some peer that is not pushed to.
    pub(crate) fn any_lazy(&self, rng: &mut Rng) -> Option<PeerKey> {
        let lazy = &self.list[self.eager..];
        lazy.get(rng.below(lazy.len())).map(|member| member.peer)
    }

    fn place(&self, peer: PeerKey) -> Option<usize> {
        let at = *self.places.get(index(peer))?;
        (at != NOWHERE).then_some(at as usize)
    }

    fn swap(&mut self, a: usize, b: usize) {
        self.list.swap(a, b);
        self.put(a);
        self.put(b);
    }

    fn put(&mut self, at: usize) {
        let place = u32::try_from(at).expect("one place per peer, and peers are numbered by u32");
        self.places[index(self.list[at].peer)] = place;
    }
}

fn index(peer: PeerKey) -> usize {
    peer.0 as usize
}

/// Acknowledgements for one peer that wait for the end of a batch.
#[derive(Debug)]
pub(crate) struct Acks {
    pub(crate) peer: PeerKey,
    pub(crate) topic: Topic,
    pub(crate) incarnation: u64,
    pub(crate) seqs: Vec<u64>,
}
