//! How many connections a server has over all cores, and who waits for one when it may have no more.
//!
//! A waiter gets whatever comes free first: the right to open a connection, or an idle connection of any core. The queue
//! is first come, first served, and a newcomer does not overtake it.

use std::{
    collections::VecDeque,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use ron_kernel::metrics::QueueMetrics;
use tokio::sync::oneshot;

use super::server::Server;
use crate::pool::Idle;

/// What a waiter gets.
#[derive(Debug)]
pub(crate) enum Grant {
    /// It may open a connection.
    Open(Seat),
    /// It may use this one.
    Use(Idle),
}

/// The queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// The connections of one server.
#[derive(Debug)]
pub(crate) struct Seats {
    open: AtomicUsize,
    max_open: AtomicUsize,
    /// As long as the queue; read without its lock.
    waiting: AtomicUsize,
    max_waiting: AtomicUsize,
    /// Nothing is locked or dropped under it.
    queue: Mutex<VecDeque<oneshot::Sender<Grant>>>,
    metrics: QueueMetrics,
}

impl Seats {
    pub(super) fn new(max_open: usize, max_waiting: usize, metrics: QueueMetrics) -> Self {
        Self {
            open: AtomicUsize::new(0),
            max_open: AtomicUsize::new(max_open),
            waiting: AtomicUsize::new(0),
            max_waiting: AtomicUsize::new(max_waiting),
            queue: Mutex::default(),
            metrics,
        }
    }

    /// Other limits from now on. Connections above a lower one are closed only as they end.
    pub(super) fn set_limits(&self, max_open: usize, max_waiting: usize) {
        self.max_open.store(max_open, Ordering::Relaxed);
        self.max_waiting.store(max_waiting, Ordering::Relaxed);
    }

    /// Connections there are, or that are being opened.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether somebody waits, so that a newcomer has to as well.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting() > 0
    }

    /// How many wait.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    fn try_open(&self) -> bool {
        let max_open = self.max_open.load(Ordering::Relaxed);
        // With `SeqCst` here and around `waiting`, one of a leaver and a newcomer always sees the other.
        let one_more = |open: usize| (open < max_open).then_some(open + 1);
        self.open.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
    }

    fn enqueue(&self) -> Result<oneshot::Receiver<Grant>, Full> {
        let mut queue = self.queue();
        let max_waiting = self.max_waiting.load(Ordering::Relaxed);
        if queue.len() >= max_waiting {
            queue.retain(|waiter| !waiter.is_closed());
        }
        let room = queue.len() < max_waiting;
        let receiver = room.then(|| {
            let (sender, receiver) = oneshot::channel();
            queue.push_back(sender);
            receiver
        });
        self.waiting.store(queue.len(), Ordering::SeqCst);
        drop(queue);
        receiver.ok_or_else(|| {
            self.metrics.busy.inc();
            self.metrics.dropped.inc();
            Full
        })
    }

    fn next_waiter(&self) -> Option<oneshot::Sender<Grant>> {
        let mut queue = self.queue();
        let next = queue.pop_front();
        self.waiting.store(queue.len(), Ordering::SeqCst);
        next
    }

    fn queue(&self) -> MutexGuard<'_, VecDeque<oneshot::Sender<Grant>>> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Server {
    /// The right to open one more connection, if there is one and nobody waits for it.
    pub(crate) fn seat(self: &Arc<Self>) -> Option<Seat> {
        (!self.seats.is_crowded() && self.seats.try_open()).then(|| self.new_seat())
    }

    /// Takes a place in the queue for a connection.
    ///
    /// # Errors
    /// [`Full`].
    pub(crate) fn wait(self: &Arc<Self>) -> Result<oneshot::Receiver<Grant>, Full> {
        let receiver = self.seats.enqueue()?;
        // What came free between the look and the queueing was offered to nobody.
        self.serve_waiters();
        Ok(receiver)
    }

    /// Gives what is free to those who wait.
    pub(crate) fn serve_waiters(self: &Arc<Self>) {
        while self.seats.is_crowded() {
            let Some(mut grant) = self.free_grant() else { return };
            loop {
                let Some(waiter) = self.seats.next_waiter() else { return give_back(grant) };
                match waiter.send(grant) {
                    Ok(()) => break,
                    // It has gone; the next one, then.
                    Err(unclaimed) => grant = unclaimed,
                }
            }
        }
    }

    fn free_grant(self: &Arc<Self>) -> Option<Grant> {
        let idle = self.idle_anywhere().map(Grant::Use);
        idle.or_else(|| self.seats.try_open().then(|| Grant::Open(self.new_seat())))
    }

    fn new_seat(self: &Arc<Self>) -> Seat {
        self.began();
        Seat(Arc::downgrade(self))
    }
}

fn give_back(grant: Grant) {
    match grant {
        // Freed by being dropped.
        Grant::Open(seat) => drop(seat),
        Grant::Use(idle) => idle.go_home(),
    }
}

/// A connection's place among its server's connections; it comes free when this is dropped.
#[derive(Debug)]
pub(crate) struct Seat(Weak<Server>);

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(server) = self.0.upgrade() else { return };
        server.ended();
        server.seats.open.fetch_sub(1, Ordering::SeqCst);
        if server.seats.is_crowded() {
            server.serve_waiters();
        }
    }
}
