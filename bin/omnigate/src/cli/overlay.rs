//! `omnigate overlay top` and `bench`, as typed.

use std::{path::PathBuf, time::Duration};

use clap::Subcommand;

use super::{ConfigArgs, Task, duration};
use crate::{commands::Bench, config_file::ConfigSource, failure::Failure};

/// What to see of a running overlay.
#[derive(Debug, Subcommand)]
pub(super) enum OverlayCommand {
    /// Show the peers and topics of a running node with their rates.
    ///
    /// On a terminal it is redrawn until Ctrl-C; otherwise it is printed once.
    Top {
        #[command(flatten)]
        config: ConfigArgs,
        /// Interval between two updates; rates are measured over this time.
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration)]
        interval: Duration,
        /// Print once, as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Measure a running node: messages per second, latency, and frames on the wire per message.
    ///
    /// Publishes in a topic through the node and subscribes to it there, or at another node with `--sub-config`. A
    /// publication counts once the node has answered.
    Bench {
        #[command(flatten)]
        config: ConfigArgs,
        /// Subscribe at the running node that uses this configuration file.
        #[arg(long, value_name = "FILE")]
        sub_config: Option<PathBuf>,
        /// The topic; it should have no other users.
        #[arg(long, default_value = "bench")]
        topic: String,
        /// Messages to publish.
        #[arg(long, value_name = "NUMBER", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..=10_000_000))]
        msgs: u64,
        /// Bytes per message; a few more if the send time does not fit.
        #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(1..=65_536))]
        size: u32,
        /// Number of publishers; each has one connection and one message in flight.
        #[arg(long = "pub", value_name = "NUMBER", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
        publishers: u16,
        /// Number of subscriptions; each receives every publication.
        #[arg(long = "sub", value_name = "NUMBER", default_value_t = 1, value_parser = clap::value_parser!(u16).range(1..=16))]
        subscribers: u16,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

impl OverlayCommand {
    /// Fills in what the command line leaves to the environment and the working directory.
    pub(super) fn resolve(self) -> Result<Task, Failure> {
        Ok(match self {
            Self::Top { config, interval, json } => {
                Task::OverlayTop { source: config.resolve()?, interval, json }
            }
            Self::Bench { config, sub_config, topic, msgs, size, publishers, subscribers, json } => {
                let far = sub_config.map(|file| ConfigSource::resolve(Some(file), Vec::new()));
                let size = usize::try_from(size).unwrap_or(usize::MAX);
                let plan = Bench { topic, msgs, size, publishers, subscribers, json };
                Task::OverlayBench { near: config.resolve()?, far: far.transpose()?, plan }
            }
        })
    }
}
