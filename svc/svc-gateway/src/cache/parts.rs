//! Parts of stored representations: combined when another one arrives, and completed when all of it is asked for.

use std::{
    ops::Range,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http::{HeaderMap, HeaderName, Method, StatusCode};
use http_body::{Body as HttpBody, Frame, SizeHint};
use httpcache::{
    answer::Part,
    partial::{self, Joined},
    storage,
    variant::RequestFields,
};
use ron_transport::{Body, BodyError, Request, Response};

use super::{
    Entry, Head, ResponseCache,
    absorb::{Fetch, MAX_HEAD, Unstorable},
    ask::{self, Ask},
    entry::make_places,
    load::Loaded,
};

impl ResponseCache {
    /// A stored part that is completed by asking for the bytes that are returned with it, for a request for all of its
    /// representation. A request that tells who sent it is answered as a whole: its bytes may be for its sender alone.
    pub(super) fn completable(&self, ask: &Ask, request: &Request) -> Option<(Arc<Entry>, Range<u64>)> {
        if ask.method != Method::GET || ask.asked.is_personal() || ask.asked.has_conditions {
            return None;
        }
        let fields = RequestFields { headers: request.headers(), removed: &ask.removed };
        let gap = |entry: Arc<Entry>| {
            let part = entry.head.part.as_ref().filter(|part| part.len <= self.max_object)?;
            if entry.head.variant.names().any(|name| matches!(name, "range" | "if-range")) {
                // The request for the rest would select another response.
                return None;
            }
            let missing = partial::missing(part)?;
            partial::conditions(&entry.head.headers, &missing).map(|_| (entry, missing))
        };
        self.index.parts(&ask.key, &ask.partition, &fields).into_iter().find_map(gap)
    }

    /// The whole response that a stored part and the rest of its representation make; `None` if what the server sent is not
    /// that rest.
    pub(super) fn completed(&self, fetch: &Fetch, gap: &Range<u64>, rest: Response) -> Option<Response> {
        let (stored, held) = (fetch.stored.as_ref()?, fetch.held.as_ref()?);
        let known = stored.head.part.as_ref()?;
        let part = Part::of(rest.headers(), rest.body().size_hint().exact()?)?;
        let fits = part.range == *gap
            && part.len == known.len
            && partial::are_same(&stored.head.headers, rest.headers())
            && Unstorable::of(&rest).is_none();
        if !fits {
            return None;
        }
        let (mut parts, body) = rest.into_parts();
        parts.status = StatusCode::OK;
        parts.headers = partial::combined(&stored.head.headers, &parts.headers, None, known.len);
        let body = Completed::new(held.clone(), body, known);
        Some(Response::from_parts(parts, Body::streaming(body)))
    }

    /// A response that was read, combined with the parts of the same representation that are in memory.
    pub(super) fn combined(&self, fetch: &Fetch, mut head: Head, mut bytes: Bytes) -> (Head, Bytes) {
        if head.part.is_none() {
            return (head, bytes);
        }
        for old in self.index.parts(&fetch.ask.key, &fetch.ask.partition, &fetch.fields()) {
            let (Some(part), Some(old_part)) = (&head.part, &old.head.part) else { break };
            if !partial::are_same(&old.head.headers, &head.headers) {
                // It goes when the new one is stored.
                continue;
            }
            // For as long as there are both and what they make.
            let Some(_room) = self.memory.reserve(&fetch.tenant, old.len + bytes.len() as u64) else { break };
            let Some(loaded) = self.in_memory(&old) else { continue };
            match partial::join((part, &bytes), (old_part, &loaded.bytes), self.max_object) {
                Joined::One(part, joined) => {
                    if let Some(together) = head_of_both(fetch, &old.head, &head, part) {
                        (head, bytes) = (together, joined.into());
                    }
                }
                Joined::Apart => {}
                Joined::Contradiction => self.index.remove(&old),
            }
        }
        (head, bytes)
    }
}

/// The head of what a stored part and a newer one make; `None` if that may not be stored.
fn head_of_both(fetch: &Fetch, old: &Head, new: &Head, part: Part) -> Option<Head> {
    let len = part.range.end - part.range.start;
    let part = Some(part).filter(|part| len < part.len);
    let mut headers = partial::combined(&old.headers, &new.headers, part.as_ref(), len);
    let times = (new.freshness.requested_at, new.freshness.received_at);
    let storable = storage::judge(&fetch.ask.asked, &fetch.rules, StatusCode::OK, &headers, times).ok()?;
    let selects_the_same = storable.vary.iter().map(HeaderName::as_str).eq(new.variant.names())
        && !storable.vary.iter().any(ask::is_rewritten);
    make_places(&mut headers);
    let status = if part.is_some() { StatusCode::PARTIAL_CONTENT } else { StatusCode::OK };
    let head = Head { status, headers, freshness: storable.freshness, part, ..new.clone() };
    (selects_the_same && head.weight() <= MAX_HEAD).then_some(head)
}

/// Makes a request ask for the bytes that a stored part lacks; whether it does.
pub(super) fn put_gap(headers: &mut HeaderMap, stored: &Entry, gap: &Range<u64>) -> bool {
    let conditions = partial::conditions(&stored.head.headers, gap);
    conditions.map(|fields| headers.extend(fields)).is_some()
}

/// The body of a representation of which a part is stored and the rest is on its way.
struct Completed {
    /// What is stored, to be given out before the rest.
    before: Option<Bytes>,
    rest: Option<Body>,
    /// What is stored, to be given out behind the rest.
    behind: Option<Bytes>,
    /// Bytes that are still to be given out.
    left: u64,
    /// Keeps what is stored in memory.
    _held: Loaded,
}

impl Completed {
    fn new(held: Loaded, rest: Body, stored: &Part) -> Self {
        let bytes = Some(held.bytes.clone());
        let (before, behind) = if stored.range.start == 0 { (bytes, None) } else { (None, bytes) };
        Self { before, rest: Some(rest), behind, left: stored.len, _held: held }
    }

    fn give(&mut self, data: Bytes) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        self.left = self.left.saturating_sub(data.len() as u64);
        Poll::Ready(Some(Ok(Frame::data(data))))
    }
}

impl HttpBody for Completed {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(before) = this.before.take() {
            return this.give(before);
        }
        if let Some(rest) = &mut this.rest {
            match ready!(Pin::new(rest).poll_frame(cx)) {
                Some(Ok(frame)) => {
                    // Trailers speak of the rest alone.
                    if let Ok(data) = frame.into_data() {
                        return this.give(data);
                    }
                }
                Some(Err(error)) => return Poll::Ready(Some(Err(error))),
                None => {}
            }
            this.rest = None;
        }
        match this.behind.take() {
            Some(behind) => this.give(behind),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
