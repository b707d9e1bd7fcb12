//! The task that keeps the keys fresh, and the old ones while no new ones are to be had.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use futures_util::future::{Either, select};
use ron_kernel::{
    Scope,
    metrics::Counter,
    readiness::{Condition, Effect},
    retry::{Backoff, RetryBudget, RetryPolicy, retry},
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Restart, Stage, TaskSpec},
};
use ron_transport::resolve::Resolver;
use types::Deadline;

use super::{FetchError, JwksSettings, JwksSource, KeySet, Verifier, fetch::Fetcher, schedule::Schedule};

/// Tries of one refresh, half a second apart at most: what lasts longer is left to the next refresh.
const TRIES: RetryPolicy = RetryPolicy {
    max_tries: 3,
    backoff: Backoff::Added {
        base: Duration::from_millis(50),
        cap: Duration::from_millis(400),
        jitter: true,
    },
};

/// The refresher.
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
    settings: Arc<ArcSwapOption<JwksSettings>>,
    /// Where the keys in force came from.
    keys_from: Arc<ArcSwapOption<JwksSource>>,
}

impl KeyRefresher {
    /// Starts the task, which the service must have declared. Without settings it waits for some.
    #[must_use]
    pub fn start(
        scope: &Scope,
        resolver: &Resolver,
        verifier: &Arc<Verifier>,
        settings: Option<JwksSettings>,
    ) -> Self {
        let settings = Arc::new(ArcSwapOption::from_pointee(settings));
        let handle = Self { verifier: Arc::clone(verifier), settings, keys_from: Arc::default() };
        let fetcher =
            Fetcher { clock: scope.clock(), resolver: resolver.clone(), blocking: scope.blocking().clone() };
        let task = handle.clone();
        scope.task(&VERIFIER_KEY_REFRESHER, move |ctx| Run::new(&ctx, &task, &fetcher).run(ctx));
        handle
    }

    /// Follows these settings from now on, and fetches the keys at once. Keys from another source serve until the new one
    /// has answered or failed; without settings they are forgotten.
    pub fn follow(&self, settings: Option<JwksSettings>) {
        self.settings.store(settings.map(Arc::new));
        self.verifier.keys_wanted.notify_one();
    }
}

/// One run of the task.
struct Run {
    handle: KeyRefresher,
    fetcher: Fetcher,
    schedule: Schedule,
    /// What the schedule was made for.
    following: Option<Arc<JwksSettings>>,
    condition: Condition,
    budget: RetryBudget,
    retries: Counter,
    rng: fastrand::Rng,
}

impl Run {
    fn new(ctx: &TaskCtx, handle: &KeyRefresher, fetcher: &Fetcher) -> Self {
        Self {
            handle: handle.clone(),
            fetcher: fetcher.clone(),
            schedule: Schedule::new(fetcher.clock.now()),
            following: None,
            condition: ctx.scope.condition("jwks_stale", Effect::Report, Duration::ZERO),
            // One caller, whose tries are bounded already.
            budget: RetryBudget::new(1000, TRIES.max_tries),
            retries: ctx.scope.metrics().retries("jwks"),
            rng: fastrand::Rng::new(),
        }
    }

    async fn run(mut self, ctx: TaskCtx) -> TaskResult {
        let handle = self.handle.clone();
        loop {
            let settings = handle.settings.load_full();
            if settings.as_ref().map(Arc::as_ptr) != self.following.as_ref().map(Arc::as_ptr) {
                self.adopt(settings.clone());
            }
            let due = settings.as_ref().map_or(Deadline::NEVER, |_| Deadline::at(self.schedule.due()));
            let news = select(Box::pin(ctx.stopping()), Box::pin(handle.verifier.keys_wanted.notified()));
            match (self.fetcher.clock.by(due, news).await, settings) {
                (Some(Either::Left(_)), _) => return Ok(()),
                (Some(Either::Right(_)), Some(settings)) => {
                    self.schedule.wanted(self.fetcher.clock.now(), settings.unknown_key_gap);
                }
                (None, Some(settings)) => {
                    // A node that stops must not wait for an issuer that does not answer.
                    let refreshing = Box::pin(self.refresh(&settings));
                    if let Either::Left(_) = select(Box::pin(ctx.stopping()), refreshing).await {
                        return Ok(());
                    }
                }
                (_, None) => {}
            }
        }
    }

    fn adopt(&mut self, settings: Option<Arc<JwksSettings>>) {
        if settings.is_none() {
            self.handle.verifier.forget_keys();
        }
        self.condition.clear();
        self.schedule = Schedule::new(self.fetcher.clock.now());
        self.following = settings;
    }

    async fn refresh(&mut self, settings: &JwksSettings) {
        let fetched = self.fetch(settings).await;
        let now = self.fetcher.clock.now();
        match fetched {
            Ok(keys) => {
                tracing::debug!(source = %settings.source, keys = keys.len(), "keys refreshed");
                self.schedule.succeeded(now, settings.every, &mut self.rng);
                self.handle.verifier.set_keys(keys);
                self.handle.keys_from.store(Some(Arc::new(settings.source.clone())));
                self.condition.clear();
            }
            Err(error) => {
                tracing::warn!(source = %settings.source, %error, "keys could not be refreshed");
                self.schedule.failed(now, settings.every);
                // Old keys are better than none, but not those of somebody who is no longer trusted.
                if self.handle.keys_from.load().as_deref() != Some(&settings.source) {
                    self.handle.verifier.forget_keys();
                }
                if self.schedule.is_stale() || !self.handle.verifier.has_keys() {
                    self.condition.raise(format!("{}: {error}", settings.source));
                }
            }
        }
    }

    async fn fetch(&mut self, settings: &JwksSettings) -> Result<KeySet, FetchError> {
        let attempt = |_| self.fetcher.fetch(settings);
        let (clock, never) = (self.fetcher.clock, Deadline::NEVER);
        let outcome = retry(&TRIES, &self.budget, never, clock, &self.retries, &mut self.rng, attempt).await;
        outcome.map_err(ron_kernel::retry::RetryError::into_last)
    }
}
