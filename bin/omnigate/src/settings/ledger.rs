//! The `[ledger]` table.

use std::path::Path;

use ron_kernel::config::{Checks, Problems, Secret, Table};
use ron_ledger::Scrutiny;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

<<<<<<< HEAD
pub(crate) use ron_ledger::Place as LedgerPlace;

/// The file in the node's data, unless another is named.
const DEFAULT_FILE: &str = "ledger.db";
=======
/// The file in `node.data_dir` that is the ledger unless another place is named.
const FILE: &str = "ledger.db";
>>>>>>> main
/// More signers than anybody rotates through.
const MAX_KEYS: usize = 64;

/// Where money is booked.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LedgerConfig {
<<<<<<< HEAD
    /// `sqlite:./data/ledger.db` for a file, `postgres://user@host/database` for a server that nodes share (epochs are
    /// then kept there as well), `memory:` for a ledger that ends with the process. Empty for `ledger.db` in
    /// `node.data_dir`; with `node.amnesia` one of the others must be named.
    pub(crate) url: Secret,
=======
    /// Where the ledger is: `sqlite:./data/ledger.db`, `memory:` for one that ends with the process, or
    /// `postgres://user:password@host/database` for one that nodes share (epochs are then kept there as well). Unset, the
    /// file `ledger.db` in `node.data_dir`; with `node.amnesia` one of the others must be named.
    pub(crate) url: Option<Secret>,
>>>>>>> main
    /// How much is checked when the ledger is opened: everything, or what follows the last checkpoint signed by one of
    /// `trusted_keys`.
    pub(crate) verify: VerifyAtOpen,
    /// Whose checkpoints are believed: Ed25519 public keys of 64 hexadecimal digits; 64 keys at most.
    pub(crate) trusted_keys: Vec<String>,
}

/// How much of a ledger is checked when it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VerifyAtOpen {
    /// Every row.
    #[default]
    Everything,
    /// What follows the last trusted checkpoint.
    SinceCheckpoint,
}

impl Table for LedgerConfig {
    const NAME: &'static str = "ledger";
    const RESTART: &'static [&'static str] = &["url", "verify", "trusted_keys"];

    fn check(&self, _: &Checks, problems: &mut Problems) {
        if !self.url.is_empty() && self.read(Path::new("")).is_none() {
            problems
                .at("url", "names no ledger")
                .help("write \"sqlite:./data/ledger.db\", \"postgres://user@host/database\" or \"memory:\"");
        }
        let wrong = self.trusted_keys.iter().any(|key| public_key(key).is_none());
        if wrong || self.trusted_keys.len() > MAX_KEYS {
            let message = format!("has up to {MAX_KEYS} keys of 64 hexadecimal digits");
            problems
                .at("trusted_keys", message)
                .help("`omnigate ledger checkpoint` prints the key it signs with");
        }
    }
}

impl LedgerConfig {
<<<<<<< HEAD
    /// Where the ledger of a node is; the error says what to write instead.
    pub(crate) fn place(&self, data_dir: &Path, amnesia: bool) -> Result<LedgerPlace, String> {
        match self.read(data_dir) {
            Some(LedgerPlace::File(_)) if amnesia => {
                Err("ledger.url: a node with `node.amnesia` writes no file: name a server (postgres://…), or `memory:` \
                     to say that the ledger may end with the process"
                    .to_owned())
            }
            Some(place) => Ok(place),
            None => Err("ledger.url names no ledger".to_owned()),
        }
=======
    /// Where the ledger is, for a node that keeps its things in `data_dir`.
    pub(crate) fn place(&self, data_dir: &Path, amnesia: bool) -> Place {
        let named = self.url.as_ref().and_then(|url| url.expose().parse().ok());
        named.unwrap_or_else(|| if amnesia { Place::Memory } else { Place::File(data_dir.join(FILE)) })
>>>>>>> main
    }

    /// Where the ledger of a running node is; the error says what to write instead.
    pub(crate) fn place_of_node(&self, data_dir: &Path, amnesia: bool) -> Result<Place, String> {
        let place = self.place(data_dir, amnesia);
        if amnesia && (self.url.is_none() || matches!(place, Place::File(_))) {
            return Err(
                "ledger.url: a node with `node.amnesia` writes no file: name a server (postgres://…), or \
                        `memory:` to say that the ledger may end with the process"
                    .to_owned(),
            );
        }
        Ok(place)
    }

    /// What is checked when it is opened.
    pub(crate) fn scrutiny(&self) -> Scrutiny {
        match self.verify {
            VerifyAtOpen::Everything => Scrutiny::Everything,
            VerifyAtOpen::SinceCheckpoint => Scrutiny::SinceCheckpoint(self.trusted()),
        }
    }

    /// Whose checkpoints are believed.
    pub(crate) fn trusted(&self) -> Vec<[u8; 32]> {
        self.trusted_keys.iter().filter_map(|key| public_key(key)).collect()
    }

    fn read(&self, data_dir: &Path) -> Option<LedgerPlace> {
        match self.url.expose() {
            "" => Some(LedgerPlace::File(data_dir.join(DEFAULT_FILE))),
            url => url.parse().ok(),
        }
    }
}

fn public_key(text: &str) -> Option<[u8; 32]> {
    if text.len() != 64 || !text.bytes().all(|digit| digit.is_ascii_hexdigit()) {
        return None;
    }
    let mut key = [0; 32];
    for (byte, pair) in key.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = std::str::from_utf8(pair).ok().and_then(|pair| u8::from_str_radix(pair, 16).ok())?;
    }
    Some(key)
}

#[cfg(test)]
mod tests {
    use super::*;

<<<<<<< HEAD
    fn place(url: &str, amnesia: bool) -> Option<LedgerPlace> {
        let config = LedgerConfig { url: Secret::new(url), ..LedgerConfig::default() };
        config.place(Path::new("data"), amnesia).ok()
    }

    #[test]
    fn an_address_says_where_the_ledger_is() {
        assert_eq!(place("", false), Some(LedgerPlace::File("data/ledger.db".into())));
        assert_eq!(place("sqlite:./x.db", false), Some(LedgerPlace::File("./x.db".into())));
        assert_eq!(place("memory:", true), Some(LedgerPlace::Memory));
        assert_eq!(
            place("postgres://a@b/c", true),
            Some(LedgerPlace::Postgres("postgres://a@b/c".to_owned()))
        );
    }

    #[test]
    fn what_is_no_ledger_and_what_a_forgetful_node_may_not_have_is_refused() {
        for url in ["mysql://x", "sqlite:", "./x.db", "memory"] {
            assert_eq!(place(url, false), None, "{url}");
        }
        assert_eq!(place("", true), None);
        assert_eq!(place("sqlite:./x.db", true), None);
    }

=======
>>>>>>> main
    #[test]
    fn a_public_key_is_64_hexadecimal_digits() {
        assert_eq!(public_key(&"0f".repeat(32)), Some([15; 32]));
        for wrong in ["", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(public_key(wrong), None, "{wrong}");
        }
    }
<<<<<<< HEAD
=======

    #[test]
    fn a_ledger_is_in_the_data_folder_unless_the_node_forgets_or_another_place_is_named() {
        let mut config = LedgerConfig::default();
        assert_eq!(config.place(Path::new("d"), false), Place::File("d/ledger.db".into()));
        assert_eq!(config.place(Path::new("d"), true), Place::Memory);
        assert!(config.place_of_node(Path::new("d"), true).is_err(), "that it may end must be said");
        config.url = Some(Secret::new("memory:"));
        assert_eq!(config.place_of_node(Path::new("d"), true), Ok(Place::Memory));
        config.url = Some(Secret::new("sqlite:other.db"));
        assert!(config.place_of_node(Path::new("d"), true).is_err());
        assert_eq!(config.place(Path::new("d"), true), Place::File("other.db".into()));
    }
>>>>>>> main
}
