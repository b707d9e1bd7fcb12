//! The types that every part of Omnigate shares: moments and deadlines, refusals and their reasons, actors, names
//! of objects and nodes.
//!
//! Nothing here reads a clock, a file or a socket.

mod actor;
mod b3_text;
mod node_id;
mod object_id;
mod refusal;
mod time;

pub use actor::{ActorId, InvalidActor};
pub use node_id::{InvalidNodeId, NodeId};
pub use object_id::{InvalidObjectId, ObjectId};
pub use refusal::{Reason, Refusal};
pub use time::{Deadline, Moment};
