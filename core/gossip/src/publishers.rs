//! Who publishes: heads that are proven, claims that are not, later lives of this node, and who makes room for whom.

use oap::{Entry, ErrorCode, Head, IHave, Message, MessageId};
use types::{Moment, NodeId};

use crate::{
    engine::{Engine, send},
    event::{Action, GapReason, PeerKey, Verdict},
    packet::Packet,
    track::{Origin, SEQ_MAX, Track},
};

/// One peer may have told first of at most this part of the publishers of a topic: one in so many.
const PEER_SHARE: usize = 2;

/// The most lives of one publisher that are followed in a topic: the latest ones. Of earlier ones only their heads are remembered.
const LIVES_MAX: usize = 4;

/// Among which publishers room is made.
#[derive(Clone, Copy, Debug)]
enum Whose {
    /// Publishers that are not listed in the configuration.
    Anybody,
    /// Those that this peer told of first and that are not listed.
    Introducer(Option<NodeId>),
}

/// One message of a peer looks so many times for a publisher that makes room; each look goes over all publishers.
pub(crate) const EVICTIONS_PER_FRAME: u32 = 8;

impl Engine {
    /// A peer says what there is. Heads come with their publisher's word; everything else is only the peer's.
    pub(crate) fn announced(&mut self, from: PeerKey, have: &IHave, now: Moment, out: &mut Vec<Action>) {
        let Some(ix) = self.find(&have.topic) else { return };
        let is_joined = self.topics[ix].joined;
        self.evictions_left = EVICTIONS_PER_FRAME;
        for head in &have.heads {
            let is_right = match is_joined {
                true => self.head_announced(ix, from, head, now, out),
                false => self.own_head_shown(ix, from, head, now, out),
            };
            if !is_right {
                let (code, rule) = (ErrorCode::Mismatch, "a head's proof is not its publisher's");
                return out.push(Action::Misbehaved { peer: from, code, rule });
            }
        }
        for entry in have.entries.iter().filter(|_| is_joined) {
            self.claimed(ix, from, entry, now);
        }
    }

    /// A head in a topic in which this node only publishes: one of its own may be of a later life. Whether it is what its proof
    /// says, if it is checked.
    fn own_head_shown(
        &mut self,
        ix: usize,
        from: PeerKey,
        head: &Head,
        now: Moment,
        out: &mut Vec<Action>,
    ) -> bool {
        let id = head.entry.in_topic(&self.topics[ix].name);
        let is_later = (id.incarnation, id.seq) > (self.incarnation, self.own_number(&id.topic));
        if id.publisher != self.me || !is_later || !self.effort(from).is_some_and(|left| left.take_check(now))
        {
            return true;
        }
        if !self.signatures.verify_head(&id, &head.proof) {
            return false;
        }
        self.meet_own_life(&id, out);
        true
    }

    /// Shows a publisher that has lost count what it has signed in its latest life: it goes on in a later one.
    pub(crate) fn show_latest_head(&self, ix: usize, to: PeerKey, publisher: NodeId, out: &mut Vec<Action>) {
        let topic = &self.topics[ix];
        let latest = topic.tracks.lives(publisher).last();
        let head = latest.and_then(|(_, at)| topic.tracks.get(at)).and_then(Track::head);
        if let Some(head) = head {
            let have = IHave { topic: topic.name.clone(), entries: Vec::new(), heads: vec![head] };
            send(out, to, Packet::new(Message::IHave(have)));
        }
    }

    /// Takes note of a head; whether it is what its proof says. Nobody passes a head on whose proof is wrong, so whoever
    /// sends one made it up.
    fn head_announced(
        &mut self,
        ix: usize,
        from: PeerKey,
        head: &Head,
        now: Moment,
        out: &mut Vec<Action>,
    ) -> bool {
        let Head { entry, proof } = head;
        if !(1..=SEQ_MAX).contains(&entry.seq) {
            return false;
        }
        let is_own = entry.publisher == self.me && entry.incarnation == self.incarnation;
        if is_own && entry.seq <= self.own_number(&self.topics[ix].name) {
            return true;
        }
        let topic = &mut self.topics[ix];
        let known = topic.tracks.find(entry.publisher, entry.incarnation);
        let proven = known.and_then(|at| topic.tracks.get(at)).map_or(0, Track::proven);
        if entry.seq > proven {
            let id = entry.in_topic(&topic.name);
            if !self.signatures.is_known(&id.topic, id.publisher) {
                return true;
            }
            if known.is_none() && self.is_outlived(ix, id.publisher, id.incarnation) {
                return self.past_head_announced(ix, from, head, now, out);
            }
            if known.is_none() && self.evictions_left == 0 {
                return true;
            }
            // What is not checked now is told again with the next heartbeat.
            if !self.effort(from).is_some_and(|left| left.take_check(now)) {
                return true;
            }
            if !self.signatures.verify_head(&id, proof) {
                return false;
            }
            self.meet_own_life(&id, out);
        }
        let at = known.or_else(|| self.track(ix, *entry, entry.seq, Some(from), now, out));
        let Some(at) = at else { return true };
        let topic = &mut self.topics[ix];
        let Some(track) = topic.tracks.get_mut(at) else { return true };
        if entry.seq > proven && track.prove(entry.seq, *proof) {
            // Others are told with the heartbeat, which is not to slow down now.
            topic.quiet_beats = 0;
        }
        self.look_for(ix, at, from, entry.seq, now);
        true
    }

    /// A peer claims to have a publication. It is asked for that if its publisher is known, and no more follows from it.
    fn claimed(&mut self, ix: usize, from: PeerKey, entry: &Entry, now: Moment) {
        let topic = &mut self.topics[ix];
        if entry.publisher == self.me && entry.incarnation >= self.incarnation {
            return;
        }
        let Some(at) = topic.tracks.find(entry.publisher, entry.incarnation) else { return };
        let Some(track) = topic.tracks.get_mut(at).filter(|track| !track.is_too_far(entry.seq)) else {
            return;
        };
        track.hint(entry.seq);
        self.look_for(ix, at, from, entry.seq, now);
    }

    /// A peer says that it has what was published up to a number: what is missing of it is looked for.
    fn look_for(&mut self, ix: usize, at: usize, from: PeerKey, seq: u64, now: Moment) {
        let Some(track) = self.topics[ix].tracks.get_mut(at) else { return };
        if !track.is_settled() {
            track.claim(from, seq);
            self.search_soon(ix, at, now);
        }
    }

    /// This node has signed something in a life that is not before this one: the clock went back, or its counter was lost.
    /// From now on it publishes in a life after that one, as if it had begun now.
    pub(crate) fn meet_own_life(&mut self, proven: &MessageId, out: &mut Vec<Action>) {
        let (me, met) = (self.me, proven.incarnation);
        if proven.publisher != me || met < self.incarnation || met == u64::MAX {
            return;
        }
        if met == self.incarnation && proven.seq <= self.own_number(&proven.topic) {
            // Said in this life, in a topic that was forgotten meanwhile.
            return;
        }
        // Peers name what they did not get of this life up to the number that it has signed.
        for ix in 0..self.topics.len() {
            self.sign_head(ix);
        }
        self.incarnation = met + 1;
        self.numbers.clear();
        for topic in &mut self.topics {
            topic.seq = 0;
            (topic.signed_at, topic.vouched_at, topic.vouched) = (None, None, 0);
            for unacked in topic.unacked.drain(..) {
                out.push(Action::Verdict { ticket: unacked.ticket, id: None, verdict: Verdict::Busy });
            }
        }
        out.push(Action::Outlived { incarnation: met });
    }

    /// The place of a publisher, which is remembered from now on if there is room. `before` is the number before the one
    /// that was heard of, or the highest that was told of.
    pub(crate) fn track(
        &mut self,
        ix: usize,
        Entry { publisher, incarnation, .. }: Entry,
        before: u64,
        from: Option<PeerKey>,
        now: Moment,
        out: &mut Vec<Action>,
    ) -> Option<usize> {
        if let Some(at) = self.topics[ix].tracks.find(publisher, incarnation) {
            return Some(at);
        }
        // Before others make room, of which this may be forgotten.
        let resumed = self.topics[ix].past.named_before(publisher, incarnation);
        if self.topics[ix].past.has(publisher, incarnation)
            || !self.has_room(ix, (publisher, incarnation), from, now, out)
        {
            return None;
        }
        let is_own = publisher == self.me && incarnation == self.incarnation;
        self.topics[ix].past.resume(publisher, incarnation);
        let history = before.saturating_sub(self.settings.history);
        let start = if is_own { before } else { resumed.unwrap_or(history) };
        self.next_uid += 1;
        let origin = Origin { publisher, incarnation, uid: self.next_uid };
        let mut track = Track::new(origin, start, self.settings.dedupe_window);
        track.heard_at = now;
        track.introducer = from.and_then(|peer| self.node(peer));
        let at = self.topics[ix].tracks.insert(track);
        if start > 0 && !is_own && resumed.is_none() {
            self.name_gaps(ix, at, vec![(1, start)], GapReason::BeforeJoining, out);
        }
        Some(at)
    }

    /// Whether there is room for a publisher, or another can make it: this node itself, neighbours and listed publishers
    /// always fit, others within the share of the peer that tells of them.
    fn has_room(
        &mut self,
        ix: usize,
        (publisher, incarnation): (NodeId, u64),
        from: Option<PeerKey>,
        now: Moment,
        out: &mut Vec<Action>,
    ) -> bool {
        let introducer = from.and_then(|peer| self.node(peer));
        let is_listed = publisher == self.me || self.signatures.is_listed(publisher);
        let always = is_listed || introducer == Some(publisher);
        let most = self.settings.max_publishers;
        let tracks = &self.topics[ix].tracks;
        let told = tracks.iter().filter(|(_, track)| track.introducer == introducer).count();
        let share = most.div_ceil(PEER_SHARE);
        let lives = tracks.lives(publisher).count();
        if lives < LIVES_MAX && tracks.len() < most && (always || told < share) {
            return true;
        }
        if self.evictions_left == 0 || self.is_outlived(ix, publisher, incarnation) {
            return false;
        }
        self.evictions_left -= 1;
        let mut left = from.and_then(|peer| self.effort(peer));
        if !is_listed && !left.as_mut().is_some_and(|left| left.take_eviction(now)) {
            return false;
        }
        if lives >= LIVES_MAX {
            return self.forget_earliest_life(ix, publisher, out);
        }
        // Beyond its share a peer makes room among those that it told of.
        let whose = match !always && told >= share {
            true => Whose::Introducer(introducer),
            false => Whose::Anybody,
        };
        let Some(at) = self.least_useful(ix, whose, always, now) else { return false };
        self.forget_publisher(ix, at, true, out);
        true
    }

    /// The publisher that makes room: one that was silent for long, else one of which nothing ever came, else, for a
    /// publisher that always fits, the one of which the least came.
    fn least_useful(&self, ix: usize, whose: Whose, always: bool, now: Moment) -> Option<usize> {
        let is_own =
            |track: &Track| track.origin.publisher == self.me && track.origin.incarnation == self.incarnation;
        let rank = |track: &Track| match track.deliveries {
            _ if now.since(track.heard_at) >= self.settings.remember => Some((0, 0)),
            0 => Some((1, 0)),
            count => always.then_some((2, count)),
        };
        let is_chosen = |track: &Track| match whose {
            Whose::Anybody => true,
            Whose::Introducer(peer) => track.introducer == peer,
        };
        let mut least = None;
        for (at, track) in self.topics[ix].tracks.iter().filter(|(_, track)| is_chosen(track)) {
            let Some(use_of) = rank(track).map(|rank| (rank, track.heard_at)) else { continue };
            let is_less = least.is_none_or(|(least, _)| use_of < least);
            // Who is listed is asked last, because that costs the most.
            if is_less && !is_own(track) && !self.signatures.is_listed(track.origin.publisher) {
                least = Some((use_of, at));
            }
        }
        least.map(|(_, at)| at)
    }

    /// Whether a life of a publisher is before those that are followed, as many as there may be. Neighbours still tell of lives that
    /// were followed here: to take one in again would deliver its last publications twice, and cost a later life its place.
    pub(crate) fn is_outlived(&self, ix: usize, publisher: NodeId, incarnation: u64) -> bool {
        let topic = &self.topics[ix];
        if topic.past.has(publisher, incarnation) {
            return true;
        }
        let mut lives = topic.tracks.lives(publisher);
        lives.next().is_some_and(|(earliest, _)| incarnation < earliest) && lives.count() + 1 >= LIVES_MAX
    }

    /// Makes room for a life of a publisher that has too many: the earliest one goes.
    fn forget_earliest_life(&mut self, ix: usize, publisher: NodeId, out: &mut Vec<Action>) -> bool {
        let own = (publisher == self.me).then_some(self.incarnation);
        let is_other = |(incarnation, _): &(u64, usize)| Some(*incarnation) != own;
        let earliest = self.topics[ix].tracks.lives(publisher).find(is_other);
        let Some((_, at)) = earliest else { return false };
        self.forget_publisher(ix, at, false, out);
        true
    }

    fn forget_publisher(&mut self, ix: usize, at: usize, set_aside: bool, out: &mut Vec<Action>) {
        let Some(track) = self.topics[ix].tracks.get_mut(at) else { return };
        let runs = track.name_up_to(track.highest());
        self.name_gaps(ix, at, runs, GapReason::Forgotten, out);
        self.retire_life(ix, at, set_aside);
        self.remove_track(ix, at);
    }
}
