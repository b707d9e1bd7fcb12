//! Places, queues and circuit breakers by origin, so that one origin that hangs delays no other.
//!
//! Each entry of the list of origins has a queue of its own and at most so many fills at once; there are as many workers as
//! all of them together may have. A worker takes the next job of the next origin that has a place. The last places of an
//! origin are for clients that have none there, so that two clients with slow objects do not keep others from it. If there is
//! no place, a fill that nobody wants any more makes way for one that waits. An origin that keeps failing is left alone for a while: its
//! breaker opens.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, VecDeque},
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ron_kernel::{
    Clock, Fault, Scope,
    blame::{self, Blame, ClientId},
    breaker::{Admit, Breaker, BreakerPolicy, Outcome, State, Ticket},
    failures::{FailureLog, LastFailure},
    lock::Ranked,
    queue::{Receiver, SendError, Sender},
};
use tokio::sync::Notify;
use types::{Reason, Refusal};

use super::{
    OriginUrl,
    worker::{Job, WORK},
};
use crate::locks;

/// The maximum number of workers.
const WORKERS_MAX: usize = 512;

/// One place in so many of an origin is for clients that have none there.
const KEPT_FOR_NEWCOMERS: usize = 4;

/// When an origin is left alone: after five fills in a row that it did not answer.
const BREAKER: BreakerPolicy = BreakerPolicy {
    error_permille: 0,
    window: Duration::from_secs(10),
    min_samples: 10,
    consecutive: 5,
    open_for: Duration::from_secs(1),
    open_cap: Duration::from_secs(30),
};

/// The lanes of all origins, by their entries' names.
#[derive(Debug)]
pub(super) struct Lanes {
    scope: Scope,
    clock: Clock,
    /// At most one for each entry of the list.
    all: Ranked<All>,
    /// Told of jobs and of places that have become free.
    wake: Notify,
    /// The total number of workers.
    workers: usize,
    /// Fills of one origin at once, as configured.
    most: usize,
    /// Fills of one origin at once, such that all origins together have no more than there are workers.
    places: AtomicUsize,
}

#[derive(Debug, Default)]
struct All {
    lanes: BTreeMap<Arc<str>, Lane>,
    /// Which lane was served last: the next one is looked at first.
    last: Option<Arc<str>>,
    closed: bool,
}

#[derive(Debug)]
struct Lane {
    work: Sender<Job>,
    jobs: Receiver<Job>,
    /// Jobs that had their turn while only places for other clients were left. No more than the queue has room for.
    passed_over: VecDeque<Job>,
    busy: usize,
    /// How many of the places each client has.
    clients: HashMap<ClientId, usize>,
    /// Fills that have been given up for others, and have not left their places yet.
    leaving: usize,
    health: Arc<Health>,
}

/// The health of an origin.
#[derive(Debug)]
struct Health {
    breaker: Breaker,
    /// Whether failures are the origin's, or what one client makes of it.
    blame: Blame,
    /// The recent failures of the origin.
    failures: FailureLog,
}

/// An origin and how its last fill failed.
#[derive(Clone, Debug)]
pub(crate) struct OriginState {
    /// The entry of the list of origins.
    pub(crate) name: Arc<str>,
    /// Whether it is left alone for the moment.
    pub(crate) is_open: bool,
    /// Why a fill failed last; `None` if none has.
    pub(crate) last: Option<LastFailure>,
}

/// One of the places of an origin, until it is dropped.
#[derive(Debug)]
pub(super) struct Place {
    lanes: Arc<Lanes>,
    name: Arc<str>,
    client: ClientId,
    /// Whether it is about to be left for another fill.
    is_left: AtomicBool,
}

impl Place {
    /// Whether the fill should make way for one that waits: its origin has no place left, and no other fill makes way for that
    /// one already. The caller gives the fill up if so.
    pub(super) fn makes_way(&self) -> bool {
        let mut all = self.lanes.all.lock();
        let Some(lane) = all.lanes.get_mut(&self.name) else { return false };
        let is_full = lane.busy >= self.lanes.places.load(Ordering::Relaxed) || !lane.passed_over.is_empty();
        if !is_full || lane.waiting() <= lane.leaving || self.is_left.swap(true, Ordering::Relaxed) {
            return false;
        }
        lane.leaving += 1;
        true
    }
}

impl Lanes {
    /// Lanes for these origins, each with at most `most` fills at once.
    pub(super) fn new(scope: &Scope, names: &BTreeSet<Arc<str>>, most: usize) -> Arc<Self> {
        let workers = most.saturating_mul(names.len().max(1)).min(WORKERS_MAX.max(most));
        let lanes = Self {
            scope: scope.clone(),
            clock: scope.clock(),
            all: Ranked::new(&locks::FILL_LANES, All::default()),
            wake: Notify::new(),
            workers,
            most,
            places: AtomicUsize::new(most),
        };
        lanes.share_among(names.len());
        names.iter().for_each(|name| lanes.with_lane(name, |_| ()));
        Arc::new(lanes)
    }

    /// How many workers there are to be.
    pub(super) fn workers(&self) -> usize {
        self.workers
    }

    /// Follows another list of origins.
    pub(super) fn follow(&self, names: &BTreeSet<Arc<str>>) {
        self.share_among(names.len());
        self.all
            .lock()
            .lanes
            .retain(|name, lane| names.contains(name) || lane.busy > 0 || lane.waiting() > 0);
    }

    fn share_among(&self, origins: usize) {
        let share = (self.workers / origins.max(1)).clamp(1, self.most);
        self.places.store(share, Ordering::Relaxed);
    }

    /// Asks whether an origin may be asked for a client. An origin that fails some clients alone is left alone by those alone:
    /// others are let pass without a ticket. An open breaker is tested by one client after the other.
    ///
    /// # Errors
    /// It is left alone for the moment.
    pub(super) fn admit(&self, url: &OriginUrl, client: ClientId) -> Result<Option<Ticket>, Refusal> {
        let (health, now) = (self.health(url), self.clock.now());
        let is_open = health.breaker.state() != State::Closed;
        let retry_after = if is_open && !health.blame.may_test(client, now) {
            BREAKER.open_for
        } else {
            match health.breaker.check(now) {
                Admit::Pass(ticket) | Admit::Probe(ticket) => return Ok(Some(ticket)),
                Admit::Open { retry_after } => retry_after,
            }
        };
        if !health.blame.concerns(client) {
            return Ok(None);
        }
        let what = "the origin keeps failing, and is left alone for a moment";
        Err(Refusal::new(Reason::BadGateway, what).retry_after(retry_after))
    }

    /// Hears what came of asking an origin for a client: how it failed, if it did. What some clients make of an origin does not
    /// count, and neither does their test of an open breaker while others have not tested it.
    pub(super) fn record(
        &self,
        url: &OriginUrl,
        ticket: Option<Ticket>,
        failure: Option<blame::Failure>,
        client: ClientId,
    ) {
        let (health, now) = (self.health(url), self.clock.now());
        let Some(failure) = failure else {
            health.blame.answered(client, now);
            if let Some(ticket) = ticket
                && let Some(State::Closed) = health.breaker.record(ticket, Outcome::Success, now)
            {
                tracing::warn!(origin = &*url.rule().name, "its breaker closed");
            }
            return;
        };
        let (counts, is_test) =
            (health.blame.counts(failure, client, now), health.breaker.state() != State::Closed);
        let Some(ticket) = ticket else { return };
        if is_test && failure == blame::Failure::Answer && !health.blame.test_decides(client, now) {
            health.breaker.retry_probe(ticket);
        } else if (is_test || counts)
            && let Some(State::Open) = health.breaker.record(ticket, Outcome::Failure, now)
        {
            let last = health.failures.last();
            let cause = last.as_ref().map_or("unknown", |last| &*last.cause);
            tracing::warn!(origin = &*url.rule().name, cause, "its breaker opened");
        }
    }

    /// Keeps why a fill failed, and writes it to the log unless it was written a moment ago.
    pub(super) fn failed(&self, url: &OriginUrl, cause: &str) {
        let (health, now) = (self.health(url), self.clock.now());
        if let Some(unwritten) = health.failures.note(cause, now) {
            tracing::warn!(origin = &*url.rule().name, cause, unwritten, "an origin returned no object");
        }
    }

    /// The origins that were asked so far.
    pub(super) fn states(&self) -> Vec<OriginState> {
        let state = |(name, lane): (&Arc<str>, &Lane)| OriginState {
            name: Arc::clone(name),
            is_open: lane.health.breaker.state() != State::Closed,
            last: lane.health.failures.last(),
        };
        self.all.lock().lanes.iter().map(state).collect()
    }

    fn health(&self, url: &OriginUrl) -> Arc<Health> {
        self.with_lane(&url.rule().name, |lane| Arc::clone(&lane.health))
    }

    /// Hands a job in. If too many wait for its origin, or the node is stopping, those who wait for it are told so.
    pub(super) fn push(&self, job: Job) {
        let name = Arc::clone(&job.url.rule().name);
        let refused = self.with_lane(&name, |lane| match lane.work.try_send(job) {
            Ok(()) => None,
            Err(SendError::Busy(job)) => Some((job, Fault::Busy)),
            Err(SendError::Closed(job)) => Some((job, Fault::Canceled)),
        });
        match refused {
            None => self.wake.notify_one(),
            Some((job, fault)) => job.refuse(fault.into()),
        }
    }

    /// Another client wants what is being fetched from an origin: a job that was passed over may begin for it.
    pub(super) fn look_again(&self, url: &OriginUrl) {
        let all = self.all.lock();
        if all.lanes.get(&url.rule().name).is_some_and(|lane| !lane.passed_over.is_empty()) {
            self.wake.notify_one();
        }
    }

    /// Waits for the next job whose origin has a place; `None` once the lanes are closed.
    ///
    /// Cancel safe.
    pub(super) async fn next(self: &Arc<Self>) -> Option<Job> {
        loop {
            let woken = self.wake.notified();
            tokio::pin!(woken);
            // From now on, so that nothing is missed between the look and the wait.
            woken.as_mut().enable();
            if let Some(taken) = self.take(self.places.load(Ordering::Relaxed)) {
                // There may be more, and others to do it.
                self.wake.notify_one();
                return Some(taken);
            }
            if self.all.lock().closed {
                return None;
            }
            woken.await;
        }
    }

    /// Takes a job that waits, wherever there is one.
    pub(super) fn take_any(self: &Arc<Self>) -> Option<Job> {
        self.take(usize::MAX)
    }

    /// Lets no more jobs in. Those that wait can be taken still.
    pub(super) fn close(&self) {
        let mut all = self.all.lock();
        all.closed = true;
        all.lanes.values_mut().for_each(|lane| lane.jobs.close());
        drop(all);
        self.wake.notify_waiters();
    }

    /// Takes a job of an origin that has fewer than `places` fills, beginning behind the one that was served last.
    fn take(self: &Arc<Self>, places: usize) -> Option<Job> {
        let mut all = self.all.lock();
        let all = &mut *all;
        let behind = |name: &Arc<str>| all.last.as_ref().is_some_and(|last| name > last);
        let mut names: Vec<Arc<str>> = all.lanes.keys().filter(|name| behind(name)).cloned().collect();
        names.extend(all.lanes.keys().filter(|name| !behind(name)).cloned());
        for name in names {
            let Some(lane) = all.lanes.get_mut(&name) else { continue };
            if lane.busy >= places {
                continue;
            }
            if let Some(mut job) = lane.next(places) {
                let client = job.client;
                lane.busy += 1;
                *lane.clients.entry(client).or_default() += 1;
                all.last = Some(Arc::clone(&name));
                let (lanes, is_left) = (Arc::clone(self), AtomicBool::new(false));
                job.place = Some(Place { lanes, name, client, is_left });
                return Some(job);
            }
        }
        None
    }

    /// Looks at the lane of an origin, which is made if there is none.
    fn with_lane<T>(&self, name: &Arc<str>, look: impl FnOnce(&Lane) -> T) -> T {
        let mut all = self.all.lock();
        if let Some(lane) = all.lanes.get(name) {
            return look(lane);
        }
        let (work, mut jobs) = self.scope.queue(&WORK, "/edge/assets");
        if all.closed {
            jobs.close();
        }
        let health = Health {
            breaker: Breaker::new(BREAKER),
            blame: Blame::default(),
            failures: FailureLog::default(),
        };
        let (passed_over, clients) = (VecDeque::new(), HashMap::new());
        let lane = Lane { work, jobs, passed_over, busy: 0, clients, leaving: 0, health: Arc::new(health) };
        look(all.lanes.entry(Arc::clone(name)).or_insert(lane))
    }
}

impl Lane {
    /// How many jobs wait for a place.
    fn waiting(&self) -> usize {
        self.work.len() + self.passed_over.len()
    }

    /// The next job that one of the places is for.
    fn next(&mut self, places: usize) -> Option<Job> {
        if let Some(at) = self.passed_over.iter().position(|job| self.may_begin(job, places)) {
            return self.passed_over.remove(at);
        }
        while let Some(job) = self.jobs.try_recv() {
            if self.passed_over.len() >= WORK.capacity || self.may_begin(&job, places) {
                return Some(job);
            }
            self.passed_over.push_back(job);
        }
        None
    }

    /// Whether there is a place for those who want what a job brings. The last ones are for clients that have none.
    fn may_begin(&self, job: &Job, places: usize) -> bool {
        let free = places.saturating_sub(self.busy);
        let has_none = |client| client == blame::NOBODY || !self.clients.contains_key(&client);
        free > places / KEPT_FOR_NEWCOMERS || job.flight.is_asked_for_by(has_none)
    }

    /// A fill of a client has left its place.
    fn leave(&mut self, client: ClientId) {
        self.busy = self.busy.saturating_sub(1);
        if let Some(count) = self.clients.get_mut(&client) {
            *count -= 1;
            if *count == 0 {
                self.clients.remove(&client);
            }
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        if let Some(lane) = self.lanes.all.lock().lanes.get_mut(&self.name) {
            lane.leave(self.client);
            lane.leaving = lane.leaving.saturating_sub(usize::from(*self.is_left.get_mut()));
        }
        self.lanes.wake.notify_one();
    }
}
