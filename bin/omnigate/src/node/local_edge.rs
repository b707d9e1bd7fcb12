//! The edge as the gateway's routes lead to it: called, not connected to.

use std::sync::Arc;

use ron_transport::{ConnInfo, Request};
use svc_edge::Edge;
use svc_gateway::{Answering, LocalService};

/// The edge of this process.
#[derive(Debug)]
pub(super) struct LocalEdge(pub(super) Arc<Edge>);

impl LocalService for LocalEdge {
    fn call<'a>(&'a self, conn: &'a ConnInfo, request: Request) -> Answering<'a> {
        Box::pin(async move { Ok(self.0.answer(conn, request).await) })
    }
}
