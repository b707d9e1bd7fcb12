//! From the head of an origin's answer to the object in the store: judged, read in bounded pieces, and kept whole or not at
//! all.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use cas::{Cas, Hot, Tail};
use decode::Coding;
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderValue, Version, header};
use http_body_util::BodyExt as _;
use httprules::{
    etag::ETag,
    freshness::{Stored, may_store},
};
use ron_kernel::{
    Clock,
    blocking::{Blocking, BlockingDrop},
};
use ron_transport::Body;
use types::Reason;

use super::{
    Entry,
    allow::Rule,
    ask::Answer,
    budget::{Budget, Part},
    client::Validators,
    entry::MAX_VALUE,
    expected::Expected,
    failure::Failure,
    fields::Fields,
    lanes::Place,
    pace::{Interest, Pace},
    pool::WayHome,
    settings::FillSettings,
    spool::{self, Plan, Spool, Spooled, UNSTORED_MAX},
    streaming::{Announced, STREAMED_OVER, StreamSource},
    worker::Job,
};
use crate::config::OriginEtag;

/// What is handed to the blocking pool at once.
const PIECE: usize = 256 * 1024;
/// How often it is looked at whether others want an object whose client has no bytes left.
const LOOK: Duration = Duration::from_millis(100);
/// In how many parts it may have come.
const MAX_PARTS: usize = 1024;

/// The state that receiving an object needs.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) blocking: Blocking,
    pub(super) cas: Arc<Cas>,
    pub(super) hot: Arc<Hot>,
    pub(super) budget: Budget,
    /// The length up to which objects wait for no bytes.
    pub(super) small: u64,
    pub(super) clock: Clock,
    pub(super) amnesia: bool,
}

impl Receiver {
    /// Takes a 200 answer in, and stores it if it may be and `store` says so.
    ///
    /// Cancel safe: dropping the future closes the connection and leaves nothing in the store, but for an object that is
    /// whole and nobody knows of.
    pub(super) async fn receive(
        &self,
        settings: &FillSettings,
        job: &Job,
        answer: Answer,
        store: bool,
    ) -> Result<(Entry, Option<StreamSource>), Failure> {
        let headers = answer.response.headers();
        let validators = validators(headers, answer.from.rule())?;
        let entry = Entry {
            id: types::ObjectId::new([0; 32]),
            len: 0,
            media_type: kept(headers, &header::CONTENT_TYPE),
            cache_control: all_lines(headers, &header::CACHE_CONTROL),
            fields: Fields::of(headers),
            stored: answer.stored(settings.default_ttl),
            validators: if answer.redirected { Validators::default() } else { validators },
            held: None,
        };
        let may_be_stored = may_store(&job.request, false, answer.response.status(), headers).is_ok();
        let (announced, plan) =
            self.plan(settings, &answer, store && may_be_stored && entry.can_be_kept())?;
        let known = announced.filter(|_| plan.coding == Coding::Identity);
        let expected = Expected::of(headers, plan.coding);
        let part = self.take(job, known.unwrap_or(PIECE as u64), plan.store).await?;
        let streams = job.url.rule().stream && plan.store;
        let head = Announced { head: entry.clone(), len: known, expected: expected.id() };
        let mut stream = Stream { job, part, head: streams.then_some(head), source: None };
        let pace = Pace::new(self.clock, settings.fill_timeout, announced.is_some());
        let body = (answer.response.into_body(), pace);
        let spooled = self.spool((plan, expected), body, &answer.home, &mut stream).await?;
        let held = spooled.held.map(|bytes| stream.part.hold(bytes));
        Ok((Entry { id: spooled.id, len: spooled.len, held, ..entry }, stream.source))
    }

    /// Waits for so many bytes. Small objects that are stored wait for none; those that are not stay in memory for as long as
    /// somebody reads them. It is looked at now and then whose bytes they are by then.
    async fn take(&self, job: &Job, bytes: u64, is_stored: bool) -> Result<Part, Failure> {
        loop {
            let holder = job.holder();
            if is_stored && bytes <= self.small {
                return Ok(self.budget.take_small(holder, self.small));
            }
            let look = job.deadline.tightened(self.clock.within(LOOK));
            if let Some(taken) = self.clock.by(look, self.budget.take(holder, bytes)).await {
                return taken.map_err(Failure::Ours);
            }
            if job.deadline.has_passed(self.clock.now()) {
                return Err(Failure::Waited);
            }
        }
    }

    /// What the head says of the bytes to come.
    fn plan(
        &self,
        settings: &FillSettings,
        answer: &Answer,
        store: bool,
    ) -> Result<(Option<u64>, Plan), Failure> {
        let headers = answer.response.headers();
        let announced = http_body::Body::size_hint(answer.response.body()).exact();
        let framed =
            headers.contains_key(header::TRANSFER_ENCODING) || answer.response.version() >= Version::HTTP_2;
        // Where only the end of the connection ends a body, breaking off looks the same: whoever asked gets what came, as from
        // any proxy, and nobody else does.
        let store = store && (announced.is_some() || framed);
        let values = headers.get_all(header::CONTENT_ENCODING).iter().map(HeaderValue::as_bytes);
        let coding = Coding::parse(values).map_err(|error| {
            Failure::refused(Reason::BadGateway, format!("of the origin's answer: {error}"))
        })?;
        let max_len = if store { settings.max_object } else { settings.max_object.min(UNSTORED_MAX) };
        if announced.is_some_and(|len| len > max_len) {
            return Err(spool::too_large());
        }
        Ok((announced, Plan { coding, decode: settings.decode, max_len, store, amnesia: self.amnesia }))
    }

    /// Reads the body to its end.
    async fn spool(
        &self,
        (plan, expected): (Plan, Expected),
        (mut body, mut pace): (Body, Pace),
        home: &WayHome,
        stream: &mut Stream<'_>,
    ) -> Result<Spooled, Failure> {
        let (mut spool, mut expected) = (None::<BlockingDrop<Spool>>, Some(expected));
        let mut begins = stream.begins_at_once();
        loop {
            let (pieces, ended) = match std::mem::take(&mut begins) {
                true => (Vec::new(), false),
                false => next_pieces(&mut body, &mut pace, stream).await?,
            };
            if ended && home.saw_more() {
                return Err(Failure::WentOn);
            }
            let (cas, hot) = (Arc::clone(&self.cas), Arc::clone(&self.hot));
            let (expected, streamed_over) = (expected.take().unwrap_or_default(), stream.waits_for());
            let job = move || {
                let begun = spool.map(BlockingDrop::into_inner);
                let mut spool = begun.map_or_else(|| Spool::open(&cas, plan, expected), Ok)?;
                pieces.iter().try_for_each(|piece| spool.take(piece))?;
                if ended {
                    return Ok(Step::Done(spool.finish(&cas, &hot)?));
                }
                let is_due = streamed_over.is_some_and(|len| spool.len() >= len);
                let tail = if is_due { spool.tail()? } else { None };
                Ok(Step::More(spool, tail))
            };
            match self.blocking.run("store a filled object", job).await? {
                Err(failure) => return Err(failure),
                Ok(Step::Done(spooled)) => return Ok(spooled),
                Ok(Step::More(unfinished, tail)) => {
                    if !stream.part.covers(unfinished.len()) {
                        let bytes = unfinished.len() + PIECE as u64;
                        stream.part.grow_to(stream.job.holder(), bytes).map_err(Failure::Ours)?;
                    }
                    stream.grew(tail);
                    // A fill that is given up leaves a file to be removed, which blocks.
                    spool = Some(self.blocking.drop_on_pool("give a filled object up", unfinished));
                }
            }
        }
    }
}

/// An object that is being fetched, and may be sent meanwhile.
struct Stream<'a> {
    job: &'a Job,
    /// Its bytes of those that all fills may have.
    part: Part,
    /// What is said of it to those who get it; `None` if it is stored before it is served.
    head: Option<Announced>,
    /// `None` until it begins to be sent.
    source: Option<StreamSource>,
}

impl Stream<'_> {
    /// Whether it is known to be long before its first byte.
    fn begins_at_once(&self) -> bool {
        self.head.as_ref().is_some_and(|head| head.len.is_some_and(|len| len > STREAMED_OVER))
    }

    /// The number of bytes with which it begins to be sent; `None` if it does not, or has begun.
    fn waits_for(&self) -> Option<u64> {
        let head = self.head.as_ref().filter(|_| self.source.is_none())?;
        match head.len {
            Some(len) => (len > STREAMED_OVER).then_some(0),
            None => Some(STREAMED_OVER + 1),
        }
    }

    fn interest(&self) -> Interest {
        let (flight, is_read) = (&self.job.flight, self.source.as_ref().is_some_and(StreamSource::is_read));
        Interest { is_awaited: is_read || flight.is_awaited(), asked_for: flight.asked_for() }
    }

    /// Whether it should make way for another object, if nobody wants it.
    fn makes_way(&self) -> bool {
        self.job.place.as_ref().is_some_and(Place::makes_way) || self.part.makes_way()
    }

    /// There is more of it, and with the tail it begins.
    fn grew(&mut self, tail: Option<Tail>) {
        match (&self.source, tail, &self.head) {
            (Some(source), ..) => source.grew(),
            (None, Some(tail), Some(head)) => self.source = Some(StreamSource::begin(self.job, head, tail)),
            _ => {}
        }
    }
}

enum Step {
    More(Spool, Option<Tail>),
    Done(Spooled),
}

/// The next bytes of a body, about [`PIECE`] of them, or, if they are sent meanwhile, as many as are there; and whether they
/// are the last.
async fn next_pieces(
    body: &mut Body,
    pace: &mut Pace,
    stream: &Stream<'_>,
) -> Result<(Vec<Bytes>, bool), Failure> {
    let (mut pieces, mut len) = (Vec::new(), 0);
    while len < PIECE && pieces.len() < MAX_PARTS {
        let frame = match stream.source.is_some() && !pieces.is_empty() {
            true => match body.frame().now_or_never() {
                Some(frame) => frame,
                None => break,
            },
            false => pace.wait(body.frame(), || stream.interest(), || stream.makes_way()).await?,
        };
        let Some(frame) = frame else { return Ok((pieces, true)) };
        let frame = frame.map_err(|error| Failure::Broken(error.to_string()))?;
        if let Ok(data) = frame.into_data() {
            len += data.len();
            pace.received(data.len());
            pieces.push(data);
        }
    }
    Ok((pieces, false))
}

/// What the origin can be asked with next time.
///
/// # Errors
/// It has to have a strong tag and has none.
fn validators(headers: &HeaderMap, rule: &Rule) -> Result<Validators, Failure> {
    let etag = kept(headers, &header::ETAG);
    let is_strong = etag.as_ref().and_then(|value| Some(ETag::parse(value.as_bytes())?.is_strong()));
    if rule.etag == OriginEtag::Strong && is_strong != Some(true) {
        let what = if etag.is_some() { "its ETag is weak or broken" } else { "it has no ETag" };
        return Err(Failure::refused(
            Reason::EtagInvalid,
            format!("the origin's answer is not kept: {what}"),
        ));
    }
    Ok(Validators {
        etag: etag.filter(|_| is_strong.is_some()),
        last_modified: kept(headers, &header::LAST_MODIFIED),
    })
}

/// What an answer that what we have is still good changes of it.
pub(super) fn validated(entry: &Entry, answer: &Answer, settings: &FillSettings) -> Entry {
    let headers = answer.response.headers();
    let stored = entry.stored.validated(headers, answer.requested_at, answer.received_at);
    Entry {
        id: entry.id,
        len: entry.len,
        media_type: entry.media_type.clone(),
        cache_control: all_lines(headers, &header::CACHE_CONTROL).or_else(|| entry.cache_control.clone()),
        fields: entry.fields.validated(headers),
        // What was bounded by a redirect has no validators, and does not come here.
        stored: Stored { unsaid: settings.default_ttl, at_most: u64::MAX, ..stored },
        validators: entry.validators.clone(),
        held: None,
    }
}

/// The value of a field, unless it is too long to be kept for every object.
fn kept(headers: &HeaderMap, name: &http::HeaderName) -> Option<HeaderValue> {
    headers.get(name).filter(|value| value.len() <= MAX_VALUE).cloned()
}

/// The value of a field that is a list, of all lines: what one of them forbids must not get lost.
fn all_lines(headers: &HeaderMap, name: &http::HeaderName) -> Option<HeaderValue> {
    let lines: Vec<&[u8]> = headers.get_all(name).iter().map(HeaderValue::as_bytes).collect();
    (!lines.is_empty()).then(|| HeaderValue::from_bytes(&lines.join(b", ".as_slice())).ok()).flatten()
}
