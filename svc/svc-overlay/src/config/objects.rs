//! What objects may cost.

use std::{path::Path, path::PathBuf, time::Duration};

use ron_kernel::config::{ByteSize, HumanDuration, Problems};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// More streams for peers than this need `danger_ok`: each holds up to 1 MiB.
const SAFE_MAX_STREAMS: usize = 4096;
/// Longer waits than this need `danger_ok`: each holds a stream.
const SAFE_MAX_PATIENCE: Duration = Duration::from_secs(120);

/// Objects that peers may request and offer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ObjectsConfig {
    /// The largest object that is accepted from a peer.
    pub max_object_bytes: ByteSize,
    /// The maximum size of the store in `cas` of `node.data_dir`; the least recently used objects are evicted.
    pub max_bytes: ByteSize,
    /// The maximum size of the store in RAM, which is used with `node.amnesia`.
    pub ram_bytes: ByteSize,
    /// Concurrent transfers of objects to and from peers; more are refused with `busy`.
    pub streams: usize,
    /// How long a transfer may make no progress; then its stream is closed.
    pub patience: HumanDuration,
}

impl Default for ObjectsConfig {
    fn default() -> Self {
        Self {
            max_object_bytes: ByteSize::gib(1),
            max_bytes: ByteSize::gib(10),
            ram_bytes: ByteSize::mib(256),
            streams: 256,
            patience: HumanDuration::from_secs(10),
        }
    }
}

impl ObjectsConfig {
    pub(super) fn check(&self, danger_ok: bool, problems: &mut Problems) {
        for (key, size) in [
            ("objects.max_object_bytes", self.max_object_bytes),
            ("objects.max_bytes", self.max_bytes),
            ("objects.ram_bytes", self.ram_bytes),
        ] {
            if size.as_u64() == 0 {
                problems.at(key, "must be at least 1");
            }
        }
        if self.streams == 0 {
            problems.at("objects.streams", "must be at least 1");
        }
        problems.guard("objects.streams", self.streams, SAFE_MAX_STREAMS, danger_ok);
        if self.patience.as_duration().is_zero() {
            problems.at("objects.patience", "must be longer than nothing");
        }
        problems.guard("objects.patience", self.patience, SAFE_MAX_PATIENCE.into(), danger_ok);
    }

    /// The folder of the store on a node whose data is in `data_dir`: the edge's as well, unless that has another.
    pub(crate) fn folder(data_dir: &Path) -> PathBuf {
        data_dir.join("cas")
    }
}
