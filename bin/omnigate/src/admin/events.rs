//! `/events`: what happens to the node, as server-sent events.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http_body::Frame;
use http_body_util::StreamBody;
use ron_kernel::{
    Fault, Scope, Shutdown,
    bus::{KernelEvent, Subscription},
    topology::Stage,
};
use ron_sync::phase::Phase;
use ron_transport::{Body, BodyError, Response};
use serde_json::{Value, json};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::{Reason, Refusal};

use super::reply;

/// Streams at once; each holds one connection.
pub(super) const MAX_SUBSCRIBERS: usize = 16;
/// How long a stream may be silent before a comment shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// When a refused subscriber should try again.
const BUSY_RETRY: Duration = Duration::from_secs(5);

/// The places of subscribers.
#[derive(Debug)]
pub(super) struct EventStreams(Arc<Semaphore>);

impl EventStreams {
    pub(super) fn new() -> Self {
        Self(Arc::new(Semaphore::new(MAX_SUBSCRIBERS)))
    }

    /// A stream of events from now until the node has stopped.
    pub(super) fn open(&self, scope: &Scope) -> Result<Response, Refusal> {
        let place = Arc::clone(&self.0).try_acquire_owned().map_err(|_| {
            Refusal::new(Reason::Busy, format!("{MAX_SUBSCRIBERS} event streams are open already"))
                .retry_after(BUSY_RETRY)
        })?;
        let stream = EventStream {
            events: scope.bus().subscribe(),
            shutdown: scope.shutdown().clone(),
            // Sent at once, so that a client knows that it is connected.
            greeting: Some(": events of this node from now on\n\n".to_owned()),
            last_id: 0,
            _place: place,
        };
        let frames = stream::unfold(stream, |mut stream| async move {
            let text = stream.next().await?;
            Some((Ok::<_, BodyError>(Frame::data(Bytes::from(text))), stream))
        });
        let body = Body::streaming(StreamBody::new(frames));
        Ok(reply::with_type(StatusCode::OK, "text/event-stream", body))
    }
}

/// One subscriber's stream.
struct EventStream {
    events: Subscription,
    shutdown: Shutdown,
    greeting: Option<String>,
    /// The number of the last event, counting those that were missed.
    last_id: u64,
    _place: OwnedSemaphorePermit,
}

impl EventStream {
    /// The next piece of text; nothing once the node has nothing left to tell.
    async fn next(&mut self) -> Option<String> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        tokio::select! {
            biased;
            heard = self.events.next() => Some(self.write(&heard?)),
            () = self.shutdown.reached(Stage::Support) => None,
            () = tokio::time::sleep(KEEP_ALIVE) => Some(": still here\n\n".to_owned()),
        }
    }

    fn write(&mut self, heard: &Result<KernelEvent, Fault>) -> String {
        let (count, name, data) = match heard {
            Ok(event) => {
                let (name, data) = describe(event);
                (1, name, data)
            }
            Err(Fault::Lagging { missed }) => (*missed, "lagged", json!({ "missed": missed })),
            Err(fault) => (0, "fault", json!({ "fault": fault.to_string() })),
        };
        self.last_id += count;
        format!("id: {}\nevent: {name}\ndata: {data}\n\n", self.last_id)
    }
}

/// An event's name and contents.
fn describe(event: &KernelEvent) -> (&'static str, Value) {
    match event {
        KernelEvent::Shutdown { cause } => ("shutdown", json!({ "cause": cause })),
        KernelEvent::PhaseChanged(phase) => ("phase", json!({ "phase": phase_name(*phase) })),
        KernelEvent::TaskFailed { task, fault, restarts } => {
            ("task_failed", json!({ "task": task, "fault": fault, "restarts": restarts }))
        }
        KernelEvent::TaskGivenUp { task } => ("task_given_up", json!({ "task": task })),
        KernelEvent::Condition { service, name, effect, reason } => (
            "condition",
            json!({
                "service": service,
                "name": name,
                "effect": effect.map(|effect| effect.as_str()),
                "reason": reason,
            }),
        ),
        KernelEvent::ConfigApplied { generation, changed } => {
            ("config_applied", json!({ "generation": generation, "changed": changed }))
        }
        KernelEvent::ConfigRefused { problem } => ("config_refused", json!({ "problem": problem })),
        KernelEvent::CoreSilent { core } => ("core_silent", json!({ "core": core })),
        KernelEvent::CoreBack { core } => ("core_back", json!({ "core": core })),
        // The kernel may learn to tell more before this list does.
        other => ("other", json!({ "event": format!("{other:?}") })),
    }
}

/// A phase's name: `running`, `draining/intake`.
pub(super) fn phase_name(phase: Phase) -> String {
    match phase {
        Phase::Draining(stage) => format!("draining/{stage:?}").to_lowercase(),
        other => format!("{other:?}").to_lowercase(),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use ron_kernel::{Kernel, bus::BUS_CAPACITY, planes::RuntimeMode};

    fn kernel() -> Kernel {
        Kernel::builder("n").runtime(RuntimeMode::Current).build().unwrap()
    }

    fn back(core: usize) -> KernelEvent {
        KernelEvent::CoreBack { core: core.to_string() }
    }

    async fn next(body: &mut Body) -> String {
        let frame = body.frame().await.unwrap().unwrap();
        String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
    }

    #[tokio::test]
    async fn a_subscriber_that_falls_behind_is_told_how_many_events_it_missed() {
        let kernel = kernel();
        let scope = kernel.own();
        let mut body = EventStreams::new().open(scope).unwrap().into_body();
        assert!(next(&mut body).await.starts_with(':'));
        for core in 0..BUS_CAPACITY + 3 {
            scope.bus().publish(back(core));
        }
        assert_eq!(next(&mut body).await, "id: 3\nevent: lagged\ndata: {\"missed\":3}\n\n");
        assert_eq!(next(&mut body).await, "id: 4\nevent: core_back\ndata: {\"core\":\"3\"}\n\n");
    }

    #[tokio::test]
    async fn one_subscriber_too_many_is_told_to_come_back_and_a_place_comes_free() {
        let kernel = kernel();
        let streams = EventStreams::new();
        let mut open: Vec<_> = (0..MAX_SUBSCRIBERS).map(|_| streams.open(kernel.own()).unwrap()).collect();
        let refusal = streams.open(kernel.own()).unwrap_err();
        assert_eq!(refusal.reason, Reason::Busy);
        assert!(refusal.retry_after.is_some());
        open.pop();
        assert!(streams.open(kernel.own()).is_ok());
    }

    #[test]
    fn phases_read_as_words() {
        assert_eq!(phase_name(Phase::Running), "running");
        assert_eq!(phase_name(Phase::Draining(Stage::Intake)), "draining/intake");
        assert_eq!(phase_name(Phase::Stopped), "stopped");
    }
}
