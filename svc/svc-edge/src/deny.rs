//! A refusal with the field that belongs to it.

use http::{
    HeaderName, HeaderValue,
    header::{ALLOW, CONNECTION, CONTENT_RANGE},
};
use httprules::host::Unsound;
use ron_kernel::Fault;
use ron_transport::{Response, corr_id::CORR_ID, problem};
use types::{Reason, Refusal};

/// The value of `Allow`: the methods that the edge supports.
pub(crate) const METHODS: HeaderValue = HeaderValue::from_static("GET, HEAD, OPTIONS");

/// Why a request is not answered as asked, and a field that says more.
#[derive(Debug)]
pub(crate) struct Deny {
    pub(crate) refusal: Refusal,
    field: Option<(HeaderName, HeaderValue)>,
}

impl Deny {
    /// A part was asked for that cannot be had; the value says how much there is.
    pub(crate) fn range(content_range: HeaderValue) -> Self {
        let refusal = Refusal::from(Reason::InvalidRange);
        Self { refusal, field: Some((CONTENT_RANGE, content_range)) }
    }

    /// Nobody can say for which host the request is; what follows it on the connection is no better.
    pub(crate) fn host(unsound: Unsound) -> Self {
        let refusal = Refusal::new(Reason::Malformed, unsound.to_string());
        Self { refusal, field: Some((CONNECTION, HeaderValue::from_static("close"))) }
    }

    /// The response that says so, to the request of this correlation id.
    pub(crate) fn response(self, corr_id: &HeaderValue) -> Response {
        let mut response = problem::response_to(&self.refusal, corr_id);
        response.headers_mut().insert(CORR_ID, corr_id.clone());
        response.headers_mut().extend(self.field.map(|(name, value)| (Some(name), value)));
        response
    }
}

impl From<Refusal> for Deny {
    fn from(refusal: Refusal) -> Self {
        let field = (refusal.reason == Reason::MethodNotAllowed).then_some((ALLOW, METHODS));
        Self { refusal, field }
    }
}

impl From<Reason> for Deny {
    fn from(reason: Reason) -> Self {
        Refusal::from(reason).into()
    }
}

impl From<Fault> for Deny {
    fn from(fault: Fault) -> Self {
        Refusal::from(fault).into()
    }
}
