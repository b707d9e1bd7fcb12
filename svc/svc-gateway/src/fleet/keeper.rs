//! The keeper: the task that leases limits from the store, in batches, beside the requests.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use quota::{FleetSize, Grant};
use ron_kernel::{
    Clock, Scope,
    queue::SharedReceiver,
    readiness::{Condition, Effect},
    retry::Backoff,
    supervisor::{TaskCtx, TaskResult},
};
use ron_transport::{
    addr::Scheme,
    resolve::Resolver,
    tls::{ClientTls, ClientTlsConfig, Roots},
};
use types::{Deadline, Moment};

use super::{
    Fleet, QUOTA_KEEPER, QUOTA_LEASES, QuotaStoreFault,
    allowance::Leased,
    metrics::FleetMetrics,
    server::{Connection, Server, ServerError},
};
use crate::{QuotasConfig, config::QuotaStore};

/// What the names of all keys begin with.
const PREFIX: &str = "omnigate:quota:";
/// The key with the list of gateways.
const GATEWAYS: &str = "omnigate:gateways";
/// How often a gateway says that it is there, and for how long that counts.
const BEAT_EVERY: Duration = Duration::from_secs(1);
const BEAT_COUNTS: Duration = Duration::from_secs(10);
/// How often all limits that were used lately are looked at.
const SWEEP_EVERY: Duration = Duration::from_millis(250);
/// The most limits that are looked after; others are judged by the last share. Each is referred to with eight bytes.
const MAX_KEPT: usize = 131_072;
/// The most questions that are sent before their answers are read.
const MAX_BATCH: usize = 512;
/// The pause before the store is connected to again.
const PAUSE: Backoff = Backoff::Spread {
    min: Duration::from_millis(50),
    max: Duration::from_millis(150),
    cap: Duration::from_secs(2),
};

/// Starts the keeper of a fleet with this store.
///
/// Cancel safe.
pub(super) async fn start(
    scope: &Scope,
    store: QuotaStore,
    config: &QuotasConfig,
    resolver: &Resolver,
    metrics: FleetMetrics,
) -> Result<Arc<Fleet>, QuotaStoreFault> {
    let tls = match store.endpoint.scheme() {
        Scheme::Http => None,
        Scheme::Https => Some(load_tls(scope, config).await?),
    };
    let (wants, taken) = scope.queue(&QUOTA_LEASES, "quota");
    let taken = taken.share();
    let fleet = Arc::new(Fleet {
        gateways: AtomicU32::new(1),
        keeper: AtomicU64::new(0),
        wants,
        cut_off: metrics.cut_off.clone(),
    });
    let server = Server { store, tls, resolver: resolver.clone(), clock: scope.clock() };
    // It tells gateways apart, nothing more.
    let name = format!("{:016x}", fastrand::u64(..));
    let (kept, started) = (Arc::clone(&fleet), fleet);
    scope.task(&QUOTA_KEEPER, move |ctx| {
        let number = kept.keeper.fetch_add(1, Ordering::Relaxed) + 1;
        let keeper = Keeper {
            fleet: Arc::clone(&kept),
            number,
            name: name.clone(),
            taken: taken.clone(),
            server: server.clone(),
            clock: server.clock,
            kept: Vec::new(),
            size: FleetSize::default(),
            condition: ctx.scope.condition("quota_store", Effect::Report, Duration::ZERO),
            metrics: metrics.clone(),
            failures: 0,
        };
        keeper.run(ctx)
    });
    Ok(started)
}

async fn load_tls(scope: &Scope, config: &QuotasConfig) -> Result<ClientTls, QuotaStoreFault> {
    let path = config.store_ca_path.clone();
    let load = move || -> Result<ClientTls, QuotaStoreFault> {
        let roots = Roots::named_or_system(&path).ok_or(QuotaStoreFault::NoRoots)?;
        Ok(ClientTls::load(&ClientTlsConfig::new(roots))?)
    };
    scope.blocking().run("load certificates", load).await?
}

/// One run of the task.
struct Keeper {
    fleet: Arc<Fleet>,
    /// Counts the runs from 1.
    number: u64,
    /// What this gateway is called in the list of gateways.
    name: String,
    taken: SharedReceiver<Arc<Leased>>,
    server: Server,
    clock: Clock,
    /// Limits that were used lately, or of which something is owed.
    kept: Vec<Arc<Leased>>,
    size: FleetSize,
    condition: Condition,
    metrics: FleetMetrics,
    /// Attempts to reach the store since it last answered.
    failures: u32,
}

impl Keeper {
    async fn run(mut self, ctx: TaskCtx) -> TaskResult {
        loop {
            let error = tokio::select! {
                () = ctx.stopping() => return Ok(()),
                error = self.session() => error,
            };
            self.note_failure(&error);
            let pause = PAUSE.delay(self.failures, &mut fastrand::Rng::new());
            self.failures = self.failures.saturating_add(1);
            tokio::select! {
                () = ctx.stopping() => return Ok(()),
                () = self.wait(pause) => {}
            }
        }
    }

    /// Says that the store is of no use, once for as long as it lasts.
    fn note_failure(&self, error: &ServerError) {
        let reason = format!(
            "{}: {error}; limits are judged by this gateway's last share of each",
            self.server.store.shown()
        );
        if self.failures == 0 {
            tracing::warn!(reason, "the store of shared limits cannot be used");
        }
        self.condition.raise(reason);
        self.metrics.up.set(0);
    }

    fn note_success(&mut self) {
        if self.failures > 0 {
            tracing::info!(
                source = self.server.store.shown(),
                "the store of shared limits can be used again"
            );
        }
        self.failures = 0;
        self.condition.clear();
        self.metrics.up.set(1);
    }

    /// Takes note of limits that were used, while there is no store to ask.
    async fn wait(&mut self, pause: Duration) {
        let until = self.clock.within(pause);
        while let Some(Some(leased)) = self.clock.by(until, self.taken.recv()).await {
            self.keep(leased);
        }
    }

    /// Asks the store until that fails.
    async fn session(&mut self) -> ServerError {
        let mut connection = match self.server.connect().await {
            Ok(connection) => connection,
            Err(error) => return error,
        };
        let (mut beat_at, mut sweep_at) = (self.clock.now(), self.clock.now());
        loop {
            let now = self.clock.now();
            let done = if now >= beat_at {
                beat_at = now.after(BEAT_EVERY);
                self.beat(&mut connection).await
            } else if now >= sweep_at {
                sweep_at = now.after(SWEEP_EVERY);
                self.sweep(&mut connection, now).await
            } else {
                let next = Deadline::at(beat_at.min(sweep_at));
                match self.clock.by(next, self.taken.recv()).await {
                    Some(Some(first)) => self.serve(&mut connection, first).await,
                    // The senders live as long as the gateway.
                    Some(None) | None => Ok(()),
                }
            };
            if let Err(error) = done {
                return error;
            }
        }
    }

    async fn beat(&mut self, connection: &mut Connection) -> Result<(), ServerError> {
        let counts = u64::try_from(BEAT_COUNTS.as_millis()).unwrap_or(u64::MAX);
        let gateways = connection.beat(GATEWAYS, &self.name, counts).await?;
        let gateways = self.size.hear(gateways, self.clock.now());
        self.fleet.gateways.store(gateways, Ordering::Relaxed);
        self.metrics.gateways.set(gateways.into());
        self.note_success();
        Ok(())
    }

    /// Pays what is owed, asks again for what was not answered, and lets go of what is not used.
    async fn sweep(&mut self, connection: &mut Connection, now: Moment) -> Result<(), ServerError> {
        self.kept.retain(|leased| {
            let is_idle = leased.is_idle(now);
            if is_idle {
                leased.let_go();
            }
            !is_idle
        });
        self.metrics.limits.set(i64::try_from(self.kept.len()).unwrap_or(i64::MAX));
        let mut from = 0;
        while from < self.kept.len() {
            let batch: Vec<_> = self.kept[from..].iter().take(MAX_BATCH).cloned().collect();
            from += batch.len();
            self.lease(connection, batch).await?;
        }
        Ok(())
    }

    /// Serves what requests are waiting for.
    async fn serve(&mut self, connection: &mut Connection, first: Arc<Leased>) -> Result<(), ServerError> {
        let mut batch = vec![first];
        while batch.len() < MAX_BATCH
            && let Some(leased) = self.taken.try_recv()
        {
            batch.push(leased);
        }
        batch.iter().for_each(|leased| self.keep(Arc::clone(leased)));
        self.lease(connection, batch).await
    }

    /// Looks after a limit from now on, if there is room.
    fn keep(&mut self, leased: Arc<Leased>) {
        if !leased.is_taken_by(self.number) {
            return;
        }
        if self.kept.len() < MAX_KEPT {
            self.kept.push(leased);
        } else {
            leased.let_go();
        }
    }

    /// Asks for what is needed of these limits.
    async fn lease(
        &mut self,
        connection: &mut Connection,
        batch: Vec<Arc<Leased>>,
    ) -> Result<(), ServerError> {
        let asked = self.clock.now();
        let asks = batch.into_iter().filter_map(|leased| leased.ask(asked).map(|ask| (leased, ask)));
        let asks: Vec<_> = asks.collect();
        if asks.is_empty() {
            return Ok(());
        }
        let words = asks.iter().map(|(leased, ask)| {
            let nanos = |time: Duration| u64::try_from(time.as_nanos()).unwrap_or(u64::MAX);
            let name = format!("{PREFIX}{}", leased.name());
            (name, nanos(ask.rate.interval()), nanos(ask.rate.window()), ask.tokens)
        });
        let failed = |_: &ServerError| {
            self.metrics.failed.inc_by(asks.len() as u64);
        };
        let answers = connection.lease(words).await.inspect_err(failed)?;
        let now = self.clock.now();
        let mut last_error = None;
        for ((leased, ask), answer) in asks.iter().zip(answers) {
            match answer {
                Ok(answer) => {
                    let grant = as_grant(answer, ask.tokens);
                    leased.answer(&grant, asked, now);
                    let is_whole = grant.tokens == ask.tokens;
                    let counted = if is_whole { &self.metrics.granted } else { &self.metrics.short };
                    counted.inc();
                }
                Err(error) => {
                    self.metrics.failed.inc();
                    last_error = Some(error);
                }
            }
        }
        last_error.map_or(Ok(()), Err)
    }
}

/// The answer of the store to a question for so many tokens. More than that is not believed.
fn as_grant([tokens, left, wait_micros]: [u64; 3], wanted: u32) -> Grant {
    let number = |number: u64| u32::try_from(number).unwrap_or(u32::MAX);
    Grant {
        tokens: number(tokens).min(wanted),
        left: number(left),
        wait: Duration::from_micros(wait_micros),
        tat: Moment::ORIGIN,
    }
}
