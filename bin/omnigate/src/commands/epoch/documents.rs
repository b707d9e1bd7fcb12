//! `omnigate epoch order`, `dispute`, `consent` and `submit`: signed documents about epochs, made here and handed to the
//! running rewarder.

use std::path::{Path, PathBuf};

use clap::{Args, ValueEnum};
use rewards::{
    Action, Delegation, Dispute, Epoch, Json, Manifest, Order, PayeeEntry, PolicyId, PublicKey, Sign,
    SignedCorrection, SignedOrder, SignedPayees, bundle, ed25519::SecretKey,
};
use types::{ActorId, NodeId};

use super::{
    files::{self, Folder},
    live::Asking,
};
use crate::{
    commands::{policy::secret_key, pretty, print},
    failure::Failure,
};

#[derive(Args, Debug)]
pub(crate) struct OrderArgs {
    /// The epoch that the order is about.
    #[arg(value_parser = epoch_number)]
    epoch: Epoch,
    /// The action to order.
    #[arg(value_name = "WHAT")]
    action: ActionName,
    /// The node whose snapshot is left out, with `exclude`.
    #[arg(long, value_name = "NODE", required_if_eq("action", "exclude"), value_parser = ActorId::new)]
    node: Option<ActorId>,
    /// The reason, which is published with the epoch.
    #[arg(long, value_name = "WHY")]
    reason: String,
    /// The file with a secret key that signs policies.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

/// The actions that can be ordered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ActionName {
    /// Hold an epoch that is not settled yet.
    Hold,
    /// Resume a quarantined epoch.
    Release,
    /// Compute a quarantined epoch without a node.
    Exclude,
}

#[derive(Args, Debug)]
pub(crate) struct DisputeArgs {
    /// The folder with the epoch's files; `run.json` is enough.
    bundle: PathBuf,
    /// The actor whose line is disputed.
    #[arg(value_parser = ActorId::new)]
    actor: ActorId,
    /// The objection to publish.
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// The file with the secret key of the actor, of an accounting node, or of a policy signer.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct ConsentArgs {
    /// The actor whose account is to be paid.
    #[arg(long, value_name = "ACTOR", value_parser = ActorId::new)]
    payee: ActorId,
    /// The file with the secret key. The actor that consents is the id of this key.
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// The first epoch that it applies to.
    #[arg(long, value_name = "NUMBER", value_parser = epoch_number, default_value = "0")]
    first_epoch: Epoch,
    /// The last epoch that it applies to.
    #[arg(long, value_name = "NUMBER", value_parser = epoch_number)]
    last_epoch: Option<Epoch>,
    /// The id of the policy.
    #[arg(long, value_name = "ID", default_value = "default", value_parser = policy_id)]
    policy: PolicyId,
    /// Instead of consenting, print the actor's delegation to this key, valid up to `--last-epoch`.
    #[arg(long, value_name = "KEY", conflicts_with = "delegation")]
    delegate: Option<PublicKey>,
    /// Consent for another actor, whose delegation is in this file.
    #[arg(long, value_name = "FILE", requires = "actor")]
    delegation: Option<PathBuf>,
    /// The actor whose delegate the key is.
    #[arg(long, value_name = "ACTOR", value_parser = ActorId::new)]
    actor: Option<ActorId>,
}

#[derive(Args, Debug)]
pub(crate) struct SubmitArgs {
    #[command(flatten)]
    asking: Asking,
    /// The signed document: an order, a dispute, a correction, or a registry of payees.
    document: PathBuf,
}

pub(super) fn epoch_number(text: &str) -> Result<Epoch, String> {
    let epoch = text.parse().ok().and_then(Epoch::new);
    epoch.ok_or_else(|| "an epoch is a whole number below 9007199254740992".to_owned())
}

fn policy_id(text: &str) -> Result<PolicyId, String> {
    PolicyId::new(text).map_err(|error| error.to_string())
}

/// Signs an order and prints it.
pub(super) fn order(args: OrderArgs) -> Result<(), Failure> {
    let action = match (args.action, args.node) {
        (ActionName::Hold, None) => Action::Hold,
        (ActionName::Release, None) => Action::Release,
        (ActionName::Exclude, Some(node)) => Action::Exclude(node),
        _ => return Err(Failure::bad_config("--node goes with `exclude`")),
    };
    let order = Order { epoch: args.epoch, action, reason: args.reason };
    let signed = SignedOrder::unsigned(order).signed_by(&secret_key(&args.key)?);
    // Read again: a reason that is too long is refused here rather than by the rewarder.
    let bytes = signed.to_bytes();
    SignedOrder::read(&bytes).map_err(|error| Failure::bad_config(format!("the order: {error}")))?;
    print_document(&bytes)
}

/// Signs an objection and prints it.
pub(super) fn dispute(args: &DisputeArgs) -> Result<(), Failure> {
    let folder = Folder::open(&args.bundle)?;
    let manifest = Manifest::read(&folder.read(bundle::RUN)?)
        .map_err(|error| Failure::failed(format!("{}: {error}", bundle::RUN)))?;
    let key = secret_key(&args.key)?;
    let dispute = Dispute::of(manifest.name(), args.actor.clone(), &args.reason, &key)
        .map_err(|error| Failure::bad_config(format!("the dispute: {error}")))?;
    print_document(&dispute.to_bytes())
}

/// Prints an entry of the registry of payees with the actor's consent, or the actor's word for a delegate.
pub(super) fn consent(args: &ConsentArgs) -> Result<(), Failure> {
    let key = secret_key(&args.key)?;
    let own = own_actor(&key);
    if let Some(delegate) = args.delegate {
        return print_document(&Delegation::of(&own, delegate, args.last_epoch, &key).to_bytes());
    }
    let entry = PayeeEntry {
        actor: args.actor.clone().unwrap_or(own),
        payee: args.payee.clone(),
        first_epoch: args.first_epoch,
        last_epoch: args.last_epoch,
        consent: None,
    };
    let entry = match &args.delegation {
        None => entry.consented_by(&args.policy, &key),
        Some(path) => {
            let word = Delegation::read(&files::read(path)?)
                .map_err(|error| Failure::failed(format!("{}: {error}", path.display())))?;
            entry.consented_for(&args.policy, &key, word)
        }
    };
    print_document(&entry.to_bytes())
}

/// The actor that a key is.
fn own_actor(key: &SecretKey) -> ActorId {
    let id = NodeId::of_key(key.public_key().as_bytes()).to_string();
    ActorId::new(&id).expect("an id is printable and short")
}

/// Hands a signed document to the running rewarder.
pub(super) fn submit(args: SubmitArgs) -> Result<(), Failure> {
    let bytes = files::read(&args.document)?;
    let bytes = bytes.strip_suffix(b"\n").unwrap_or(&bytes);
    let (path, is_put) = place_of(&args.document, bytes)?;
    let (client, json) = args.asking.client()?;
    let answer = if is_put { client.put(&path, bytes)? } else { client.post(&path, bytes)? };
    print(&if json { pretty(&answer) } else { format!("accepted: {}\n", told(&answer)) })
}

/// Where a document goes, by its format.
fn place_of(path: &Path, bytes: &[u8]) -> Result<(String, bool), Failure> {
    let wrong = |wrong: &dyn std::fmt::Display| Failure::failed(format!("{}: {wrong}", path.display()));
    let Json::Map(fields) = Json::read(bytes).map_err(|error| wrong(&error))? else {
        return Err(wrong(&"it is no document"));
    };
    let format = match fields.get("format") {
        Some(Json::Text(format)) => format.as_ref(),
        _ => "",
    };
    match format {
        SignedOrder::FORMAT => {
            let epoch = SignedOrder::read(bytes).map_err(|error| wrong(&error))?.order().epoch;
            Ok((format!("/rewarder/epochs/{epoch}/order"), false))
        }
        Dispute::FORMAT => {
            let epoch = Dispute::read(bytes).map_err(|error| wrong(&error))?.run.epoch;
            Ok((format!("/rewarder/epochs/{epoch}/disputes"), false))
        }
        SignedCorrection::FORMAT => Ok(("/rewarder/corrections".to_owned(), false)),
        SignedPayees::FORMAT => Ok(("/rewarder/payees".to_owned(), true)),
        _ => Err(wrong(&"it is no signed order, dispute, correction or registry of payees")
            .help("`omnigate policy sign` signs corrections and registries")),
    }
}

/// The answer in a few words.
fn told(answer: &serde_json::Value) -> String {
    let words = ["epoch", "state", "hash", "version", "corrects"].into_iter().filter_map(|name| {
        let value = &answer[name];
        (!value.is_null()).then(|| format!("{name} {}", value.to_string().trim_matches('"')))
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Prints a document of record as it is: a line feed would not be a part of it, and is cut off again when it is read.
fn print_document(bytes: &[u8]) -> Result<(), Failure> {
    print(&format!("{}\n", String::from_utf8_lossy(bytes)))
}
