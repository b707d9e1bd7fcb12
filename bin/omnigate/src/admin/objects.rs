//! `/overlay/objects` and `/overlay/offer`: objects kept, got and handed over by hand.

use std::{
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::Bytes;
use futures_util::stream;
use http::{HeaderValue, StatusCode, header::CONTENT_LENGTH};
use http_body::Frame;
use http_body_util::{BodyExt as _, StreamBody};
use ron_transport::{Body, BodyError, Response};
use serde_json::{Value, json};
use svc_overlay::{ObjectError, Overlay};
use types::{NodeId, ObjectId, Reason, Refusal};

use super::reply;
use crate::object_body::object_body;

/// How often a long hand-over is told of.
const TELL: Duration = Duration::from_millis(250);
/// What is written to the store at once.
const PIECE: usize = 256 * 1024;

/// Keeps a request's body as an object.
pub(super) async fn store(overlay: &Overlay, mut body: Body) -> Result<Response, Refusal> {
    let mut upload = overlay.objects().create().await?;
    let mut piece = Vec::new();
    while let Some(frame) = body.frame().await {
        let broken = |_| Refusal::new(Reason::Malformed, "the body broke off");
        let Ok(data) = frame.map_err(broken)?.into_data() else { continue };
        piece.extend_from_slice(&data);
        if piece.len() >= PIECE {
            upload.write(std::mem::take(&mut piece).into()).await?;
        }
    }
    upload.write(piece.into()).await?;
    let (id, len) = upload.commit().await?;
    Ok(reply::json(StatusCode::OK, &json!({ "id": id, "len": len })))
}

/// An object of this node or its peers.
pub(super) async fn read(overlay: &Overlay, id: &str, is_head: bool) -> Result<Response, Refusal> {
    let found = overlay.objects().open(object_id(id)?).await?;
    let object = found.ok_or(ObjectError::NotFound)?;
    let len = object.len();
    let body = if is_head { Body::empty() } else { object_body(object.read(0..len).await?).await? };
    let mut response = reply::with_type(StatusCode::OK, "application/octet-stream", body);
    response.headers_mut().insert(CONTENT_LENGTH, HeaderValue::from(len));
    Ok(response)
}

/// Hands an object to a peer, and tells how far it has come.
pub(super) fn offer(overlay: &Overlay, id: &str, query: Option<&str>) -> Result<Response, Refusal> {
    let to = query.and_then(|query| query.strip_prefix("to=")).unwrap_or_default();
    let to: NodeId = to
        .replace("%3A", ":")
        .parse()
        .map_err(|_| Refusal::new(Reason::Malformed, "write ?to= and the id of a peer"))?;
    let (id, objects, sent) = (object_id(id)?, overlay.objects(), Arc::new(AtomicU64::new(0)));
    let told = Arc::clone(&sent);
    let work = async move { objects.offer(id, to, |bytes| told.store(bytes, Relaxed)).await };
    let offering = Offering { work: Some(Box::pin(work)), sent };
    let frames = stream::unfold(offering, |mut offering| async move {
        let (name, data) = offering.next().await?;
        let text = format!("event: {name}\ndata: {data}\n\n");
        Some((Ok::<_, BodyError>(Frame::data(Bytes::from(text))), offering))
    });
    Ok(reply::with_type(StatusCode::OK, "text/event-stream", Body::streaming(StreamBody::new(frames))))
}

/// What is being done, to be told of.
type Work = Pin<Box<dyn Future<Output = Result<(), ObjectError>> + Send>>;

/// A hand-over that is told of. Dropped, it is given up.
struct Offering {
    work: Option<Work>,
    sent: Arc<AtomicU64>,
}

impl Offering {
    async fn next(&mut self) -> Option<(&'static str, Value)> {
        let work = self.work.as_mut()?;
        let ended = tokio::select! {
            biased;
            ended = work => ended,
            () = tokio::time::sleep(TELL) => {
                return Some(("progress", json!({ "bytes": self.sent.load(Relaxed) })));
            }
        };
        self.work = None;
        Some(match ended {
            Ok(()) => ("stored", json!({ "bytes": self.sent.load(Relaxed) })),
            Err(error) => ("failed", json!({ "detail": error.to_string() })),
        })
    }
}

fn object_id(text: &str) -> Result<ObjectId, Refusal> {
    text.parse().map_err(|_| Refusal::new(Reason::Malformed, "an object is named by b3: and 64 hex digits"))
}
