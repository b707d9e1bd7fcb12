//! Refusals in the words of gRPC: its clients read the status of a call from `grpc-status`, not from HTTP.

use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, Version, header::CONTENT_TYPE};
use ron_transport::{Body, Request, Response};
use types::{Reason, Refusal};

const GRPC_STATUS: HeaderName = HeaderName::from_static("grpc-status");
const GRPC_MESSAGE: HeaderName = HeaderName::from_static("grpc-message");

/// Whether a request is a call of gRPC, which only HTTP/2 carries.
pub(crate) fn is_call(request: &Request) -> bool {
    let is_grpc = |headers: &HeaderMap| {
        headers.get(CONTENT_TYPE).is_some_and(|value| value.as_bytes().starts_with(b"application/grpc"))
    };
    request.version() == Version::HTTP_2 && is_grpc(request.headers())
}

/// Says a refusal as gRPC does: an answer of nothing but its end. What the other fields tell stays.
pub(crate) fn reword(response: &mut Response, refusal: &Refusal) {
    *response.status_mut() = StatusCode::OK;
    *response.body_mut() = Body::empty();
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    headers.insert(GRPC_STATUS, HeaderValue::from(status(refusal.reason)));
    headers.insert(GRPC_MESSAGE, HeaderValue::from_static(refusal.reason.as_str()));
}

/// The code of gRPC that says the same.
const fn status(reason: Reason) -> u16 {
    match reason {
        Reason::Malformed | Reason::Unsupported => 3,
        Reason::DownstreamTimeout | Reason::RequestTimeout => 4,
        Reason::Forbidden | Reason::NotAllowed => 7,
        Reason::BodyCap | Reason::DecodedCap | Reason::DecodedRatio => 8,
        Reason::Quota | Reason::Busy | Reason::Shed | Reason::Amnesia => 8,
        Reason::SourceCap | Reason::SourceExpands => 8,
        Reason::InvalidRange => 11,
        Reason::NotFound | Reason::MethodNotAllowed => 12,
        Reason::Internal => 13,
        Reason::Degraded | Reason::NotReady | Reason::BadGateway | Reason::EtagInvalid | Reason::Draining => {
            14
        }
        Reason::Conflict => 9,
        Reason::Quarantined | Reason::Gone => 15,
        Reason::Unauth => 16,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ron_transport::problem;

    #[test]
    fn only_calls_over_http_2_are_answered_in_grpcs_words() {
        let of = |version, content_type: &'static str| {
            let mut request = Request::new(Body::empty());
            *request.version_mut() = version;
            request.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static(content_type));
            is_call(&request)
        };
        assert!(of(Version::HTTP_2, "application/grpc+proto"));
        assert!(!of(Version::HTTP_11, "application/grpc"));
        assert!(!of(Version::HTTP_2, "application/json"));
    }

    #[test]
    fn a_late_answer_is_an_exceeded_deadline_and_keeps_when_to_come_back() {
        let refusal = Refusal::from(Reason::DownstreamTimeout).retry_after(std::time::Duration::from_secs(2));
        let mut response = problem::response(&refusal);
        reword(&mut response, &refusal);
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["grpc-status"], "4");
        assert_eq!(response.headers()["grpc-message"], "downstream_timeout");
        assert_eq!(response.headers()["retry-after"], "2");
    }
}
