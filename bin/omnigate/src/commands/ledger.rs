//! `omnigate ledger`: balances, checks, exports, transfers, checkpoints, backups.

mod args;
mod holds;
mod import;
mod show;
mod write;

use ron_kernel::ExitCode;
use ron_ledger::{Ledger, LedgerError, Place, Scrutiny};

use crate::{
    config_file::ConfigSource,
    failure::Failure,
    settings::{LedgerConfig, NodeConfig},
};

pub(crate) use args::LedgerCommand;

/// Runs the command.
pub(super) fn run(command: LedgerCommand) -> Result<ExitCode, Failure> {
    let done = match command {
        LedgerCommand::Balances { ledger, json } => show::balances(&*ledger.open(&Scrutiny::Nothing)?, json),
        LedgerCommand::Verify { ledger, kept, json } => show::verify(&ledger, kept.as_deref(), json),
        LedgerCommand::Export { ledger, format, output } => {
            show::export(&*ledger.open(&Scrutiny::Nothing)?, format, output.as_deref())
        }
        LedgerCommand::Open { ledger, account } => write::open(&ledger, &account),
        LedgerCommand::Transfer { ledger, transfer } => write::transfer(&ledger, &transfer),
        LedgerCommand::Hold { ledger, transfer } => holds::hold(&ledger, &transfer),
        LedgerCommand::Holds { ledger, json } => holds::list(&ledger, json),
        LedgerCommand::Settle { ledger, close } => holds::close(&ledger, &close, true),
        LedgerCommand::Void { ledger, close } => holds::close(&ledger, &close, false),
        LedgerCommand::Import { ledger, import } => {
            let all = import::import(&ledger, &import)?;
            return Ok(if all { ExitCode::Clean } else { ExitCode::Failed });
        }
        LedgerCommand::Checkpoint { ledger, key, json } => write::checkpoint(&ledger, &key, json),
        LedgerCommand::Backup { ledger, file, json } => write::backup(&ledger, &file, json),
        LedgerCommand::Restore { ledger, file, json } => write::restore(&ledger, &file, json),
    };
    done.map(|()| ExitCode::Clean)
}

impl args::LedgerArgs {
    /// Where it is: as said on the command line, else as in the configuration.
    fn place(&self) -> Result<(Place, LedgerConfig), Failure> {
        let snapshot = ConfigSource::resolve(self.config.clone(), Vec::new())?.load()?;
        let (config, node) = (snapshot.get::<LedgerConfig>(), snapshot.get::<NodeConfig>());
        let place = match &self.url {
            Some(url) => url.expose().parse().map_err(Failure::bad_config)?,
            None => config.place(&node.data_dir, node.amnesia),
        };
        if place.is_clear_to_another_machine() && !node.danger_ok {
            return Err(Failure::bad_config("this would send data to another machine without TLS").help(
                "leave sslmode out, or write sslmode=verify-full&sslrootcert=<file>; node.danger_ok = true allows it",
            ));
        }
        if !place.is_durable() {
            return Err(
                Failure::bad_config("the ledger is in the memory of the node").help("name one with --url")
            );
        }
        Ok((place, (*config).clone()))
    }

    /// How much of it is checked before anything is posted: as the configuration says, or everything.
    fn scrutiny(&self) -> Result<Scrutiny, Failure> {
        Ok(self.place()?.1.scrutiny())
    }

    /// The ledger that is there. A file that is not is not made.
    fn open(&self, scrutiny: &Scrutiny) -> Result<Box<dyn Ledger>, Failure> {
        let (place, _) = self.place()?;
        if let Place::File(path) = &place
            && !path.is_file()
        {
            let message = format!("there is no ledger {}", path.display());
            return Err(
                Failure::failed(message).help("name it with --url, or make one with `omnigate ledger open`")
            );
        }
        place.open(scrutiny).map_err(failure)
    }

    /// The ledger that is there, or a new one.
    fn make(&self, scrutiny: &Scrutiny) -> Result<Box<dyn Ledger>, Failure> {
        let (place, _) = self.place()?;
        if let Place::File(path) = &place {
            make_folder(path)?;
        }
        place.open(scrutiny).map_err(failure)
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "a command that makes a folder and ends; no runtime is running"
)]
fn make_folder(file: &std::path::Path) -> Result<(), Failure> {
    let Some(folder) = file.parent() else { return Ok(()) };
    let failed = |error| Failure::failed(format!("cannot create {}: {error}", folder.display()));
    std::fs::create_dir_all(folder).map_err(failed)
}

/// Returns the error message for a ledger's refusal.
fn failure(error: LedgerError) -> Failure {
    let remedy = match &error {
        LedgerError::Damaged(_) => Some("restore a backup with `omnigate ledger restore`"),
        LedgerError::Timeout { .. } | LedgerError::Unavailable(_) => {
            Some("whether it was posted is not known: send it again with the same --key")
        }
        LedgerError::Busy => Some("try again"),
        _ => None,
    };
    let failure = Failure::failed(error);
    match remedy {
        Some(remedy) => failure.help(remedy),
        None => failure,
    }
}
