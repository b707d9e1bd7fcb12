//! The one pool for work that blocks: files, databases, hashing of large inputs, PEM parsing.
//!
//! It is bounded twice, in threads and in callers waiting for one, and every job has a name, so that one that does
//! not end can be called by it.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tokio::{runtime::Handle, sync::Semaphore};

use crate::{
    lock::lock,
    metrics::{QueueMetrics, TaskMetrics},
    supervisor::panic_message,
};

/// Jobs running at once.
pub const BLOCKING_THREADS: usize = 16;
/// Callers waiting for a thread.
pub const BLOCKING_WAITERS: usize = 512;

/// Why a job gave no result.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BlockingError {
    /// Too many callers are waiting already.
    #[error("too much blocking work is waiting")]
    Busy,
    /// The job panicked; the panic was caught.
    #[error("{job} {fault}")]
    Panicked {
        /// The job's name.
        job: &'static str,
        /// The panic's message.
        fault: String,
    },
    /// The node is past its drain.
    #[error("the node is stopping")]
    Stopped,
}

/// The pool. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Blocking(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    runtime: Handle,
    threads: Arc<Semaphore>,
    waiting: AtomicUsize,
    next_id: AtomicU64,
    running: Mutex<BTreeMap<u64, &'static str>>,
    queue: QueueMetrics,
    tasks: TaskMetrics,
}

impl Blocking {
    pub(crate) fn new(runtime: Handle, queue: QueueMetrics, tasks: TaskMetrics) -> Self {
        Self(Arc::new(Inner {
            runtime,
            threads: Arc::new(Semaphore::new(BLOCKING_THREADS)),
            waiting: AtomicUsize::new(0),
            next_id: AtomicU64::new(0),
            running: Mutex::default(),
            queue,
            tasks,
        }))
    }

    /// Runs `work` on a thread of the pool and waits for its result.
    ///
    /// Cancel safe in that nothing is lost, but work that has started runs to its end, counted and named.
    ///
    /// # Errors
    /// [`BlockingError::Busy`] at once if too many callers wait, otherwise what became of the job.
    #[expect(clippy::disallowed_methods, reason = "the pool is where blocking work is started")]
    pub async fn run<T, F>(&self, job: &'static str, work: F) -> Result<T, BlockingError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let waiter = self.wait_for_thread()?;
        let thread = Arc::clone(&self.0.threads).acquire_owned().await.map_err(|_| BlockingError::Stopped)?;
        drop(waiter);
        let running = self.start(job);
        let task = self.0.runtime.spawn_blocking(move || {
            let _until_done = (thread, running);
            work()
        });
        task.await.map_err(|error| match error.try_into_panic() {
            Ok(payload) => BlockingError::Panicked { job, fault: panic_message(&*payload) },
            Err(_) => BlockingError::Stopped,
        })
    }

    /// The names of the jobs that are running.
    #[must_use]
    pub fn running(&self) -> Vec<&'static str> {
        self.0.running().values().copied().collect()
    }

    /// The names of the jobs that are running when the node ends around them, each counted as aborted.
    pub(crate) fn abandon(&self) -> Vec<&'static str> {
        let jobs = self.running();
        self.0.tasks.aborted.inc_by(jobs.len() as u64);
        jobs
    }

    /// Callers waiting for a thread.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.0.waiting.load(Ordering::Relaxed)
    }

    fn wait_for_thread(&self) -> Result<Waiter, BlockingError> {
        if self.0.waiting.fetch_add(1, Ordering::Relaxed) >= BLOCKING_WAITERS {
            self.0.waiting.fetch_sub(1, Ordering::Relaxed);
            self.0.queue.busy.inc();
            self.0.queue.dropped.inc();
            return Err(BlockingError::Busy);
        }
        Ok(Waiter(Arc::clone(&self.0)))
    }

    fn start(&self, job: &'static str) -> Running {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        self.0.tasks.spawned.inc();
        self.0.running().insert(id, job);
        Running { pool: Arc::clone(&self.0), id }
    }
}

impl Inner {
    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, &'static str>> {
        lock(&self.running)
    }
}

struct Waiter(Arc<Inner>);

impl Drop for Waiter {
    fn drop(&mut self) {
        self.0.waiting.fetch_sub(1, Ordering::Relaxed);
    }
}

struct Running {
    pool: Arc<Inner>,
    id: u64,
}

impl Drop for Running {
    fn drop(&mut self) {
        // Counted here, because the caller may be gone.
        if std::thread::panicking() {
            self.pool.tasks.panicked.inc();
        }
        self.pool.running().remove(&self.id);
    }
}
