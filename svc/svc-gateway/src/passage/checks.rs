//! What some routes have beside the usual layers: a rate, a mirror, a user's password, a server that decides.

use std::{future::poll_fn, pin::Pin, task::Poll};

use http::{HeaderMap, header::AUTHORIZATION};
use http_body::Body as _;
use ron_transport::{Body, Request, Response};
use types::{Deadline, Reason, Refusal};

use super::Passage;
use crate::{
    basic_auth::{self, BasicAuth},
    config::RateBy,
    forward_auth::ForwardAuth,
    message::{self, HeaderRules},
    quotas,
    router::Route,
    transfer::Holding,
    upstream::{Held, Sent},
};

/// The pieces of an answer's body that are read although nobody wants it.
const MOST_SKIPPED: usize = 16;

/// Reads what has arrived of a body that nobody wants, without waiting for more. Its connection can be used again if that is
/// all of it.
async fn skip(body: &mut Body) {
    poll_fn(|cx| {
        let mut is_read = || matches!(Pin::new(&mut *body).poll_frame(cx), Poll::Ready(Some(Ok(_))));
        let _ = (0..MOST_SKIPPED).all(|_| is_read());
        Poll::Ready(())
    })
    .await;
}

/// The decision of the authorization server about a request.
pub(super) enum Decision {
    /// The request may pass; these fields of the answer say who sent it.
    Passes(HeaderMap),
    /// The request may not pass; the client gets this response.
    Denied(Response),
}

impl Passage<'_> {
    /// The rate of the route itself, if it has one. It comes after the rates of the client: what a client sends beyond its own
    /// takes nothing from what all clients share.
    pub(super) fn charge_route(&mut self, route: &Route) -> Result<(), Refusal> {
        let Some(limit) = &route.rate else { return Ok(()) };
        let client = (limit.by == RateBy::Client).then_some(self.client.key);
        let bucket = self.proxy.shared.of_route(&route.label, client, self.began);
        let bucket = bucket.as_ref().unwrap_or(&limit.other);
        self.charged(quotas::charge_route(limit.rate, bucket, self.began))
    }

    /// Has a request copied that is about to be sent, if its route has a mirror. Streams are not copied.
    pub(super) fn mirror(&self, route: &Route, request: &Request, is_stream: bool) {
        if let Some(mirror) = route.mirror.as_ref().filter(|_| !is_stream) {
            mirror.copy(request, self.proxy.shared.clock, &self.proxy.shutdown);
        }
    }

    /// Makes sure that a request shows a user's name and password, which end here.
    pub(super) async fn check_password(
        &mut self,
        basic: &BasicAuth,
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<(), Refusal> {
        let needed = || Refusal::new(Reason::Unauth, "a user name and a password are needed");
        let shown = basic_auth::shown(request.headers()).ok_or_else(needed)?;
        let passwords = &self.proxy.shared.passwords;
        let user = passwords.check(&basic.users, shown, self.client.key, deadline).await?;
        request.headers_mut().remove(AUTHORIZATION);
        self.user = Some(user);
        Ok(())
    }

    /// Asks the authorization server about a request.
    ///
    /// The question holds the request's slot for as long as the server works on it, also if the client leaves.
    pub(super) async fn ask_decider(
        &self,
        auth: &ForwardAuth,
        mut question: Request,
        holding: &mut Holding,
        deadline: Deadline,
    ) -> Result<Decision, Refusal> {
        let upstream = self.policy.upstreams.get(&auth.upstream).ok_or(Reason::Internal)?;
        let now = self.proxy.shared.clock.now();
        let times = (now, deadline.tightened(Deadline::within(now, auth.timeout)));
        let (held, mut sent) = ((Held::Own(holding), None), Sent::default());
        let mut answer = upstream.send(&mut question, None, held, times, &mut sent).await?;
        if answer.status().is_success() {
            skip(answer.body_mut()).await;
            return Ok(Decision::Passes(std::mem::take(answer.headers_mut())));
        }
        // The denial's body occupies a connection to that server.
        holding.is_at(sent.pool);
        message::back(&mut answer, &HeaderRules::default(), None)?;
        Ok(Decision::Denied(answer))
    }
}
