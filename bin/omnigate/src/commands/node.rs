//! `omnigate node`: who a node is to others.

use svc_overlay::load_or_make_node_key;
use types::NodeId;

use crate::{config_file::ConfigSource, failure::Failure, settings::NodeConfig};

/// Prints the node's id.
pub(super) fn id(source: &ConfigSource) -> Result<(), Failure> {
    super::print(&format!("{}\n", NodeId::of_key(&public_key(source)?)))
}

/// Prints the node's public key.
pub(super) fn key(source: &ConfigSource) -> Result<(), Failure> {
    let digits: String = public_key(source)?.iter().map(|byte| format!("{byte:02x}")).collect();
    super::print(&format!("{digits}\n"))
}

fn public_key(source: &ConfigSource) -> Result<[u8; 32], Failure> {
    let node = source.load()?.get::<NodeConfig>();
    if node.amnesia {
        return Err(Failure::failed("with node.amnesia the node's key changes at each start")
            .help("ask the running node: `omnigate peers --json` begins with its id"));
    }
    let key = load_or_make_node_key(Some(&node.data_dir)).map_err(Failure::failed)?;
    Ok(*key.public_key().ed25519())
}
