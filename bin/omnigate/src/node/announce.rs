//! Saying that the node is up: to whoever started it, to the service manager, to the predecessor.

use std::{io::Write, sync::Arc, time::Duration};

use ron_kernel::{
    Scope,
    readiness::Effect,
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Restart, Stage, TaskSpec},
};
use ron_transport::inherit::StopNotice;
use tokio::sync::Notify;

use super::{
    manager::Manager,
    upgrade::{self, Successor},
};

/// The task that says so.
pub(crate) const ANNOUNCER: TaskSpec = TaskSpec {
    name: "announcer",
    plane: Plane::Control,
    restart: Restart::Never(Escalation::Degrade(Effect::Report)),
    stop: Stage::Readiness,
    doc: "reports when the node is ready, and tells the service manager when it stops or which process replaces it",
};

/// How long a full pipe on standard output is waited for.
const SLOW_READER: Duration = Duration::from_secs(1);

/// What there is to say, and to whom besides standard output.
pub(super) struct News {
    /// The listening addresses, as printed at startup.
    pub(super) banner: String,
    /// The process whose sockets we took over.
    pub(super) predecessor: Option<u32>,
    /// Whether that process was told to stop before we took over.
    pub(super) predecessor_stops: Option<StopNotice>,
    /// The process that takes ours over, once there is one.
    pub(super) successor: Arc<Successor>,
}

impl News {
    /// Stops the node if its predecessor was told to stop while this process was starting: who did that wants no node to be
    /// left. Returns whether it does.
    fn is_to_stop(&self, ctx: &TaskCtx) -> bool {
        let stops = self.predecessor_stops.as_ref().is_some_and(StopNotice::is_given);
        if stops {
            ctx.scope
                .shutdown()
                .request("the predecessor was told to stop before this process had taken over");
        }
        stops
    }
}

/// Announces the node as soon as it obeys signals: who hears of it may stop it at once.
pub(super) fn start(scope: &Scope, news: News) {
    // Samples are taken from when the kernel conducts the node, and so watches its signals.
    let conducted = Arc::new(Notify::new());
    let sampled = Arc::clone(&conducted);
    scope.sampled(move || sampled.notify_one());
    let news = Arc::new(news);
    scope.task(&ANNOUNCER, move |ctx| run(ctx, Arc::clone(&conducted), Arc::clone(&news)));
}

async fn run(ctx: TaskCtx, conducted: Arc<Notify>, news: Arc<News>) -> TaskResult {
    tokio::select! {
        () = ctx.stopping() => return Ok(()),
        () = conducted.notified() => {}
    }
    if news.is_to_stop(&ctx) {
        return Ok(());
    }
    let banner = news.banner.clone();
    // Nobody has to read it, and a reader that is slow must not hold the node up.
    let printed = ctx.scope.blocking().run("print the banner", move || print(&banner));
    let _ = tokio::time::timeout(SLOW_READER, printed).await;
    if news.is_to_stop(&ctx) {
        return Ok(());
    }
    let manager = Manager::from_env();
    if let Some(manager) = &manager {
        manager.ready();
    }
    if let Some(predecessor) = news.predecessor {
        upgrade::dismiss(predecessor);
    }
    ctx.stopping().await;
    if let Some(manager) = &manager {
        match news.successor.pid() {
            Some(pid) => manager.succeeded_by(pid),
            None => manager.stopping(),
        }
    }
    Ok(())
}

/// To standard output: the log may be off, and a script may be waiting for this.
fn print(banner: &str) {
    let mut out = std::io::stdout().lock();
    let _ = out.write_all(banner.as_bytes()).and_then(|()| out.flush());
}
