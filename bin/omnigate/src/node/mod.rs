//! The node: services composed on one kernel, from the first socket to the exit code.

mod accounting;
mod announce;
mod drain;
mod local_edge;
mod manager;
mod overlay_objects;
mod parts;
mod reread;
mod rewarder;
mod settle;
mod snapshot_queue;
mod upgrade;
mod watched;

use std::{num::NonZeroUsize, sync::Arc};

use ron_kernel::{
    Exit, ExitCode, Kernel, Scope,
    config::ConfigStore,
    reload::{self, NamedFiles, ReloadDesk, Reloader},
};
use ron_transport::inherit::Inherited;
use tokio::signal::unix::{SignalKind, signal};

use crate::{
    admin::ConfigInForce,
    audit_outlet::AuditOutlet,
    config_file::{ConfigSource, StartConfig},
    failure::Failure,
    logging::LogControl,
    sandbox,
    settings::NodeConfig,
};
pub(crate) use accounting::{SNAPSHOT_ANNOUNCER, SNAPSHOT_COLLECTOR};
pub(crate) use announce::ANNOUNCER;
use announce::News;
use parts::Parts;
pub(crate) use parts::TOPOLOGIES;
use reread::Reread;
pub(crate) use upgrade::{READY_WITHIN, UPGRADER};

/// Runs the node that `config` describes until it has stopped.
pub(crate) fn run(
    source: ConfigSource,
    config: &StartConfig,
    log: LogControl,
    inherited: Inherited,
) -> Result<ExitCode, Failure> {
    let kernel = build_kernel(&config.snapshot.get::<NodeConfig>())?;
    let mut signals = kernel.watch_signals().map_err(Failure::failed)?;
    let starting = start(&kernel, source, config, log, inherited);
    // Told to stop before it is up, it is done with starting; what is open by then is stopped like the rest.
    let started = kernel.block_on(signals.unless_told_to_stop(starting)).unwrap_or(Ok(()));
    if started.is_err() {
        // The kernel stops in good order what was opened already.
        kernel.own().fail("the node could not start".to_owned());
    }
    let exit = kernel.run_watching(signals).map_err(Failure::failed)?;
    log_exit(&exit);
    started.map(|()| exit.code).map_err(Failure::failed)
}

/// A node beside another one in the same process.
#[derive(Debug)]
pub(crate) struct Beside {
    kernel: Kernel,
    /// Kept as long as it runs.
    _parts: Parts,
}

impl Beside {
    /// Returns the scope whose shutdown stops the node.
    pub(crate) fn scope(&self) -> &Scope {
        self.kernel.own()
    }

    /// Conducts it until it has stopped, which signals to the process do not do.
    ///
    /// Not cancel safe: dropped, it ends the node without a drain.
    pub(crate) async fn conduct(self) -> Result<Exit, String> {
        self.kernel.conduct().await.map_err(|error| error.to_string())
    }
}

/// Starts a node that neither says so nor follows its file, for somebody else to conduct.
pub(crate) fn start_beside(source: &ConfigSource) -> Result<Beside, Failure> {
    let snapshot = source.load()?;
    let kernel = build_kernel(&snapshot.get::<NodeConfig>())?;
    let in_force = ConfigInForce { store: Arc::new(ConfigStore::new(&snapshot)), file: source.name() };
    let parts = kernel.block_on(Parts::open(
        &kernel,
        &snapshot,
        &mut Inherited::default(),
        (in_force, ReloadDesk::default()),
        &AuditOutlet::default(),
    ));
    parts.map(|parts| Beside { kernel, _parts: parts }).map_err(Failure::failed)
}

fn build_kernel(node: &NodeConfig) -> Result<Kernel, Failure> {
    let mut builder = Kernel::builder(&node.name)
        .runtime(node.runtime.into())
        .drain_deadline(node.drain_deadline.as_duration())
        .upgrade_deadline(node.upgrade_deadline.as_duration())
        .drain_idle(node.drain_idle.as_duration());
    if let Some(cores) = NonZeroUsize::new(node.cores) {
        builder = builder.cores(cores);
    }
    builder.build().map_err(Failure::failed)
}

/// Opens everything and has it announced. The error says what to do about it.
async fn start(
    kernel: &Kernel,
    source: ConfigSource,
    config: &StartConfig,
    log: LogControl,
    mut inherited: Inherited,
) -> Result<(), String> {
    let snapshot = &config.snapshot;
    // Unwatched, these would end the process, and once the first part is open somebody may send them. What the second asks
    // for is done anyway when its own watcher begins.
    let upgrade = upgrade::watch().map_err(|error| error.to_string())?;
    let _reload = signal(SignalKind::hangup()).map_err(|error| error.to_string())?;
    let (predecessor, predecessor_stops) = (inherited.predecessor(), inherited.take_stop_notice());
    log.count_in(kernel.own().all_metrics());
    let store = Arc::new(ConfigStore::new(snapshot));
    let named_files = NamedFiles::at_start(kernel.own(), sandbox::files_read_by, snapshot).await;
    let in_force = ConfigInForce { store: Arc::clone(&store), file: source.name() };
    let reloads = ReloadDesk::default();
    let to_admin = (in_force, reloads.clone());
    let parts = Arc::new(Parts::open(kernel, snapshot, &mut inherited, to_admin, &log.audit()).await?);
    close_unused(inherited);
    let reread = Reread::new(source, config);
    let (reader, look_at) = (reread.reader(), reread.look_at());
    let follow = parts.follow_config(reread, log);
    let reloader = Reloader::new(kernel.own(), Arc::clone(&store), reader, follow);
    reload::start(kernel.own(), reloader.telling_of(named_files), look_at, reloads);
    let successor = upgrade::start(parts.admin_scope(), Arc::clone(&parts), store, upgrade)?;
    let banner = banner(&snapshot.get::<NodeConfig>().name, &parts);
    let news = News { banner, predecessor, predecessor_stops, successor };
    announce::start(parts.admin_scope(), news);
    Ok(())
}

/// Sockets that were passed in and that nothing here is configured to use.
fn close_unused(inherited: Inherited) {
    for (name, addr) in inherited.unused() {
        tracing::warn!(name, %addr, "a socket was passed in that nothing is configured to use; it is closed");
    }
    for unusable in inherited.unusable() {
        tracing::warn!(
            name = unusable.name,
            why = unusable.why,
            "a descriptor that is not a listening socket was passed in"
        );
    }
    inherited.close_unused();
}

/// Formats the listening addresses for the terminal.
fn banner(name: &str, parts: &Parts) -> String {
    let mut lines = format!("omnigate {} is up as {name}\n", env!("CARGO_PKG_VERSION"));
    for (service, addr) in parts.addresses() {
        lines.push_str(&format!("  {service:<8} {addr}\n"));
    }
    for url in parts.to_look_at() {
        lines.push_str(&format!("  look at  {url}\n"));
    }
    lines
}

fn log_exit(exit: &Exit) {
    match exit.code {
        ExitCode::Clean => tracing::info!("{exit}"),
        _ => tracing::error!(code = exit.code as u8, "{exit}"),
    }
}
