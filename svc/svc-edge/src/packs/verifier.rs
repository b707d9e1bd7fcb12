//! The task that mounts packs, and looks once a second whether their files are still what was mounted.
//!
//! A file that another one was renamed over is a new generation: it is mounted, and then takes the old one's place. A file
//! that was changed in place is nobody's: what was mounted is gone, and what is there was never checked as a whole. It is
//! served no more until another one is renamed over it.

use std::{
    collections::{BTreeSet, VecDeque},
    ops::ControlFlow,
    path::PathBuf,
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use futures_util::{StreamExt, stream::FuturesUnordered};
use packs::{MountOptions, Pack, Progress as MountProgress, PublicKey};
use ron_kernel::{
    Scope, Shutdown, files,
    readiness::{Condition, Effect},
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Restart, Stage, TaskSpec},
};
use tokio::sync::Notify;

use super::{
    Registry, Slot, State,
    judge::{Todo, judge},
    slot::{Found, Problem, Progress},
};
use crate::{PackConfig, file_stat::FileStat};

/// How often files are looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Packs that are mounted at once: each reads a whole file.
const AT_ONCE: usize = 4;

/// The largest file with a public key that is read, in bytes.
const MAX_KEY_BYTES: u64 = 64 * 1024;

/// The task that mounts packs and checks them.
pub(crate) const PACK_VERIFIER: TaskSpec = TaskSpec {
    name: "pack_verifier",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Intake,
    doc: "mounts packs after checking them completely; checks every second whether their files were replaced or changed",
};

/// The state of the task that verifies packs.
#[derive(Clone, Debug)]
pub(crate) struct Verifier {
    registry: Arc<Registry>,
    /// Where the trees of packs are kept from one start to the next; `None` to keep none.
    outboards: Option<PathBuf>,
    changed: Arc<Notify>,
    unserved: Condition,
    /// Stands while refused packs keep the edge from being ready.
    not_ready: Condition,
}

impl Verifier {
    /// Starts the task that verifies packs.
    pub(crate) fn start(scope: &Scope, registry: &Arc<Registry>, outboards: Option<PathBuf>) -> Self {
        let verifier = Self {
            registry: Arc::clone(registry),
            outboards,
            changed: Arc::default(),
            unserved: scope.condition("packs", Effect::Report, Duration::ZERO),
            not_ready: scope.condition("packs_refused", Effect::ServiceDown, Duration::ZERO),
        };
        let run = verifier.clone();
        scope.task(&PACK_VERIFIER, move |ctx| run.clone().run(ctx));
        verifier
    }

    /// Packs were added or removed: looks at once.
    pub(crate) fn look(&self) {
        self.changed.notify_one();
    }

    async fn run(self, ctx: TaskCtx) -> TaskResult {
        let mut mounting = FuturesUnordered::new();
        // Those that are being mounted or wait for it, and those that wait.
        let (mut busy, mut waiting) = (BTreeSet::new(), VecDeque::new());
        loop {
            let looked = tokio::select! {
                () = ctx.stopping() => return Ok(()),
                looked = self.look_at_all(&ctx.scope, &busy) => looked,
            };
            for (slot, stat) in looked {
                if let Some(stat) = follow(&slot, stat) {
                    busy.insert(slot.name().to_owned());
                    waiting.push_back((slot, stat));
                }
            }
            let next_look = tokio::time::sleep(LOOK_EVERY);
            tokio::pin!(next_look);
            loop {
                while mounting.len() < AT_ONCE
                    && let Some((slot, stat)) = waiting.pop_front()
                {
                    mounting.push(self.clone().mount(ctx.scope.clone(), slot, stat));
                }
                self.tell();
                tokio::select! {
                    () = ctx.stopping() => return Ok(()),
                    () = self.changed.notified() => break,
                    () = &mut next_look => break,
                    Some(name) = mounting.next(), if !mounting.is_empty() => drop(busy.remove(&name)),
                }
            }
        }
    }

    /// What is where packs should be, of those that nobody is busy with.
    async fn look_at_all(
        &self,
        scope: &Scope,
        busy: &BTreeSet<String>,
    ) -> Vec<(Arc<Slot>, Option<FileStat>)> {
        let all = self.registry.all();
        let slots: Vec<Arc<Slot>> =
            all.values().filter(|slot| !busy.contains(slot.name())).cloned().collect();
        let look = move || {
            let looked = slots.into_iter().map(|slot| {
                let stat = FileStat::at(&slot.config().path);
                (slot, stat)
            });
            looked.collect()
        };
        // If the pool is full, another look comes.
        scope.blocking().run("look at packs", look).await.unwrap_or_default()
    }

    /// Mounts a file, and serves it if it is good. Returns the pack's name.
    async fn mount(self, scope: Scope, slot: Arc<Slot>, stat: FileStat) -> String {
        let progress = Arc::new(Progress::default());
        progress.total.store(stat.len, Ordering::Relaxed);
        if !matches!(&**slot.state(), State::Served { .. }) {
            slot.mounting(Arc::clone(&progress));
        }
        tracing::info!(pack = slot.name(), bytes = stat.len, "mounting");
        let job = Job {
            config: slot.config().clone(),
            outboards: self.outboards.clone(),
            stat,
            progress,
            shutdown: scope.shutdown().clone(),
        };
        match scope.blocking().run("mount a pack", move || job.run()).await {
            Ok(mounted) => settle(&slot, stat, mounted),
            // Nothing is known about the file: another look comes.
            Err(error) => {
                tracing::warn!(pack = slot.name(), %error, "the pack could not be mounted for now");
            }
        }
        slot.name().to_owned()
    }

    /// Says which packs are not served as they should be.
    fn tell(&self) {
        let all = self.registry.all();
        let told: Vec<String> = all.values().filter_map(|slot| trouble(slot)).collect();
        if told.is_empty() {
            self.unserved.clear();
        } else {
            self.unserved.raise(told.join("; "));
        }
        match self.registry.not_ready() {
            Some(why) => self.not_ready.raise(why),
            None => self.not_ready.clear(),
        }
    }
}

/// Does what is to be done about a pack at once; returns the file that is to be mounted, if one is.
fn follow(slot: &Slot, stat: Option<FileStat>) -> Option<FileStat> {
    let todo = judge(&slot.state(), stat);
    match todo {
        Todo::Nothing => {}
        Todo::Keep(problem) => slot.keep(problem),
        Todo::Refuse(problem) => {
            tracing::error!(pack = slot.name(), reason = &*problem.reason, "the pack is not served");
            slot.refuse(problem);
        }
        Todo::Mount(stat) => return Some(stat),
    }
    None
}

/// Serves what was mounted, or goes on with what was before.
fn settle(slot: &Slot, stat: FileStat, mounted: Result<Pack, String>) {
    match mounted {
        Ok(pack) => {
            tracing::info!(pack = slot.name(), "served");
            slot.serve(pack, stat);
        }
        Err(reason) => {
            tracing::error!(pack = slot.name(), reason, "the pack is refused");
            let problem = Problem::new(Found::Bad(stat), &reason);
            if matches!(&**slot.state(), State::Served { .. }) {
                slot.keep(Some(problem));
            } else {
                slot.refuse(problem);
            }
        }
    }
}

/// What is to be told of a pack.
fn trouble(slot: &Slot) -> Option<String> {
    let name = slot.name();
    match &**slot.state() {
        State::Served { problem: None, .. } => None,
        State::Served { problem: Some(problem), .. } => {
            Some(format!("{name}: {}; what was mounted before is served", problem.reason))
        }
        State::Mounting(progress) => Some(format!("{name}: mounting, {} %", progress.percent())),
        State::Refused(problem) => Some(format!("{name}: {}", problem.reason)),
    }
}

/// A mount, on the blocking pool.
struct Job {
    config: PackConfig,
    outboards: Option<PathBuf>,
    /// What the file was when it was looked at.
    stat: FileStat,
    progress: Arc<Progress>,
    shutdown: Shutdown,
}

impl Job {
    fn run(self) -> Result<Pack, String> {
        let PackConfig { path, b3, .. } = &self.config;
        let expect =
            if b3.is_empty() { None } else { Some(b3.parse().map_err(|_| "its b3 is no content id")?) };
        let signer = self.signer()?;
        let mut on_progress = |so_far: MountProgress| {
            self.progress.done.store(so_far.done, Ordering::Relaxed);
            self.progress.total.store(so_far.total, Ordering::Relaxed);
            if self.shutdown.is_draining() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        };
        let options = MountOptions {
            outboard_dir: self.outboards.clone(),
            expect,
            signer,
            progress: Some(&mut on_progress),
            ..MountOptions::default()
        };
        let pack = Pack::mount(path, options).map_err(|error| error.to_string())?;
        if FileStat::at(path) != Some(self.stat) {
            return Err("its file was replaced or changed while it was mounted".to_owned());
        }
        Ok(pack)
    }

    /// Who has to have signed it.
    fn signer(&self) -> Result<Option<PublicKey>, String> {
        let path = &self.config.signed_by;
        if path.as_os_str().is_empty() {
            return Ok(None);
        }
        let unusable =
            |error: &dyn std::fmt::Display| format!("the key {} cannot be used: {error}", path.display());
        let pem = files::read_regular(path, MAX_KEY_BYTES).map_err(|error| unusable(&error))?;
        PublicKey::from_pem(&pem).map(Some).map_err(|error| unusable(&error))
    }
}
