//! `omnigate epoch reconcile`: paid epochs compared with the ledger, and what it lacks posted again.

use clap::Args;
use ron_kernel::ExitCode;
use serde_json::Value;

use super::live::Asking;
use crate::{
    commands::{overlay::admin_client::AdminClient, pretty, print},
    failure::Failure,
};

/// Epochs that are asked for at once.
const PAGE: u64 = 100;

#[derive(Args, Debug)]
pub(crate) struct ReconcileArgs {
    #[command(flatten)]
    asking: Asking,
    /// Only this epoch; without it, all paid epochs.
    #[arg(value_parser = clap::value_parser!(u64).range(..1 << 53))]
    epoch: Option<u64>,
    /// Only report what is missing; post nothing.
    #[arg(long)]
    dry_run: bool,
}

/// Compares epochs with the ledger, the latest first.
pub(super) fn run(args: ReconcileArgs) -> Result<ExitCode, Failure> {
    let dry_run = args.dry_run;
    let (client, json) = args.asking.client()?;
    let epochs = match args.epoch {
        Some(epoch) => vec![epoch],
        None => paid(&client)?,
    };
    let mut found = Vec::new();
    for epoch in &epochs {
        let path = format!("/rewarder/epochs/{epoch}/reconcile");
        let answer = if dry_run { client.get(&path)? } else { client.post(&path, b"")? };
        if answer["missing"].as_u64().unwrap_or_default() > 0 {
            found.push(answer);
        }
    }
    let is_missing = |one: &Value| dry_run || outcome(one) == Outcome::Missing;
    let code = if found.iter().any(is_missing) { ExitCode::Failed } else { ExitCode::Clean };
    print(&if json { pretty(&Value::Array(found)) } else { text(epochs.len(), &found) })?;
    Ok(code)
}

/// Every epoch that something was posted of, the latest first.
fn paid(client: &AdminClient) -> Result<Vec<u64>, Failure> {
    let (mut all, mut before) = (Vec::new(), String::new());
    loop {
        let answer = client.get(&format!("/rewarder/epochs?limit={PAGE}{before}"))?;
        let posted = |epoch: &&Value| epoch["batches_posted"].as_u64().unwrap_or_default() > 0;
        let epochs = answer["epochs"].as_array().into_iter().flatten();
        all.extend(epochs.filter(posted).filter_map(|epoch| epoch["epoch"].as_u64()));
        match answer["next"].as_u64() {
            Some(next) => before = format!("&before={next}"),
            None => return Ok(all),
        }
    }
}

/// What becomes of the batches that the ledger lacks of an epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Outcome {
    /// They are posted again because of this request.
    PostedAgain,
    /// They are being posted because of an earlier one.
    Posting,
    /// They stay missing.
    Missing,
}

fn outcome(one: &Value) -> Outcome {
    if one["posted_again"] == true {
        Outcome::PostedAgain
    } else if one["state"] == "emitting" && one["retired"] != true {
        Outcome::Posting
    } else {
        Outcome::Missing
    }
}

fn text(compared: usize, found: &[Value]) -> String {
    let mut out = String::new();
    for one in found {
        let does = match outcome(one) {
            Outcome::PostedAgain => "posted again",
            Outcome::Posting => "not in the ledger, and being posted",
            Outcome::Missing if one["retired"] == true => {
                "not in the ledger; the epoch is retired and cannot be posted again"
            }
            Outcome::Missing if one["state"] == "quarantined" => {
                "not in the ledger; the epoch is quarantined and has to be released first"
            }
            Outcome::Missing => "not in the ledger",
        };
        out.push_str(&format!("epoch {}: {} batches {does}\n", one["epoch"], one["missing"]));
    }
    out + &format!("{compared} paid epochs compared, {} of them incomplete in the ledger\n", found.len())
}
