//! `omnigate policy`: make a key, sign a policy, and see what one says and who answers for it.

use std::path::{Path, PathBuf};

use aws_lc_rs::rand;
use clap::Subcommand;
use rewards::{
    Correction, Epoch, Json, Payees, Policy, PublicKey, Residual, Sign, SignedCorrection, SignedPayees,
    SignedPolicy,
    ed25519::{Ed25519, SecretKey},
};
use ron_kernel::ExitCode;
use ron_transport::files;
use zeroize::Zeroizing;

use super::print;
use crate::failure::Failure;

/// More than any policy or key has.
const MAX_BYTES: u64 = 1 << 20;

#[derive(Debug, Subcommand)]
pub(crate) enum PolicyCommand {
    /// Write a new secret key into a file that only you can read, and print its public key.
    Keygen {
        /// The file to write.
        path: PathBuf,
    },
    /// Sign a policy, a correction or a registry of payees, and print it with its signatures in canonical form.
    ///
    /// A policy that is already signed keeps its other signatures: sign with the old key and the new one while keys
    /// are changed.
    Sign {
        /// The document, as JSON in any layout, or already signed.
        policy: PathBuf,
        /// The file with the secret key.
        #[arg(long, value_name = "FILE")]
        key: PathBuf,
    },
    /// Verify a signed policy. Exit codes: 0: it would be used; 1: it would not, and the reason is printed.
    Check {
        /// The signed policy.
        policy: PathBuf,
        /// A trusted key: `ed25519:` and 64 digits. May be repeated.
        #[arg(long, value_name = "KEY", required = true)]
        key: Vec<PublicKey>,
        /// Also check that the policy applies to this epoch.
        #[arg(long, value_name = "NUMBER", value_parser = epoch_number)]
        epoch: Option<Epoch>,
    },
    /// Show the content of a policy, signed or not. No signature is verified.
    Show {
        /// The file with the policy.
        policy: PathBuf,
        /// Print the terms in canonical JSON.
        #[arg(long)]
        json: bool,
    },
}

/// Runs the command.
pub(super) fn run(command: PolicyCommand) -> Result<ExitCode, Failure> {
    let done = match command {
        PolicyCommand::Keygen { path } => keygen(&path),
        PolicyCommand::Sign { policy, key } => sign(&policy, &key),
        PolicyCommand::Check { policy, key, epoch } => return check(&policy, &key, epoch),
        PolicyCommand::Show { policy, json } => show(&policy, json),
    };
    done.map(|()| ExitCode::Clean)
}

fn epoch_number(text: &str) -> Result<Epoch, String> {
    let epoch = text.parse().ok().and_then(Epoch::new);
    epoch.ok_or_else(|| "an epoch is a whole number below 9007199254740992".to_owned())
}

fn keygen(path: &Path) -> Result<(), Failure> {
    let mut seed = Zeroizing::new([0; 32]);
    rand::fill(&mut seed[..]).map_err(|_| {
        Failure::failed("the system's random number source failed")
            .help("check that getrandom(2) is permitted")
    })?;
    files::create_private(path, SecretKey::text(&seed).as_bytes()).map_err(Failure::failed)?;
    let key = SecretKey::from_seed(&seed).public_key();
    // The key by itself, so that a script can take it as it is.
    eprintln!("wrote {}; put its public half into rewarder.policy_keys:", path.display());
    print(&format!("{key}\n"))
}

fn sign(policy: &Path, key: &Path) -> Result<(), Failure> {
    let secret = secret_key(key)?;
    let bytes = files::read_public_or_pipe(policy, MAX_BYTES).map_err(Failure::failed)?;
    let wrong = |error: &dyn std::fmt::Display| Failure::failed(format!("{}: {error}", policy.display()));
    let signed = match kind(&bytes) {
        Kind::Correction => {
            let signed = SignedCorrection::read(&bytes)
                .or_else(|_| Correction::read(&bytes).map(SignedCorrection::unsigned))
                .map_err(|error| wrong(&error))?;
            SignedCorrection::read(&signed.signed_by(&secret).to_bytes())
                .map_err(|error| wrong(&error))?
                .to_bytes()
        }
        Kind::Payees => {
            let signed = SignedPayees::read(&bytes)
                .or_else(|_| Payees::read(&bytes).map(SignedPayees::unsigned))
                .map_err(|error| wrong(&error))?;
            let signed = signed.signed_by(&secret);
            signed.judge(&[secret.public_key()], &Ed25519).map_err(|error| wrong(&error))?;
            signed.to_bytes()
        }
        Kind::Policy => read(policy)?.signed_by(&secret).to_bytes(),
    };
    print(&String::from_utf8_lossy(&signed))
}

/// The kinds of documents that can be signed.
enum Kind {
    Policy,
    Correction,
    Payees,
}

/// What a document is, by its format; a policy if it does not say.
fn kind(bytes: &[u8]) -> Kind {
    let Ok(Json::Map(fields)) = Json::read(bytes) else { return Kind::Policy };
    match fields.get("format") {
        Some(Json::Text(format))
            if [Correction::FORMAT, SignedCorrection::FORMAT].contains(&format.as_ref()) =>
        {
            Kind::Correction
        }
        Some(Json::Text(format)) if [Payees::FORMAT, SignedPayees::FORMAT].contains(&format.as_ref()) => {
            Kind::Payees
        }
        _ => Kind::Policy,
    }
}

/// The secret key in a file.
pub(super) fn secret_key(path: &Path) -> Result<SecretKey, Failure> {
    let text = files::read_private_or_pipe(path, MAX_BYTES).map_err(Failure::failed)?;
    let secret = str::from_utf8(&text).ok().and_then(|text| SecretKey::from_text(text).ok());
    secret.ok_or_else(|| {
        Failure::failed(format!("{} holds no secret key", path.display()))
            .help("`omnigate policy keygen` makes one")
    })
}

fn check(path: &Path, keys: &[PublicKey], epoch: Option<Epoch>) -> Result<ExitCode, Failure> {
    let bytes = files::read_public_or_pipe(path, MAX_BYTES).map_err(Failure::failed)?;
    let judged = SignedPolicy::read(&bytes).and_then(|signed| {
        let policy = signed.judge(keys, &Ed25519)?.clone();
        if let Some(epoch) = epoch {
            policy.applies_to(epoch)?;
        }
        Ok(policy)
    });
    match judged {
        Ok(policy) => {
            let (terms, hash) = (policy.terms(), policy.hash());
            print(&format!("good: {} version {}, {hash}\n", terms.id, terms.version.get()))?;
            Ok(ExitCode::Clean)
        }
        Err(error) => {
            print(&format!("refused: {}: {error}\n", error.code()))?;
            Ok(ExitCode::Failed)
        }
    }
}

fn show(path: &Path, json: bool) -> Result<(), Failure> {
    let signed = read(path)?;
    let policy = signed.policy();
    if json {
        return print(&format!("{}\n", String::from_utf8_lossy(&policy.to_bytes())));
    }
    let terms = policy.terms();
    let residual = match &terms.residual {
        Residual::Keep => "stays in the pool".to_owned(),
        Residual::Pay(to) => format!("goes to {to}"),
    };
    let last = terms.last_epoch.map_or_else(|| "on".to_owned(), |last| format!("to {last}"));
    let mut out =
        format!("policy {} version {}, ruleset {}\n", terms.id, terms.version.get(), terms.ruleset.number());
    for (name, value) in [
        ("epochs", format!("{} {last}", terms.first_epoch)),
        ("pool", terms.pool.to_string()),
        ("cap", format!("{} ({} ppm of the pool)", policy.cap(), terms.cap_ppm)),
        ("minimum", terms.min_payout.to_string()),
        ("residual", residual),
        ("hash", policy.hash().to_string()),
    ] {
        out += &format!("  {name:<9} {value}\n");
    }
    for (metric, weight) in &terms.weights_ppm {
        out += &format!("  {weight} ppm for a unit of {metric}\n");
    }
    for key in signed.keys() {
        out += &format!("  says it is signed by {key} (not checked)\n");
    }
    print(&out)
}

/// A policy as a person wrote it, or signed already.
fn read(path: &Path) -> Result<SignedPolicy, Failure> {
    let bytes = files::read_public_or_pipe(path, MAX_BYTES).map_err(Failure::failed)?;
    // A signed policy is canonical; whatever else it is, the terms alone say best what is wrong with them.
    let signed = SignedPolicy::read(&bytes).or_else(|_| Policy::read(&bytes).map(SignedPolicy::unsigned));
    signed.map_err(|error| Failure::failed(format!("{}: {error}", path.display())))
}
