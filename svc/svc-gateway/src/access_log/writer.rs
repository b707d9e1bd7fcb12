//! The task that writes the access log.

use std::{sync::Arc, time::Duration};

use futures_util::FutureExt as _;
use ron_kernel::{
    Scope,
    queue::SharedReceiver,
    readiness::{Condition, Effect},
    supervisor::{TaskCtx, TaskResult},
};

use super::{ACCESS_LOG_WRITER, Line, Shared};

/// How much is written at once, in bytes, about.
const BATCH: usize = 64 * 1024;

/// Starts it.
pub(super) fn start(scope: &Scope, lines: SharedReceiver<Line>, shared: &Arc<Shared>) {
    let condition = scope.condition("access_log", Effect::Report, Duration::ZERO);
    let writer = Arc::new(Writer { lines, shared: Arc::clone(shared), condition });
    scope.task(&ACCESS_LOG_WRITER, move |ctx| Arc::clone(&writer).run(ctx));
}

struct Writer {
    lines: SharedReceiver<Line>,
    shared: Arc<Shared>,
    /// Raised while lines are lost.
    condition: Condition,
}

impl Writer {
    /// Writes until the node stops, then what is left.
    async fn run(self: Arc<Self>, ctx: TaskCtx) -> TaskResult {
        loop {
            tokio::select! {
                biased;
                line = self.lines.recv() => match line {
                    Some(line) => self.write(&ctx.scope, line).await,
                    None => return Ok(()),
                },
                // Only reached with nothing to write: no request is left to add to it.
                () = ctx.stopping() => return Ok(()),
            }
        }
    }

    /// Writes a line and those that wait behind it.
    async fn write(&self, scope: &Scope, first: Line) {
        let sink = self.shared.sink.load_full();
        let mut batch = Vec::new();
        first.write(sink.format, &mut batch);
        while batch.len() < BATCH
            && let Some(line) = self.lines.recv().now_or_never().flatten()
        {
            line.write(sink.format, &mut batch);
        }
        let written = scope.blocking().run("write the access log", move || sink.output.write(&batch)).await;
        match written
            .map_err(|error| error.to_string())
            .and_then(|done| done.map_err(|error| error.to_string()))
        {
            Ok(()) => self.condition.clear(),
            Err(error) => self.condition.raise(format!("lines of the access log are lost: {error}")),
        }
    }
}
