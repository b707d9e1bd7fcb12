//! What keeps a stall of the whole machine from looking like a fault of the node.

use std::{
    process::Command,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

/// How long a node waits for others, and for itself, where a test does not say: a machine may stall for longer than the usual
/// settings allow. And how much it tells.
const PATIENT: [(&str, &str); 19] = [
    ("log.level", "warn"),
    // For the deadline, which may not be as long otherwise.
    ("node.danger_ok", "true"),
    ("node.drain_deadline", "30s"),
    ("gateway.handshake_timeout", "60s"),
    ("gateway.read_timeout", "60s"),
    ("gateway.write_timeout", "60s"),
    ("gateway.fair_queue.max_wait", "60s"),
    // Of a tenant that is slow: the machine may be.
    ("gateway.fair_queue.slow_after", "1h"),
    ("edge.handshake_timeout", "60s"),
    ("edge.write_timeout", "60s"),
    ("edge.ingress.timeout_secs", "60"),
    ("edge.fill_timeout", "60s"),
    ("edge.fill.connect_timeout", "60s"),
    ("overlay.handshake_timeout", "30s"),
    ("overlay.timeouts.read", "60s"),
    ("overlay.timeouts.write", "60s"),
    ("rewarder.read_timeout", "60s"),
    ("rewarder.write_timeout", "60s"),
    ("traces.timeout", "60s"),
];

/// The same for each upstream of a gateway.
const PATIENT_UPSTREAM: [(&str, &str); 2] = [("timeout", "60s"), ("connect_timeout", "60s")];

/// Gives a node that is about to be started patience, as far as its configuration says nothing else.
pub(crate) fn be_patient(command: &mut Command, config: &str) {
    let config: toml::Table = config.parse().unwrap();
    let upstreams = at(&config, "gateway.upstream").and_then(toml::Value::as_table);
    let upstreams = upstreams.into_iter().flat_map(toml::Table::keys).flat_map(|name| {
        PATIENT_UPSTREAM.map(|(key, value)| (format!("gateway.upstream.{name}.{key}"), value))
    });
    let usual = PATIENT.map(|(key, value)| (key.to_owned(), value));
    for (key, value) in usual.into_iter().chain(upstreams) {
        if at(&config, &key).is_none() {
            command.env(format!("OMNIGATE_{}", key.replace('.', "__").to_uppercase()), value);
        }
    }
}

/// What a configuration has at a path.
fn at<'a>(config: &'a toml::Table, path: &str) -> Option<&'a toml::Value> {
    let mut keys = path.split('.');
    let first = config.get(keys.next()?);
    keys.fold(first, |value, key| value?.get(key))
}

/// A thread that wants to wake up every few milliseconds, and sees how late it does.
pub(crate) struct Stalls(Arc<AtomicU64>);

impl Stalls {
    pub(crate) fn watch() -> Self {
        const STEP: Duration = Duration::from_millis(5);
        let longest = Arc::<AtomicU64>::default();
        let seen = Arc::downgrade(&longest);
        thread::spawn(move || {
            loop {
                let begun = Instant::now();
                thread::sleep(STEP);
                let Some(seen) = seen.upgrade() else { return };
                let late = begun.elapsed().saturating_sub(STEP).as_micros();
                seen.fetch_max(u64::try_from(late).unwrap_or(u64::MAX), Ordering::Relaxed);
            }
        });
        Self(longest)
    }

    /// By how much it was late at most.
    pub(crate) fn longest(&self) -> Duration {
        Duration::from_micros(self.0.load(Ordering::Relaxed))
    }
}
