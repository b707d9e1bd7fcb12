//! What is known of URLs, in memory and within a cap: what every request looks at first.

use std::{sync::Arc, time::Duration};

use quick_cache::sync::Cache;
use types::{Moment, ObjectId, Refusal};

use super::entry::Known;

/// Failures that are remembered.
const MAX_FAILURES: usize = 4096;
/// How long an origin that failed is left alone with the same question.
pub(super) const FAILURE_TTL: Duration = Duration::from_secs(2);

/// What is known of URLs. Look-ups from several cores at once do not wait for each other.
#[derive(Debug)]
pub(super) struct Table {
    known: Cache<Arc<str>, Known>,
    failed: Cache<Arc<str>, Failed>,
}

/// A fill that failed a moment ago.
#[derive(Clone, Debug)]
struct Failed {
    refusal: Refusal,
    until: Moment,
}

impl Table {
    pub(super) fn new(max_entries: usize) -> Self {
        Self { known: Cache::new(max_entries), failed: Cache::new(MAX_FAILURES) }
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
