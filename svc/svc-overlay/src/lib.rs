//! The overlay: OAP/1 sessions between nodes, and gossip that accounts for what it loses.
//!
//! ```text
//! listener → greeter ┐                (TLS over TCP, or QUIC)
//!                    ├→ connection: TLS → HELLO → reader → gossip shard → outbox → writer
//! dialer ────────────┘                                  └→ subscribers of this node → applications
//! ```
//!
//! Every publication that this node accepts is delivered, relayed, or reported: to subscribers as a gap, to
//! operators in the loss report.

#[cfg(not(loom))]
mod allowance;
#[cfg(not(loom))]
mod api;
#[cfg(not(loom))]
mod arrivals;
#[cfg(not(loom))]
mod build;
#[cfg(not(loom))]
mod conditions;
#[cfg(not(loom))]
mod config;
#[cfg(not(loom))]
mod dialer;
#[cfg(not(loom))]
mod error;
#[cfg(not(loom))]
mod feed;
#[cfg(not(loom))]
mod gossip;
#[cfg(not(loom))]
mod handshakes;
#[cfg(not(loom))]
mod info;
#[cfg(not(loom))]
mod listener;
#[cfg(not(loom))]
mod lives;
#[cfg(not(loom))]
mod locks;
#[cfg(not(loom))]
mod losses;
#[cfg(not(loom))]
mod metrics;
#[cfg(not(loom))]
mod node_key;
#[cfg(not(loom))]
mod objects;
pub mod outbox;
#[cfg(not(loom))]
mod peers;
#[cfg(not(loom))]
mod quic;
#[cfg(not(loom))]
mod session;
#[cfg(not(loom))]
mod shared;
#[cfg(not(loom))]
mod subscription;
#[cfg(not(loom))]
pub mod told;
#[cfg(not(loom))]
mod toll;
#[cfg(not(loom))]
mod topology;

#[cfg(all(any(test, fuzzing), not(loom)))]
#[doc(hidden)]
pub use api::fuzzing;
#[cfg(not(loom))]
pub use api::{API_TOPOLOGY, Api, ApiError};
#[cfg(not(loom))]
pub use build::{BuildError, IsHeldElsewhere, LoadTokens, Overlay, OverlaySettings};
#[cfg(not(loom))]
pub use config::{
    ApiAuth, ApiConfig, EgressPolicy, GossipConfig, ObjectsConfig, OverlayConfig, PeerAddr, PeerAddrError,
    PeerLimits, PqConfig, Security, TimeoutsConfig, Transport, TransportConfig,
};
#[cfg(not(loom))]
pub use error::OverlayError;
#[cfg(not(loom))]
pub use feed::{Cursor, Feed};
#[cfg(not(loom))]
pub use gossip::{Delivery, EventId, Gap, InvalidEventId, Published};
#[cfg(not(loom))]
pub use info::{PeerInfo, TopicInfo};
#[cfg(not(loom))]
pub use losses::{Loss, LossSum, LossSums, NamedGap};
#[cfg(not(loom))]
pub use node_key::{NODE_KEY_FILE, NodeKeyError, load_or_make as load_or_make_node_key};
#[cfg(not(loom))]
pub use objects::{Object, ObjectError, ObjectReader, ObjectStore, Upload};
#[cfg(not(loom))]
pub use quic::QUIC_AVAILABLE;
#[cfg(not(loom))]
pub use subscription::Subscription;
#[cfg(not(loom))]
pub use topology::TOPOLOGY;
