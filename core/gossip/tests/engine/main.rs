//! The engine through its public surface.

mod accounts;
mod behaviour;
mod support;
