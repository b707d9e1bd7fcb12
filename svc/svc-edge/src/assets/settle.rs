//! Files that were asked for just after they were written: hashed once more when their times have settled.
//!
//! The times of a file have a grain, so a file that was written a moment ago may be written again without a change of its
//! times: what it hashed to then is not what it can be held to. So it is hashed again as soon as that is over, whether or not
//! somebody asks for it, and is held to that from then on.

use std::sync::Arc;

use ron_kernel::{
    Scope,
    queue::{Sender, SharedReceiver},
    readiness::Effect,
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec},
};
use types::Moment;

use super::{Hashing, HashingTurn, Roots};

/// The queue of the task that hashes files again.
pub(crate) const UNSETTLED: QueueSpec = QueueSpec {
    name: "unsettled",
    capacity: 4096,
    policy: Policy::RejectNew,
    from: "requests for files that were just written",
    to: "file_settler",
    doc: "files to be hashed once more when their time of modification has settled; a file that does not fit is hashed \
     and trusted at its next check",
};

/// The task that hashes files again once they have settled.
pub(crate) const FILE_SETTLER: TaskSpec = TaskSpec {
    name: "file_settler",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Intake,
    doc: "hashes files again that were requested just after they were written, one at a time",
};

/// A file that was written a moment ago.
#[derive(Debug)]
pub(crate) struct Unsettled {
    pub(super) roots: Arc<Roots>,
    pub(super) path: Box<str>,
    /// When its times say for sure whether it was changed.
    pub(super) due: Moment,
}

/// Starts the task that hashes files again.
pub(crate) fn start(scope: &Scope, hashing: &Arc<Hashing>) -> Sender<Unsettled> {
    let (sender, files) = scope.queue(&UNSETTLED, "");
    let (files, hashing) = (files.share(), Arc::clone(hashing));
    scope.task(&FILE_SETTLER, move |ctx| run(files.clone(), Arc::clone(&hashing), ctx));
    sender
}

async fn run(files: SharedReceiver<Unsettled>, hashing: Arc<Hashing>, ctx: TaskCtx) -> TaskResult {
    loop {
        let settle_next = async {
            match files.recv().await {
                Some(file) => {
                    settle(&ctx.scope, &hashing, file).await;
                    true
                }
                None => false,
            }
        };
        tokio::select! {
            biased;
            () = ctx.stopping() => return Ok(()),
            goes_on = settle_next => if !goes_on { return Ok(()) },
        }
    }
}

/// Waits until a file has settled, and hashes it. A large one waits for a turn, as those of clients do.
async fn settle(scope: &Scope, hashing: &Hashing, file: Unsettled) {
    let Unsettled { roots, path, due } = file;
    scope.clock().sleep_until(due).await;
    let mut turn: Option<HashingTurn> = None;
    loop {
        let (roots, wanted, has_turn) = (Arc::clone(&roots), path.clone(), turn.is_some());
        let hash = move || roots.settle(&wanted, turn.as_ref());
        match scope.blocking().run("hash a settled file", hash).await {
            Ok(Ok(false)) if !has_turn => {}
            Ok(_) => return,
            Err(error) => return tracing::warn!(%path, %error, "a file was not hashed once more"),
        }
        match hashing.own_turn().await {
            Ok(next) => turn = Some(next),
            Err(error) => return tracing::warn!(%path, %error, "a file was not hashed once more"),
        }
    }
}
