//! Publish and subscribe through a node of Omnigate.
//!
//! ```no_run
//! # async fn chat() -> Result<(), omnigate_client::Error> {
//! use omnigate_client::Topics;
//!
//! let topics = Topics::new("http://127.0.0.1:9510")?.with_token("og1.…");
//! topics.publish("chat.room1", "hello").await?;
//! let mut heard = topics.subscribe(["chat.>"], None);
//! while let Some(event) = heard.next().await? {
//!     println!("{} {:?}", event.kind, event.text());
//! }
//! # Ok(())
//! # }
//! ```
//!
//! A subscription goes on by itself after its connection breaks, behind the last event it gave out. What was missed is an
//! event of its own: `gap`, `lagging`, `not_resumed` or `no_room`. Nothing is spawned: a connection moves while it is waited for.

mod connection;
mod error;
mod event;
mod subscription;
mod topics;

pub use error::Error;
pub use event::{Event, PublicationId, Published};
pub use subscription::Subscription;
pub use topics::Topics;
