//! The audit trail: what somebody had the node do, as events of the log with a target of their own.
//!
//! Every event has these fields: `action` (what was asked for), `actor` (who asked: the name of a token, an address, a
//! signal) and `outcome` (what became of it). `detail` says more where there is more to say. No field holds a secret.

/// The target of every event of the audit trail.
pub const TARGET: &str = "audit";
