//! The access log: a line per request, written by one task behind a queue that forgets the oldest line rather than hold
//! up a request.
//!
//! ```text
//! begin ─▶ Entry, filled on the way ─▶ finish: goes with the response's body ─▶ queue ─▶ writer ─▶ file
//! ```
//!
//! Switched off, it costs a request one load and one comparison. What is known of a request is also what its span tells,
//! if traces are exported.

mod entry;
mod line;
mod output;
mod span;
mod waiting;
mod writer;

use std::sync::{
    Arc,
    atomic::{AtomicU32, AtomicU64, Ordering},
};

use arc_swap::ArcSwap;
use ron_kernel::{
    Clock, Scope,
    queue::Sender,
    readiness::Effect,
    spans::{SpanIds, Spans},
    topology::{Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec},
};

pub(crate) use entry::Entry;
pub(crate) use line::Line;
pub use output::OpenError;
pub(crate) use output::Output;
use waiting::{Room, Waiting};

use crate::config::{AccessFormat, AccessLogConfig};

/// The task that writes.
pub(crate) const ACCESS_LOG_WRITER: TaskSpec = TaskSpec {
    name: "access_log_writer",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    // After the last connection has ended, for whose requests there are lines too.
    stop: Stage::Support,
    doc: "writes the access log, some lines at a time",
};

/// The lines on their way to it.
pub(crate) const ACCESS_LOG_QUEUE: QueueSpec = QueueSpec {
    name: "access_log",
    capacity: 8192,
    policy: Policy::DropOldest,
    from: "requests, at the end of their responses",
    to: "access_log_writer",
    doc: "lines of the access log, at most 16 MiB of them; a discarded line counts as dropped",
};

/// All turns: a share of them is a share of the requests.
const ALL: u64 = 1 << 32;

/// The access log as one core sees it.
#[derive(Debug)]
pub(crate) struct AccessLog {
    shared: Arc<Shared>,
    lines: Lines,
    clock: Clock,
    turn: AtomicU32,
}

/// Where lines go: into the queue, as long as there is room for their bytes.
#[derive(Clone, Debug)]
struct Lines {
    queue: Sender<Waiting>,
    room: Room,
}

impl Lines {
    /// Sends a line on its way, or forgets it for want of room.
    fn send(&self, line: Line) {
        match self.room.take_in(line) {
            // A writer that has gone takes no more lines; the node is stopping then.
            Some(waiting) => drop(self.queue.try_send(waiting)),
            None => self.queue.count_dropped(),
        }
    }
}

#[derive(Debug)]
struct Shared {
    /// How many of [`ALL`] turns are logged; 0 if it is switched off.
    share: AtomicU64,
    sink: ArcSwap<Sink>,
}

/// Where lines go and how they are written.
#[derive(Debug)]
struct Sink {
    output: Output,
    format: AccessFormat,
}

impl AccessLog {
    /// Starts the writer; `output` is what [`Output::open`] made of the configuration.
    pub(crate) fn start(scope: &Scope, config: &AccessLogConfig, output: Output) -> Self {
        let (queue, receiver) = scope.shedding_queue(&ACCESS_LOG_QUEUE, "request", drop);
        let shared = Arc::new(Shared {
            share: AtomicU64::new(share(config)),
            sink: ArcSwap::from_pointee(Sink { output, format: config.format }),
        });
        writer::start(scope, receiver.share(), &shared);
        let lines = Lines { queue, room: Room::default() };
        Self { shared, lines, clock: scope.clock(), turn: AtomicU32::new(0) }
    }

    /// The same log for another core.
    pub(crate) fn for_core(&self) -> Self {
        Self {
            shared: Arc::clone(&self.shared),
            lines: self.lines.clone(),
            clock: self.clock,
            turn: AtomicU32::new(0),
        }
    }

    /// Goes on as configured now. A file that was moved away is left, because `output` was reopened.
    pub(crate) fn commit(&self, config: &AccessLogConfig, output: Output) {
        self.shared.sink.store(Arc::new(Sink { output, format: config.format }));
        self.shared.share.store(share(config), Ordering::Relaxed);
    }

    /// Whether the next request is logged.
    #[inline]
    pub(crate) fn wants_next(&self) -> bool {
        let share = self.shared.share.load(Ordering::Relaxed);
        // Steps of the golden ratio spread the logged requests evenly among the others.
        share > 0 && u64::from(self.turn.fetch_add(1, Ordering::Relaxed).wrapping_mul(0x9e37_79b9)) < share
    }

    /// Begins the line of a request: when the entry, or the body it goes with, is dropped, it is written if it is `logged`
    /// and told as a span where that belongs.
    pub(crate) fn begin(&self, line: Line, logged: bool, span: Option<(SpanIds, Spans)>) -> Entry {
        Entry::new(line, logged.then(|| self.lines.clone()), span, self.clock)
    }
}

#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "from 0 to ALL, and clamped")]
fn share(config: &AccessLogConfig) -> u64 {
    if config.enabled { (config.sample.clamp(0.0, 1.0) * ALL as f64).ceil() as u64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_between_none_and_all() {
        let of = |enabled, sample| share(&AccessLogConfig { enabled, sample, ..AccessLogConfig::default() });
        assert_eq!((of(false, 1.0), of(true, 0.0), of(true, 1.0)), (0, 0, ALL));
        assert_eq!(of(true, 0.5), ALL / 2);
        assert_eq!(of(true, 1e-12), 1, "some, however few");
    }
}
