//! Checks that some routes have beside the credential: a user's password, and a server that decides.

use http::header::AUTHORIZATION;
use ron_transport::{Request, Response};
use types::{Deadline, Reason, Refusal};

use super::Passage;
use crate::{
    basic_auth::{self, BasicAuth},
    caller::Caller,
    forward_auth::{AsSent, ForwardAuth},
    message::{self, HeaderRules},
    upstream::{Held, Sent},
};

impl Passage<'_> {
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

    /// Asks the server that decides about a request. Returns its answer if that does not let the request pass.
    pub(super) async fn ask_decider(
        &self,
        auth: &ForwardAuth,
        as_sent: AsSent,
        caller: &Caller,
        request: &mut Request,
        deadline: Deadline,
    ) -> Result<Option<Response>, Refusal> {
        let upstream = self.policy.upstreams.get(&auth.upstream).ok_or(Reason::Internal)?;
        let (mut question, now) = (auth.question(as_sent, request), self.proxy.shared.clock.now());
        let times = (now, deadline.tightened(Deadline::within(now, auth.timeout)));
        let held = (Held::Shared(None, caller.tenant.id), None);
        let mut answer = upstream.send(&mut question, None, held, times, &mut Sent::default()).await?;
        if answer.status().is_success() {
            auth.copy(answer.headers(), request.headers_mut());
            return Ok(None);
        }
        message::back(&mut answer, &HeaderRules::default(), None)?;
        Ok(Some(answer))
    }
}
