//! What is known of URLs, in memory and within a cap: what every request looks at first.

use std::{sync::Arc, time::Duration};

use quick_cache::{Weighter, sync::Cache};
use types::{Moment, ObjectId, Refusal};

use super::entry::Known;

/// Failures that are remembered.
const MAX_FAILURES: usize = 4096;
/// How long an origin that failed is left alone with the same question.
pub(super) const FAILURE_TTL: Duration = Duration::from_secs(2);

/// What an entry may take, in bytes: one with a longer URL or longer fields counts as several.
const USUAL: usize = 512;
/// What it takes besides its text, about.
const OVERHEAD: usize = 350;

/// What is known of URLs. Look-ups from several cores at once do not wait for each other.
#[derive(Debug)]
pub(super) struct Table {
    known: Cache<Arc<str>, Known, BySize>,
    failed: Cache<Arc<str>, Failed>,
}

/// A fill that failed a moment ago.
#[derive(Clone, Debug)]
struct Failed {
    refusal: Refusal,
    until: Moment,
}

#[derive(Clone, Debug)]
struct BySize;

impl Weighter<Arc<str>, Known> for BySize {
    fn weight(&self, url: &Arc<str>, known: &Known) -> u64 {
        let text = url.len() + known.entry().map_or(0, |entry| entry.text_len());
        (OVERHEAD + text).div_ceil(USUAL) as u64
    }
}

impl Table {
    /// Room for so many entries of the usual size.
    pub(super) fn new(max_entries: usize) -> Self {
        let known = Cache::with_weighter(max_entries, max_entries as u64, BySize);
        Self { known, failed: Cache::new(MAX_FAILURES) }
    }

    pub(super) fn get(&self, url: &str) -> Option<Known> {
        self.known.get(url)
    }

    /// What is known from now on.
    pub(super) fn learn(&self, url: &Arc<str>, known: Known) {
        self.known.insert(Arc::clone(url), known);
        self.failed.remove(&**url);
    }

    /// Nothing is known any more.
    pub(super) fn forget(&self, url: &str) {
        self.known.remove(url);
    }

    /// Nothing is known any more, if it was that the URL leads to this object.
    pub(super) fn forget_object(&self, url: &str, id: ObjectId) {
        let leads_there = |known: Known| known.entry().is_some_and(|entry| entry.id == id);
        if self.get(url).is_some_and(leads_there) {
            self.forget(url);
        }
    }

    /// Remembers for a moment that a fill failed.
    pub(super) fn fail(&self, url: &Arc<str>, refusal: Refusal, now: Moment) {
        self.failed.insert(Arc::clone(url), Failed { refusal, until: now.after(FAILURE_TTL) });
    }

    /// Why a fill failed a moment ago, if one did.
    pub(super) fn failure(&self, url: &str, now: Moment) -> Option<Refusal> {
        let failed = self.failed.get(url)?;
        (now < failed.until).then_some(failed.refusal)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use http::{HeaderMap, StatusCode};
    use httprules::freshness::Stored;
    use types::Reason;

    fn nothing() -> Known {
        Known::Nothing(Arc::new(Stored::of(StatusCode::NOT_FOUND, &HeaderMap::new(), 0, 0)))
    }

    fn remembered(table: &Table, urls: &[Arc<str>]) -> usize {
        urls.iter().filter(|url| table.get(url).is_some()).count()
    }

    #[test]
    fn long_urls_take_the_room_of_several() {
        let of_length =
            |len: usize| -> Vec<Arc<str>> { (0..2000).map(|n| format!("{n:0>len$}").into()).collect() };
        let (short, long) = (of_length(100), of_length(4000));
        for (urls, most) in [(short, 1000), (long, 1000 / 9 + 1)] {
            let table = Table::new(1000);
            urls.iter().for_each(|url| table.learn(url, nothing()));
            let kept = remembered(&table, &urls);
            assert!((most / 2..=most).contains(&kept), "{kept} of at most {most}");
        }
    }

    #[test]
    fn a_failure_is_remembered_for_a_moment_and_until_something_is_known() {
        let (table, url, now) = (Table::new(10), Arc::from("https://a.example/"), Moment::from_nanos(7));
        let reason = |now| table.failure(&url, now).map(|refusal| refusal.reason);
        table.fail(&url, Reason::BadGateway.into(), now);
        assert_eq!(reason(now), Some(Reason::BadGateway));
        let over = now.after(FAILURE_TTL);
        assert_eq!(reason(Moment::from_nanos(over.as_nanos() - 1)), Some(Reason::BadGateway));
        assert_eq!(reason(over), None);
        table.learn(&url, nothing());
        assert_eq!(reason(now), None);
    }
}
