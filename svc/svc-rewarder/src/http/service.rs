//! The rewarder's handler on one core.

use std::sync::Arc;

use bytes::Bytes;
use http::{Method, StatusCode, request::Parts};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use rewards::{SignedPolicy, bundle};
use ron_kernel::{
    Fault,
    metrics::{RouteMetrics, ServiceMetrics},
    queue::Sender,
};
use ron_transport::{Body, BodyError, Conn, ConnInfo, Request, Response, Service, corr_id, deadline};
use serde_json::{Value, json};
use tokio::sync::oneshot;
use types::{ActorId, Deadline, Reason, Refusal};

use super::{access, answer, ask, documents, history, places::Places, route::Route};
use crate::{
    RewarderError,
    artifacts::Artifacts,
    calculus,
    calculus::Outcome,
    policies, reconcile,
    registry::Progress,
    scheduler::{Expected, Taken, WorkRequest},
    shared::Shared,
    store::{Changed, EpochStore, Record, StoreError},
    writer,
};

/// The description of this interface.
const OPENAPI: &str = include_str!("openapi.json");

/// The handler on one core.
#[derive(Debug)]
pub(crate) struct Handler {
    shared: Arc<Shared>,
    requests: Sender<WorkRequest>,
    places: Arc<Places>,
    metrics: ServiceMetrics,
    routes: [RouteMetrics; Route::NAMES.len()],
    unrouted: RouteMetrics,
}

type Answer = Result<Response, Refusal>;

impl Handler {
    pub(crate) fn new(shared: Arc<Shared>, requests: Sender<WorkRequest>, places: Arc<Places>) -> Self {
        let metrics = shared.scope.metrics().clone();
        let routes = Route::NAMES.map(|name| metrics.route(name));
        let unrouted = metrics.route("unrouted");
        Self { shared, requests, places, metrics, routes, unrouted }
    }

    /// Publishes how many requests are in flight, by route.
    pub(crate) fn sample(&self) {
        self.routes.iter().chain([&self.unrouted]).for_each(RouteMetrics::sample);
    }

    fn route_metrics(&self, route: Option<&Route>) -> &RouteMetrics {
        let known = route.and_then(|route| Route::NAMES.iter().position(|name| *name == route.name()));
        known.map_or(&self.unrouted, |at| &self.routes[at])
    }
}

impl Service for Handler {
    type PerConn = ();

    async fn call(&self, conn: &Arc<Conn<()>>, request: Request) -> Result<Response, Refusal> {
        let (conn, (request, body)): (&ConnInfo, _) = (conn, request.into_parts());
        Ok(self.respond(Some(conn), request, body).await)
    }
}

impl Handler {
    /// Answers somebody in this process who may look and no more.
    ///
    /// Cancel safe.
    pub(crate) async fn look(&self, request: Parts) -> Response {
        self.respond(None, request, Body::empty()).await
    }

    /// Answers a client, or somebody in this process who was admitted elsewhere.
    async fn respond(&self, conn: Option<&ConnInfo>, request: Parts, body: Body) -> Response {
        let began = self.shared.clock.now();
        let route = Route::find(request.uri.path());
        let metrics = self.route_metrics(route.as_ref());
        let _in_flight = metrics.enter();
        let answered = Box::pin(self.answer(conn, &request, body, route.as_ref())).await;
        let corr_id = corr_id::of(&request.headers);
        let mut response = answered.unwrap_or_else(|refusal| {
            self.metrics.rejected(refusal.reason).inc();
            answer::refusal(&refusal, route.as_ref(), &corr_id)
        });
        response.headers_mut().insert(corr_id::CORR_ID, corr_id);
        let took = self.shared.clock.now().since(began);
        metrics.record(request.method.as_str(), response.status().as_u16(), took);
        response
    }

    async fn answer(
        &self,
        conn: Option<&ConnInfo>,
        request: &Parts,
        body: Body,
        route: Option<&Route>,
    ) -> Answer {
        let route = route.ok_or(Reason::NotFound)?;
        if !route.takes(&request.method) {
            return Err(Reason::MethodNotAllowed.into());
        }
        if *route == Route::OpenApi {
            return Ok(answer::bytes(Bytes::from_static(OPENAPI.as_bytes()), "application/json"));
        }
        let writes = !matches!(request.method, Method::GET | Method::HEAD);
        let right = if writes { access::RUN } else { access::INSPECT };
        let unix = self.shared.unix().as_secs();
        match conn {
            Some(conn) => access::admit(&self.shared.settings.load().authority, conn, request, right, unix)?,
            None if writes => return Err(Reason::Forbidden.into()),
            None => {}
        }
        if writes && self.shared.scope.shutdown().is_draining() {
            return Err(Fault::Canceled.into());
        }
        let body = if writes { self.read(body).await? } else { Bytes::new() };
        let most = self.shared.settings.load().io_inflight;
        let _place = self.places.take(most).ok_or_else(|| Refusal::from(Fault::Busy))?;
        Ok(match route {
            Route::OpenApi => unreachable!("answered above, without a right"),
            Route::Epochs => self.epochs(request.uri.query().unwrap_or_default()).await?,
            Route::Epoch(epoch) => self.epoch(*epoch, request).await?,
            Route::Compute(epoch) => self.compute(*epoch, request, &body).await?,
            Route::Reconcile(epoch) => {
                ask::no_body(&body)?;
                self.reconcile(*epoch, writes).await?
            }
            Route::Order(epoch) => {
                ask::json_if_said(request)?;
                documents::order(&self.shared, *epoch, &body).await.map_err(refused)?
            }
            Route::Disputes(epoch) if writes => {
                ask::json_if_said(request)?;
                // Whether somebody has a line is in the files, which another node may have computed.
                let _ = self.file(*epoch, bundle::RUN).await;
                documents::dispute(&self.shared, *epoch, body).await.map_err(refused)?
            }
            Route::Disputes(epoch) => documents::disputes(&self.shared, *epoch).await.map_err(refused)?,
            Route::Corrections if writes => {
                ask::json_if_said(request)?;
                documents::correct(&self.shared, body).await.map_err(refused)?
            }
            Route::Corrections => documents::corrections(&self.shared).await.map_err(refused)?,
            Route::Payees if writes => {
                ask::json_if_said(request)?;
                documents::put_payees(&self.shared, body).await.map_err(refused)?
            }
            Route::Payees => documents::payees(&self.shared).await.map_err(refused)?,
            Route::Actor(actor) => {
                let page = ask::page(request.uri.query().unwrap_or_default())?;
                history::of_actor(&self.shared, actor, page).await.map_err(refused)?
            }
            Route::Lines(epoch, prefix) => {
                history::beginning_with(&self.shared, *epoch, prefix).await.map_err(refused)?
            }
            Route::Proof(epoch, actor) => self.proof(*epoch, actor, request).await?,
            Route::File(epoch, name) => self.file(*epoch, name).await?,
            Route::Policy(id) if writes => {
                ask::json_if_said(request)?;
                self.put_policy(id, body).await?
            }
            Route::Policy(id) => self.policy(id, request).await?,
        })
    }

    /// A whole body, no longer than allowed.
    async fn read(&self, body: Body) -> Result<Bytes, Refusal> {
        let limit = usize::try_from(self.shared.settings.load().max_body_bytes).unwrap_or(usize::MAX);
        match Limited::new(body, limit).collect().await {
            Ok(whole) => Ok(whole.to_bytes()),
            Err(error) if error.is::<LengthLimitError>() => {
                Err(Refusal::new(Reason::BodyCap, format!("a body has at most {limit} bytes")))
            }
            Err(error) => Err(match error.downcast_ref::<BodyError>() {
                Some(error) => error.refusal(),
                None => Refusal::new(Reason::Malformed, "the body broke off"),
            }),
        }
    }

    async fn store<T: Send + 'static>(
        &self,
        job: &'static str,
        work: impl Fn(&EpochStore) -> Result<T, StoreError> + Clone + Send + 'static,
    ) -> Result<T, Refusal> {
        self.shared.with_store(job, work).await.map_err(refused)
    }

    async fn epochs(&self, query: &str) -> Answer {
        let ask::Page { limit, before } = ask::page(query)?;
        // Open ones first: one that is closed meanwhile is found twice rather than not at all.
        let listed =
            move |store: &EpochStore| Ok((store.open_epochs(before, limit)?, store.latest(before, limit)?));
        let (open, closed) = self.store("list epochs", listed).await?;
        let open = open.into_iter().map(|epoch| (epoch, answer::open_summary(epoch)));
        let mut all: Vec<(u64, Value)> =
            closed.iter().map(|record| (record.epoch, answer::summary(record))).chain(open).collect();
        all.sort_by_key(|(epoch, _)| std::cmp::Reverse(*epoch));
        all.dedup_by_key(|(epoch, _)| *epoch);
        all.truncate(usize::try_from(limit).unwrap_or(usize::MAX));
        let next = all.last().filter(|_| all.len() as u64 == limit).map(|(epoch, _)| *epoch);
        let epochs: Value = all.into_iter().map(|(_, epoch)| epoch).collect();
        Ok(answer::document(StatusCode::OK, &json!({ "epochs": epochs, "next": next })))
    }

    async fn epoch(&self, epoch: u64, request: &Parts) -> Answer {
        let artifacts = self.shared.artifacts.clone();
        let store = self.shared.store.clone();
        let find = move || -> Result<_, RewarderError> {
            let listed = store.snapshots(epoch)?;
            let Some(record) = store.record(epoch)? else {
                return Ok((None, listed, None, None, Vec::new()));
            };
            let closed =
                store.documents(epoch)?.map(|(inputs, _)| calculus::closed_inputs(&inputs).collect());
            let closed: Option<Result<Vec<_>, _>> = closed;
            let is_stale = artifacts.is_stale(&record).unwrap_or_default();
            let read = |name| if is_stale { None } else { artifacts.read(epoch, name).unwrap_or_default() };
            let excluded = read(bundle::EXCLUDED);
            let closed = closed.transpose()?.map(|closed| answer::counting(closed, excluded.as_deref()));
            let names = if is_stale { Vec::new() } else { artifacts.names(epoch).unwrap_or_default() };
            Ok((Some(record), listed, closed, read(bundle::RUN), names))
        };
        let mut found = self.shared.ask("find epoch", find.clone()).await.map_err(refused)?;
        // Another node has computed it, and its files are not here yet.
        let is_elsewhere = found.3.is_none() && found.0.as_ref().is_some_and(Record::has_files);
        if is_elsewhere && self.file_of_another(epoch, bundle::RUN).await.is_ok() {
            found = self.shared.ask("find epoch", find).await.map_err(refused)?;
        }
        let (record, listed, closed, manifest, names) = found;
        let snapshots = answer::snapshots(&listed, closed.as_deref());
        let Some(record) = record else {
            return if listed.is_empty() {
                Err(RewarderError::Unknown("epoch").into())
            } else {
                Ok(answer::document(StatusCode::OK, &answer::open(epoch, snapshots)))
            };
        };
        let progress = self.shared.registry.progress(epoch);
        let mut value = answer::whole(&record, manifest.as_deref(), progress.as_deref(), snapshots);
        value["files"] = names.into();
        let response = answer::document(StatusCode::OK, &value);
        Ok(match answer::final_tag(&record) {
            Some(tag) => answer::tagged(response, tag, &request.headers),
            None => response,
        })
    }

    async fn compute(&self, epoch: u64, request: &Parts, body: &[u8]) -> Answer {
        let meant = ask::compute_body(request, body)?;
        let clock = &self.shared.clock;
        let wished = deadline::wished(&request.headers, clock.now(), clock.unix());
        let (reply, answered) = oneshot::channel();
        let expected = Expected { inputs: meant.inputs, policy: meant.policy };
        let asked = WorkRequest { epoch, expected, deadline: wished, reply };
        self.requests.try_send(asked).map_err(|error| Refusal::from(Fault::from(error)))?;
        let patience = if wished == Deadline::NEVER { self.shared.clock.within(PATIENCE) } else { wished };
        let answered = self.shared.scope.by("rpc", patience, answered).await?;
        // The scheduler is gone without an answer: the node stops, or it was restarted.
        let taken = answered.map_err(|_| Refusal::from(Fault::Canceled))?.map_err(refused)?;
        Ok(match taken {
            Taken::Accepted(record) => answer::document(StatusCode::ACCEPTED, &answer::summary(&record)),
            Taken::Exists(record) => answer::document(StatusCode::OK, &answer::summary(&record)),
        })
    }

    /// Compares an epoch with the ledger; `writes` has what the ledger lacks posted again.
    async fn reconcile(&self, epoch: u64, writes: bool) -> Answer {
        let record = self.store("find epoch", move |store| store.record(epoch)).await?;
        let record = record.ok_or(RewarderError::Unknown("epoch"))?;
        let (found, changed) = if writes {
            reconcile::post_again(&self.shared, &record).await.map_err(refused)?
        } else {
            let found = reconcile::difference(&self.shared, &record).await;
            (found.map_err(|_| RewarderError::Ledger("it does not answer".to_owned()))?, Changed::Before)
        };
        let first = (found.missing > 0).then_some(found.first);
        let said = json!({
            "epoch": epoch, "state": record.state.as_str(), "batches_posted": record.posted,
            "missing": found.missing, "first_missing": first, "posted_again": changed == Changed::Now,
            "retired": found.is_retired,
        });
        let status = if changed == Changed::Now { StatusCode::ACCEPTED } else { StatusCode::OK };
        Ok(answer::document(status, &said))
    }

    async fn proof(&self, epoch: u64, actor: &str, request: &Parts) -> Answer {
        let actor =
            ActorId::new(actor).map_err(|wrong| Refusal::new(Reason::Malformed, wrong.to_string()))?;
        let record = self.store("find epoch", move |store| store.record(epoch)).await?;
        let record =
            record.filter(|record| record.state.has_run()).ok_or(RewarderError::Unknown("computed epoch"))?;
        self.refuse_retired(&record)?;
        let kept = self.shared.registry.look(epoch);
        // One that was taken back elsewhere may be kept here.
        let kept = kept.filter(|run| record.commitment.as_ref() == Some(&run.commitment().to_string()));
        let calculus = self.shared.calculus();
        let prove = move || -> Result<_, RewarderError> {
            let run = match kept {
                Some(run) => run,
                None => match calculus.run(epoch, &Progress::default())? {
                    Outcome::Run(run) => Arc::new(*run),
                    Outcome::Quarantine(wrong) => {
                        return Err(RewarderError::Quarantine { epoch, reason: wrong.to_string() });
                    }
                },
            };
            let proof = run.prove(actor.as_str()).map(|proof| proof.to_bytes());
            Ok((run, proof))
        };
        let deadline = self.shared.clock.within(self.shared.windows.duration() / 2);
        let proven = self
            .shared
            .scope
            .by("compute", deadline, self.shared.compute_for_request("prove", prove))
            .await?;
        let (run, proof) = proven.map_err(|error| Refusal::from(Fault::from(error)))?.map_err(refused)?;
        self.shared.registry.keep(epoch, run);
        let proof = proof.ok_or(RewarderError::Unknown("line of this actor"))?;
        let response = answer::bytes(proof.into(), "application/json");
        Ok(answer::tagged(response, record.commitment.as_deref().unwrap_or_default(), &request.headers))
    }

    async fn file(&self, epoch: u64, name: &str) -> Answer {
        let (artifacts, store) = (self.shared.artifacts.clone(), self.shared.store.clone());
        let wanted = name.to_owned();
        let read = move || served(&artifacts, &store, epoch, &wanted);
        let file = self.shared.ask("read file", read).await.map_err(refused)?;
        let file = match file {
            Some(file) => file,
            None => self.file_of_another(epoch, name).await?,
        };
        let kind = match name.rsplit_once('.') {
            Some((_, "json")) => "application/json",
            Some((_, "jsonl")) => "application/jsonl",
            _ => "text/plain; charset=utf-8",
        };
        Ok(answer::bytes(file, kind))
    }

    /// A file that is not here, of an epoch that another node has computed: its files are written here too.
    async fn file_of_another(&self, epoch: u64, name: &str) -> Result<Bytes, Refusal> {
        let shared = &self.shared;
        let record = self.store("find epoch", move |store| store.record(epoch)).await?;
        let record = record.ok_or(RewarderError::Unknown("file"))?;
        self.refuse_retired(&record)?;
        if record.state.has_run() {
            // One at a time for each epoch; who comes meanwhile comes back.
            let _claim = shared.registry.claim(epoch).ok_or(Fault::Busy)?;
            let (artifacts, calculus, key) =
                (shared.artifacts.clone(), shared.calculus(), shared.key.clone());
            let write = move || -> Result<(), RewarderError> {
                let is_there = artifacts.read(epoch, bundle::RUN).unwrap_or_default().is_some();
                let is_stale = artifacts.is_stale(&record).unwrap_or_default();
                if is_there && !is_stale {
                    Ok(())
                } else {
                    writer::write_again((&artifacts, &calculus, &key), &record)
                }
            };
            let deadline = shared.clock.within(shared.windows.duration() / 2);
            let write = shared.compute_for_request("write files again", write);
            let written = shared.scope.by("compute", deadline, write).await?;
            written.map_err(|error| Refusal::from(Fault::from(error)))?.map_err(refused)?;
        }
        let (artifacts, wanted) = (shared.artifacts.clone(), name.to_owned());
        let store = shared.store.clone();
        let read = move || served(&artifacts, &store, epoch, &wanted);
        let file = shared.ask("read file", read).await.map_err(refused)?;
        file.ok_or_else(|| RewarderError::Unknown("file").into())
    }

    /// Refuses what needs the files of an epoch that is retired.
    fn refuse_retired(&self, record: &Record) -> Result<(), Refusal> {
        if record.retired_at.is_none() {
            return Ok(());
        }
        let commitment = record.commitment.clone().unwrap_or_default();
        let archive = self.shared.settings.load().archive_of(record.epoch);
        Err(RewarderError::Retired { epoch: record.epoch, commitment, archive }.into())
    }

    async fn policy(&self, id: &str, request: &Parts) -> Answer {
        let (store, settings, id) =
            (self.shared.store.clone(), self.shared.settings.load_full(), id.to_owned());
        let find = move || policies::newest(&store, &settings, &id, None);
        let found = self.shared.ask("find policy", find).await.map_err(refused)?;
        let (kept, _) = found.ok_or(RewarderError::Unknown("policy"))?;
        let response = answer::bytes(kept.document.into(), "application/json");
        Ok(answer::tagged(response, &kept.digest, &request.headers))
    }

    async fn put_policy(&self, id: &str, body: Bytes) -> Answer {
        let (store, settings, id) =
            (self.shared.store.clone(), self.shared.settings.load_full(), id.to_owned());
        let put = move || policies::accept(&store, &settings, Some(&id), &body);
        let kept = self.shared.ask("keep policy", put).await.map_err(refused)?;
        self.shared.due.notify_one();
        let said = json!({ "id": kept.id, "version": kept.version, "hash": kept.digest, "format": SignedPolicy::FORMAT });
        Ok(answer::document(StatusCode::OK, &said))
    }
}

/// A file of an epoch that is here, unless it is of a run that does not stand.
fn served(
    artifacts: &Artifacts,
    store: &EpochStore,
    epoch: u64,
    name: &str,
) -> Result<Option<Bytes>, RewarderError> {
    let failed = |error: std::io::Error| RewarderError::Files(error.to_string());
    let Some(file) = artifacts.read(epoch, name).map_err(failed)? else { return Ok(None) };
    let record = store.record(epoch)?;
    let is_stale = record.map_or(Ok(false), |record| artifacts.is_stale(&record)).map_err(failed)?;
    Ok((!is_stale).then_some(file))
}

/// How long a caller waits for the scheduler, unless it says how long.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(10);

/// An error as a refusal; what a client is not told is in the log.
fn refused(error: RewarderError) -> Refusal {
    logged(&error);
    error.into()
}

fn logged(error: &RewarderError) {
    if error.reason() == Reason::Internal {
        tracing::error!(%error, "a request failed");
    }
}
