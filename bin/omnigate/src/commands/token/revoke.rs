//! `omnigate token revoke`.

#![expect(
    clippy::disallowed_methods,
    reason = "a command that writes a file and ends; no runtime is running"
)]

use std::{
    fs::OpenOptions,
    io::{self, Read, Seek, SeekFrom, Write},
    path::Path,
};

use captoken::{RevocationList, Token, TokenId};
use ron_transport::files::FileError;
use svc_gateway::{AuthError, load_revoked};

use super::{
    args::{AuditArgs, TokenArg},
    trail,
};
use crate::{commands::print, failure::Failure};

/// Adds the id of a token, given whole or by its id, to the list.
pub(super) fn run(token: &TokenArg, file: &Path, audit: &AuditArgs) -> Result<(), Failure> {
    let id = id_of(&token.text()?)?;
    let shown = file.display();
    // Read whole first: a list with a mistake in it, or a full one, would be refused by every node.
    let list = match load_revoked(file) {
        Ok(list) => list,
        Err(AuthError::File(FileError::Missing { .. })) => RevocationList::default(),
        Err(error) => return Err(Failure::failed(error)),
    };
    if list.contains(id) {
        return print(&format!("{id} was revoked in {shown} already\n"));
    }
    if list.len() == RevocationList::MAX_IDS {
        return Err(Failure::failed(format!("{shown} is full: it has {} ids", RevocationList::MAX_IDS))
            .help("drop the ids of tokens that have expired"));
    }
    append(file, id).map_err(|error| Failure::failed(format!("cannot write {shown}: {error}")))?;
    let about = [("token", id.to_string()), ("list", shown.to_string())];
    trail::note(audit.audit_log.as_deref(), "token revoke", &about)?;
    print(&format!("revoked {id} in {shown}\n"))
}

fn id_of(text: &str) -> Result<TokenId, Failure> {
    if let Ok(id) = text.parse() {
        return Ok(id);
    }
    let token = Token::parse(text.as_bytes()).map_err(|error| {
        Failure::failed(error).help("give a token, or its id as `omnigate token inspect` shows it")
    })?;
    Ok(token.id())
}

fn append(path: &Path, id: TokenId) -> io::Result<()> {
    let mut file = OpenOptions::new().read(true).append(true).create(true).open(path)?;
    // An editor may have left the last line open.
    let mut last = [b'\n'];
    if file.metadata()?.len() > 0 {
        file.seek(SeekFrom::End(-1))?;
        file.read_exact(&mut last)?;
    }
    let before = if last == *b"\n" { "" } else { "\n" };
    // In one piece, so that two commands at once cannot mix their lines.
    file.write_all(format!("{before}{id}\n").as_bytes())?;
    file.sync_all()
}
