//! The task that keeps the keys of all issuers fresh, and the old ones while no new ones are available.

use std::{collections::BTreeMap, future::pending, pin::Pin, sync::Arc, time::Duration};

use arc_swap::ArcSwap;
use futures_util::{StreamExt as _, stream::FuturesUnordered};
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

/// Tries of one refresh, half a second apart at most: what lasts longer is left to the next refresh.
const TRIES: RetryPolicy = RetryPolicy {
    max_tries: 3,
    backoff: Backoff::Added {
        base: Duration::from_millis(50),
        cap: Duration::from_millis(400),
        jitter: true,
    },
};

/// What is said of an issuer that has withdrawn all its keys, or publishes none that can be used.
const NO_KEYS: &str =
    "it has no key for RS256, PS256, ES256 or EdDSA signatures, so no token of this issuer is accepted";

/// The task that fetches the issuers' keys.
pub const VERIFIER_KEY_REFRESHER: TaskSpec = TaskSpec {
    name: "verifier_key_refresher",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "fetches the keys of each issuer separately, at an interval and when a token names an unknown key; keeps the \
     old keys while that fails",
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
        self.verifier.wanted.notify();
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

/// A fetch in progress. It ends with the index of its issuer and what was fetched.
type Fetch = Pin<Box<dyn Future<Output = (usize, Result<KeySet, FetchError>)> + Send>>;

/// One run of the task.
struct Run {
    handle: KeyRefresher,
    fetcher: Fetcher,
    /// What the issuers below were made from.
    following: Option<Arc<Vec<JwksSettings>>>,
    issuers: Vec<Followed>,
    /// At most one per issuer.
    fetches: FuturesUnordered<Fetch>,
    condition: Condition,
    retries: Counter,
    rng: fastrand::Rng,
}

/// An issuer whose keys are fetched.
struct Followed {
    settings: JwksSettings,
    schedule: Schedule,
    /// Whether its keys are being fetched, so that `schedule` does not say when they are next.
    is_fetched: bool,
    /// Whether a token named an unknown key while the keys were being fetched, perhaps too early to have it.
    is_wanted: bool,
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
            fetches: FuturesUnordered::new(),
            condition: ctx.scope.condition("jwks_stale", Effect::Report, Duration::ZERO),
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
            let due = self.fetcher.clock.by(self.due(), pending::<()>());
            tokio::select! {
                // A node that stops does not wait for an issuer that does not answer.
                () = ctx.stopping() => return Ok(()),
                () = handle.verifier.wanted.notified() => self.want(),
                Some((index, outcome)) = self.fetches.next() => self.note(index, outcome),
                _ = due => self.start_due(),
            }
        }
    }

    /// Brings the next fetch of the issuers forward of which a token named an unknown key.
    fn want(&mut self) {
        let (now, wanted) = (self.fetcher.clock.now(), self.handle.verifier.wanted.take());
        for issuer in self.issuers.iter_mut().filter(|issuer| wanted.contains(&issuer.settings.issuer)) {
            issuer.is_wanted = issuer.is_fetched;
            issuer.schedule.wanted(now, issuer.settings.unknown_key_gap);
        }
    }

    /// When the keys of the next issuer are to be fetched.
    fn due(&self) -> Deadline {
        let waiting = self.issuers.iter().filter(|issuer| !issuer.is_fetched);
        let next = waiting.map(|issuer| issuer.schedule.due()).min();
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
            is_fetched: false,
            is_wanted: false,
            problem: None,
        };
        // What began before may be older than what made somebody change or reload the settings.
        self.fetches = FuturesUnordered::new();
        self.issuers = settings.iter().map(followed).collect();
        self.following = Some(settings);
    }

    /// Starts to fetch the keys of the issuers whose time has come.
    fn start_due(&mut self) {
        let now = self.fetcher.clock.now();
        for (index, issuer) in self.issuers.iter_mut().enumerate() {
            if issuer.is_fetched || issuer.schedule.due() > now {
                continue;
            }
            issuer.is_fetched = true;
            let (fetcher, settings) = (self.fetcher.clone(), issuer.settings.clone());
            let (retries, rng) = (self.retries.clone(), self.rng.fork());
            self.fetches
                .push(Box::pin(async move { (index, fetch(&fetcher, &settings, &retries, rng).await) }));
        }
    }

    /// Puts keys that have come in force, notes what the fetch came to, and reports what is stale.
    fn note(&mut self, index: usize, outcome: Result<KeySet, FetchError>) {
        let now = self.fetcher.clock.now();
        self.issuers[index].note(outcome, now, &self.handle, &mut self.rng);
        let problems: Vec<&str> =
            self.issuers.iter().filter_map(|issuer| issuer.problem.as_deref()).collect();
        if problems.is_empty() {
            self.condition.clear();
        } else {
            self.condition.raise(problems.join("; "));
        }
    }
}

/// Fetches the keys of one issuer, with retries.
async fn fetch(
    fetcher: &Fetcher,
    settings: &JwksSettings,
    retries: &Counter,
    mut rng: fastrand::Rng,
) -> Result<KeySet, FetchError> {
    // One caller, whose tries are bounded already.
    let budget = RetryBudget::new(1000, TRIES.max_tries);
    let attempt = |_| fetcher.fetch(settings);
    let outcome = retry(&TRIES, &budget, Deadline::NEVER, fetcher.clock, retries, &mut rng, attempt).await;
    outcome.map_err(ron_kernel::retry::RetryError::into_last)
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
        self.is_fetched = false;
        match outcome {
            Ok(keys) => {
                handle.put_in_force(settings, &keys);
                tracing::debug!(source = %settings.source, keys = keys.len(), "keys refreshed");
                self.schedule.succeeded(now, settings.every, rng);
                let is_news = keys.is_empty() && self.problem.is_none();
                self.problem = keys.is_empty().then(|| format!("{}: {NO_KEYS}", settings.source));
                if is_news {
                    tracing::warn!(source = %settings.source, "{NO_KEYS}");
                }
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
        if std::mem::take(&mut self.is_wanted) {
            self.schedule.wanted(now, self.settings.unknown_key_gap);
        }
    }
}
