//! What writers tell the shards: what has left, and what will not.

use gossip::{Kind, Packet};
use oap::Topic;
use ron_kernel::lock::Ranked;
use tokio::sync::Notify;

use super::Gossip;
use crate::{locks, session::Conn};

/// A packet in a peer's box.
#[derive(Debug)]
pub(crate) struct Pushed {
    pub(super) packet: Packet,
    pub(super) shard: u16,
}

impl Pushed {
    /// It waited too long for its turn. The shard offers it again; without a shard it is lost.
    pub(crate) fn given_up(self, conn: &Conn) {
        let Self { packet, shard } = self;
        let note = Note::Refused { slot: conn.slot(), number: conn.number, packet };
        let told = conn.shared().gossip.shards[usize::from(shard)].feedback.add(note);
        if let Err(Note::Refused { packet, .. }) = told {
            lost(&packet, conn, "backpressure");
        }
    }

    /// The session ended first.
    pub(crate) fn closed(&self, conn: &Conn) {
        lost(&self.packet, conn, "closed");
    }
}

fn lost(packet: &Packet, conn: &Conn, reason: &'static str) {
    if let Some(publication) = packet.publication() {
        let id = publication.id.clone();
        conn.shared().losses.add(id, super::GOSSIP_EGRESS.name, Some(conn.peer), reason);
    }
}

/// One thing a writer tells.
#[derive(Debug)]
pub(super) enum Note {
    /// Packets of a topic have left for a peer.
    Sent { slot: u32, number: u64, topic: Topic, publications: u32, announcements: u32 },
    /// Packets that tell of topics have left for a peer.
    TopicsTold { slot: u32, number: u64, count: u32 },
    /// A packet will not leave.
    Refused { slot: u32, number: u64, packet: Packet },
}

/// What writers have told a shard. Bounded by what the shard has put into their boxes.
#[derive(Debug)]
pub(super) struct Feedback {
    notes: Ranked<Notes>,
    told: Notify,
}

impl Default for Feedback {
    fn default() -> Self {
        Self { notes: Ranked::new(&locks::FEEDBACK, Notes::default()), told: Notify::new() }
    }
}

#[derive(Debug, Default)]
struct Notes {
    list: Vec<Note>,
    /// Whether there is a shard that will look at them.
    is_heard: bool,
}

impl Feedback {
    /// From now on there is somebody who hears.
    pub(super) fn open(&self) {
        self.notes.lock().is_heard = true;
    }

    /// Sends feedback. What cannot be delivered is returned, and the caller accounts for it.
    pub(super) fn add(&self, note: Note) -> Result<(), Note> {
        let mut notes = self.notes.lock();
        if !notes.is_heard {
            return Err(note);
        }
        let is_first = notes.list.is_empty();
        notes.list.push(note);
        drop(notes);
        if is_first {
            self.told.notify_one();
        }
        Ok(())
    }

    /// Takes everything that was told; what was in `taken` is dropped.
    pub(super) fn take(&self, taken: &mut Vec<Note>) {
        taken.clear();
        std::mem::swap(&mut self.notes.lock().list, taken);
    }

    /// Nobody hears any more; what was told last is to be taken after this.
    pub(super) fn close(&self) {
        self.notes.lock().is_heard = false;
    }

    /// Resolves once something was told. May resolve though it was taken meanwhile.
    ///
    /// Cancel safe.
    pub(super) async fn told(&self) {
        self.told.notified().await;
    }
}

/// Tells the shards what a writer has written; one note for all neighbours in a row that are alike.
pub(super) fn sent(gossip: &Gossip, conn: &Conn, packets: impl Iterator<Item = Pushed>) -> u64 {
    let mut count = 0;
    let mut run: Option<(u16, Note)> = None;
    let tell = |(shard, note): (u16, Note)| {
        // A shard that has ended sends nothing that would have to wait for this.
        let _ = gossip.shards[usize::from(shard)].feedback.add(note);
    };
    for Pushed { packet, shard } in packets {
        count += 1;
        let Some(note) = note_of(conn, &packet) else { continue };
        let is_alike = run.as_mut().is_some_and(|(same, run)| *same == shard && run.absorb(&note));
        if !is_alike {
            run.replace((shard, note)).into_iter().for_each(tell);
        }
    }
    run.into_iter().for_each(tell);
    count
}

/// What a shard is told of a packet that was written.
fn note_of(conn: &Conn, packet: &Packet) -> Option<Note> {
    let (slot, number, topic) = (conn.slot(), conn.number, packet.topic()?.clone());
    match packet.kind() {
        Kind::Publication => Some(Note::Sent { slot, number, topic, publications: 1, announcements: 0 }),
        Kind::Announcement => Some(Note::Sent { slot, number, topic, publications: 0, announcements: 1 }),
        Kind::Membership => Some(Note::TopicsTold { slot, number, count: 1 }),
        Kind::Control => None,
    }
}

impl Note {
    /// Adds what another note of the same peer says, if both are alike; whether they are.
    fn absorb(&mut self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Sent { topic, publications, announcements, .. },
                Self::Sent { topic: same, publications: more, announcements: told, .. },
            ) if *topic == *same => {
                *publications += more;
                *announcements += told;
                true
            }
            (Self::TopicsTold { count, .. }, Self::TopicsTold { count: more, .. }) => {
                *count += more;
                true
            }
            _ => false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(number: u64) -> Note {
        let topic = Topic::new("news").expect("a good name");
        Note::Sent { slot: 0, number, topic, publications: 1, announcements: 0 }
    }

    #[test]
    fn what_nobody_will_hear_comes_back_to_whoever_tells_it() {
        let (feedback, mut heard) = (Feedback::default(), Vec::new());
        assert!(feedback.add(note(1)).is_err(), "there is no shard yet");
        feedback.open();
        assert!(feedback.add(note(2)).is_ok());
        feedback.close();
        assert!(feedback.add(note(3)).is_err(), "there is none any more");
        feedback.take(&mut heard);
        assert!(matches!(heard[..], [Note::Sent { number: 2, .. }]), "{heard:?}");
        feedback.open();
        assert!(feedback.add(note(4)).is_ok(), "it was started again");
    }
}
