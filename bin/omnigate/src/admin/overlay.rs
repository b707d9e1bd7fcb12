//! `/overlay/…`: publishing and subscribing by hand, who is connected, what was lost.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::stream;
use http::StatusCode;
use http_body::Frame;
use http_body_util::{BodyExt as _, Limited, StreamBody};
use oap::{PUBLICATION_MAX, Topic};
use ron_kernel::{Scope, Shutdown, topology::Stage};
use ron_transport::{Body, BodyError, Response};
use serde_json::{Value, json};
use svc_overlay::{
    EventId, InvalidEventId, Loss, LossSum, LossSums, NamedGap, Overlay, PeerInfo, Subscription, TopicInfo,
    told,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use types::{Reason, Refusal};

use super::reply;

/// Subscriptions at once; each holds one connection.
const MAX_SUBSCRIBERS: usize = 16;
/// How long a stream may be silent before a comment shows that it is alive.
const KEEP_ALIVE: Duration = Duration::from_secs(15);
/// When a refused subscriber should try again.
const BUSY_RETRY: Duration = Duration::from_secs(5);

/// The overlay's pages.
#[derive(Debug)]
pub(super) struct OverlayPages {
    overlay: Option<Arc<Overlay>>,
    shutdown: Shutdown,
    places: Arc<Semaphore>,
}

impl OverlayPages {
    pub(super) fn new(scope: &Scope, overlay: Option<Arc<Overlay>>) -> Self {
        let places = Arc::new(Semaphore::new(MAX_SUBSCRIBERS));
        Self { overlay, shutdown: scope.shutdown().clone(), places }
    }

    /// Publishes a request's body.
    pub(super) async fn publish(&self, topic: &str, body: Body) -> Result<Response, Refusal> {
        let (overlay, topic) = (self.overlay()?, topic_of(topic)?);
        let body = Limited::new(body, PUBLICATION_MAX).collect().await.map_err(|error| {
            let too_large = || {
                Refusal::new(Reason::BodyCap, format!("a publication has at most {PUBLICATION_MAX} bytes"))
            };
            error.downcast_ref::<BodyError>().map_or_else(too_large, BodyError::refusal)
        })?;
        let published = overlay.publish(topic, body.to_bytes()).await?;
        Ok(reply::json(StatusCode::OK, &told::published_json(&published)))
    }

    /// A stream of what is published.
    pub(super) async fn subscribe(&self, topic: &str, after: Option<&[u8]>) -> Result<Response, Refusal> {
        let (overlay, topic) = (self.overlay()?, topic_of(topic)?);
        let place = Arc::clone(&self.places).try_acquire_owned().map_err(|_| {
            Refusal::new(Reason::Busy, format!("{MAX_SUBSCRIBERS} subscriptions are open already"))
                .retry_after(BUSY_RETRY)
        })?;
        let subscription = match after {
            None => overlay.subscribe(topic).await?,
            Some(after) => overlay.resume(topic, event_id(after)?).await?,
        };
        let stream = Stream {
            subscription,
            shutdown: self.shutdown.clone(),
            // Sent at once, so that a client knows that it takes part.
            greeting: Some(": subscribed\n\n".to_owned()),
            _place: place,
        };
        let frames = stream::unfold(stream, |mut stream| async move {
            let text = stream.next().await?;
            Some((Ok::<_, BodyError>(Frame::data(Bytes::from(text))), stream))
        });
        let body = Body::streaming(StreamBody::new(frames));
        Ok(reply::with_type(StatusCode::OK, "text/event-stream", body))
    }

    /// Returns the connected peers.
    pub(super) fn peers(&self) -> Result<Response, Refusal> {
        let overlay = self.overlay()?;
        let peers: Vec<Value> = overlay.peers().iter().map(peer_of).collect();
        let listen = overlay.local_addr().to_string();
        let all = json!({ "node": overlay.node().to_string(), "listen": listen, "peers": peers });
        Ok(reply::json(StatusCode::OK, &all))
    }

    /// Returns the topics with their numbers of publications.
    pub(super) fn topics(&self) -> Result<Response, Refusal> {
        let topics = self.overlay()?.topics();
        let topics: Vec<Value> = topics.iter().map(topic_json).collect();
        Ok(reply::json(StatusCode::OK, &json!({ "topics": topics })))
    }

    /// Returns the loss report.
    pub(super) fn losses(&self, query: Option<&str>) -> Result<Response, Refusal> {
        let after = query.and_then(|query| query.strip_prefix("after=")).unwrap_or("0");
        let after =
            after.parse().map_err(|_| Refusal::new(Reason::Malformed, "write ?after= and a whole number"))?;
        let overlay = self.overlay()?;
        let (total, losses) = overlay.losses(after);
        let losses: Vec<Value> = losses.iter().map(loss_of).collect();
        let LossSums { sums, others } = overlay.loss_sums();
        let sums: Vec<Value> = sums.iter().map(sum_of).collect();
        let gaps: Vec<Value> = overlay.gaps().iter().map(gap_of).collect();
        let report =
            json!({ "total": total, "losses": losses, "sums": sums, "others": others, "gaps": gaps });
        Ok(reply::json(StatusCode::OK, &report))
    }

    pub(super) fn overlay(&self) -> Result<&Arc<Overlay>, Refusal> {
        let missing = || Refusal::new(Reason::NotFound, "the overlay is not enabled: set `overlay.enabled`");
        self.overlay.as_ref().ok_or_else(missing)
    }
}

fn topic_of(name: &str) -> Result<Topic, Refusal> {
    Topic::new(name).map_err(|error| Refusal::new(Reason::Malformed, error.to_string()))
}

/// What a subscriber that comes back heard last.
fn event_id(header: &[u8]) -> Result<EventId, Refusal> {
    let text = str::from_utf8(header).unwrap_or_default();
    text.parse()
        .map_err(|error: InvalidEventId| Refusal::new(Reason::Malformed, format!("Last-Event-ID: {error}")))
}

/// One subscriber's stream.
struct Stream {
    subscription: Subscription,
    shutdown: Shutdown,
    greeting: Option<String>,
    _place: OwnedSemaphorePermit,
}

impl Stream {
    async fn next(&mut self) -> Option<String> {
        if let Some(greeting) = self.greeting.take() {
            return Some(greeting);
        }
        tokio::select! {
            biased;
            heard = self.subscription.next_event() => {
                let (id, heard) = heard?;
                let (name, data) = told::event_json(&heard);
                Some(format!("id: {id}\nevent: {name}\ndata: {data}\n\n"))
            }
            () = self.shutdown.reached(Stage::Writers) => None,
            () = tokio::time::sleep(KEEP_ALIVE) => Some(": still here\n\n".to_owned()),
        }
    }
}

fn peer_of(peer: &PeerInfo) -> Value {
    json!({
        "node": peer.node.to_string(),
        "place": peer.place,
        "dialled": peer.dialled,
        "key_exchange": peer.key_exchange,
        "up_secs": peer.up.as_secs(),
        "heard_ms": u64::try_from(peer.heard.as_millis()).unwrap_or(u64::MAX),
        "frames_in": peer.frames_in,
        "frames_out": peer.frames_out,
        "queued": peer.queued,
        "going": peer.going,
    })
}

fn loss_of(loss: &Loss) -> Value {
    json!({
        "number": loss.number,
        "unix_ms": u64::try_from(loss.at.as_millis()).unwrap_or(u64::MAX),
        "id": told::id_json(&loss.id),
        "last": loss.last,
        "queue": loss.queue,
        "peer": loss.peer.map(|peer| peer.to_string()),
        "reason": loss.reason,
    })
}

fn topic_json(topic: &TopicInfo) -> Value {
    json!({
        "topic": topic.topic.as_str(),
        "delivered": topic.delivered,
        "missing": topic.missing,
    })
}

fn gap_of(named: &NamedGap) -> Value {
    let mut gap = told::gap_json(&named.gap);
    gap["unix_ms"] = u64::try_from(named.at.as_millis()).unwrap_or(u64::MAX).into();
    gap
}

fn sum_of(sum: &LossSum) -> Value {
    json!({
        "peer": sum.peer.map(|peer| peer.to_string()),
        "topic": sum.topic.as_str(),
        "reason": sum.reason,
        "count": sum.count,
    })
}
