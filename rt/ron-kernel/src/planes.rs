//! The runtimes: a control plane, and a data plane of one single-threaded runtime per core.
//!
//! Connections are placed on a core and stay there, so their state is never shared. `RuntimeMode::Shared` runs the
//! same code on one work-stealing runtime: data-plane futures are `Send` for that reason.

use std::{
    io,
    sync::{
        Arc, Mutex, PoisonError,
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

use crate::heartbeat::Pulse;

/// How the data plane is laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RuntimeMode {
    /// One single-threaded runtime per core.
    PerCore,
    /// One work-stealing runtime for all cores.
    Shared,
    /// Everything on the runtime that is already running; for tests, which then own the clock.
    Current,
}

/// One place on the data plane where connections live.
#[derive(Debug)]
pub struct Core {
    index: usize,
    handle: Handle,
    load: AtomicUsize,
    pub(crate) pulse: Pulse,
}

impl Core {
    fn new(index: usize, handle: Handle) -> Arc<Self> {
        Arc::new(Self {
            index,
            handle,
            load: AtomicUsize::new(0),
            pulse: Pulse::default(),
        })
    }

    /// Its number, from zero.
    #[must_use]
    pub fn index(&self) -> usize {
        self.index
    }

    /// Connections placed here.
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
    /// The core.
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

/// All runtimes of a node.
#[derive(Debug)]
pub struct Planes {
    control: Handle,
    cores: Vec<Arc<Core>>,
    owned: Mutex<Option<Owned>>,
}

/// What has to be shut down: dropped in the order data plane, control plane.
#[derive(Debug)]
struct Owned {
    stop_cores: Vec<oneshot::Sender<()>>,
    threads: Vec<thread::JoinHandle<()>>,
    shared: Option<Runtime>,
    control: Runtime,
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
            return Ok(Self {
                control,
                cores,
                owned: Mutex::new(None),
            });
        }
        let control = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("control")
            .enable_all()
            .build()?;
        let mut owned = Owned {
            stop_cores: Vec::new(),
            threads: Vec::new(),
            shared: None,
            control,
        };
        let handles = match mode {
            RuntimeMode::Shared => vec![owned.start_shared(cores)?],
            _ => (0..cores)
                .map(|index| owned.start_core(index))
                .collect::<io::Result<_>>()?,
        };
        let cores = handles
            .into_iter()
            .enumerate()
            .map(|(index, handle)| Core::new(index, handle))
            .collect();
        Ok(Self {
            control: owned.control.handle().clone(),
            cores,
            owned: Mutex::new(Some(owned)),
        })
    }

    /// The control plane.
    pub(crate) fn control(&self) -> &Handle {
        &self.control
    }

    /// The data plane.
    #[must_use]
    pub fn cores(&self) -> &[Arc<Core>] {
        &self.cores
    }

    /// A seat on the core with the fewest connections. Two callers may pick the same core at once; the next
    /// connection evens it out.
    #[must_use]
    pub fn seat(&self) -> Seat {
        let core = self
            .cores
            .iter()
            .min_by_key(|core| core.load())
            .expect("a data plane has at least one core");
        core.load.fetch_add(1, Ordering::Relaxed);
        Seat(Arc::clone(core))
    }

    /// Drops every task on every runtime and waits at most `grace` for the threads. Returns the names of the
    /// runtimes that did not let go.
    pub(crate) fn end(&self, grace: Duration) -> Vec<String> {
        let Some(owned) = self.owned.lock().unwrap_or_else(PoisonError::into_inner).take() else {
            return Vec::new();
        };
        owned.end(grace)
    }
}

impl Owned {
    /// A work-stealing data plane.
    fn start_shared(&mut self, threads: usize) -> io::Result<Handle> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("data")
            .enable_all()
            .build()?;
        let handle = runtime.handle().clone();
        self.shared = Some(runtime);
        Ok(handle)
    }

    /// A thread with a runtime of its own, which runs until its stop channel is dropped.
    fn start_core(&mut self, index: usize) -> io::Result<Handle> {
        let (stop, stopped) = oneshot::channel::<()>();
        let (send_handle, receive_handle) = mpsc::sync_channel(1);
        let thread = thread::Builder::new()
            .name(format!("core-{index}"))
            .spawn(move || match Builder::new_current_thread().enable_all().build() {
                Ok(runtime) => {
                    let _ = send_handle.send(Ok(runtime.handle().clone()));
                    let _ = runtime.block_on(stopped);
                    runtime.shutdown_background();
                }
                Err(error) => {
                    let _ = send_handle.send(Err(error));
                }
            })?;
        self.threads.push(thread);
        self.stop_cores.push(stop);
        receive_handle
            .recv()
            .map_err(|_| io::Error::other("a core's thread ended before it began"))?
    }

    fn end(mut self, grace: Duration) -> Vec<String> {
        self.stop_cores.clear();
        if let Some(shared) = self.shared.take() {
            shared.shutdown_timeout(grace);
        }
        let stuck = join_within(self.threads, grace);
        self.control.shutdown_timeout(grace);
        stuck
    }
}

/// Joins threads that end within `grace`, and names the others.
fn join_within(threads: Vec<thread::JoinHandle<()>>, grace: Duration) -> Vec<String> {
    const STEP: Duration = Duration::from_millis(2);
    let mut waited = Duration::ZERO;
    while waited < grace && threads.iter().any(|t| !t.is_finished()) {
        thread::park_timeout(STEP);
        waited += STEP;
    }
    let (done, stuck): (Vec<_>, Vec<_>) = threads.into_iter().partition(thread::JoinHandle::is_finished);
    for thread in done {
        let _ = thread.join();
    }
    stuck
        .iter()
        .map(|t| t.thread().name().unwrap_or("a core").to_owned())
        .collect()
}
