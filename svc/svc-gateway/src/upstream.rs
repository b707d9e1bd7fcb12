//! A group of servers, as one core sends requests to it.
//!
//! ```text
//! send → choose a server → an idle connection of this core, else a new one, else the next that comes free → response
//!          ↑                                                                                              │
//!          └── another server at once if nothing was sent; after a wait, within the budget, if it may be repeated
//! ```

mod budget;
mod causes;
mod exchange;
mod group;
mod health;
mod metrics;
mod retry;
mod roster;
mod seats;
mod server;
mod status;
mod sticky;
mod streams;
mod watch;

use std::{
    sync::{Arc, Weak, atomic::AtomicU32},
    time::Duration,
};

use arc_swap::ArcSwap;
use fairq::StreamLimit;
use http::HeaderValue;
use ron_kernel::{blame::Failure, breaker::Ticket, supervisor::Children};
use ron_transport::{Request, Response, UploadWatch, deadline};
use types::{Deadline, Moment, Reason, Refusal};

use crate::pool::Pool;
use metrics::FailureKind;
use roster::{Asker, Choice, Roster, Tried};
use server::{Judged, Standing, Verdict};

pub(crate) use exchange::ABANDONED;
pub(crate) use group::{Group, Groups, Upstreams};
pub(crate) use metrics::{METRICS, MirrorMetrics, MirrorOutcome};
pub(crate) use seats::Seat;
pub(crate) use server::Server;
pub(crate) use sticky::Affinity;
pub(crate) use streams::{Occupancy, STREAMS_RETRY};
pub(crate) use watch::{UPSTREAM_WATCH, WAITING_QUEUE, start};

pub(crate) use retry::Held;
use retry::{Trip, Upload};

/// A group of servers, as one core sees it.
#[derive(Debug)]
pub(crate) struct Upstream {
    group: Arc<Group>,
    roster: Arc<ArcSwap<Roster>>,
    /// The whole timeout, as it is told to servers. Each core has its own, because clones share a count.
    whole_timeout: HeaderValue,
}

/// How a request went on its way.
#[derive(Debug, Default)]
pub(crate) struct Sent {
    /// Where the request belongs, which is told before it is sent; `None` if it may go anywhere.
    pub(crate) affinity: Option<Affinity>,
    /// Whether it is a copy, which is sent once; told before it is sent.
    pub(crate) is_copy: bool,
    /// How often a server was asked.
    pub(crate) tries: u32,
    /// The pool of the connection of the last try; dangling if there was none.
    pub(crate) pool: Weak<Pool>,
}

/// Why a try gave no response.
#[derive(Debug)]
enum Fault {
    /// Nothing was sent: the request, which is whole, can go anywhere else.
    Unreached,
    /// The server refused the request unprocessed, because the connection ends or takes fewer requests than was known.
    Displaced,
    /// Nothing was sent, and there is nowhere else to go for now.
    Exhausted,
    /// The server broke off, or answered nonsense.
    Broken,
    /// The deadline passed while waiting for a connection, or for an answer.
    Late(Late),
    /// No server is to be asked; it is of no use to try again.
    Refused(Refusal),
}

/// The deadline that has passed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Late {
    /// The server used up the upstream's own timeout, or most of it. This alone counts against the server.
    Server,
    /// The request's own deadline passed first: what its client or its route allows is shorter, or other tries took the
    /// time.
    Request,
    /// The request waited for one of our own `max_conns` connections.
    Connection,
}

impl Upstream {
    /// The group as seen by a core.
    pub(crate) fn new(group: &Arc<Group>, core: usize) -> Self {
        Self {
            roster: group.roster(core),
            whole_timeout: deadline::in_millis(group.config.timeout.as_duration()),
            group: Arc::clone(group),
        }
    }

    /// Whether its servers may speak HTTP/2, over which requests have trailers. Servers of HTTP/1.1 get none.
    pub(crate) fn may_get_trailers(&self) -> bool {
        self.group.may_share
    }

    /// Sends a request to one of the servers and waits for the response's head: until `limit`, which is the client's
    /// [wish](deadline::wished) too, and no longer than the upstream's timeout. `now` is the present moment, as the caller
    /// has read it. With `upload`, the request's body is still on its way, and the timeout counts only while it is the server's
    /// turn; without, all the time. If nobody waits for the answer any more, the slot in `holding` is kept until the server has
    /// finished, or the upstream's `finish_abandoned` has passed. What the request occupies, `stream` or else what it holds, is
    /// told which server was chosen, and takes a place there if it is a stream. `sent` tells afterwards how it went.
    ///
    /// The request is taken where it is: it is large, and is handed down through many futures, each of which would copy
    /// it. It is of no use afterwards.
    ///
    /// Cancel safe: dropping the future closes the connection in use, at once or when the server has finished with it.
    pub(crate) async fn send(
        &self,
        request: &mut Request,
        upload: Option<UploadWatch>,
        (holding, stream): (Held<'_>, Option<&Occupancy>),
        (now, limit): (Moment, Deadline),
        sent: &mut Sent,
    ) -> Result<Response, Refusal> {
        let timeout = self.group.config.timeout.as_duration();
        let whole = Deadline::within(now, timeout);
        let deadline = limit.tightened(whole);
        let value = if deadline == whole {
            self.whole_timeout.clone()
        } else {
            deadline::in_millis(deadline.remaining(now))
        };
        deadline::tell(request.headers_mut(), value, deadline.remaining(now));
        let upload = upload.map(|watch| Upload { watch, timeout, limit });
        let own_timeout = (deadline == whole).then_some(timeout);
        let mut trip = Trip::new(now, deadline, own_timeout, upload, (holding, stream));
        (trip.affinity, trip.is_copy) = (sent.affinity, sent.is_copy);
        let answer = self.deliver(request, &mut trip).await;
        (sent.tries, sent.pool) = (trip.tries, trip.pool);
        answer
    }

    /// The upstream's own timeout.
    pub(crate) fn timeout(&self) -> Duration {
        self.group.config.timeout.as_duration()
    }

    /// The most copies of requests that are on their way here: half of the connections to a server are left to requests.
    pub(crate) fn room_for_copies(&self) -> u32 {
        u32::try_from(self.group.config.max_conns / 2).unwrap_or(u32::MAX).max(1)
    }

    /// What copies of requests need that are sent here: how many are on their way, what runs them, and what counts them.
    pub(crate) fn mirrored(&self) -> (Arc<AtomicU32>, Children, MirrorMetrics) {
        let tools = &self.group.tools;
        let metrics = tools.families.mirrored(&self.group.name);
        (Arc::clone(&self.group.mirrored), tools.mirrored.clone(), metrics)
    }

    /// Sends the request to one server.
    async fn attempt(&self, request: &mut Request, trip: &mut Trip<'_>) -> Result<Response, Fault> {
        let mut choice = self.choose(trip);
        if std::mem::take(&mut trip.waited) && matches!(choice, Choice::AllTried) {
            trip.tried = Tried::default();
            choice = self.choose(trip);
        }
        let (pool, ticket) = match choice {
            Choice::Go(pool, ticket) => (pool, ticket),
            Choice::AllTried => return Err(trip.full.map_or(Fault::Exhausted, |limit| self.full(limit))),
            Choice::NoneBefore(wait) => {
                let what = format!("no server of upstream `{}` is to be asked now", self.group.name);
                return Err(Fault::Refused(Refusal::new(Reason::BadGateway, what).retry_after(wait)));
            }
        };
        if let Some(occupancy) = retry::occupancy(trip.stream, trip.holding.as_ref()) {
            occupancy.moves_to(&pool).map_err(|limit| self.full(limit))?;
        }
        trip.pool = Arc::downgrade(&pool);
        trip.attempt_began = trip.now;
        let outcome = self.exchange(&pool, request, trip).await;
        self.book(&pool, ticket, &outcome, trip);
        outcome
    }

    fn choose(&self, trip: &mut Trip<'_>) -> Choice {
        let asker = match self.group.config.health.is_on() {
            true => Asker::ChecksTest(trip.client),
            false => Asker::MayTest(trip.client),
        };
        let roster = self.roster.load();
        // Before the choice, lest the test of an open breaker be spent on a stream that is not sent.
        if let Some(occupancy) = retry::occupancy(trip.stream, trip.holding.as_ref()) {
            trip.full = roster.leave_out(&mut trip.tried, |pool| occupancy.fits(pool));
        }
        if let Some(affinity) = trip.affinity
            && let Some(choice) = roster.belongs(affinity, &mut trip.tried, asker, trip.now)
        {
            return choice;
        }
        roster.choose(&mut trip.tried, asker, trip.now, fastrand::u64(..))
    }

    /// No server has room for one more stream.
    fn full(&self, limit: StreamLimit) -> Fault {
        Fault::Refused(self.group.tools.families.stream_refusals().refusal(limit, &self.group.name))
    }

    /// Books what a try says of its server.
    fn book(&self, pool: &Pool, ticket: Ticket, outcome: &Result<Response, Fault>, trip: &mut Trip<'_>) {
        let (verdict, kind) = match outcome {
            Ok(response) => match Verdict::of_status(response.status()) {
                Verdict::Failed => (Verdict::Failed, Some(FailureKind::Status)),
                other => (other, None),
            },
            Err(Fault::Unreached | Fault::Displaced) => (Verdict::Failed, Some(FailureKind::Connect)),
            Err(Fault::Broken) => (Verdict::Failed, Some(FailureKind::Broken)),
            Err(Fault::Late(Late::Server)) => (Verdict::Failed, Some(FailureKind::Late)),
            // Our own limits and those of the request.
            Err(Fault::Late(Late::Request | Late::Connection) | Fault::Refused(_) | Fault::Exhausted) => {
                return;
            }
        };
        trip.now = self.group.tools.clock.now();
        if let Some(kind) = kind {
            self.group.metrics.failed(kind);
        }
        if verdict != Verdict::Good {
            self.tell_failure(&pool.server, outcome.as_ref().ok(), trip);
        }
        if verdict == Verdict::Good {
            pool.server.answered(trip.client, trip.now);
        } else {
            let failure =
                if kind == Some(FailureKind::Connect) { Failure::Unreached } else { Failure::Answer };
            match pool.server.judge(verdict, failure, trip.client, trip.now) {
                Judged::Counts => {}
                Judged::SaysNothing => return,
                Judged::TestAgain => return pool.server.test_again(ticket),
            }
        }
        if let Some(state) = pool.server.record(ticket, verdict, trip.now) {
            pool.server.tell_breaker(state);
        }
        if verdict != Verdict::Good && self.eject(pool, trip.now) {
            pool.server.tell_ejected();
        }
    }

    /// Leaves the server out if it has done badly and not too many are left out already.
    fn eject(&self, pool: &Pool, now: Moment) -> bool {
        let config = &self.group.config.eject;
        pool.server.eject_if_bad(config, now, || {
            let roster = self.roster.load();
            let is_out = |pool: &&Arc<Pool>| pool.server.standing(now) == Standing::Ejected;
            let out = roster.pools().iter().filter(is_out).count();
            out < config.most(roster.pools().len())
        })
    }
}
