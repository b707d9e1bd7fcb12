//! Services in this process that routes lead to instead of an upstream.

use std::{collections::BTreeMap, fmt, pin::Pin, sync::Arc};

use ron_kernel::{Clock, metrics::LatencyHistogram};
use ron_transport::{ConnInfo, Request, Response, deadline::tell_deadline};
use types::{Deadline, Moment, Reason, Refusal};

use crate::GatewayConfig;

/// An answer in progress.
pub type Answering<'a> = Pin<Box<dyn Future<Output = Result<Response, Refusal>> + Send + 'a>>;

/// A service in this process. It is called on the core that serves the client's connection, which `conn` names.
pub trait LocalService: Send + Sync {
    /// Answers a request that was admitted, judged and rebuilt as for an upstream: what comes from the client is the body
    /// within its limits, the client's address is in `X-Forwarded-For` and its tenant in `X-Omnigate-Tenant`.
    ///
    /// The future is dropped when the client goes away or the deadline passes; the latter is told in
    /// `X-Request-Timeout-Ms`, if there is one.
    fn call<'a>(&'a self, conn: &'a ConnInfo, request: Request) -> Answering<'a>;
}

/// The services that routes may lead to, by name.
#[derive(Clone, Default)]
pub struct LocalServices(BTreeMap<String, Arc<dyn LocalService>>);

/// A route leads to a service that is not there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnknownService {
    /// The setting that names the service.
    pub key: String,
    /// The name of the service that was not found.
    pub name: String,
    /// The names of the services that exist.
    pub known: Vec<String>,
}

impl LocalServices {
    /// Adds a service under this name.
    #[must_use]
    pub fn with(mut self, name: impl Into<String>, service: Arc<dyn LocalService>) -> Self {
        self.0.insert(name.into(), service);
        self
    }

    /// The names of all.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.0.keys().map(String::as_str)
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Arc<dyn LocalService>> {
        self.0.get(name)
    }
}

impl fmt::Debug for LocalServices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.0.keys()).finish()
    }
}

impl fmt::Display for UnknownService {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { key, name, known } = self;
        write!(f, "{key}: there is no service `{name}` in this process; ")?;
        match known.as_slice() {
            [] => f.write_str("none is enabled that a route could lead to"),
            known => write!(f, "there are: {}", known.join(", ")),
        }
    }
}

impl std::error::Error for UnknownService {}

/// Makes sure that every service a route leads to is among the `known`.
///
/// # Errors
/// [`UnknownService`], for the first that is not.
pub fn check_services<'k>(
    config: &GatewayConfig,
    known: impl IntoIterator<Item = &'k str>,
) -> Result<(), UnknownService> {
    let known: Vec<&str> = known.into_iter().collect();
    let mut named = config.route.iter().enumerate().filter(|(_, route)| !route.service.is_empty());
    match named.find(|(_, route)| !known.contains(&route.service.as_str())) {
        None => Ok(()),
        Some((index, route)) => Err(UnknownService {
            key: format!("gateway.route[{index}].service"),
            name: route.service.clone(),
            known: known.into_iter().map(str::to_owned).collect(),
        }),
    }
}

/// A service as a route leads to it.
pub(crate) struct Local {
    pub(crate) name: Arc<str>,
    service: Arc<dyn LocalService>,
    latency: LatencyHistogram,
}

impl Local {
    pub(crate) fn new(name: &str, service: &Arc<dyn LocalService>, latency: LatencyHistogram) -> Self {
        Self { name: name.into(), service: Arc::clone(service), latency }
    }

    /// Has the service answer, until `deadline` at most.
    ///
    /// Cancel safe: dropping the future drops the service's.
    pub(crate) async fn answer(
        &self,
        conn: &ConnInfo,
        mut request: Request,
        clock: Clock,
        began: Moment,
        deadline: Deadline,
    ) -> Result<Response, Refusal> {
        tell_deadline(request.headers_mut(), deadline, began);
        let answer = clock.by(deadline, self.service.call(conn, request)).await;
        self.latency.observe(clock.now().since(began));
        answer.unwrap_or_else(|| {
            let what = format!("the service `{}` did not answer in time", self.name);
            Err(Refusal::new(Reason::DownstreamTimeout, what))
        })
    }
}

impl fmt::Debug for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Local({})", self.name)
    }
}
