//! What waits to be written to one peer: three lanes, a bound on each, and one writer that takes from them.
//!
//! * Control goes first. It is answers to what the peer sent, so a peer that fills this lane does not read, and is given up.
//!   What this node asks of the peer takes half of the lane at most.
//! * Publications wait, at most so many frames and bytes, and topics take turns. A full lane refuses the newcomer, or gives
//!   the oldest up.
//! * Bulk is never queued: there is a place for one chunk, and whoever has more waits until it is taken.
//!
//! The writer takes as many frames at a time as there are permits, publications and bulk in the ratio 4 : 1 by bytes. Once
//! the box is closed nothing comes in; the writer still gets what is there, or nobody does ([`Outbox::kill`]).
//!
//! Built of one lock that is held for a few steps and never across a wake-up, so that a model checker can try every order.

use std::{
    fmt, mem,
    task::{Context, Poll, Waker},
};

use gossip::{Lanes, Next, Pushed, WhenFull};
use lock::{Guard, Lock};

/// Something that can be written.
pub trait Parcel {
    /// Returns the size in bytes.
    fn len(&self) -> usize;

    /// Returns true if the size is zero.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Among which it takes turns: its topic.
    fn flow(&self) -> u64;
}

/// The bounds of a box.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Frames the writer takes at a time; at least one.
    pub permits: usize,
    /// Number of queued publications.
    pub queued: usize,
    /// Bytes of publications that wait.
    pub queued_bytes: usize,
    /// Control frames that wait.
    pub control: usize,
    /// Whether a full lane gives its oldest up for the newcomer.
    pub drop_oldest: bool,
}

/// A frame that did not get in, or had to go, and why.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refused<F> {
    /// The lane is full.
    Busy(F),
    /// It made way for a newer one.
    Displaced(F),
    /// The box is closed.
    Closed(F),
}

/// What the writer took from the queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Frames to be written.
    Some,
    /// Nothing, and nothing will come.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Open {
    /// Frames come in and go out.
    Yes,
    /// None comes in; those that are there go out.
    Finishing,
    /// None comes in or goes out.
    No,
}

/// The box of one connection.
pub struct Outbox<F> {
    limits: Limits,
    state: Lock<State<F>>,
}

struct State<F> {
    open: Open,
    lanes: Lanes<u64, F>,
    /// Bytes of publications that wait.
    gossip_bytes: usize,
    bulk: Option<F>,
    /// Whether there is a writer, or was one.
    is_claimed: bool,
    /// The writer, while it waits.
    writer: Option<Waker>,
    /// Those who wait for bulk's place.
    bulk_waits: Vec<Waker>,
}

impl<F: Parcel> Outbox<F> {
    /// Makes an empty send queue.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        let when_full = if limits.drop_oldest { WhenFull::DropOldest } else { WhenFull::RejectNew };
        let state = State {
            open: Open::Yes,
            lanes: Lanes::new(limits.control, limits.queued, when_full),
            gossip_bytes: 0,
            bulk: None,
            is_claimed: false,
            writer: None,
            bulk_waits: Vec::new(),
        };
        Self { limits, state: lock::new(state) }
    }

    /// Puts a control frame in.
    ///
    /// # Errors
    /// [`Refused`]; a full lane means that the peer does not read.
    pub fn control(&self, frame: F) -> Result<(), Refused<F>> {
        let mut state = self.lock();
        if state.open != Open::Yes {
            return Err(Refused::Closed(frame));
        }
        let pushed = state.lanes.push_control(frame);
        wake(state);
        pushed.map_err(Refused::Busy)
    }

    /// Returns true if the control lane is at least half full.
    #[must_use]
    pub fn has_much_control(&self) -> bool {
        self.lock().lanes.control_len() >= self.limits.control / 2
    }

    /// Puts publications in, in order, and empties `frames`. Gives what did not get in or had to go to `refused`.
    pub fn gossip(&self, frames: &mut Vec<F>, mut refused: impl FnMut(Refused<F>)) {
        // What has to go is told of with no lock held.
        let mut out = Vec::new();
        {
            let mut state = self.lock();
            for frame in frames.drain(..) {
                self.put(&mut state, frame, &mut out);
            }
            wake(state);
        }
        out.into_iter().for_each(&mut refused);
    }

    fn put(&self, state: &mut State<F>, frame: F, out: &mut Vec<Refused<F>>) {
        if state.open != Open::Yes {
            return out.push(Refused::Closed(frame));
        }
        let len = frame.len();
        if state.gossip_bytes > 0 && state.gossip_bytes + len > self.limits.queued_bytes {
            return out.push(Refused::Busy(frame));
        }
        let (flow, bytes) = (frame.flow(), u32::try_from(len).unwrap_or(u32::MAX));
        match state.lanes.push_gossip(&flow, frame, bytes) {
            Pushed::Queued => state.gossip_bytes += len,
            Pushed::Shed(oldest) => {
                state.gossip_bytes = state.gossip_bytes + len - oldest.len();
                out.push(Refused::Displaced(oldest));
            }
            Pushed::Refused(frame) => out.push(Refused::Busy(frame)),
        }
    }

    /// Resolves once the place for bulk data is free. The first caller takes it with [`Outbox::bulk`].
    pub fn poll_bulk(&self, cx: &mut Context<'_>) -> Poll<()> {
        let mut state = self.lock();
        if state.bulk.is_none() || state.open != Open::Yes {
            return Poll::Ready(());
        }
        if !state.bulk_waits.iter().any(|waits| waits.will_wake(cx.waker())) {
            state.bulk_waits.push(cx.waker().clone());
        }
        Poll::Pending
    }

    /// Puts a chunk into bulk's place.
    ///
    /// # Errors
    /// [`Refused`]; busy means that another was faster.
    pub fn bulk(&self, frame: F) -> Result<(), Refused<F>> {
        let mut state = self.lock();
        if state.open != Open::Yes {
            return Err(Refused::Closed(frame));
        }
        if state.bulk.is_some() {
            return Err(Refused::Busy(frame));
        }
        state.bulk = Some(frame);
        wake(state);
        Ok(())
    }

    /// Makes the caller the writer of the connection, for good.
    ///
    /// # Panics
    /// If there is a writer already: the frames of two would run into each other.
    pub fn claim(&self) {
        let had_writer = mem::replace(&mut self.lock().is_claimed, true);
        assert!(!had_writer, "a second writer on one connection");
    }

    /// The writer's next frames, which are added to `batch`; at most as many as there are permits.
    pub fn poll_take(&self, cx: &mut Context<'_>, batch: &mut Vec<F>) -> Poll<Taken> {
        let (taken, waits) = {
            let mut state = self.lock();
            // A box that was killed is empty.
            let taken = state.take(self.limits.permits, batch);
            if !taken {
                if state.open != Open::Yes {
                    return Poll::Ready(Taken::End);
                }
                if !state.writer.as_ref().is_some_and(|writer| writer.will_wake(cx.waker())) {
                    state.writer = Some(cx.waker().clone());
                }
            }
            let waits = if state.bulk.is_none() { mem::take(&mut state.bulk_waits) } else { Vec::new() };
            (taken, waits)
        };
        waits.into_iter().for_each(Waker::wake);
        if taken { Poll::Ready(Taken::Some) } else { Poll::Pending }
    }

    /// Takes nothing in any more; the writer gets what is there, and then the end.
    pub fn finish(&self) {
        let mut state = self.lock();
        if state.open == Open::Yes {
            state.open = Open::Finishing;
        }
        let waits = mem::take(&mut state.bulk_waits);
        wake(state);
        waits.into_iter().for_each(Waker::wake);
    }

    /// Takes nothing in any more and gives nothing out; what is there comes back, to be accounted for.
    pub fn kill(&self) -> Vec<F> {
        let mut state = self.lock();
        state.open = Open::No;
        state.gossip_bytes = 0;
        let mut left: Vec<F> = state.lanes.drain().collect();
        left.extend(state.bulk.take());
        let waits = mem::take(&mut state.bulk_waits);
        wake(state);
        waits.into_iter().for_each(Waker::wake);
        left
    }

    /// Returns the number of queued publications.
    #[must_use]
    pub fn queued(&self) -> usize {
        self.lock().lanes.gossip_len()
    }

    /// What it does leaves the state sound at each step, so a panic elsewhere does not spoil it.
    fn lock(&self) -> Guard<'_, State<F>> {
        lock::take(&self.state)
    }
}

impl<F: Parcel> State<F> {
    fn take(&mut self, permits: usize, batch: &mut Vec<F>) -> bool {
        let before = batch.len();
        while batch.len() - before < permits {
            match self.lanes.next(self.bulk.is_some()) {
                Some(Next::Control(frame)) => batch.push(frame),
                Some(Next::Gossip(frame)) => {
                    self.gossip_bytes -= frame.len();
                    batch.push(frame);
                }
                Some(Next::Bulk) => {
                    let bytes = self.bulk.as_ref().map_or(0, Parcel::len);
                    self.lanes.bulk_sent(u32::try_from(bytes).unwrap_or(u32::MAX));
                    batch.extend(self.bulk.take());
                }
                None => break,
            }
        }
        batch.len() > before
    }
}

/// Lets go of the lock, and then wakes the writer.
fn wake<F>(mut state: Guard<'_, State<F>>) {
    let writer = state.writer.take();
    drop(state);
    if let Some(writer) = writer {
        writer.wake();
    }
}

/// The lock as the service has it, with its rank.
#[cfg(not(loom))]
mod lock {
    pub(super) use ron_kernel::lock::{Ranked as Lock, RankedGuard as Guard};

    pub(super) fn new<T>(value: T) -> Lock<T> {
        Lock::new(&crate::locks::OUTBOX, value)
    }

    pub(super) fn take<T>(lock: &Lock<T>) -> Guard<'_, T> {
        lock.lock()
    }
}

/// The lock as the model checker has it.
#[cfg(loom)]
mod lock {
    pub(super) use loom::sync::{Mutex as Lock, MutexGuard as Guard};

    pub(super) fn new<T>(value: T) -> Lock<T> {
        Lock::new(value)
    }

    pub(super) fn take<T>(lock: &Lock<T>) -> Guard<'_, T> {
        lock.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }
}

/// Says nothing of the frames, which may be secret.
impl<F> fmt::Debug for Outbox<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("limits", &self.limits).finish_non_exhaustive()
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    struct Item;

    impl Parcel for Item {
        fn len(&self) -> usize {
            1
        }

        fn flow(&self) -> u64 {
            0
        }
    }

    fn outbox() -> Outbox<Item> {
        Outbox::new(Limits { permits: 1, queued: 1, queued_bytes: 1, control: 1, drop_oldest: false })
    }

    #[test]
    #[should_panic(expected = "a second writer on one connection")]
    fn a_second_writer_is_an_assertion_failure() {
        let outbox = outbox();
        outbox.claim();
        outbox.claim();
    }

    #[test]
    fn each_box_has_a_writer_of_its_own() {
        outbox().claim();
        outbox().claim();
    }
}
