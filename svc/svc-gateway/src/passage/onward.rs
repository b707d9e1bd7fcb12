//! Requests made fit for servers: the route's own, and the one that decides about them.

use http::HeaderValue;
use ron_transport::{Body, Request};
use types::Refusal;

use super::Passage;
use crate::{
    caller::Caller,
    forward_auth::ForwardAuth,
    message::{self, HeaderRules, Onward},
    router::Route,
};

impl Passage<'_> {
    /// Makes a client's request the one that a server gets.
    ///
    /// # Errors
    /// `malformed` if the route's `rewrite` makes no path of it that can be passed on.
    pub(crate) fn make_onward(
        &self,
        caller: &Caller,
        route: &Route,
        request: &mut Request,
        upgrade: Option<&HeaderValue>,
    ) -> Result<(), Refusal> {
        let (survey, client, trace) = (&self.survey, &self.client, self.trace);
        let (rules, guarded) = (&route.request_headers, &route.guarded);
        let tenant = caller.tenant_field.as_ref();
        // Before the rules, so that one can set another credential.
        caller.hide_credential(request.headers_mut());
        message::onward(request, &Onward { survey, client, trace, rules, guarded, tenant, upgrade });
        route.rewrite.as_ref().map_or(Ok(()), |rewrite| rewrite.apply(request.uri_mut()))
    }

    /// The question about a request: what its client sent, and nothing that the route adds for its own server.
    pub(super) fn question(
        &self,
        auth: &ForwardAuth,
        caller: &Caller,
        route: &Route,
        request: &Request,
    ) -> Request {
        let mut asked = Request::new(Body::empty());
        *asked.method_mut() = request.method().clone();
        *asked.uri_mut() = request.uri().clone();
        *asked.headers_mut() = request.headers().clone();
        caller.hide_credential(asked.headers_mut());
        let (survey, client, trace, tenant) =
            (&self.survey, &self.client, self.trace, caller.tenant_field.as_ref());
        let (rules, guarded) = (&HeaderRules::default(), &route.guarded);
        let way = Onward { survey, client, trace, rules, guarded, tenant, upgrade: None };
        message::onward(&mut asked, &way);
        if let (Some(basic), Some(user)) = (&route.basic_auth, &self.user) {
            basic.tell(user, asked.headers_mut());
        }
        auth.question(ForwardAuth::note(request), std::mem::take(asked.headers_mut()))
    }
}
