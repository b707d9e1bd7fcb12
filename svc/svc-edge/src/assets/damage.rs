//! What was found to be damaged, and has not been replaced since: told by readiness, counted, never served.

use std::{collections::BTreeMap, time::Duration};

use ron_kernel::{
    Scope,
    lock::Ranked,
    metrics::Counter,
    readiness::{Condition, Effect},
    topology::LockSpec,
};

/// The damages that are known, and their condition: the last word must be about the last change.
pub(crate) const STATE_META: LockSpec = LockSpec {
    name: "state_meta",
    rank: 10,
    doc: "damage that was found; held while readiness is updated, so that the last update is about the last change",
};

/// How many are named; more are only counted.
const NAMED: usize = 16;

/// The damages that are known.
#[derive(Debug)]
pub(crate) struct Damages {
    condition: Condition,
    found: Counter,
    /// By name, with what is wrong. Bounded: more are counted and logged alone.
    standing: Ranked<BTreeMap<String, String>>,
}

impl Damages {
    pub(crate) fn new(scope: &Scope, found: Counter) -> Self {
        let condition = scope.condition("damaged", Effect::Report, Duration::ZERO);
        Self { condition, found, standing: scope.lock(&STATE_META, BTreeMap::new()) }
    }

    /// Notes that the bytes of `what` are not what they were.
    pub(crate) fn found(&self, what: &str, why: &str) {
        self.found.inc();
        tracing::error!(what, why, "damaged bytes were found and are not served");
        let mut standing = self.standing.lock();
        if standing.len() < NAMED || standing.contains_key(what) {
            standing.insert(what.to_owned(), why.to_owned());
        }
        self.tell(&standing);
    }

    /// Notes that `what` is whole again.
    pub(crate) fn mended(&self, what: &str) {
        let mut standing = self.standing.lock();
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
}
