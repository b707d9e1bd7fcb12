//! From configuration to a cache, with what an earlier process has stored.

use std::{
    path::Path,
    sync::{Arc, OnceLock},
    time::Duration,
};

use cas::{Cas, Limits};
use quick_cache::sync::Cache;
use ron_kernel::{Scope, readiness::Effect};

use super::{
    CACHE_FETCH, CACHE_FILL, CACHE_REVALIDATE, CACHE_WRITER, CACHE_WRITES, REMEMBERED_UNSTORABLE,
    ResponseCache,
    disk::{CacheStoreError, Disk},
    index::Index,
    journal::Journal,
    metrics::{self, Counts},
    shares::Shares,
    writer::{self, Work},
};
use crate::{CacheConfig, buffers::BufferMemory, locks};

/// The least that a body takes, for a bound on their number.
const LEAST_IN_MEMORY: u64 = 256;
const LEAST_ON_DISK: u64 = 4096;

impl ResponseCache {
    /// A cache as configured: on the disk in `data_dir`, or in memory alone without one.
    ///
    /// # Errors
    /// [`CacheStoreError`] if the folder on the disk cannot be used and no time will change that.
    pub(crate) async fn open(
        scope: &Scope,
        config: &CacheConfig,
        memory: &Arc<BufferMemory>,
        data_dir: Option<&Path>,
    ) -> Result<Arc<Self>, CacheStoreError> {
        let disk_bytes = config.disk_bytes.as_u64();
        let Some(data_dir) = data_dir.filter(|_| disk_bytes > 0) else {
            return Ok(Self::new(scope, config, memory, None));
        };
        let condition = scope.condition("cache_store", Effect::Report, Duration::ZERO);
        let limits = limits(disk_bytes, LEAST_ON_DISK);
        let (open_in, blocking) = (data_dir.to_owned(), scope.blocking());
        let opened = match blocking.run("open the cache", move || Disk::open(&open_in, limits)).await {
            Ok(Ok(opened)) => Some(opened),
            Ok(Err(error)) if !error.may_pass() => return Err(error),
            Ok(Err(error)) => {
                condition.raise(writer::reason(&error));
                None
            }
            Err(error) => {
                condition.raise(error.to_string());
                None
            }
        };
        let (writes, inbox) = scope.queue(&CACHE_WRITES, "");
        let journal = Journal::new(writes, config.max_bytes.as_u64() / 8, scope.clock().unix());
        let cache = Self::new(scope, config, memory, Some(Arc::clone(&journal)));
        let work = Arc::new(Work {
            cache: Arc::downgrade(&cache),
            journal,
            inbox: inbox.share(),
            condition,
            data_dir: data_dir.to_owned(),
            limits,
            disk: Arc::new(ron_kernel::lock::Ranked::new(&locks::CACHE_DISK, None)),
        });
        if let Some((disk, found)) = opened
            && let Err(why) = cache.begin_on_disk(&work, blocking, disk, found).await
        {
            work.condition.raise(why);
        }
        scope.task(&CACHE_WRITER, move |ctx| writer::run(ctx, Arc::clone(&work)));
        Ok(cache)
    }

    fn new(
        scope: &Scope,
        config: &CacheConfig,
        memory: &Arc<BufferMemory>,
        journal: Option<Arc<Journal>>,
    ) -> Arc<Self> {
        let all = config.max_bytes.as_u64();
        let (for_bodies, for_index) = (all / 8 * 7, all / 8);
        let of_tenant = |bytes: u64| bytes / 100 * u64::from(config.tenant_percent);
        let stored = if journal.is_some() { config.disk_bytes.as_u64() } else { for_bodies };
        let cache = Arc::new(Self {
            clock: scope.clock(),
            index: Index::new(for_index),
            bodies: Arc::new(Cas::in_memory(limits(for_bodies, LEAST_IN_MEMORY))),
            disk: OnceLock::new(),
            journal,
            loads: Arc::default(),
            blocking: scope.blocking().clone(),
            flights: Arc::default(),
            unstorable: Cache::new(REMEMBERED_UNSTORABLE),
            shares: Shares::new(of_tenant(stored), of_tenant(for_index)),
            memory: Arc::clone(memory),
            max_object: config.max_object_bytes.as_u64(),
            fetches: scope.children(&CACHE_FETCH),
            fills: scope.children(&CACHE_FILL),
            revalidations: scope.children(&CACHE_REVALIDATE),
            counts: Counts::register(scope),
        });
        metrics::publish(scope, &cache);
        cache
    }
}

fn limits(max_bytes: u64, least: u64) -> Limits {
    Limits { max_bytes, max_objects: usize::try_from(max_bytes / least).unwrap_or(usize::MAX) }
}
