//! The one pool for work that blocks: files, databases, hashing of large inputs, PEM parsing.
//!
//! It is bounded twice, in threads and in callers waiting for one, and every job has a name, so that one that does
//! not end can be called by it.
//!
//! **Callers that are not polled.** A response's body is polled only while its client reads. If such a caller waited for
//! its thread by itself, it would be given one and would not use it until its client reads on, and as many stalled clients
//! as there are threads would stop the pool. So a job that has to wait is a task of its own: it takes a thread, runs and
//! gives the thread back, whether or not its caller is polled.

mod drops;

pub use drops::BlockingDrop;

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex, MutexGuard,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
};

use tokio::{
    runtime::Handle,
    sync::{OwnedSemaphorePermit, Semaphore},
    task::{JoinError, JoinHandle},
};

use crate::{
    lock::lock,
    metrics::{QueueMetrics, TaskMetrics},
    supervisor::panic_message,
};

/// Jobs running at once.
pub const BLOCKING_THREADS: usize = 16;
/// Jobs that may hang, running at once beside the others.
pub const APART_THREADS: usize = 16;
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
        /// The name of the job.
        job: &'static str,
        /// The message of the panic.
        fault: String,
    },
    /// The node is past its drain.
    #[error("the node is stopping")]
    Stopped,
}

/// The pool. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Blocking(Arc<Inner>);

/// A piece of blocking work.
#[derive(Clone, Copy, Debug)]
struct Job {
    name: &'static str,
    /// Whether it has one of the threads for what may hang.
    is_apart: bool,
}

impl Job {
    const fn usual(name: &'static str) -> Self {
        Self { name, is_apart: false }
    }
}

/// Work that leaves its result where its caller finds it. Boxed, so that the pool and the runtime's tasks are compiled once and not
/// for every caller: that was half of what the compiler made of some services.
type Work = Box<dyn FnOnce() + Send>;

/// Threads, and callers that wait for one of them.
#[derive(Debug)]
struct Lane {
    threads: Arc<Semaphore>,
    waiting: AtomicUsize,
}

impl Lane {
    fn new(threads: usize) -> Self {
        Self { threads: Arc::new(Semaphore::new(threads)), waiting: AtomicUsize::new(0) }
    }
}

#[derive(Debug)]
struct Inner {
    runtime: Handle,
    usual: Lane,
    /// For jobs that may hang.
    apart: Lane,
    next_id: AtomicU64,
    running: Mutex<BTreeMap<u64, Job>>,
    queue: QueueMetrics,
    tasks: TaskMetrics,
}

impl Blocking {
    pub(crate) fn new(runtime: Handle, queue: QueueMetrics, tasks: TaskMetrics) -> Self {
        Self(Arc::new(Inner {
            runtime,
            usual: Lane::new(BLOCKING_THREADS),
            apart: Lane::new(APART_THREADS),
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
    pub async fn run<T, F>(&self, job: &'static str, work: F) -> Result<T, BlockingError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_for_result(Job::usual(job), work).await
    }

    /// Runs `work` that may hang for as long as somebody else likes, such as a question to a name server. It takes no thread from
    /// other work, and the node ends without waiting for it: nothing may be lost by that.
    ///
    /// Cancel safe, as [`run`](Self::run) is.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub async fn run_apart<T, F>(&self, job: &'static str, work: F) -> Result<T, BlockingError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        self.run_for_result(Job { name: job, is_apart: true }, work).await
    }

    async fn run_for_result<T, F>(&self, job: Job, work: F) -> Result<T, BlockingError>
    where
        T: Send + 'static,
        F: FnOnce() -> T + Send + 'static,
    {
        let result = Arc::new(Mutex::new(None));
        let place = Arc::clone(&result);
        self.run_as(job, Box::new(move || *lock(&place) = Some(work()))).await?;
        lock(&result).take().ok_or(BlockingError::Stopped)
    }

    #[expect(clippy::disallowed_methods, reason = "the pool is where blocking work is started")]
    async fn run_as(&self, job: Job, work: Work) -> Result<(), BlockingError> {
        let waiter = self.wait_for_thread(job)?;
        let threads = &self.0.lane(job).threads;
        if let Ok(thread) = Arc::clone(threads).try_acquire_owned() {
            drop(waiter);
            return told(job.name, self.begin(job, thread, work).await);
        }
        let (pool, threads) = (self.clone(), Arc::clone(threads));
        let mut queued = Queued(self.0.runtime.spawn(async move {
            let thread = threads.acquire_owned().await;
            drop(waiter);
            told(job.name, pool.begin(job, thread.map_err(|_| BlockingError::Stopped)?, work).await)
        }));
        told(job.name, (&mut queued.0).await)?
    }

    /// Runs `work` on a thread, which is given back when it ends.
    #[expect(clippy::disallowed_methods, reason = "the pool is where blocking work is started")]
    fn begin(&self, job: Job, thread: OwnedSemaphorePermit, work: Work) -> JoinHandle<()> {
        let running = self.start(job);
        self.0.runtime.spawn_blocking(move || {
            let _until_done = (thread, running);
            work();
        })
    }

    /// The names of the jobs that are running and that the node waits for when it ends.
    #[must_use]
    pub fn running(&self) -> Vec<&'static str> {
        self.0.running().values().filter(|job| !job.is_apart).map(|job| job.name).collect()
    }

    /// How many threads are busy with jobs that the node does not wait for.
    pub(crate) fn busy_apart(&self) -> usize {
        self.0.running().values().filter(|job| job.is_apart).count()
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
        [&self.0.usual, &self.0.apart].map(|lane| lane.waiting.load(Ordering::Relaxed)).iter().sum()
    }

    fn wait_for_thread(&self, job: Job) -> Result<Waiter, BlockingError> {
        let waiting = &self.0.lane(job).waiting;
        if waiting.fetch_add(1, Ordering::Relaxed) >= BLOCKING_WAITERS {
            waiting.fetch_sub(1, Ordering::Relaxed);
            self.0.queue.busy.inc();
            self.0.queue.dropped.inc();
            return Err(BlockingError::Busy);
        }
        Ok(Waiter { pool: Arc::clone(&self.0), job })
    }

    fn start(&self, job: Job) -> Running {
        let id = self.0.next_id.fetch_add(1, Ordering::Relaxed);
        self.0.tasks.spawned.inc();
        self.0.running().insert(id, job);
        Running { pool: Arc::clone(&self.0), id }
    }
}

impl Inner {
    const fn lane(&self, job: Job) -> &Lane {
        if job.is_apart { &self.apart } else { &self.usual }
    }

    fn running(&self) -> MutexGuard<'_, BTreeMap<u64, Job>> {
        lock(&self.running)
    }
}

/// Turns the result of a joined job into a result or a typed error.
fn told<T>(job: &'static str, joined: Result<T, JoinError>) -> Result<T, BlockingError> {
    joined.map_err(|error| match error.try_into_panic() {
        Ok(payload) => BlockingError::Panicked { job, fault: panic_message(&*payload) },
        Err(_) => BlockingError::Stopped,
    })
}

/// A job that waits for a thread. If its caller goes away before it has one, it is not run.
struct Queued(JoinHandle<Result<(), BlockingError>>);

impl Drop for Queued {
    fn drop(&mut self) {
        self.0.abort();
    }
}

struct Waiter {
    pool: Arc<Inner>,
    job: Job,
}

impl Waiter {
    /// One more that waits, however many do.
    fn new(pool: &Arc<Inner>, job: Job) -> Self {
        pool.lane(job).waiting.fetch_add(1, Ordering::Relaxed);
        Self { pool: Arc::clone(pool), job }
    }
}

impl Drop for Waiter {
    fn drop(&mut self) {
        self.pool.lane(self.job).waiting.fetch_sub(1, Ordering::Relaxed);
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
