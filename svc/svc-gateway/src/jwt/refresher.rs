//! The task that keeps the keys of all issuers fresh, and the old ones while no new ones are available.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures_util::future::{Either, join_all, select};
use ron_kernel::{
    Scope,
    metrics::Counter,
    readiness::{Condition, Effect},
    retry::{Backoff, RetryBudget, RetryPolicy, retry},
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Restart, Stage, TaskSpec},
};
use ron_transport::resolve::Resolver;
use types::{Deadline, Moment};

use super::{FetchError, JwksSettings, JwksSource, KeySet, Verifier, fetch::Fetcher, schedule::Schedule};
use crate::config::MAX_ISSUERS;

/// Tries of one refresh, half a second apart at most: what lasts longer is left to the next refresh.
const TRIES: RetryPolicy = RetryPolicy {
    max_tries: 3,
    backoff: Backoff::Added {
        base: Duration::from_millis(50),
        cap: Duration::from_millis(400),
        jitter: true,
    },
};

/// Tries of all issuers at once.
const MAX_TRIES: u32 = TRIES.max_tries * MAX_ISSUERS;

/// The task that fetches the issuers' keys.
pub const VERIFIER_KEY_REFRESHER: TaskSpec = TaskSpec {
    name: "verifier_key_refresher",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "fetches the keys that sign tokens, at an interval and when a token names an unknown one; keeps the old keys \
          while that fails",
};

/// A handle on the running refresher.
#[derive(Clone, Debug)]
pub struct KeyRefresher {
    verifier: Arc<Verifier>,
    settings: Arc<ArcSwap<Vec<JwksSettings>>>,
    /// Where the keys in force came from, by the name of the issuer.
    keys_from: Arc<ArcSwap<BTreeMap<String, JwksSource>>>,
}

impl KeyRefresher {
    /// Starts the task, which the service must have declared. Without settings it waits for some.
    #[must_use]
    pub fn start(
        scope: &Scope,
        resolver: &Resolver,
        verifier: &Arc<Verifier>,
        settings: Vec<JwksSettings>,
    ) -> Self {
        let settings = Arc::new(ArcSwap::from_pointee(settings));
        let handle = Self { verifier: Arc::clone(verifier), settings, keys_from: Arc::default() };
        let fetcher =
            Fetcher { clock: scope.clock(), resolver: resolver.clone(), blocking: scope.blocking().clone() };
        let task = handle.clone();
        scope.task(&VERIFIER_KEY_REFRESHER, move |ctx| Run::new(&ctx, &task, &fetcher).run(ctx));
        handle
    }

    /// Follows these settings from now on, and fetches the keys at once. Keys of an issuer from another source serve until
    /// the new one has answered or failed; those of an issuer without settings are forgotten.
    pub fn follow(&self, settings: Vec<JwksSettings>) {
        self.settings.store(Arc::new(settings));
        self.verifier.keys_wanted.notify_one();
    }

    /// Puts the keys of an issuer in force.
    fn put_in_force(&self, settings: &JwksSettings, keys: &KeySet) {
        self.verifier.set_keys(&settings.issuer, keys);
        self.keys_from.rcu(|known| {
            let mut known = BTreeMap::clone(known);
            known.insert(settings.issuer.clone(), settings.source.clone());
            known
        });
    }

    /// Whether the keys of an issuer came from where its settings say.
    fn has_keys_from(&self, settings: &JwksSettings) -> bool {
        self.keys_from.load().get(&settings.issuer) == Some(&settings.source)
    }
}

/// One run of the task.
struct Run {
    handle: KeyRefresher,
    fetcher: Fetcher,
    /// What the issuers below were made from.
    following: Option<Arc<Vec<JwksSettings>>>,
    issuers: Vec<Followed>,
    condition: Condition,
    budget: RetryBudget,
    retries: Counter,
    rng: fastrand::Rng,
}

/// An issuer whose keys are fetched.
struct Followed {
    settings: JwksSettings,
    schedule: Schedule,
    /// Why its keys are stale, if they are.
    problem: Option<String>,
}

impl Run {
    fn new(ctx: &TaskCtx, handle: &KeyRefresher, fetcher: &Fetcher) -> Self {
        Self {
            handle: handle.clone(),
            fetcher: fetcher.clone(),
            following: None,
            issuers: Vec::new(),
            condition: ctx.scope.condition("jwks_stale", Effect::Report, Duration::ZERO),
            // One caller, whose tries are bounded already.
            budget: RetryBudget::new(1000, MAX_TRIES),
            retries: ctx.scope.metrics().retries("jwks"),
            rng: fastrand::Rng::new(),
        }
    }

    async fn run(mut self, ctx: TaskCtx) -> TaskResult {
        let handle = self.handle.clone();
        loop {
            let settings = handle.settings.load_full();
            if Some(Arc::as_ptr(&settings)) != self.following.as_ref().map(Arc::as_ptr) {
                self.adopt(settings);
            }
            let news = select(Box::pin(ctx.stopping()), Box::pin(handle.verifier.keys_wanted.notified()));
            match self.fetcher.clock.by(self.due(), news).await {
                Some(Either::Left(_)) => return Ok(()),
                Some(Either::Right(_)) => {
                    let now = self.fetcher.clock.now();
                    for Followed { schedule, settings, .. } in &mut self.issuers {
                        schedule.wanted(now, settings.unknown_key_gap);
                    }
                }
                None => {
                    // A node that stops must not wait for an issuer that does not answer.
                    let refreshing = Box::pin(self.refresh());
                    if let Either::Left(_) = select(Box::pin(ctx.stopping()), refreshing).await {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// When the keys of the next issuer are to be fetched.
    fn due(&self) -> Deadline {
        let next = self.issuers.iter().map(|issuer| issuer.schedule.due()).min();
        next.map_or(Deadline::NEVER, Deadline::at)
    }

    fn adopt(&mut self, settings: Arc<Vec<JwksSettings>>) {
        let names: Vec<&str> = settings.iter().map(|settings| settings.issuer.as_str()).collect();
        self.handle.verifier.keep_only(&names);
        self.condition.clear();
        let now = self.fetcher.clock.now();
        let followed = |settings: &JwksSettings| Followed {
            settings: settings.clone(),
            schedule: Schedule::new(now),
            problem: None,
        };
        self.issuers = settings.iter().map(followed).collect();
        self.following = Some(settings);
    }

    /// Fetches the keys of all issuers whose time has come, side by side. Those that come are in force at once.
    async fn refresh(&mut self) {
        let now = self.fetcher.clock.now();
        let due = |issuer: &&Followed| issuer.schedule.due() <= now;
        let rngs = std::iter::repeat_with(|| self.rng.fork()).take(self.issuers.len()).collect::<Vec<_>>();
        let fetches = self.issuers.iter().filter(due).zip(rngs).map(async |(issuer, mut rng)| {
            let fetched = self.fetch(&issuer.settings, &mut rng).await;
            fetched.inspect(|keys| self.handle.put_in_force(&issuer.settings, keys))
        });
        let outcomes = join_all(fetches).await;
        let done = self.fetcher.clock.now();
        let due = self.issuers.iter_mut().filter(|issuer| issuer.schedule.due() <= now);
        for (issuer, outcome) in due.zip(outcomes) {
            issuer.note(outcome, done, &self.handle, &mut self.rng);
        }
        let problems: Vec<&str> =
            self.issuers.iter().filter_map(|issuer| issuer.problem.as_deref()).collect();
        if problems.is_empty() {
            self.condition.clear();
        } else {
            self.condition.raise(problems.join("; "));
        }
    }

    async fn fetch(&self, settings: &JwksSettings, rng: &mut fastrand::Rng) -> Result<KeySet, FetchError> {
        let attempt = |_| self.fetcher.fetch(settings);
        let (clock, never) = (self.fetcher.clock, Deadline::NEVER);
        let outcome = retry(&TRIES, &self.budget, never, clock, &self.retries, rng, attempt).await;
        outcome.map_err(ron_kernel::retry::RetryError::into_last)
    }
}

impl Followed {
    /// Notes what a refresh came to.
    fn note(
        &mut self,
        outcome: Result<KeySet, FetchError>,
        now: Moment,
        handle: &KeyRefresher,
        rng: &mut fastrand::Rng,
    ) {
        let settings = &self.settings;
        match outcome {
            Ok(keys) => {
                tracing::debug!(source = %settings.source, keys = keys.len(), "keys refreshed");
                self.schedule.succeeded(now, settings.every, rng);
                self.problem = None;
            }
            Err(error) => {
                tracing::warn!(source = %settings.source, %error, "keys could not be refreshed");
                self.schedule.failed(now, settings.every);
                // Old keys are better than none, but not those of somebody who is no longer trusted.
                if !handle.has_keys_from(settings) {
                    handle.verifier.forget_keys(&settings.issuer);
                }
                if self.schedule.is_stale() || !handle.verifier.has_keys(&settings.issuer) {
                    self.problem = Some(format!("{}: {error}", settings.source));
                }
            }
        }
    }
}
