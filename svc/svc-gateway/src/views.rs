//! Views: one answer put together from several upstreams, each within its own budget, with what is missing named.
//!
//! ```text
//! GET /v1/views/home ─┬─▶ upstream `api`  /me    (100 ms)           ─┐
//!                     └─▶ upstream `api`  /feed  (300 ms, optional) ─┴─▶ {"user":…,"feed":null,"_partial":[…]}
//! ```
//!
//! The parts run side by side inside the request's own task, so a client that goes away takes them all with it.

mod part;
mod view;

use std::{collections::BTreeMap, sync::Arc};

use ron_transport::{Request, Response};
use types::{Deadline, Refusal};

use crate::{RouteConfig, ViewConfig};

pub(crate) use part::no_memory;
pub use part::{MAX_PART_BYTES, MAX_PART_DEPTH, MAX_VIEW_BYTES};
pub use view::View;

/// The path prefix of all views.
const PREFIX: &str = "/v1/views/";

/// The route that leads to a view.
pub(crate) fn route(name: &str, config: &ViewConfig) -> RouteConfig {
    RouteConfig {
        auth: config.auth,
        allow_from: config.allow_from.clone(),
        deny_from: config.deny_from.clone(),
        require_claims: config.require_claims.clone(),
        path: format!("{PREFIX}{name}"),
        name: format!("view {name}"),
        methods: vec!["GET".to_owned()],
        ..RouteConfig::default()
    }
}

/// Sends requests to upstreams by their names.
pub trait UpstreamSender: Sync {
    /// Sends a request to an upstream and waits for the response's head, until `deadline` at most.
    ///
    /// Dropping the future, or the response's body, must end the exchange.
    fn send(
        &self,
        upstream: &str,
        request: Request,
        deadline: Deadline,
    ) -> impl Future<Output = Result<Response, Refusal>> + Send;

    /// Reserves memory for that many more bytes of parts; false if there is none.
    fn reserve(&self, bytes: usize) -> bool;

    /// Gives back the memory of a part that did not come.
    fn give_back(&self, bytes: usize);
}

/// The views of a configuration, by name.
#[derive(Clone, Debug, Default)]
pub struct Views(BTreeMap<String, Arc<View>>);

impl Views {
    /// The views as configured.
    #[must_use]
    pub fn new(config: &BTreeMap<String, ViewConfig>) -> Self {
        Self(config.iter().map(|(name, view)| (name.clone(), Arc::new(View::new(view)))).collect())
    }

    /// The view at a path; any other path belongs to the routes.
    #[must_use]
    pub fn find(&self, path: &str) -> Option<&Arc<View>> {
        // Most gateways have none, and most requests are for none.
        self.0.get(path.strip_prefix(PREFIX)?)
    }
}
