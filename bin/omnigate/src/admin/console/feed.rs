//! The numbers once a second: looked up once, sent to everybody who watches.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http_body::Frame;
use http_body_util::StreamBody;
use ron_kernel::{
    Scope, Shutdown,
    readiness::Effect,
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec},
};
use ron_transport::{Body, BodyError, Response};
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};
use types::{Reason, Refusal};

use super::snapshot::Looker;
use crate::admin::reply;

/// Viewers at once; each holds one connection.
pub(in crate::admin) const MAX_VIEWERS: usize = 16;
/// Between two looks.
const EVERY: Duration = Duration::from_secs(1);
/// When a refused viewer should try again.
const BUSY_RETRY: Duration = Duration::from_secs(5);

/// The task that looks.
pub(in crate::admin) const FEED: TaskSpec = TaskSpec {
    name: "console",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "samples the node once a second while a console is open",
};

/// What it saw, on its way to the viewers.
pub(in crate::admin) const SNAPSHOTS: QueueSpec = QueueSpec {
    name: "console",
    capacity: 1,
    policy: Policy::Watch,
    from: "console",
    to: "viewers",
    doc: "the numbers that the console shows; a slow viewer misses some",
};

/// What is sent to viewers, and their places.
#[derive(Debug)]
pub(super) struct Feed {
    latest: watch::Sender<Bytes>,
    places: Arc<Semaphore>,
    /// Somebody has come to watch.
    wanted: Notify,
}

impl Feed {
    /// Starts to look, once somebody watches.
    pub(super) fn start(scope: &Scope, looker: Arc<Looker>) -> Arc<Self> {
        let feed = Arc::new(Self {
            latest: watch::Sender::new(Bytes::new()),
            places: Arc::new(Semaphore::new(MAX_VIEWERS)),
            wanted: Notify::new(),
        });
        let fed = Arc::clone(&feed);
        scope.task(&FEED, move |ctx| run(ctx, Arc::clone(&fed), Arc::clone(&looker)));
        feed
    }

    /// A viewer's stream, from the next look on.
    pub(super) fn open(&self, scope: &Scope) -> Result<Response, Refusal> {
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Refusal::new(Reason::Busy, format!("{MAX_VIEWERS} viewers watch the console already"))
                .retry_after(BUSY_RETRY)
        })?;
        let viewer =
            Viewer { latest: self.latest.subscribe(), shutdown: scope.shutdown().clone(), _place: place };
        self.wanted.notify_one();
        let frames = stream::unfold(viewer, |mut viewer| async move {
            let bytes = viewer.next().await?;
            Some((Ok::<_, BodyError>(Frame::data(bytes)), viewer))
        });
        let body = Body::streaming(StreamBody::new(frames));
        Ok(reply::with_type(StatusCode::OK, "text/event-stream", body))
    }
}

async fn run(ctx: TaskCtx, feed: Arc<Feed>, looker: Arc<Looker>) -> TaskResult {
    loop {
        tokio::select! {
            () = ctx.stopping() => return Ok(()),
            () = tokio::time::sleep(EVERY), if feed.latest.receiver_count() > 0 => {}
            () = feed.wanted.notified() => {}
        }
        let looker = Arc::clone(&looker);
        let seen = ctx.scope.blocking().run("look at the node", move || looker.look()).await;
        // A pool that is full has more important things to do.
        let Ok(seen) = seen else { continue };
        feed.latest.send_replace(Bytes::from(format!("data: {seen}\n\n")));
    }
}

/// One viewer's stream.
struct Viewer {
    latest: watch::Receiver<Bytes>,
    shutdown: Shutdown,
    _place: OwnedSemaphorePermit,
}

impl Viewer {
    /// What was seen next; nothing once the node has nothing left to show.
    async fn next(&mut self) -> Option<Bytes> {
        tokio::select! {
            biased;
            () = self.shutdown.reached(Stage::Support) => None,
            changed = self.latest.changed() => {
                changed.ok()?;
                Some(self.latest.borrow_and_update().clone())
            }
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use crate::admin::TOPOLOGY;
    use http_body_util::BodyExt;
    use ron_kernel::Kernel;
    use serde_json::Value;
    use std::num::NonZeroUsize;

    fn kernel() -> (Kernel, Scope, Arc<Feed>) {
        let kernel = Kernel::builder("n").cores(NonZeroUsize::MIN).build().unwrap();
        let scope = kernel.scope(&TOPOLOGY);
        let looker = Looker::new(&scope, "n".to_owned(), vec![&TOPOLOGY], Vec::new());
        let feed = Feed::start(&scope, Arc::new(looker));
        (kernel, scope, feed)
    }

    async fn next(body: &mut Body) -> Value {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        let text = std::str::from_utf8(&frame).unwrap();
        serde_json::from_str(text.strip_prefix("data: ").unwrap()).unwrap()
    }

    #[test]
    fn every_viewer_sees_the_same_and_nobody_looks_for_nobody() {
        let (kernel, scope, feed) = kernel();
        kernel.block_on(async {
            assert!(feed.latest.borrow().is_empty());
            let mut one = feed.open(&scope).unwrap().into_body();
            let first = next(&mut one).await;
            assert_eq!((&first["node"], &first["phase"]), (&"n".into(), &"running".into()));
            let mut two = feed.open(&scope).unwrap().into_body();
            assert_eq!(next(&mut two).await, next(&mut one).await);
        });
    }

    #[test]
    fn one_viewer_too_many_is_told_to_come_back_and_a_place_comes_free() {
        let (_kernel, scope, feed) = kernel();
        let mut open: Vec<_> = (0..MAX_VIEWERS).map(|_| feed.open(&scope).unwrap()).collect();
        let refusal = feed.open(&scope).unwrap_err();
        assert_eq!(refusal.reason, Reason::Busy);
        assert!(refusal.retry_after.is_some());
        open.pop();
        assert!(feed.open(&scope).is_ok());
    }
}
