//! Where a ledger is, as one line of text.

use std::{fmt, path::PathBuf, str::FromStr};

use zeroize::Zeroizing;

use crate::{Ledger, LedgerError, Scrutiny, SqliteLedger};

/// Where a ledger is: `sqlite:./data/ledger.db`, `memory:`, or `postgres://user@host/database`.
#[derive(Clone, PartialEq, Eq)]
pub enum Place {
    /// A SQLite file.
    File(PathBuf),
    /// This process's memory: gone when it ends.
    Memory,
    /// A PostgreSQL database. The text may hold a password, and is wiped when it goes.
    Server(Zeroizing<String>),
}

/// The text names no place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a ledger is at sqlite:<file>, sqlite::memory: or postgres://<user>@<host>/<database>")]
pub struct InvalidPlace;

impl FromStr for Place {
    type Err = InvalidPlace;

    fn from_str(text: &str) -> Result<Self, InvalidPlace> {
        match text.split_once(':') {
            Some(("sqlite", ":memory:") | ("memory", "")) => Ok(Self::Memory),
            Some(("sqlite", path)) if !path.is_empty() => Ok(Self::File(path.into())),
            Some(("postgres" | "postgresql", rest)) if rest.starts_with("//") => {
                Ok(Self::Server(Zeroizing::new(text.to_owned())))
            }
            _ => Err(InvalidPlace),
        }
    }
}

impl fmt::Debug for Place {
    /// Formats the URL without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::File(path) => write!(f, "sqlite:{}", path.display()),
            Self::Memory => f.write_str("sqlite::memory:"),
            Self::Server(_) => f.write_str("postgres:…"),
        }
    }
}

impl Place {
    /// Whether what is posted there outlives the process.
    #[must_use]
    pub fn is_durable(&self) -> bool {
        !matches!(self, Self::Memory)
    }

    /// Whether what is posted there may cross a network without TLS. A server that cannot be used is not asked.
    #[must_use]
    pub fn is_clear_to_another_machine(&self) -> bool {
        match self {
            #[cfg(feature = "postgres")]
            Self::Server(url) => crate::PostgresServer::is_clear_to_another_machine(url).unwrap_or(false),
            _ => false,
        }
    }

    /// The file with the authority that signs the server's certificate; `None` if none is named.
    #[must_use]
    pub fn authority_file(&self) -> Option<PathBuf> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Server(url) => crate::PostgresServer::authority_file(url),
            _ => None,
        }
    }

    /// Opens the ledger that is there, or a new one.
    ///
    /// # Errors
    /// [`LedgerError`]; [`LedgerError::BadSetup`] for a server if this program was built without the feature
    /// `postgres`.
    pub fn open(&self, scrutiny: &Scrutiny) -> Result<Box<dyn Ledger>, LedgerError> {
        Ok(match self {
            Self::File(path) => Box::new(SqliteLedger::open(path, scrutiny)?),
            Self::Memory => Box::new(SqliteLedger::in_memory()?),
            #[cfg(feature = "postgres")]
            Self::Server(url) => Box::new(crate::PostgresLedger::open(url, scrutiny)?),
            #[cfg(not(feature = "postgres"))]
            Self::Server(_) => {
                let what = "this program was built without PostgreSQL (the feature `postgres`)";
                return Err(LedgerError::BadSetup(what.to_owned()));
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_file_memory_or_a_server() {
        let server = "postgres://me:secret@db.example/ledger";
        assert_eq!("sqlite:./a/b.db".parse(), Ok(Place::File("./a/b.db".into())));
        assert_eq!("sqlite::memory:".parse(), Ok(Place::Memory));
        assert_eq!("memory:".parse(), Ok(Place::Memory));
        assert_eq!(server.parse(), Ok(Place::Server(server.to_owned().into())));
        assert_eq!("postgresql://h/d".parse(), Ok(Place::Server("postgresql://h/d".to_owned().into())));
        for wrong in ["", "sqlite:", "ledger.db", "mysql://h/d", "postgres:h"] {
            assert_eq!(wrong.parse::<Place>(), Err(InvalidPlace), "{wrong}");
        }
        assert!(!format!("{:?}", Place::Server(server.to_owned().into())).contains("secret"));
    }

    #[cfg(feature = "postgres")]
    #[test]
    fn the_file_of_an_authority_is_known_before_it_is_read() {
        let file = |url: &str| url.parse::<Place>().map(|place| place.authority_file());
        let named = "postgres://u:p@h/d?sslmode=verify-full&sslrootcert=/srv/my%20ca.pem";
        assert_eq!(file(named), Ok(Some("/srv/my ca.pem".into())));
        assert_eq!(file("postgres://u:p@h/d"), Ok(None));
        assert_eq!(file("sqlite:ledger.db"), Ok(None));
    }
}
