//! Log files that a task of their own writes: it takes lines out of a queue and writes some at a time.

use std::{fmt, io, sync::Arc};

use crate::{
    Scope,
    queue::SharedReceiver,
    readiness::Condition,
    supervisor::{TaskCtx, TaskResult},
    topology::TaskSpec,
};

/// How much is written at once, in bytes, about.
const BATCH: usize = 64 * 1024;

/// What a log file is called where a service declares and reports it.
#[derive(Clone, Copy, Debug)]
pub struct LineLog {
    /// The task that writes it.
    pub task: &'static TaskSpec,
    /// Its name in messages, such as `access log`.
    pub name: &'static str,
    /// The name of the blocking job that writes a batch.
    pub job: &'static str,
}

/// Where lines of type `T` are written, and how.
pub trait LineSink<T>: Send + Sync {
    /// Adds a line, with its end, to the bytes that are written next.
    fn add(&self, line: T, batch: &mut Vec<u8>);

    /// Writes lines, whole or with an error. Blocking.
    ///
    /// # Errors
    /// The system's; the lines are then lost.
    fn write(&self, batch: &[u8]) -> io::Result<()>;
}

/// Starts the task that writes the lines of a queue to the sink that `current` gives at that moment; lines for which there
/// is none are dropped. `lost` is raised while lines are lost. When the node stops, the task writes what is left.
pub fn start_writer<T, F>(scope: &Scope, log: LineLog, lines: SharedReceiver<T>, lost: Condition, current: F)
where
    T: Send + 'static,
    F: Fn() -> Option<Arc<dyn LineSink<T>>> + Send + Sync + 'static,
{
    let writer = Arc::new(Writer { log, lines, current, lost });
    scope.task(log.task, move |ctx| Arc::clone(&writer).run(ctx));
}

struct Writer<T, F> {
    log: LineLog,
    lines: SharedReceiver<T>,
    current: F,
    /// Raised while lines are lost.
    lost: Condition,
}

impl<T, F> Writer<T, F>
where
    T: Send + 'static,
    F: Fn() -> Option<Arc<dyn LineSink<T>>> + Send + Sync + 'static,
{
    /// Writes until the node stops, then what is left.
    async fn run(self: Arc<Self>, ctx: TaskCtx) -> TaskResult {
        loop {
            tokio::select! {
                biased;
                line = self.lines.recv() => match line {
                    Some(line) => self.write(&ctx.scope, line).await,
                    None => return Ok(()),
                },
                // Only reached with nothing to write.
                () = ctx.stopping() => return Ok(()),
            }
        }
    }

    /// Writes a line and those that wait behind it.
    async fn write(&self, scope: &Scope, first: T) {
        let Some(sink) = (self.current)() else { return };
        let mut batch = Vec::new();
        sink.add(first, &mut batch);
        while batch.len() < BATCH
            && let Some(line) = self.lines.try_recv()
        {
            sink.add(line, &mut batch);
        }
        let written = scope.blocking().run(self.log.job, move || sink.write(&batch)).await;
        match written.map_err(io::Error::other).and_then(|done| done) {
            Ok(()) => self.lost.clear(),
            Err(error) => self.lost.raise(format!("lines of the {} are lost: {error}", self.log.name)),
        }
    }
}

impl<T, F> fmt::Debug for Writer<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Writer({})", self.log.name)
    }
}
