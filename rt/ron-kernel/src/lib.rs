//! The supervised, bounded, drainable runtime of every Omnigate service.
//!
//! A service declares what it runs in one `topology.rs` ([`topology::Topology`]), gets a [`Scope`] for it from
//! the [`Kernel`], and builds everything from that scope: tasks, queues, ranked locks, conditions, blocking
//! work. Because there is no other way to make them, each has a name, and, where it applies, a limit, a metric and
//! a place in the shutdown order. Only a lock that nothing is locked under may be a plain mutex.
//!
//! Two planes carry the work. The *data plane* is one single-threaded runtime per core, where connections
//! live and never move; the *control plane* is a multi-threaded runtime for everything that is not on a
//! request's path. A third, the thread that called [`Kernel::run`], only conducts: signals, heartbeats,
//! shutdown. It runs no service code, so nothing a service does can keep the process from ending.

pub mod audit;
pub mod blame;
pub mod blocking;
pub mod breaker;
pub mod bus;
mod chores;
pub mod clock;
mod conductor;
pub mod config;
pub mod docs;
mod exit;
pub mod failures;
mod fault;
pub mod files;
mod heartbeat;
mod inflight;
mod kernel;
pub mod lines;
pub mod lock;
mod log_file;
pub mod meter;
pub mod metrics;
mod own;
pub mod planes;
mod prober;
pub mod queue;
pub mod readiness;
pub mod reload;
pub mod retry;
mod scope;
mod shutdown;
mod signals;
pub mod spans;
pub mod supervisor;
pub mod topology;

pub use clock::Clock;
pub use exit::{Exit, ExitCode};
pub use fault::Fault;
pub use inflight::{InFlight, InFlightGuard, InFlightHere, InFlightShard};
pub use kernel::{Kernel, KernelBuilder, KernelError};
pub use log_file::LogFile;
pub use own::TOPOLOGY as KERNEL_TOPOLOGY;
pub use scope::Scope;
pub use shutdown::Shutdown;
pub use signals::Signals;
