//! The `[ledger]` table.

use std::path::Path;

use ron_kernel::config::{Checks, Problems, Secret, Table};
use ron_ledger::{Place, Scrutiny};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The file in `node.data_dir` that is the ledger unless another place is named.
const FILE: &str = "ledger.db";
/// More signers than anybody rotates through.
const MAX_KEYS: usize = 64;

/// The double-entry ledger.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct LedgerConfig {
    /// The database of the ledger: `sqlite:./data/ledger.db`, `memory:` for one that is lost when the process ends,
    /// or `postgres://user:password@host/database` for one that nodes share (epochs are then stored there too).
    /// `sslmode` and `sslrootcert` work as in PostgreSQL's own programs; without `sslmode`, TLS is required to other
    /// machines. If unset, it is the file `ledger.db` in `node.data_dir`; with `node.amnesia`, one of the others must
    /// be set.
    #[schemars(extend("x-path" = ["sqlite:"]))]
    pub(crate) url: Option<Secret>,
    /// What is verified when the ledger is opened: everything, or what follows the last checkpoint signed by one of
    /// `trusted_keys`.
    pub(crate) verify: VerifyAtOpen,
    /// Public keys whose checkpoints are trusted: Ed25519, 64 hexadecimal digits each.
    pub(crate) trusted_keys: Vec<String>,
}

/// How much of a ledger is checked when it is opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum VerifyAtOpen {
    /// Every row is verified.
    #[default]
    Everything,
    /// What follows the last trusted checkpoint.
    SinceCheckpoint,
}

impl Table for LedgerConfig {
    const NAME: &'static str = "ledger";
    const RESTART: &'static [&'static str] = &["url", "verify", "trusted_keys"];

    fn check(&self, checks: &Checks, problems: &mut Problems) {
        match self.url.as_ref().map(|url| url.expose().parse::<Place>()) {
            Some(Err(what)) => {
                problems.at("url", what.to_string()).help("write \"sqlite:./data/ledger.db\"");
            }
            Some(Ok(place)) if !checks.danger_ok() && place.is_clear_to_another_machine() => {
                problems
                    .at("url", "money would be booked over a network in the clear")
                    .help("leave sslmode out, or write sslmode=verify-full&sslrootcert=<file>; node.danger_ok = true allows it");
            }
            _ => {}
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
    /// Where the ledger is, for a node that keeps its things in `data_dir`.
    pub(crate) fn place(&self, data_dir: &Path, amnesia: bool) -> Place {
        let named = self.url.as_ref().and_then(|url| url.expose().parse().ok());
        named.unwrap_or_else(|| if amnesia { Place::Memory } else { Place::File(data_dir.join(FILE)) })
    }

    /// Where the ledger of a running node is; the error says what to write instead.
    pub(crate) fn place_of_node(&self, data_dir: &Path, amnesia: bool) -> Result<Place, String> {
        let place = self.place(data_dir, amnesia);
        if matches!(place, Place::Server(_)) && !ron_ledger::POSTGRES_AVAILABLE {
            return Err("ledger.url: this program was built without PostgreSQL; packages have it, and a build of yours \
                        with `--features postgres`"
                .to_owned());
        }
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

    /// Returns the keys whose checkpoints are trusted.
    pub(crate) fn trusted(&self) -> Vec<[u8; 32]> {
        self.trusted_keys.iter().filter_map(|key| public_key(key)).collect()
    }
}

fn public_key(text: &str) -> Option<[u8; 32]> {
    let digits = text.as_bytes();
    if digits.len() != 64 || !digits.iter().all(u8::is_ascii_hexdigit) {
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

    #[test]
    fn a_public_key_is_64_hexadecimal_digits() {
        assert_eq!(public_key(&"0f".repeat(32)), Some([15; 32]));
        for wrong in ["", &"0".repeat(63), &"0".repeat(65), &"g".repeat(64), &"é".repeat(32)] {
            assert_eq!(public_key(wrong), None, "{wrong}");
        }
    }

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
}
