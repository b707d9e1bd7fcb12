//! From tries to an answer: which failures are tried again, when, and what the client hears in the end.

use std::{
    pin::Pin,
    sync::{Arc, Weak},
    time::Duration,
};

use fairq::StreamLimit;
use http::header::UPGRADE;
use http_body::Body as _;
use ron_kernel::{Clock, blame::ClientId};
use ron_transport::{Request, Response, UploadWatch, client::LargeHead, deadline};
use types::{Deadline, Moment, Reason, Refusal};

use super::{Affinity, Fault, Late, Occupancy, Upstream, roster::Tried};
use crate::{admission::Slot, cache::Written, pool::Pool, transfer::Holding};

/// When to come back if too many wait for a connection.
pub(super) const WHEN_FULL: Duration = Duration::from_secs(1);

/// Servers tried one after another without a wait.
const MOST_MOVES: u32 = 64;

/// A request on its way: what its tries share.
#[derive(Debug)]
pub(super) struct Trip<'a> {
    /// What the request holds; `None` while a try may have to let go of it.
    pub(super) holding: Option<Held<'a>>,
    /// Whose request it is; 0 if that is not known, as for a part of a view.
    pub(super) client: ClientId,
    /// The present moment, as it was last read.
    pub(super) now: Moment,
    pub(super) deadline: Deadline,
    /// The upstream's own timeout, if `deadline` is its end; `None` if the request has to be answered sooner.
    own_timeout: Option<Duration>,
    /// Time at which the current try began.
    pub(super) attempt_began: Moment,
    pub(super) tried: Tried,
    /// Where the request belongs; `None` if it may go anywhere.
    pub(super) affinity: Option<Affinity>,
    /// Whether it is a copy, which is sent once.
    pub(super) is_copy: bool,
    /// What a stream occupies; `None` for anything else.
    pub(super) stream: Option<&'a Occupancy>,
    /// Why a server was left out that has as many streams as allowed; `None` if there is none.
    pub(super) full: Option<StreamLimit>,
    /// The pool of the connection of the present try.
    pub(super) pool: Weak<Pool>,
    upload: Option<Upload>,
    began: Moment,
    pub(super) tries: u32,
    /// Servers that could not be reached since the last wait.
    moves: u32,
    /// Whether it has just waited, so that servers may be tried again.
    pub(super) waited: bool,
    /// Why the present try failed, in words for operators; `None` before it has.
    pub(super) cause: Option<String>,
    /// Whether the failure of a server was kept and written, which is why the request gets no answer.
    pub(super) is_told: bool,
}

impl<'a> Trip<'a> {
    pub(super) fn new(
        now: Moment,
        deadline: Deadline,
        own_timeout: Option<Duration>,
        upload: Option<Upload>,
        (holding, stream): (Held<'a>, Option<&'a Occupancy>),
    ) -> Self {
        Self {
            client: holding.client(),
            holding: Some(holding),
            now,
            deadline,
            own_timeout,
            upload,
            attempt_began: now,
            tried: Tried::default(),
            affinity: None,
            is_copy: false,
            stream,
            full: None,
            pool: Weak::new(),
            began: now,
            tries: 1,
            moves: 0,
            waited: false,
            cause: None,
            is_told: false,
        }
    }

    /// Why a try that ended at `deadline` was late: the server's fault if it had most of the upstream's own timeout for
    /// itself.
    pub(super) fn lateness(&self, now: Moment) -> Late {
        let is_servers = |timeout: Duration| now.since(self.attempt_began) >= timeout / 2;
        if self.own_timeout.is_some_and(is_servers) { Late::Server } else { Late::Request }
    }
}

/// What a request occupies: as a stream, or by what it holds. `None` for a request that holds a slot until it is over.
pub(super) fn occupancy<'o>(
    stream: Option<&'o Occupancy>,
    holding: Option<&'o Held<'_>>,
) -> Option<&'o Occupancy> {
    stream.or_else(|| holding.and_then(Held::occupancy))
}

/// What a request holds on its way to a server.
#[derive(Debug)]
pub(crate) enum Held<'a> {
    /// The slot or stream place that the request was admitted with.
    Own(&'a mut Holding),
    /// The slot of the view that it is a part of, if there is one, and whose request it is; 0 if it is nobody's.
    Shared(Option<&'a Arc<Slot>>, ClientId),
}

impl Held<'_> {
    fn client(&self) -> ClientId {
        match self {
            Self::Own(holding) => holding.client(),
            Self::Shared(_, client) => *client,
        }
    }

    fn occupancy(&self) -> Option<&Occupancy> {
        match self {
            Self::Own(holding) => holding.occupancy(),
            Self::Shared(..) => None,
        }
    }

    /// The write that the request is; `None` for a read, and without a cache.
    pub(super) fn written(&self) -> Option<&Arc<Written>> {
        match self {
            Self::Own(holding) => holding.written(),
            Self::Shared(..) => None,
        }
    }

    /// The slot, for a request that nobody waits for while its server works on it. Parts of a view share one.
    pub(super) fn slot(&mut self) -> Option<Kept> {
        match self {
            Self::Own(holding) => holding.take_slot().map(Kept::Own),
            Self::Shared(slot, _) => slot.map(|slot| Kept::Shared(Arc::clone(slot))),
        }
    }
}

/// A slot that is kept for what a server does.
#[derive(Debug)]
#[expect(dead_code, reason = "it is there to be dropped")]
pub(super) enum Kept {
    Own(Slot),
    Shared(Arc<Slot>),
}

/// A request's body that is still on its way.
#[derive(Debug)]
pub(super) struct Upload {
    pub(super) watch: UploadWatch,
    /// How long the server may take when it is its turn.
    pub(super) timeout: Duration,
    /// How long all of it may take, whoever's turn it is.
    pub(super) limit: Deadline,
}

impl Trip<'_> {
    /// Waits for the answer to a request that is being sent.
    ///
    /// Cancel safe if `answer` is.
    ///
    /// # Errors
    /// [`Late`] if it takes too long.
    pub(super) async fn answer<F: Future>(
        &self,
        clock: Clock,
        answer: Pin<&mut F>,
    ) -> Result<F::Output, Late> {
        match &self.upload {
            None => clock.by(self.deadline, answer).await.ok_or_else(|| self.lateness(clock.now())),
            Some(upload) => {
                let answer = upload.watch.within(clock, upload.timeout, answer);
                clock.by(upload.limit, answer).await.ok_or(Late::Request)?.ok_or(Late::Server)
            }
        }
    }
}

impl Upstream {
    /// Tries until there is an answer, or no more to try.
    pub(super) async fn deliver(
        &self,
        request: &mut Request,
        trip: &mut Trip<'_>,
    ) -> Result<Response, Refusal> {
        self.group.budget.of(trip.client).deposit();
        let repeatable = !trip.is_copy && self.group.config.retry.max_tries > 1 && is_repeatable(request);
        let answer = loop {
            let again = repeatable && self.has_tries(trip);
            // The answer, unless it is tried again.
            let last = match self.attempt(request, trip).await {
                Ok(response) if !again || !self.is_worth_repeating(&response) => break Ok(response),
                Ok(response) => Ok(response),
                Err(Fault::Broken) if again => self.broken(),
                // Nothing was sent, and the request is as it was: on to the next server at once.
                Err(Fault::Unreached) if trip.deadline.has_passed(trip.now) => {
                    break self.give_up(Fault::Late(trip.lateness(trip.now)));
                }
                Err(Fault::Unreached | Fault::Displaced) if trip.moves < MOST_MOVES => {
                    trip.moves += 1;
                    continue;
                }
                Err(Fault::Unreached | Fault::Displaced | Fault::Exhausted) => self.broken(),
                Err(fault) => break self.give_up(fault),
            };
            if let Some(answer) = self.later(request, last, trip).await {
                break answer;
            }
        };
        self.group.metrics.latency.observe(trip.now.since(trip.began));
        if let Err(refusal) = &answer {
            self.tell_unanswered(refusal, trip);
        }
        answer
    }

    /// Waits until it is time to try again, if there are tries, time and budget left; otherwise `last` is the answer.
    async fn later(
        &self,
        request: &mut Request,
        last: Result<Response, Refusal>,
        trip: &mut Trip<'_>,
    ) -> Option<Result<Response, Refusal>> {
        let (clock, policy) = (self.group.tools.clock, self.group.config.retry.policy());
        if trip.is_copy || !self.has_tries(trip) {
            return Some(last);
        }
        let wait = policy.backoff.delay(trip.tries - 1, &mut fastrand::Rng::new());
        let resume = trip.now.after(wait);
        if trip.deadline.has_passed(resume) || !self.group.budget.withdraw(trip.client, trip.now) {
            return Some(last);
        }
        // What is left of a response that is not passed on goes before the wait, with its connection.
        drop(last);
        self.group.tools.families.retries().inc();
        clock.sleep_until(resume).await;
        trip.now = clock.now();
        (trip.tries, trip.moves, trip.waited) = (trip.tries + 1, 0, true);
        let left = trip.deadline.remaining(trip.now);
        deadline::tell(request.headers_mut(), deadline::in_millis(left), left);
        None
    }

    fn has_tries(&self, trip: &Trip<'_>) -> bool {
        trip.tries < self.group.config.retry.max_tries
    }

    /// Whether the server says that it could not answer. One that says when to come back is not asked before.
    fn is_worth_repeating(&self, response: &Response) -> bool {
        response.status().is_server_error()
            && self.group.config.retry.statuses.contains(&response.status().as_u16())
            && !response.headers().contains_key(http::header::RETRY_AFTER)
    }

    fn give_up(&self, fault: Fault) -> Result<Response, Refusal> {
        match fault {
            Fault::Broken | Fault::Unreached | Fault::Displaced | Fault::Exhausted => self.broken(),
            Fault::Refused(refusal) => Err(refusal),
            Fault::Late(late) => {
                let (name, timeout) = (&self.group.name, self.group.config.timeout);
                let what = match late {
                    Late::Server => format!("upstream `{name}` did not answer within {timeout}"),
                    Late::Request => {
                        format!("upstream `{name}` did not answer before the deadline of the request")
                    }
                    Late::Connection => {
                        format!("no connection to upstream `{name}` became free in time")
                    }
                };
                Err(Refusal::new(Reason::DownstreamTimeout, what))
            }
        }
    }

    /// What the client is told of an answer that is larger than is taken. The server did what it was asked to do.
    pub(super) fn too_large(&self, limit: LargeHead) -> Refusal {
        let what = format!("the answer of upstream `{}` cannot be passed on: {limit}", self.group.name);
        Refusal::new(Reason::BadGateway, what)
    }

    fn broken(&self) -> Result<Response, Refusal> {
        Err(Refusal::new(Reason::BadGateway, format!("upstream `{}` failed", self.group.name)))
    }
}

/// Whether sending it twice is the same as sending it once, and all of it is there for that: its head stays when it is
/// sent, its body goes.
fn is_repeatable(request: &Request) -> bool {
    request.method().is_idempotent()
        && request.body().is_end_stream()
        && !request.headers().contains_key(UPGRADE)
}
