//! The commands that print who a node is.

use clap::Subcommand;

use super::{ConfigArgs, Task};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(super) enum NodeCommand {
    /// Print the node's id, which its peers list. Creates the node's key if there is none yet.
    Id {
        /// Print the id under which the rewarder seals usage and attests to epochs: the id of `rewarder.node_key`, if
        /// it is set.
        #[arg(long)]
        rewarder: bool,
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Print the node's public key, which verifies its signatures. Creates the node's key if there is none yet.
    Key {
        /// Print the key with which the rewarder seals usage and attests to epochs: `rewarder.node_key`, if it is
        /// set.
        #[arg(long)]
        rewarder: bool,
        #[command(flatten)]
        config: ConfigArgs,
    },
}

impl NodeCommand {
    /// As it is used once files, variables and flags are known.
    pub(super) fn resolve(self) -> Result<Task, Failure> {
        Ok(match self {
            Self::Id { config, rewarder } => Task::NodeId { source: config.resolve()?, rewarder },
            Self::Key { config, rewarder } => Task::NodeKey { source: config.resolve()?, rewarder },
        })
    }
}
