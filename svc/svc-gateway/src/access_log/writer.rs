//! The task that writes the access log.

use std::{io, sync::Arc, time::Duration};

use ron_kernel::{
    Scope,
    lines::{self, LineLog, LineSink},
    queue::SharedReceiver,
    readiness::Effect,
};

use super::{ACCESS_LOG_WRITER, Shared, Sink, Waiting};

const ACCESS_LOG: LineLog =
    LineLog { task: &ACCESS_LOG_WRITER, name: "access log", job: "write the access log" };

/// Starts the task that writes the access log.
pub(super) fn start(scope: &Scope, lines: SharedReceiver<Waiting>, shared: &Arc<Shared>) {
    let shared = Arc::clone(shared);
    let lost = scope.condition("access_log", Effect::Report, Duration::ZERO);
    lines::start_writer(scope, ACCESS_LOG, lines, lost, move || Some(shared.sink.load_full() as _));
}

impl LineSink<Waiting> for Sink {
    fn add(&self, waiting: Waiting, batch: &mut Vec<u8>) {
        waiting.line().write(self.format, batch);
    }

    fn write(&self, batch: &[u8]) -> io::Result<()> {
        self.output.write(batch)
    }
}
