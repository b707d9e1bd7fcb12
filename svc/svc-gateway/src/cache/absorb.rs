//! What becomes of a server's answer: it is stored, updates what is stored, or is passed on as it is.

use std::{ops::Range, pin::pin, sync::Arc, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode, header};
use http_body::Body as _;
use httpcache::{
    answer::{Answer, Part, decide_answer},
    reuse,
    status::{CacheStatus, Forwarded},
    storage::{self, NotStored, Rules, Storable},
    update::{self, HeadSays},
    variant::{RequestFields, Variant},
};
use httprules::{
    cache_control::RequestDirectives,
    date,
    freshness::{Time, Verdict},
};
use ron_kernel::topology::{ChildSpec, Plane, Stage};
use ron_transport::{Body, Response};

use super::{
    Entry, Head, ResponseCache,
    ask::{self, Ask},
    entry::{has_bytes, make_places, tell},
    fill::{Fill, Fresh, Read, Room},
    flights::{Audience, Flight, Landed},
    load::Loaded,
};
use crate::tenant::Tenant;

/// Reads a response into the store.
pub(crate) const CACHE_FILL: ChildSpec = ChildSpec {
    kind: "cache_fill",
    plane: Plane::Data,
    stop: Stage::Workers,
    bound: "the slots, one of which each such response holds until its last byte, and the revalidations",
    doc: "reads a response that is to be stored, as fast as its server sends it, and passes it to the clients that \
     requested it; ends two seconds after the last of them has left",
};

/// How long others wait for the end of a response that they cannot be given while it arrives.
const END_WITHIN: Duration = Duration::from_secs(1);

/// Fields that make an answer too large to be stored.
pub(super) const MAX_HEAD: u64 = 16 * 1024;

/// Marks an answer that must not be stored, whatever it says.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unstorable {
    /// Nobody can tell whether it is complete: it ends with its connection.
    EndsWithConnection,
    /// Its `Connection` named fields that may have said that it is not to be stored, and are no longer there.
    NamesFields,
}

impl Unstorable {
    /// Why an answer must not be stored; `None` if it does not have such a mark.
    pub(super) fn of(response: &Response) -> Option<NotStored> {
        response.extensions().get().map(|mark| match mark {
            Self::EndsWithConnection => NotStored::Useless,
            Self::NamesFields => NotStored::Connection,
        })
    }
}

/// A request that was sent to a server for the cache.
#[derive(Debug)]
pub(super) struct Fetch {
    pub(super) ask: Ask,
    /// The client's header fields.
    pub(super) sent: HeaderMap,
    pub(super) rules: Rules,
    /// The tenant whose share of the cache the response counts towards.
    pub(super) tenant: Arc<Tenant>,
    /// How often its target was invalidated before, about.
    pub(super) generation: u64,
    /// When it was sent, in seconds since 1970.
    pub(super) requested_at: u64,
    /// The stored response that the request validates or, for a HEAD, is about.
    pub(super) stored: Option<Arc<Entry>>,
    /// Whether the request has the stored response's validators instead of conditions of the client.
    pub(super) validates: bool,
    /// The bytes that the request asks for to complete the stored response, which is a part.
    pub(super) gap: Option<Range<u64>>,
    /// Whether the stored response answers if the server cannot.
    pub(super) if_error: bool,
    /// The body of the stored response, for as long as its server is asked about it.
    pub(super) held: Option<Loaded>,
    /// Those who wait for the answer.
    pub(super) flight: Option<Flight>,
    pub(super) why: Forwarded,
    /// The status of the server's answer, if it differs from the one that the client gets.
    pub(super) forwarded_status: Option<u16>,
}

/// Who is answered from what is stored.
#[derive(Clone, Copy, Debug)]
pub(super) struct Asker<'a> {
    pub(super) ask: &'a Ask,
    /// The client's header fields.
    pub(super) headers: &'a HeaderMap,
    pub(super) rules: &'a Rules,
}

impl Asker<'_> {
    /// What the client gets of a stored response.
    pub(super) fn answer(&self, entry: &Entry, now: u64) -> Answer {
        if !self.ask.is_conditional && entry.head.part.is_none() {
            return Answer::Whole;
        }
        let (head, stored) = (&entry.head, (entry.len, entry.head.part.as_ref()));
        decide_answer((&self.ask.method, self.headers), (head.status, &head.headers), stored, now)
    }
}

/// The result of handling a server's response.
pub(super) enum Absorbed {
    /// The response for the client.
    Answer(Response),
    /// It says that something is unchanged which is not what is stored: the request has to be sent without conditions.
    AskAgain(Box<Fetch>),
}

impl Fetch {
    pub(super) fn fields(&self) -> RequestFields<'_> {
        RequestFields { headers: &self.sent, removed: &self.ask.removed }
    }

    /// Returns the client that gets the response.
    pub(super) fn asker(&self) -> Asker<'_> {
        Asker { ask: &self.ask, headers: &self.sent, rules: &self.rules }
    }

    /// The same for answering without the server, if what is stored may answer then.
    pub(super) fn fallback(&self) -> Option<Self> {
        self.if_error.then(|| Self {
            ask: self.ask.clone(),
            sent: self.sent.clone(),
            tenant: Arc::clone(&self.tenant),
            stored: self.stored.clone(),
            held: self.held.clone(),
            gap: None,
            flight: None,
            ..*self
        })
    }

    fn status(&self) -> CacheStatus {
        let forwarded_status = self.forwarded_status;
        CacheStatus { forwarded: Some(self.why), forwarded_status, ..CacheStatus::default() }
    }
}

impl ResponseCache {
    /// Takes in a server's answer.
    pub(super) fn absorb(self: &Arc<Self>, mut fetch: Fetch, response: Response) -> Absorbed {
        let status = response.status();
        if fetch.validates && status == StatusCode::NOT_MODIFIED {
            let Some(stored) = fetch.stored.clone() else { return Absorbed::Answer(response) };
            if !update::confirms(&stored.head.headers, response.headers()) {
                self.index.remove(&stored);
                fetch.stored = None;
                return Absorbed::AskAgain(Box::new(fetch));
            }
            return match self.confirmed(&fetch, &stored, &response) {
                Some(answer) => Absorbed::Answer(answer),
                None => Absorbed::AskAgain(Box::new(fetch)),
            };
        }
        if let Some(gap) = fetch.gap.take() {
            return self.absorb_rest(fetch, &gap, response);
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

    /// Takes in the answer to a request for what a stored part lacks.
    fn absorb_rest(self: &Arc<Self>, mut fetch: Fetch, gap: &Range<u64>, response: Response) -> Absorbed {
        match response.status().as_u16() {
            206 => match self.completed(&fetch, gap, response) {
                Some(whole) => {
                    fetch.forwarded_status = Some(206);
                    Absorbed::Answer(self.take_in(fetch, whole))
                }
                None => Absorbed::AskAgain(Box::new(fetch)),
            },
            // It is, or may be, about the range, for which the client has not asked.
            304 | 400 | 412 | 416 | 500 | 501 => Absorbed::AskAgain(Box::new(fetch)),
            _ => Absorbed::Answer(self.take_in(fetch, response)),
        }
    }

    /// Answers with what is stored though it is stale, because the server cannot answer.
    pub(super) fn stale_for_error(&self, fetch: &Fetch, status: Option<StatusCode>) -> Option<Response> {
        let entry = fetch.stored.as_ref()?;
        // A hit is not forwarded (RFC 9211, 2.1): without an answer of the server it is as if it had not been asked.
        let said = match status {
            Some(status) => CacheStatus { forwarded_status: Some(status.as_u16()), ..fetch.status() },
            None => CacheStatus { is_hit: true, ..CacheStatus::default() },
        };
        let said = CacheStatus { detail: Some("grace"), ..said };
        let answer = self.answer_from(&fetch.asker(), entry, fetch.held.as_ref(), said)?;
        self.counts.stale.inc();
        Some(answer)
    }

    /// The server has confirmed a stored response, which is fresh again.
    fn confirmed(&self, fetch: &Fetch, stored: &Arc<Entry>, update: &Response) -> Option<Response> {
        let (updated, is_stored) = self.update(fetch, stored, update);
        if let Some(flight) = &fetch.flight {
            flight.tell(if is_stored { Landed::Stored } else { Landed::NotStored });
        }
        let said = CacheStatus { forwarded_status: Some(304), is_stored, ..fetch.status() };
        let answer = self.answer_from(&fetch.asker(), &updated, fetch.held.as_ref(), said)?;
        self.counts.revalidated.inc();
        Some(answer)
    }

    /// A stored response with the fields of an update, and whether it is stored like that. What could not be stored as a new
    /// response to the same request is for this client alone: the cookie that it sets, or what it says of an account, must
    /// not become part of what others get.
    fn update(&self, fetch: &Fetch, stored: &Arc<Entry>, update: &Response) -> (Arc<Entry>, bool) {
        let now = self.now();
        let mut headers = update::freshened(&stored.head.headers, update.headers());
        date_it(&mut headers, now.unix);
        let times = (fetch.requested_at, now);
        let judged = match Unstorable::of(update) {
            Some(why) => Err(why),
            None => storage::judge(&fetch.ask.asked, &fetch.rules, stored.head.status, &headers, times),
        };
        storage::strip(&mut headers);
        make_places(&mut headers);
        let mut head = Head { headers, ..stored.head.clone() };
        match judged {
            Ok(storable) if self.is_update(fetch, &storable, &head) => {
                let unsaid = stored.head.freshness.unsaid;
                head.freshness = httprules::freshness::Stored { unsaid, ..storable.freshness };
                (self.renew(stored, head), true)
            }
            Err(why) if why.is_for_everybody(&fetch.ask.asked) => {
                self.index.remove(stored);
                (stored.with_head(head), false)
            }
            _ => (stored.with_head(head), false),
        }
    }

    /// Whether updated fields can take the place of stored ones: they select the same requests, and are not too many.
    fn is_update(&self, fetch: &Fetch, storable: &Storable, head: &Head) -> bool {
        !storable.vary.iter().any(ask::is_rewritten)
            && storable.vary.iter().map(HeaderName::as_str).eq(head.variant.names())
            && head.variant.fits(&fetch.fields())
            && head.weight() <= MAX_HEAD
    }

    /// The answer to a HEAD updates what is stored of a GET, or ends it.
    fn absorb_head(&self, fetch: &Fetch, mut response: Response) -> Response {
        self.counts.miss.inc();
        if response.status() == StatusCode::OK
            && let Some(stored) = fetch.stored.as_ref().filter(|stored| stored.head.status == StatusCode::OK)
        {
            match update::compare_head(&stored.head.headers, stored.len, response.headers()) {
                // What one visitor is told may not be what the others would be told.
                HeadSays::Changed if fetch.ask.asked.is_personal() => {}
                HeadSays::Changed => self.index.remove(stored),
                HeadSays::Same => drop(self.update(fetch, stored, &response)),
            }
        }
        tell(&mut response, &fetch.status(), &fetch.rules);
        response
    }

    /// Stores an answer if it may be stored, and gives it to the client.
    fn take_in(self: &Arc<Self>, fetch: Fetch, response: Response) -> Response {
        self.counts.miss.inc();
        let received_at = self.now();
        let len = response.body().size_hint().exact();
        match self.judge(&fetch, &response, len, received_at) {
            Ok((storable, part)) => self.take_in_storable(fetch, response, (storable, part), received_at),
            Err(why) => self.pass_unstorable(fetch, response, why),
        }
    }

    /// Stores an answer that may be stored, if there is room for it.
    fn take_in_storable(
        self: &Arc<Self>,
        fetch: Fetch,
        mut response: Response,
        (storable, part): (Storable, Option<Part>),
        received_at: Time,
    ) -> Response {
        let len = response.body().size_hint().exact();
        let head = Head {
            partition: Arc::clone(&fetch.ask.partition),
            variant: Variant::of(&storable.vary, &fetch.fields()),
            status: response.status(),
            headers: stored_fields(response.headers(), len, received_at.unix),
            freshness: storable.freshness,
            part,
        };
        if head.weight() > MAX_HEAD {
            return self.unstored_for_all(fetch, response, "large-head");
        }
        let Some(room) = Room::reserve(&self.memory, &fetch.tenant, len, self.max_object) else {
            return self.unstored_for_all(fetch, response, "no-room");
        };
        tell(&mut response, &CacheStatus { is_stored: true, ..fetch.status() }, &fetch.rules);
        self.fill(fetch, head, room, response)
    }

    /// Passes an answer on that may not be stored, and lets go of what it replaces.
    fn pass_unstorable(&self, fetch: Fetch, response: Response, why: NotStored) -> Response {
        let status = response.status();
        let is_for_everybody = why.is_for_everybody(&fetch.ask.asked);
        if let Some(stored) = fetch.stored.as_ref().filter(|_| is_for_everybody && replaces(status)) {
            // What replaces it may not be stored, but it is no longer what its server would answer.
            self.index.remove(stored);
        }
        let word = (why != NotStored::Status || replaces(status)).then_some(why.word());
        // The next client without a cookie is likely to be given one, too. An error may be one client's own.
        let is_next = is_for_everybody || why == NotStored::SetCookie && !fetch.ask.asked.is_personal();
        if is_next && replaces(status) && fetch.flight.is_some() {
            self.remember_unstorable(&fetch.ask, self.now());
        }
        self.unstored(fetch, response, word)
    }

    /// Whether an answer is stored, and which part of its representation it is.
    fn judge(
        &self,
        fetch: &Fetch,
        response: &Response,
        len: Option<u64>,
        received_at: Time,
    ) -> Result<(Storable, Option<Part>), NotStored> {
        let (status, headers) = (response.status(), response.headers());
        let (as_status, part) = if status == StatusCode::PARTIAL_CONTENT {
            if fetch.sent.contains_key(header::IF_RANGE) {
                // It may lack what describes the representation (RFC 9110, 15.3.7): its client has that already.
                return Err(NotStored::Status);
            }
            let part = len.and_then(|len| Part::of(headers, len)).ok_or(NotStored::Status)?;
            (StatusCode::OK, Some(part))
        } else {
            (status, None)
        };
        if let Some(why) = Unstorable::of(response) {
            return Err(why);
        }
        // In a 200 the field means nothing, unless the server sends a part as if it were all (RFC 9110, 14.4).
        if part.is_none()
            && headers.contains_key(header::CONTENT_RANGE)
            && fetch.sent.contains_key(header::RANGE)
        {
            return Err(NotStored::Status);
        }
        let times = (fetch.requested_at, received_at);
        let storable = storage::judge(&fetch.ask.asked, &fetch.rules, as_status, headers, times)?;
        match storable.vary.iter().any(ask::is_rewritten) {
            true => Err(NotStored::Vary),
            false => Ok((storable, part)),
        }
    }

    /// Passes an answer on that is not stored, and neither would be the next.
    fn unstored_for_all(&self, fetch: Fetch, response: Response, why: &'static str) -> Response {
        if fetch.flight.is_some() {
            self.remember_unstorable(&fetch.ask, self.now());
        }
        self.unstored(fetch, response, Some(why))
    }

    /// Forwards a response that is not stored. Waiting clients send requests of their own.
    fn unstored(&self, fetch: Fetch, mut response: Response, why: Option<&'static str>) -> Response {
        tell(&mut response, &CacheStatus { detail: why, ..fetch.status() }, &fetch.rules);
        if let Some(flight) = &fetch.flight {
            flight.tell(Landed::NotStored);
        }
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
        if let Some(flight) = &flight {
            self.tell_filling(&fetch.ask, flight, &head, (len, &fill));
        }
        let audience = flight.as_ref().map(Flight::audience);
        let cache = Arc::clone(self);
        self.fills.spawn(async move {
            let mut reading = pin!(fill.read(body, room, |read| {
                let is_stored = cache.keep(&fetch, head, read);
                if let Some(flight) = flight {
                    flight.tell(if is_stored { Landed::Stored } else { Landed::NotStored });
                }
            }));
            if tokio::time::timeout(END_WITHIN, reading.as_mut()).await.is_err() {
                audience.iter().for_each(Audience::wait_no_longer);
                reading.await;
            }
        });
        Response::from_parts(parts, follow)
    }

    /// Tells those who wait for a response what they get of it while it arrives. One that has to be validated before it is
    /// reused is for the client that asked for it alone.
    fn tell_filling(&self, ask: &Ask, flight: &Flight, head: &Head, (len, fill): (Option<u64>, &Arc<Fill>)) {
        let now = self.now();
        if reuse::judge(&head.freshness, &RequestDirectives::default(), 0, now) != Verdict::Fresh {
            self.remember_unstorable(ask, now);
            flight.tell(Landed::NotStored);
        } else if len.is_some() && head.part.is_none() {
            let fresh = Fresh { head: head.clone(), len, fill: Arc::clone(fill) };
            flight.tell(Landed::Filling(Arc::new(fresh)));
        }
    }

    /// Keeps a response that was read; whether it is stored now.
    fn keep(&self, fetch: &Fetch, head: Head, read: Read) -> bool {
        let Read::Whole(bytes) = read else { return false };
        let (head, bytes) = self.combined(fetch, head, bytes);
        let entry = self.store(&fetch.ask, &fetch.fields(), &fetch.tenant, (head, &bytes), fetch.generation);
        if let (Some(flight), true) = (&fetch.flight, entry.is_some()) {
            flight.tell(Landed::Stored);
        }
        entry.is_some()
    }

    /// The answer to a request from a stored response, whose body is `held` if it is not in memory by itself; `None` if it
    /// cannot be had.
    pub(super) fn answer_from(
        &self,
        asker: &Asker<'_>,
        entry: &Arc<Entry>,
        held: Option<&Loaded>,
        said: CacheStatus,
    ) -> Option<Response> {
        let now = self.now();
        let (answer, is_head) = (asker.answer(entry, now.unix), asker.ask.method == Method::HEAD);
        if answer == Answer::NotStored {
            return None;
        }
        let loaded = match held {
            Some(held) => held.clone(),
            None if has_bytes(&answer, is_head) => self.in_memory(entry)?,
            None => Loaded::default(),
        };
        let mut response = entry.response(&answer, &loaded.bytes, is_head, now);
        tell(&mut response, &CacheStatus { ttl: Some(entry.head.ttl(now)), ..said }, asker.rules);
        if loaded.pin.is_none() && loaded.reserved.is_none() {
            return Some(response);
        }
        // Otherwise what slow clients read could be evicted and still take memory that nobody counts.
        Some(response.map(|body| body.holding((loaded.pin, loaded.reserved))))
    }

    /// The answer to a request from a response that is still on its way; `None` if it is not for this request.
    pub(super) fn answer_filling(&self, asker: &Asker<'_>, fresh: &Fresh) -> Option<Response> {
        let fields = RequestFields { headers: asker.headers, removed: &asker.ask.removed };
        let now = self.now();
        let verdict = reuse::judge(&fresh.head.freshness, &asker.ask.asked.directives, 0, now);
        if verdict != Verdict::Fresh || !fresh.head.variant.fits(&fields) {
            return None;
        }
        let mut response = fresh.head.response(fresh.fill.follow(fresh.len), now);
        let said = CacheStatus {
            forwarded: Some(Forwarded::UriMiss),
            is_collapsed: true,
            ttl: Some(fresh.head.ttl(now)),
            ..CacheStatus::default()
        };
        tell(&mut response, &said, asker.rules);
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
    make_places(&mut headers);
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
    tell(&mut response, &said, &Rules::default());
    response
}
