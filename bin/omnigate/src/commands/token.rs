//! `omnigate token`: make, tighten, look at, judge and revoke capability tokens.

mod args;
mod make;
mod revoke;
mod show;
mod trail;

use std::{
    io::{self, Read},
    time::{Duration, SystemTime},
};

use captoken::{MAX_TEXT, Token};
use ron_kernel::ExitCode;
use zeroize::Zeroizing;

use crate::failure::Failure;

use args::TokenArg;
pub(crate) use args::TokenCommand;

/// Runs the command.
pub(super) fn run(command: TokenCommand) -> Result<ExitCode, Failure> {
    let done = match command {
        TokenCommand::Keygen { path, audit } => make::keygen(&path, &audit),
        TokenCommand::Mint(args) => make::mint(&args),
        TokenCommand::Attenuate(args) => make::attenuate(&args),
        TokenCommand::Inspect { token, json } => show::inspect(&token, json),
        TokenCommand::Verify(args) => return show::verify(&args),
        TokenCommand::Revoke { token, file, audit } => revoke::run(&token, &file, &audit),
    };
    done.map(|()| ExitCode::Clean)
}

impl TokenArg {
    /// The text as given, or as read from standard input.
    fn text(&self) -> Result<Zeroizing<String>, Failure> {
        let mut text = Zeroizing::new(String::with_capacity(2 * MAX_TEXT));
        match self.token.as_ref().map(|token| token.expose()) {
            None | Some("-") => {
                // More than any token has, so that one that is too long is told so and not cut.
                let read = io::stdin().lock().take(2 * MAX_TEXT as u64 - 1).read_to_string(&mut text);
                read.map_err(|error| {
                    Failure::failed(format!("cannot read a token from standard input: {error}"))
                })?;
            }
            Some(given) => text.push_str(given),
        }
        let text = Zeroizing::new(text.trim().to_owned());
        if text.is_empty() {
            return Err(Failure::bad_config("there is no token")
                .help("give it as an argument, or on standard input: `omnigate token inspect < token.txt`"));
        }
        Ok(text)
    }

    fn parse(&self) -> Result<Token, Failure> {
        Token::parse(self.text()?.as_bytes()).map_err(Failure::failed)
    }
}

/// Unix time in seconds.
#[expect(clippy::disallowed_methods, reason = "a command that asks once and ends; no runtime is running")]
pub(super) fn now() -> Result<u64, Failure> {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since
        .map(|since| since.as_secs())
        .map_err(|_| Failure::failed("this machine's clock is before 1970").help("set it"))
}

/// A moment for people: the second of Unix time, and the date where a calendar has it.
fn moment(seconds: u64) -> String {
    /// The end of the year 9999.
    const LAST: u64 = 253_402_300_799;
    if seconds > LAST {
        return seconds.to_string();
    }
    let at = SystemTime::UNIX_EPOCH + Duration::from_secs(seconds);
    format!("{seconds} ({})", humantime::format_rfc3339_seconds(at))
}
