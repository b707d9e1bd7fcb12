//! The door: how often one client may ask, and how many requests are worked on at once.

use std::{
    hash::RandomState,
    sync::{Arc, OnceLock},
    time::Duration,
};

use http::Method;
use http_body::Body as _;
use quota::{Bucket, Rate, ShardedBook};
use ron_sync::gate::{Fifo, Gate, Permit};
use ron_transport::{Body, Conn, ConnInfo, caps::ClientKey};
use types::{Moment, Reason, Refusal};

use crate::IngressConfig;

/// Clients whose rate is known; those beyond share one. About 100 bytes each.
const MAX_CLIENTS: usize = 65_536;
/// When to come back if too much is being worked on.
const WHEN_BUSY: Duration = Duration::from_secs(1);

/// What is kept for a connection: its client's rate.
#[derive(Debug, Default)]
pub(crate) struct ConnMemo(OnceLock<Arc<Bucket>>);

/// A place among the requests that are worked on.
pub(crate) type Place = Permit<Fifo>;

/// The door, one for all cores.
#[derive(Debug)]
pub(crate) struct Ingress {
    clients: ShardedBook<ClientKey, Bucket, RandomState>,
    others: Arc<Bucket>,
    gate: Arc<Gate<Fifo>>,
}

/// What the door holds requests to, from the configuration.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    rate: Option<Rate>,
    body_bytes: u64,
    /// From a request's head to the response's.
    pub(crate) timeout: Duration,
}

impl Limits {
    pub(crate) fn new(config: &IngressConfig) -> Self {
        let rate = Rate::per_second(config.rps_limit, config.rps_limit.saturating_mul(2)).ok();
        Self { rate, body_bytes: config.body_bytes.as_u64(), timeout: config.timeout() }
    }
}

impl Ingress {
    pub(crate) fn new(config: &IngressConfig) -> Self {
        Self {
            clients: ShardedBook::new(MAX_CLIENTS, RandomState::new()),
            others: Arc::default(),
            // Nobody waits: whoever finds no place comes back.
            gate: Gate::new(places(config), Fifo::new(0)),
        }
    }

    /// Follows a new configuration; those inside stay.
    pub(crate) fn reconfigure(&self, config: &IngressConfig) {
        self.gate.set_limit(places(config));
    }

    /// Takes a request out of its client's allowance.
    ///
    /// # Errors
    /// The allowance is used up.
    pub(crate) fn charge(&self, conn: &Conn<ConnMemo>, limits: &Limits, now: Moment) -> Result<(), Refusal> {
        let Some(rate) = &limits.rate else { return Ok(()) };
        let bucket = conn.memo().0.get_or_init(|| self.bucket(conn, now));
        bucket.check(rate, now).map(drop).map_err(|exhausted| {
            Refusal::new(Reason::Quota, "this client asks too often").retry_after(exhausted.wait)
        })
    }

    /// A place to be worked on, until it is dropped.
    ///
    /// # Errors
    /// All are taken.
    pub(crate) fn enter(&self) -> Result<Place, Refusal> {
        self.gate.try_enter(()).map_err(|()| {
            let limit = self.gate.limit();
            Refusal::new(Reason::Busy, format!("{limit} requests are being worked on")).retry_after(WHEN_BUSY)
        })
    }

    /// How many are being worked on.
    pub(crate) fn inside(&self) -> u32 {
        self.gate.inflight()
    }

    fn bucket(&self, conn: &ConnInfo, now: Moment) -> Arc<Bucket> {
        let client = ClientKey::of(&conn.peer);
        self.clients.get_or_insert(&client, now, Bucket::default).unwrap_or_else(|_| Arc::clone(&self.others))
    }
}

fn places(config: &IngressConfig) -> u32 {
    u32::try_from(config.max_inflight).unwrap_or(u32::MAX)
}

/// Lets a request pass that only reads, and does not bring more along than it may.
///
/// # Errors
/// It is a write, or its body is too long.
pub(crate) fn admit(method: &Method, body: &Body, limits: &Limits) -> Result<(), Refusal> {
    if body.size_hint().lower() > limits.body_bytes {
        let detail = format!("a body may have {} bytes", limits.body_bytes);
        return Err(Refusal::new(Reason::BodyCap, detail));
    }
    if !matches!(*method, Method::GET | Method::HEAD | Method::OPTIONS) {
        return Err(Reason::MethodNotAllowed.into());
    }
    Ok(())
}
