//! Refusals as `application/problem+json` responses.

use std::time::Duration;

use http::{HeaderValue, StatusCode, header};
use serde::Serialize;
use types::Refusal;

use crate::{Body, corr_id, service::Response};

const CONTENT_TYPE: &str = "application/problem+json";

/// The response that tells a client why it was refused, and when to try again.
#[must_use]
pub fn response(refusal: &Refusal) -> Response {
    respond(refusal, None)
}

/// The same for a request that has a correlation id, which the document repeats.
#[must_use]
pub fn response_to(refusal: &Refusal, corr_id: &HeaderValue) -> Response {
    respond(refusal, corr_id.to_str().ok())
}

/// The response to a request whose head cannot be served, under an id of its own.
pub(crate) fn response_to_head(status: StatusCode, refusal: &Refusal) -> Response {
    let id = corr_id::fresh();
    let mut response = respond_with(status, refusal, Some(&id));
    if let Ok(id) = HeaderValue::try_from(id) {
        response.headers_mut().insert(corr_id::CORR_ID, id);
    }
    response
}

/// The status of a refusal.
pub(crate) fn status_of(refusal: &Refusal) -> StatusCode {
    StatusCode::from_u16(refusal.reason.status()).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

fn respond(refusal: &Refusal, corr_id: Option<&str>) -> Response {
    respond_with(status_of(refusal), refusal, corr_id)
}

fn respond_with(status: StatusCode, refusal: &Refusal, corr_id: Option<&str>) -> Response {
    let mut response = Response::new(Body::from(write(refusal, status, corr_id)));
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(CONTENT_TYPE));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    if let Some(wait) = refusal.retry_after {
        headers.insert(header::RETRY_AFTER, HeaderValue::from(whole_seconds(wait)));
    }
    response
}

/// The bytes of a refusal for which there is no request that a service could answer: a head that does not arrive or
/// cannot be served. The last that is said on the connection, and under an id of its own.
pub(crate) fn last_answer(status: StatusCode, refusal: &Refusal) -> String {
    let corr_id = corr_id::fresh();
    let document = write(refusal, status, Some(&corr_id));
    format!(
        "HTTP/1.1 {status}\r\nconnection: close\r\ncache-control: no-store\r\nx-corr-id: {corr_id}\r\n\
         content-type: {CONTENT_TYPE}\r\ncontent-length: {}\r\n\r\n{document}",
        document.len()
    )
}

/// Seconds, rounded up: a client that obeys must not come too early.
fn whole_seconds(wait: Duration) -> u64 {
    (wait.as_secs() + u64::from(wait.subsec_nanos() > 0)).max(1)
}

/// The document, in the order in which it is written.
#[derive(Serialize)]
struct Document<'a> {
    title: &'static str,
    status: u16,
    detail: &'a str,
    reason: &'static str,
    /// Seconds, as in the header.
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    retry_after_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    corr_id: Option<&'a str>,
}

fn write(refusal: &Refusal, status: StatusCode, corr_id: Option<&str>) -> String {
    let reason = refusal.reason;
    let document = Document {
        title: reason.title(),
        status: status.as_u16(),
        detail: &refusal.detail,
        reason: reason.as_str(),
        retry_after: refusal.retry_after.map(whole_seconds),
        retry_after_ms: refusal.retry_after.map(|wait| u64::try_from(wait.as_millis()).unwrap_or(u64::MAX)),
        corr_id,
    };
    serde_json::to_string(&document).expect("texts and numbers can always be written")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;
    use http_body_util::BodyExt;
    use types::Reason;

    #[tokio::test]
    async fn a_refusal_carries_its_reason_and_when_to_come_back() {
        let refusal = Refusal::new(Reason::Busy, "512 are waiting").retry_after(Duration::from_millis(1500));
        let response = response_to(&refusal, &HeaderValue::from_static("abc"));
        assert_eq!(response.status(), 429);
        assert_eq!(response.headers()["retry-after"], "2");
        assert_eq!(response.headers()["content-type"], "application/problem+json");
        let body = response.into_body().collect().await.unwrap().to_bytes();
        let document: serde_json::Value = serde_json::from_slice(&body).unwrap();
        assert_eq!(document["reason"], "busy");
        assert_eq!(document["detail"], "512 are waiting");
        assert_eq!(document["retry_after"], 2);
        assert_eq!(document["retry_after_ms"], 1500);
        assert_eq!(document["corr_id"], "abc");
    }

    #[test]
    fn every_reason_answers_with_its_status() {
        for reason in Reason::ALL {
            assert_eq!(response(&reason.into()).status().as_u16(), reason.status());
        }
    }
}
