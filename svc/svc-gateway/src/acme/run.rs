//! One run of the task: waits for the next name, asks the CA, and puts new certificates into force.

use std::{future::pending, sync::Arc, time::Duration};

use instant_acme::{Account, Error};
use ron_kernel::{
    Scope,
    readiness::{Condition, Effect},
    supervisor::{TaskCtx, TaskResult},
};
use ron_transport::{resolve::Resolver, tls::Inspected};

use super::{
    Acme,
    ca_client::CaClient,
    hook::DnsHook,
    metrics::Attempts,
    name::{Name, validity},
    order::{Ca, OrderError, identifier},
    renewer::Following,
    schedule::{self, Failure},
    settings::AcmeSettings,
};

/// How often the schedule is looked at, at least: somebody may have set the machine's clock.
const LOOK: Duration = Duration::from_secs(60);
/// How soon after a certificate the next one is obtained for the same name, however short-lived it is.
const AGAIN_SOONEST: Duration = Duration::from_secs(10);
/// How soon to look again while another process orders.
const LOCKED: Duration = Duration::from_secs(10);
/// How often the CA is asked when it suggests to renew (RFC 9773), whatever it says of that itself.
const SUGGESTION_SOONEST: Duration = Duration::from_secs(3600);
const SUGGESTION_LATEST: Duration = Duration::from_secs(24 * 3600);

/// One run of the task.
pub(super) struct Run {
    handle: Acme,
    scope: Scope,
    resolver: Resolver,
    attempts: Arc<Attempts>,
    condition: Condition,
    following: Option<Arc<Following>>,
    ca: Option<Ca>,
    /// The account at the CA, once it was asked for; anew after a failure.
    account: Option<Account>,
    /// Whether the CA suggests when to renew.
    suggests: bool,
    /// Whether the listener shows all that is kept.
    is_installed: bool,
    names: Vec<Name>,
}

/// What is to be done next for a name.
#[derive(Clone, Copy)]
enum Work {
    Obtain(usize),
    AskSuggestion(usize),
}

impl Run {
    pub(super) fn new(ctx: &TaskCtx, handle: &Acme, resolver: &Resolver, attempts: &Arc<Attempts>) -> Self {
        Self {
            handle: handle.clone(),
            scope: ctx.scope.clone(),
            resolver: resolver.clone(),
            attempts: Arc::clone(attempts),
            condition: ctx.scope.condition("acme_failing", Effect::Report, Duration::ZERO),
            following: None,
            ca: None,
            account: None,
            suggests: false,
            is_installed: true,
            names: Vec::new(),
        }
    }

    pub(super) async fn run(mut self, ctx: TaskCtx) -> TaskResult {
        let (handle, clock) = (self.handle.clone(), self.scope.clock());
        loop {
            let following = handle.following.load_full();
            if following.as_ref().map(Arc::as_ptr) != self.following.as_ref().map(Arc::as_ptr) {
                self.adopt(following);
            }
            if !self.is_installed {
                self.install().await;
            }
            self.tell();
            let (wait, work) = self.next(clock.wall());
            let look = clock.by(clock.within(wait.min(LOOK)), pending::<()>());
            tokio::select! {
                () = ctx.stopping() => return Ok(()),
                () = handle.changed.notified() => continue,
                _ = look => {}
            }
            if !wait.is_zero() {
                continue;
            }
            tokio::select! {
                // A node that stops does not wait for a CA that does not answer.
                () = ctx.stopping() => return Ok(()),
                () = self.work(work) => {}
            }
        }
    }

    /// What is to be done next, and in how long.
    fn next(&self, now: Duration) -> (Duration, Option<Work>) {
        let obtain = schedule::first(self.names.iter().map(|name| &name.schedule));
        let obtain = obtain.map(|at| (self.names[at].schedule.due(), Work::Obtain(at)));
        let certified = self.names.iter().enumerate().filter(|(_, name)| name.certificate.is_some());
        let ask = certified.map(|(at, name)| (name.suggestion_due, Work::AskSuggestion(at)));
        let next = obtain.into_iter().chain(ask).min_by_key(|(due, _)| *due);
        next.map_or((LOOK, None), |(due, work)| (due.saturating_sub(now), Some(work)))
    }

    async fn work(&mut self, work: Option<Work>) {
        match work {
            Some(Work::Obtain(at)) => self.attempt(at).await,
            Some(Work::AskSuggestion(at)) => self.ask_suggestion(at).await,
            None => {}
        }
    }

    /// Begins to follow other settings. A name that stays with its CA keeps its certificate and what is known of it.
    fn adopt(&mut self, following: Option<Arc<Following>>) {
        let now = self.scope.clock().wall();
        let before = self.following.take();
        let mut old = std::mem::take(&mut self.names);
        (self.account, self.suggests) = (None, false);
        self.ca = following.as_ref().map(|following| self.ca_of(&following.settings));
        if let Some(Following { settings, .. }) = following.as_deref() {
            let same_ca = before.as_ref().is_some_and(|before| before.settings.store == settings.store);
            let is_same = |known: &Name, name: &String| same_ca && known.name == *name;
            for name in &settings.names {
                let known = old.iter().position(|known| is_same(known, name)).map(|at| old.swap_remove(at));
                self.names.push(Name::following(known, name, settings, now));
            }
        }
        self.following = following;
        // A certificate may have come since the settings were loaded.
        self.is_installed = false;
    }

    fn ca_of(&self, settings: &AcmeSettings) -> Ca {
        let clock = self.scope.clock();
        let config = settings.config.clone();
        Ca {
            client: CaClient::new(clock, &self.resolver, Some(settings.ca_tls.clone())),
            store: settings.store.clone(),
            hook: DnsHook {
                command: config.dns_hook.clone(),
                timeout: config.dns_hook_timeout.as_duration(),
                clock,
            },
            answers: self.handle.answers.clone(),
            blocking: self.scope.blocking().clone(),
            config,
            clock,
        }
    }

    /// Has the listener show the certificates that are kept. If another of its files cannot be read now, it is tried again.
    async fn install(&mut self) {
        self.is_installed = true;
        let Some(following) = self.following.clone() else { return };
        let with = self.names.iter().filter(|name| name.certificate.is_some()).map(|name| &name.name);
        let config = following.settings.server_config_with(with);
        let reload = move || following.server.reload(&config);
        let done = self.scope.blocking().run("load certificates", reload).await;
        let done = done.map_err(|error| error.to_string()).and_then(|done| done.map_err(|e| e.to_string()));
        if let Err(error) = done {
            self.is_installed = false;
            tracing::warn!(error, "certificates could not be put into use; the old ones stay in use");
            self.replace_damaged().await;
        }
    }

    /// Has certificates replaced that were kept and cannot be read any more: one of them keeps all from being put into use.
    async fn replace_damaged(&mut self) {
        let (Some(ca), now) = (&self.ca, self.scope.clock().wall()) else { return };
        for name in self.names.iter_mut().filter(|name| name.certificate.is_some()) {
            if let Ok(Err(error)) = ca.kept(&name.name).await {
                tracing::warn!(name = name.name, %error, "a kept certificate is replaced");
                name.schedule.hasten(now);
            }
        }
    }

    /// Tries to have a certificate for a name, and notes what comes of it.
    async fn attempt(&mut self, at: usize) {
        let Some(following) = self.following.clone() else { return };
        let store = following.settings.store.clone();
        let locked = self.scope.blocking().run("lock certificates", move || store.lock()).await;
        let lock = match locked.map_err(OrderError::from).and_then(|lock| Ok(lock?)) {
            Ok(Some(lock)) => lock,
            Ok(None) => {
                let until = self.scope.clock().wall() + LOCKED;
                return self.names[at].schedule.hold_back(until);
            }
            Err(error) => return self.note_failure(at, &error),
        };
        match self.obtain(at, &following.settings).await {
            Ok(certificate) => {
                self.attempts.issued.inc();
                let expires =
                    humantime::format_rfc3339_seconds(std::time::UNIX_EPOCH + certificate.not_after);
                self.names[at].adopt(certificate, following.settings.renew_before());
                // Not at once: a CA that suggests to renew all that it issues would be asked all the time.
                let now = self.scope.clock().wall();
                self.names[at].suggestion_due = now + SUGGESTION_SOONEST;
                self.names[at].schedule.hold_back(now + AGAIN_SOONEST);
                tracing::info!(name = self.names[at].name, %expires, "certificate obtained");
                self.is_installed = false;
            }
            Err(error) => {
                self.note_failure(at, &error);
                self.keep_wait(at).await;
            }
        }
        drop(lock);
    }

    /// Remembers until when the CA is not asked for a name, also by a process after this one. The folder must be locked.
    async fn keep_wait(&self, at: usize) {
        let (Some(ca), name) = (&self.ca, &self.names[at]) else { return };
        if let Err(error) = ca.keep_wait(&name.name, name.schedule.soonest()).await {
            tracing::debug!(name = name.name, %error, "a failure is not remembered");
        }
    }

    /// A certificate for a name: one that another process has put into the store, or a new one. The folder must be locked.
    async fn obtain(&mut self, at: usize, settings: &AcmeSettings) -> Result<Inspected, OrderError> {
        let Some(ca) = &self.ca else { return Err(OrderError::Timeout) };
        // What it asked for before is no answer to this.
        let _ = ca.client.take_retry_after();
        let Name { name, certificate, .. } = &self.names[at];
        if let Ok(kept) = ca.kept(name).await? {
            let is_news = certificate.as_ref() != Some(&kept);
            if is_news && validity(&kept).renew_at(settings.renew_before(), 1.0) > ca.clock.wall() {
                return Ok(kept);
            }
        }
        ca.check_room().await?;
        let account = match self.account.take() {
            Some(account) => account,
            None => ca.account().await?,
        };
        let replaced = certificate.as_ref().and_then(|certificate| certificate.renewal_id.as_ref());
        let replaced = replaced.filter(|_| self.suggests);
        let pem = ca.order(&account, name, replaced).await?;
        let obtained = ca.keep(name, pem).await?;
        self.account = Some(account);
        Ok(obtained)
    }

    /// Notes that there is no new certificate for a name. What has served goes on serving.
    fn note_failure(&mut self, at: usize, error: &OrderError) {
        let (now, failure) = (self.scope.clock().wall(), error.failure());
        let retry_after = self.ca.as_ref().and_then(|ca| ca.client.take_retry_after());
        match failure {
            Failure::Outage => self.attempts.outage.inc(),
            Failure::Refused => self.attempts.refused.inc(),
            Failure::RateLimited => self.attempts.rate_limited.inc(),
        };
        let failed = &mut self.names[at];
        failed.schedule.failed(now, failure, retry_after, fastrand::f64());
        failed.last_error = Some(error.to_string());
        let (name, next) = (&failed.name, failed.schedule.due());
        let wait = humantime::format_duration(Duration::from_secs(next.saturating_sub(now).as_secs()));
        tracing::warn!(name, %error, %wait, "certificate not obtained; the current one stays in use");
        if failure == Failure::Outage {
            self.names.iter_mut().for_each(|other| other.schedule.hold_back(next));
        }
    }

    /// Asks the CA when it suggests to renew a certificate; follows it if that is sooner.
    async fn ask_suggestion(&mut self, at: usize) {
        let now = self.scope.clock().wall();
        let answer = self.suggestion(at).await;
        let name = &mut self.names[at];
        let mut again = SUGGESTION_LATEST;
        match answer {
            Ok((when, retry_after)) => {
                self.suggests = true;
                again = retry_after.clamp(SUGGESTION_SOONEST, SUGGESTION_LATEST);
                name.schedule.suggested(when);
            }
            Err(OrderError::Nonsense(Error::Unsupported(_))) => {}
            Err(error) => {
                tracing::debug!(name = name.name, %error, "the CA gave no suggestion when to renew");
            }
        }
        name.suggestion_due = now + again;
    }

    async fn suggestion(&mut self, at: usize) -> Result<(Duration, Duration), OrderError> {
        let known = self.names[at].certificate.as_ref().and_then(|known| known.renewal_id.as_ref());
        let (Some(ca), Some(id)) = (&self.ca, known) else {
            return Err(Error::Unsupported("certificates without the key of their authority").into());
        };
        let account = match self.account.take() {
            Some(account) => account,
            None => ca.account().await?,
        };
        let answer = account.renewal_info(&identifier(id)).await;
        self.account = Some(account);
        let (info, retry_after) = answer?;
        let window = info.suggested_window;
        let seconds = |at: i64| Duration::from_secs(u64::try_from(at).unwrap_or_default());
        let (start, end) = (seconds(window.start.unix_timestamp()), seconds(window.end.unix_timestamp()));
        Ok((start + end.saturating_sub(start).mul_f64(fastrand::f64()), retry_after))
    }

    /// Tells readiness, metrics and whoever asks for the status.
    fn tell(&self) {
        self.handle.status.store(Arc::new(self.names.iter().map(Name::status).collect()));
        let complaints: Vec<String> = self.names.iter().filter_map(Name::complaint).collect();
        if complaints.is_empty() {
            self.condition.clear();
        } else {
            self.condition.raise(complaints.join("; "));
        }
    }
}
