//! The engine through its public surface.

mod accounts;
mod behaviour;
mod slow_peer;
mod support;
