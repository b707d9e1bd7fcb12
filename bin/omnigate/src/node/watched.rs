//! The services as the console watches them.

use std::sync::Arc;

use serde_json::{Value, json};
use svc_edge::Edge;
use svc_gateway::Gateway;

use crate::admin::Part;

/// The services that run, as the console watches them.
pub(super) fn parts(gateway: Option<&Arc<Gateway>>, edge: Option<&Arc<Edge>>) -> Vec<Box<dyn Part>> {
    let gateway = gateway.map(|gateway| Box::new(Watched(Arc::clone(gateway))) as Box<dyn Part>);
    let edge = edge.map(|edge| Box::new(Watched(Arc::clone(edge))) as Box<dyn Part>);
    gateway.into_iter().chain(edge).collect()
}

/// A service that is watched.
#[derive(Debug)]
struct Watched<S>(Arc<S>);

impl Part for Watched<Gateway> {
    fn name(&self) -> &'static str {
        svc_gateway::TOPOLOGY.service
    }

    fn look(&self) -> Value {
        json!(self.0.status())
    }
}

impl Part for Watched<Edge> {
    fn name(&self) -> &'static str {
        svc_edge::TOPOLOGY.service
    }

    fn look(&self) -> Value {
        json!(self.0.status())
    }
}
