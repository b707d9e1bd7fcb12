//! The config watcher, on a real file: one change is one reload, and it starts no stale configuration.

use std::{
    path::{Path, PathBuf},
    sync::Arc,
};

use ron_kernel::{
    Exit, ExitCode, Scope,
    bus::{KernelEvent, Subscription},
    config::ConfigStore,
    planes::RuntimeMode,
    reload::{self, Contents, LookAt, Reconfigure, ReloadDesk, Reloader},
    supervisor::TaskState,
};
use tempfile::TempDir;
use tokio::task::JoinHandle;

use crate::{
    reload::{Knobs, Part, Shared, parse, settled},
    support::{PATIENCE, conduct, kernel, stop, until, wait_for},
};

struct Watched {
    scope: Scope,
    conductor: JoinHandle<Exit>,
    events: Subscription,
    store: Arc<ConfigStore>,
    file: PathBuf,
    dir: TempDir,
}

fn knob(live: u32) -> String {
    format!("[knobs]\nlive = {live}\n")
}

impl Watched {
    /// Starts from `boot` while the file already says `on_disk`.
    fn start(boot: u32, on_disk: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("omnigate.toml");
        std::fs::write(&file, on_disk).unwrap();
        let kernel = kernel(RuntimeMode::Current, PATIENCE);
        let scope = kernel.own().clone();
        let events = scope.bus().subscribe();
        let store = Arc::new(ConfigStore::new(&parse(&knob(boot)).unwrap()));
        let path = file.clone();
        let read = Arc::new(move || settled(&std::fs::read_to_string(&path).unwrap_or_default()));
        let part: Arc<dyn Reconfigure> = Arc::new(Shared(Arc::new(Part::default())));
        let reloader = Reloader::new(&scope, Arc::clone(&store), read, vec![part]);
        let watched = file.clone();
        let look_at: LookAt = Arc::new(move || Contents::of_file(&watched));
        reload::start(&scope, reloader, Some(look_at), ReloadDesk::default());
        Self { conductor: conduct(kernel), scope, events, store, file, dir }
    }

    /// Replaces the file as editors and orchestrators do.
    fn replace(&self, text: &str) {
        let new = self.dir.path().join("omnigate.toml.new");
        std::fs::write(&new, text).unwrap();
        std::fs::rename(new, &self.file).unwrap();
    }

    async fn applied(&mut self) -> u64 {
        match wait_for(&mut self.events, |e| matches!(e, KernelEvent::ConfigApplied { .. })).await {
            KernelEvent::ConfigApplied { generation, .. } => generation,
            other => panic!("{other:?}"),
        }
    }

    async fn stop(mut self) -> Vec<KernelEvent> {
        let exit = stop(&self.scope, self.conductor).await;
        assert_eq!(exit.code, ExitCode::Clean, "{exit}");
        let tasks = self.scope.supervisor().tasks();
        assert!(tasks.iter().all(|t| t.state == TaskState::Done), "{tasks:?}");
        let mut rest = Vec::new();
        while let Ok(Some(heard)) = tokio::time::timeout(std::time::Duration::ZERO, self.events.next()).await
        {
            if let Ok(event) = heard {
                rest.push(event);
            }
        }
        rest
    }
}

fn reloads(events: &[KernelEvent]) -> usize {
    let is_reload =
        |e: &&KernelEvent| matches!(e, KernelEvent::ConfigApplied { .. } | KernelEvent::ConfigRefused { .. });
    events.iter().filter(is_reload).count()
}

#[tokio::test]
async fn a_file_replaced_by_renaming_is_reloaded_exactly_once() {
    let mut w = Watched::start(1, &knob(1));
    w.replace(&knob(2));
    assert_eq!(w.applied().await, 2);
    assert_eq!(w.store.current().get::<Knobs>().live, 2);
    // A marker: had the first change been applied twice, this one would not be the third generation.
    w.replace(&knob(3));
    assert_eq!(w.applied().await, 3);
    assert_eq!(reloads(&w.stop().await), 0);
}

#[tokio::test]
async fn a_change_made_before_the_watch_began_is_not_missed() {
    let mut w = Watched::start(1, &knob(2));
    assert_eq!(w.applied().await, 2);
    assert_eq!(w.store.current().get::<Knobs>().live, 2);
    assert_eq!(reloads(&w.stop().await), 0);
}

#[tokio::test]
async fn other_files_in_the_directory_and_a_touch_reload_nothing() {
    let mut w = Watched::start(1, &knob(1));
    write_other(w.dir.path());
    w.replace(&knob(1));
    write_other(w.dir.path());
    w.replace(&knob(2));
    assert_eq!(w.applied().await, 2);
    assert_eq!(reloads(&w.stop().await), 0);
}

fn write_other(dir: &Path) {
    std::fs::write(dir.join("other.toml"), "nonsense").unwrap();
}

#[tokio::test]
async fn a_bad_file_is_refused_once_and_the_next_good_one_heals() {
    let mut w = Watched::start(1, &knob(1));
    w.replace("[knobs\n");
    wait_for(&mut w.events, |e| matches!(e, KernelEvent::ConfigRefused { .. })).await;
    assert_eq!(w.store.current().get::<Knobs>().live, 1);
    let failed = w.scope.all_metrics().families().config_reload_failed.clone();
    assert_eq!(failed.get(), 1);
    w.replace(&knob(2));
    assert_eq!(w.applied().await, 2);
    until(|| failed.get() == 0).await;
    assert_eq!(reloads(&w.stop().await), 0);
}

#[tokio::test]
async fn a_restless_directory_delays_a_change_but_does_not_swallow_it() {
    let mut w = Watched::start(1, &knob(1));
    let dir = w.dir.path().to_owned();
    let noise = tokio::spawn(async move {
        loop {
            write_other(&dir);
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    });
    w.replace(&knob(2));
    assert_eq!(w.applied().await, 2);
    noise.abort();
    assert_eq!(reloads(&w.stop().await), 0);
}
