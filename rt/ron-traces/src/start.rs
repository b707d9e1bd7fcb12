//! Starting the export, and following a reload.

use std::sync::Arc;

use ron_kernel::{
    Scope,
    config::Snapshot,
    reload::{Commit, Preparing, Reconfigure},
};
use ron_transport::{addr::HttpUrlError, tls::TlsError};

use crate::TracesConfig;

/// The reason why spans cannot be exported.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The feature is not built in.
    #[error("traces.url: this program was built without the export of traces; build it with --features otlp")]
    NotBuilt,
    /// The URL cannot be used.
    #[error("traces.url: {0}")]
    Url(#[from] HttpUrlError),
    /// The authorities cannot be used.
    #[error("traces.ca_path: {0}")]
    Tls(#[from] TlsError),
    /// There are no trusted root certificates.
    #[error("traces.ca_path: the system's list of CA certificates was not found: set a path")]
    NoRoots,
    /// The blocking pool did not load them.
    #[error("traces: {0}")]
    Blocking(#[from] ron_kernel::blocking::BlockingError),
}

/// A running export of spans.
#[derive(Debug)]
pub struct Traces {
    scope: Scope,
}

impl Traces {
    /// Has the spans of all services exported as configured; `scope` is that of [`crate::TOPOLOGY`].
    ///
    /// Cancel safe: nothing has begun before it returns.
    ///
    /// # Errors
    /// [`StartError`].
    pub async fn start(scope: &Scope, config: &TracesConfig) -> Result<Self, StartError> {
        begin(scope, config).await?;
        scope.spans().set_share(config.sample);
        Ok(Self { scope: scope.clone() })
    }
}

impl Reconfigure for Traces {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        let (spans, share) = (self.scope.spans().clone(), new.get::<TracesConfig>().sample);
        Box::pin(async move { Ok(Box::new(move || spans.set_share(share)) as Commit) })
    }
}

#[cfg(feature = "export")]
async fn begin(scope: &Scope, config: &TracesConfig) -> Result<(), StartError> {
    let collector = crate::post::Collector::load(scope, config).await?;
    crate::export::start(scope, collector);
    Ok(())
}

#[cfg(not(feature = "export"))]
#[expect(clippy::unused_async, reason = "as the one that can")]
async fn begin(_: &Scope, _: &TracesConfig) -> Result<(), StartError> {
    Err(StartError::NotBuilt)
}
