//! The reader of a session: from bytes to messages, and where each goes.

use std::{
    fmt, io,
    pin::pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    time::Duration,
};

use bytes::BytesMut;
use oap::{Decoder, ErrorCode, Fault, Features, Frame, Incoming, Message, Parser, Topic, WantedPattern};
use quota::{Bucket, Rate};
use ron_transport::wire::Wire;
use tokio::io::{AsyncReadExt, ReadHalf};
use types::Moment;

use super::{
    close::CloseReason,
    conn::{Conn, TaskOf},
};
use crate::gossip::{Inbound, refuse_while_shedding};

/// Room for a peer that is quiet.
const SMALL: usize = 2 * 1024;
/// Room for one that is not.
const LARGE: usize = 64 * 1024;

/// After so many bytes at once it is the turn of other sessions.
const MUCH: usize = 16 * 1024;

/// A peer that has sent more than it may is not read from for so long: to read and refuse as fast as it can send would take a core.
const OVER_RATE_PAUSE: Duration = Duration::from_millis(20);

/// Frames a second that are not taken out of a peer's rate because they answer what this node has sent: more than an honest peer has
/// reason to send. Beyond it nothing is refused, but the peer is read from with pauses.
const ANSWERS: u32 = 50_000;

/// What a peer is told that sends more than it may.
const OVER_RATE: &str = "more frames than the rate told in HELLO";

/// Reads until the peer or this node ends the session.
pub(super) async fn run(conn: Arc<Conn>, mut wire: ReadHalf<Wire>, _alive: TaskOf) {
    let reason = {
        let mut ending = pin!(conn.ending.heard());
        tokio::select! {
            biased;
            _ = &mut ending => None,
            reason = read_all(&conn, &mut wire) => Some(reason),
        }
    };
    if let Some(reason) = reason {
        conn.close(reason);
    }
    // Closing a socket with unread bytes makes the system send a reset, which could overtake what was just said.
    tokio::select! {
        biased;
        () = conn.abandoned() => {}
        () = read_away(&mut wire) => {}
    }
}

async fn read_away(wire: &mut ReadHalf<Wire>) {
    let mut nothing = [0; 1024];
    while matches!(wire.read(&mut nothing).await, Ok(1..)) {}
}

async fn read_all(conn: &Arc<Conn>, wire: &mut ReadHalf<Wire>) -> CloseReason {
    let clock = conn.shared().clock;
    let decoder = conn.agreed.decoder();
    let mut buffer = BytesMut::new();
    let inbound = conn.shared().gossip.inbound();
    let mut reader = Reader {
        conn,
        parser: Parser::default(),
        inbound,
        rate: None,
        answers: (Bucket::default(), Rate::per_second(ANSWERS, ANSWERS).ok()),
        refused: None,
        is_over_rate: false,
    };
    let mut room = SMALL;
    loop {
        let missing = match decoder.missing(&buffer) {
            Ok(missing) => missing,
            Err(error) => return reader.violated(error.code(), &error),
        };
        buffer.reserve(room.max(missing));
        let read = match wire.read_buf(&mut buffer).await {
            Ok(0) => return reader.ended(!buffer.is_empty()),
            Ok(read) => read,
            Err(error) => return broken(&error, !buffer.is_empty()),
        };
        let now = clock.now();
        conn.activity.heard(now, true);
        reader.rate = conn.shared().settings.load().rate;
        room = next_room(room, read);
        if let Err(reason) = reader.take_all(decoder, &mut buffer, now).await {
            return reason;
        }
        if buffer.is_empty() {
            conn.activity.heard(now, false);
            if room == SMALL {
                buffer = BytesMut::new();
            }
        }
        reader.hand_over(now, !buffer.is_empty()).await;
        if std::mem::take(&mut reader.is_over_rate) {
            tokio::time::sleep(OVER_RATE_PAUSE).await;
        } else if read >= MUCH {
            // The runtime would let a peer that never pauses read a hundred times in a row.
            tokio::task::yield_now().await;
        }
    }
}

/// A peer that fills its room gets more, one that does not gives it back.
fn next_room(room: usize, read: usize) -> usize {
    if read >= room {
        (room * 4).min(LARGE)
    } else if read < room / 8 {
        SMALL
    } else {
        room
    }
}

/// What the reader knows besides its buffer.
struct Reader<'a> {
    conn: &'a Arc<Conn>,
    parser: Parser,
    inbound: Inbound,
    rate: Option<Rate>,
    /// The frames that are not taken out of that rate, and how many of them are read without a pause.
    answers: (Bucket, Option<Rate>),
    /// Why the peer will close, if it said so.
    refused: Option<ErrorCode>,
    /// Something was refused because the peer sends more than it may.
    is_over_rate: bool,
}

impl Reader<'_> {
    /// Brings all frames that have come whole to where they belong.
    ///
    /// Not cancel safe: dropped, what was gathered is lost with the session.
    async fn take_all(
        &mut self,
        decoder: Decoder,
        buffer: &mut BytesMut,
        now: Moment,
    ) -> Result<(), CloseReason> {
        while let Some(raw) = decoder.next(buffer).map_err(|error| self.violated(error.code(), &error))? {
            let frame = self.parser.parse(raw).map_err(|error| self.violated(error.code(), &error))?;
            self.conn.activity.began_anew(now);
            self.take(frame, now)?;
            if self.inbound.is_full() {
                self.hand_over(now, !buffer.is_empty()).await;
            }
        }
        Ok(())
    }

    /// Hands over what was gathered. However long that takes is this node's doing, so the time of a frame that has begun,
    /// which is `partial`, starts again.
    ///
    /// Not cancel safe: dropped, what was gathered is lost with the session.
    async fn hand_over(&mut self, now: Moment, partial: bool) {
        if self.inbound.is_empty() {
            return;
        }
        let activity = &self.conn.activity;
        activity.heard(now, false);
        self.inbound.hand_over(self.conn).await;
        if partial {
            activity.began_anew(self.conn.shared().clock.now());
        }
    }

    /// Brings a frame to where it belongs.
    fn take(&mut self, frame: Frame, now: Moment) -> Result<(), CloseReason> {
        let conn = self.conn;
        conn.frames_in.fetch_add(1, Relaxed);
        if is_gossip(&frame.message) {
            return self.gossip(frame.message, now);
        }
        let incoming = conn.with_session(|session| session.receive(frame));
        if incoming.as_ref().is_ok_and(is_answer) {
            self.count_answer(now);
        }
        match incoming {
            Err(violation) => Err(self.violated(violation.code, &violation)),
            Ok(Incoming::Ping(number)) => {
                if self.charge(now) {
                    conn.control(&Frame::connection(Message::Pong(number)));
                }
                Ok(())
            }
            Ok(Incoming::Goaway { goaway, closed }) => {
                conn.going.store(true, Relaxed);
                conn.shared().objects.closed(conn, &closed, goaway.reason);
                tracing::debug!(peer = %conn.peer, reason = goaway.reason.name(), "a peer goes away");
                Ok(())
            }
            Ok(Incoming::Fault(fault)) => {
                self.fault(fault);
                Ok(())
            }
            Ok(Incoming::Pong(_) | Incoming::Late | Incoming::Hello(_) | Incoming::Gossip(_)) => Ok(()),
            Ok(stream) => {
                if let Incoming::Start { stream: number, .. } | Incoming::Refuse { stream: number, .. } =
                    stream
                    && let Err(wait) = self.check_rate(now)
                {
                    conn.shared().metrics.rejected("quota");
                    conn.shared().objects.refuse(conn, number, millis(wait));
                    return Ok(());
                }
                conn.shared().objects.receive(conn, stream);
                Ok(())
            }
        }
    }

    /// The peer did not take a publication, or says why it will close.
    fn fault(&mut self, fault: Fault) {
        match &fault.about {
            Some(id) => {
                let shard = self.inbound.shard_of(&id.topic);
                self.inbound.add(shard, Message::Error(fault));
            }
            None => self.refused = Some(fault.code),
        }
    }

    fn gossip(&mut self, message: Message, now: Moment) -> Result<(), CloseReason> {
        if let Err(wait) = self.check_rate(now) {
            self.refuse_for_rate(message, wait);
        } else if matches!(message, Message::Publish(_)) && self.conn.shared().sheds_publications() {
            refuse_while_shedding(self.conn, message);
        } else if let Message::Patterns(list) = message {
            return self.patterns(&list);
        } else if let Some(topic) = topic_of(&message) {
            let shard = self.inbound.shard_of(topic);
            self.inbound.add(shard, message);
        }
        Ok(())
    }

    /// Patterns may mean topics of every shard.
    fn patterns(&mut self, list: &[WantedPattern]) -> Result<(), CloseReason> {
        if !self.conn.agreed.features.has(Features::PATTERNS) {
            return Err(self.violated(ErrorCode::UnknownKind, &"patterns were not agreed on"));
        }
        for shard in 0..self.conn.shared().gossip.shards() {
            self.inbound.add(shard, Message::Patterns(list.to_vec()));
        }
        Ok(())
    }

    fn check_rate(&mut self, now: Moment) -> Result<(), Duration> {
        let Some(rate) = &self.rate else { return Ok(()) };
        let checked = self.conn.rate.check(rate, now);
        self.is_over_rate |= checked.is_err();
        checked.map(drop).map_err(|exhausted| exhausted.wait)
    }

    /// Counts a frame that is not taken out of the peer's rate.
    fn count_answer(&mut self, now: Moment) {
        let (bucket, rate) = &self.answers;
        self.is_over_rate |= rate.as_ref().is_some_and(|rate| bucket.check(rate, now).is_err());
    }

    /// Takes a frame out of the peer's rate; false if there is none left, and the peer was told.
    fn charge(&mut self, now: Moment) -> bool {
        let Err(wait) = self.check_rate(now) else { return true };
        self.conn.shared().metrics.rejected("quota");
        self.conn.refuse(ErrorCode::Quota, OVER_RATE, None, millis(wait));
        false
    }

    fn refuse_for_rate(&self, message: Message, wait: Duration) {
        let shared = self.conn.shared();
        shared.metrics.rejected("quota");
        if let Message::Publish(publication) = message {
            shared.losses.add(publication.id.clone(), "peer_rate", Some(self.conn.peer), "quota");
            self.conn.refuse(ErrorCode::Quota, OVER_RATE, Some(publication.id), millis(wait));
        }
    }

    fn violated(&self, code: ErrorCode, what: &dyn fmt::Display) -> CloseReason {
        self.conn.shared().metrics.rejected(reject_label(code));
        tracing::warn!(peer = %self.conn.peer, code = code.name(), "a peer broke the protocol: {what}");
        self.conn.dismiss(code, &what.to_string());
        CloseReason::Refused(code)
    }

    fn ended(&self, in_the_middle: bool) -> CloseReason {
        if in_the_middle {
            self.conn.shared().metrics.rejected("truncated");
        }
        self.refused.map_or(CloseReason::PeerClosed, CloseReason::RefusedByPeer)
    }
}

fn broken(error: &io::Error, in_the_middle: bool) -> CloseReason {
    // Over TLS an end without notice looks like this, and is one all the same where no frame is cut.
    let is_end = error.kind() == io::ErrorKind::UnexpectedEof && !in_the_middle;
    if is_end { CloseReason::PeerClosed } else { CloseReason::Broken }
}

/// Returns the metric label of a protocol violation.
pub(crate) fn reject_label(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::FrameCap | ErrorCode::TooLarge => "size",
        ErrorCode::UnknownKind => "unknown_kind",
        ErrorCode::OutOfOrder => "out_of_order",
        ErrorCode::Version => "version",
        ErrorCode::Checksum => "checksum",
        ErrorCode::Unauth => "unauth",
        ErrorCode::Forbidden => "forbidden",
        ErrorCode::Quota => "quota",
        ErrorCode::Busy => "busy",
        ErrorCode::Limit => "limit",
        ErrorCode::Mismatch => "mismatch",
        _ => "malformed",
    }
}

const fn is_gossip(message: &Message) -> bool {
    matches!(
        message,
        Message::Publish(_)
            | Message::IHave(_)
            | Message::IWant(_)
            | Message::Graft(_)
            | Message::Prune(_)
            | Message::Subscribe(_)
            | Message::Unsubscribe(_)
            | Message::Accepted(_)
            | Message::Patterns(_)
    )
}

/// Whether what came is an answer to what this node has sent, or nothing: it is neither taken out of the peer's rate, nor bounded by
/// the credit of a stream.
const fn is_answer(incoming: &Incoming) -> bool {
    !matches!(
        incoming,
        Incoming::Ping(_) | Incoming::Start { .. } | Incoming::Refuse { .. } | Incoming::Data { .. }
    )
}

/// The topic that a gossip message is about.
fn topic_of(message: &Message) -> Option<&Topic> {
    match message {
        Message::Publish(publication) => Some(&publication.id.topic),
        Message::IHave(ihave) => Some(&ihave.topic),
        Message::IWant(iwant) => Some(&iwant.topic),
        Message::Graft(graft) => Some(&graft.topic),
        Message::Accepted(accepted) => Some(&accepted.topic),
        Message::Prune(topic) | Message::Subscribe(topic) | Message::Unsubscribe(topic) => Some(topic),
        _ => None,
    }
}

fn millis(wait: Duration) -> u32 {
    // Rounded up: who comes back too early is refused again.
    u32::try_from(wait.as_millis().saturating_add(1)).unwrap_or(u32::MAX)
}
