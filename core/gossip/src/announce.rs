//! Telling peers what there is: soon to those that are not pushed to, and in heartbeats to everybody.

use oap::{Entry, HEADS_MAX, Head, IHave, LIST_MAX, Message, Topic};
use std::{collections::BTreeSet, time::Duration};
use types::Moment;

use crate::{
    engine::{Engine, send},
    event::{Action, PeerKey},
    members::Member,
    packet::Packet,
    relay::PROOF_INTERVAL,
    timers::Timer,
    topic::TopicState,
    track::Track,
};

/// After so many heartbeats without news they come more slowly.
const LIVELY_BEATS: u32 = 10;

/// A node that has published since, and whose last signed publication is so old, has stopped publishing: while it goes on, it
/// signs one at least as often.
const QUIET: Duration = PROOF_INTERVAL.saturating_mul(2);

/// Every so many heartbeats, all peers are told again that this node takes part.
const BEATS_PER_SUBSCRIBE: u32 = 8;

impl Engine {
    /// Something is new: it is announced soon, unless everybody is pushed to.
    pub(crate) fn announce_news(&mut self, ix: usize, now: Moment) {
        if self.topics[ix].members.len() > self.topics[ix].members.eager_len() {
            self.announce_soon(ix, now);
        }
    }

    /// There is somebody to be told of what there is.
    pub(crate) fn announce_soon(&mut self, ix: usize, now: Moment) {
        self.announce_by(ix, now.after(self.settings.announce_after));
    }

    /// Announces at this moment, or earlier if that is planned.
    pub(crate) fn announce_by(&mut self, ix: usize, at: Moment) {
        let topic = &mut self.topics[ix];
        if topic.announce_at.is_none_or(|planned| planned > at) {
            self.timers.set(Timer::Announce(ix), &mut topic.announce_at, Some(at));
        }
    }

    /// Sends peers what waits for them where nothing is on its way any more: their queues gave everything up.
    fn resume_idle(&mut self, ix: usize, out: &mut Vec<Action>) {
        let is_stuck = |member: &Member| member.is_idle() && !member.backlog.is_empty();
        let members = self.topics[ix].members.iter_mut().filter(|(_, member)| is_stuck(member));
        let stuck: Vec<_> = members.map(|(_, member)| member.peer).collect();
        for peer in stuck {
            self.send_backlog(ix, peer, out);
        }
    }

    /// Tells those that are not pushed to what is new, and those that missed something everything there is.
    pub(crate) fn announce(&mut self, ix: usize, now: Moment, out: &mut Vec<Action>) {
        self.sign_own(ix, now);
        self.resume_idle(ix, out);
        let topic = &mut self.topics[ix];
        self.timers.set(Timer::Announce(ix), &mut topic.announce_at, None);
        let (heads, entries) = take_dirty(topic);
        let owed = |member: &Member| member.owed && member.announcing == 0 && member.backlog.is_empty();
        let missed = topic.members.iter_mut().filter(|(_, member)| owed(member));
        let missed: Vec<_> = missed.map(|(_, member)| member.peer).collect();
        for peer in missed {
            self.tell_everything(ix, peer, now, out);
        }
        tell(&mut self.topics[ix], entries, heads, |is_eager| !is_eager, out);
    }

    /// Tells everybody what there is, as much as fits, and more slowly while nothing changes.
    pub(crate) fn beat(&mut self, ix: usize, now: Moment, out: &mut Vec<Action>) {
        if self.forget_if_idle(ix, now) {
            return;
        }
        self.name_evicted(ix, out);
        self.sign_own(ix, now);
        let topic = &mut self.topics[ix];
        let (mut heads, mut entries) = take_dirty(topic);
        let told = heads.len();
        let places = topic.tracks.places();
        for _ in 0..places {
            if heads.len() >= self.settings.heads_per_beat.max(told) {
                break;
            }
            topic.beat_cursor = (topic.beat_cursor + 1) % places;
            let is_recent = |track: &&Track| now.since(track.heard_at) < self.settings.remember;
            let Some(track) = topic.tracks.get(topic.beat_cursor).filter(is_recent) else { continue };
            heads.extend(track.head().filter(|head| !heads[..told].contains(head)));
            if entries.len() < LIST_MAX {
                entries.extend(track.unproven());
            }
        }
        topic.past.forget_old(now, self.settings.remember * 2);
        let room = self.settings.heads_per_beat.saturating_sub(heads.len());
        heads.extend(topic.past.heads(now, self.settings.remember).take(room));
        tell(topic, entries, heads, |_| true, out);
        topic.beats = topic.beats.wrapping_add(1);
        if topic.beats.is_multiple_of(BEATS_PER_SUBSCRIBE) {
            self.subscribe_again(ix, out);
        }
        self.plan_beat(ix, now);
    }

    /// Tells a peer that has just come everything there is.
    pub(crate) fn tell_everything(&mut self, ix: usize, peer: PeerKey, now: Moment, out: &mut Vec<Action>) {
        self.sign_own(ix, now);
        let topic = &mut self.topics[ix];
        let heads = topic.tracks.iter().filter_map(|(_, track)| track.head());
        let heads: Vec<_> = heads.chain(topic.past.heads(now, self.settings.remember)).collect();
        let entries: Vec<_> = topic.tracks.iter().filter_map(|(_, track)| track.unproven()).collect();
        // There are at most as many entries as heads, and a frame has room for more of them.
        let frames = heads.len().max(entries.len()).div_ceil(HEADS_MAX);
        let (mut heads, mut entries) = (heads.chunks(HEADS_MAX), entries.chunks(HEADS_MAX));
        for _ in 0..frames {
            let (heads, entries) = (heads.next().unwrap_or_default(), entries.next().unwrap_or_default());
            send(out, peer, announcement(&topic.name, entries.to_vec(), heads.to_vec()));
        }
        if let Some(member) = topic.members.get_mut(peer) {
            member.announcing += u32::try_from(frames).unwrap_or(u32::MAX);
            member.owed = false;
        }
    }

    /// The first heartbeat comes at any moment of the interval, so that those of many topics do not fall together.
    pub(crate) fn start_beating(&mut self, ix: usize, now: Moment) {
        if self.topics[ix].beat_at.is_none() && self.topics[ix].is_live() {
            let offset = fraction(self.settings.heartbeat, self.rng.below(1024));
            let topic = &mut self.topics[ix];
            self.timers.set(Timer::Beat(ix), &mut topic.beat_at, Some(now.after(offset)));
        }
    }

    /// Signs this node's head, and remembers when.
    fn sign_own(&mut self, ix: usize, now: Moment) {
        if self.sign_head(ix) {
            self.topics[ix].signed_at = Some(now);
        }
    }

    /// Signs this node's head, if it is not the one that was signed last; whether it did.
    pub(crate) fn sign_head(&mut self, ix: usize) -> bool {
        let topic = &mut self.topics[ix];
        let at = topic.tracks.find(self.me, self.incarnation);
        let track = at.and_then(|at| topic.tracks.get_mut(at));
        let Some(track) = track.filter(|track| track.seen() > track.proven()) else { return false };
        let head = track.entry(track.seen());
        track.prove(head.seq, self.signatures.sign_head(&head.in_topic(&topic.name)))
    }

    /// If peers have not got this node's word for its last publication, they get it once nothing was published for a while: else
    /// they could not name what they missed of a life that ends now.
    pub(crate) fn sign_soon(&mut self, ix: usize) {
        let topic = &mut self.topics[ix];
        let is_due = topic.seq > topic.vouched && topic.sign_at.is_none();
        if let Some(vouched_at) = topic.vouched_at.filter(|_| is_due) {
            self.timers.set(Timer::Sign(ix), &mut topic.sign_at, Some(vouched_at.after(QUIET)));
        }
    }

    /// Gives all peers this node's word for its last publication, unless they got it for one a moment ago.
    pub(crate) fn sign_if_quiet(&mut self, ix: usize, now: Moment, out: &mut Vec<Action>) {
        let topic = &mut self.topics[ix];
        self.timers.set(Timer::Sign(ix), &mut topic.sign_at, None);
        if topic.vouched_at.is_some_and(|at| now.since(at) < QUIET) {
            return self.sign_soon(ix);
        }
        let head = self.unvouched_head(ix, now);
        tell(&mut self.topics[ix], Vec::new(), head.into_iter().collect(), |_| true, out);
    }

    /// The same at the end, whatever is on its way to peers.
    pub(crate) fn tell_last_head(&mut self, ix: usize, now: Moment, out: &mut Vec<Action>) {
        let Some(head) = self.unvouched_head(ix, now) else { return };
        let topic = &mut self.topics[ix];
        let packet = announcement(&topic.name, Vec::new(), vec![head]);
        for (_, member) in topic.members.iter_mut() {
            member.announcing += 1;
            send(out, member.peer, packet.clone());
        }
    }

    /// This node's signed head, if peers have not got it. They are to be told.
    fn unvouched_head(&mut self, ix: usize, now: Moment) -> Option<Head> {
        self.sign_own(ix, now);
        let topic = &mut self.topics[ix];
        let at = topic.tracks.find(self.me, self.incarnation)?;
        let head = topic.tracks.get(at)?.head().filter(|head| head.entry.seq > topic.vouched)?;
        (topic.vouched_at, topic.vouched) = (Some(now), head.entry.seq);
        Some(head)
    }

    fn plan_beat(&mut self, ix: usize, now: Moment) {
        let topic = &mut self.topics[ix];
        topic.quiet_beats = topic.quiet_beats.saturating_add(1);
        let rounds = topic.tracks.len() / self.settings.heads_per_beat;
        let lively = LIVELY_BEATS.saturating_add(u32::try_from(rounds).unwrap_or(u32::MAX));
        let interval = match topic.quiet_beats <= lively {
            true => self.settings.heartbeat,
            false => self.settings.idle_heartbeat,
        };
        let jitter = fraction(interval, self.rng.below(128));
        let at = topic.is_live().then(|| now.after(interval + jitter));
        self.timers.set(Timer::Beat(ix), &mut topic.beat_at, at);
    }
}

/// What changed since it was last announced: the heads that are proven, and what is here beyond them or came late. What
/// does not fit into a frame waits for the next one.
fn take_dirty(topic: &mut TopicState) -> (Vec<Head>, Vec<Entry>) {
    let places: Vec<_> = topic.dirty.drain(..topic.dirty.len().min(HEADS_MAX)).collect();
    let mut entries = std::mem::take(&mut topic.strays);
    entries.truncate(LIST_MAX - HEADS_MAX);
    let mut heads = Vec::with_capacity(places.len());
    for at in places {
        if let Some(track) = topic.tracks.get_mut(at) {
            track.dirty = false;
            heads.extend(track.head());
            entries.extend(track.unproven());
        }
    }
    (heads, entries)
}

/// Sends one announcement to the members that are chosen. One is on its way to a peer at a time: heads are
/// cumulative, so peers that are left out get everything later.
fn tell(
    topic: &mut TopicState,
    entries: Vec<Entry>,
    heads: Vec<Head>,
    is_chosen: impl Fn(bool) -> bool,
    out: &mut Vec<Action>,
) {
    if entries.is_empty() && heads.is_empty() {
        return;
    }
    let packet = announcement(&topic.name, entries, heads);
    for (is_eager, member) in topic.members.iter_mut() {
        if !is_chosen(is_eager) {
            continue;
        }
        if member.announcing > 0 {
            member.owed = true;
            continue;
        }
        let packet = match member.backlog.is_empty() {
            true => packet.clone(),
            false => {
                // It is told the rest when its turn has come.
                member.owed = true;
                match without_backlog(member, &packet) {
                    Some(packet) => packet,
                    None => continue,
                }
            }
        };
        member.announcing = 1;
        send(out, member.peer, packet);
    }
}

/// An announcement without the publishers of whom something waits for a peer: it would ask for what is about to come, and
/// get it twice. None if nothing is left of it.
fn without_backlog(member: &Member, packet: &Packet) -> Option<Packet> {
    let Message::IHave(IHave { topic, entries, heads }) = packet.message() else { return None };
    let waiting: BTreeSet<_> =
        member.backlog.iter().map(|(origin, _)| (origin.publisher, origin.incarnation)).collect();
    let is_free = |entry: &Entry| !waiting.contains(&(entry.publisher, entry.incarnation));
    let entries: Vec<_> = entries.iter().filter(|entry| is_free(entry)).copied().collect();
    let heads: Vec<_> = heads.iter().filter(|head| is_free(&head.entry)).copied().collect();
    (!entries.is_empty() || !heads.is_empty()).then(|| announcement(topic, entries, heads))
}

fn announcement(topic: &Topic, entries: Vec<Entry>, heads: Vec<Head>) -> Packet {
    Packet::new(Message::IHave(IHave { topic: topic.clone(), entries, heads }))
}

/// So many 1024th parts of a duration.
fn fraction(whole: Duration, parts: usize) -> Duration {
    whole * u32::try_from(parts).unwrap_or(0) / 1024
}
