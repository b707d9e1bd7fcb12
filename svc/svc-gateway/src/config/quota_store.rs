//! `quotas.store`: where the limits are counted that gateways share.

use std::str::FromStr;

use ron_kernel::config::{Problems, Secret};
use ron_transport::addr::{Endpoint, Host, Scheme, Target};

/// The port of a Redis server whose address names none.
const DEFAULT_PORT: u16 = 6379;
/// The most databases that a server is configured with in practice.
const MAX_DATABASE: u16 = 1023;
/// The longest user name or password.
const MAX_CREDENTIAL: usize = 1024;

/// A Redis or Valkey server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct QuotaStore {
    /// The address; its scheme says whether it is spoken to over TLS.
    pub(crate) endpoint: Endpoint,
    /// The user of the server's access control list; empty for the default one.
    pub(crate) user: String,
    /// The password; empty if the server wants none.
    pub(crate) password: Secret,
    /// The number of the database.
    pub(crate) database: u16,
}

/// Why a text names no store. No variant repeats the text, which may hold a password.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QuotaStoreError {
    /// The text has none of the known forms.
    #[error("write local, redis://host:6379 or rediss://user:password@host:6379/0")]
    Form,
    /// What follows the address is no number of a database.
    #[error("a database is a number from 0 to {MAX_DATABASE} after the address: redis://host:6379/0")]
    Database,
    /// The host or the port cannot be dialled.
    #[error("the host or the port cannot be dialled")]
    Host,
    /// The user name or the password cannot be read.
    #[error(
        "the user name or the password is too long, or has a `%` that two hexadecimal digits do not follow"
    )]
    Credential,
}

impl QuotaStore {
    /// The address without user and password, as it is shown.
    #[cfg(any(feature = "redis", test))]
    pub(crate) fn shown(&self) -> String {
        let scheme = if self.endpoint.scheme() == Scheme::Https { "rediss" } else { "redis" };
        match self.endpoint.target() {
            Target::Tcp { host, port } => format!("{scheme}://{host}:{port}"),
            Target::Unix(path) => format!("{scheme}+unix:{}", path.display()),
        }
    }

    /// Whether a password would be sent over a network in the clear.
    pub(crate) fn exposes_password(&self) -> bool {
        let is_local = match self.endpoint.target() {
            Target::Unix(_) => true,
            Target::Tcp { host: Host::Ip(ip), .. } => ip.is_loopback(),
            Target::Tcp { host: Host::Name(name), .. } => name == "localhost",
        };
        self.endpoint.scheme() == Scheme::Http && !is_local && !self.password.is_empty()
    }
}

/// The store that a setting names; `None` for `local` and for no setting.
pub(crate) fn named(setting: Option<&Secret>) -> Result<Option<QuotaStore>, QuotaStoreError> {
    match setting.map(Secret::expose) {
        None | Some("local") => Ok(None),
        Some(text) => text.parse().map(Some),
    }
}

/// Checks the setting.
pub(super) fn check(setting: Option<&Secret>, danger_ok: bool, problems: &mut Problems) {
    match named(setting) {
        Ok(None) => {}
        Ok(Some(_)) if !crate::fleet::REDIS_AVAILABLE => {
            problems
                .at("quotas.store", "this program was built without Redis")
                .help("packages have it, and a build of yours with `--features redis`; or write \"local\"");
        }
        Ok(Some(store)) if store.exposes_password() && !danger_ok => {
            problems
                .at("quotas.store", "its password would be sent over a network in the clear")
                .help("use rediss://; node.danger_ok = true allows it");
        }
        Ok(Some(_)) => {}
        Err(error) => {
            problems.at("quotas.store", error.to_string());
        }
    }
}

impl FromStr for QuotaStore {
    type Err = QuotaStoreError;

    fn from_str(text: &str) -> Result<Self, QuotaStoreError> {
        let (scheme, rest) = text.split_once("://").ok_or(QuotaStoreError::Form)?;
        let scheme = match scheme {
            "redis" => Scheme::Http,
            "rediss" => Scheme::Https,
            _ => return Err(QuotaStoreError::Form),
        };
        // A password may have a `/` or an `@` in it; a host has neither.
        let (credentials, place) = match rest.rsplit_once('@') {
            Some((credentials, place)) => (Some(credentials), place),
            None => (None, rest),
        };
        let (address, database) = place.split_once('/').unwrap_or((place, ""));
        if address.is_empty() || address.contains(['?', '#']) {
            return Err(QuotaStoreError::Form);
        }
        let (user, password) = credentials.map_or(Ok(Default::default()), read_credentials)?;
        let endpoint = read_address(scheme, address).ok_or(QuotaStoreError::Host)?;
        let database = read_database(database).ok_or(QuotaStoreError::Database)?;
        Ok(Self { endpoint, user, password: Secret::new(password), database })
    }
}

/// The user name and the password in `user:password`; without a colon it is a user name.
fn read_credentials(text: &str) -> Result<(String, String), QuotaStoreError> {
    let (user, password) = text.split_once(':').unwrap_or((text, ""));
    match (percent_decoded(user), percent_decoded(password)) {
        (Some(user), Some(password)) if user.len().max(password.len()) <= MAX_CREDENTIAL => {
            Ok((user, password))
        }
        _ => Err(QuotaStoreError::Credential),
    }
}

fn read_address(scheme: Scheme, text: &str) -> Option<Endpoint> {
    let has_port = text.rsplit_once(':').filter(|(_, port)| !port.contains(']'));
    let (host, port) = match has_port {
        Some((host, port)) => (host, read_number(port)?),
        None => (text, DEFAULT_PORT),
    };
    Endpoint::tcp(scheme, host.parse().ok()?, port).ok()
}

fn read_database(text: &str) -> Option<u16> {
    if text.is_empty() {
        return Some(0);
    }
    read_number(text).filter(|number| *number <= MAX_DATABASE)
}

/// `parse` alone would take a plus.
fn read_number(text: &str) -> Option<u16> {
    text.parse().ok().filter(|_| text.bytes().all(|byte| byte.is_ascii_digit()))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        rest = after;
        if *first != b'%' {
            bytes.push(*first);
            continue;
        }
        let (digits, after) = rest.split_at_checked(2)?;
        let digits = str::from_utf8(digits).ok().filter(|d| d.bytes().all(|d| d.is_ascii_hexdigit()))?;
        bytes.push(u8::from_str_radix(digits, 16).ok()?);
        rest = after;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<(String, String, String, u16), QuotaStoreError> {
        let store: QuotaStore = text.parse()?;
        Ok((store.shown(), store.user, store.password.expose().to_owned(), store.database))
    }

    #[test]
    fn an_address_has_a_host_and_may_have_a_port_a_user_a_password_and_a_database() {
        let table = [
            ("redis://db", ("redis://db:6379", "", "", 0)),
            ("redis://127.0.0.1:7000/3", ("redis://127.0.0.1:7000", "", "", 3)),
            ("redis://[::1]/", ("redis://[::1]:6379", "", "", 0)),
            ("redis://[::1]:7000", ("redis://[::1]:7000", "", "", 0)),
            ("rediss://:secret@db.example", ("rediss://db.example:6379", "", "secret", 0)),
            ("redis://gate:s%40c%2Fret@db:1/1023", ("redis://db:1", "gate", "s@c/ret", 1023)),
            ("redis://gate:a/b@c:d@db", ("redis://db:6379", "gate", "a/b@c:d", 0)),
            ("redis://gate@db", ("redis://db:6379", "gate", "", 0)),
        ];
        for (text, (shown, user, password, database)) in table {
            let expected = (shown.to_owned(), user.to_owned(), password.to_owned(), database);
            assert_eq!(read(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        let table = [
            ("", QuotaStoreError::Form),
            ("redis", QuotaStoreError::Form),
            ("http://db", QuotaStoreError::Form),
            ("redis://", QuotaStoreError::Form),
            ("redis://:secret@", QuotaStoreError::Form),
            ("redis://db?secret=1", QuotaStoreError::Form),
            ("redis://db/one", QuotaStoreError::Database),
            ("redis://db/1024", QuotaStoreError::Database),
            ("redis://db/+1", QuotaStoreError::Database),
            ("redis://db:0", QuotaStoreError::Host),
            ("redis://db:66000", QuotaStoreError::Host),
            ("redis://a b", QuotaStoreError::Host),
            ("redis://:sec%ret@db", QuotaStoreError::Credential),
            ("redis://:sec%f@db", QuotaStoreError::Credential),
        ];
        for (text, error) in table {
            assert_eq!(read(text), Err(error), "{text}");
            assert!(!error.to_string().contains("sec"), "{error}");
        }
    }

    #[test]
    fn no_setting_and_local_name_no_store() {
        assert_eq!(named(None), Ok(None));
        assert_eq!(named(Some(&Secret::new("local"))), Ok(None));
        assert!(named(Some(&Secret::new("redis://db"))).is_ok_and(|store| store.is_some()));
    }

    #[test]
    fn a_password_is_exposed_only_in_the_clear_to_another_machine() {
        let table = [
            ("redis://:p@db", true),
            ("redis://:p@10.0.0.1", true),
            ("redis://db", false),
            ("rediss://:p@db", false),
            ("redis://:p@127.0.0.1", false),
            ("redis://:p@localhost", false),
        ];
        for (text, exposed) in table {
            assert_eq!(
                text.parse::<QuotaStore>().map(|store| store.exposes_password()),
                Ok(exposed),
                "{text}"
            );
        }
    }
}
