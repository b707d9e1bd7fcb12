//! What the caller of `omnigate epoch verify` believes and requires. A bundle cannot vouch for itself.

use std::{collections::BTreeSet, fmt, path::Path, str::FromStr};

use rewards::{Digest, PublicKey};
use svc_rewarder::{RewarderConfig, node_key};
use types::NodeId;

use super::{TrustArgs, files};
use crate::{config_file::ConfigSource, failure::Failure, settings::NodeConfig};

/// As many nodes as an epoch can have snapshots.
const MAX_NODES: usize = 4096;

/// One thing that can be proved about an epoch, beyond that its documents follow from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Check {
    /// A trusted key signed the policy.
    Policy,
    /// Each snapshot is sealed by the node that it names, and that node is trusted.
    Seals,
    /// Every row is there and was added up.
    Rows,
    /// The run is the one that was published, or a trusted node attests to it.
    Commitment,
    /// The runs before it lead to the first one of their chain, and each of them is verified.
    Chain,
    /// Every payout is in the ledger.
    Settled,
}

impl Check {
    /// All there are, in the order in which they are shown.
    pub(super) const ALL: [Self; 6] =
        [Self::Policy, Self::Seals, Self::Rows, Self::Commitment, Self::Chain, Self::Settled];

    /// The name, as it is written on the command line.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Policy => "policy",
            Self::Seals => "seals",
            Self::Rows => "rows",
            Self::Commitment => "commitment",
            Self::Chain => "chain",
            Self::Settled => "settled",
        }
    }
}

impl fmt::Display for Check {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// The checks that must succeed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Required(BTreeSet<Check>);

impl Required {
    /// What a stranger needs; payouts too if there is a ledger to look into.
    pub(super) fn usual(has_ledger: bool) -> Self {
        let needed = |check: &Check| *check != Check::Settled || has_ledger;
        Self(Check::ALL.into_iter().filter(needed).collect())
    }

    pub(super) fn includes(&self, check: Check) -> bool {
        self.0.contains(&check)
    }
}

impl FromStr for Required {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "none" {
            return Ok(Self(BTreeSet::new()));
        }
        let check = |name: &str| {
            let known = Check::ALL.into_iter().find(|check| check.name() == name);
            known.ok_or_else(|| {
                format!(
                    "`{name}` is no check: write policy, seals, rows, commitment, chain, settled, or none"
                )
            })
        };
        text.split(',').map(check).collect::<Result<_, _>>().map(Self)
    }
}

/// Whom and what the caller believes.
#[derive(Debug, Default)]
pub(super) struct Trust {
    /// Keys whose signatures on policies count.
    pub(super) policy_keys: Vec<PublicKey>,
    /// The nodes whose seals and attestations count; `None` if nobody said which.
    pub(super) nodes: Option<BTreeSet<NodeId>>,
    /// The commitment as it was published; `None` if nobody said which.
    pub(super) commitment: Option<Digest>,
}

impl Trust {
    /// As the command line says, and the files that it names.
    pub(super) fn read(args: &TrustArgs) -> Result<Self, Failure> {
        let mut trust =
            Self { policy_keys: args.policy_key.clone(), nodes: None, commitment: args.commitment };
        if let Some(path) = &args.nodes {
            trust.nodes.get_or_insert_default().extend(nodes(path)?);
        }
        if let Some(path) = &args.config {
            trust.take_from(path)?;
        }
        Ok(trust)
    }

    pub(super) fn has_node(&self, node: &NodeId) -> bool {
        self.nodes.as_ref().is_some_and(|nodes| nodes.contains(node))
    }

    /// What a node with this configuration believes.
    fn take_from(&mut self, path: &Path) -> Result<(), Failure> {
        let config = ConfigSource::resolve(Some(path.to_owned()), Vec::new())?.load()?;
        let (rewarder, node) = (config.get::<RewarderConfig>(), config.get::<NodeConfig>());
        // The configuration was checked when it was read, so that none of these is left out.
        self.policy_keys.extend(rewarder.policy_keys.iter().filter_map(|key| key.parse::<PublicKey>().ok()));
        let nodes = self.nodes.get_or_insert_default();
        nodes.extend(rewarder.accounting_nodes.iter().filter_map(|node| node.parse::<NodeId>().ok()));
        let named = !rewarder.node_key.as_os_str().is_empty();
        // Looking makes no key.
        if !node.amnesia && (named || node.data_dir.join("node.key").is_file()) {
            let key = node_key(&rewarder, Some(&node.data_dir)).map_err(Failure::failed)?;
            nodes.insert(key.node());
        }
        Ok(())
    }
}

/// The nodes in a file, one a line.
fn nodes(path: &Path) -> Result<BTreeSet<NodeId>, Failure> {
    let text = String::from_utf8(files::read(path)?).unwrap_or_default();
    let mut nodes = BTreeSet::new();
    for (at, line) in text.lines().enumerate() {
        let id = line.split('#').next().unwrap_or_default().trim();
        if id.is_empty() {
            continue;
        }
        let wrong = |wrong| Failure::failed(format!("{}, line {}: {wrong}", path.display(), at + 1));
        nodes.insert(id.parse().map_err(wrong)?);
    }
    match nodes.len() {
        0 => Err(Failure::failed(format!("{} names no node", path.display()))
            .help("write one id a line, as `omnigate node id --rewarder` prints it")),
        1..=MAX_NODES => Ok(nodes),
        more => Err(Failure::failed(format!("{} names {more} nodes, more than {MAX_NODES}", path.display()))),
    }
}
