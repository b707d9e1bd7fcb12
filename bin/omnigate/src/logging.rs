//! The log: to standard error, as text or JSON, at a level that follows the configuration, and never in floods.

mod limit;
mod outlet;

use std::{panic::PanicHookInfo, sync::Arc};

use limit::{Limited, LineLimit};
pub(crate) use outlet::Outlet;
use ron_kernel::{
    config::Snapshot,
    metrics::Metrics,
    reload::{Commit, Preparing, Reconfigure},
};
use tracing_subscriber::{EnvFilter, Layer, Registry, layer::SubscriberExt, reload};

use crate::{
    audit_outlet::AuditOutlet,
    failure::{Failure, wants_color},
    settings::{LogConfig, LogFormat},
};

/// Changes the level of the running log, tells what it suppressed, and connects the file of the audit trail.
#[derive(Debug)]
pub(crate) struct LogControl {
    filter: reload::Handle<EnvFilter, Registry>,
    limit: Arc<LineLimit>,
    outlet: Outlet,
    audit: AuditOutlet,
}

impl LogControl {
    /// Counts suppressed and lost lines among a node's metrics.
    pub(crate) fn count_in(&self, metrics: &Metrics) {
        let suppressed = &metrics.families().log_lines_suppressed;
        self.limit.count_in(suppressed.clone());
        self.outlet.count_in(suppressed.clone());
    }

    /// Where the lines leave the process.
    pub(crate) fn outlet(&self) -> Outlet {
        self.outlet.clone()
    }

    /// Where the audit trail leaves the log.
    pub(crate) fn audit(&self) -> AuditOutlet {
        self.audit.clone()
    }
}

/// Starts the log. Panics go there too, in the same format as everything else.
pub(crate) fn start(config: &LogConfig) -> Result<LogControl, Failure> {
    let filter = config.filter().map_err(Failure::bad_config)?;
    let (filter, handle) = reload::Layer::new(filter);
    let outlet = Outlet::default();
    let to_stderr = tracing_subscriber::fmt::layer().with_writer(outlet.clone());
    let written = match config.format {
        LogFormat::Text => to_stderr.with_ansi(wants_color()).boxed(),
        LogFormat::Json => to_stderr.json().flatten_event(true).boxed(),
    };
    let (limit, audit) = (Arc::new(LineLimit::new()), AuditOutlet::default());
    let subscriber =
        Registry::default().with(filter).with(Limited(Arc::clone(&limit))).with(written).with(audit.layer());
    tracing::subscriber::set_global_default(subscriber).map_err(Failure::failed)?;
    std::panic::set_hook(Box::new(log_panic));
    Ok(LogControl { filter: handle, limit, outlet, audit })
}

fn log_panic(info: &PanicHookInfo<'_>) {
    let place = info.location().map(ToString::to_string);
    let payload = info.payload();
    let text = payload
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    let what = text.unwrap_or("(no message)");
    tracing::error!(place, "panicked: {what}");
}

impl Reconfigure for LogControl {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        let handle = self.filter.clone();
        Box::pin(async move {
            let filter = new.get::<LogConfig>().filter()?;
            let commit: Commit = Box::new(move || {
                // Fails only once the log is gone, and with it everybody who could be told.
                let _ = handle.reload(filter);
            });
            Ok(commit)
        })
    }
}
