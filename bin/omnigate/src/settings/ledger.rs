//! The `[ledger]` table.

use std::path::{Path, PathBuf};

use ron_kernel::config::{Checks, Problems, Secret, Table};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The file in the node's data, unless another is named.
const DEFAULT_FILE: &str = "ledger.db";

/// Where money is booked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LedgerConfig {
    /// `sqlite:./data/ledger.db` for a file, `postgres://user@host/database` for a server that nodes share (epochs are
    /// then kept there as well), `memory:` for a ledger that ends with the process. Empty for `ledger.db` in
    /// `node.data_dir`; with `node.amnesia` one of the others must be named.
    pub(crate) url: Secret,
}

/// A place for a ledger.
#[derive(Clone, PartialEq, Eq)]
pub(crate) enum LedgerPlace {
    /// A file.
    File(PathBuf),
    /// A server; the address may hold a password.
    Postgres(String),
    /// Nowhere: it ends with the process.
    Memory,
}

impl Table for LedgerConfig {
    const NAME: &'static str = "ledger";
    const RESTART: &'static [&'static str] = &["url"];

    fn check(&self, _: &Checks, problems: &mut Problems) {
        if !self.url.is_empty() && self.read(Path::new("")).is_none() {
            problems
                .at("url", "names no ledger")
                .help("write \"sqlite:./data/ledger.db\", \"postgres://user@host/database\" or \"memory:\"");
        }
    }
}

impl LedgerConfig {
    /// Where the ledger of a node is; the error says what to write instead.
    pub(crate) fn place(&self, data_dir: &Path, amnesia: bool) -> Result<LedgerPlace, String> {
        match self.read(data_dir) {
            Some(LedgerPlace::File(_)) if amnesia => Err("ledger.url: a node with `node.amnesia` writes no file: name a \
                                                          server (postgres://…), or `memory:` to say that the ledger may \
                                                          end with the process"
                .to_owned()),
            Some(place) => Ok(place),
            None => Err("ledger.url names no ledger".to_owned()),
        }
    }

    fn read(&self, data_dir: &Path) -> Option<LedgerPlace> {
        let url = self.url.expose();
        if url.is_empty() {
            return Some(LedgerPlace::File(data_dir.join(DEFAULT_FILE)));
        }
        if url == "memory:" {
            return Some(LedgerPlace::Memory);
        }
        if url.starts_with("postgres://") || url.starts_with("postgresql://") {
            return Some(LedgerPlace::Postgres(url.to_owned()));
        }
        url.strip_prefix("sqlite:").filter(|path| !path.is_empty()).map(|path| LedgerPlace::File(path.into()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(url: &str, amnesia: bool) -> Option<LedgerPlace> {
        LedgerConfig { url: Secret::new(url) }.place(Path::new("data"), amnesia).ok()
    }

    #[test]
    fn an_address_says_where_the_ledger_is() {
        assert!(place("", false) == Some(LedgerPlace::File("data/ledger.db".into())));
        assert!(place("sqlite:./x.db", false) == Some(LedgerPlace::File("./x.db".into())));
        assert!(place("memory:", true) == Some(LedgerPlace::Memory));
        assert!(place("postgres://a@b/c", true) == Some(LedgerPlace::Postgres("postgres://a@b/c".to_owned())));
    }

    #[test]
    fn what_is_no_ledger_and_what_a_forgetful_node_may_not_have_is_refused() {
        for url in ["mysql://x", "sqlite:", "./x.db", "memory"] {
            assert!(place(url, false).is_none(), "{url}");
        }
        assert!(place("", true).is_none());
        assert!(place("sqlite:./x.db", true).is_none());
    }
}
