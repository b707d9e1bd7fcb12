//! Listeners and dialers for TCP, Unix sockets and TLS, with connection limits and timeouts, and the HTTP serve
//! loop that every listener shares.
//!
//! Types of the HTTP library stay inside this crate. Its interface is [`Body`], [`Request`], [`Response`] and the
//! [`Service`] that turns one into the other.

pub mod addr;
pub mod body;
pub mod caps;
pub mod client;
pub mod corr_id;
pub mod deadline;
pub mod descriptors;
pub mod dial;
mod field_values;
pub mod files;
mod frame_guard;
#[cfg(any(test, fuzzing))]
#[doc(hidden)]
pub mod fuzzing;
mod h1;
pub mod inherit;
pub mod interim;
pub mod listen;
pub mod locks;
pub mod problem;
pub mod proxy_protocol;
#[cfg(feature = "quic")]
pub mod quic;
pub mod resolve;
mod rewound;
pub mod serve;
pub mod service;
pub mod socks5;
pub mod stream;
pub mod tls;
pub mod traceparent;
mod trailers;
pub mod tunnel;
mod upload_watch;
pub mod wire;

pub use body::{Body, BodyError};
pub use interim::Interim;
pub use service::{Conn, ConnInfo, Request, Response, Service};
pub use upload_watch::UploadWatch;
