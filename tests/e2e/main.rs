//! End to end: the built program, real sockets, real signals.

#![expect(
    clippy::disallowed_methods,
    clippy::unwrap_used,
    reason = "tests drive the program from outside and fail with the reason"
)]

mod acme;
mod applications;
mod clients;
mod demo;
mod docs;
mod drain;
mod edge;
mod edge_proofs;
mod fleet;
mod includes;
mod kept_state;
mod metrics;
mod objects;
mod overlay;
mod overload;
mod proxy;
mod refusals;
mod reload;
mod rewarder;
mod routing;
mod slow_clients;
mod smuggling;
mod support;
mod tenants;
mod three_nodes;
mod traces;
mod upgrade;
