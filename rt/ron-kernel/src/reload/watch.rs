//! The config watcher: reloads on SIGHUP, when the file changes, and when somebody asks for it.

use std::{
    ffi::OsString,
    os::unix::fs::MetadataExt as _,
    path::{Path, PathBuf},
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use notify::{EventKind, RecursiveMode, Watcher, event::ModifyKind};
use tokio::{
    signal::unix::{SignalKind, signal},
    sync::{Notify, oneshot},
};
use zeroize::Zeroizing;

use super::{AT_START, Outcome, ReloadDesk, ReloadError, Reloader};
use crate::{
    Scope,
    config::MAX_FILE_BYTES,
    files,
    lock::lock,
    own,
    supervisor::{TaskCtx, TaskFault, TaskResult},
};

/// Editors write a file in several steps; this is how long it must have been left alone.
const QUIET: Duration = Duration::from_millis(100);
/// How long a directory that is never left alone can keep a change waiting.
const RESTLESS: Duration = Duration::from_secs(1);

/// What the files hold at one moment, and the folders in which they are looked for. It may hold secrets, hence no `Debug`.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Contents {
    /// The files, each with what it holds, if it can be read.
    pub files: Vec<(PathBuf, Option<Zeroizing<Vec<u8>>>)>,
    /// The folders of these files, and others in which files may appear that count.
    pub folders: Vec<PathBuf>,
}

/// Looks at the files of the configuration. Blocking.
pub type LookAt = Arc<dyn Fn() -> Contents + Send + Sync>;

impl Contents {
    /// Reads one file, at most as much of it as a configuration may have.
    #[must_use]
    pub fn of_file(file: &Path) -> Self {
        // As much of it as a configuration may have: more is refused anyway.
        let limit = u64::try_from(MAX_FILE_BYTES).unwrap_or(u64::MAX);
        let held = files::read_regular(file, limit).ok().map(Zeroizing::new);
        let folder = file.parent().unwrap_or(Path::new("")).to_owned();
        Self { files: vec![(file.to_owned(), held)], folders: vec![folder] }
    }
}

/// What happens in the folders of the files.
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

/// Starts the config watcher. Without files it still obeys SIGHUP and the desk, which also re-read certificates.
pub fn start(scope: &Scope, reloader: Reloader, look_at: Option<LookAt>, desk: ReloadDesk) {
    let reloader = Arc::new(reloader);
    desk.attend();
    scope.task(&own::CONFIG_WATCHER, move |ctx| {
        watch(ctx, Arc::clone(&reloader), look_at.clone(), desk.clone())
    });
}

async fn watch(
    ctx: TaskCtx,
    reloader: Arc<Reloader>,
    look_at: Option<LookAt>,
    desk: ReloadDesk,
) -> TaskResult {
    let mut hangup = signal(SignalKind::hangup()).map_err(TaskFault::new)?;
    let changed = Arc::new(Changes::default());
    let mut folders = Folders::new(Arc::clone(&changed));
    // What was read last; `None` if something may have changed while it was read.
    let mut last_seen = Some(contents(&ctx.scope, look_at.as_ref()).await);
    let (mut actor, mut callers) = (AT_START, Vec::new());
    loop {
        if let Some(seen) = &last_seen {
            folders.watch(seen);
        }
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
            news = next_change(&ctx.scope, look_at.as_ref(), (&mut folders, &changed), &last_seen) => {
                actor = "change of the file";
                last_seen = Some(news);
            }
            signal = hangup.recv() => {
                if signal.is_none() {
                    return Err(TaskFault::new("signals are gone"));
                }
                actor = "SIGHUP";
                // Whoever sends the signal has often just written the file: that is one change, not two.
                last_seen = Some(contents(&ctx.scope, look_at.as_ref()).await);
            }
            asked = desk.callers() => {
                (actor, callers) = ("admin listener", asked);
                last_seen = Some(contents(&ctx.scope, look_at.as_ref()).await);
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

/// The contents of the files once they are not `last_seen` any more: their folders hold other files too, and touching ours
/// changes nothing.
async fn next_change(
    scope: &Scope,
    look_at: Option<&LookAt>,
    (folders, changed): (&mut Folders, &Changes),
    last_seen: &Option<Contents>,
) -> Contents {
    loop {
        changed.happened.notified().await;
        settle(&changed.happened).await;
        let now = contents(scope, look_at).await;
        if last_seen.as_ref() != Some(&now) {
            return now;
        }
        // A folder may have been replaced by one that holds the same.
        folders.watch(&now);
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

/// A folder that is watched. The system watches the folder itself and not its name, which may be given to another one.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct WatchedFolder {
    /// Its device and inode; `None` if there is no such folder.
    identity: Option<(u64, u64)>,
    path: PathBuf,
}

impl WatchedFolder {
    #[expect(clippy::disallowed_methods, reason = "once for each change")]
    fn now(path: PathBuf) -> Self {
        let identity = std::fs::metadata(&path).ok().map(|folder| (folder.dev(), folder.ino()));
        Self { identity, path }
    }
}

/// Watches the folders of the files, because editors and orchestrators replace files by renaming.
struct Folders {
    /// `None` before the first folder, and where there are no watches left.
    watcher: Option<notify::RecommendedWatcher>,
    watched: Vec<WatchedFolder>,
    interest: Arc<Mutex<Interest>>,
    changed: Arc<Changes>,
}

impl Folders {
    fn new(changed: Arc<Changes>) -> Self {
        Self { watcher: None, watched: Vec::new(), interest: Arc::default(), changed }
    }

    /// Watches the folders of what was seen, and no others.
    fn watch(&mut self, seen: &Contents) {
        let targets = lock(&self.interest).follow(seen);
        let here = |folder: &Path| if folder.as_os_str().is_empty() { ".".into() } else { folder.to_owned() };
        let targets = targets.iter().filter_map(|target| target.parent());
        let folders = seen.folders.iter().map(PathBuf::as_path).chain(targets);
        let mut wanted: Vec<_> = folders.map(here).map(WatchedFolder::now).collect();
        wanted.sort_unstable();
        wanted.dedup_by(|a, b| a.identity == b.identity && (a.identity.is_some() || a.path == b.path));
        if wanted == self.watched {
            return;
        }
        // A new watcher, rather than fewer or more folders for the old one: what is watched twice is told twice.
        self.watcher = self.watcher_of(&wanted).inspect_err(tell).ok();
        self.watched = wanted;
        // What changed between two watchers is seen by a look.
        self.changed.add();
    }

    fn watcher_of(&self, folders: &[WatchedFolder]) -> notify::Result<notify::RecommendedWatcher> {
        let (interest, changed) = (Arc::clone(&self.interest), Arc::clone(&self.changed));
        let mut watcher = notify::recommended_watcher(move |event: notify::Result<notify::Event>| {
            if event.is_ok_and(|event| lock(&interest).has(&event)) {
                changed.add();
            }
        })?;
        for folder in folders {
            // One that is gone does not keep the others from being watched.
            let _ = watcher.watch(&folder.path, RecursiveMode::NonRecursive).inspect_err(tell);
        }
        Ok(watcher)
    }
}

/// Which events of a folder may have changed a file: all but those that look at something, and writes to other files, such
/// as a log that lies beside it.
#[derive(Default)]
struct Interest {
    files: Vec<PathBuf>,
    /// The names of the files, and of those that are read in the end, if a file is a link.
    names: Vec<OsString>,
}

#[expect(clippy::disallowed_methods, reason = "the watcher's own thread, and once for each change")]
impl Interest {
    /// Follows the files that were seen. Returns those that are read in the end, if a file is a link.
    fn follow(&mut self, seen: &Contents) -> Vec<PathBuf> {
        self.files = seen.files.iter().map(|(path, _)| path.clone()).collect();
        self.find_names()
    }

    fn find_names(&mut self) -> Vec<PathBuf> {
        let targets: Vec<PathBuf> =
            self.files.iter().filter_map(|file| std::fs::canonicalize(file).ok()).collect();
        let all = self.files.iter().chain(&targets);
        self.names = all.filter_map(|path| path.file_name().map(ToOwned::to_owned)).collect();
        targets
    }

    fn has(&mut self, event: &notify::Event) -> bool {
        match event.kind {
            EventKind::Access(_) => false,
            EventKind::Modify(ModifyKind::Data(_)) => {
                let is_ours =
                    |path: &PathBuf| self.names.iter().any(|name| Some(name.as_os_str()) == path.file_name());
                event.paths.iter().any(is_ours)
            }
            // Something was made, moved or removed: a link may lead elsewhere now.
            _ => {
                self.find_names();
                true
            }
        }
    }
}

/// What is in the files now; a missing file is a change like any other.
async fn contents(scope: &Scope, look_at: Option<&LookAt>) -> Contents {
    let Some(look_at) = look_at.cloned() else { return Contents::default() };
    let read = scope.blocking().run("look at the configuration file", move || look_at());
    read.await.unwrap_or_default()
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
        let mut interest = Interest::default();
        interest.follow(&Contents::of_file(&path("node.toml")));
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

    #[tokio::test]
    async fn a_folder_that_was_replaced_is_watched_again() {
        let dir = tempfile::tempdir().unwrap();
        let (folder, changed) = (dir.path().join("conf.d"), Arc::new(Changes::default()));
        let file = folder.join("a.toml");
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&file, "").unwrap();
        let mut folders = Folders::new(Arc::clone(&changed));
        folders.watch(&Contents::of_file(&file));
        std::fs::rename(&folder, dir.path().join("old")).unwrap();
        std::fs::create_dir(&folder).unwrap();
        std::fs::write(&file, "").unwrap();
        folders.watch(&Contents::of_file(&file));
        let before = changed.count();
        std::fs::write(&file, "new").unwrap();
        let is_told = async {
            while changed.count() == before {
                changed.happened.notified().await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), is_told).await.unwrap();
    }
}
