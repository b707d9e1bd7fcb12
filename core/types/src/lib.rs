//! The words every part of Omnigate shares: moments and deadlines, refusals and their reasons, actors.
//!
//! Nothing here reads a clock, a file or a socket: values come in, verdicts go out.

mod actor;
mod refusal;
mod time;

pub use actor::{ActorId, InvalidActor};
pub use refusal::{Reason, Refusal};
pub use time::{Deadline, Moment};
