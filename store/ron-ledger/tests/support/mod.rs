//! What the tests share: ledgers in every store, and short ways to say what is posted.

#![expect(clippy::unwrap_used, reason = "tests")]

#[cfg(feature = "postgres")]
pub(crate) mod server;

use std::path::PathBuf;

use ron_ledger::{
    AccountId, Amount, Asset, Batch, Floor, Key, Ledger, LedgerError, Posted, Reference, Scrutiny,
    SqliteLedger, Step, Terms, Transfer,
};

/// A place where one ledger is, and can be opened again.
#[derive(Debug)]
pub(crate) enum Place {
    Memory,
    File(tempfile::TempDir),
    #[cfg(feature = "postgres")]
    Server(server::Database),
}

impl Place {
    pub(crate) fn file() -> Self {
        Self::File(tempfile::tempdir().unwrap())
    }

    #[cfg(feature = "postgres")]
    pub(crate) fn server() -> Self {
        Self::Server(server::Database::new())
    }

    /// Where the file is.
    pub(crate) fn path(&self) -> PathBuf {
        match self {
            Self::File(folder) => folder.path().join("ledger.db"),
            _ => panic!("this ledger has no file"),
        }
    }

    pub(crate) fn try_open(&self, scrutiny: &Scrutiny) -> Result<Box<dyn Ledger>, LedgerError> {
        Ok(match self {
            Self::Memory => Box::new(SqliteLedger::in_memory()?),
            Self::File(_) => Box::new(SqliteLedger::open(&self.path(), scrutiny)?),
            #[cfg(feature = "postgres")]
            Self::Server(database) => Box::new(ron_ledger::PostgresLedger::open(&database.url(), scrutiny)?),
        })
    }

    pub(crate) fn open(&self) -> Box<dyn Ledger> {
        self.try_open(&Scrutiny::Everything).unwrap()
    }

    /// Whether a ledger opened again is the same.
    pub(crate) fn is_kept(&self) -> bool {
        !matches!(self, Self::Memory)
    }
}

/// Runs functions as tests on a ledger in memory, in a file, and on a server.
macro_rules! on_every_store {
    ($($name:ident),* $(,)?) => {
        mod in_memory {
            $(#[test] fn $name() { super::$name(&$crate::support::Place::Memory); })*
        }
        mod in_a_file {
            $(#[test] fn $name() { super::$name(&$crate::support::Place::file()); })*
        }
        #[cfg(feature = "postgres")]
        mod on_postgres {
            $(#[test] fn $name() { super::$name(&$crate::support::Place::server()); })*
        }
    };
}

pub(crate) fn id(name: &str) -> AccountId {
    AccountId::new(name).unwrap()
}

pub(crate) fn asset() -> Asset {
    Asset::new("CREDIT").unwrap()
}

pub(crate) fn open(name: &str, floor: Floor) -> Step {
    Step::Open(Terms { account: id(name), asset: asset(), floor })
}

pub(crate) fn transfer(from: &str, to: &str, amount: u64) -> Transfer {
    Transfer { from: id(from), to: id(to), amount: Amount::from(amount) }
}

pub(crate) fn pay(from: &str, to: &str, amount: u64) -> Step {
    Step::Transfer(transfer(from, to, amount))
}

pub(crate) fn hold(from: &str, to: &str, amount: u64) -> Step {
    Step::Hold(transfer(from, to, amount))
}

pub(crate) fn batch(key: &str, steps: Vec<Step>) -> Batch {
    Batch::new(Key::new(key).unwrap(), Reference::new("for a test").unwrap(), 1_700_000_000, steps).unwrap()
}

/// `issuer` without a floor; `pool`, `ada` and `bob` without overdraft; 1000 in the pool.
pub(crate) fn funded(place: &Place) -> Box<dyn Ledger> {
    let ledger = place.open();
    let mut steps = vec![open("issuer", Floor::Unlimited)];
    steps.extend(["pool", "ada", "bob"].map(|name| open(name, Floor::ZERO)));
    steps.push(pay("issuer", "pool", 1000));
    ledger.post(&batch("fund", steps)).unwrap();
    ledger
}

/// Posts a batch as whoever must know the outcome does: again, as long as it is not known.
pub(crate) fn post_surely(ledger: &dyn Ledger, batch: &Batch) -> Result<Posted, LedgerError> {
    loop {
        match ledger.post(batch) {
            Err(error) if error.is_transient() => std::thread::yield_now(),
            known => return known,
        }
    }
}

pub(crate) fn balance(ledger: &dyn Ledger, name: &str) -> i128 {
    ledger.account(&id(name)).unwrap().unwrap().balance
}

pub(crate) fn held(ledger: &dyn Ledger, name: &str) -> i128 {
    ledger.account(&id(name)).unwrap().unwrap().held
}

/// A small generator of numbers that are the same for the same seed.
#[derive(Debug)]
pub(crate) struct Chance(pub(crate) u64);

impl Chance {
    pub(crate) fn next(&mut self) -> u64 {
        // SplitMix64.
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }
}

/// How large the proofs are: small by default, full when `OMNIGATE_FULL_PROOFS` is set.
pub(crate) fn size(small: u64, full: u64) -> u64 {
    if std::env::var_os("OMNIGATE_FULL_PROOFS").is_some() { full } else { small }
}

/// A seed that is printed, and can be set again with `OMNIGATE_SEED`.
pub(crate) fn seed() -> u64 {
    let given = std::env::var("OMNIGATE_SEED").ok().and_then(|text| text.parse().ok());
    let seed = given.unwrap_or_else(|| u64::from(std::process::id()));
    println!("OMNIGATE_SEED={seed}");
    seed
}
