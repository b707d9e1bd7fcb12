//! A group of servers and the connections one core keeps to them.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicUsize, Ordering},
    },
    time::Duration,
};

use ron_kernel::{
    Clock,
    metrics::{Counter, ServiceMetrics},
};
use ron_transport::{
    Request, Response, addr::Endpoint, client::HttpConn, client::SendFault, dial, resolve::Resolver,
};
use types::{Deadline, Moment, Reason, Refusal};

use crate::{UpstreamConfig, pool::Pool};

/// How often servers were too slow.
#[derive(Clone, Debug)]
pub(crate) struct Timeouts {
    /// To accept a connection.
    connect: Counter,
    /// To answer, or to go on with an answer.
    rpc: Counter,
}

impl Timeouts {
    pub(crate) fn new(metrics: &ServiceMetrics) -> Self {
        Self { connect: metrics.io_timeouts("connect"), rpc: metrics.io_timeouts("rpc") }
    }
}

/// A group of servers, as one core sees it.
#[derive(Debug)]
pub(crate) struct Upstream {
    name: String,
    config: UpstreamConfig,
    clock: Clock,
    resolver: Resolver,
    timeouts: Timeouts,
    next: AtomicUsize,
    /// By endpoint.
    pools: Vec<Arc<Pool>>,
}

impl Upstream {
    pub(crate) fn new(
        name: &str,
        config: &UpstreamConfig,
        clock: Clock,
        resolver: &Resolver,
        timeouts: Timeouts,
    ) -> Self {
        let pool = || Pool::new(config, clock, timeouts.rpc.clone());
        let pools = config.endpoints.iter().map(|_| Arc::new(pool()));
        Self {
            name: name.to_owned(),
            pools: pools.collect(),
            config: config.clone(),
            clock,
            resolver: resolver.clone(),
            timeouts,
            next: AtomicUsize::new(0),
        }
    }

    /// Whether it is the same group with the same settings, so that its connections can be kept across a reload.
    pub(crate) fn is(&self, name: &str, config: &UpstreamConfig) -> bool {
        self.name == name && self.config == *config
    }

    /// Sends a request that began at `began` to one of the servers and waits for the response's head within the timeout.
    ///
    /// Cancel safe: dropping the future closes the connection in use.
    pub(crate) async fn send(&self, request: Request, began: Moment) -> Result<Response, Refusal> {
        let deadline = Deadline::within(began, self.config.timeout.as_duration());
        let dialling = AtomicBool::new(false);
        // Pinned where it is made: it is large, and every hand it passes through would copy it.
        let exchange = pin!(self.exchange(request, deadline, &dialling));
        let answer = self.clock.by(deadline, exchange).await;
        answer.unwrap_or_else(|| Err(self.late(dialling.load(Ordering::Relaxed))))
    }

    /// Closes idle connections that are of no more use.
    pub(crate) fn sweep(&self) {
        self.pools.iter().for_each(|pool| pool.sweep());
    }

    /// Tells in `dialling` whether it is waiting for a connection: who stops it at the deadline has to know.
    async fn exchange(
        &self,
        mut request: Request,
        deadline: Deadline,
        dialling: &AtomicBool,
    ) -> Result<Response, Refusal> {
        let index = self.next.fetch_add(1, Ordering::Relaxed) % self.config.endpoints.len();
        let pool = &self.pools[index];
        while let Some(conn) = pool.take() {
            match conn.send(request, Arc::clone(pool) as _).await {
                Ok(response) => return Ok(response),
                Err(SendFault::Unsent(unsent)) => request = *unsent,
                Err(SendFault::Broken(error)) => return Err(self.broken(&error)),
            }
        }
        dialling.store(true, Ordering::Relaxed);
        let conn = self.dial(&self.config.endpoints[index], deadline.remaining(self.clock.now())).await?;
        dialling.store(false, Ordering::Relaxed);
        conn.send(request, Arc::clone(pool) as _).await.map_err(|error| self.broken(&error))
    }

    async fn dial(&self, endpoint: &Endpoint, within: Duration) -> Result<HttpConn, Refusal> {
        let stream = dial::dial(endpoint, &self.resolver, within).await.map_err(|error| match error {
            dial::DialError::Timeout { .. } => self.late(true),
            other => self.broken(&other),
        })?;
        let mut conn = HttpConn::open(stream).await.map_err(|error| self.broken(&error))?;
        conn.set_stall(self.config.timeout.as_duration());
        Ok(conn)
    }

    fn broken(&self, error: &dyn std::fmt::Display) -> Refusal {
        tracing::debug!(upstream = self.name, %error, "an upstream failed");
        Refusal::new(Reason::BadGateway, format!("upstream `{}` failed", self.name))
    }

    /// Counts a deadline that passed, as what was waited for then.
    fn late(&self, dialling: bool) -> Refusal {
        let counter = if dialling { &self.timeouts.connect } else { &self.timeouts.rpc };
        counter.inc();
        let waited = self.config.timeout;
        Refusal::new(
            Reason::DownstreamTimeout,
            format!("upstream `{}` did not answer within {waited}", self.name),
        )
    }
}
