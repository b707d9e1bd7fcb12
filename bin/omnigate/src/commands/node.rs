//! `omnigate node`: who a node is to others.

use rewards::Sign as _;
use svc_overlay::load_or_make_node_key;
use svc_rewarder::{RewarderConfig, node_key};
use types::NodeId;

use crate::{config_file::ConfigSource, failure::Failure, settings::NodeConfig};

/// Prints the node's id, or that under which its rewarder signs.
pub(super) fn id(source: &ConfigSource, rewarder: bool) -> Result<(), Failure> {
    super::print(&format!("{}\n", NodeId::of_key(&public_key(source, rewarder)?)))
}

/// Prints the node's public key, or that of its rewarder.
pub(super) fn key(source: &ConfigSource, rewarder: bool) -> Result<(), Failure> {
    let digits: String = public_key(source, rewarder)?.iter().map(|byte| format!("{byte:02x}")).collect();
    super::print(&format!("{digits}\n"))
}

fn public_key(source: &ConfigSource, rewarder: bool) -> Result<[u8; 32], Failure> {
    let config = source.load()?;
    let (node, rewards) = (config.get::<NodeConfig>(), config.get::<RewarderConfig>());
    if rewarder && !rewards.node_key.as_os_str().is_empty() {
        let key = node_key(&rewards, Some(&node.data_dir)).map_err(Failure::failed)?;
        return Ok(*key.public_key().as_bytes());
    }
    if node.amnesia {
        return Err(Failure::failed("with node.amnesia the node's key changes at each start")
            .help("ask the running node: `omnigate peers --json` begins with its id"));
    }
    let key = load_or_make_node_key(Some(&node.data_dir)).map_err(Failure::failed)?;
    Ok(*key.public_key().ed25519())
}
