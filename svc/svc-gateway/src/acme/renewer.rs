//! The task that has a certificate for every name: its declaration, the handle on it, and what it shows of itself.

use std::sync::Arc;

use arc_swap::{ArcSwap, ArcSwapOption};
use ron_kernel::{
    Scope,
    readiness::Effect,
    topology::{Escalation, Plane, Restart, Stage, TaskSpec},
};
use ron_transport::{resolve::Resolver, tls::ServerTls};
use serde::Serialize;
use tokio::sync::Notify;

use super::{Answers, metrics::Attempts, run::Run, settings::AcmeSettings};

/// The task that obtains and renews certificates.
pub(crate) const ACME_RENEWER: TaskSpec = TaskSpec {
    name: "acme_renewer",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "obtains certificates by ACME, one at a time, renews them before they expire and puts them into use; waits \
     longer after each failure",
};

/// A name that a certificate is obtained for.
#[derive(Clone, Debug, Serialize)]
pub struct AcmeStatus {
    /// The DNS name.
    pub name: String,
    /// When its certificate expires, as Unix time in seconds; `None` while there is none.
    pub expires: Option<u64>,
    /// When the CA is asked next, as Unix time in seconds.
    pub next_attempt: u64,
    /// Attempts that failed since the last success.
    pub failures: u32,
    /// Why the last attempt failed; `None` if it did not.
    pub last_error: Option<String>,
}

/// A handle on the running renewer.
#[derive(Clone, Debug)]
pub(crate) struct Acme {
    pub(super) answers: Answers,
    pub(super) following: Arc<ArcSwapOption<Following>>,
    pub(super) changed: Arc<Notify>,
    pub(super) status: Arc<ArcSwap<Vec<AcmeStatus>>>,
}

/// The settings in force, and the listener that shows the certificates.
#[derive(Debug)]
pub(super) struct Following {
    pub(super) settings: AcmeSettings,
    pub(super) server: ServerTls,
}

impl Acme {
    /// Starts the task, which the service must have declared. Until [`Acme::follow`] it waits.
    pub(crate) fn start(scope: &Scope, resolver: &Resolver) -> Self {
        let handle = Self {
            answers: Answers::default(),
            following: Arc::default(),
            changed: Arc::default(),
            status: Arc::default(),
        };
        let (task, resolver, attempts) =
            (handle.clone(), resolver.clone(), Arc::new(Attempts::register(scope)));
        scope.task(&ACME_RENEWER, move |ctx| Run::new(&ctx, &task, &resolver, &attempts).run(ctx));
        handle
    }

    /// Follows these settings from now on, if any, and puts new certificates into force on this listener. Names
    /// that failed before do not wait longer than after a first failure, unless the CA asked for it.
    pub(crate) fn follow(&self, settings: Option<AcmeSettings>, server: Option<&ServerTls>) {
        let following = settings.zip(server.cloned());
        let following = following.map(|(settings, server)| Arc::new(Following { settings, server }));
        self.following.store(following);
        self.changed.notify_one();
    }

    /// The answers to challenges.
    pub(crate) const fn answers(&self) -> &Answers {
        &self.answers
    }

    /// The names that certificates are obtained for.
    pub(crate) fn status(&self) -> Arc<Vec<AcmeStatus>> {
        self.status.load_full()
    }
}
