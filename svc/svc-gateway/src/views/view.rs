//! A view: asks for its parts and makes one answer of what comes.

use std::{fmt::Write, sync::Arc};

use futures_util::future::try_join_all;
use http::{
    HeaderValue, Method,
    header::{CACHE_CONTROL, CONTENT_TYPE},
    request::Parts,
};
use ron_kernel::Clock;
use ron_transport::{Body, Response};
use types::{Deadline, Reason, Refusal};

use super::{
    UpstreamSender,
    part::{Missing, Part, Room},
};
use crate::ViewConfig;

/// A view, ready to be asked for.
#[derive(Debug)]
pub struct View {
    parts: Vec<Part>,
    /// The upstreams of all parts, each once.
    upstreams: Arc<str>,
}

/// A part as it goes into the answer: JSON, or why there is none.
type Outcome = Result<String, Missing>;

impl View {
    pub(super) fn new(config: &ViewConfig) -> Self {
        let mut upstreams: Vec<&str> = Vec::new();
        for part in &config.parts {
            if !upstreams.contains(&part.upstream.as_str()) {
                upstreams.push(&part.upstream);
            }
        }
        Self { parts: config.parts.iter().map(Part::new).collect(), upstreams: upstreams.join(",").into() }
    }

    /// The upstreams that it is put together from, with commas between.
    pub(crate) const fn upstreams(&self) -> &Arc<str> {
        &self.upstreams
    }

    /// Asks for all parts at once and answers with what came: every part within its budget and `deadline`, which should
    /// leave the answer some time to travel. `request` is what a client asked, made fit for an upstream.
    ///
    /// Cancel safe: dropping the future ends all exchanges.
    ///
    /// # Errors
    /// The refusal of the first part that is missing and needed, without waiting for the others;
    /// `method_not_allowed` for anything but GET and HEAD.
    pub async fn answer<S: UpstreamSender>(
        &self,
        request: &Parts,
        upstreams: &S,
        clock: Clock,
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        if !matches!(request.method, Method::GET | Method::HEAD) {
            return Err(Refusal::new(Reason::MethodNotAllowed, "a view can only be read: use GET"));
        }
        let (room, began) = (Room::new(upstreams), clock.now());
        let fetches = self.parts.iter().map(async |part| -> Result<Outcome, Refusal> {
            let deadline = part.deadline(began).tightened(deadline);
            let fetch = clock.by(deadline, part.fetch(request, upstreams, deadline, &room));
            let outcome = fetch.await.unwrap_or_else(|| Err(Missing::late()));
            match outcome {
                Err(missing) if !part.optional => Err(part.refusal(missing)),
                outcome => Ok(outcome),
            }
        });
        let outcomes = try_join_all(fetches).await?;
        Ok(respond(self.compose(&outcomes)))
    }

    /// One object: the parts in their order, and what is missing.
    fn compose(&self, outcomes: &[Outcome]) -> String {
        let bytes: usize = outcomes.iter().map(|outcome| outcome.as_ref().map_or(4, String::len)).sum();
        let mut answer = String::with_capacity(bytes + (self.parts.len() + 1) * 128);
        let mut partial = String::new();
        answer.push('{');
        for (part, outcome) in self.parts.iter().zip(outcomes) {
            let json = match outcome {
                Ok(json) => json,
                Err(missing) => {
                    let comma = if partial.is_empty() { "" } else { "," };
                    let _ = write!(partial, "{comma}{}", missing.entry(&part.name));
                    "null"
                }
            };
            // Names are checked to need no escape.
            let _ = write!(answer, "\"{}\":{json},", part.name);
        }
        let _ = write!(answer, "\"_partial\":[{partial}]}}");
        answer
    }
}

fn respond(answer: String) -> Response {
    let mut response = Response::new(Body::from(answer));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // What is put together from several answers is nobody's to keep, least of all with a part missing.
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}
