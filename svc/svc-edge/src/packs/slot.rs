//! The place of one pack: what is served there now, or why nothing is.

use std::{
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use http::HeaderValue;
use packs::{Format, Pack};
use types::{Reason, Refusal};

use crate::{
    PackConfig,
    assets::Damages,
    file_stat::FileStat,
    serve::{Owner, Representation, Source, tag},
    tiles::TileJson,
};

/// When to come back for a pack that is being mounted.
const WHEN_MOUNTING: Duration = Duration::from_secs(2);

/// One pack that is configured.
#[derive(Debug)]
pub(crate) struct Slot {
    name: Box<str>,
    config: PackConfig,
    state: ArcSwap<State>,
    damages: Arc<Damages>,
}

/// What is served, or why nothing is.
#[derive(Debug)]
pub(crate) enum State {
    /// It is being read and checked for the first time.
    Mounting(Arc<Progress>),
    /// The pack is served.
    Served {
        /// This generation of it.
        mounted: Arc<Mounted>,
        /// Why the file that is there now is not the one that is served, if it is not.
        problem: Option<Problem>,
    },
    /// The pack is not served, for this reason.
    Refused(Problem),
}

/// Why a file is not served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Problem {
    /// What was found where it should be.
    pub(crate) found: Found,
    /// The reason why the file is not served.
    pub(crate) reason: Arc<str>,
}

/// What was found where a pack should be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    /// There is no file.
    Nothing,
    /// A file that is no good; it may become so.
    Bad(FileStat),
    /// The file that was served, changed since; it can only be replaced.
    Changed(FileStat),
}

impl Problem {
    pub(crate) fn new(found: Found, reason: &str) -> Self {
        Self { found, reason: reason.into() }
    }
}

/// How far a mount is, in bytes.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    pub(crate) done: AtomicU64,
    pub(crate) total: AtomicU64,
}

impl Progress {
    /// Returns the progress in whole percent.
    pub(crate) fn percent(&self) -> u64 {
        let (done, total) = (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed));
        done.saturating_mul(100).checked_div(total).unwrap_or_default()
    }
}

/// One generation of a pack. Responses that began with it end with it.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) name: Box<str>,
    pub(crate) pack: Pack,
    pub(crate) stat: FileStat,
    /// Its description for clients.
    pub(crate) tilejson: TileJson,
    /// The file as a whole.
    whole: Representation,
    /// Cleared for good when another generation, or nothing, is served instead.
    served: AtomicBool,
    damages: Arc<Damages>,
}

impl Mounted {
    fn new(name: &str, pack: Pack, stat: FileStat, damages: Arc<Damages>) -> Arc<Self> {
        Arc::new_cyclic(|this: &Weak<Self>| {
            let owner: Arc<dyn Owner> = Arc::new(WholePack(this.clone()));
            let source = Source::Disk { verified: Arc::clone(pack.file()), owner };
            let media_type = HeaderValue::from_static(match pack.info().format {
                Format::Pmtiles => "application/vnd.pmtiles",
                Format::Mbtiles => "application/vnd.sqlite3",
            });
            let whole =
                Representation::new(source, tag(pack.info().id), media_type).modified_at(stat.modified());
            let tilejson = TileJson::new(name, pack.info());
            Self { name: name.into(), pack, stat, tilejson, whole, served: AtomicBool::new(true), damages }
        })
    }

    /// Whether it is what is served now.
    pub(crate) fn is_served(&self) -> bool {
        self.served.load(Ordering::Acquire)
    }

    /// The file as a whole.
    pub(crate) fn whole(&self) -> &Representation {
        &self.whole
    }
}

impl Owner for Mounted {
    /// The rest of the pack is as good as ever, so it goes on; what is damaged is found again whenever it is asked for.
    fn damaged(&self, why: &str) {
        self.damages.found(&format!("pack {}", self.name), why);
    }
}

/// A pack's file as a whole, whose damages are the pack's.
#[derive(Debug)]
struct WholePack(Weak<Mounted>);

impl Owner for WholePack {
    fn damaged(&self, why: &str) {
        if let Some(mounted) = self.0.upgrade() {
            mounted.damaged(why);
        }
    }
}

impl Slot {
    /// A place for a pack, where `served` is served until it is mounted.
    pub(crate) fn new(config: PackConfig, served: Option<Arc<Mounted>>, damages: Arc<Damages>) -> Self {
        let name = config.name().into();
        let state = match served {
            Some(mounted) => State::Served { mounted, problem: None },
            None => State::Mounting(Arc::default()),
        };
        Self { name, config, state: ArcSwap::from_pointee(state), damages }
    }

    /// Whether it is the same place as another, or serves the same generation.
    pub(super) fn serves_what(&self, other: &Self) -> bool {
        let same = |one: Arc<Mounted>, two: Arc<Mounted>| Arc::ptr_eq(&one, &two);
        std::ptr::eq(self, other)
            || self.mounted().is_ok_and(|mine| other.mounted().is_ok_and(|theirs| same(mine, theirs)))
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn config(&self) -> &PackConfig {
        &self.config
    }

    pub(crate) fn state(&self) -> arc_swap::Guard<Arc<State>> {
        self.state.load()
    }

    /// The generation that is served.
    ///
    /// # Errors
    /// None is, for now or until somebody does something about it.
    pub(crate) fn mounted(&self) -> Result<Arc<Mounted>, Refusal> {
        match &**self.state.load() {
            State::Served { mounted, .. } => Ok(Arc::clone(mounted)),
            State::Mounting(progress) => {
                let detail = format!("the pack is being mounted: {} %", progress.percent());
                Err(Refusal::new(Reason::NotReady, detail).retry_after(WHEN_MOUNTING))
            }
            State::Refused(problem) => Err(Refusal::new(Reason::Quarantined, problem.reason.to_string())),
        }
    }

    /// Serves a new generation from now on.
    pub(super) fn serve(&self, pack: Pack, stat: FileStat) {
        let mounted = Mounted::new(&self.name, pack, stat, Arc::clone(&self.damages));
        self.damages.mended(&format!("pack {}", self.name));
        self.replace(State::Served { mounted, problem: None });
    }

    /// Says how far the first mount is.
    pub(super) fn mounting(&self, progress: Arc<Progress>) {
        self.replace(State::Mounting(progress));
    }

    /// Goes on with the present generation, though the file that is there now is none that could be served.
    pub(super) fn keep(&self, problem: Option<Problem>) {
        if let State::Served { mounted, .. } = &**self.state.load() {
            let mounted = Arc::clone(mounted);
            // The same generation: it stays valid.
            self.state.store(Arc::new(State::Served { mounted, problem }));
        }
    }

    /// Serves nothing from now on.
    pub(super) fn refuse(&self, problem: Problem) {
        self.replace(State::Refused(problem));
    }

    /// Removes a pack that is no longer configured.
    pub(super) fn retire(&self) {
        self.refuse(Problem::new(Found::Nothing, "the pack is no longer served"));
    }

    fn replace(&self, state: State) {
        let before = self.state.swap(Arc::new(state));
        if let State::Served { mounted, .. } = &*before {
            mounted.served.store(false, Ordering::Release);
        }
    }
}
