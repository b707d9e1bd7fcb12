//! A refusal with the field that belongs to it.

use http::{
    HeaderName, HeaderValue,
    header::{ALLOW, CONTENT_RANGE},
};
use ron_kernel::Fault;
use ron_transport::{Response, problem};
use types::{Reason, Refusal};

/// What may be done here.
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

    /// The response that says so.
    pub(crate) fn response(self) -> Response {
        let mut response = problem::response(&self.refusal);
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
