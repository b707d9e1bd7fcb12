//! `omnigate pack verify`: whether packs would be mounted.

use std::path::Path;

use packs::{MountError, MountOptions, PackInfo, PublicKey};
use ron_kernel::ExitCode;
use serde_json::{Value, json};

use super::{args::VerifyArgs, mounting::mount, show};
use crate::failure::Failure;

/// Checks all of them, and says of each what came of it.
pub(super) fn run(args: &VerifyArgs) -> Result<ExitCode, Failure> {
    if args.id.is_some() && args.files.len() > 1 {
        return Err(
            Failure::bad_config("--id is for one pack, and there are several").help("check them one by one")
        );
    }
    let signer = args.key.as_deref().map(public_key).transpose()?;
    let mut verdicts = Vec::new();
    for file in &args.files {
        let options = MountOptions { expect: args.id, signer, ..MountOptions::default() };
        // Only what is known of it: the next one may need the memory.
        let verdict = mount(file, options).map(|pack| pack.info().clone());
        if !args.json {
            super::super::print(&text(file, &verdict))?;
        }
        verdicts.push((file, verdict));
    }
    if args.json {
        let list = verdicts.iter().map(|(file, verdict)| in_json(file, verdict)).collect();
        super::super::print(&super::super::pretty(&Value::Array(list)))?;
    }
    let sound = verdicts.iter().all(|(_, verdict)| verdict.is_ok());
    Ok(if sound { ExitCode::Clean } else { ExitCode::Failed })
}

fn text(file: &Path, verdict: &Result<PackInfo, MountError>) -> String {
    let file = file.display();
    match verdict {
        Ok(info) => {
            let notes: String = info.notes.iter().map(|note| format!("  note: {note}\n")).collect();
            format!("{file}: sound: {}\n{notes}", show::line(info))
        }
        Err(error) => format!("{file}: refused: {error}\n"),
    }
}

fn in_json(file: &Path, verdict: &Result<PackInfo, MountError>) -> Value {
    match verdict {
        Ok(info) => {
            let mut shown = show::json(info);
            shown["sound"] = true.into();
            shown
        }
        Err(error) => {
            json!({ "path": file.display().to_string(), "sound": false, "reason": error.to_string() })
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a command that reads a file and ends; no runtime is running")]
fn public_key(path: &Path) -> Result<PublicKey, Failure> {
    let shown = path.display();
    let pem =
        std::fs::read(path).map_err(|error| Failure::failed(format!("{shown} cannot be read: {error}")))?;
    PublicKey::from_pem(&pem).map_err(|error| Failure::bad_config(format!("{shown}: {error}")))
}
