//! The fill workers: each takes one job at a time, sees it to its end though those who asked may leave, and tells them.

use std::{pin::pin, sync::Arc, time::Duration};

use http::StatusCode;
use http_body_util::BodyExt as _;
use httprules::{
    cache_control::RequestDirectives,
    freshness::{Stored, may_store},
};
use ron_kernel::{
    Shutdown,
    blame::{self, ClientId},
    breaker::Ticket,
    readiness::Effect,
    retry::Retryable as _,
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec},
};
use ron_transport::Body;
use types::{Deadline, Reason, Refusal};

use super::{
    Fill, OriginUrl,
    ask::{self, Answer},
    budget::Holder,
    client::Validators,
    entry::{Filled, Known, Landed},
    failure::Failure,
    lanes::{Lanes, Place},
    receive,
    settings::FillSettings,
    streaming::StreamSource,
};
use crate::{flights::Flight, ingress::FillPlace};

/// The longest body of an answer without an object that is read, so that its connection can be used again.
const DRAINED_MAX: u64 = 64 * 1024;

/// The queue of the workers.
pub(crate) const WORK: QueueSpec = QueueSpec {
    name: "work",
    capacity: 512,
    policy: Policy::RejectNew,
    from: "requests that miss, and stale hits",
    to: "fill_worker",
    doc: "objects to fetch, each once for all clients that wait (single-flight); one queue per origin; when it is full the client gets 429 busy",
};

/// A task that fetches objects.
pub(crate) const FILL_WORKER: TaskSpec = TaskSpec {
    name: "fill_worker",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::ShedWrites)),
    stop: Stage::Workers,
    doc: "fetches one object at a time from its origin into the store; a drain lets it finish, and answers 503 to what still \
          waits",
};

/// An object to be fetched.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) url: OriginUrl,
    /// The client's directive about storing.
    pub(super) request: RequestDirectives,
    /// When the head of the origin's answer must have come, all tries included.
    pub(super) deadline: Deadline,
    /// The right to report how its origin did; `None` while others decide whether that is left alone.
    pub(super) ticket: Option<Ticket>,
    pub(super) flight: Flight<Landed>,
    /// The client that began it.
    pub(super) client: ClientId,
    /// The place of the client that started the fill; `None` for a background fill.
    pub(super) _held: Option<FillPlace>,
    /// One of the places of its origin; `None` while it waits for one.
    pub(super) place: Option<Place>,
}

/// The result of a fetch.
struct Brought {
    known: Known,
    /// Whether the result may be cached.
    keep: bool,
    /// What is being sent of it already.
    stream: Option<StreamSource>,
}

/// Runs a worker until the drain.
pub(super) async fn run(fill: Arc<Fill>, ctx: TaskCtx) -> TaskResult {
    let shutdown = ctx.scope.shutdown();
    let mut emptied = pin!(turn_away(shutdown, &fill.lanes));
    loop {
        let next = tokio::select! {
            biased;
            () = ctx.stopping() => break,
            () = &mut emptied => return Ok(()),
            next = fill.lanes.next() => next,
        };
        let Some(job) = next else { return Ok(()) };
        let mut working = pin!(fill.work_or_turn_away(job, shutdown));
        tokio::select! {
            () = &mut working => {}
            // Those who wait are told at once, while this goes on.
            () = &mut emptied => {
                working.await;
                return Ok(());
            }
        }
    }
    fill.lanes.close();
    while let Some(job) = fill.lanes.take_any() {
        fill.work_or_turn_away(job, shutdown).await;
    }
    Ok(())
}

/// Waits for the drain and answers all that wait; ends when there is nobody left. If newcomers are served elsewhere,
/// those who are here have nowhere better to go, and are fetched for.
async fn turn_away(shutdown: &Shutdown, lanes: &Arc<Lanes>) {
    shutdown.reached(Stage::Intake).await;
    if shutdown.has_successor() {
        return std::future::pending().await;
    }
    lanes.close();
    while let Some(job) = lanes.take_any() {
        job.turn_away();
    }
}

impl Job {
    /// Whose bytes its object takes: its origin's, and those of the client that began it, unless others want it as well. They
    /// must not have to wait until that client has some.
    pub(super) fn holder(&self) -> Holder {
        let client = if self.flight.is_shared() { blame::NOBODY } else { self.client };
        Holder { origin: Arc::clone(&self.url.rule().name), client }
    }

    fn turn_away(self) {
        self.refuse(Reason::Draining.into());
    }

    /// Tells those who wait for it that there is nothing.
    pub(super) fn refuse(self, refusal: Refusal) {
        self.flight.land(Landed::asked(Err(refusal)));
    }
}

impl Fill {
    async fn work_or_turn_away(&self, job: Job, shutdown: &Shutdown) {
        if shutdown.is_draining() && !shutdown.has_successor() {
            job.turn_away();
        } else {
            self.work(job).await;
        }
    }

    async fn work(&self, mut job: Job) {
        let settings = self.settings.load_full();
        let before = self.table.get(job.url.text());
        let brought = Box::pin(self.bring(&settings, &job, before.as_ref())).await;
        let failure = brought.as_ref().err().and_then(Failure::blamed);
        if let Err(failure) = &brought
            && failure.is_the_origins()
        {
            self.lanes.failed(&job.url, &failure.to_string());
        }
        // An origin that was not asked has neither failed nor answered.
        if !matches!(brought, Err(Failure::Waited)) {
            self.lanes.record(&job.url, job.ticket.take(), failure, job.client);
        }
        match brought {
            Ok(brought) => self.deliver(job, brought, before.is_some()).await,
            Err(failure) => {
                if matches!(failure, Failure::Late | Failure::Unwanted | Failure::Waited) {
                    self.timeouts.inc();
                }
                tracing::debug!(url = %job.url, %failure, "an object was not fetched");
                self.give_up(job, failure.refusal(), failure.is_the_origins());
            }
        }
    }

    /// Learns what was brought, tells those who wait, and has it written down. What a request forbids to store changes nothing
    /// that is known: others did not forbid it.
    async fn deliver(&self, job: Job, brought: Brought, was_known: bool) {
        if job.request.no_store {
            return job.flight.land(Landed::asked(brought.known.answer().map(Filled::Whole)));
        }
        let url = Arc::clone(job.url.key());
        let kept = brought.keep.then_some(&brought.known);
        match kept {
            Some(known) => self.table.learn(&url, known.clone()),
            None => self.table.forget(&url),
        }
        job.flight.land(Landed::asked(brought.known.answer().map(Filled::Whole)));
        if let Some(stream) = brought.stream {
            stream.end();
        }
        if kept.is_some() || was_known {
            self.index.know(&url, kept).await;
        }
    }

    /// Tells those who wait that there is nothing; what says something of the origin is remembered for a moment, unless the
    /// object may only have been too large to be held for a request that forbids to store it.
    fn give_up(&self, job: Job, refusal: Refusal, is_the_origins: bool) {
        if is_the_origins && !job.request.no_store {
            self.table.fail(job.url.key(), refusal.clone(), self.clock.now());
        }
        job.flight.land(Landed::asked(Err(refusal)));
    }

    /// Tries as often as it makes sense, and as the deadline allows.
    async fn bring(
        &self,
        settings: &FillSettings,
        job: &Job,
        before: Option<&Known>,
    ) -> Result<Brought, Failure> {
        let (mut tried, mut store) = (0, self.store.takes_objects());
        if job.deadline.has_passed(self.clock.now()) {
            return Err(Failure::Waited);
        }
        loop {
            let failure = match self.bring_once(settings, job, before, store).await {
                Ok(brought) => return Ok(brought),
                // Whoever waits gets it all the same: it is asked for once more, and held in memory.
                Err(Failure::Unwritten(why)) if store => {
                    self.store.failed(&why);
                    if job.flight.has_told() {
                        return Err(Failure::Unwritten(why));
                    }
                    store = false;
                    continue;
                }
                // Who reads what is stored must not keep others from what is not.
                Err(Failure::InUse) if store && !job.flight.has_told() => {
                    store = false;
                    continue;
                }
                Err(failure) => failure,
            };
            tried += 1;
            // What is being sent cannot be begun again.
            if !failure.retryable() || tried >= settings.tries || job.flight.has_told() {
                return Err(failure);
            }
            let backoff = settings.backoff.delay(tried - 1, &mut fastrand::Rng::new());
            let asked_for = failure.retry_after().map_or(Duration::ZERO, Duration::from_secs);
            let resume = self.clock.now().after(backoff.max(asked_for));
            if job.deadline.has_passed(resume) {
                return Err(failure);
            }
            tracing::debug!(url = %job.url, %failure, tried, "trying again");
            self.retries.inc();
            self.clock.sleep_until(resume).await;
        }
    }

    async fn bring_once(
        &self,
        settings: &FillSettings,
        job: &Job,
        before: Option<&Known>,
        store: bool,
    ) -> Result<Brought, Failure> {
        // Without the object there is nothing to validate.
        let entry = before.and_then(Known::entry).filter(|entry| self.receiver.cas.contains(entry.id));
        let validators = entry.map_or_else(Validators::default, |entry| entry.validators.clone());
        let asked = ask::ask(&self.client, settings, self.clock, &job.url, &validators);
        let answer = self.clock.by(job.deadline, asked).await.unwrap_or(Err(Failure::Late))?;
        match (answer.response.status(), entry) {
            (StatusCode::OK, _) => {
                let (entry, stream) = self.receiver.receive(settings, job, answer, store).await?;
                if entry.held.is_none() {
                    self.store.worked();
                }
                Ok(Brought { keep: entry.held.is_none(), known: Known::Object(Arc::new(entry)), stream })
            }
            (StatusCode::NOT_MODIFIED, Some(_))
                if !validators.is_empty() && !validators.are_confirmed(answer.response.headers()) =>
            {
                // It is about something else than what is stored.
                Box::pin(self.bring_once(settings, job, None, store)).await
            }
            (StatusCode::NOT_MODIFIED, Some(entry)) if !validators.is_empty() && !answer.redirected => {
                let entry = receive::validated(entry, &answer, settings);
                let said = &entry.stored.directives;
                let keep = !said.no_store && !said.private && entry.can_be_kept();
                Ok(Brought { keep, known: Known::Object(Arc::new(entry)), stream: None })
            }
            (StatusCode::NOT_FOUND | StatusCode::GONE, _) => Ok(self.nothing(settings, job, answer).await),
            (status, _) => {
                let retry_after = ask::retry_after(answer.response.headers(), answer.received_at.unix);
                self.drain(job, answer.response.into_body()).await;
                Err(Failure::Status { status, retry_after })
            }
        }
    }

    /// The origin has no such object.
    async fn nothing(&self, settings: &FillSettings, job: &Job, answer: Answer) -> Brought {
        let (status, headers) = (answer.response.status(), answer.response.headers());
        let keep = may_store(&job.request, false, status, headers).is_ok();
        // When nothing was last modified says nothing.
        let stored = Stored { last_modified: None, ..answer.stored(settings.negative_ttl) };
        self.drain(job, answer.response.into_body()).await;
        Brought { known: Known::Nothing(Arc::new(stored)), keep, stream: None }
    }

    /// Reads a short body to its end, so that its connection can be used again; one that takes too long is closed.
    async fn drain(&self, job: &Job, mut body: Body) {
        if http_body::Body::size_hint(&body).upper().is_some_and(|len| len <= DRAINED_MAX) {
            let read = async { while let Some(Ok(_)) = body.frame().await {} };
            let _ = self.clock.by(job.deadline, read).await;
        }
    }
}
