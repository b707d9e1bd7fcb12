//! The config watcher: reloads on SIGHUP and when the file changes.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use notify::{RecursiveMode, Watcher};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::Notify,
};

use super::Reloader;
use crate::{
    Scope, own,
    supervisor::{TaskCtx, TaskFault, TaskResult},
};

/// Editors write a file in several steps; this is how long it must have been left alone.
const QUIET: Duration = Duration::from_millis(100);

/// Starts the config watcher. Without a file it still obeys SIGHUP, which also re-reads certificates.
pub fn start(scope: &Scope, reloader: Reloader, file: Option<PathBuf>) {
    let reloader = Arc::new(reloader);
    scope.task(&own::CONFIG_WATCHER, move |ctx| {
        watch(ctx, Arc::clone(&reloader), file.clone())
    });
}

async fn watch(ctx: TaskCtx, reloader: Arc<Reloader>, file: Option<PathBuf>) -> TaskResult {
    let mut hangup = signal(SignalKind::hangup()).map_err(TaskFault::new)?;
    let changed = Arc::new(Notify::new());
    let _watcher = match &file {
        Some(file) => watch_directory(file, Arc::clone(&changed))
            .map_err(TaskFault::new)
            .map(Some)?,
        None => None,
    };
    let mut last_seen = contents(&ctx.scope, file.as_deref()).await;
    loop {
        tokio::select! {
            () = ctx.stopping() => return Ok(()),
            signal = hangup.recv() => if signal.is_none() { return Err(TaskFault::new("signals are gone")) },
            () = changed.notified() => {
                settle(&changed).await;
                // The directory holds other files too, and touching ours changes nothing.
                let now = contents(&ctx.scope, file.as_deref()).await;
                if now == last_seen {
                    continue;
                }
                last_seen = now;
            }
        }
        // Told by metrics, readiness, the log and the bus.
        let _ = reloader.reload().await;
    }
}

/// Waits until the directory has been left alone for a moment.
async fn settle(changed: &Notify) {
    while tokio::time::timeout(QUIET, changed.notified()).await.is_ok() {}
}

/// Watches the file's directory, because editors and orchestrators replace files by renaming.
fn watch_directory(file: &Path, changed: Arc<Notify>) -> notify::Result<notify::RecommendedWatcher> {
    let parent = file.parent().filter(|p| !p.as_os_str().is_empty());
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|e| !e.kind.is_access()) {
            changed.notify_one();
        }
    })?;
    watcher.watch(parent.unwrap_or(Path::new(".")), RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// What is in the file now; a missing file is a change like any other.
async fn contents(scope: &Scope, file: Option<&Path>) -> Option<Vec<u8>> {
    let file = file?.to_owned();
    #[expect(clippy::disallowed_methods, reason = "on the blocking pool")]
    let read = scope
        .blocking()
        .run("look at the configuration file", move || std::fs::read(file).ok());
    read.await.ok().flatten()
}
