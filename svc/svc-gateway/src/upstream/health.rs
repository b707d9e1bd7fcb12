//! One look at one server: does it answer its health check, or at least accept a connection?

use std::sync::Arc;

use http::{
    Method,
    header::{CONNECTION, HOST, USER_AGENT},
};
use ron_kernel::breaker::{Admit, Outcome};
use ron_transport::{
    Body, Request,
    client::{AnyConn, Home, HttpConn},
};
use types::Moment;

use super::{causes, exchange, group::Group, server::Server};
use crate::config::EndpointConfig;

/// The `User-Agent` of health checks.
const AGENT: &str = concat!("omnigate/", env!("CARGO_PKG_VERSION"), " health");

/// Asks a server how it is, and books the answer: for its health, and for its breaker if that waits for a test.
pub(super) async fn check(group: &Group, server: &Server) {
    let clock = group.tools.clock;
    let trial = match server.breaker.check(clock.now()) {
        Admit::Probe(ticket) => Some(ticket),
        Admit::Pass(_) | Admit::Open { .. } => None,
    };
    let answer = match ask(group, server).await {
        // It says nothing about the server. The breaker makes its test another time.
        Err(Unwell::Node(why)) => {
            tracing::debug!(upstream = group.name, server = %server.endpoint, %why, "no health check was made");
            return;
        }
        Err(Unwell::Server(why)) => Err(why),
        Ok(()) => Ok(()),
    };
    let (well, name, at) = (answer.is_ok(), group.name.as_str(), &server.endpoint);
    if let Err(why) = &answer {
        server.did_badly(&format!("health check: {why}"), clock.now());
    }
    match (server.checked(well, &group.config.health), &answer) {
        (Some(false), Err(why)) => {
            tracing::warn!(upstream = name, server = %at, %why, "a server is unhealthy");
        }
        (Some(true), _) => tracing::info!(upstream = name, server = %at, "a server is healthy"),
        _ => {}
    }
    if let Some(ticket) = trial {
        let outcome = if well { Outcome::Success } else { Outcome::Failure };
        if let Some(state) = server.breaker.record(ticket, outcome, clock.now()) {
            server.tell_breaker(state);
        }
    }
}

/// Whether an endpoint is well: one of its addresses answers the health check, or where there is none accepts a
/// connection.
pub(super) async fn is_well(group: &Group, endpoint: &EndpointConfig) -> bool {
    let servers: Vec<Arc<Server>> = group.servers_of(endpoint);
    for server in &servers {
        let looked = if group.config.health.is_on() {
            ask(group, server).await
        } else {
            reach(group, server).await.map(drop)
        };
        if looked.is_ok() {
            return true;
        }
    }
    false
}

/// Why a server was not found well.
enum Unwell {
    /// What the server did, or failed to do.
    Server(String),
    /// This node could not open a connection.
    Node(String),
}

impl From<String> for Unwell {
    fn from(why: String) -> Self {
        Self::Server(why)
    }
}

async fn ask(group: &Group, server: &Server) -> Result<(), Unwell> {
    let (health, clock) = (&group.config.health, group.tools.clock);
    let deadline = clock.within(health.timeout.as_duration());
    let asked = async {
        let mut request = question(group, server)?;
        let response = match reach(group, server).await? {
            AnyConn::Http1(conn) => conn.send(&mut request, Arc::new(Nobody)).await,
            AnyConn::Http2(conn) => conn.send(request, Arc::new(Nobody)).await,
        };
        let status = response.map_err(|error| error.to_string())?.status();
        if status.is_success() || status.is_redirection() {
            return Ok(());
        }
        Err(format!("it answered {}", status.as_u16()).into())
    };
    let late = || Err(format!("it did not answer within {}", health.timeout).into());
    clock.by(deadline, asked).await.unwrap_or_else(late)
}

async fn reach(group: &Group, server: &Server) -> Result<AnyConn, Unwell> {
    let within = group.config.connect_timeout.as_duration();
    exchange::reach(group, server, within).await.map_err(|error| {
        let why = causes::not_reached(&error, within);
        if error.is_local() { Unwell::Node(why) } else { Unwell::Server(why) }
    })
}

fn question(group: &Group, server: &Server) -> Result<Request, String> {
    http::Request::builder()
        .method(Method::GET)
        .uri(group.config.health.path.as_str())
        .header(HOST, server.endpoint.authority())
        .header(USER_AGENT, AGENT)
        .header(CONNECTION, "close")
        .body(Body::empty())
        .map_err(|error| error.to_string())
}

/// Takes no connection back: a health check closes its own.
struct Nobody;

impl Home for Nobody {
    fn put_back(&self, _conn: HttpConn) {}
}

/// When a server is to be asked next, which it notes: its interval from now, a tenth earlier at most, so that servers are not
/// asked in step.
pub(super) fn next_check(group: &Group, server: &Server, now: Moment) -> Moment {
    let interval = group.config.health.interval.as_duration();
    let next = now.after(interval.mul_f64(0.9 + 0.1 * fastrand::f64()));
    server.set_next_check(next);
    next
}
