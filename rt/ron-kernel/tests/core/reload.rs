//! Reload: every part follows or none does, and what is in force is always a configuration that was good.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicBool, Ordering},
};

use ron_kernel::{
    Fault, Kernel, Scope,
    bus::KernelEvent,
    config::{Checks, ConfigStore, Loader, Problems, Report, Schema, Snapshot, Sources, Table},
    readiness::Effect,
    reload::{Commit, Preparing, READ_AGAIN, Reading, Reconfigure, ReloadError, Reloader},
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;

use crate::support::kernel_here;

/// One number that reloads, and one that needs a restart.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub(crate) struct Knobs {
    /// Reloads.
    pub(crate) live: u32,
    /// Needs a restart.
    pub(crate) fixed: u32,
}

impl Table for Knobs {
    const NAME: &'static str = "knobs";
    const RESTART: &'static [&'static str] = &["fixed"];

    fn check(&self, _: &Checks, _: &mut Problems) {}
}

pub(crate) fn parse(text: &str) -> Result<Snapshot, Report> {
    let sources = Sources { file: Some(("test.toml".into(), text.to_owned())), ..Sources::default() };
    Loader::new(Schema::new().table::<Knobs>(), "TEST_").load(sources)
}

/// A reading of a source that nobody is writing; the text `unsettled` stands for one that somebody is.
pub(crate) fn settled(text: &str) -> Result<Reading, ReloadError> {
    match text {
        "unsettled" => Ok(Reading::Unsettled),
        text => Ok(Reading::Settled(parse(text)?)),
    }
}

/// A part that remembers what it committed, and refuses or hangs on request.
#[derive(Default)]
pub(crate) struct Part {
    refuses: AtomicBool,
    hangs: AtomicBool,
    hanging: Notify,
    committed: Mutex<Vec<u32>>,
}

/// So that the commit can outlive the borrow.
pub(crate) struct Shared(pub(crate) Arc<Part>);

impl Reconfigure for Shared {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        let part = Arc::clone(&self.0);
        Box::pin(async move {
            if part.hangs.load(Ordering::Relaxed) {
                part.hanging.notify_one();
                std::future::pending::<()>().await;
            }
            if part.refuses.load(Ordering::Relaxed) {
                return Err("the port is taken: choose another".to_owned());
            }
            let commit: Commit =
                Box::new(move || part.committed.lock().unwrap().push(new.get::<Knobs>().live));
            Ok(commit)
        })
    }
}

struct Fixture {
    /// Kept, because its tasks are.
    _kernel: Kernel,
    scope: Scope,
    file: Arc<Mutex<String>>,
    store: Arc<ConfigStore>,
    parts: [Arc<Part>; 3],
    reloader: Reloader,
}

impl Fixture {
    fn new() -> Self {
        let kernel = kernel_here();
        let scope = kernel.own().clone();
        let file = Arc::new(Mutex::new("[knobs]\nlive = 1\n".to_owned()));
        let store = Arc::new(ConfigStore::new(&parse(&file.lock().unwrap()).unwrap()));
        let parts: [Arc<Part>; 3] = Default::default();
        let followers = parts.iter().map(|part| Arc::new(Shared(Arc::clone(part))) as Arc<dyn Reconfigure>);
        let source = Arc::clone(&file);
        let read = Arc::new(move || settled(&source.lock().unwrap()));
        let reloader = Reloader::new(&scope, Arc::clone(&store), read, followers.collect());
        Self { _kernel: kernel, scope, file, store, parts, reloader }
    }

    async fn reload(&self, text: &str) -> Result<(), ReloadError> {
        text.clone_into(&mut self.file.lock().unwrap());
        self.reloader.reload("test").await
    }

    fn live(&self) -> u32 {
        self.store.current().get::<Knobs>().live
    }

    fn committed(&self) -> [Vec<u32>; 3] {
        [0, 1, 2].map(|n: usize| self.parts[n].committed.lock().unwrap().clone())
    }

    fn failed(&self) -> i64 {
        self.scope.all_metrics().families().config_reload_failed.get()
    }

    /// What readiness says: names and reasons, all of them only reported.
    fn reported(&self) -> Vec<(&'static str, String)> {
        let standing = self.scope.readiness().standing(None);
        assert!(standing.iter().all(|s| s.effect == Effect::Report), "{standing:?}");
        standing.into_iter().map(|s| (s.name, s.reason)).collect()
    }
}

#[tokio::test]
async fn a_good_configuration_is_committed_by_all_parts_and_told() {
    let f = Fixture::new();
    let mut events = f.scope.bus().subscribe();
    f.reload("[knobs]\nlive = 2\n").await.unwrap();
    assert_eq!(f.committed(), [[2], [2], [2]]);
    assert_eq!((f.live(), f.store.current().generation(), f.failed()), (2, 2, 0));
    let applied = KernelEvent::ConfigApplied { generation: 2, changed: vec!["knobs.live".into()] };
    assert_eq!(events.next().await, Some(Ok(applied)));
    assert_eq!(f.reported(), []);
    assert_eq!(f.scope.all_metrics().families().config_update.get(), 1);
}

#[tokio::test]
async fn one_part_that_refuses_keeps_all_parts_as_they_were_until_the_next_good_one() {
    let f = Fixture::new();
    let mut events = f.scope.bus().subscribe();
    f.parts[2].refuses.store(true, Ordering::Relaxed);
    let refused = f.reload("[knobs]\nlive = 2\n").await;
    assert!(matches!(refused, Err(ReloadError::Refused(_))), "{refused:?}");
    let problem = "the port is taken: choose another";
    assert_eq!(f.committed(), [const { Vec::<u32>::new() }; 3]);
    assert_eq!((f.live(), f.store.current().generation(), f.failed()), (1, 1, 1));
    assert_eq!(f.reported(), [("bad_reload", problem.to_owned())]);
    let told = |e: &Option<Result<KernelEvent, Fault>>| matches!(e, Some(Ok(KernelEvent::ConfigRefused { problem: p })) if p == problem);
    let (first, second) = (events.next().await, events.next().await);
    assert!(told(&first) || told(&second), "{first:?} {second:?}");

    f.parts[2].refuses.store(false, Ordering::Relaxed);
    f.reload("[knobs]\nlive = 3\n").await.unwrap();
    assert_eq!((f.committed(), f.live(), f.failed()), ([[3], [3], [3]].map(Vec::from), 3, 0));
    assert_eq!(f.reported(), []);
}

#[tokio::test]
async fn a_source_that_is_being_written_is_read_again_until_it_has_settled() {
    let f = Fixture::new();
    "unsettled".clone_into(&mut f.file.lock().unwrap());
    let writer = async {
        tokio::time::sleep(READ_AGAIN).await;
        "[knobs]\nlive = 2\n".clone_into(&mut f.file.lock().unwrap());
    };
    let (reloaded, ()) = tokio::join!(f.reloader.reload("test"), writer);
    reloaded.unwrap();
    assert_eq!((f.live(), f.failed()), (2, 0));
}

#[tokio::test(start_paused = true)]
async fn a_source_that_never_settles_is_refused_and_changes_nothing() {
    let f = Fixture::new();
    let refused = f.reload("unsettled").await.unwrap_err();
    assert!(refused.to_string().contains("keeps changing"), "{refused}");
    assert_eq!((f.live(), f.failed()), (1, 1));
    assert_eq!(f.committed(), [const { Vec::<u32>::new() }; 3]);
}

#[tokio::test]
async fn an_invalid_file_never_reaches_the_parts() {
    let f = Fixture::new();
    let refused = f.reload("[knobs]\nlve = 2\n").await.unwrap_err();
    assert!(matches!(refused, ReloadError::Invalid(_)));
    let text = refused.to_string();
    assert!(text.contains("lve") && text.contains("live"), "says what was meant: {text}");
    assert_eq!((f.live(), f.failed()), (1, 1));
    assert_eq!(f.committed(), [const { Vec::<u32>::new() }; 3]);
    assert!(f.store.last_error().is_some());
    assert_eq!(f.reported()[0].0, "bad_reload");

    f.reload("[knobs]\nlive = 1\n").await.unwrap();
    assert_eq!((f.failed(), f.reported(), f.store.last_error().is_none()), (0, vec![], true));
}

#[tokio::test]
async fn a_configuration_that_says_the_same_is_no_new_one() {
    let f = Fixture::new();
    let mut events = f.scope.bus().subscribe();
    f.reload("# moved\n[knobs]\nlive = 1\n").await.unwrap();
    assert_eq!(f.store.current().generation(), 1);
    assert_eq!(f.committed(), [[1], [1], [1]], "parts may have other files to read anew");
    f.reload("[knobs]\nlive = 2\n").await.unwrap();
    let heard = events.next().await;
    assert!(matches!(heard, Some(Ok(KernelEvent::ConfigApplied { generation: 2, .. }))), "{heard:?}");
}

#[tokio::test]
async fn a_change_that_needs_a_restart_is_reported_until_it_is_taken_back() {
    let f = Fixture::new();
    f.reload("[knobs]\nlive = 2\nfixed = 7\n").await.unwrap();
    let told = [("restart_needed", "restart to apply knobs.fixed".to_owned())];
    assert_eq!(f.reported(), told);
    f.reload("[knobs]\nlive = 3\nfixed = 7\n").await.unwrap();
    assert_eq!(f.reported(), told, "it is still needed");
    f.reload("[knobs]\nlive = 3\n").await.unwrap();
    assert_eq!(f.reported(), []);
}

#[tokio::test(start_paused = true)]
async fn a_reload_that_does_not_end_is_reported_while_it_lasts() {
    let f = Fixture::new();
    f.parts[2].hangs.store(true, Ordering::Relaxed);
    let told = async {
        while f.reported().is_empty() {
            tokio::time::sleep(READ_AGAIN).await;
        }
    };
    tokio::select! {
        outcome = f.reload("[knobs]\nlive = 2\n") => panic!("{outcome:?}"),
        () = told => {}
    }
    let reported = f.reported();
    assert!(reported[0].0 == "bad_reload" && reported[0].1.contains("has not ended"), "{reported:?}");
    assert_eq!((f.live(), f.failed()), (1, 1));
    f.parts[2].hangs.store(false, Ordering::Relaxed);
    f.reload("[knobs]\nlive = 2\n").await.unwrap();
    assert_eq!((f.live(), f.failed(), f.reported()), (2, 0, vec![]));
}

#[tokio::test]
async fn a_reload_that_is_dropped_before_it_commits_changes_nothing() {
    let f = Fixture::new();
    f.parts[2].hangs.store(true, Ordering::Relaxed);
    tokio::select! {
        outcome = f.reload("[knobs]\nlive = 2\n") => panic!("{outcome:?}"),
        () = f.parts[2].hanging.notified() => {}
    }
    assert_eq!((f.live(), f.store.current().generation()), (1, 1));
    assert_eq!(f.committed(), [const { Vec::<u32>::new() }; 3]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn over_a_thousand_reloads_readers_only_ever_see_good_configurations_in_order() {
    let f = Fixture::new();
    let over = Arc::new(AtomicBool::new(false));
    let (store, stop) = (Arc::clone(&f.store), Arc::clone(&over));
    let reader = tokio::task::spawn_blocking(move || {
        let mut last = 0;
        while !stop.load(Ordering::Relaxed) {
            let live = store.current().get::<Knobs>().live;
            // Bad ones are odd.
            assert!(live == 1 || live % 2 == 0, "{live} was never good");
            assert!(live == 1 || live >= last, "{live} came after {last}");
            last = live;
        }
    });
    for n in 2..=1001_u32 {
        if n % 2 == 0 {
            f.reload(&format!("[knobs]\nlive = {n}\n")).await.unwrap();
        } else if n % 4 == 1 {
            f.reload(&format!("[knobs]\nlive = {n}\nnonsense = 1\n")).await.unwrap_err();
        } else {
            f.parts[1].refuses.store(true, Ordering::Relaxed);
            f.reload(&format!("[knobs]\nlive = {n}\n")).await.unwrap_err();
            f.parts[1].refuses.store(false, Ordering::Relaxed);
        }
        assert_eq!((f.live(), f.failed()), (n & !1, i64::from(n % 2 == 1)));
    }
    over.store(true, Ordering::Relaxed);
    reader.await.unwrap();
    let good: Vec<u32> = (2..=1000).step_by(2).collect();
    assert_eq!(f.committed(), [good.clone(), good.clone(), good]);
}
