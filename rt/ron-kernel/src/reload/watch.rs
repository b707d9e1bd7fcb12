//! The config watcher: reloads on SIGHUP, when the file changes, and when somebody asks for it.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use notify::{EventKind, RecursiveMode, Watcher, event::ModifyKind};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Notify, oneshot},
};

use super::{AT_START, Outcome, ReloadDesk, ReloadError, Reloader};
use crate::{
    Scope,
    config::MAX_FILE_BYTES,
    files, own,
    supervisor::{TaskCtx, TaskFault, TaskResult},
};

/// Editors write a file in several steps; this is how long it must have been left alone.
const QUIET: Duration = Duration::from_millis(100);
/// How long a directory that is never left alone can keep a change waiting.
const RESTLESS: Duration = Duration::from_secs(1);

/// What the file holds, if it can be read.
type Contents = Option<Vec<u8>>;

/// What happens in the file's directory.
#[derive(Default)]
struct Changes {
    happened: Notify,
    count: AtomicU64,
}

impl Changes {
    fn count(&self) -> u64 {
        self.count.load(Ordering::Acquire)
    }

    fn add(&self) {
        self.count.fetch_add(1, Ordering::Release);
        self.happened.notify_one();
    }
}

/// Starts the config watcher. Without a file it still obeys SIGHUP and the desk, which also re-read certificates.
pub fn start(scope: &Scope, reloader: Reloader, file: Option<PathBuf>, desk: ReloadDesk) {
    let reloader = Arc::new(reloader);
    desk.attend();
    scope
        .task(&own::CONFIG_WATCHER, move |ctx| watch(ctx, Arc::clone(&reloader), file.clone(), desk.clone()));
}

async fn watch(ctx: TaskCtx, reloader: Arc<Reloader>, file: Option<PathBuf>, desk: ReloadDesk) -> TaskResult {
    let mut hangup = signal(SignalKind::hangup()).map_err(TaskFault::new)?;
    let changed = Arc::new(Changes::default());
    let _watcher =
        file.as_deref().and_then(|file| watch_directory(file, Arc::clone(&changed)).inspect_err(tell).ok());
    // What was read last; `None` if something may have changed while it was read.
    let mut last_seen = Some(contents(&ctx.scope, file.as_deref()).await);
    let (mut actor, mut callers) = (AT_START, Vec::new());
    loop {
        let before = changed.count();
        // The first time because the file may have changed before it was watched; nothing happens if it has not.
        tokio::select! {
            () = ctx.stopping() => return Ok(()),
            // Told by metrics, readiness, the log and the bus as well.
            outcome = reloader.reload(actor) => tell_callers(&mut callers, &reloader, outcome),
        }
        // The reload may have read what has been taken back since: then the file as it is would look like no change.
        if changed.count() != before {
            last_seen = None;
        }
        tokio::select! {
            () = ctx.stopping() => return Ok(()),
            news = next_change(&ctx.scope, file.as_deref(), &changed, &last_seen) => {
                actor = "change of the file";
                last_seen = Some(news);
            }
            signal = hangup.recv() => {
                if signal.is_none() {
                    return Err(TaskFault::new("signals are gone"));
                }
                actor = "SIGHUP";
                // Whoever sends the signal has often just written the file: that is one change, not two.
                last_seen = Some(contents(&ctx.scope, file.as_deref()).await);
            }
            asked = desk.callers() => {
                (actor, callers) = ("admin listener", asked);
                last_seen = Some(contents(&ctx.scope, file.as_deref()).await);
            }
        }
    }
}

/// Tells those who wait for the reload what came of it. A caller that has left hears nothing.
fn tell_callers(
    callers: &mut Vec<oneshot::Sender<Outcome>>,
    reloader: &Reloader,
    outcome: Result<(), ReloadError>,
) {
    let outcome = outcome.map(|()| reloader.generation()).map_err(|error| error.to_string());
    for caller in callers.drain(..) {
        let _ = caller.send(outcome.clone());
    }
}

/// The contents of the file once they are not `last_seen` any more: the directory holds other files too, and touching
/// ours changes nothing.
async fn next_change(
    scope: &Scope,
    file: Option<&Path>,
    changed: &Changes,
    last_seen: &Option<Contents>,
) -> Contents {
    loop {
        changed.happened.notified().await;
        settle(&changed.happened).await;
        let now = contents(scope, file).await;
        if last_seen.as_ref() != Some(&now) {
            return now;
        }
    }
}

/// Waits until the directory has been left alone for a moment, or for long enough.
async fn settle(changed: &Notify) {
    let left_alone = async { while tokio::time::timeout(QUIET, changed.notified()).await.is_ok() {} };
    let _ = tokio::time::timeout(RESTLESS, left_alone).await;
}

/// Machines run out of watches; a signal needs none.
fn tell(error: &notify::Error) {
    tracing::warn!(%error, "changes of the configuration file are not seen; SIGHUP still applies them");
}

/// Watches the file's directory, because editors and orchestrators replace files by renaming.
fn watch_directory(file: &Path, changed: Arc<Changes>) -> notify::Result<notify::RecommendedWatcher> {
    let parent = file.parent().filter(|p| !p.as_os_str().is_empty());
    let mut interest = Interest::new(file.to_owned());
    let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
        if event.is_ok_and(|event| interest.has(&event)) {
            changed.add();
        }
    })?;
    watcher.watch(parent.unwrap_or(Path::new(".")), RecursiveMode::NonRecursive)?;
    Ok(watcher)
}

/// Which events of a directory may have changed the file: all but those that look at something, and writes to other files, such
/// as a log that lies beside it.
struct Interest {
    file: PathBuf,
    /// The name of the file that is read in the end, if the file is a link.
    target: Option<PathBuf>,
}

#[expect(clippy::disallowed_methods, reason = "the watcher's own thread, and once at the start")]
impl Interest {
    fn new(file: PathBuf) -> Self {
        let target = std::fs::canonicalize(&file).ok();
        Self { file, target }
    }

    fn has(&mut self, event: &notify::Event) -> bool {
        match event.kind {
            EventKind::Access(_) => false,
            EventKind::Modify(ModifyKind::Data(_)) => {
                let names = [self.file.file_name(), self.target.as_deref().and_then(Path::file_name)];
                event.paths.iter().any(|path| names.contains(&path.file_name()))
            }
            // Something was made, moved or removed: a link may lead elsewhere now.
            _ => {
                self.target = std::fs::canonicalize(&self.file).ok();
                true
            }
        }
    }
}

/// What is in the file now; a missing file is a change like any other.
async fn contents(scope: &Scope, file: Option<&Path>) -> Contents {
    let file = file?.to_owned();
    // As much of it as a configuration may have: more is refused anyway.
    let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
    let look = move || files::read_regular(&file, limit).ok();
    let read = scope.blocking().run("look at the configuration file", look);
    read.await.ok().flatten()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use notify::{
        Event,
        event::{AccessKind, CreateKind, DataChange},
    };

    use super::*;

    #[test]
    fn writes_to_other_files_are_no_change_and_the_target_of_a_link_is() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        std::fs::write(path("first"), "").unwrap();
        std::os::unix::fs::symlink("first", path("node.toml")).unwrap();
        let mut interest = Interest::new(path("node.toml"));
        let written = |name: &str| {
            Event::new(EventKind::Modify(ModifyKind::Data(DataChange::Any))).add_path(path(name))
        };
        assert!(interest.has(&written("node.toml")) && interest.has(&written("first")));
        assert!(!interest.has(&written("access.log")) && !interest.has(&written("second")));
        assert!(!interest.has(&Event::new(EventKind::Access(AccessKind::Any)).add_path(path("node.toml"))));
        std::fs::remove_file(path("node.toml")).unwrap();
        std::fs::write(path("second"), "").unwrap();
        std::os::unix::fs::symlink("second", path("node.toml")).unwrap();
        assert!(interest.has(&Event::new(EventKind::Create(CreateKind::Any)).add_path(path("node.toml"))));
        assert!(interest.has(&written("second")) && !interest.has(&written("first")));
    }
}
