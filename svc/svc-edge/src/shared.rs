//! What all cores share.

use std::sync::Arc;

use ron_kernel::{Clock, Scope, meter::Meter, queue::Sender};
use types::{ActorId, Refusal};

use crate::{
    EdgeConfig,
    assets::{Damages, Hashing, Loaded, Unsettled, start_settler},
    fill::Fill,
    flights::Flights,
    ingress::Ingress,
    metrics::EdgeMetrics,
    objects::Objects,
    overload,
    packs::Registry,
    ram::{Ram, Ready},
    serve::Reader,
};

/// What all cores share, and reloads keep.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) scope: Scope,
    pub(crate) clock: Clock,
    pub(crate) ingress: Arc<Ingress>,
    pub(crate) ram: Arc<Ram>,
    /// Looks at files, and loads of small ones.
    pub(crate) files: Arc<Flights<Result<Loaded, Refusal>>>,
    /// Large files that are being hashed.
    pub(crate) hashes: Arc<Flights<Result<Loaded, Refusal>>>,
    pub(crate) hashing: Arc<Hashing>,
    pub(crate) tiles: Arc<Flights<Result<Arc<Ready>, Refusal>>>,
    /// Files to be hashed once more.
    pub(crate) unsettled: Sender<Unsettled>,
    pub(crate) reader: Reader,
    pub(crate) objects: Objects,
    /// The fill; `None` offline.
    pub(crate) fill: Option<Arc<Fill>>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) damages: Arc<Damages>,
    pub(crate) metrics: EdgeMetrics,
    pub(crate) usage: Usage,
}

/// What is made before all else, because it may fail.
#[derive(Debug)]
pub(crate) struct Stores {
    pub(crate) metrics: EdgeMetrics,
    pub(crate) damages: Arc<Damages>,
    pub(crate) objects: Objects,
    pub(crate) fill: Option<Arc<Fill>>,
}

/// What this node provides, as it is booked.
#[derive(Clone, Debug)]
pub(crate) struct Usage {
    pub(crate) requests: Meter,
    pub(crate) bytes: Meter,
}

impl Usage {
    /// Booked for the node, which is who provides it.
    pub(crate) fn new(scope: &Scope, node: &str) -> Self {
        let actor = ActorId::new(node).unwrap_or_else(|_| ActorId::other());
        let meter = |metric| scope.meters().meter(&actor, metric);
        Self { requests: meter("provided.requests"), bytes: meter("provided.bytes") }
    }
}

impl Shared {
    pub(crate) fn new(scope: &Scope, config: &EdgeConfig, node: &str, stores: Stores) -> Arc<Self> {
        let Stores { metrics, damages, objects, fill } = stores;
        let registry = Registry::new(scope, &config.packs, Arc::clone(&damages));
        let ingress = Arc::new(Ingress::new(&config.ingress));
        let ram = Arc::new(Ram::new(config.ram_bytes.as_u64()));
        metrics.sample(scope, &ingress, &ram, &registry);
        overload::watch(scope, &ingress);
        let (usage, hashing) = (Usage::new(scope, node), Arc::default());
        Arc::new(Self {
            scope: scope.clone(),
            clock: scope.clock(),
            ingress,
            ram,
            files: Arc::default(),
            tiles: Arc::default(),
            hashes: Arc::default(),
            unsettled: start_settler(scope, &hashing),
            hashing,
            reader: Reader::new(scope, usage.bytes.clone()),
            objects,
            fill,
            registry,
            damages,
            metrics,
            usage,
        })
    }
}
