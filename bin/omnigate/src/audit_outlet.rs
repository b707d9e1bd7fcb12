//! Where the audit trail leaves the log: a layer that turns its events into JSON objects for whoever writes them.

use std::{fmt, sync::Arc};

use arc_swap::ArcSwapOption;
use ron_kernel::audit;
use serde_json::{Map, Value};
use tracing::{Event, Subscriber, field::Visit};
use tracing_subscriber::{Layer, layer::Context};

/// The fields of one event.
pub(crate) type Fields = Map<String, Value>;

/// Takes the events of the audit trail. Must not block, and must not log.
pub(crate) type Taker = Box<dyn Fn(Fields) + Send + Sync>;

/// Where the audit trail leaves the log, once somebody takes it. Clones share it.
#[derive(Clone, Default)]
pub(crate) struct AuditOutlet(Arc<ArcSwapOption<Taker>>);

impl AuditOutlet {
    /// Has `taker` take every event from now on.
    pub(crate) fn connect(&self, taker: Taker) {
        self.0.store(Some(Arc::new(taker)));
    }

    /// The layer of the log that feeds it.
    pub(crate) fn layer(&self) -> AuditLayer {
        AuditLayer(self.clone())
    }
}

impl fmt::Debug for AuditOutlet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuditOutlet")
    }
}

/// Feeds an outlet.
#[derive(Debug)]
pub(crate) struct AuditLayer(AuditOutlet);

impl<S: Subscriber> Layer<S> for AuditLayer {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        if event.metadata().target() != audit::TARGET {
            return;
        }
        if let Some(taker) = &*self.0.0.load() {
            let mut fields = Collected::default();
            event.record(&mut fields);
            taker(fields.0);
        }
    }
}

/// The fields of an event, collected.
#[derive(Default)]
struct Collected(Fields);

impl Collected {
    fn add(&mut self, field: &tracing::field::Field, value: impl Into<Value>) {
        self.0.insert(field.name().to_owned(), value.into());
    }
}

impl Visit for Collected {
    fn record_str(&mut self, field: &tracing::field::Field, value: &str) {
        self.add(field, value);
    }

    fn record_u64(&mut self, field: &tracing::field::Field, value: u64) {
        self.add(field, value);
    }

    fn record_i64(&mut self, field: &tracing::field::Field, value: i64) {
        self.add(field, value);
    }

    fn record_bool(&mut self, field: &tracing::field::Field, value: bool) {
        self.add(field, value);
    }

    fn record_debug(&mut self, field: &tracing::field::Field, value: &dyn fmt::Debug) {
        self.add(field, format!("{value:?}"));
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::sync::Mutex;

    use tracing_subscriber::{Registry, layer::SubscriberExt};

    use super::*;

    #[test]
    fn only_events_of_the_trail_come_out_with_all_their_fields() {
        let (outlet, taken) = (AuditOutlet::default(), Arc::new(Mutex::new(Vec::new())));
        let into = Arc::clone(&taken);
        tracing::subscriber::with_default(Registry::default().with(outlet.layer()), || {
            tracing::info!(target: audit::TARGET, action = "too early");
            outlet.connect(Box::new(move |fields| into.lock().unwrap().push(fields)));
            tracing::info!(action = "no part of the trail");
            tracing::info!(target: audit::TARGET, action = "reload", actor = "SIGHUP", status = 1_u16);
        });
        let taken = Value::from(taken.lock().unwrap().iter().cloned().map(Value::Object).collect::<Vec<_>>());
        assert_eq!(taken, serde_json::json!([{ "action": "reload", "actor": "SIGHUP", "status": 1 }]));
    }
}
