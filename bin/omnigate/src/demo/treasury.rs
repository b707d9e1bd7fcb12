//! The demo's money: a policy that is signed by a key made for it, and a pool to pay from.

use std::{
    io,
    path::{Path, PathBuf},
};

use aws_lc_rs::rand;
use rewards::{Policy, PublicKey, Sign, SignedPolicy, ed25519::SecretKey};
use ron_ledger::Ledger as _;
use ron_ledger::{
    AccountId, Asset, Batch, Floor, Key, Reference, Scrutiny, SqliteLedger, Step, Terms, Transfer,
};
use zeroize::Zeroizing;

/// What each epoch pays, in the smallest unit.
const POOL: &str = "1000000";
/// What the pool is given at the start: enough for a year of demo.
const FUNDS: u64 = 1_000_000_000_000;

/// A policy that is signed, and by whom.
#[derive(Debug)]
pub(super) struct SignedTerms {
    pub(super) file: PathBuf,
    pub(super) key: PublicKey,
}

/// Writes a signed policy: nodes are paid for what they served, an answer counting as much as a kilobyte. Blocking.
#[expect(clippy::disallowed_methods, reason = "no runtime is running yet")]
pub(super) fn write_policy(dir: &Path) -> io::Result<SignedTerms> {
    let terms = format!(
        r#"{{"cap_ppm":1000000,"first_epoch":0,"format":"omnigate-policy/1","id":"default","last_epoch":null,
        "min_payout":"0","pool":"{POOL}","residual":{{"rule":"keep"}},"ruleset":1,"version":1,
        "weights_ppm":{{"provided.answers":1000000000,"provided.bytes":1000000}}}}"#
    );
    let mut seed = Zeroizing::new([0; 32]);
    rand::fill(&mut seed[..]).map_err(|_| io::Error::other("no random numbers"))?;
    let signer = SecretKey::from_seed(&seed);
    let policy = Policy::read(terms.as_bytes()).map_err(io::Error::other)?;
    let file = dir.join("policy.json");
    std::fs::write(&file, SignedPolicy::unsigned(policy).signed_by(&signer).to_bytes())?;
    Ok(SignedTerms { file, key: signer.public_key() })
}

/// Makes a ledger whose pool has something to pay. Blocking.
pub(super) fn fund(ledger: &Path) -> Result<(), String> {
    let account = |name| AccountId::new(name).map_err(|error| error.to_string());
    let (mint, pool) = (account("mint")?, account("pool/rewards")?);
    let asset = Asset::new("CREDIT").map_err(|error| error.to_string())?;
    let open = |account: &AccountId, floor| Step::Open(Terms { account: account.clone(), asset, floor });
    let transfer = Transfer { from: mint.clone(), to: pool.clone(), amount: FUNDS.into() };
    let steps = vec![open(&mint, Floor::Unlimited), open(&pool, Floor::ZERO), Step::Transfer(transfer)];
    let (key, reference) = (Key::new("demo/fund"), Reference::new("the demo's funds"));
    let (key, reference) = (key.map_err(|e| e.to_string())?, reference.map_err(|e| e.to_string())?);
    let batch = Batch::new(key, reference, 1, steps).map_err(|error| error.to_string())?;
    let ledger = SqliteLedger::open(ledger, &Scrutiny::default()).map_err(|error| error.to_string())?;
    ledger.post(&batch).map(drop).map_err(|error| error.to_string())
}
