//! The configuration tables that belong to the node itself rather than to a service.

mod admin;
mod ledger;
mod log;
mod node;

#[cfg(test)]
pub(crate) use admin::AdminToken;
pub(crate) use admin::{AdminConfig, OPEN_REMEDY, Role, is_open};
pub(crate) use ledger::LedgerConfig;
pub(crate) use log::{LogConfig, LogFormat};
pub(crate) use node::{NodeConfig, SandboxMode};
