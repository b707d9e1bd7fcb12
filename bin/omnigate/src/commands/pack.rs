//! `omnigate pack`: check packs of map tiles, look into them, and make one to look at.

mod args;
mod inspect;
mod make;
mod mounting;
mod show;
mod verify;
mod world;

use ron_kernel::ExitCode;

use crate::failure::Failure;

pub(crate) use args::PackCommand;
pub(crate) use make::make_demo_pack;

/// Runs the command.
pub(super) fn run(command: PackCommand) -> Result<ExitCode, Failure> {
    match command {
        PackCommand::Verify(args) => verify::run(&args),
        PackCommand::Inspect(args) => inspect::run(&args).map(|()| ExitCode::Clean),
        PackCommand::Make(args) => make::run(&args).map(|()| ExitCode::Clean),
    }
}
