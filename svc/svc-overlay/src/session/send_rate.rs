//! How fast frames are sent to a peer: as fast as it said that it takes them.

use std::time::Duration;

use quota::{Bucket, Rate};
use types::Moment;

use super::conn::OutFrame;

/// The rate of one peer, and what was sent of it.
#[derive(Debug)]
pub(super) struct SendRate {
    /// Absent if the peer takes as many as there are.
    rate: Option<Rate>,
    sent: Bucket,
}

impl SendRate {
    /// So many frames a second; zero for as many as there are. The peer takes twice as many at once: half of that leaves
    /// room for frames that bunch on the way.
    pub(super) fn new(frames: u32) -> Self {
        Self { rate: Rate::per_second(frames, frames).ok(), sent: Bucket::default() }
    }

    /// How many of these frames the peer takes now, and how long until it takes another.
    pub(super) fn allowed(&self, frames: &[OutFrame], now: Moment) -> (usize, Duration) {
        let Some(rate) = &self.rate else { return (frames.len(), Duration::ZERO) };
        let counts = |frame: &OutFrame| oap::counts_for_rate(&frame.bytes);
        for (at, _) in frames.iter().enumerate().filter(|(_, frame)| counts(frame)) {
            if let Err(exhausted) = self.sent.check(rate, now) {
                return (at, exhausted.wait);
            }
        }
        (frames.len(), Duration::ZERO)
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use bytes::{Bytes, BytesMut};
    use gossip::{Action, Engine, Event, Lane, PeerKey, Settings, Unsigned, Verdict};
    use oap::{Decoder, Message, Parser, Topic};
    use types::NodeId;

    use super::*;
    use crate::outbox::{Limits, Outbox};

    const RATE: u32 = 500;
    const PEER: PeerKey = PeerKey(0);

    /// A publisher that offers a publication each millisecond, its box and rate, and a neighbour that takes so many frames
    /// a second.
    struct Pair {
        engines: [Engine; 2],
        outbox: Outbox<OutFrame>,
        send_rate: SendRate,
        taken: Bucket,
        batch: Vec<OutFrame>,
        now: Moment,
        /// The writer waits until then.
        wait: Moment,
        refused: u32,
        verdicts: Vec<Verdict>,
        delivered: u32,
        gaps: u32,
    }

    fn topic() -> Topic {
        Topic::new("news").expect("a good name")
    }

    impl Pair {
        fn new() -> Self {
            let settings = Settings { burst_budget: 256, ..Settings::default() };
            let engine = |number: u8| {
                let (me, seed) = (NodeId::new([number; 32]), number.into());
                Engine::new(me, 1, settings.clone(), Box::new(Unsigned), seed).expect("sound settings")
            };
            let limits = Limits {
                permits: 128,
                queued: 512,
                queued_bytes: 8 << 20,
                control: 1024,
                drop_oldest: false,
            };
            let mut pair = Self {
                engines: [engine(1), engine(2)],
                outbox: Outbox::new(limits),
                send_rate: SendRate::new(RATE),
                taken: Bucket::default(),
                batch: Vec::new(),
                now: Moment::ORIGIN.after(Duration::from_secs(1)),
                wait: Moment::ORIGIN,
                refused: 0,
                verdicts: Vec::new(),
                delivered: 0,
                gaps: 0,
            };
            for (at, other) in [(0, 2), (1, 1)] {
                pair.tell(at, Event::Subscribe { topic: topic(), claim: gossip::Claim::Own });
                pair.tell(at, Event::PeerUp { peer: PEER, node: NodeId::new([other; 32]) });
            }
            pair
        }

        /// Tells one of the two something, and does what it asks for.
        fn tell(&mut self, at: usize, event: Event) {
            let mut actions = Vec::new();
            self.engines[at].on(event, self.now, &mut actions);
            self.engines[at].settle(&mut actions);
            for action in actions {
                match action {
                    Action::Send { packet, lane, .. } if at == 0 => {
                        let bytes = packet.bytes().clone();
                        let frame = OutFrame { bytes, pushed: None, flow: 0, since: self.now };
                        match lane {
                            Lane::Control => self.outbox.control(frame).expect("there is room"),
                            _ => self.outbox.gossip(&mut vec![frame], |_| self.refused += 1),
                        }
                    }
                    // What the neighbour answers is not what is looked at: it comes at once.
                    Action::Send { packet, .. } => {
                        let message = packet.message().clone();
                        self.tell(0, Event::Message { from: PEER, message });
                    }
                    Action::Deliver { .. } if at == 1 => self.delivered += 1,
                    Action::Gap(_) => self.gaps += 1,
                    Action::Verdict { verdict, .. } => self.verdicts.push(verdict),
                    _ => {}
                }
            }
        }

        /// The writer writes what it may.
        fn write(&mut self) {
            let mut cx = Context::from_waker(Waker::noop());
            while self.now >= self.wait {
                if self.batch.is_empty() && self.outbox.poll_take(&mut cx, &mut self.batch).is_pending() {
                    return;
                }
                let (count, wait) = self.send_rate.allowed(&self.batch, self.now);
                self.wait = self.now.after(wait);
                for frame in self.batch.drain(..count).collect::<Vec<_>>() {
                    self.arrive(&frame.bytes);
                }
            }
        }

        fn arrive(&mut self, bytes: &Bytes) {
            if oap::counts_for_rate(bytes) {
                let limit = Rate::per_second(RATE, RATE * 2).expect("a rate");
                assert!(self.taken.check(&limit, self.now).is_ok(), "sent only to be refused");
            }
            let raw = Decoder::new(oap::FRAME_MAX, false).next(&mut BytesMut::from(&bytes[..]));
            let message = Parser::default()
                .parse(raw.expect("a frame").expect("all of it"))
                .expect("a message")
                .message;
            let count = |is_so: bool| u32::from(is_so);
            let publications = count(matches!(message, Message::Publish(_)));
            let announcements = count(matches!(message, Message::IHave(_)));
            let told = count(matches!(message, Message::Subscribe(_) | Message::Unsubscribe(_)));
            self.tell(1, Event::Message { from: PEER, message });
            self.tell(0, Event::TopicsTold { peer: PEER, count: told });
            self.tell(0, Event::Sent { peer: PEER, topic: topic(), publications, announcements });
        }

        /// Lets so many seconds pass, with a publication offered each millisecond.
        fn pass(&mut self, seconds: u64) {
            for _ in 0..seconds * 1000 {
                self.now = self.now.after(Duration::from_millis(1));
                let body = Bytes::from_static(b"hello");
                self.tell(0, Event::Publish { ticket: 0, topic: topic(), body });
                self.tell(0, Event::Tick);
                self.tell(1, Event::Tick);
                self.write();
            }
        }
    }

    #[test]
    fn over_the_limit_the_achieved_rate_is_the_limit() {
        let mut pair = Pair::new();
        // What may be sent at once at the beginning is gone by then.
        pair.pass(5);
        let (delivered, verdicts) = (pair.delivered, pair.verdicts.len());
        pair.pass(60);
        let achieved = pair.delivered - delivered;
        // A heartbeat a second and a word that the publisher takes part count as frames, too.
        assert!((RATE * 60 * 99 / 100..=RATE * 60).contains(&achieved), "{achieved} in a minute");
        let later = &pair.verdicts[verdicts..];
        let count = |wanted: Verdict| later.iter().filter(|verdict| **verdict == wanted).count();
        let (accepted, busy) = (count(Verdict::Accepted), count(Verdict::Busy));
        println!("{achieved} delivered, {accepted} accepted, {busy} refused");
        assert_eq!((count(Verdict::LocalOnly), pair.gaps, pair.refused), (0, 0, 0));
        assert!(accepted.abs_diff(achieved as usize) <= 512, "{accepted} accepted, {achieved} delivered");
        assert!(busy.abs_diff(30_000) <= 600, "{busy} were refused before they were published");
    }
}
