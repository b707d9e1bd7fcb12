//! What operators do with the cache: look at it, and purge it by URL, prefix, tag or altogether.

use std::{sync::Arc, time::Duration};

use httpcache::tags;
use httprules::{freshness::Time, host};
use ron_kernel::blocking::BlockingError;
use serde::Serialize;

use super::{Entry, ResponseCache};
use crate::Gateway;

/// Most responses of one target that a report lists: as many as are stored.
const MOST_LISTED: usize = 32;

/// The longest time that the disk has to take note of a purge.
const SETTLED_WITHIN: Duration = Duration::from_secs(30);

/// Which stored responses are purged, of all tenants and variants.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Purge {
    /// Those of this URL: scheme, host, path and query.
    Url(String),
    /// Those of all URLs that begin like this.
    Prefix(String),
    /// Responses with this tag.
    Tag(String),
    /// All stored responses.
    All,
}

/// The state of the cache.
#[derive(Clone, Debug, Serialize)]
pub struct CacheStatusReport {
    /// Targets with stored responses.
    pub targets: usize,
    /// What the index and the bodies that were used last take in memory, in bytes.
    pub memory_bytes: u64,
    /// What bodies take on the disk, in bytes.
    pub disk_bytes: u64,
    /// Bodies on the disk.
    pub disk_objects: u64,
    /// Whether responses are stored on a disk: `memory`, `disk`, or `waiting` for a disk that cannot be used now.
    pub store: &'static str,
    /// The stored responses of the URL that was asked for.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub responses: Option<Vec<StoredVariant>>,
}

/// A stored response, as `cache show` lists it.
#[derive(Clone, Debug, Serialize)]
pub struct StoredVariant {
    /// The status of the response.
    pub status: u16,
    /// For whose requests it was stored.
    pub tenant: String,
    /// The age of the response in seconds.
    pub age: u64,
    /// For how many more seconds it is fresh; negative if it is stale.
    pub ttl: i64,
    /// The length of its body.
    pub len: u64,
    /// The hash of its body; absent if it has no bytes.
    pub body: Option<String>,
    /// The fields that select it. Their values may be secret and are not told.
    pub vary: Vec<String>,
    /// The tags of the response.
    pub tags: Vec<String>,
    /// Whether it is on the disk.
    pub on_disk: bool,
}

impl Purge {
    /// The same with scheme and host in their normal form, as keys have them.
    fn normal(self) -> Self {
        match self {
            Self::Url(url) => Self::Url(normal_url(&url)),
            Self::Prefix(prefix) => Self::Prefix(normal_url(&prefix)),
            other => other,
        }
    }

    fn takes(&self, entry: &Entry) -> bool {
        match self {
            Self::Url(url) => *entry.key == **url,
            Self::Prefix(prefix) => entry.key.starts_with(prefix.as_str()),
            Self::Tag(tag) => tags::has(&entry.head.headers, tag),
            Self::All => true,
        }
    }
}

/// A URL with scheme and host in their normal form, a path, and no fragment.
fn normal_url(url: &str) -> String {
    let url = url.split('#').next().unwrap_or_default();
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let end = rest.find(['/', '?']).unwrap_or(rest.len());
    let (host, target) = rest.split_at(end);
    let slash = if target.starts_with('/') { "" } else { "/" };
    let scheme = scheme.to_ascii_lowercase();
    let normal = host::normal(host, scheme == "https");
    format!("{scheme}://{}{slash}{target}", normal.as_deref().unwrap_or(host))
}

/// The reason why nothing was purged.
#[derive(Debug, thiserror::Error)]
pub enum PurgeError {
    /// No route has a cache.
    #[error("no route has a cache: give one `cache = {{}}`")]
    NoCache,
    /// The blocking pool did not do it.
    #[error("{0}")]
    Blocking(#[from] BlockingError),
    /// It is purged from memory, and the disk has not taken note of it.
    #[error(
        "{count} responses were purged, but not from the disk: they may come back with a restart; purge again"
    )]
    Unsettled {
        /// Number of purged responses.
        count: u64,
    },
}

impl Gateway {
    /// Purges stored responses, or with `soft` marks them stale, so that they are validated before they are fresh again.
    /// Responses that are on their way are not stored. Says how many, once they cannot come back, not even after a crash.
    ///
    /// Cancel safe in that what was begun is done.
    ///
    /// # Errors
    /// [`PurgeError`].
    pub async fn purge(&self, purge: Purge, soft: bool) -> Result<u64, PurgeError> {
        let cache = self.shared().cache.get().ok_or(PurgeError::NoCache)?;
        cache.purge(purge, soft).await
    }

    /// How the cache is doing, with the stored responses of a URL if one is named; `None` if no route has a cache.
    #[must_use]
    pub fn cache_report(&self, url: Option<&str>) -> Option<CacheStatusReport> {
        Some(self.shared().cache.get()?.report(url))
    }
}

impl ResponseCache {
    async fn purge(self: &Arc<Self>, purge: Purge, soft: bool) -> Result<u64, PurgeError> {
        let (cache, purge) = (Arc::clone(self), purge.normal());
        let work = move || cache.purge_now(&purge, soft);
        let count = self.blocking.run("purge the cache", work).await?;
        self.counts.purged.inc_by(count);
        let settled = self.clock.by(self.clock.within(SETTLED_WITHIN), self.settled(true)).await;
        settled.filter(|is_settled| *is_settled).map(|_| count).ok_or(PurgeError::Unsettled { count })
    }

    /// Goes through all that is stored: not on a core.
    fn purge_now(&self, purge: &Purge, soft: bool) -> u64 {
        // Before anything is looked at: what is taken over from the disk after that is not kept.
        if let Some(journal) = self.journal.as_ref().filter(|_| self.disk.get().is_none()) {
            journal.purge_early();
        }
        // First, so that nothing is stored that was asked for before.
        self.index.outdate_all();
        let key = match purge {
            Purge::Url(url) => Some(url.as_str()),
            _ => None,
        };
        let taken = self.index.entries(key).into_iter().filter(|entry| purge.takes(entry));
        let mut keys: Vec<_> = taken.map(|entry| Arc::clone(&entry.key)).collect();
        // The responses of a target are beside each other.
        keys.dedup();
        keys.iter().map(|key| self.purge_target(key, purge, soft)).sum()
    }

    /// Purges what is stored of a target by now: a response that was confirmed meanwhile is in the place of the one that was
    /// found.
    fn purge_target(&self, key: &str, purge: &Purge, soft: bool) -> u64 {
        let (mut count, mut renewed, now) = (0, Vec::new(), self.now());
        self.index.change(key, |entry| {
            if !purge.takes(entry) {
                return Some(Arc::clone(entry));
            }
            count += 1;
            soft.then(|| {
                let mut head = entry.head.clone();
                // As old as it is, it is stale from now on, and may be reused as stale responses may.
                head.freshness.at_most = head.freshness.at_most.min(head.freshness.age_at(now));
                let stale = entry.with_head(head);
                renewed.push((Arc::clone(entry), Arc::clone(&stale)));
                stale
            })
        });
        for (old, stale) in renewed {
            self.write(&stale, std::slice::from_ref(&old));
        }
        count
    }

    /// How the cache is doing, with the stored responses of a URL if one is named.
    fn report(&self, url: Option<&str>) -> CacheStatusReport {
        let (memory_bytes, targets) = self.size();
        let disk = self.disk.get().map(|disk| disk.stat());
        let store = match (&self.journal, &disk) {
            (None, _) => "memory",
            (Some(_), None) => "waiting",
            (Some(_), Some(_)) => "disk",
        };
        let now = self.now();
        let responses = url.map(|url| {
            let entries = self.index.entries(Some(&normal_url(url)));
            entries.iter().take(MOST_LISTED).map(|entry| StoredVariant::of(entry, now)).collect()
        });
        CacheStatusReport {
            targets,
            memory_bytes,
            disk_bytes: disk.map_or(0, |disk| disk.taken_bytes),
            disk_objects: disk.map_or(0, |disk| disk.objects),
            store,
            responses,
        }
    }
}

impl StoredVariant {
    fn of(entry: &Entry, now: Time) -> Self {
        let head = &entry.head;
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Self {
            status: head.status.as_u16(),
            tenant: entry.charge.tenant.name.to_string(),
            age: head.freshness.age_at(now),
            ttl: head.ttl(now),
            len: entry.len,
            body: entry.body.map(|body| body.to_string()),
            vary: head.variant.names().map(ToOwned::to_owned).collect(),
            tags: tags::of(&head.headers).map(text).collect(),
            on_disk: entry.is_on_disk(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_those_of_keys() {
        for (given, expected) in [
            ("HTTP://Example.ORG", "http://example.org/"),
            ("http://a:80/X?Y#z", "http://a/X?Y"),
            ("https://a:80/", "https://a:80/"),
            ("https://a?q", "https://a/?q"),
            ("nonsense", "nonsense"),
        ] {
            assert_eq!(normal_url(given), expected);
        }
    }
}
