//! `omnigate cas`: store, fetch, check and remove objects by the hash of their bytes.

mod get;
pub(super) mod progress;
mod put;
mod scrub;

use std::path::PathBuf;

use ::cas::{Cas, Limits, OpenError, Stat};
use clap::{Args, Subcommand};
use ron_kernel::{ExitCode, config::ByteSize};
use serde::{
    Deserialize,
    de::{
        IntoDeserializer,
        value::{Error, StrDeserializer},
    },
};
use serde_json::json;
use svc_edge::EdgeConfig;
use types::ObjectId;

use super::{pretty, print};
use crate::{config_file::ConfigSource, failure::Failure, settings::NodeConfig};

#[derive(Debug, Subcommand)]
pub(crate) enum CasCommand {
    /// Store a file and print its name.
    ///
    /// When the name is printed, the object is on disk. Exit codes: 0: stored, now or before; 1: not stored.
    Put {
        /// The file; `-` for standard input.
        file: PathBuf,
        #[command(flatten)]
        store: StoreArgs,
        /// Evict the least recently used objects so that all objects take no more than this, such as `10GiB`.
        #[arg(long, value_name = "SIZE", value_parser = byte_size)]
        max_bytes: Option<ByteSize>,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write an object to standard output or to a file; every byte is verified.
    ///
    /// Exit codes: 0: written completely; 1: not stored, or corrupt. The bytes written to standard output before an
    /// error are correct; a file is not written at all.
    Get {
        /// The object, as `put` printed it: `b3:` and 64 digits.
        id: ObjectId,
        #[command(flatten)]
        store: StoreArgs,
        /// Write only these bytes, counted from 0, both ends included: `0-99`; `100-` for the rest, `-100` for the
        /// last 100.
        #[arg(long, value_name = "A-B", allow_hyphen_values = true)]
        range: Option<get::ByteRange>,
        /// Write to this file, which is replaced once everything has been verified.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Read all stored objects and quarantine corrupt ones.
    ///
    /// A running node may use the store meanwhile. Exit codes: 0: all objects are intact, or were repaired; 1: an
    /// object is corrupt or cannot be read.
    Scrub {
        #[command(flatten)]
        store: StoreArgs,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show how much is stored. Exit codes: 0: shown; 1: there is no store.
    Stat {
        #[command(flatten)]
        store: StoreArgs,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Remove objects. Exit codes: 0: all removed; 1: one of them was not stored, or cannot be removed.
    Rm {
        /// The names of the objects.
        #[arg(required = true, value_name = "ID")]
        ids: Vec<ObjectId>,
        #[command(flatten)]
        store: StoreArgs,
    },
}

/// The store to use.
#[derive(Args, Debug)]
pub(crate) struct StoreArgs {
    /// The folder of the store; without it, the edge's store in the configuration.
    #[arg(long, value_name = "FOLDER")]
    dir: Option<PathBuf>,
    /// The configuration file. Without it, ./omnigate.toml if it exists, else the defaults.
    #[arg(long, value_name = "FILE", env = "OMNIGATE_CONFIG", conflicts_with = "dir")]
    config: Option<PathBuf>,
}

impl StoreArgs {
    /// The store, made if it is not there. Nothing is evicted unless the cap says so.
    fn make(&self, max_bytes: Option<ByteSize>) -> Result<Cas, Failure> {
        Cas::at(&self.folder()?, limits(max_bytes)).map_err(Failure::failed)
    }

    /// Returns the folder of the store.
    fn folder(&self) -> Result<PathBuf, Failure> {
        if let Some(dir) = &self.dir {
            return Ok(dir.clone());
        }
        let snapshot = ConfigSource::resolve(self.config.clone(), Vec::new())?.load()?;
        let node = snapshot.get::<NodeConfig>();
        if node.amnesia {
            return Err(Failure::failed("a node with node.amnesia keeps no objects on a disk")
                .help("name the folder of a store with --dir"));
        }
        Ok(snapshot.get::<EdgeConfig>().cas.folder(&node.data_dir))
    }

    /// The store that is there, which may be a running node's.
    fn visit(&self) -> Result<Cas, Failure> {
        Cas::visit(&self.folder()?, limits(None)).map_err(|error| match error {
            OpenError::Missing { .. } => Failure::failed(error).help("name its folder with --dir"),
            other => Failure::failed(other),
        })
    }
}

fn limits(max_bytes: Option<ByteSize>) -> Limits {
    Limits { max_bytes: max_bytes.map_or(u64::MAX, ByteSize::as_u64), max_objects: usize::MAX }
}

/// Runs the command.
pub(super) fn run(command: CasCommand) -> Result<ExitCode, Failure> {
    let done = match command {
        CasCommand::Put { file, store, max_bytes, json } => put::run(&file, &store.make(max_bytes)?, json),
        CasCommand::Get { id, store, range, output } => {
            get::run(id, &store.visit()?, range, output.as_deref())
        }
        CasCommand::Scrub { store, json } => return scrub::run(&store.visit()?, json),
        CasCommand::Stat { store, json } => stat(&store.visit()?.stat(), json),
        CasCommand::Rm { ids, store } => remove(&store.visit()?, &ids),
    };
    done.map(|()| ExitCode::Clean)
}

fn stat(stat: &Stat, as_json: bool) -> Result<(), Failure> {
    let Stat { objects, object_bytes, taken_bytes, quarantined, .. } = stat;
    print(&if as_json {
        pretty(&json!({
            "objects": objects,
            "object_bytes": object_bytes,
            "taken_bytes": taken_bytes,
            "quarantined": quarantined,
        }))
    } else {
        format!(
            "objects      {objects}\nbytes        {object_bytes}\non disk      {taken_bytes}\nquarantined  {quarantined}\n"
        )
    })
}

fn remove(store: &Cas, ids: &[ObjectId]) -> Result<(), Failure> {
    let mut missing = Vec::new();
    for id in ids {
        let removed = store.remove(*id);
        if !removed.map_err(|error| Failure::failed(format!("cannot remove {id}: {error}")))? {
            missing.push(id.to_string());
        }
    }
    if missing.is_empty() {
        return Ok(());
    }
    Err(Failure::failed(format!("not stored: {}", missing.join(", "))))
}

fn byte_size(text: &str) -> Result<ByteSize, String> {
    let text: StrDeserializer<'_, Error> = text.into_deserializer();
    ByteSize::deserialize(text).map_err(|error| error.to_string())
}
