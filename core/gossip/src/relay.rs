//! The way of a publication: published or received, checked, delivered, pushed on, acknowledged.

use bytes::Bytes;
use oap::{
    Accepted, ErrorCode, Head, LIST_MAX, Message, MessageId, PUBLICATION_MAX, Proof, Publication, Topic,
};
use std::time::Duration;
use types::{Moment, NodeId};

use crate::{
    engine::{Engine, lost, send},
    event::{Action, Claim, Gap, GapReason, LossReason, PeerKey, Queue, Verdict},
    members::{Acks, Member, Offer},
    packet::Packet,
    publishers::EVICTIONS_PER_FRAME,
    timers::Timer,
    topic::Unacked,
    track::{SEQ_MAX, Track},
};

/// A peer that keeps pushing what is known is asked to stop once in so long.
const PRUNE_AGAIN_AFTER: Duration = Duration::from_secs(1);

/// A publisher signs its head with a publication once in so long.
pub(crate) const PROOF_INTERVAL: Duration = Duration::from_millis(10);

/// A publisher signs its head with one of so many publications, or with one of a sixteenth of the window if that is less.
const PROOF_AFTER: u64 = 256;

/// Why a publication is not taken on, and which rule its sender broke, if it did.
type Refusal = (LossReason, Option<(ErrorCode, &'static str)>);

/// The peer and the path that a publication came from.
#[derive(Clone, Copy, Debug)]
struct Source {
    /// The peer that sent it; none if it was published here.
    from: Option<PeerKey>,
    /// The peer was asked for it.
    was_asked: bool,
}

impl Engine {
    /// Publishes, or says why not.
    pub(crate) fn publish(
        &mut self,
        ticket: u64,
        name: &Topic,
        body: Bytes,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        let refuse = |verdict| Action::Verdict { ticket, id: None, verdict };
        if body.len() > PUBLICATION_MAX {
            return out.push(refuse(Verdict::TooLarge));
        }
        // What applications publish in is claimed for them before.
        let claim = self.claim_of(name).unwrap_or(Claim::Own);
        let Some(ix) = self.open_claimed(name, claim, out) else {
            return out.push(refuse(Verdict::Busy));
        };
        let topic = &mut self.topics[ix];
        if topic.unacked.len() >= self.settings.max_unacked || topic.members.is_congested(&self.settings) {
            topic.claim = topic.claim.filter(|_| topic.is_live());
            return out.push(refuse(Verdict::Busy));
        }
        if topic.seq == 0 {
            topic.seq = self.numbers.remove(name).unwrap_or(0);
        }
        topic.seq += 1;
        let seq = topic.seq;
        let id =
            MessageId { publisher: self.me, incarnation: self.incarnation, topic: topic.name.clone(), seq };
        let mut publication = Publication::new(id.clone(), body);
        publication.signature = self.signatures.sign(&publication);
        publication.proof = self.proof_if_due(ix, &id, now);
        self.take_on(ix, publication, None, now, out);
        self.start_beating(ix, now);
        self.sign_soon(ix);
        let topic = &mut self.topics[ix];
        if topic.members.is_empty() {
            return out.push(Action::Verdict { ticket, id: Some(id), verdict: Verdict::LocalOnly });
        }
        topic.unacked.push_back(Unacked { seq, ticket, until: now.after(self.settings.accept_timeout) });
        self.await_verdict(ix);
    }

    /// A publication came from a peer.
    pub(crate) fn receive(
        &mut self,
        from: PeerKey,
        node: NodeId,
        mut publication: Publication,
        now: Moment,
        out: &mut Vec<Action>,
    ) {
        let id = &publication.id;
        let Some(ix) = self.find(&id.topic).filter(|ix| self.topics[*ix].joined) else {
            self.tell_of(from, &id.topic, out);
            return out.push(lost(publication.id, Queue::Ingress, node, LossReason::NotSubscribed));
        };
        let topic = &mut self.topics[ix];
        if let Some(track) =
            topic.tracks.find(id.publisher, id.incarnation).and_then(|at| topic.tracks.get(at))
            && track.has(id.seq)
        {
            let first = self.cache.get(track.origin.uid, id.seq).and_then(Packet::publication);
            let is_forgiven = first.is_some_and(|first| first.hops >= self.settings.forgive_hops);
            if id.publisher == node {
                // A copy is acknowledged again. Another publication with the same number comes from a publisher that has lost
                // count: to acknowledge it would be a promise to deliver it.
                match first.is_some_and(|first| first.digest == publication.digest) {
                    true => self.acknowledge(from, id, out),
                    false => self.show_latest_head(ix, from, node, out),
                }
            }
            let is_answer = self.topics[ix].members.get_mut(from).is_some_and(Member::take_answer);
            if !is_forgiven && !is_answer {
                self.ask_not_to_push(ix, from, now, out);
            }
            return;
        }
        if let Err((reason, broken)) = self.judge(ix, node, &publication, out) {
            if reason == LossReason::Unsigned && !self.refuse_unsigned(ix, from, &publication.id) {
                return;
            }
            out.push(lost(publication.id, Queue::Ingress, node, reason));
            let misbehaved = |(code, rule)| Action::Misbehaved { peer: from, code, rule };
            return out.extend(broken.map(misbehaved));
        }
        publication.hops = publication.hops.saturating_add(1);
        if self.is_proven(ix, &publication.id) {
            // Nobody has checked it, and nothing unchecked is passed on.
            publication.proof = None;
        }
        let from_publisher = (publication.id.publisher == node).then(|| publication.id.clone());
        if !self.take_on(ix, publication, Some((from, node)), now, out) {
            if from_publisher.is_some() {
                self.show_latest_head(ix, from, node, out);
            }
            return;
        }
        if let Some(id) = from_publisher {
            self.acknowledge(from, &id, out);
        }
    }

    /// A publication lacks the signature that its topic demands here. Whether that is news: one that is looked for is asked for
    /// again, because another peer may have the publisher's own.
    fn refuse_unsigned(&mut self, ix: usize, from: PeerKey, id: &MessageId) -> bool {
        let topic = &mut self.topics[ix];
        let at = topic.tracks.find(id.publisher, id.incarnation);
        let Some(track) = at.and_then(|at| topic.tracks.get_mut(at)) else { return true };
        if track.was_asked(from, id.seq) {
            topic.members.get_mut(from).map(Member::take_answer);
        }
        track.refuse_unsigned(id.seq)
    }

    /// Whether the publisher has signed this number or a higher one.
    fn is_proven(&mut self, ix: usize, id: &MessageId) -> bool {
        let tracks = &mut self.topics[ix].tracks;
        let at = tracks.find(id.publisher, id.incarnation);
        at.and_then(|at| tracks.get(at)).is_some_and(|track| id.seq <= track.proven())
    }

    /// This node's word for the number of a publication: with the first, and then every so often.
    fn proof_if_due(&mut self, ix: usize, id: &MessageId, now: Moment) -> Option<Box<Proof>> {
        let topic = &mut self.topics[ix];
        let at = topic.tracks.find(id.publisher, id.incarnation);
        let proven = at.and_then(|at| topic.tracks.get(at)).map_or(0, Track::proven);
        let most = PROOF_AFTER.min(self.settings.dedupe_window as u64 / 16);
        let is_over = topic.signed_at.is_none_or(|at| now.since(at) >= PROOF_INTERVAL);
        if !is_over && id.seq - proven < most {
            return None;
        }
        (topic.signed_at, topic.vouched_at, topic.vouched) = (Some(now), Some(now), id.seq);
        Some(self.signatures.sign_head(id).into())
    }

    /// What is wrong with a publication that is news, and which rule its sender is told that it broke, if that is its own
    /// doing: what a relay cannot check is not held against it.
    fn judge(
        &mut self,
        ix: usize,
        node: NodeId,
        publication: &Publication,
        out: &mut Vec<Action>,
    ) -> Result<(), Refusal> {
        let id = &publication.id;
        if !(1..=SEQ_MAX).contains(&id.seq) {
            let rule = "a publication's number is too high";
            return Err((LossReason::Forged, Some((ErrorCode::Malformed, rule))));
        }
        // Whoever passes a publication on counts a hop.
        if publication.hops == 0 && id.publisher != node {
            let rule = "a publication of another node has no hops";
            return Err((LossReason::Forged, Some((ErrorCode::Mismatch, rule))));
        }
        if !self.signatures.is_known(&id.topic, id.publisher) {
            return Err((LossReason::Unlisted, None));
        }
        let at = self.topics[ix].tracks.find(id.publisher, id.incarnation);
        let track = at.and_then(|at| self.topics[ix].tracks.get(at));
        match &publication.proof {
            Some(_) if track.is_some_and(|track| id.seq <= track.proven()) => {}
            Some(proof) if self.signatures.verify_head(id, proof) => self.meet_own_life(id, out),
            Some(_) => {
                let rule = "a publication's proof is not its publisher's";
                return Err((LossReason::Mismatch, Some((ErrorCode::Mismatch, rule))));
            }
            None if track.is_none_or(|track| track.is_too_far(id.seq)) => {
                return Err((LossReason::Unproven, None));
            }
            None => {}
        }
        if id.publisher == self.me && id.incarnation >= self.incarnation {
            return Err((LossReason::Forged, None));
        }
        if !publication.is_intact() {
            let rule = "a publication's digest is not that of its body";
            return Err((LossReason::Mismatch, Some((ErrorCode::Mismatch, rule))));
        }
        if self.signatures.verify(publication) {
            return Ok(());
        }
        // Only a node that lists the topic as signed signs and checks what is published in it. But whoever signs knows its key.
        if publication.signature.is_some() && id.publisher == node {
            let rule = "a publication's signature is not its publisher's";
            return Err((LossReason::Mismatch, Some((ErrorCode::Mismatch, rule))));
        }
        Err((LossReason::Unsigned, None))
    }

    /// Marks, keeps, delivers and passes on a publication that is news. Whether there was room to remember its publisher.
    fn take_on(
        &mut self,
        ix: usize,
        publication: Publication,
        from: Option<(PeerKey, NodeId)>,
        now: Moment,
        out: &mut Vec<Action>,
    ) -> bool {
        self.evictions_left = EVICTIONS_PER_FRAME;
        let (entry, seq) = (publication.id.entry(), publication.id.seq);
        let Some(at) = self.track(ix, entry, seq - 1, from.map(|(peer, _)| peer), now, out) else {
            if let Some((_, node)) = from {
                match publication.proof.as_deref() {
                    Some(proof) if self.is_outlived(ix, entry.publisher, entry.incarnation) => {
                        self.name_past(ix, Head { entry, proof: *proof }, Some(node), now, out);
                    }
                    _ => out.push(no_room(publication.id.clone())),
                }
                out.push(lost(publication.id, Queue::Ingress, node, LossReason::Publishers));
            }
            return false;
        };
        let topic = &mut self.topics[ix];
        let Some(track) = topic.tracks.get_mut(at) else { return false };
        let (late, stray) = (track.is_named(seq), seq < track.highest());
        if let Some(proof) = publication.proof.as_deref().filter(|_| seq > track.proven()) {
            track.prove(seq, *proof);
        }
        let was_asked = from.is_some_and(|(peer, _)| track.was_asked(peer, seq));
        let fallen = track.deliver(seq);
        track.heard_at = now;
        track.search.iter_mut().for_each(|search| search.note_progress(seq, now));
        if let Some((peer, _)) = from.filter(|_| !track.is_settled()) {
            track.claim(peer, seq);
        }
        let uid = track.origin.uid;
        let hops = publication.hops;
        if stray && topic.strays.len() < LIST_MAX {
            topic.strays.push(publication.id.entry());
        }
        let packet = Packet::of(publication);
        self.cache.insert(uid, seq, packet.clone(), now);
        self.name_gaps(ix, at, fallen, GapReason::OutOfWindow, out);
        let members = &mut self.topics[ix].members;
        match from {
            Some((peer, _)) if was_asked => {
                members.get_mut(peer).map(Member::take_answer);
            }
            Some((peer, _)) => {
                members.set_eager(peer, true);
                members.get_mut(peer).into_iter().for_each(Member::reward);
            }
            None => {}
        }
        self.push(ix, at, &packet, Source { from: from.map(|(peer, _)| peer), was_asked }, out);
        if self.topics[ix].joined {
            out.push(Action::Deliver { packet, hops, late });
        }
        self.topics[ix].mark_dirty(at);
        self.announce_news(ix, now);
        self.search_soon(ix, at, now);
        self.search_on(ix, at, now);
        true
    }

    /// Hands a publication to the peers that are pushed to, as far as their budgets go. One that was asked for is old: those
    /// who said that they have it are left out, else they would prune a node that only makes up for what it missed.
    fn push(&mut self, ix: usize, at: usize, packet: &Packet, source: Source, out: &mut Vec<Action>) {
        let topic = &mut self.topics[ix];
        let (Some(track), Some(publication)) = (topic.tracks.get(at), packet.publication()) else { return };
        for member in topic.members.eager_mut() {
            let is_holder = || track.holders(publication.id.seq).any(|peer| peer == member.peer);
            if Some(member.peer) == source.from || (source.was_asked && is_holder()) {
                continue;
            }
            match member.offer(&track.origin, publication.id.seq, &self.settings) {
                Offer::Send => send(out, member.peer, packet.clone()),
                Offer::Later => {}
                Offer::No(named) => {
                    let node = self.peers.get(member.peer.0 as usize).copied().flatten();
                    out.extend(named.zip(node).map(|(run, node)| run.loss(&topic.name, node)));
                }
            }
        }
    }

    /// A peer pushed what is known: it is asked to announce instead.
    fn ask_not_to_push(&mut self, ix: usize, from: PeerKey, now: Moment, out: &mut Vec<Action>) {
        let topic = &mut self.topics[ix];
        let Some(member) = topic.members.get_mut(from) else { return };
        if !member.blame() {
            return;
        }
        if member.pruned_at.is_none_or(|at| now.since(at) >= PRUNE_AGAIN_AFTER) {
            member.pruned_at = Some(now);
            send(out, from, Packet::new(Message::Prune(topic.name.clone())));
        }
        topic.members.set_eager(from, false);
    }

    /// The publisher itself sent this, and it is kept: that is acknowledged at the end of the batch.
    fn acknowledge(&mut self, from: PeerKey, id: &MessageId, out: &mut Vec<Action>) {
        let same = |acks: &&mut Acks| {
            acks.peer == from && acks.incarnation == id.incarnation && acks.topic == id.topic
        };
        match self.acks.iter_mut().find(same) {
            Some(acks) if acks.seqs.len() < LIST_MAX => acks.seqs.push(id.seq),
            Some(acks) => {
                let seqs = std::mem::replace(&mut acks.seqs, vec![id.seq]);
                let (topic, incarnation) = (id.topic.clone(), id.incarnation);
                send(out, from, Packet::new(Message::Accepted(Accepted { topic, incarnation, seqs })));
            }
            None => {
                let (topic, incarnation) = (id.topic.clone(), id.incarnation);
                self.acks.push(Acks { peer: from, topic, incarnation, seqs: vec![id.seq] });
            }
        }
    }

    /// A neighbour has taken on publications of this node's own.
    pub(crate) fn accepted(&mut self, accepted: &Accepted, out: &mut Vec<Action>) {
        let Some(ix) = self.find(&accepted.topic).filter(|_| accepted.incarnation == self.incarnation) else {
            return;
        };
        let topic = &mut self.topics[ix];
        for seq in &accepted.seqs {
            let Ok(at) = topic.unacked.binary_search_by_key(seq, |unacked| unacked.seq) else { continue };
            out.extend(topic.unacked.remove(at).map(|unacked| {
                let entry = oap::Entry { publisher: self.me, incarnation: self.incarnation, seq: *seq };
                let id = Some(entry.in_topic(&topic.name));
                Action::Verdict { ticket: unacked.ticket, id, verdict: Verdict::Accepted }
            }));
        }
    }

    /// Nobody acknowledged in time: the publications are known here only.
    pub(crate) fn give_up_waiting(&mut self, ix: usize, now: Moment, out: &mut Vec<Action>) {
        let topic = &mut self.topics[ix];
        let is_over = |unacked: &Unacked| unacked.until <= now;
        while topic.unacked.front().is_some_and(is_over) {
            let Some(unacked) = topic.unacked.pop_front() else { break };
            let entry = oap::Entry { publisher: self.me, incarnation: self.incarnation, seq: unacked.seq };
            let id = Some(entry.in_topic(&topic.name));
            out.push(Action::Verdict { ticket: unacked.ticket, id, verdict: Verdict::LocalOnly });
        }
        self.timers.set(Timer::Verdict(ix), &mut topic.verdict_at, None);
        self.await_verdict(ix);
    }

    /// Sets the timer unless it is set: it may fire for one that is acknowledged by then, which costs less than moving it
    /// with every acknowledgement.
    fn await_verdict(&mut self, ix: usize) {
        let topic = &mut self.topics[ix];
        if topic.verdict_at.is_none() {
            let until = topic.unacked.front().map(|unacked| unacked.until);
            self.timers.set(Timer::Verdict(ix), &mut topic.verdict_at, until);
        }
    }
}

/// Subscribers are told that a publication was refused because there are too many publishers.
fn no_room(id: MessageId) -> Action {
    let MessageId { publisher, incarnation, topic, seq } = id;
    Action::Gap(Gap { topic, publisher, incarnation, from: seq, to: seq, reason: GapReason::NoRoom })
}
