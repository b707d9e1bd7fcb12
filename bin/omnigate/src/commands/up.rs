//! `omnigate up`: the node itself.

use ron_kernel::ExitCode;
use ron_transport::inherit::Inherited;

use crate::{
    config_file::ConfigSource, failure::Failure, logging, node, preflight, private_data, sandbox,
    settings::LogConfig, unworkable,
};

/// Runs the node until it has stopped.
pub(super) fn run(source: ConfigSource) -> Result<ExitCode, Failure> {
    // First, while this is the only thread: it takes descriptors by number and changes the environment.
    let inherited = Inherited::from_env().map_err(Failure::failed)?;
    let config = source.load_for_node()?;
    preflight::refuse_data_left_behind(&config.snapshot, source.file())?;
    let log = logging::start(&config.snapshot.get::<LogConfig>())?;
    for problem in config.snapshot.warnings().problems() {
        tracing::warn!("{}", problem.message);
    }
    for finding in unworkable::findings(&config.snapshot) {
        let (setting, help) = (finding.path, finding.help);
        if finding.is_usual {
            tracing::info!(setting, help, "{}", finding.message);
        } else {
            tracing::warn!(setting, help, "{}", finding.message);
        }
    }
    private_data::tighten(&config.snapshot);
    sandbox::enter(&config.snapshot, source.file(), inherited.predecessor().is_some())?;
    let outlet = log.outlet();
    outlet.detach().map_err(|error| Failure::failed(format!("no thread for the log: {error}")))?;
    let ran = node::run(source, &config, log, inherited);
    outlet.finish();
    ran
}
