//! Objects of the overlay as bodies of responses.

use std::sync::Arc;

use bytes::Bytes;
use futures_util::stream;
use http_body::Frame;
use http_body_util::StreamBody;
use ron_transport::{Body, BodyError};
use svc_overlay::{ObjectError, ObjectReader};
use types::Refusal;

/// A body of what is read. Whatever goes wrong breaks it off: the client sees that bytes are missing.
///
/// Cancel safe.
///
/// # Errors
/// The first bytes cannot be had.
pub(crate) async fn object_body(mut reader: ObjectReader) -> Result<Body, Refusal> {
    let Some(first) = reader.next().await? else { return Ok(Body::empty()) };
    let frames = stream::unfold((Some(first), Some(reader)), |(first, reader)| async move {
        let mut reader = reader?;
        let piece = match first {
            Some(first) => Ok(Some(first)),
            None => reader.next().await,
        };
        match piece {
            Ok(piece) => piece.map(|piece| (Ok(frame(piece)), (None, Some(reader)))),
            Err(error) => {
                tracing::warn!(%error, "the transfer of an object broke off");
                Some((Err(broken(error)), (None, None)))
            }
        }
    });
    Ok(Body::streaming(StreamBody::new(frames)))
}

fn frame(piece: Bytes) -> Frame<Bytes> {
    Frame::data(piece)
}

fn broken(error: ObjectError) -> BodyError {
    BodyError::new(Arc::new(error))
}
