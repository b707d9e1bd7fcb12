//! What is missing: noticed, asked for from one peer at a time, and named if it does not come.

use oap::{Entry, IWant, LIST_MAX, Message, MessageId, Topic};
use types::Moment;

use crate::{
    engine::{Engine, lost, send},
    event::{Action, Gap, GapReason, LossReason, PeerKey, Queue},
    members::Offer,
    missed::{self, Runs},
    packet::Packet,
    timers::Timer,
    track::{Asked, Origin, Run, Track, divide},
};

impl Engine {
    /// A peer wants publications. What the budget has no room for now waits for room.
    pub(crate) fn asked(&mut self, from: PeerKey, name: &Topic, wanted: &[Entry], out: &mut Vec<Action>) {
        let (Some(ix), Some(node)) = (self.find(name), self.node(from)) else { return };
        let topic = &mut self.topics[ix];
        topic.members.insert(from);
        let Some(member) = topic.members.get_mut(from) else { return };
        let mut evicted = Runs::default();
        for Entry { publisher, incarnation, seq } in wanted {
            let at = topic.tracks.find(*publisher, *incarnation);
            // What was never here is not lost here: whoever misses it names it.
            let track = at.and_then(|at| topic.tracks.get(at)).filter(|track| *seq > 0 && track.has(*seq));
            let Some(Track { origin, .. }) = track else { continue };
            let Some(packet) = self.cache.get(origin.uid, *seq) else {
                if member.missed.name(origin, *seq, LossReason::Evicted) {
                    evicted.add(origin, *seq, LossReason::Evicted);
                }
                continue;
            };
            match member.offer(origin, *seq, &self.settings) {
                Offer::Send => send(out, from, packet.clone()),
                Offer::Later => {}
                Offer::No(named) => out.extend(named.map(|run| run.loss(name, node))),
            }
        }
        out.extend(evicted.losses(name, node));
    }

    /// A peer did not get a publication. It is owed while it is kept, and named when it is not.
    pub(crate) fn missed(
        &mut self,
        ix: usize,
        peer: PeerKey,
        id: &MessageId,
        reason: LossReason,
        out: &mut Vec<Action>,
    ) {
        let Some(node) = self.node(peer) else { return };
        let topic = &mut self.topics[ix];
        let at = topic.tracks.find(id.publisher, id.incarnation);
        let track = at.and_then(|at| topic.tracks.get(at)).filter(|track| id.seq > 0 && track.has(id.seq));
        // Who has left the topic does not miss it.
        let Some(member) = topic.members.get_mut(peer) else { return };
        let Some(Track { origin, .. }) = track else {
            // Its publisher is forgotten, or it was never here: then only a peer can say that it did not get it.
            let is_ours = reason != LossReason::Refused;
            return out.extend(is_ours.then(|| lost(id.clone(), Queue::Egress, node, reason)));
        };
        member.owed = true;
        if self.cache.get(origin.uid, id.seq).is_some() {
            out.extend(member.missed.owe(origin, id.seq, reason).map(|run| run.loss(&topic.name, node)));
        } else if member.missed.name(origin, id.seq, reason) {
            out.push(missed::Run::one(origin, id.seq, reason).loss(&topic.name, node));
        }
    }

    /// Names what peers of a topic are owed and cannot be sent any more.
    pub(crate) fn name_evicted(&mut self, ix: usize, out: &mut Vec<Action>) {
        let topic = &mut self.topics[ix];
        for (_, member) in topic.members.iter_mut().filter(|(_, member)| member.missed.owes()) {
            let Some(node) = self.peers.get(member.peer.0 as usize).copied().flatten() else { continue };
            let gone = member.missed.sweep(|origin, seq| self.cache.get(origin.uid, seq).is_some());
            out.extend(gone.losses(&topic.name, node));
        }
    }

    /// Looks for what is missing of a publisher: names what was looked for long enough, asks for the rest.
    pub(crate) fn search(&mut self, ix: usize, at: usize, now: Moment, out: &mut Vec<Action>) {
        let Some(track) = self.topics[ix].tracks.get_mut(at) else { return };
        self.timers.set(Timer::Search(ix, at), &mut track.search_at, None);
        let Some(search) = track.search.as_ref() else { return };
        let (end, upto) = (search.end(self.settings.patience), search.upto);
        if now >= end {
            let unsigned = search.unsigned();
            let (unsigned, unavailable) = divide(track.name_up_to(upto), &unsigned);
            track.drop_hint(upto);
            self.name_gaps(ix, at, unavailable, GapReason::Unavailable, out);
            self.name_gaps(ix, at, unsigned, GapReason::Unsigned, out);
        }
        let Some(track) = self.topics[ix].tracks.get_mut(at) else { return };
        // What is claimed beyond it by now is looked for anew: it must not leave other numbers without the time they have.
        if now >= end || track.is_settled_up_to(upto.min(track.highest())) {
            track.search = None;
            self.topics[ix].searching -= 1;
            return self.search_soon(ix, at, now);
        }
        self.ask(ix, at, now, out);
        let Some(track) = self.topics[ix].tracks.get_mut(at) else { return };
        // Those that are overdue and were not asked for again wait for room, which answers and later ones make, or for a
        // peer that has them.
        let asked = track.search.iter().flat_map(|search| search.asked.values());
        let soonest = asked.map(|asked| asked.due).filter(|due| *due > now).min().unwrap_or(end);
        // Nobody may have anything yet: whoever says so later is asked at the next look.
        let look_again = soonest.min(now.after(self.settings.pull_timeout)).min(end).max(now.after(MIN_LOOK));
        self.timers.set(Timer::Search(ix, at), &mut track.search_at, Some(look_again));
    }

    /// If something is missing, it is looked for, unless it comes by itself soon.
    pub(crate) fn search_soon(&mut self, ix: usize, at: usize, now: Moment) {
        let topic = &mut self.topics[ix];
        let Some(track) = topic.tracks.get_mut(at) else { return };
        if track.begin_search(now) {
            topic.searching += 1;
            let due = now.after(self.settings.graft_after);
            self.timers.set(Timer::Search(ix, at), &mut track.search_at, Some(due));
        }
    }

    /// Asks one peer for each missing publication that nobody else is being asked for: first for those that nobody was
    /// asked for yet, so that what nobody has does not keep the others waiting, then again for those that did not come.
    fn ask(&mut self, ix: usize, at: usize, now: Moment, out: &mut Vec<Action>) {
        let searching = self.topics[ix].searching;
        let Some(track) = self.topics[ix].tracks.get_mut(at) else { return };
        let Some(mut search) = track.search.take() else { return };
        let most = match track.deliveries {
            0 => usize::try_from(self.settings.history).unwrap_or(usize::MAX).max(WANTED_MIN),
            _ => (WANTED_MAX / searching.max(1)).max(WANTED_MIN),
        };
        track.reach(&mut search, now, self.settings.graft_after);
        search.asked.retain(|seq, _| !track.is_named(*seq));
        search.make_room(most, now);
        let (sure, batch, mut orders) = (track.known(), self.settings.pull_batch, Orders::default());
        search.waiting = 0;
        // What is only claimed may not exist, and takes no room from the rest.
        for range in [0..=sure, sure + 1..=u64::MAX] {
            let waiting = search.asked.range(range.clone()).filter(|(_, asked)| asked.due > now).count();
            let (before, room) = (orders.len(), batch.saturating_sub(waiting));
            let is_behind = *range.start() > sure && track.missing(search.next, sure).next().is_some();
            let new = if is_behind { 0 } else { room.min(most.saturating_sub(search.asked.len())) };
            let due = now.after(self.settings.pull_timeout);
            for seq in track.missing(search.next, search.reach.min(*range.end())).take(new) {
                let Some(peer) = choose(track, seq, None, &mut self.rng) else { break };
                search.asked.insert(seq, Asked { peer, attempts: 0, due, is_unsigned: false });
                search.next = seq + 1;
                orders.add(peer, track.entry(seq));
            }
            let room = room - (orders.len() - before);
            let overdue = search.asked.range_mut(range).filter(|(_, asked)| asked.due <= now);
            for (seq, asked) in overdue.take(room) {
                let Some(peer) = choose(track, *seq, Some(*asked), &mut self.rng) else { continue };
                let attempts = asked.attempts.saturating_add(1);
                let due = now.after(self.settings.pull_timeout * (1 << attempts.min(3)));
                *asked = Asked { peer, attempts, due, ..*asked };
                orders.add(peer, track.entry(*seq));
            }
            search.waiting += waiting + orders.len() - before;
        }
        let is_due = |at: Moment| now.since(at) >= GRAFT_AGAIN_AFTER;
        let graft = orders.len() > 0 && search.grafted_at.is_none_or(is_due);
        if graft {
            search.grafted_at = Some(now);
        }
        track.search = Some(search);
        self.place(ix, orders, graft, out);
    }

    /// What was asked for has come and there is more to ask for: that does not wait for the next look.
    pub(crate) fn search_on(&mut self, ix: usize, at: usize, now: Moment) {
        let Some(track) = self.topics[ix].tracks.get_mut(at) else { return };
        if track.is_search_idle(self.settings.pull_batch / 4) {
            self.timers.set(Timer::Search(ix, at), &mut track.search_at, Some(now));
        }
    }

    /// Sends the orders. The first one of a search, and one a second while it lasts, also asks to be pushed to: a push
    /// should have come and did not.
    fn place(&mut self, ix: usize, orders: Orders, mut graft: bool, out: &mut Vec<Action>) {
        for (peer, mut entries) in orders.0 {
            let member = self.topics[ix].members.get_mut(peer);
            member.into_iter().for_each(|member| member.expect_answers(entries.len()));
            if graft && !self.topics[ix].members.is_eager(peer) {
                let first = entries.remove(0);
                self.graft(ix, peer, Some(first), out);
            }
            graft = false;
            self.want(ix, peer, entries, out);
        }
    }

    /// Asks for publications, at the end of the batch at the latest: one message asks for those of many publishers.
    fn want(&mut self, ix: usize, peer: PeerKey, entries: Vec<Entry>, out: &mut Vec<Action>) {
        if entries.is_empty() {
            return;
        }
        let topic = &self.topics[ix].name;
        let same = |wants: &Wants| wants.peer == peer && wants.topic == *topic;
        let at = self.wants.iter().position(same).unwrap_or(self.wants.len());
        if at == self.wants.len() {
            self.wants.push(Wants { peer, topic: topic.clone(), entries: Vec::new() });
        }
        let wants = &mut self.wants[at];
        for entry in entries {
            if wants.entries.len() == LIST_MAX {
                let entries = std::mem::take(&mut wants.entries);
                Wants { peer, topic: topic.clone(), entries }.place(out);
            }
            wants.entries.push(entry);
        }
    }

    pub(crate) fn name_gaps(
        &self,
        ix: usize,
        at: usize,
        runs: Vec<Run>,
        reason: GapReason,
        out: &mut Vec<Action>,
    ) {
        let topic = &self.topics[ix];
        let Some(track) = topic.tracks.get(at) else { return };
        let Origin { publisher, incarnation, .. } = *track.origin;
        out.extend(runs.into_iter().map(|(from, to)| {
            Action::Gap(Gap { topic: topic.name.clone(), publisher, incarnation, from, to, reason })
        }));
    }
}

/// Numbers of one topic that are remembered as asked for, over all publishers; about 60 bytes each.
const WANTED_MAX: usize = 32_768;

/// Numbers of one publisher that are, at least. Of a publisher of which nothing ever came, as many as its history has: else
/// heads of invented publishers would fill the memory.
const WANTED_MIN: usize = 16;

/// A search that lasts asks again to be pushed to after so long.
const GRAFT_AGAIN_AFTER: std::time::Duration = std::time::Duration::from_secs(1);

/// What one peer is to be asked for in one topic: at least one publication.
#[derive(Debug)]
pub(crate) struct Wants {
    pub(crate) peer: PeerKey,
    topic: Topic,
    entries: Vec<Entry>,
}

impl Wants {
    /// Sends the peer one IWANT for all collected entries.
    pub(crate) fn place(self, out: &mut Vec<Action>) {
        let Self { peer, topic, entries } = self;
        send(out, peer, Packet::new(Message::IWant(IWant { topic, entries })));
    }
}

/// What is to be asked for, by peer.
#[derive(Debug, Default)]
struct Orders(Vec<(PeerKey, Vec<Entry>)>);

impl Orders {
    fn add(&mut self, peer: PeerKey, entry: Entry) {
        match self.0.iter_mut().find(|(who, _)| *who == peer) {
            Some((_, entries)) => entries.push(entry),
            None => self.0.push((peer, vec![entry])),
        }
    }

    fn len(&self) -> usize {
        self.0.iter().map(|(_, entries)| entries.len()).sum()
    }
}

/// Searches are not looked at more often than this, whatever the settings.
const MIN_LOOK: std::time::Duration = std::time::Duration::from_millis(1);

/// One of those who claim to have it, rather not the one that was asked before.
fn choose(track: &Track, seq: u64, before: Option<Asked>, rng: &mut crate::rng::Rng) -> Option<PeerKey> {
    let holders = track.holders(seq).count();
    let others = |peer: &PeerKey| before.is_none_or(|asked| asked.peer != *peer);
    let fresh = track.holders(seq).filter(others).count();
    match fresh {
        0 if holders == 0 => None,
        0 => track.holders(seq).nth(rng.below(holders)),
        _ => track.holders(seq).filter(others).nth(rng.below(fresh)),
    }
}
