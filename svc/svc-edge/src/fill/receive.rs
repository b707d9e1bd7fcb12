//! From the head of an origin's answer to the object in the store: judged, read in bounded pieces, and kept whole or not at
//! all.

use std::sync::Arc;

use bytes::Bytes;
use cas::{Cas, Hot};
use decode::Coding;
use http::{HeaderMap, HeaderValue, Version, header};
use http_body_util::BodyExt as _;
use httprules::{
    etag::ETag,
    freshness::{Stored, may_store},
};
use ron_kernel::{Clock, Fault, blocking::Blocking};
use ron_transport::Body;
use types::Reason;

use super::{
    Entry,
    allow::Rule,
    ask::Answer,
    budget::{Budget, Part},
    client::Validators,
    failure::Failure,
    fields::Fields,
    pace::Pace,
    pool::WayHome,
    settings::FillSettings,
    spool::{self, Plan, Spool, Spooled, UNSTORED_MAX},
    worker::Job,
};
use crate::config::OriginEtag;

/// What is handed to the blocking pool at once.
const PIECE: usize = 256 * 1024;
/// In how many parts it may have come.
const MAX_PARTS: usize = 1024;
/// The longest value of a field that is kept.
const MAX_VALUE: usize = 1024;

/// What receiving needs.
#[derive(Clone, Debug)]
pub(super) struct Receiver {
    pub(super) blocking: Blocking,
    pub(super) cas: Arc<Cas>,
    pub(super) hot: Arc<Hot>,
    pub(super) budget: Budget,
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
    ) -> Result<Entry, Failure> {
        let headers = answer.response.headers();
        let validators = validators(headers, answer.from.rule())?;
        let fields = Fields::of(headers);
        let may_be_stored = may_store(&job.request, false, answer.response.status(), headers).is_ok();
        let (announced, plan) =
            self.plan(settings, &answer, store && may_be_stored && fields.can_be_kept())?;
        let known = announced.filter(|_| plan.coding == Coding::Identity);
        let (_share, part) = self.take(job, known.unwrap_or(PIECE as u64)).await?;
        let entry = Entry {
            id: types::ObjectId::new([0; 32]),
            len: 0,
            media_type: kept(headers, &header::CONTENT_TYPE),
            cache_control: kept(headers, &header::CACHE_CONTROL),
            fields,
            stored: answer.stored(settings.default_ttl),
            validators: if answer.redirected { Validators::default() } else { validators },
            held: None,
        };
        let body = (answer.response.into_body(), Pace::new(self.clock, settings.fill_timeout));
        let (spooled, part) = self.spool(plan, body, &answer.home, part).await?;
        let held = spooled.held.map(|bytes| part.hold(bytes));
        Ok(Entry { id: spooled.id, len: spooled.len, held, ..entry })
    }

    /// Waits for so many bytes: first for those of the origin, so that whoever waits for others of it waits in no one's way.
    async fn take(&self, job: &Job, bytes: u64) -> Result<(Part, Part), Failure> {
        let both = async {
            let share = job.url.rule().budget.take(bytes).await?;
            Ok::<_, Fault>((share, self.budget.take(bytes).await?))
        };
        self.clock.by(job.deadline, both).await.ok_or(Failure::Late)?.map_err(Failure::Ours)
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
        plan: Plan,
        (mut body, mut pace): (Body, Pace),
        home: &WayHome,
        mut part: Part,
    ) -> Result<(Spooled, Part), Failure> {
        let mut spool = None;
        loop {
            let (pieces, ended) = next_pieces(&mut body, &mut pace).await?;
            if ended && home.saw_more() {
                return Err(Failure::WentOn);
            }
            let (cas, hot) = (Arc::clone(&self.cas), Arc::clone(&self.hot));
            let job = move || {
                let mut spool = spool.map_or_else(|| Spool::open(&cas, plan), Ok)?;
                pieces.iter().try_for_each(|piece| spool.take(piece))?;
                Ok(if ended { Step::Done(spool.finish(&cas, &hot)?) } else { Step::More(spool) })
            };
            match self.blocking.run("store a filled object", job).await? {
                Err(failure) => return Err(failure),
                Ok(Step::Done(spooled)) => return Ok((spooled, part)),
                Ok(Step::More(unfinished)) => {
                    if !part.covers(unfinished.len()) {
                        part.grow_to(unfinished.len() + PIECE as u64).map_err(Failure::Ours)?;
                    }
                    spool = Some(unfinished);
                }
            }
        }
    }
}

enum Step {
    More(Spool),
    Done(Spooled),
}

/// The next bytes of a body, about [`PIECE`] of them, and whether they are the last.
async fn next_pieces(body: &mut Body, pace: &mut Pace) -> Result<(Vec<Bytes>, bool), Failure> {
    let (mut pieces, mut len) = (Vec::new(), 0);
    while len < PIECE && pieces.len() < MAX_PARTS {
        let Some(frame) = pace.wait(body.frame()).await? else { return Ok((pieces, true)) };
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
        cache_control: kept(headers, &header::CACHE_CONTROL).or_else(|| entry.cache_control.clone()),
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
