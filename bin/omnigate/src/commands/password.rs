//! `omnigate password`: a line for a file of users.

use std::io::{self, IsTerminal as _, Read as _, Write as _};

use rustix::termios::{self, LocalModes, OptionalActions, SpecialCodeIndex};
use zeroize::Zeroizing;

use crate::failure::Failure;

/// Longest password, in bytes: `Authorization` has room for it.
const MAX_PASSWORD: u64 = 1024;

/// What Ctrl-C sends where it raises no signal.
const INTERRUPT: u8 = 3;

/// Reads a password and prints the user's line with its hash.
pub(super) fn run(user: &str) -> Result<(), Failure> {
    if user.is_empty() || user.len() > 256 || user.contains(':') || user.chars().any(char::is_control) {
        return Err(Failure::bad_config(
            "a name has 1 to 256 bytes, without `:` and control characters".to_owned(),
        ));
    }
    let password = read()?;
    if password.contains('\0') {
        return Err(Failure::bad_config("the password has a NUL, which no client can send".to_owned()));
    }
    if password.is_empty() {
        return Err(Failure::bad_config("the password is empty".to_owned()));
    }
    let hash = svc_gateway::hash_password(password.as_bytes())
        .ok_or_else(|| Failure::failed("the system's random number source failed".to_owned()))?;
    super::print(&format!("{user}:{hash}\n"))
}

/// The first line of standard input. A terminal does not show it.
fn read() -> Result<Zeroizing<String>, Failure> {
    let failed = |error: io::Error| Failure::failed(format!("cannot read the password: {error}"));
    let stdin = io::stdin();
    let _hidden = if stdin.is_terminal() {
        // Not to standard output, which may be a file of users.
        let _ = write!(io::stderr(), "Password: ");
        Some(Hidden::new().map_err(|error| failed(error.into()))?)
    } else {
        None
    };
    // Enough from the start: a text that grows leaves copies of the password behind.
    let mut text = Zeroizing::new(String::with_capacity(2048));
    let mut byte = [0];
    let mut bytes = Zeroizing::new(Vec::with_capacity(2048));
    let mut input = stdin.lock().take(MAX_PASSWORD + 2);
    while input.read(&mut byte).map_err(failed)? > 0 && byte[0] != b'\n' {
        if byte[0] == INTERRUPT {
            return Err(Failure::failed("interrupted".to_owned()));
        }
        bytes.push(byte[0]);
    }
    if bytes.last() == Some(&b'\r') {
        bytes.pop();
    }
    if bytes.len() as u64 > MAX_PASSWORD {
        return Err(Failure::bad_config(format!("the password has more than {MAX_PASSWORD} bytes")));
    }
    let line = str::from_utf8(&bytes);
    text.push_str(line.map_err(|_| Failure::bad_config("the password is not UTF-8".to_owned()))?);
    Ok(text)
}

/// A terminal that does not show what is typed, until this is dropped.
struct Hidden(termios::Termios);

impl Hidden {
    fn new() -> rustix::io::Result<Self> {
        let shown = termios::tcgetattr(io::stdin())?;
        let mut hidden = shown.clone();
        // Ctrl-C ends the line instead of the process, which would leave a terminal that shows nothing.
        hidden.local_modes.remove(LocalModes::ECHO | LocalModes::ISIG);
        hidden.special_codes[SpecialCodeIndex::VEOL] = INTERRUPT;
        hidden.local_modes.insert(LocalModes::ECHONL);
        termios::tcsetattr(io::stdin(), OptionalActions::Flush, &hidden)?;
        Ok(Self(shown))
    }
}

impl Drop for Hidden {
    fn drop(&mut self) {
        let _ = termios::tcsetattr(io::stdin(), OptionalActions::Flush, &self.0);
    }
}
