//! What the gateway answers itself, before it asks who the client is: redirects and fixed responses.

use bytes::Bytes;
use http::{HeaderValue, StatusCode, header::CONTENT_TYPE};
use ron_transport::{Body, Request, Response};
use types::Refusal;

use crate::{
    config::{RespondConfig, RouteConfig},
    redirect::Redirect,
    router::narrowing::Narrowing,
};

/// What a route answers itself.
#[derive(Debug)]
pub(crate) struct OwnAnswer {
    /// Where clients are sent, all of them or those who come in the clear.
    redirect: Option<Redirect>,
    /// What clients get that are not sent elsewhere.
    fixed: Option<FixedResponse>,
}

/// A response that is the same for everybody.
#[derive(Debug)]
struct FixedResponse {
    status: StatusCode,
    /// `None` without a body.
    content_type: Option<HeaderValue>,
    body: Bytes,
}

impl OwnAnswer {
    /// What a route answers itself, where HTTPS is served on `https_port`; `None` if nothing. What the configuration's check
    /// refuses is left out.
    pub(crate) fn of(route: &RouteConfig, https_port: u16) -> Option<Self> {
        let narrowing = Narrowing::new(route).0;
        let place = (route.path.as_str(), narrowing.path());
        let redirect = route.redirect.as_ref().and_then(|to| Redirect::new(to, place, https_port).ok());
        let fixed = route.respond.as_ref().and_then(FixedResponse::new);
        (redirect.is_some() || fixed.is_some()).then_some(Self { redirect, fixed })
    }

    /// The answer to a request as it came; `None` if it is to be passed on.
    ///
    /// # Errors
    /// `malformed` if a redirect depends on the host, and the request does not say which it is for.
    pub(crate) fn answer(&self, request: &Request, is_https: bool) -> Result<Option<Response>, Refusal> {
        if let Some(redirect) = &self.redirect
            && let Some(elsewhere) = redirect.answer(request, is_https)?
        {
            return Ok(Some(elsewhere));
        }
        Ok(self.fixed.as_ref().map(FixedResponse::response))
    }
}

impl FixedResponse {
    fn new(config: &RespondConfig) -> Option<Self> {
        let content_type =
            if config.body.is_empty() { None } else { Some(config.content_type.parse().ok()?) };
        let body = Bytes::from(config.body.clone());
        Some(Self { status: StatusCode::from_u16(config.status).ok()?, content_type, body })
    }

    fn response(&self) -> Response {
        let mut response = Response::new(Body::from(self.body.clone()));
        *response.status_mut() = self.status;
        response.headers_mut().extend(self.content_type.clone().map(|it| (CONTENT_TYPE, it)));
        response
    }
}
