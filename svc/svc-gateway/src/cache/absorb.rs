//! What becomes of a server's answer: it is stored, updates what is stored, or is passed on as it is.

use std::sync::Arc;

use http::{HeaderMap, HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use httpcache::{
    answer::{Answer, Part, decide_answer},
    control::Control,
    reuse,
    status::{CacheStatus, Forwarded},
    storage::{self, NotStored, Rules, Storable},
    update::{self, HeadSays},
    variant::{RequestFields, Variant},
};
use httprules::date;
use ron_kernel::topology::{ChildSpec, Plane, Stage};
use ron_transport::{Body, Response};

use super::{
    Entry, Head, ResponseCache,
    ask::{self, Ask},
    entry::tell,
    fill::{Fill, Fresh, Read, Room},
    flights::{Flight, Landed},
};
use crate::tenant::Tenant;

/// Reads a response into the store.
pub(crate) const CACHE_FILL: ChildSpec = ChildSpec {
    kind: "cache_fill",
    plane: Plane::Data,
    stop: Stage::Workers,
    bound: "the slots, each of which one such response holds until its last byte; those of revalidations besides",
    doc: "reads a response that is to be stored, as fast as its server sends it, and gives it out to those who asked for it",
};

/// Bodies up to this length are given out without being kept from eviction: the connection buffers as much.
const UNPINNED: u64 = 64 * 1024;

/// Fields that make an answer too large to be stored.
const MAX_HEAD: u64 = 16 * 1024;

/// Marks an answer of which nobody can tell whether it is complete: it ended with its connection.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EndsWithConnection;

/// A request that was sent to a server for the cache.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) ask: Ask,
    /// The client's fields.
    pub(super) sent: HeaderMap,
    pub(super) rules: Rules,
    /// Whose share it counts for.
    pub(super) tenant: Arc<Tenant>,
    /// How often its target was invalidated before, about.
    pub(super) generation: u64,
    /// When it was sent, in seconds since 1970.
    pub(super) requested_at: u64,
    /// The stored response that the request validates or, for a HEAD, is about.
    pub(super) stored: Option<Arc<Entry>>,
    /// Whether the request has the stored response's validators instead of conditions of the client.
    pub(super) validates: bool,
    /// Whether the stored response answers if the server cannot.
    pub(super) if_error: bool,
    /// Those who wait for the answer.
    pub(super) flight: Option<Flight>,
    pub(super) why: Forwarded,
}

/// What became of an answer.
pub(super) enum Absorbed {
    /// The client's answer.
    Answer(Response),
    /// It says that something is unchanged which is not what is stored: the request has to be sent without conditions.
    AskAgain(Box<Fetch>),
}

impl Fetch {
    fn fields(&self) -> RequestFields<'_> {
        RequestFields { headers: &self.sent, removed: &self.ask.removed }
    }

    fn status(&self) -> CacheStatus {
        CacheStatus { forwarded: Some(self.why), ..CacheStatus::default() }
    }
}

impl ResponseCache {
    /// Takes in a server's answer.
    pub(super) fn absorb(self: &Arc<Self>, mut fetch: Fetch, response: Response) -> Absorbed {
        let status = response.status();
        if fetch.validates && status == StatusCode::NOT_MODIFIED {
            let Some(stored) = fetch.stored.clone() else { return Absorbed::Answer(response) };
            if !update::confirms(&stored.head.headers, response.headers()) {
                self.index.remove(&fetch.ask.key, &stored);
                fetch.stored = None;
                return Absorbed::AskAgain(Box::new(fetch));
            }
            return match self.confirmed(&fetch, &stored, response.headers()) {
                Some(answer) => Absorbed::Answer(answer),
                None => Absorbed::AskAgain(Box::new(fetch)),
            };
        }
        if reuse::is_error(status)
            && fetch.if_error
            && let Some(answer) = self.stale_for_error(&fetch, Some(status))
        {
            return Absorbed::Answer(answer);
        }
        if fetch.ask.method == Method::HEAD {
            return Absorbed::Answer(self.absorb_head(&fetch, response));
        }
        Absorbed::Answer(self.take_in(fetch, response))
    }

    /// Answers with what is stored though it is stale, because the server cannot answer.
    pub(super) fn stale_for_error(&self, fetch: &Fetch, status: Option<StatusCode>) -> Option<Response> {
        let entry = fetch.stored.as_ref()?;
        let said = CacheStatus { is_hit: true, detail: Some("grace"), ..fetch.status() };
        let said = CacheStatus { forwarded_status: status.map(|status| status.as_u16()), ..said };
        let answer = self.answer_from(&fetch.ask, &fetch.sent, entry, said)?;
        self.counts.stale.inc();
        Some(answer)
    }

    /// The server has confirmed a stored response, which is fresh again.
    fn confirmed(&self, fetch: &Fetch, stored: &Arc<Entry>, update: &HeaderMap) -> Option<Response> {
        let renewed = self.renewed(fetch, stored, update);
        self.index.replace(&fetch.ask.key, stored, &renewed);
        if let Some(flight) = &fetch.flight {
            flight.tell(Landed::Stored);
        }
        let said = CacheStatus { forwarded_status: Some(304), is_stored: true, ..fetch.status() };
        let answer = self.answer_from(&fetch.ask, &fetch.sent, &renewed, said)?;
        self.counts.revalidated.inc();
        Some(answer)
    }

    /// A stored response with the fields of an update.
    fn renewed(&self, fetch: &Fetch, stored: &Arc<Entry>, update: &HeaderMap) -> Arc<Entry> {
        let now = self.now();
        let mut headers = update::freshened(&stored.head.headers, update);
        date_it(&mut headers, now);
        let mut freshness =
            Control::of(&headers).freshness(stored.head.status, &headers, fetch.requested_at, now);
        freshness.unsaid = stored.head.freshness.unsaid;
        freshness.at_most = stored.head.freshness.at_most;
        storage::strip(&mut headers);
        let head = Head { headers, freshness, ..stored.head.clone() };
        Arc::new(Entry { head, body: stored.body, len: stored.len, charge: Arc::clone(&stored.charge) })
    }

    /// The answer to a HEAD updates what is stored of a GET, or ends it.
    fn absorb_head(&self, fetch: &Fetch, mut response: Response) -> Response {
        self.counts.miss.inc();
        if response.status() == StatusCode::OK
            && let Some(stored) = fetch.stored.as_ref().filter(|stored| stored.head.status == StatusCode::OK)
        {
            match update::compare_head(&stored.head.headers, stored.len, response.headers()) {
                HeadSays::Changed => self.index.remove(&fetch.ask.key, stored),
                HeadSays::Same => {
                    let renewed = self.renewed(fetch, stored, response.headers());
                    *response.headers_mut() = renewed.head.headers.clone();
                    self.index.replace(&fetch.ask.key, stored, &renewed);
                }
            }
        }
        tell(&mut response, &fetch.status());
        response
    }

    /// Stores an answer if it may be stored, and gives it to the client.
    fn take_in(self: &Arc<Self>, fetch: Fetch, mut response: Response) -> Response {
        self.counts.miss.inc();
        let received_at = self.now();
        let len = response.body().size_hint().exact();
        match self.judge(&fetch, &response, len, received_at) {
            Ok((storable, part)) => {
                let room = Room::reserve(&self.memory, &fetch.tenant, len, self.max_object);
                let Some(room) = room else { return self.unstored(fetch, response, Some("no-room")) };
                let headers = stored_fields(response.headers(), len, received_at);
                let head = Head {
                    partition: Arc::clone(&fetch.ask.partition),
                    variant: Variant::of(&storable.vary, &fetch.fields()),
                    status: response.status(),
                    headers,
                    freshness: storable.freshness,
                    part,
                };
                if head.weight() > MAX_HEAD {
                    return self.unstored(fetch, response, Some("large-head"));
                }
                tell(&mut response, &CacheStatus { is_stored: true, ..fetch.status() });
                self.fill(fetch, head, room, response)
            }
            Err(why) => {
                if let Some(stored) = fetch.stored.as_ref().filter(|_| replaces(response.status())) {
                    // What replaces it may not be stored, but it is no longer what its server would answer.
                    self.index.remove(&fetch.ask.key, stored);
                }
                let is_remarkable = why != NotStored::Status;
                self.unstored(fetch, response, is_remarkable.then_some(why.word()))
            }
        }
    }

    /// Whether an answer is stored, and which part of its representation it is.
    fn judge(
        &self,
        fetch: &Fetch,
        response: &Response,
        len: Option<u64>,
        received_at: u64,
    ) -> Result<(Storable, Option<Part>), NotStored> {
        let (status, headers) = (response.status(), response.headers());
        let (as_status, part) = if status == StatusCode::PARTIAL_CONTENT {
            let part = len.and_then(|len| Part::of(headers, len)).ok_or(NotStored::Status)?;
            (StatusCode::OK, Some(part))
        } else {
            (status, None)
        };
        if response.extensions().get::<EndsWithConnection>().is_some() {
            return Err(NotStored::Useless);
        }
        let times = (fetch.requested_at, received_at);
        let storable = storage::judge(&fetch.ask.asked, &fetch.rules, as_status, headers, times)?;
        match storable.vary.iter().any(ask::is_rewritten) {
            true => Err(NotStored::Vary),
            false => Ok((storable, part)),
        }
    }

    /// Passes an answer on that is not stored.
    fn unstored(&self, fetch: Fetch, mut response: Response, why: Option<&'static str>) -> Response {
        if fetch.flight.is_some() {
            self.remember_unstorable(&fetch.ask.key, self.now());
        }
        tell(&mut response, &CacheStatus { detail: why, ..fetch.status() });
        // Whoever waits asks for itself when the flight is dropped.
        response
    }

    /// Stores an answer while it is given out.
    fn fill(self: &Arc<Self>, mut fetch: Fetch, head: Head, room: Room, response: Response) -> Response {
        let (parts, body) = response.into_parts();
        if body.is_end_stream() {
            self.keep(&fetch, head, Read::Whole(bytes::Bytes::new()));
            return Response::from_parts(parts, body);
        }
        let len = body.size_hint().exact();
        let fill = Arc::<Fill>::default();
        let follow = fill.follow(len);
        let flight = fetch.flight.take();
        if let (Some(flight), Some(_), None) = (&flight, len, &head.part) {
            let fresh = Fresh { head: head.clone(), len, fill: Arc::clone(&fill) };
            flight.tell(Landed::Filling(Arc::new(fresh)));
        }
        let cache = Arc::clone(self);
        self.fills.spawn(async move {
            fill.read(body, room, |read| {
                let is_stored = cache.keep(&fetch, head, read);
                if let Some(flight) = flight {
                    flight.tell(if is_stored { Landed::Stored } else { Landed::NotStored });
                }
            })
            .await;
        });
        Response::from_parts(parts, follow)
    }

    /// Keeps a response that was read; whether it is stored now.
    fn keep(&self, fetch: &Fetch, head: Head, read: Read) -> bool {
        let Read::Whole(bytes) = read else { return false };
        let entry = self.store(&fetch.ask, &fetch.fields(), &fetch.tenant, (head, &bytes), fetch.generation);
        if let (Some(flight), true) = (&fetch.flight, entry.is_some()) {
            flight.tell(Landed::Stored);
        }
        entry.is_some()
    }

    /// The answer to a request from a stored response; `None` if its body is gone.
    pub(super) fn answer_from(
        &self,
        ask: &Ask,
        request: &HeaderMap,
        entry: &Arc<Entry>,
        said: CacheStatus,
    ) -> Option<Response> {
        let (bytes, pin) = self.body(&ask.key, entry)?;
        let (now, head) = (self.now(), &entry.head);
        let stored = (entry.len, head.part.as_ref());
        let answer = decide_answer((&ask.method, request), (head.status, &head.headers), stored, now);
        if answer == Answer::NotStored {
            return None;
        }
        let mut response = entry.response(&answer, &bytes, ask.method == Method::HEAD, now);
        tell(&mut response, &CacheStatus { ttl: Some(head.ttl(now)), ..said });
        match pin.filter(|_| entry.len > UNPINNED) {
            // Otherwise what slow clients read could be evicted and still take memory that nobody counts.
            Some(pin) => Some(response.map(|body| body.holding(pin))),
            None => Some(response),
        }
    }

    /// The answer to a request from a response that is still on its way; `None` if it is not for this request.
    pub(super) fn answer_filling(&self, ask: &Ask, request: &HeaderMap, fresh: &Fresh) -> Option<Response> {
        let fields = RequestFields { headers: request, removed: &ask.removed };
        if !fresh.head.variant.fits(&fields) {
            return None;
        }
        let now = self.now();
        let mut response = fresh.head.response(fresh.fill.follow(fresh.len), now);
        let said = CacheStatus {
            forwarded: Some(Forwarded::UriMiss),
            is_collapsed: true,
            ttl: Some(fresh.head.ttl(now)),
            ..CacheStatus::default()
        };
        tell(&mut response, &said);
        self.counts.collapsed.inc();
        Some(response)
    }
}

/// Whether an answer that is not stored tells that what is stored is out of date.
fn replaces(status: StatusCode) -> bool {
    matches!(status.as_u16(), 200 | 203 | 204 | 404 | 410)
}

/// The fields of an answer that are stored.
fn stored_fields(headers: &HeaderMap, len: Option<u64>, received_at: u64) -> HeaderMap {
    let mut headers = headers.clone();
    storage::strip(&mut headers);
    date_it(&mut headers, received_at);
    if let Some(len) = len.filter(|len| *len > 0) {
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from(len));
    }
    headers
}

/// Dates an answer that came without a date (RFC 9110, 6.6.1).
fn date_it(headers: &mut HeaderMap, now: u64) {
    if !headers.contains_key(header::DATE)
        && let Ok(date) = HeaderValue::from_bytes(&date::format(now))
    {
        headers.insert(header::DATE, date);
    }
}

/// An answer to a request that wanted nothing but what is stored.
pub(super) fn not_cached() -> Response {
    let mut response = Response::new(Body::empty());
    *response.status_mut() = StatusCode::GATEWAY_TIMEOUT;
    let said = CacheStatus { detail: Some("only-if-cached"), ..CacheStatus::default() };
    tell(&mut response, &said);
    response
}
