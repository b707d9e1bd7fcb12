//! The console: a page on the admin listener that shows the node, and the numbers it shows.
//!
//! ```text
//! services → Part::look ─┐
//! kernel, metrics ───────┴─▶ snapshot, once a second ─▶ feed ─▶ every viewer's stream ─▶ page
//! ```

mod feed;
mod files;
mod snapshot;

use std::{fmt, sync::Arc};

use http::request::Parts;
use ron_kernel::{Fault, Scope, config::ConfigStore, topology::Topology};
use ron_transport::Response;
use serde_json::{Value, json};
use svc_rewarder::Rewarder;
use types::{Reason, Refusal};

use crate::{commands, settings::NodeConfig};
use feed::Feed;
use snapshot::Looker;

pub(super) use feed::{FEED, MAX_VIEWERS, SNAPSHOTS};
pub(super) use files::file;

/// A service that the console shows.
pub(crate) trait Part: fmt::Debug + Send + Sync {
    /// Its name, under which it is shown.
    fn name(&self) -> &'static str;

    /// How it is doing now, without secrets. Asked about once a second, off the planes, while somebody watches.
    fn look(&self) -> Value;
}

/// What the console shows beside the kernel.
#[derive(Debug)]
pub(crate) struct Shown {
    pub(crate) config: ConfigInForce,
    pub(crate) parts: Vec<Box<dyn Part>>,
    /// The rewarder whose epochs are shown, if it runs.
    pub(crate) rewarder: Option<Arc<Rewarder>>,
}

/// The configuration in force and where it was read from.
#[derive(Clone, Debug)]
pub(crate) struct ConfigInForce {
    pub(crate) store: Arc<ConfigStore>,
    /// The file's name, or what stands in for it.
    pub(crate) file: String,
}

/// The running console.
#[derive(Debug)]
pub(super) struct Console {
    config: ConfigInForce,
    rewarder: Option<Arc<Rewarder>>,
    feed: Arc<Feed>,
    looker: Arc<Looker>,
}

impl Console {
    pub(super) fn start(scope: &Scope, topologies: &[&'static Topology], shown: Shown) -> Self {
        let Shown { config, parts, rewarder } = shown;
        let node = config.store.current().get::<NodeConfig>().name.clone();
        let looker = Arc::new(Looker::new(scope, node, topologies.to_vec(), parts));
        Self { config, rewarder, feed: Feed::start(scope, Arc::clone(&looker)), looker }
    }

    /// The node at this moment, as the console shows it.
    pub(super) async fn look(&self, scope: &Scope) -> Result<Value, Refusal> {
        let looker = Arc::clone(&self.looker);
        let seen = scope.blocking().run("look at the node", move || looker.look()).await;
        Ok(seen.map_err(Fault::from)?)
    }

    /// A viewer's stream of numbers, until the node has stopped.
    pub(super) fn open(&self, scope: &Scope) -> Result<Response, Refusal> {
        self.feed.open(scope)
    }

    /// What the rewarder answers, if there is one.
    pub(super) async fn rewarder(&self, request: &Parts) -> Result<Response, Refusal> {
        let missing =
            || Refusal::new(Reason::NotFound, "the rewarder is not enabled: set `rewarder.enabled`");
        Ok(self.rewarder.as_ref().ok_or_else(missing)?.look(request.clone()).await)
    }

    /// Every setting and where it comes from.
    pub(super) fn config(&self) -> Value {
        let current = self.config.store.current();
        json!({
            "generation": current.generation(),
            "file": self.config.file,
            "refused": self.config.store.last_error().is_some(),
            "settings": commands::listed(&current),
        })
    }
}
