//! How many connections a server has over all cores, and who waits for one when it may have no more.
//!
//! A waiter gets whatever comes free first: the right to open a connection, or an idle connection of any core. Clients take
//! turns, and a newcomer does not overtake those who wait: `max_conns` may be far below the number of slots, and one client with
//! many slots must not have all connections to itself. Few connections are opened at once: many servers accept only a few at a
//! time, and do not answer the others for a second.

use std::sync::{
    Arc, Weak,
    atomic::{AtomicUsize, Ordering},
};

use ron_kernel::{
    blame::ClientId,
    lock::{Ranked, RankedGuard},
    metrics::QueueMetrics,
};
use tokio::sync::oneshot;

use super::server::Server;
use crate::{
    locks,
    pool::Idle,
    turns::{Entered, Turns},
};

/// How many connections to one server are opened at once.
const MAX_OPENING: usize = 8;

/// The result of waiting for a connection.
#[derive(Debug)]
pub(crate) enum Grant {
    /// The request may open a connection.
    Open(Seat),
    /// The request may use this idle connection.
    Use(Idle),
}

/// The queue is full, and the client has its share of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Full;

/// How one that waits is told what it gets, or that it made room for another client.
type Waiter = oneshot::Sender<Result<Grant, Full>>;
/// Where it hears of it. The other end goes with the server.
pub(crate) type Waits = oneshot::Receiver<Result<Grant, Full>>;

/// The connections of one server.
#[derive(Debug)]
pub(crate) struct Seats {
    open: AtomicUsize,
    /// Of these, connections that are being opened.
    opening: AtomicUsize,
    max_open: AtomicUsize,
    /// As long as the queue; read without its lock.
    waiting: AtomicUsize,
    /// Nothing is locked or dropped under it.
    queue: Ranked<Turns<ClientId, Waiter>>,
    metrics: QueueMetrics,
}

impl Seats {
    pub(super) fn new(max_open: usize, max_waiting: usize, metrics: QueueMetrics) -> Self {
        Self {
            open: AtomicUsize::new(0),
            opening: AtomicUsize::new(0),
            max_open: AtomicUsize::new(max_open),
            waiting: AtomicUsize::new(0),
            queue: Ranked::new(&locks::UPSTREAM_SEATS, Turns::new(max_waiting)),
            metrics,
        }
    }

    /// Other limits from now on. Connections above a lower one are closed only as they end.
    pub(super) fn set_limits(&self, max_open: usize, max_waiting: usize) {
        self.max_open.store(max_open, Ordering::Relaxed);
        self.queue().set_capacity(max_waiting);
    }

    /// Connections that there may be.
    pub(super) fn max_open(&self) -> usize {
        self.max_open.load(Ordering::Relaxed)
    }

    /// Connections there are, or that are being opened.
    pub(crate) fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Whether somebody waits, so that a newcomer has to as well.
    pub(crate) fn is_crowded(&self) -> bool {
        self.waiting() > 0
    }

    /// Returns the number of waiting requests.
    pub(crate) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::SeqCst)
    }

    fn try_open(&self) -> bool {
        let max_open = self.max_open.load(Ordering::Relaxed);
        // With `SeqCst` here and around `waiting`, one of a leaver and a newcomer always sees the other.
        let take = |places: &AtomicUsize, most| {
            let one_more = |taken: usize| (taken < most).then_some(taken + 1);
            places.fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_more).is_ok()
        };
        if !take(&self.opening, MAX_OPENING) {
            return false;
        }
        let may_open = take(&self.open, max_open);
        if !may_open {
            self.opening.fetch_sub(1, Ordering::SeqCst);
        }
        may_open
    }

    fn enqueue(&self, client: ClientId) -> Result<Waits, Full> {
        let (sender, receiver) = oneshot::channel();
        let mut queue = self.queue();
        queue.forget_if_full(Waiter::is_closed);
        let entered = queue.enter(client, sender);
        self.waiting.store(queue.len(), Ordering::SeqCst);
        drop(queue);
        if !matches!(entered, Entered::Waits) {
            self.metrics.busy.inc();
            self.metrics.dropped.inc();
        }
        match entered {
            Entered::Waits => Ok(receiver),
            Entered::InPlaceOf(other) => {
                // It has gone if it does not hear it.
                let _ = other.send(Err(Full));
                Ok(receiver)
            }
            Entered::Refused(_) => Err(Full),
        }
    }

    fn next_waiter(&self) -> Option<Waiter> {
        let mut queue = self.queue();
        let next = queue.next();
        self.waiting.store(queue.len(), Ordering::SeqCst);
        next
    }

    fn queue(&self) -> RankedGuard<'_, Turns<ClientId, Waiter>> {
        self.queue.lock()
    }
}

impl Server {
    /// The right to open one more connection, if there is one and nobody waits for it.
    pub(crate) fn seat(self: &Arc<Self>) -> Option<Seat> {
        (!self.seats.is_crowded() && self.seats.try_open()).then(|| self.new_seat())
    }

    /// Takes a place in the queue for a connection, for a request of this client.
    ///
    /// # Errors
    /// [`Full`], also later if it has to make room for another client.
    pub(crate) fn wait(self: &Arc<Self>, client: ClientId) -> Result<Waits, Full> {
        let receiver = self.seats.enqueue(client)?;
        // What came free between the look and the queueing was offered to nobody.
        self.serve_waiters();
        Ok(receiver)
    }

    /// Gives what is free to those who wait, if anybody does.
    fn serve_those_who_wait(self: &Arc<Self>) {
        if self.seats.is_crowded() {
            self.serve_waiters();
        }
    }

    /// Gives what is free to those who wait.
    pub(crate) fn serve_waiters(self: &Arc<Self>) {
        while self.seats.is_crowded() {
            let Some(mut grant) = self.free_grant() else { return };
            loop {
                let Some(waiter) = self.seats.next_waiter() else { return give_back(grant) };
                match waiter.send(Ok(grant)) {
                    // It has gone; the next one, then.
                    Err(Ok(unclaimed)) => grant = unclaimed,
                    Ok(()) | Err(Err(Full)) => break,
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
        Seat { server: Arc::downgrade(self), is_opening: true }
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
pub(crate) struct Seat {
    server: Weak<Server>,
    /// Whether the connection is being opened.
    is_opening: bool,
}

impl Seat {
    /// The connection is open.
    #[must_use]
    pub(crate) fn opened(mut self) -> Self {
        if let Some(server) = self.server.upgrade() {
            self.ends_opening(&server);
            server.serve_those_who_wait();
        }
        self
    }

    fn ends_opening(&mut self, server: &Server) {
        if std::mem::take(&mut self.is_opening) {
            server.seats.opening.fetch_sub(1, Ordering::SeqCst);
        }
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let Some(server) = self.server.upgrade() else { return };
        self.ends_opening(&server);
        server.ended();
        server.seats.open.fetch_sub(1, Ordering::SeqCst);
        server.serve_those_who_wait();
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::UpstreamConfig;

    fn server(max_conns: usize, max_waiting: usize) -> Arc<Server> {
        let config = UpstreamConfig { max_conns, max_waiting, ..UpstreamConfig::default() };
        Arc::new(Server::example(1, &config))
    }

    fn granted(receiver: &mut Waits) -> bool {
        receiver.try_recv().is_ok_and(|grant| {
            // Kept, as whoever gets it would.
            std::mem::forget(grant.unwrap());
            true
        })
    }

    #[test]
    fn a_seat_that_comes_free_goes_to_who_waits_longest_and_not_to_a_newcomer() {
        let server = server(1, 2);
        let seat = server.seat().unwrap();
        assert!(server.seat().is_none());
        let (mut first, mut second) = (server.wait(1).unwrap(), server.wait(1).unwrap());
        assert_eq!(server.wait(1).unwrap_err(), Full);
        drop(seat);
        assert!(server.seat().is_none(), "a newcomer does not overtake");
        assert!(granted(&mut first) && !granted(&mut second));
        assert_eq!((server.seats.open(), server.seats.waiting()), (1, 1));
    }

    #[test]
    fn clients_take_turns_and_one_that_has_the_most_waiting_makes_room_for_another() {
        let server = server(1, 4);
        let seat = server.seat().unwrap();
        let mut crowd: Vec<Waits> = (0..4).map(|_| server.wait(1).unwrap()).collect();
        assert_eq!(server.wait(1).unwrap_err(), Full);
        let mut other = server.wait(2).unwrap();
        assert!(matches!(crowd[3].try_recv(), Ok(Err(Full))), "the last of the crowd made room");
        assert_eq!(server.seats.waiting(), 4);
        drop(seat);
        let Ok(Ok(Grant::Open(seat))) = crowd[0].try_recv() else { panic!("the first waits longest") };
        drop(seat);
        assert!(granted(&mut other) && !granted(&mut crowd[1]), "it is the other client's turn");
    }

    #[test]
    fn a_waiter_that_has_gone_is_passed_over_and_its_place_can_be_taken() {
        let server = server(1, 2);
        let seat = server.seat().unwrap();
        let gone = server.wait(1).unwrap();
        let mut second = server.wait(1).unwrap();
        drop(gone);
        let mut third = server.wait(1).unwrap();
        drop(seat);
        assert!(granted(&mut second) && !granted(&mut third));
    }

    #[test]
    fn a_grant_that_is_not_taken_comes_free_again() {
        let server = server(1, 2);
        let seat = server.seat().unwrap();
        let (untaken, mut next) = (server.wait(1).unwrap(), server.wait(1).unwrap());
        drop(seat);
        drop(untaken);
        assert!(granted(&mut next));
        assert_eq!(server.seats.open(), 1);
    }

    #[test]
    fn what_was_free_before_anybody_waited_is_given_at_once() {
        let server = server(1, 1);
        let mut waiter = server.wait(1).unwrap();
        assert!(granted(&mut waiter));
    }

    #[test]
    fn few_connections_are_opened_at_once_and_the_next_when_one_is_open() {
        let server = server(100, 100);
        let mut opening: Vec<_> = std::iter::from_fn(|| server.seat()).collect();
        assert_eq!(opening.len(), MAX_OPENING);
        let (mut first, mut second) = (server.wait(1).unwrap(), server.wait(1).unwrap());
        assert!(!granted(&mut first));
        let open = opening.pop().unwrap().opened();
        assert!(granted(&mut first) && !granted(&mut second), "one is open");
        drop(opening.pop());
        assert!(granted(&mut second), "one was not opened");
        assert_eq!(server.seats.open(), MAX_OPENING + 1);
        drop(open);
        assert_eq!(server.seats.open(), MAX_OPENING);
    }

    #[test]
    fn no_thread_waits_while_a_seat_is_free_and_never_are_there_more_than_allowed() {
        const SEATS: usize = 3;
        let server = server(SEATS, 1_000);
        std::thread::scope(|s| {
            for _ in 0..8 {
                s.spawn(|| {
                    for _ in 0..2_000 {
                        let seat = server.seat().unwrap_or_else(|| {
                            match server.wait(1).unwrap().blocking_recv().unwrap().unwrap() {
                                Grant::Open(seat) => seat,
                                Grant::Use(_) => panic!("there are no connections"),
                            }
                        });
                        assert!(server.seats.open() <= SEATS);
                        drop(seat);
                    }
                });
            }
        });
        assert_eq!((server.seats.open(), server.seats.waiting(), server.busy()), (0, 0, 0));
    }
}
