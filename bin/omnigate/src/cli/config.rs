//! `omnigate config`, as typed.

use std::path::PathBuf;

use clap::Subcommand;

use super::{ConfigArgs, Task};
use crate::failure::Failure;

#[derive(Debug, Subcommand)]
pub(super) enum ConfigCommand {
    /// Write a short file with a route to start from.
    Init {
        /// The file to write.
        #[arg(default_value = crate::config_file::DEFAULT_FILE)]
        path: PathBuf,
        /// Write every setting instead, with its meaning and its default, commented out.
        #[arg(long)]
        full: bool,
        /// Replace an existing file.
        #[arg(long)]
        force: bool,
    },
    /// Show what this configuration would change in the running node. Exit codes as of `diff`: 0: no difference; 1:
    /// differences; 2: the node cannot be reached.
    ///
    /// The node is found by `admin.listen`; name another address with `--set admin.listen=ADDRESS`. Settings from the
    /// environment and the command line, of the node or of this command, are not compared, and neither are secrets.
    Diff {
        #[command(flatten)]
        config: ConfigArgs,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show every value in force and where it came from; secrets are hidden.
    Show {
        #[command(flatten)]
        config: ConfigArgs,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON schema of the file, for editors.
    Schema,
    /// Print the reference of all settings as Markdown.
    Reference,
}

impl ConfigCommand {
    pub(super) fn resolve(self) -> Result<Task, Failure> {
        Ok(match self {
            Self::Init { path, full, force } => Task::ConfigInit { path, full, force },
            Self::Diff { config, json } => Task::ConfigDiff { source: config.resolve()?, json },
            Self::Show { config, json } => Task::ConfigShow { source: config.resolve()?, json },
            Self::Schema => Task::ConfigSchema,
            Self::Reference => Task::ConfigReference,
        })
    }
}
