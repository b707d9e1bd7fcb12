//! The streams of a connection: who may open how many, what may be said on them, and how many bytes.
//!
//! A stream carries one object in one direction. Its opener asked for it (GET, and receives) or offers it (PUT, and
//! sends). DATA flows within the credit of its receiver, then the sender says END. After a GET that closes the stream;
//! after a PUT the receiver still has to say END, which means that the object is stored. ERROR closes it at any time.

use std::collections::BTreeMap;

use crate::{
    code::ErrorCode,
    hello::{Agreed, CREDIT_MAX, Features},
    message::Start,
    session::Violation,
};

/// Which end of the connection: streams opened by the dialer have odd numbers, the acceptor's even ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// The end that called.
    Dialer,
    /// The end that was called.
    Acceptor,
}

/// Why no stream can be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    /// As many are open as the other side allows.
    #[error("as many streams are open as the other side allows")]
    Full,
    /// The other side is going away.
    #[error("the other side is going away")]
    Goaway,
    /// The two have not agreed on objects.
    #[error("the other side has nothing to do with objects")]
    NoObjects,
    /// All stream numbers have been used.
    #[error("all numbers of streams have been used")]
    Exhausted,
}

/// Why nothing can be sent on a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SendError {
    /// It is not open, or was closed by the other side meanwhile.
    #[error("the stream is closed")]
    Closed,
    /// We are not the one who sends on it, or have sent END.
    #[error("the stream's object is not ours to send")]
    Direction,
    /// The other side has not given enough credit yet.
    #[error("the stream's credit is used up")]
    Credit,
}

/// What a frame from the other side does to a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    /// It is for the stream's owner.
    Taken,
    /// The stream was closed before; what was on its way is dropped.
    Late,
}

/// The streams that are open, at most as many as both HELLOs allow together.
#[derive(Debug)]
pub struct Streams {
    side: Side,
    agreed: Agreed,
    open: BTreeMap<u32, Stream>,
    /// The next stream of ours; zero once all have been used.
    next: u32,
    /// The last stream that the other side opened.
    last_theirs: u32,
    /// We said GOAWAY: the peer's streams beyond this one are refused.
    goaway: Option<u32>,
    /// The other side said GOAWAY.
    is_unwelcome: bool,
}

#[derive(Clone, Copy, Debug)]
struct Stream {
    is_ours: bool,
    phase: Phase,
    /// What the sender may still send.
    credit: u64,
    /// What was received and used, and is not acknowledged yet.
    used: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// This node sends DATA.
    Sending,
    /// The peer sends DATA.
    Receiving,
    /// We sent all of a PUT, and wait for its END.
    AwaitingEnd,
    /// They sent all of a PUT, and wait for our END.
    Owing,
}

impl Streams {
    /// No stream is open.
    #[must_use]
    pub fn new(side: Side, agreed: Agreed) -> Self {
        let next = if side == Side::Dialer { 1 } else { 2 };
        let open = BTreeMap::new();
        Self { side, agreed, open, next, last_theirs: 0, goaway: None, is_unwelcome: false }
    }

    /// Returns the number of open streams.
    #[must_use]
    pub fn len(&self) -> usize {
        self.open.len()
    }

    /// Returns true if no stream is open.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    /// Returns the number of open streams that the other side has opened.
    #[must_use]
    pub fn opened_there(&self) -> usize {
        self.count(false)
    }

    /// Opens a stream of ours; START is to be sent on it.
    ///
    /// # Errors
    /// [`OpenError`].
    pub fn open(&mut self, start: &Start) -> Result<u32, OpenError> {
        if self.is_unwelcome {
            return Err(OpenError::Goaway);
        }
        if !self.agreed.features.has(Features::OBJECTS) {
            return Err(OpenError::NoObjects);
        }
        if self.count(true) >= self.agreed.our_streams.into() {
            return Err(OpenError::Full);
        }
        let number = self.next;
        if number == 0 {
            return Err(OpenError::Exhausted);
        }
        self.next = number.checked_add(2).unwrap_or_default();
        self.insert(number, true, start);
        Ok(number)
    }

    /// The other side opens a stream; [`Err`] within says why it is to be refused with ERROR on the stream.
    pub(crate) fn on_start(
        &mut self,
        number: u32,
        start: &Start,
    ) -> Result<Result<(), ErrorCode>, Violation> {
        if self.is_ours(number) || number <= self.last_theirs {
            return Err(Violation::new(ErrorCode::OutOfOrder, "a stream that has been used"));
        }
        self.last_theirs = number;
        if !self.agreed.features.has(Features::OBJECTS) {
            return Ok(Err(ErrorCode::Forbidden));
        }
        if self.goaway.is_some_and(|last| number > last) {
            return Ok(Err(ErrorCode::Draining));
        }
        if self.count(false) >= self.agreed.their_streams.into() {
            return Ok(Err(ErrorCode::Limit));
        }
        self.insert(number, false, start);
        Ok(Ok(()))
    }

    /// DATA arrived that costs so much.
    pub(crate) fn on_data(&mut self, number: u32, cost: u64) -> Result<Effect, Violation> {
        let Some(stream) = self.find(number)? else { return Ok(Effect::Late) };
        if stream.phase != Phase::Receiving {
            return Err(Violation::new(ErrorCode::OutOfOrder, "DATA from the receiving side"));
        }
        let left = stream.credit.checked_sub(cost);
        stream.credit = left.ok_or(Violation::new(ErrorCode::Limit, "DATA beyond its credit"))?;
        Ok(Effect::Taken)
    }

    /// Handles an END frame.
    pub(crate) fn on_end(&mut self, number: u32) -> Result<Effect, Violation> {
        let Some(stream) = self.find(number)? else { return Ok(Effect::Late) };
        match (stream.phase, stream.is_ours) {
            (Phase::Receiving, false) => stream.phase = Phase::Owing,
            (Phase::Receiving, true) | (Phase::AwaitingEnd, _) => {
                self.open.remove(&number);
            }
            (Phase::Sending | Phase::Owing, _) => {
                return Err(Violation::new(ErrorCode::OutOfOrder, "END from the wrong side"));
            }
        }
        Ok(Effect::Taken)
    }

    /// Handles an ACK frame.
    pub(crate) fn on_ack(&mut self, number: u32, credit: u32) -> Result<Effect, Violation> {
        let Some(stream) = self.find(number)? else { return Ok(Effect::Late) };
        match stream.phase {
            Phase::Sending => stream.credit += u64::from(credit),
            // It was on its way when we said END.
            Phase::AwaitingEnd => return Ok(Effect::Late),
            Phase::Receiving | Phase::Owing => {
                return Err(Violation::new(ErrorCode::OutOfOrder, "ACK from the sending side"));
            }
        }
        if stream.credit > CREDIT_MAX.into() {
            return Err(Violation::new(ErrorCode::Limit, "more credit than there may be"));
        }
        Ok(Effect::Taken)
    }

    /// Handles an ERROR frame for a stream.
    pub(crate) fn on_error(&mut self, number: u32) -> Result<Effect, Violation> {
        self.find(number)?;
        Ok(if self.open.remove(&number).is_some() { Effect::Taken } else { Effect::Late })
    }

    /// GOAWAY arrived: the other side serves none of ours beyond `last`. Those are closed, and returned.
    pub(crate) fn on_goaway(&mut self, last: u32) -> Vec<u32> {
        self.is_unwelcome = true;
        let mut closed = Vec::new();
        self.open.retain(|number, stream| {
            let is_served = !stream.is_ours || *number <= last;
            closed.extend((!is_served).then_some(*number));
            is_served
        });
        closed
    }

    /// How many bytes of DATA may be sent.
    #[must_use]
    pub fn sendable(&self, number: u32) -> Option<u64> {
        let stream = self.open.get(&number)?;
        (stream.phase == Phase::Sending).then_some(stream.credit)
    }

    /// Returns true if the stream is open.
    #[must_use]
    pub fn is_open(&self, number: u32) -> bool {
        self.open.contains_key(&number)
    }

    /// Takes the cost of a DATA frame that is going to be sent.
    ///
    /// # Errors
    /// [`SendError`]; nothing was taken.
    pub fn send_data(&mut self, number: u32, cost: u64) -> Result<(), SendError> {
        let stream = self.open.get_mut(&number).ok_or(SendError::Closed)?;
        if stream.phase != Phase::Sending {
            return Err(SendError::Direction);
        }
        stream.credit = stream.credit.checked_sub(cost).ok_or(SendError::Credit)?;
        Ok(())
    }

    /// END is going to be sent: all of our object was, or theirs is stored.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send_end(&mut self, number: u32) -> Result<(), SendError> {
        let stream = self.open.get_mut(&number).ok_or(SendError::Closed)?;
        match (stream.phase, stream.is_ours) {
            (Phase::Sending, true) => stream.phase = Phase::AwaitingEnd,
            (Phase::Sending, false) | (Phase::Owing, _) => {
                self.open.remove(&number);
            }
            (Phase::Receiving | Phase::AwaitingEnd, _) => return Err(SendError::Direction),
        }
        Ok(())
    }

    /// What was received has been used: the credit to give with an ACK, once it is worth one.
    pub fn used(&mut self, number: u32, cost: u64) -> Option<u32> {
        let threshold = u64::from(self.agreed.receive_credit / 2);
        let stream = self.open.get_mut(&number).filter(|stream| stream.phase == Phase::Receiving)?;
        stream.used += cost;
        if stream.used < threshold {
            return None;
        }
        stream.credit += stream.used;
        u32::try_from(std::mem::take(&mut stream.used)).ok()
    }

    /// Closes the stream; ERROR is to be sent on it. Whether it was open.
    pub fn reset(&mut self, number: u32) -> bool {
        self.open.remove(&number).is_some()
    }

    /// We are going away: the last stream of the peer that is served, for GOAWAY.
    pub fn goaway(&mut self) -> u32 {
        *self.goaway.get_or_insert(self.last_theirs)
    }

    fn insert(&mut self, number: u32, is_ours: bool, start: &Start) {
        let is_sender = is_ours == matches!(start, Start::Put { .. });
        let (phase, credit) = match is_sender {
            true => (Phase::Sending, self.agreed.send_credit),
            false => (Phase::Receiving, self.agreed.receive_credit),
        };
        self.open.insert(number, Stream { is_ours, phase, credit: credit.into(), used: 0 });
    }

    /// The stream if it is open, nothing if it was.
    fn find(&mut self, number: u32) -> Result<Option<&mut Stream>, Violation> {
        let was_opened = match self.is_ours(number) {
            true => self.next == 0 || number < self.next,
            false => number <= self.last_theirs,
        };
        if !was_opened {
            return Err(Violation::new(ErrorCode::OutOfOrder, "a stream that was never opened"));
        }
        Ok(self.open.get_mut(&number))
    }

    fn is_ours(&self, number: u32) -> bool {
        (number % 2 == 1) == (self.side == Side::Dialer)
    }

    fn count(&self, ours: bool) -> usize {
        self.open.values().filter(|stream| stream.is_ours == ours).count()
    }
}
