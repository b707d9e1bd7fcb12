//! `omnigate demo`: a whole node on this machine, with a crowd in front of it and one guest who floods.
//!
//! Everything is in this process, on free ports of the loopback interface, and in a folder that goes with it.

mod crowd;
mod script;
mod summary;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use ron_kernel::{
    ExitCode, Kernel,
    topology::{ChildSpec, Plane, Stage, Topology},
};
use ron_transport::{
    inherit::Inherited,
    serve::{CONNECTION, H2_STREAM, LISTENER},
};

use crate::{
    config_file::ConfigSource,
    failure::Failure,
    logging, node,
    rig::{ScratchDir, Sleeper, start_sleeper},
    settings::LogConfig,
};
use crowd::Crowd;
use script::Places;

/// Slots of the server behind the gateway, and how long a request takes one: 500 a second.
const SLOTS: usize = 10;
const SERVICE_TIME: Duration = Duration::from_millis(20);

const GUEST: ChildSpec = ChildSpec {
    kind: "guest",
    plane: Plane::Data,
    stop: Stage::Workers,
    bound: "the connections of the demo's guests",
    doc: "one client connection of a guest",
};
const TELLER: ChildSpec = ChildSpec {
    kind: "teller",
    plane: Plane::Control,
    stop: Stage::Workers,
    bound: "one",
    doc: "says every second how the guests fare",
};

/// What the demo runs besides the node.
static TOPOLOGY: Topology = Topology {
    service: "demo",
    purpose: "A server of a few slots, guests who ask it through the gateway, and one who floods.",
    last_reviewed: "2026-11-16",
    invariants: &["Guests ask when they are due, not when the last answer came."],
    tasks: &[LISTENER],
    children: &[CONNECTION, H2_STREAM, GUEST, TELLER],
    queues: &[],
    locks: &[],
    timeouts: &[],
    metrics: &[],
    trade_offs: &[],
};

/// Runs the demo until it is told to stop, or for so long. Blocking.
pub(crate) fn run(length: Option<Duration>) -> Result<ExitCode, Failure> {
    let dir = ScratchDir::make("demo")
        .map_err(|error| Failure::failed(format!("no folder for the demo: {error}")))?;
    // A kernel of its own: the crowd is no part of the node, and stays until the node has drained.
    let kernel = Kernel::builder("crowd").cores(NonZeroUsize::MIN).build().map_err(Failure::failed)?;
    let scope = kernel.scope(&TOPOLOGY);
    let sleeper = Sleeper::new(SLOTS, SERVICE_TIME, scope.clock());
    let upstream = start_sleeper(&kernel, &scope, &sleeper).map_err(Failure::failed)?;
    let places = Places::find().map_err(|error| Failure::failed(format!("no free port: {error}")))?;
    let config = script::write(dir.path(), &places, upstream)
        .map_err(|error| Failure::failed(format!("the demo's files cannot be written: {error}")))?;
    let source = ConfigSource::of_file_alone(config);
    let snapshot = source.load()?;
    let log = logging::start(&snapshot.get::<LogConfig>())?;
    summary::introduce(&places, dir.path());
    let crowd = Arc::new(Crowd::new(&places));
    kernel.block_on(async {
        crowd.enter(&scope);
        summary::start(&scope, &crowd, length);
    });
    node::run(source, &snapshot, log, Inherited::default())
}
