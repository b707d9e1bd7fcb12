//! The address of a PostgreSQL server, and how a connection to it is protected.
//!
//! `sslmode` and `sslrootcert` mean what they mean to PostgreSQL's own programs, with one difference: where `sslmode` is
//! not given and the server is another machine, TLS is required.

use std::{net::IpAddr, path::PathBuf, time::Duration};

use postgres::{
    Client, Config,
    config::{Host, SslMode, TargetSessionAttrs},
};
use zeroize::Zeroizing;

use super::tls::{Connector, Trust};

/// Probes of an idle connection without an answer, after which its other end is gone.
const KEEPALIVE_RETRIES: u32 = 3;

/// The address of a server with everything that a connection needs.
#[derive(Clone)]
pub struct PostgresServer {
    config: Config,
    connector: Connector,
}

/// Why an address cannot be used. Says nothing of what the address holds, such as a password.
#[derive(Debug, thiserror::Error)]
pub enum PostgresAddressError {
    /// The URL cannot be parsed.
    #[error("this is no address of a PostgreSQL database")]
    Unreadable,
    /// A protection that there is not.
    #[error("sslmode is `disable`, `prefer`, `require`, `verify-ca` or `verify-full`")]
    Mode,
    /// A certificate is to be verified, and nobody says by whom it must be signed.
    #[error(
        "sslmode `verify-ca` and `verify-full` need sslrootcert=<file>: the authority that signs the server"
    )]
    NoRoot,
    /// The authority's file cannot be used.
    #[error("sslrootcert {}: {problem}", path.display())]
    Root {
        /// The path of the file.
        path: PathBuf,
        /// The description of the problem.
        problem: String,
    },
}

impl PostgresServer {
    /// The schema that all tables are in: the ledger's, and the epochs' of the rewarders that share it.
    pub const SCHEMA: &str = "omnigate_ledger";

    /// What an administrator of the database runs so that a role can make the tables.
    #[must_use]
    pub fn grants(role: &str) -> String {
        let role = role.replace('"', "\"\"");
        let schema = Self::SCHEMA;
        format!("CREATE SCHEMA IF NOT EXISTS {schema}; GRANT USAGE, CREATE ON SCHEMA {schema} TO \"{role}\"")
    }

    /// Reads an address: `postgres://user:secret@host/database?sslmode=verify-full&sslrootcert=ca.pem`, or
    /// `host=/run/postgresql dbname=ledger`. Blocking: reads the authority's file.
    ///
    /// # Errors
    /// [`PostgresAddressError`].
    pub fn parse(address: &str) -> Result<Self, PostgresAddressError> {
        let options = Options::take_from(address);
        let mut config: Config = options.rest.parse().map_err(|_| PostgresAddressError::Unreadable)?;
        // Of several hosts the one that takes writes. A standby would also answer with what was so a while ago.
        config.target_session_attrs(TargetSessionAttrs::ReadWrite);
        let mode = options.mode(is_elsewhere(&config))?;
        config.ssl_mode(match mode {
            Mode::Disable => SslMode::Disable,
            Mode::Prefer => SslMode::Prefer,
            Mode::Require | Mode::VerifyCa | Mode::VerifyFull => SslMode::Require,
        });
        let trust = match (mode, options.root) {
            (Mode::VerifyFull, Some(root)) => Trust::Full(root),
            // As with PostgreSQL's own programs: an authority that is named is asked.
            (Mode::VerifyCa | Mode::Require, Some(root)) => Trust::Authority(root),
            (Mode::VerifyCa | Mode::VerifyFull, None) => return Err(PostgresAddressError::NoRoot),
            (Mode::Disable | Mode::Prefer | Mode::Require, _) => Trust::Anybody,
        };
        Ok(Self { config, connector: Connector::new(&trust)? })
    }

    /// Whether what is said there may cross a network without TLS: another machine, and `sslmode` that lets it.
    ///
    /// # Errors
    /// [`PostgresAddressError`] if the address cannot be read.
    pub fn is_clear_to_another_machine(address: &str) -> Result<bool, PostgresAddressError> {
        let options = Options::take_from(address);
        let config: Config = options.rest.parse().map_err(|_| PostgresAddressError::Unreadable)?;
        let elsewhere = is_elsewhere(&config);
        Ok(elsewhere && matches!(options.mode(elsewhere)?, Mode::Disable | Mode::Prefer))
    }

    /// The file that an address names as `sslrootcert`; `None` if it names none.
    #[must_use]
    pub fn authority_file(address: &str) -> Option<PathBuf> {
        Options::take_from(address).root
    }

    /// Bounds the wait for a server that is not there: an attempt to connect takes at most `timeout`, and a connection whose other
    /// end is gone without a word ends after about twice as long. Returns the other settings of a connection.
    pub fn give_up_after(&mut self, timeout: Duration) -> &mut Config {
        let interval = (timeout / KEEPALIVE_RETRIES).max(Duration::from_secs(1));
        let config = self.config.connect_timeout(timeout).tcp_user_timeout(2 * timeout);
        config.keepalives_idle(timeout).keepalives_interval(interval).keepalives_retries(KEEPALIVE_RETRIES)
    }

    /// Connects. Blocking.
    ///
    /// # Errors
    /// [`postgres::Error`], if the server does not answer, does not protect the connection as asked, or refuses.
    pub fn connect(&self) -> Result<Client, postgres::Error> {
        self.config.connect(self.connector.clone())
    }
}

impl std::fmt::Debug for PostgresServer {
    /// The address may hold a password.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("PostgresServer")
    }
}

/// The TLS mode of a connection (`sslmode`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Disable,
    Prefer,
    Require,
    VerifyCa,
    VerifyFull,
}

/// The options of an address that the library does not know, and the rest.
struct Options {
    /// May hold a password.
    rest: Zeroizing<String>,
    mode: Option<String>,
    root: Option<PathBuf>,
}

impl Options {
    fn take_from(address: &str) -> Self {
        match address.split_once('?') {
            Some((start, query)) if address.contains("://") => {
                let (rest, mode, root) = sorted_out(query.split('&'));
                let rest =
                    if rest.is_empty() { start.to_owned() } else { format!("{start}?{}", rest.join("&")) };
                Self { rest: rest.into(), mode, root: root.map(|root| unescaped(&root).into()) }
            }
            None if address.contains("://") => {
                Self { rest: address.to_owned().into(), mode: None, root: None }
            }
            _ => {
                let (rest, mode, root) = sorted_out(address.split_whitespace());
                Self { rest: rest.join(" ").into(), mode, root: root.map(PathBuf::from) }
            }
        }
    }

    fn mode(&self, elsewhere: bool) -> Result<Mode, PostgresAddressError> {
        Ok(match self.mode.as_deref() {
            None if elsewhere && self.root.is_some() => Mode::VerifyFull,
            None if elsewhere => Mode::Require,
            None | Some("prefer" | "allow") => Mode::Prefer,
            Some("disable") => Mode::Disable,
            Some("require") => Mode::Require,
            Some("verify-ca") => Mode::VerifyCa,
            Some("verify-full") => Mode::VerifyFull,
            Some(_) => return Err(PostgresAddressError::Mode),
        })
    }
}

/// The options that are ours, taken out of those that are not.
fn sorted_out<'a>(pairs: impl Iterator<Item = &'a str>) -> (Vec<&'a str>, Option<String>, Option<String>) {
    let (mut rest, mut mode, mut root) = (Vec::new(), None, None);
    for pair in pairs {
        match pair.split_once('=') {
            Some(("sslmode", value)) => mode = Some(value.to_owned()),
            Some(("sslrootcert", value)) => root = Some(value.to_owned()),
            _ => rest.push(pair),
        }
    }
    (rest, mode, root)
}

/// A value of a URL's query, without its escapes. What is no escape stays as it is.
fn unescaped(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text.as_bytes());
    while let [first, tail @ ..] = rest {
        let escaped = match rest {
            [b'%', high, low, ..] => hex(*high).zip(hex(*low)).map(|(high, low)| high << 4 | low),
            _ => None,
        };
        bytes.push(escaped.unwrap_or(*first));
        rest = if escaped.is_some() { &rest[3..] } else { tail };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|digit| u8::try_from(digit).ok())
}

/// Whether any of the hosts is another machine.
fn is_elsewhere(config: &Config) -> bool {
    let elsewhere = |host: &Host| match host {
        Host::Tcp(name) => {
            let ip = name.parse::<IpAddr>().ok();
            !ip.map_or_else(|| name.eq_ignore_ascii_case("localhost"), |ip| ip.to_canonical().is_loopback())
        }
        Host::Unix(_) => false,
    };
    let by_address = config.get_hostaddrs().iter().any(|ip| !ip.to_canonical().is_loopback());
    by_address || config.get_hosts().iter().any(elsewhere)
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn mode(address: &str) -> Mode {
        let options = Options::take_from(address);
        let config: Config = options.rest.parse().unwrap();
        options.mode(is_elsewhere(&config)).unwrap()
    }

    #[test]
    fn another_machine_is_spoken_to_over_tls_unless_the_address_says_otherwise() {
        for (address, expected) in [
            ("postgres://u@localhost/d", Mode::Prefer),
            ("postgres://u@127.0.0.1/d", Mode::Prefer),
            ("host=/run/postgresql dbname=d", Mode::Prefer),
            ("postgres://u@db.example/d", Mode::Require),
            ("postgres://u@10.0.0.1/d?connect_timeout=3", Mode::Require),
            ("postgres://u@db.example/d?sslrootcert=ca.pem", Mode::VerifyFull),
            ("postgres://u@db.example/d?sslmode=disable", Mode::Disable),
            ("host=db.example user=u sslmode=verify-ca sslrootcert=ca.pem", Mode::VerifyCa),
            ("postgres://u@localhost/d?sslmode=verify-full&sslrootcert=ca.pem", Mode::VerifyFull),
        ] {
            assert_eq!(mode(address), expected, "{address}");
        }
    }

    #[test]
    fn what_may_cross_a_network_in_the_clear_is_known() {
        let clear = |address: &str| PostgresServer::is_clear_to_another_machine(address).unwrap();
        assert!(clear("postgres://u@db.example/d?sslmode=disable"));
        assert!(clear("postgres://u@db.example/d?sslmode=prefer"));
        assert!(clear("postgres://u@localhost,db.example/d?sslmode=disable"));
        assert!(clear("host=localhost hostaddr=192.0.2.1 user=u sslmode=disable"));
        for fine in [
            "postgres://u@db.example/d",
            "postgres://u@db.example/d?sslmode=require",
            "postgres://u@localhost/d?sslmode=disable",
            "postgres://u@[::1]/d?sslmode=disable",
            "postgres:///d?host=/run/postgresql&sslmode=disable",
        ] {
            assert!(!clear(fine), "{fine}");
        }
    }

    #[test]
    fn an_address_that_asks_for_the_impossible_is_refused_without_its_password() {
        for (address, words) in [
            ("postgres://u:secret@db.example/d?sslmode=always", "sslmode is"),
            ("postgres://u:secret@db.example/d?sslmode=verify-full", "need sslrootcert"),
            ("postgres://u:secret@db.example/d?sslrootcert=/no/such/file.pem", "/no/such/file.pem"),
            ("postgres://u:secret@db.example/d?nonsense=1", "no address"),
        ] {
            let error = PostgresServer::parse(address).unwrap_err().to_string();
            assert!(error.contains(words) && !error.contains("secret"), "{error}");
        }
    }

    #[test]
    fn a_file_name_may_be_escaped() {
        assert_eq!(unescaped("%2Fetc%2fa%20b.pem"), "/etc/a b.pem");
        assert_eq!(unescaped("100%"), "100%");
    }
}
