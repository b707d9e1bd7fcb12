//! What was found to be damaged, and has not been replaced since: told by readiness, counted, never served.

use std::{
    collections::BTreeMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use ron_kernel::{
    Scope,
    metrics::Counter,
    readiness::{Condition, Effect},
};

/// How many are named; more are only counted.
const NAMED: usize = 16;

/// The damages that are known.
#[derive(Debug)]
pub(crate) struct Damages {
    condition: Condition,
    found: Counter,
    /// By name, with what is wrong. Bounded: more are counted and logged alone.
    standing: Mutex<BTreeMap<String, String>>,
}

impl Damages {
    pub(crate) fn new(scope: &Scope, found: Counter) -> Self {
        let condition = scope.condition("damaged", Effect::Report, Duration::ZERO);
        Self { condition, found, standing: Mutex::default() }
    }

    /// Notes that the bytes of `what` are not what they were.
    pub(crate) fn found(&self, what: &str, why: &str) {
        self.found.inc();
        tracing::error!(what, why, "damaged bytes were found and are not served");
        let mut standing = self.standing();
        if standing.len() < NAMED || standing.contains_key(what) {
            standing.insert(what.to_owned(), why.to_owned());
        }
        self.tell(&standing);
    }

    /// Notes that `what` is whole again.
    pub(crate) fn mended(&self, what: &str) {
        let mut standing = self.standing();
        if standing.remove(what).is_some() {
            tracing::info!(what, "whole again");
            self.tell(&standing);
        }
    }

    fn tell(&self, standing: &BTreeMap<String, String>) {
        if standing.is_empty() {
            return self.condition.clear();
        }
        let all: Vec<String> = standing.iter().map(|(what, why)| format!("{what}: {why}")).collect();
        self.condition.raise(all.join("; "));
    }

    fn standing(&self) -> MutexGuard<'_, BTreeMap<String, String>> {
        self.standing.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
