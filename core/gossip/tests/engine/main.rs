//! The engine through its public surface.

mod accounts;
mod behaviour;
mod idle_topics;
mod long_runs;
mod proofs;
mod publishers;
mod searches;
mod shares;
mod slow_peer;
mod support;
mod untold;
