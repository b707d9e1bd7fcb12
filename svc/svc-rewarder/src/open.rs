//! What a rewarder keeps, opened: its key, its accounts, its epochs and its files. Blocking.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use rewards::RowFault;
use ron_accounting::{Accounts, AccountsError, BootId, Sealed, SigningKey, SnapshotError, Used, read_rows};
use ron_kernel::blocking::BlockingError;
use ron_transport::{
    files::{self, FileError},
    listen::BindError,
    tls::{TlsError, raw_key::NodeKey},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject};
use types::ActorId;
use zeroize::Zeroizing;

use crate::{
    RewarderConfig, RewarderError, accountant,
    artifacts::Artifacts,
    crash,
    store::{EpochStore, StoreError},
};

/// A key file has a few lines.
const MAX_KEY_BYTES: u64 = 4096;

/// The database of epochs.
#[derive(Clone)]
pub enum StorePlace {
    /// With the rest of the node's data.
    Local,
    /// On a server that nodes share; the address may hold a password, and is wiped when it goes.
    Postgres(Zeroizing<String>),
}

impl std::fmt::Debug for StorePlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Local => "Local",
            Self::Postgres(_) => "Postgres",
        })
    }
}

/// Why a rewarder could not be built, with what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum BuildError {
    /// The socket cannot be had.
    #[error("rewarder: {0}")]
    Bind(#[from] BindError),
    /// The certificates or the node's key cannot be used.
    #[error("rewarder: {0}")]
    Tls(#[from] TlsError),
    /// A file cannot be used.
    #[error("rewarder: {0}")]
    File(#[from] FileError),
    /// The node's key cannot be used.
    #[error("rewarder: the key {} cannot be used: {problem}", .path.display())]
    Key {
        /// The path of the file.
        path: PathBuf,
        /// The description of the problem.
        problem: String,
    },
    /// The accounts cannot be used.
    #[error("rewarder: {0}")]
    Accounts(#[from] AccountsError),
    /// The epoch store cannot be used.
    #[error("rewarder: {0}")]
    Store(#[from] StoreError),
    /// A folder cannot be used.
    #[error("rewarder: {} cannot be used: {source}; check its owner and mode", .path.display())]
    Folder {
        /// The path of the folder.
        path: PathBuf,
        /// The error of the operating system.
        source: std::io::Error,
    },
    /// A policy in a file is refused.
    #[error("rewarder: {}: {error}", .path.display())]
    Policy {
        /// The path of the file.
        path: PathBuf,
        /// The reason why the policy is refused.
        error: Box<RewarderError>,
    },
    /// Credentials cannot be loaded.
    #[error("rewarder: {0}")]
    Authority(String),
    /// An epoch cannot be sealed.
    #[error("rewarder: {0}")]
    Seal(String),
    /// This program was built without it.
    #[error(
        "rewarder: this program was built without PostgreSQL: use a sqlite address, or build with the feature `postgres`"
    )]
    NoPostgres,
    /// The blocking pool did not do it.
    #[error("rewarder: {0}")]
    Blocking(#[from] BlockingError),
}

/// What is to be opened at startup.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) config: RewarderConfig,
    pub(crate) data_dir: Option<PathBuf>,
    pub(crate) store: StorePlace,
    pub(crate) unix: Duration,
}

/// The resources that were opened at startup.
#[derive(Debug)]
pub(crate) struct Found {
    pub(crate) key: SigningKey,
    pub(crate) accounts: Accounts,
    pub(crate) store: EpochStore,
    pub(crate) artifacts: Artifacts,
}

/// Opens the store, the journal and the folder of epochs.
pub(crate) fn open(plan: Plan) -> Result<Found, BuildError> {
    let Plan { config, data_dir, store, unix } = plan;
    if let Some(data) = &data_dir {
        make_folder(data)?;
    }
    let key = node_key(&config, data_dir.as_deref())?;
    let windows = config.windows();
    let boot = BootId::new(std::array::from_fn(|_| fastrand::u8(..)));
    let accounts =
        Accounts::open(data_dir.as_deref(), windows, (key.clone(), boot), unix, config.max_actors)?;
    let store = match (store, &data_dir) {
        (StorePlace::Postgres(url), _) => connect(&url, &config)?,
        (StorePlace::Local, Some(data)) => {
            EpochStore::open(&data.join(EpochStore::FILE), windows.duration())?
        }
        (StorePlace::Local, None) => EpochStore::in_memory(windows.duration())?,
    };
    let artifacts = match data_dir {
        None => Artifacts::in_memory(),
        Some(data) => {
            let path = if config.artifact_dir.as_os_str().is_empty() {
                data.join("rewards")
            } else {
                config.artifact_dir.clone()
            };
            Artifacts::at(path.clone()).map_err(|source| BuildError::Folder { path, source })?
        }
    };
    Ok(Found { key, accounts, store, artifacts })
}

#[cfg(feature = "postgres")]
fn connect(url: &str, config: &RewarderConfig) -> Result<EpochStore, BuildError> {
    Ok(EpochStore::connect(url, config.read_timeout.as_duration(), config.windows().duration())?)
}

#[cfg(not(feature = "postgres"))]
fn connect(_: &str, _: &RewarderConfig) -> Result<EpochStore, BuildError> {
    Err(BuildError::NoPostgres)
}

/// Seals an epoch of this node, whether or not the node runs: as these rows, one canonical line each or as Parquet, or as
/// what was written down. Says what it is sealed as, which is what it was before if it was. Blocking.
///
/// # Errors
/// [`BuildError`] if the node's data cannot be used, or the rows cannot be sealed.
pub fn seal_epoch(
    config: &RewarderConfig,
    data_dir: &Path,
    store: StorePlace,
    (epoch, rows): (u64, Option<&[u8]>),
    unix: Duration,
) -> Result<Sealed, BuildError> {
    let plan = Plan { config: config.clone(), data_dir: Some(data_dir.to_owned()), store, unix };
    let mut found = open(plan)?;
    let sealed = match rows {
        Some(rows) => found.accounts.seal_used(epoch, &read_used(rows)?, crash::point)?,
        None => found.accounts.seal(epoch, crash::point)?,
    };
    if let Some((sealed, rows)) = found.accounts.sealed(epoch)? {
        let listed = accountant::list(&found.store, &sealed.seal, sealed.object.to_string(), Some(&rows));
        listed.map_err(|error| BuildError::Seal(error.to_string()))?;
        found.accounts.told(epoch)?;
    }
    Ok(sealed)
}

/// Rows as they stand in a file.
fn read_used(rows: &[u8]) -> Result<Vec<Used>, BuildError> {
    let mut all = Vec::new();
    let read = read_rows(rows, |row| {
        let wrong = |_| SnapshotError::Row { row: all.len() as u64, fault: RowFault::Actor };
        let actor = ActorId::new(row.actor).map_err(wrong)?;
        all.push(Used { actor, metric: row.metric.to_owned(), units: row.units });
        Ok(())
    });
    read.map_err(AccountsError::Snapshot)?;
    Ok(all)
}

/// The node's key: as configured, or in the node's data, or one that ends with the process.
///
/// # Errors
/// [`BuildError`] if it is configured and cannot be used.
pub fn node_key(config: &RewarderConfig, data_dir: Option<&Path>) -> Result<SigningKey, BuildError> {
    let configured = !config.node_key.as_os_str().is_empty();
    let path = match data_dir {
        _ if configured => config.node_key.clone(),
        Some(data) => {
            let path = data.join("node.key");
            if !path.exists() {
                make_folder(data)?;
                let saved = NodeKey::generate()?.save(&path);
                // Somebody else may have just made it.
                if !path.exists() {
                    saved?;
                }
            }
            path
        }
        None => return SigningKey::generate().map_err(|error| bad_key(Path::new("(none)"), &error)),
    };
    let pem = files::read_private(&path, MAX_KEY_BYTES)?;
    let der = PrivatePkcs8KeyDer::from_pem_slice(&pem).map_err(|error| bad_key(&path, &error))?;
    SigningKey::from_pkcs8(der.secret_pkcs8_der()).map_err(|error| bad_key(&path, &error))
}

fn bad_key(path: &Path, problem: &dyn std::fmt::Display) -> BuildError {
    BuildError::Key { path: path.to_owned(), problem: problem.to_string() }
}

#[expect(
    clippy::disallowed_methods,
    reason = "every caller is on the blocking pool, or before the runtimes start"
)]
fn make_folder(path: &Path) -> Result<(), BuildError> {
    std::fs::create_dir_all(path).map_err(|source| BuildError::Folder { path: path.to_owned(), source })
}
