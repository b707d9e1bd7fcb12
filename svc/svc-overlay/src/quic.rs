//! OAP/1 over QUIC, in programs that are built with the feature `quic`.

#[cfg(feature = "quic")]
mod door;
#[cfg(feature = "quic")]
mod tls;

use ron_kernel::topology::{ChildSpec, Plane, Stage, TaskSpec};

#[cfg(feature = "quic")]
pub(crate) use door::QuicDoor;
#[cfg(feature = "quic")]
pub(crate) use tls::{QuicLink, QuicTls};

use crate::listener::RESTART;

/// Whether this program can speak QUIC.
pub const QUIC_AVAILABLE: bool = cfg!(feature = "quic");

/// Accepts connections over QUIC.
pub(crate) const QUIC_LISTENER: TaskSpec = TaskSpec {
    name: "quic_listener",
    plane: Plane::Control,
    restart: RESTART,
    stop: Stage::Intake,
    doc: "accepts connections over QUIC from addresses that were proven, and applies the same caps; with `quic_listen` and the feature `quic`",
};

/// What moves the packets of a QUIC socket or connection.
pub(crate) const QUIC_DRIVER: ChildSpec = ChildSpec {
    kind: "quic_driver",
    plane: Plane::Data,
    stop: Stage::Support,
    bound: "one per connection over QUIC, one per such connection that is dialled, one for `quic_listen`",
    doc: "sends, receives and times the packets of one QUIC connection, or of one UDP socket; ends with its connections",
};
