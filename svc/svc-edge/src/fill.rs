//! Live fill: objects that are not here are fetched from listed origins, stored, and only then served, or while they are
//! fetched, if that is configured for their origin.
//!
//! ```text
//! find ─▶ fresh: served           table: what is known of URLs, in memory
//!      ─▶ stale: served, refreshed behind
//!      ─▶ missing ─▶ fetch ─▶ flights: one per URL ─▶ rate ─▶ lane of its origin ─▶ worker ─▶ ask ─▶ receive ─▶ spool ─▶ store
//!                      ▲                                                                                    │
//!                      └── landing: those who wait, each to their own deadline ◀──────── table, index ◀─────┘
//! ```
//!
//! A worker goes on with its fill when those who asked have left, for a while: an object that nobody asks for again is given up.
//! A fill that fails leaves nothing behind but, for two seconds, the memory that it failed.

mod allow;
mod ask;
mod budget;
mod client;
mod entry;
mod expected;
mod failure;
mod fields;
mod guard;
mod index;
mod lanes;
mod pace;
mod path;
mod pool;
mod receive;
mod settings;
mod spool;
mod store_state;
mod streaming;
mod table;
mod url;
mod worker;

use std::sync::Arc;

use arc_swap::ArcSwap;
use cas::{Cas, Fate, Hot, UrlIndex};
use httprules::{
    cache_control::RequestDirectives,
    freshness::{Time, Verdict, judge},
};
use quota::Bucket;
use ron_kernel::{
    Clock, Fault, Scope,
    blame::{self, ClientId},
    metrics::Counter,
};
use ron_transport::resolve::Resolver;
use types::{Deadline, ObjectId, Reason, Refusal};

pub use entry::{Entry, Filled};
pub use settings::FillSettings;
pub use streaming::{BrokenOff, StreamingFill};
pub use url::OriginUrl;

pub(crate) use index::{INDEX_OWNER, INDEX_QUEUE};
pub(crate) use worker::{FILL_WORKER, WORK};

use crate::{
    flights::{Flights, Landing, Turn},
    ingress::FillPlace,
};
use budget::Budget;
use client::Client;
use entry::{Known, Landed};
use index::{IndexHandle, News};
use lanes::Lanes;
pub(crate) use lanes::OriginState;
use receive::Receiver;
use store_state::StoreState;
use table::Table;
use worker::Job;

/// How often a request joins a fill whose worker dies under it.
const MAX_TURNS: u32 = 3;

/// What the fill is made of.
#[derive(Debug)]
pub struct FillParts {
    /// The settings that a reload may change.
    pub settings: FillSettings,
    /// Fills of one origin at once.
    pub workers: usize,
    /// The maximum number of URLs in the index.
    pub max_entries: usize,
    /// Bytes of all fills in progress.
    pub inflight_bytes: u64,
    /// Whether the store is in memory only.
    pub amnesia: bool,
    /// The resolver for the names of origins.
    pub resolver: Resolver,
    /// The store of fetched objects.
    pub cas: Arc<Cas>,
    /// The hot objects in RAM.
    pub hot: Arc<Hot>,
    /// What survives a restart; `None` for nothing.
    pub index: Option<UrlIndex>,
    /// Why nothing can be written to the disk; `None` if it can.
    pub read_only: Option<String>,
}

/// What is here for a URL.
#[derive(Clone, Debug)]
pub enum Found {
    /// An object that answers the request.
    Fresh(Arc<Entry>),
    /// One that does for now; if it has to be, it is being refreshed.
    Stale(Arc<Entry>),
    /// Nothing that would do without asking: [`Fill::fetch`] it.
    Missing,
    /// A cached miss: the origin does not have the object.
    Refused(Refusal),
}

/// What a request for an object asks for.
#[derive(Clone, Debug)]
pub(crate) struct Wanted {
    /// The client that asks.
    pub(crate) client: ClientId,
    /// The place that a fill holds which begins for it; `None` for a fill of nobody.
    pub(crate) held: Option<FillPlace>,
    /// Whether it may be an object that is still being fetched.
    pub(crate) streamed: bool,
}

impl Wanted {
    const WHOLE: Self = Self { client: blame::NOBODY, held: None, streamed: false };
}

/// Fetches missing objects from origins.
#[derive(Debug)]
pub struct Fill {
    settings: ArcSwap<FillSettings>,
    table: Table,
    flights: Arc<Flights<Landed>>,
    /// Damaged objects that are being looked at.
    looks: Arc<Flights<bool>>,
    lanes: Arc<Lanes>,
    begun: Bucket,
    client: Client,
    receiver: Receiver,
    store: StoreState,
    index: IndexHandle,
    clock: Clock,
    retries: Counter,
    timeouts: Counter,
}

impl Fill {
    /// Starts the workers and the owner of the index, with what the index knows.
    ///
    /// # Errors
    /// The index cannot be read because the blocking pool is not available.
    pub async fn start(scope: &Scope, mut parts: FillParts) -> Result<Arc<Self>, Fault> {
        let table = Table::new(parts.max_entries);
        if let Some(index) = parts.index.take() {
            let (index, known) = load(scope, index, parts.max_entries, Arc::clone(&parts.cas)).await?;
            known.into_iter().for_each(|(url, known)| table.learn(&url, known));
            parts.index = Some(index);
        }
        let lanes = Lanes::new(scope, &parts.settings.allow.names, parts.workers);
        let receiver = Receiver {
            blocking: scope.blocking().clone(),
            cas: parts.cas,
            hot: parts.hot,
            budget: Budget::new(parts.inflight_bytes),
            small: budget::small(parts.inflight_bytes, lanes.workers()),
            clock: scope.clock(),
            amnesia: parts.amnesia,
        };
        let fill = Arc::new(Self {
            settings: ArcSwap::from_pointee(parts.settings),
            table,
            flights: Arc::default(),
            looks: Arc::default(),
            lanes: Arc::clone(&lanes),
            begun: Bucket::default(),
            client: Client::new(scope, parts.resolver),
            receiver,
            store: StoreState::new(scope, parts.read_only.take()),
            index: IndexHandle::start(scope, parts.index, parts.max_entries),
            clock: scope.clock(),
            retries: scope.metrics().retries("live_fill"),
            timeouts: scope.metrics().io_timeouts("fill"),
        });
        let worker = Arc::clone(&fill);
        scope.pool(&FILL_WORKER, lanes.workers(), move |ctx| worker::run(Arc::clone(&worker), ctx));
        let pool = Arc::downgrade(&fill.client.pool);
        scope.housekept(move || pool.upgrade().into_iter().for_each(|pool| pool.sweep()));
        Ok(fill)
    }

    /// The origins that were asked so far, and how they do.
    pub(crate) fn origins(&self) -> Vec<OriginState> {
        self.lanes.states()
    }

    /// Follows other settings from now on. What was fetched under the old ones stays.
    pub fn follow(&self, settings: FillSettings) {
        self.lanes.follow(&settings.allow.names);
        self.settings.store(Arc::new(settings));
        // Whom to trust may have changed.
        self.client.pool.clear();
    }

    /// The object that a path and query behind `/edge/assets/` name, `{host}/{path}` as it was sent.
    ///
    /// # Errors
    /// `not_allowed` for a host that is not on the list, `not_found` if it does not even look like one, `malformed` for a
    /// path that is none.
    pub fn url(&self, asset: &str, query: Option<&str>) -> Result<OriginUrl, Refusal> {
        self.settings.load().url(asset, query)
    }

    /// What is here for a URL at `now`. Looks in memory alone; what is stale and may be served so
    /// begins to be refreshed.
    pub fn find(&self, url: &OriginUrl, request: &RequestDirectives, now: Time) -> Found {
        self.find_holding(url, request, now, || Ok(None))
    }

    /// The same: what begins to be refreshed holds on to a place until that ends, and is not refreshed now if there is none.
    pub(crate) fn find_holding(
        &self,
        url: &OriginUrl,
        request: &RequestDirectives,
        now: Time,
        place: impl FnOnce() -> Result<Option<FillPlace>, Refusal>,
    ) -> Found {
        let known = self.table.get(url.text());
        let verdict = known.as_ref().map(|known| (judge(known.stored(), request, now), known));
        match verdict {
            Some((Verdict::Fresh, known)) => known.answer().map_or_else(Found::Refused, Found::Fresh),
            Some((Verdict::Stale, Known::Object(entry))) => {
                self.refresh(url, place);
                Found::Stale(Arc::clone(entry))
            }
            Some((Verdict::Validate { if_error: true }, Known::Object(entry)))
                if self.failed_lately(url).is_some() =>
            {
                Found::Stale(Arc::clone(entry))
            }
            _ if request.only_if_cached => {
                let what = "it is not stored here, and only-if-cached forbids to ask for it";
                Found::Refused(Refusal::new(Reason::DownstreamTimeout, what))
            }
            _ => self.failed_lately(url).map_or(Found::Missing, Found::Refused),
        }
    }

    /// Has an object fetched, or joins those who wait for it, and waits until `deadline`. The fill goes on for a while without
    /// whoever asked. What is known and may be served when asking fails is served then.
    ///
    /// Cancel safe: the fill goes on.
    ///
    /// # Errors
    /// Why there is none.
    pub async fn fetch(
        &self,
        url: &OriginUrl,
        request: &RequestDirectives,
        deadline: Deadline,
    ) -> Result<Arc<Entry>, Refusal> {
        match self.fetch_holding(url, request, deadline, Wanted::WHOLE).await? {
            Filled::Whole(entry) => Ok(entry),
            Filled::Streaming(_) => Err(Refusal::new(Reason::Internal, "the object is incomplete")),
        }
    }

    /// The same as `wanted` says: a fill that begins holds on to its place until it ends, however long whoever asked waits, and
    /// an object of an origin that is streamed may be had while it is fetched.
    ///
    /// Cancel safe: the fill goes on.
    ///
    /// # Errors
    /// Why there is none.
    pub(crate) async fn fetch_holding(
        &self,
        url: &OriginUrl,
        request: &RequestDirectives,
        deadline: Deadline,
        wanted: Wanted,
    ) -> Result<Filled, Refusal> {
        let fetched = self.await_landing(url, request, deadline, wanted).await;
        match fetched {
            Err(refusal) if refusal.reason != Reason::NotFound => {
                self.instead(url, request).map(Filled::Whole).ok_or(refusal)
            }
            fetched => fetched,
        }
    }

    /// Asks for the object of a URL if it is being fetched already, which costs its origin nothing, and says whether it is.
    pub(crate) fn is_under_way(
        &self,
        url: &OriginUrl,
        request: &RequestDirectives,
        client: ClientId,
    ) -> bool {
        let is_under_way = self.flights.is_under_way(&flight_of(url, request), client);
        if is_under_way {
            self.lanes.look_again(url);
        }
        is_under_way
    }

    /// Has an object fetched without waiting for it.
    ///
    /// # Errors
    /// It cannot even be begun.
    pub fn begin(&self, url: &OriginUrl, request: &RequestDirectives) -> Result<(), Refusal> {
        self.begin_holding(url, request, None)
    }

    /// The same, and the fill holds on to this until it ends.
    ///
    /// # Errors
    /// It cannot even be begun.
    pub(crate) fn begin_holding(
        &self,
        url: &OriginUrl,
        request: &RequestDirectives,
        held: Option<FillPlace>,
    ) -> Result<(), Refusal> {
        match self.join(url, request, client_of(held.as_ref()), held).landed() {
            Some(Landed { outcome: Err(refusal), .. }) => Err(refusal),
            Some(_) | None => Ok(()),
        }
    }

    /// Hears that the object of a URL could not be read as it was stored. Says whether it can be read after all; if not, it
    /// is set aside and forgotten, and can be fetched again.
    ///
    /// Cancel safe: a look at the object that has begun runs to its end.
    pub async fn damaged(&self, url: &OriginUrl, id: ObjectId) -> bool {
        self.receiver.hot.remove(&id);
        let cas = Arc::clone(&self.receiver.cas);
        let look = move || {
            let fate = cas.quarantine(id);
            tracing::warn!(%id, ?fate, "an object was damaged or gone");
            matches!(fate, Ok(Fate::Sound | Fate::Repaired))
        };
        // Once for all who have met it: a look reads all of the object, and others would wait for it on threads.
        let (blocking, what) = (&self.receiver.blocking, id.to_string());
        let is_sound = Flights::load(&self.looks, &what, blocking, "look at a damaged object", look).await;
        if is_sound == Ok(true) {
            return true;
        }
        self.table.forget_object(url.text(), id);
        self.index.tell(News::RemoveObject(id)).await;
        false
    }

    /// Refreshes what is stale, once, unless that failed a moment ago or there is no place for it.
    fn refresh(&self, url: &OriginUrl, place: impl FnOnce() -> Result<Option<FillPlace>, Refusal>) {
        // It must reach the origin even if it is not stale yet by the time it is its turn.
        let request = RequestDirectives { no_cache: true, ..RequestDirectives::default() };
        if self.failed_lately(url).is_none()
            && !self.is_under_way(url, &request, blame::NOBODY)
            && let Ok(held) = place()
        {
            drop(self.join(url, &request, client_of(held.as_ref()), held));
        }
    }

    async fn await_landing(
        &self,
        url: &OriginUrl,
        request: &RequestDirectives,
        deadline: Deadline,
        wanted: Wanted,
    ) -> Result<Filled, Refusal> {
        let is_enough = |landed: &Landed| wanted.streamed || !landed.is_streaming();
        for _ in 0..MAX_TURNS {
            let landing = self.join(url, request, wanted.client, wanted.held.clone()).wait_until(is_enough);
            let landed = self.clock.by(deadline, landing).await;
            let Some(landed) = landed else {
                return Err(Refusal::new(Reason::DownstreamTimeout, "the object did not arrive in time"));
            };
            match landed {
                Some(landed) if landed.asked || self.suits(&landed, request) => return landed.outcome,
                // It was good enough for whoever began it, or its worker died.
                Some(_) | None => {}
            }
        }
        Err(Refusal::new(Reason::Internal, "the fetch failed repeatedly"))
    }

    /// Joins the fill of a URL, or begins one.
    fn join(
        &self,
        url: &OriginUrl,
        request: &RequestDirectives,
        client: ClientId,
        held: Option<FillPlace>,
    ) -> Landing<Landed> {
        let (flight, landing) = match Flights::turn(&self.flights, &flight_of(url, request), client) {
            Turn::Theirs(landing) => {
                self.lanes.look_again(url);
                return landing;
            }
            Turn::Ours(flight, landing) => (flight, landing),
        };
        // Somebody may have landed between our look and our turn.
        if let Some(known) = self.fresh(url, request) {
            flight.land(Landed { outcome: known.answer().map(Filled::Whole), asked: false });
            return landing;
        }
        let settings = self.settings.load();
        let now = self.clock.now();
        let limited = settings.rate.as_ref().map_or(Ok(()), |rate| self.begun.check(rate, now).map(drop));
        let refused = self.failed_lately(url).or(limited.err().map(Refusal::from));
        let ticket = match refused.map_or_else(|| self.lanes.admit(url, client), Err) {
            Ok(ticket) => ticket,
            Err(refusal) => {
                flight.land(Landed::asked(Err(refusal)));
                return landing;
            }
        };
        let deadline = Deadline::within(now, settings.fill_timeout);
        let (url, request) = (url.clone(), *request);
        let job = Job { url, request, deadline, ticket, flight, client, _held: held, place: None };
        self.lanes.push(job);
        landing
    }

    /// What is known of a URL, if it answers the request.
    fn fresh(&self, url: &OriginUrl, request: &RequestDirectives) -> Option<Known> {
        let now = ask::time(self.clock);
        self.table.get(url.text()).filter(|known| judge(known.stored(), request, now) == Verdict::Fresh)
    }

    /// Whether what was known already answers a request. That there is nothing does for all who do not insist.
    fn suits(&self, landed: &Landed, request: &RequestDirectives) -> bool {
        let now = ask::time(self.clock);
        match &landed.outcome {
            Ok(Filled::Whole(entry)) => judge(&entry.stored, request, now) == Verdict::Fresh,
            Ok(Filled::Streaming(_)) => true,
            Err(_) => !request.no_cache && request.max_age.is_none(),
        }
    }

    /// What may be served because asking failed.
    fn instead(&self, url: &OriginUrl, request: &RequestDirectives) -> Option<Arc<Entry>> {
        let known = self.table.get(url.text())?;
        let verdict = judge(known.stored(), request, ask::time(self.clock));
        known.entry().filter(|_| verdict != Verdict::Validate { if_error: false }).cloned()
    }

    /// Why the URL could not be fetched a moment ago, if it could not.
    fn failed_lately(&self, url: &OriginUrl) -> Option<Refusal> {
        self.table.failure(url.text(), self.clock.now())
    }
}

/// The client that a place is of.
fn client_of(held: Option<&FillPlace>) -> ClientId {
    held.map_or(blame::NOBODY, FillPlace::client)
}

/// The flight that brings the object of a URL to a request. One that forbids to store it has its own: it brings no more than can
/// be held in memory, which others must not have to wait for.
fn flight_of(url: &OriginUrl, request: &RequestDirectives) -> Arc<str> {
    if request.no_store { format!("no-store {}", url.text()).into() } else { Arc::clone(url.key()) }
}

/// Reads the index: what it knows of objects that are here, and of those that are nowhere.
async fn load(
    scope: &Scope,
    mut index: UrlIndex,
    max_entries: usize,
    cas: Arc<Cas>,
) -> Result<(UrlIndex, Vec<(Arc<str>, Known)>), Fault> {
    let now = ask::time(scope.clock());
    let job = move || {
        let rows = index.load(max_entries).unwrap_or_else(|error| {
            tracing::warn!(%error, "the index of URLs was lost");
            Vec::new()
        });
        let is_here = |known: &Known| known.entry().is_none_or(|entry| cas.contains(entry.id));
        let known =
            rows.into_iter().filter_map(|row| index::from_row(row, now)).filter(|(_, known)| is_here(known));
        let known: Vec<_> = known.collect();
        (index, known)
    };
    Ok(scope.blocking().run("read the url index", job).await?)
}
