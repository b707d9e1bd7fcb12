//! `omnigate demo`: a whole node on this machine, with a crowd in front of it and one guest who floods.
//!
//! Two more nodes keep it company: they serve maps too, tell it what they provided, and are paid by it every half minute.
//! Everything is in this process, on free ports of the loopback interface, and in a folder that goes with it.

mod crowd;
mod payouts;
mod script;
mod summary;
mod treasury;

use std::{num::NonZeroUsize, sync::Arc, time::Duration};

use ron_kernel::{
    ExitCode, Kernel, Scope,
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
use script::Node;

/// Slots of the server behind the gateway, and how long a request takes one: 500 a second.
const SLOTS: usize = 10;
const SERVICE_TIME: Duration = Duration::from_millis(20);

/// How long the neighbours may take to end.
const PATIENCE: Duration = Duration::from_secs(5);

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
    doc: "prints every second how the clients are served",
};

const NEIGHBOUR: ChildSpec = ChildSpec {
    kind: "neighbour",
    plane: Plane::Control,
    stop: Stage::Workers,
    bound: "the demo's nodes but the first",
    doc: "conducts a neighbour of the node that is shown",
};

/// What the demo runs besides the node.
static TOPOLOGY: Topology = Topology {
    service: "demo",
    purpose: "A server with a few slots, clients that use it through the gateway, and one that floods.",
    last_reviewed: "2026-11-16",
    invariants: &["Guests ask when they are due, not when the last answer came."],
    tasks: &[LISTENER],
    children: &[CONNECTION, H2_STREAM, GUEST, TELLER, NEIGHBOUR],
    queues: &[],
    locks: &[],
    timeouts: &[],
    metrics: &[],
    trade_offs: &[],
};

/// The parameters of the demo.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Plan {
    /// How long it lasts; until it is told to stop if that is left open.
    pub(crate) length: Option<Duration>,
    /// The length of an epoch.
    pub(crate) epoch: Duration,
}

/// Runs the demo until it is told to stop, or as long as planned. Blocking.
pub(crate) fn run(plan: Plan) -> Result<ExitCode, Failure> {
    let dir = ScratchDir::make("demo")
        .map_err(|error| Failure::failed(format!("no folder for the demo: {error}")))?;
    // A kernel of its own: the crowd is no part of the node, and stays until the node has drained.
    let kernel = Kernel::builder("crowd").cores(NonZeroUsize::MIN).build().map_err(Failure::failed)?;
    let scope = kernel.scope(&TOPOLOGY);
    let sleeper = Sleeper::new(SLOTS, SERVICE_TIME, scope.clock());
    let upstream = start_sleeper(&kernel, &scope, &sleeper).map_err(Failure::failed)?;
    let nodes = script::write(dir.path(), upstream, plan.epoch)
        .map_err(|error| Failure::failed(format!("the demo's files cannot be written: {error}")))?;
    let source = ConfigSource::of_file_alone(nodes[0].config.clone());
    let config = source.load_for_node()?;
    let log = logging::start(&config.snapshot.get::<LogConfig>())?;
    summary::introduce(&nodes[0], dir.path(), plan.epoch);
    let neighbours = Neighbours::start(&kernel, &scope, &nodes[1..])?;
    let crowd = Arc::new(Crowd::new(&nodes));
    kernel.block_on(async {
        crowd.enter(&scope);
        summary::start(&scope, &crowd, nodes[0].places.rewarder, plan.length);
    });
    let ended = node::run(source, &config, log, Inherited::default());
    kernel.block_on(neighbours.end(&scope));
    // Gone before it is said to be.
    drop(dir);
    if ended.is_ok() {
        summary::take_leave();
    }
    ended
}

/// The nodes that are not shown.
struct Neighbours(Vec<Scope>);

impl Neighbours {
    fn start(kernel: &Kernel, scope: &Scope, nodes: &[Node]) -> Result<Self, Failure> {
        let mut running = Vec::new();
        for node in nodes {
            let beside = node::start_beside(&ConfigSource::of_file_alone(node.config.clone()))?;
            running.push(beside.scope().clone());
            let conduct = async move {
                // How it ended is of no interest: the demo is over.
                let _ = beside.conduct().await;
            };
            kernel.block_on(async { scope.children(&NEIGHBOUR).spawn(conduct) });
        }
        Ok(Self(running))
    }

    /// Ends all of them and waits until they have.
    async fn end(self, scope: &Scope) {
        self.0.iter().for_each(|node| node.shutdown().request("the demo is over"));
        let (clock, children) = (scope.clock(), scope.children(&NEIGHBOUR));
        let patience = clock.within(PATIENCE);
        while children.live() > 0 && !patience.has_passed(clock.now()) {
            crowd::pause(clock, clock.within(Duration::from_millis(20))).await;
        }
    }
}
