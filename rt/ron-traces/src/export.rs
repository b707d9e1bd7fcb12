//! The task that hands spans to the collector.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use prometheus_client::metrics::family::Family;
use ron_kernel::{
    Clock, Scope,
    metrics::Counter,
    queue::SharedReceiver,
    readiness::{Condition, Effect},
    retry::Backoff,
    spans::Span,
    supervisor::{TaskCtx, TaskResult},
};
use types::Deadline;

use crate::{
    encode,
    post::{Collector, PostError},
    topology::{SPAN_EXPORTER, SPAN_QUEUE, SPANS},
};

/// The most spans in one request: some hundred KiB.
const BATCH: usize = 512;
/// How long the first span of a batch waits for others.
const LINGER: Duration = Duration::from_secs(1);
/// How long a drain waits for the collector in all.
const FLUSH: Duration = Duration::from_secs(1);
/// How often a batch is tried.
const TRIES: u32 = 5;
/// The delays between two tries.
const BACKOFF: Backoff =
    Backoff::Added { base: Duration::from_millis(500), cap: Duration::from_secs(8), jitter: true };

/// Starts it, and has all services tell it of their spans.
pub(crate) fn start(scope: &Scope, collector: Collector) {
    let (queue, receiver) = scope.shedding_queue(&SPAN_QUEUE, "request", drop);
    let exporter = Arc::new(Exporter {
        spans: receiver.share(),
        collector,
        node: scope.node().to_owned(),
        clock: scope.clock(),
        counts: Counts::new(scope),
        retries: scope.metrics().retries("export"),
        unreachable: scope.condition("collector_unreachable", Effect::Report, Duration::ZERO),
    });
    scope.task(&SPAN_EXPORTER, move |ctx| Arc::clone(&exporter).run(ctx));
    // An exporter that has gone takes no more; the node is stopping then.
    scope.spans().send_to(move |span| drop(queue.try_send(span)));
}

struct Exporter {
    spans: SharedReceiver<Span>,
    collector: Collector,
    node: String,
    clock: Clock,
    counts: Counts,
    retries: Counter,
    /// Raised while batches are not taken.
    unreachable: Condition,
}

/// Counts of exported and dropped spans.
struct Counts {
    exported: Counter,
    refused: Counter,
    lost: Counter,
}

impl Counts {
    fn new(scope: &Scope) -> Self {
        let family = Family::<[(&'static str, &'static str); 2], Counter>::default();
        // The text encoder adds `_total` to counters.
        let name = SPANS.name.trim_end_matches("_total");
        scope.all_metrics().register(|registry| registry.register(name, SPANS.doc, family.clone()));
        let of = |result| family.get_or_create(&[("service", scope.service()), ("result", result)]).clone();
        Self { exported: of("exported"), refused: of("refused"), lost: of("lost") }
    }
}

impl Exporter {
    /// Exports until the node stops, then what is left.
    async fn run(self: Arc<Self>, ctx: TaskCtx) -> TaskResult {
        let mut flush_by = None;
        loop {
            let first = tokio::select! {
                biased;
                span = self.spans.recv() => span,
                // Only reached with nothing to export: no request is left to add to it.
                () = ctx.stopping() => None,
            };
            let Some(first) = first else { return Ok(()) };
            let batch = self.gather(first, &ctx).await;
            self.deliver(&batch, &ctx, &mut flush_by).await;
        }
    }

    /// A span and those that come soon after it.
    async fn gather(&self, first: Span, ctx: &TaskCtx) -> Vec<Span> {
        let mut batch = vec![first];
        let until = self.clock.now().after(LINGER);
        while batch.len() < BATCH {
            tokio::select! {
                biased;
                span = self.spans.recv() => match span {
                    Some(span) => batch.push(span),
                    None => break,
                },
                () = self.clock.sleep_until(until) => break,
                () = ctx.stopping() => break,
            }
        }
        batch
    }

    /// Hands a batch over, or counts it as lost. `flush_by` is when a drain stops waiting, once one has begun.
    async fn deliver(&self, batch: &[Span], ctx: &TaskCtx, flush_by: &mut Option<Deadline>) {
        let (count, body) = (batch.len() as u64, Bytes::from(encode::request(&self.node, batch)));
        let mut rng = fastrand::Rng::new();
        for tried in 1..=TRIES {
            let error = match self.post(body.clone(), ctx, flush_by).await {
                Ok(refused) => {
                    let refused = refused.min(count);
                    self.counts.refused.inc_by(refused);
                    self.counts.exported.inc_by(count - refused);
                    return self.unreachable.clear();
                }
                Err(error) => error,
            };
            self.unreachable.raise(format!("spans are not exported: {error}"));
            if tried == TRIES || !error.retryable() || flush_by.is_some() {
                break;
            }
            self.retries.inc();
            let wait = self.clock.now().after(BACKOFF.delay(tried - 1, &mut rng));
            tokio::select! {
                () = self.clock.sleep_until(wait) => {}
                () = ctx.stopping() => {}
            }
        }
        self.counts.lost.inc_by(count);
    }

    /// One attempt; cut short by a drain.
    async fn post(
        &self,
        body: Bytes,
        ctx: &TaskCtx,
        flush_by: &mut Option<Deadline>,
    ) -> Result<u64, PostError> {
        let attempt = self.clock.by(self.clock.within(self.collector.timeout), self.collector.post(body));
        tokio::pin!(attempt);
        if flush_by.is_none() {
            tokio::select! {
                biased;
                done = &mut attempt => return done.unwrap_or(Err(PostError::Timeout)),
                () = ctx.stopping() => *flush_by = Some(self.clock.within(FLUSH)),
            }
        }
        let by = flush_by.unwrap_or(Deadline::NEVER);
        self.clock.by(by, attempt).await.flatten().unwrap_or(Err(PostError::Timeout))
    }
}
