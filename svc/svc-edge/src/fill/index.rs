//! The owner of the index of URLs: writes down what is known, in batches, and is the only one to do so.

use std::sync::Arc;

use cas::{Change, IndexError, UrlIndex, UrlRow};
use http::{HeaderValue, StatusCode};
use httprules::{
    cache_control::ResponseDirectives,
    date,
    freshness::{Stored, Time},
};
use ron_kernel::{
    Scope,
    lock::Ranked,
    queue::{Sender, SharedReceiver},
    readiness::{Condition, Effect},
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec},
};
use std::time::Duration;
use types::ObjectId;

use super::{
    Entry,
    client::Validators,
    entry::{Known, MAX_VALUE},
    fields::{self, Fields},
    path,
};
use crate::locks;

/// Changes that are written at once.
const BATCH: usize = 256;
/// What was received later than this many seconds from now is from before the clock was moved back.
const CLOCKS_DIFFER: u64 = 60;
/// Changes after which the index is cut to its size.
const PRUNE_EVERY: usize = 10_000;

/// The longest host with its scheme and port, and an `Expires`, in bytes.
const MAX_HOST_AND_DATE: usize = 512;
/// A row that does not fit would take those with it that are written at the same time: whatever is kept of a URL has to fit.
const _: () = assert!(
    path::MAX_LEN + MAX_HOST_AND_DATE + 4 * MAX_VALUE + fields::MAX_BYTES <= UrlRow::MAX_TEXT,
    "a URL and all that is kept of its fields fit into a row"
);

/// The queue of the task that owns the URL index.
pub(crate) const INDEX_QUEUE: QueueSpec = QueueSpec {
    name: "index",
    capacity: 1024,
    policy: Policy::Await { deadline: Duration::from_secs(1) },
    from: "fill_worker",
    to: "index_owner",
    doc: "updates of the URL index; an object whose update does not fit is fetched again after a restart",
};

/// The task that owns the URL index.
pub(crate) const INDEX_OWNER: TaskSpec = TaskSpec {
    name: "index_owner",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Writers,
    doc: "writes the URL index; no other task does",
};

/// An update of the URL index.
#[derive(Debug)]
pub(super) enum News {
    /// A new or changed row.
    Put(Box<UrlRow>),
    /// Nothing of a URL any more.
    Remove(Arc<str>),
    /// Nothing of the URLs that led to an object.
    RemoveObject(ObjectId),
}

/// The way to the owner. Without an index, nothing is written down.
#[derive(Clone, Debug)]
pub(super) struct IndexHandle(Option<Sender<News>>);

impl IndexHandle {
    /// Starts the owner, which keeps at most `max_entries`.
    pub(super) fn start(scope: &Scope, index: Option<UrlIndex>, max_entries: usize) -> Self {
        let Some(index) = index else { return Self(None) };
        let (sender, inbox) = scope.queue(&INDEX_QUEUE, "");
        // The owner is the only one to lock it; it outlives an owner that dies.
        let (index, inbox) = (Arc::new(Ranked::new(&locks::URL_INDEX, index)), inbox.share());
        let condition = scope.condition("url_index", Effect::Report, Duration::ZERO);
        scope.task(&INDEX_OWNER, move |ctx| {
            let (index, inbox, condition) = (Arc::clone(&index), inbox.clone(), condition.clone());
            Owner { ctx, index, inbox, condition, max_entries, since_prune: 0 }.run()
        });
        Self(Some(sender))
    }

    /// Tells the owner. What cannot be told is fetched again after a restart.
    ///
    /// Cancel safe: what was not taken is not told.
    pub(super) async fn tell(&self, news: News) {
        if let Some(sender) = &self.0 {
            let _ = sender.send(news).await;
        }
    }

    /// Tells the owner what is known of a URL, or that it is nothing.
    pub(super) async fn know(&self, url: &Arc<str>, known: Option<&Known>) {
        if self.0.is_none() {
            return;
        }
        let news = match known {
            Some(known) => News::Put(Box::new(to_row(url, known))),
            None => News::Remove(Arc::clone(url)),
        };
        self.tell(news).await;
    }
}

struct Owner {
    ctx: TaskCtx,
    index: Arc<Ranked<UrlIndex>>,
    inbox: SharedReceiver<News>,
    condition: Condition,
    max_entries: usize,
    since_prune: usize,
}

impl Owner {
    async fn run(mut self) -> TaskResult {
        while let Some(first) = self.inbox.recv_until_stop(&self.ctx).await {
            self.write(first).await;
        }
        self.inbox.close();
        while let Some(news) = self.inbox.recv().await {
            self.write(news).await;
        }
        Ok(())
    }

    /// Writes down a piece of news and whatever else there is by now.
    async fn write(&mut self, first: News) {
        let mut batch = vec![first];
        while batch.len() < BATCH
            && let Some(news) = self.inbox.try_recv()
        {
            batch.push(news);
        }
        self.since_prune += batch.len();
        let keep = (self.since_prune >= PRUNE_EVERY).then_some(self.max_entries);
        let index = Arc::clone(&self.index);
        let written = self
            .ctx
            .scope
            .blocking()
            .run("url index", move || write_down(&mut index.lock(), &batch, keep))
            .await;
        if keep.is_some() {
            self.since_prune = 0;
        }
        match written {
            Ok(Ok(())) => self.condition.clear(),
            Ok(Err(error)) => self.condition.raise(error.to_string()),
            Err(error) => self.condition.raise(error.to_string()),
        }
    }
}

fn write_down(index: &mut UrlIndex, batch: &[News], keep: Option<usize>) -> Result<(), IndexError> {
    let changes = batch.iter().map(|news| match news {
        News::Put(row) => Change::Put(row),
        News::Remove(url) => Change::Remove(url),
        News::RemoveObject(id) => Change::RemoveObject(*id),
    });
    let changes: Vec<_> = changes.collect();
    index.apply(&changes)?;
    keep.map_or(Ok(0), |keep| index.prune(keep)).map(drop)
}

/// What the index keeps of a URL.
fn to_row(url: &str, known: &Known) -> UrlRow {
    let stored = known.stored();
    let text = |value: &Option<HeaderValue>| value.as_ref()?.to_str().ok().map(str::to_owned);
    let lasts = stored.lifetime().saturating_sub(stored.age_when_received());
    let row = UrlRow {
        url: url.to_owned(),
        status: stored.status.as_u16(),
        expires: stored.expires.map(|expires| String::from_utf8_lossy(&date::format(expires)).into_owned()),
        date: Some(stored.date),
        age: stored.age,
        request_time: stored.requested_at,
        response_time: stored.received_at.unix,
        // Within what a database calls a number.
        fresh_until: stored.received_at.unix.saturating_add(lasts).min(i64::MAX as u64),
        used: stored.received_at.unix,
        ..UrlRow::default()
    };
    match known {
        Known::Nothing(_) => row,
        Known::Object(entry) => UrlRow {
            object: Some(entry.id),
            len: entry.len,
            media_type: text(&entry.media_type),
            etag: text(&entry.validators.etag),
            last_modified: text(&entry.validators.last_modified),
            cache_control: text(&entry.cache_control),
            fields: entry.fields.text(),
            ..row
        },
    }
}

/// What a row of the index says at `now`; `None` if it says nothing that makes sense. What is from the future, because the clock
/// was moved back, is validated before it is used.
pub(super) fn from_row(row: UrlRow, now: Time) -> Option<(Arc<str>, Known)> {
    let cache_control = row.cache_control.as_deref().map(str::as_bytes);
    let read =
        |text: &Option<String>| text.as_ref().map(|text| date::parse(text.as_bytes(), row.response_time));
    let stored = Stored {
        status: StatusCode::from_u16(row.status).ok()?,
        directives: ResponseDirectives::parse(cache_control),
        date: row.date.unwrap_or(row.response_time),
        age: row.age,
        expires: read(&row.expires).map(|expires| expires.unwrap_or(0)),
        last_modified: read(&row.last_modified).flatten(),
        requested_at: row.request_time,
        received_at: now.when(row.response_time),
        unsaid: 0,
        at_most: 0,
    };
    // How long it is good was decided when it came; settings may have changed.
    let lasts = row.fresh_until.saturating_sub(row.response_time);
    let lifetime = stored.age_when_received().saturating_add(lasts);
    let mut stored = Stored { unsaid: lifetime, at_most: lifetime, ..stored };
    stored.directives.no_cache |= row.response_time > now.unix.saturating_add(CLOCKS_DIFFER);
    let value = |text: Option<String>| HeaderValue::try_from(text?).ok();
    let known = match row.object {
        None => Known::Nothing(Arc::new(stored)),
        Some(id) => Known::Object(Arc::new(Entry {
            id,
            len: row.len,
            media_type: value(row.media_type),
            cache_control: value(row.cache_control),
            fields: row.fields.as_deref().map(Fields::from_text).unwrap_or_default(),
            stored,
            validators: Validators { etag: value(row.etag), last_modified: value(row.last_modified) },
            held: None,
        })),
    };
    Some((row.url.into(), known))
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use http::HeaderMap;
    use httprules::{
        cache_control::RequestDirectives,
        freshness::{Verdict, judge},
    };

    #[test]
    fn what_is_from_the_future_after_a_restart_is_validated_first() {
        let headers = HeaderMap::from_iter([(
            http::header::CACHE_CONTROL,
            HeaderValue::from_static("max-age=1000000, stale-while-revalidate=1000000"),
        )]);
        let received = 1_700_000_000;
        let known = Known::Nothing(Arc::new(Stored::of(StatusCode::NOT_FOUND, &headers, received, received)));
        let verdict = |unix| {
            let now = Time { unix, steady: 5 };
            let (_, known) = from_row(to_row("url", &known), now).unwrap();
            judge(known.stored(), &RequestDirectives::default(), now)
        };
        assert_eq!(verdict(received + 10), Verdict::Fresh);
        assert_eq!(verdict(received - CLOCKS_DIFFER), Verdict::Fresh);
        assert_eq!(verdict(received - CLOCKS_DIFFER - 1), Verdict::Validate { if_error: false });
    }
}
