//! A network in one thread: real gossip engines and real frames, simulated links, time and faults, from a seed.
//!
//! A run publishes, breaks things, mends them, and then looks at the accounts: of every accepted publication that anybody
//! who is left has, every node that is left was delivered it or has named it as missing. Nothing else is good enough, for
//! any seed.

mod faults;
pub mod graph;
pub mod ledger;
pub mod network;
mod report;
mod scenario;
mod world;

pub use report::{Report, run};
pub use scenario::{Bounds, Scenario, Scenarios, read, suite};
