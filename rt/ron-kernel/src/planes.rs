//! The runtimes: a control plane, and a data plane of one single-threaded runtime per core.
//!
//! Connections are placed on a core and stay there, so their state is never shared. `RuntimeMode::Shared` runs the
//! same code on one work-stealing runtime: data-plane futures are `Send` for that reason.

use std::{
    io,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
        mpsc,
    },
    thread,
    time::Duration,
};

use tokio::{
    runtime::{Builder, Handle, Runtime},
    sync::oneshot,
};

use crate::{
    blocking::{APART_THREADS, BLOCKING_THREADS, Blocking},
    heartbeat::Pulse,
    lock::lock,
};

/// The name of the threads of a work-stealing data plane.
const SHARED: &str = "data";

/// Blocking threads of a data plane's runtime. Nothing of ours blocks there: the blocking pool's threads are the control
/// plane's. What a library still starts there waits for this one.
const STRAY_BLOCKING: usize = 1;

/// How the data plane is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeMode {
    /// One single-threaded runtime per core.
    PerCore,
    /// One work-stealing runtime for all cores.
    Shared,
    /// Everything on the runtime that is already running; for tests, which then own the clock. That runtime is not
    /// the kernel's to end, so children that outlive the drain go only when it does.
    Current,
}

/// One place on the data plane where connections live.
#[derive(Debug)]
pub struct Core {
    index: usize,
    handle: Handle,
    load: AtomicUsize,
    pulse: Arc<Pulse>,
}

impl Core {
    fn new(index: usize, handle: Handle) -> Arc<Self> {
        Arc::new(Self { index, handle, load: AtomicUsize::new(0), pulse: Arc::default() })
    }

    /// Returns the core's number, counted from zero.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Returns the number of connections on this core.
    #[must_use]
    pub fn load(&self) -> usize {
        self.load.load(Ordering::Relaxed)
    }

    pub(crate) fn handle(&self) -> &Handle {
        &self.handle
    }
}

/// A connection's place on a core; the core counts it until this is dropped.
#[derive(Debug)]
pub struct Seat(Arc<Core>);

impl Seat {
    /// Returns the core of this placement.
    #[must_use]
    pub fn core(&self) -> &Arc<Core> {
        &self.0
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        self.0.load.fetch_sub(1, Ordering::Relaxed);
    }
}

/// All runtimes of a node: the control plane and the cores.
#[derive(Debug)]
pub struct Planes {
    control: Handle,
    control_pulse: Arc<Pulse>,
    cores: Vec<Arc<Core>>,
    owned: Mutex<Option<Owned>>,
}

/// What has to be shut down: dropped in the order data plane, control plane.
#[derive(Debug)]
struct Owned {
    stop_cores: Vec<oneshot::Sender<()>>,
    threads: Vec<thread::JoinHandle<()>>,
    shared: Option<(Runtime, LiveThreads)>,
    control: Runtime,
    control_threads: LiveThreads,
}

/// How many threads of a runtime are alive; a runtime does not tell whether its shutdown timed out.
#[derive(Clone, Debug, Default)]
struct LiveThreads(Arc<AtomicUsize>);

impl LiveThreads {
    fn count(&self) -> usize {
        self.0.load(Ordering::Acquire)
    }

    /// A work-stealing runtime whose threads are counted.
    fn runtime(&self, workers: usize, blocking: usize, name: &str) -> io::Result<Runtime> {
        let (started, stopped) = (self.clone(), self.clone());
        Builder::new_multi_thread()
            .worker_threads(workers)
            .max_blocking_threads(blocking)
            .thread_name(name)
            .on_thread_start(move || {
                started.0.fetch_add(1, Ordering::AcqRel);
            })
            .on_thread_stop(move || {
                stopped.0.fetch_sub(1, Ordering::AcqRel);
            })
            .enable_all()
            .build()
    }
}

impl Planes {
    /// Starts the runtimes.
    ///
    /// # Errors
    /// If a thread or a poller cannot be had.
    pub fn start(mode: RuntimeMode, cores: usize) -> io::Result<Self> {
        if mode == RuntimeMode::Current {
            let control = Handle::current();
            let cores = vec![Core::new(0, control.clone())];
            return Ok(Self::new(control, cores, None));
        }
        let control_threads = LiveThreads::default();
        let mut owned = Owned {
            stop_cores: Vec::new(),
            threads: Vec::new(),
            shared: None,
            control: control_threads.runtime(2, BLOCKING_THREADS + APART_THREADS, "control")?,
            control_threads,
        };
        let handles = match mode {
            RuntimeMode::Shared => vec![owned.start_shared(cores)?],
            _ => (0..cores).map(|index| owned.start_core(index)).collect::<io::Result<_>>()?,
        };
        let cores = handles.into_iter().enumerate().map(|(index, handle)| Core::new(index, handle)).collect();
        Ok(Self::new(owned.control.handle().clone(), cores, Some(owned)))
    }

    fn new(control: Handle, cores: Vec<Arc<Core>>, owned: Option<Owned>) -> Self {
        Self { control, control_pulse: Arc::default(), cores, owned: Mutex::new(owned) }
    }

    /// Every runtime's pulse, by the runtime's name.
    pub(crate) fn pulses(&self) -> impl Iterator<Item = (String, &Handle, &Arc<Pulse>)> {
        let cores = self.cores.iter().map(|core| (format!("core-{}", core.index), &core.handle, &core.pulse));
        cores.chain(std::iter::once(("control".to_owned(), &self.control, &self.control_pulse)))
    }

    /// Returns the runtime of the control plane.
    pub(crate) fn control(&self) -> &Handle {
        &self.control
    }

    /// Returns the cores of the data plane.
    #[must_use]
    pub fn cores(&self) -> &[Arc<Core>] {
        &self.cores
    }

    /// A seat on the core with the fewest connections. Two callers may pick the same core at once; the next
    /// connection evens it out.
    #[must_use]
    pub fn seat(&self) -> Seat {
        self.seat_where(|_| true)
    }

    /// A seat on the core with the fewest connections among those that `suits`; among all if none does.
    #[must_use]
    pub fn seat_where(&self, suits: impl Fn(&Core) -> bool) -> Seat {
        let rank = |core: &&Arc<Core>| (!suits(core), core.load());
        let core = self.cores.iter().min_by_key(rank).expect("a data plane has at least one core");
        core.load.fetch_add(1, Ordering::Relaxed);
        Seat(Arc::clone(core))
    }

    /// Drops every task on every runtime and waits at most `grace` for each plane's threads, without those that are busy with
    /// jobs which nobody waits for.
    ///
    /// Not cancel safe: dropped, it goes on without telling.
    #[expect(clippy::disallowed_methods, reason = "this is where the planes' threads are made and kept")]
    pub(crate) async fn end(&self, grace: Duration, blocking: &Blocking) -> Ended {
        let owned = lock(&self.owned).take();
        let Some(owned) = owned else {
            return Ended::default();
        };
        // A thread of its own, because nothing may wait for a runtime from within another one.
        let (hand_over, taken) = oneshot::channel::<Owned>();
        let (done, ended) = oneshot::channel();
        let jobs = blocking.clone();
        let thread = thread::Builder::new().name("end".to_owned()).spawn(move || {
            if let Ok(owned) = taken.blocking_recv() {
                let _ = done.send(owned.end(grace, &jobs));
            }
        });
        // Without a thread nothing is waited for, which is allowed anywhere.
        if thread.is_err() {
            return owned.end(Duration::ZERO, blocking);
        }
        let _ = hand_over.send(owned);
        ended.await.unwrap_or_default()
    }
}

impl Planes {
    /// Ends the runtimes without waiting for anything; nothing if they have ended.
    pub(crate) fn let_go(&self) {
        if let Some(owned) = lock(&self.owned).take() {
            tracing::debug!("the runtimes end without a drain");
            owned.let_go();
        }
    }
}

impl Drop for Planes {
    /// Never blocks, and may run on one of the planes' own threads.
    fn drop(&mut self) {
        self.let_go();
    }
}

/// What did not let go when the runtimes were ended.
#[derive(Debug, Default)]
pub(crate) struct Ended {
    /// The names of the data plane's runtimes that still run.
    pub(crate) stuck: Vec<String>,
    /// Threads of the control plane that still run, those of the blocking pool among them, without those of jobs that nobody
    /// waits for.
    pub(crate) control_threads: usize,
}

impl Owned {
    /// A work-stealing data plane.
    fn start_shared(&mut self, threads: usize) -> io::Result<Handle> {
        let live = LiveThreads::default();
        let runtime = live.runtime(threads, STRAY_BLOCKING, SHARED)?;
        let handle = runtime.handle().clone();
        self.shared = Some((runtime, live));
        Ok(handle)
    }

    /// A thread with a runtime of its own, which runs until its stop channel is dropped.
    #[expect(clippy::disallowed_methods, reason = "this is where the data plane's threads are made and kept")]
    fn start_core(&mut self, index: usize) -> io::Result<Handle> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (send_handle, receive_handle) = mpsc::sync_channel(1);
        let thread = thread::Builder::new().name(format!("core-{index}")).spawn(move || {
            match Builder::new_current_thread().max_blocking_threads(STRAY_BLOCKING).enable_all().build() {
                Ok(runtime) => {
                    let _ = send_handle.send(Ok(runtime.handle().clone()));
                    let _ = runtime.block_on(stopped);
                    runtime.shutdown_background();
                }
                Err(error) => {
                    let _ = send_handle.send(Err(error));
                }
            }
        })?;
        self.threads.push(thread);
        self.stop_cores.push(stop);
        receive_handle.recv().map_err(|_| io::Error::other("a core's thread ended before it began"))?
    }

    /// The threads see that their stop channels are gone, and end by themselves.
    fn let_go(self) {
        drop(self.stop_cores);
        if let Some((shared, _)) = self.shared {
            shared.shutdown_background();
        }
        self.control.shutdown_background();
    }

    fn end(mut self, grace: Duration, blocking: &Blocking) -> Ended {
        self.stop_cores.clear();
        let mut stuck = join_within(self.threads, grace);
        if let Some((shared, live)) = self.shared.take() {
            shared.shutdown_background();
            wait_within(grace, || live.count() == 0);
            stuck.extend((live.count() > 0).then(|| SHARED.to_owned()));
        }
        self.control.shutdown_background();
        let control_threads = || self.control_threads.count().saturating_sub(blocking.busy_apart());
        wait_within(grace, || control_threads() == 0);
        Ended { stuck, control_threads: control_threads() }
    }
}

/// Joins threads that end within `grace`, and names the others.
fn join_within(threads: Vec<thread::JoinHandle<()>>, grace: Duration) -> Vec<String> {
    wait_within(grace, || threads.iter().all(thread::JoinHandle::is_finished));
    let (done, stuck): (Vec<_>, Vec<_>) = threads.into_iter().partition(thread::JoinHandle::is_finished);
    for thread in done {
        let _ = thread.join();
    }
    stuck.iter().map(|t| t.thread().name().unwrap_or("a core").to_owned()).collect()
}

/// Waits until `done`, or for `grace`. That is counted in steps, not by the clock: where the whole machine stalls, those who
/// are waited for do too.
fn wait_within(grace: Duration, done: impl Fn() -> bool) {
    const STEP: Duration = Duration::from_millis(2);
    let mut waited = Duration::ZERO;
    while waited < grace && !done() {
        thread::park_timeout(STEP);
        waited += STEP;
    }
}
