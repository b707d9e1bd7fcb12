//! The command line: as typed ([`Cli`]), and as used ([`Task`]) once files, variables and flags are known.

mod overlay;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use ron_transport::addr::{Endpoint, ListenAddr};
use svc_overlay::PeerAddr;
use types::{NodeId, ObjectId};

use crate::{
    commands::{
        Bench, CacheCommand, CasCommand, EpochCommand, LedgerCommand, PackCommand, PolicyCommand, Publish,
        PutObject, Subscribe, TokenCommand,
    },
    config_file::ConfigSource,
    demo,
    failure::Failure,
    fairness::{self, Plan},
    preflight,
};
use overlay::OverlayCommand;

/// What to type first.
const FIRST_STEPS: &str = "\
First steps:
  omnigate demo                                a whole node with a crowd, to look at
  omnigate gateway --to http://127.0.0.1:3000  in front of a server of yours
  omnigate config init                         a file with every setting, explained";

/// A node of an edge network in one program: a fair gateway, an edge that verifies what it serves, an overlay between nodes,
/// and rewards that anybody can check.
///
/// Exit codes: 0 done or drained cleanly; 1 could not start or failed; 2 wrong command line or configuration;
/// 3 the drain deadline passed; 4 something did not let go; 5 a second signal ended the process at once.
#[derive(Debug, Parser)]
#[command(name = "omnigate", version, propagate_version = true, after_help = FIRST_STEPS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run what the configuration enables until told to stop.
    ///
    /// SIGTERM and SIGINT drain, a second one ends at once; SIGHUP reloads the configuration and certificates;
    /// SIGUSR2 starts the program anew with the same sockets and drains this process once the new one is ready.
    Up {
        #[command(flatten)]
        config: ConfigArgs,
        /// Pass every request to this server, such as `http://127.0.0.1:3000`; no file needed.
        #[arg(long, value_name = "URL")]
        to: Option<Endpoint>,
    },
    /// Run a whole node with a crowd in front of it, to look at.
    ///
    /// Everything is in this process, on free ports of the loopback interface and in a temporary folder: a server, guests
    /// with a modest need, one who floods, a map, and two nodes beside it, all of whom are paid for what they served at the
    /// end of each epoch. Ctrl-C drains it, and nothing is left.
    Demo {
        /// End by itself after so long.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        length: Option<Duration>,
        /// How long an epoch is.
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
        epoch: Duration,
    },
    /// Run the gateway alone, whatever else the configuration enables.
    ///
    /// Signals are those of `up`.
    Gateway {
        #[command(flatten)]
        config: ConfigArgs,
        /// Pass every request to this server, such as `http://127.0.0.1:3000`; no file needed.
        #[arg(long, value_name = "URL")]
        to: Option<Endpoint>,
        /// Store the responses of that server and answer with them, as a shared cache does: in memory, unless a configuration
        /// file or a setting of `node.data_dir` or `gateway.cache.disk_bytes` says otherwise.
        #[arg(long, requires = "to")]
        cache: bool,
        /// Listen there, such as `0.0.0.0:8080`.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<ListenAddr>,
    },
    /// Run the edge alone: serve tile packs and folders, every byte of them verified.
    ///
    /// Signals are those of `up`. Maps are at `/edge/tiles/<pack>`, files at `/edge/assets/`, the list of packs at
    /// `/edge/packs`.
    Edge {
        #[command(flatten)]
        config: ConfigArgs,
        /// Serve this tile pack, PMTiles or MBTiles, instead of those in the file. May be repeated.
        #[arg(long, value_name = "FILE")]
        pack: Vec<PathBuf>,
        /// Serve the files in this folder, instead of those in the file. May be repeated; the first that has a file wins.
        #[arg(long, value_name = "FOLDER")]
        dir: Vec<PathBuf>,
        /// Let pages of this site read what is served, such as `https://map.example.org`; `*` for all. May be repeated.
        #[arg(long, value_name = "ORIGIN")]
        allow_origin: Vec<String>,
        /// Listen there, such as `0.0.0.0:8081`.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<ListenAddr>,
    },
    /// Run the rewarder alone: keep accounts, compute epochs, and have them paid.
    ///
    /// Signals are those of `up`. The interface is described at `/rewarder/openapi.json`.
    Rewarder {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Run the overlay alone: sessions with other nodes, publications, objects. `top` and `bench` look at a running one.
    ///
    /// Signals are those of `up`.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Overlay {
        #[command(subcommand)]
        look: Option<OverlayCommand>,
        #[command(flatten)]
        config: ConfigArgs,
        /// Listen there, such as `0.0.0.0:9500`.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<ListenAddr>,
        /// Dial this node, such as `b3:<node id>@node-b.example:9500`, instead of those in the file. May be repeated.
        #[arg(long, value_name = "PEER")]
        peer: Vec<PeerAddr>,
    },
    /// Publish in a topic, through the running node that uses this configuration.
    ///
    /// Prints `accepted` once a neighbour has taken it on, `local_only` if it is known to that node alone.
    Pub {
        #[command(flatten)]
        config: ConfigArgs,
        /// The topic.
        topic: String,
        /// What to publish; without it, what comes on standard input.
        message: Option<String>,
        /// Publish each line of standard input by itself.
        #[arg(long, conflicts_with = "message")]
        lines: bool,
        /// How long to try again while the node is busy or refuses publications for now, for each publication.
        #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
        wait: Duration,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Show what is published in a topic, through the running node that uses this configuration.
    ///
    /// Publications go to standard output, one per line; what is missing is named on standard error. The node keeps the latest
    /// events of a topic: `--resume` shows those after an event, and says how many are gone. `--json` has the id of each event
    /// as `event_id`.
    Sub {
        #[command(flatten)]
        config: ConfigArgs,
        /// The topic.
        topic: String,
        /// Go on after the event with this id.
        #[arg(long, value_name = "ID")]
        resume: Option<String>,
        /// End after so many publications.
        #[arg(long, value_name = "NUMBER")]
        count: Option<u64>,
        /// Everything as JSON, one line each, on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Show the peers of the running node that uses this configuration.
    Peers {
        #[command(flatten)]
        config: ConfigArgs,
        /// Go on, and print a line whenever a peer joins or leaves.
        #[arg(long)]
        watch: bool,
        /// How often to look.
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, requires = "watch")]
        interval: Duration,
        /// As JSON; with `--watch`, one line each.
        #[arg(long)]
        json: bool,
    },
    /// Show the publications that the running node gave up, and the gaps that its subscribers were told of.
    ///
    /// The sums come first, by topic, reason and peer; then each loss and each gap, by the numbers of the publications.
    Losses {
        #[command(flatten)]
        config: ConfigArgs,
        /// Of the losses, list only those with a higher number.
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: u64,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Keep objects and get them, through the node whose configuration this is.
    #[command(subcommand)]
    Object(ObjectCommand),
    /// Show who this node is to others.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Show on this machine that a flooding tenant does not hurt another.
    ///
    /// Starts a server of a few slots, puts this gateway in front, floods it, and prints what the victim sees with
    /// admission off, first come first served, and fair. Uses loopback only and ends by itself. Exit code 1 if a test
    /// does not hold.
    Fairness {
        /// Run only these tests: T1 (elephant), T4 (weights), T5 (slow requests and readers), T8 (many keys); or those
        /// that are not run unless named: T2 (0.5× to 10×), T3 (a flood that ends), T9 (reloads), T10 (hostile clients),
        /// retry (`Retry-After`).
        #[arg(long, value_name = "TEST", value_delimiter = ',', value_parser = fairness::TESTS, ignore_case = true)]
        only: Vec<String>,
        /// Run only the cases whose names contain this, and those that they are measured against.
        #[arg(long, value_name = "TEXT")]
        case: Option<String>,
        /// How long each case is measured.
        #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
        length: Duration,
        /// How often everything is run; after the first time, only what is held to something.
        #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
        repeat: u32,
        /// Slots of the server behind the gateway.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(2..=1000))]
        slots: u16,
        /// How long a request takes a slot on average; one takes a fifth more or less than another.
        #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = duration)]
        service_time: Duration,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Say whether the configuration would work, without opening anything.
    Check {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Make, tighten, look at, judge and revoke capability tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Store, fetch and check objects by the hash of their bytes.
    #[command(subcommand)]
    Cas(CasCommand),
    /// Show and purge what the gateway has stored, through the node whose configuration this is.
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Show, check, export, sign and back up the ledger, and move amounts in it.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Check, inspect and make packs of map tiles.
    #[command(subcommand)]
    Pack(PackCommand),
    /// Check, prove and recompute what an epoch paid.
    #[command(subcommand)]
    Epoch(EpochCommand),
    /// Sign, check and show the policies that epochs are paid by.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Write, show and describe the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write the pages that are generated from the program itself.
    #[command(subcommand)]
    Docs(DocsCommand),
    /// Print a completion script for a shell.
    Completions {
        /// The shell.
        shell: Shell,
    },
    /// Print the manual page, or write all of them into a folder.
    Man {
        /// Write one page per command into this folder.
        #[arg(long, value_name = "FOLDER")]
        dir: Option<PathBuf>,
    },
    /// Print the version and what the program was built with.
    Version {
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum ObjectCommand {
    /// Keep a file as an object, print its name, and hand it to peers.
    Put {
        #[command(flatten)]
        config: ConfigArgs,
        /// The file; `-` is standard input.
        file: PathBuf,
        /// Hand it to the peer with this node id, and wait until it is stored there. May be repeated.
        #[arg(long, value_name = "NODE")]
        to: Vec<NodeId>,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Get an object of the node or its peers by its name. Every byte is checked, on the way and again at the end.
    Get {
        #[command(flatten)]
        config: ConfigArgs,
        /// The object: `b3:` and 64 hexadecimal digits.
        id: ObjectId,
        /// Where to write it, whole or not at all; without this, to standard output.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
enum NodeCommand {
    /// Print the node's id, which peers list it by. Makes the node's key if there is none yet.
    Id {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Print the node's public key, which its signatures are checked with. Makes the node's key if there is none yet.
    Key {
        #[command(flatten)]
        config: ConfigArgs,
    },
}

#[derive(Debug, Subcommand)]
enum ConfigCommand {
    /// Write a file with every setting, its meaning and its default, commented out.
    Init {
        /// Where to write it.
        #[arg(default_value = crate::config_file::DEFAULT_FILE)]
        path: PathBuf,
        /// Replace a file that is already there.
        #[arg(long)]
        force: bool,
    },
    /// Show every value in force and where it came from; secrets are hidden.
    Show {
        #[command(flatten)]
        config: ConfigArgs,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Print the JSON schema of the file, for editors.
    Schema,
    /// Print the reference of all settings as Markdown.
    Reference,
}

#[derive(Debug, Subcommand)]
enum DocsCommand {
    /// Write one page per service: its tasks, queues, timeouts and how it stops.
    Concurrency {
        /// The folder of the pages.
        #[arg(long, value_name = "FOLDER", default_value = "docs/concurrency")]
        dir: PathBuf,
        /// Write nothing; fail if a page is not what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Write a Grafana dashboard and Prometheus alert rules for every metric, task and queue that is declared.
    Dashboards {
        /// The folder of the files.
        #[arg(long, value_name = "FOLDER", default_value = "deploy/observability")]
        dir: PathBuf,
        /// Write nothing; fail if a file is not what would be written.
        #[arg(long)]
        check: bool,
    },
    /// Write the manual pages of all commands and the completion scripts of all shells.
    Manuals {
        /// The folder; pages go into its `man1`, scripts into its `completions`.
        #[arg(long, value_name = "FOLDER", default_value = "manuals")]
        dir: PathBuf,
    },
}

/// Where the configuration comes from.
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    /// The configuration file; without it, ./omnigate.toml if there is one, else the defaults.
    #[arg(long, value_name = "FILE", env = "OMNIGATE_CONFIG")]
    config: Option<PathBuf>,
    /// Set one value over the file and the environment: `--set gateway.max_conns=100`. May be repeated.
    ///
    /// Other users of the machine can see it; give secrets in the file or in the environment, as in
    /// `OMNIGATE_ADMIN__TOKEN`.
    #[arg(long, value_name = "KEY=VALUE", value_parser = assignment)]
    set: Vec<(String, String)>,
}

impl ConfigArgs {
    pub(crate) fn resolve(self) -> Result<ConfigSource, Failure> {
        ConfigSource::resolve(self.config, self.set)
    }
}

/// A length of time as people write it.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let read = humantime::parse_duration(text).ok().filter(|length| !length.is_zero());
    read.ok_or_else(|| "write a number with a unit, such as 5s or 250ms".to_owned())
}

/// The same configuration, with everything passed to a server if one is named, whose responses are stored with `cache`.
fn passing_to(source: ConfigSource, server: Option<&Endpoint>, cache: bool) -> ConfigSource {
    let Some(server) = server else { return source };
    preflight::mention_silence(server);
    source.passing_everything_to(server, cache)
}

fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() => Ok((key.trim().to_owned(), value.trim().to_owned())),
        _ => Err("write a key and a value, such as gateway.max_conns=100".to_owned()),
    }
}

/// What is to be done, with everything the command line leaves open filled in.
#[derive(Debug)]
pub(crate) enum Task {
    Up(ConfigSource),
    Demo(demo::Plan),
    Pub { source: ConfigSource, what: Publish },
    Sub { source: ConfigSource, what: Subscribe },
    Peers { source: ConfigSource, watch: Option<Duration>, json: bool },
    Losses { source: ConfigSource, after: u64, json: bool },
    OverlayTop { source: ConfigSource, interval: Duration, json: bool },
    OverlayBench { near: ConfigSource, far: Option<ConfigSource>, plan: Bench },
    ObjectPut { source: ConfigSource, what: PutObject },
    ObjectGet { source: ConfigSource, id: ObjectId, output: Option<PathBuf> },
    NodeId(ConfigSource),
    NodeKey(ConfigSource),
    Fairness { plan: Plan, json: bool },
    Check(ConfigSource),
    Token(TokenCommand),
    Cas(CasCommand),
    Cache(CacheCommand),
    Ledger(LedgerCommand),
    Pack(PackCommand),
    Epoch(EpochCommand),
    Policy(PolicyCommand),
    ConfigInit { path: PathBuf, force: bool },
    ConfigShow { source: ConfigSource, json: bool },
    ConfigSchema,
    ConfigReference,
    DocsConcurrency { dir: PathBuf, check: bool },
    DocsDashboards { dir: PathBuf, check: bool },
    DocsManuals { dir: PathBuf },
    Completions(Shell),
    Man { dir: Option<PathBuf> },
    Version { json: bool },
}

impl Cli {
    /// Fills in what the command line leaves to the environment and the working directory.
    pub(crate) fn resolve(self) -> Result<Task, Failure> {
        Ok(match self.command {
            Command::Up { config, to } => Task::Up(passing_to(config.resolve()?, to.as_ref(), false)),
            Command::Demo { length, epoch } => Task::Demo(demo::Plan { length, epoch }),
            Command::Gateway { config, to, cache, listen } => {
                let source = config.resolve()?.only("gateway").listening(listen.as_ref());
                Task::Up(passing_to(source, to.as_ref(), cache))
            }
            Command::Edge { config, pack, dir, allow_origin, listen } => {
                preflight::refuse_what_is_no_pack(&pack)?;
                let source = config.resolve()?.only("edge").read_by_pages_of(&allow_origin);
                Task::Up(source.serving(&pack, &dir, listen.as_ref()))
            }
            Command::Rewarder { config } => Task::Up(config.resolve()?.only("rewarder")),
            Command::Overlay { look: Some(look), .. } => look.resolve()?,
            Command::Overlay { look: None, config, listen, peer } => {
                Task::Up(config.resolve()?.only("overlay").linking(listen.as_ref(), &peer))
            }
            Command::Pub { config, topic, message, lines, wait, json } => {
                let what = Publish { topic, message, lines, wait, json };
                Task::Pub { source: config.resolve()?, what }
            }
            Command::Sub { config, topic, resume, count, json } => {
                Task::Sub { source: config.resolve()?, what: Subscribe { topic, resume, count, json } }
            }
            Command::Peers { config, watch, interval, json } => {
                Task::Peers { source: config.resolve()?, watch: watch.then_some(interval), json }
            }
            Command::Losses { config, after, json } => {
                Task::Losses { source: config.resolve()?, after, json }
            }
            Command::Object(ObjectCommand::Put { config, file, to, json }) => {
                Task::ObjectPut { source: config.resolve()?, what: PutObject { file, to, json } }
            }
            Command::Object(ObjectCommand::Get { config, id, output }) => {
                Task::ObjectGet { source: config.resolve()?, id, output }
            }
            Command::Node(NodeCommand::Id { config }) => Task::NodeId(config.resolve()?),
            Command::Node(NodeCommand::Key { config }) => Task::NodeKey(config.resolve()?),
            Command::Fairness { only, case, length, repeat, slots, service_time, json } => {
                let plan = Plan { only, case, length, repeat, slots: slots.into(), service_time };
                Task::Fairness { plan, json }
            }
            Command::Check { config } => Task::Check(config.resolve()?),
            Command::Token(command) => Task::Token(command),
            Command::Cas(command) => Task::Cas(command),
            Command::Cache(command) => Task::Cache(command),
            Command::Ledger(command) => Task::Ledger(command),
            Command::Pack(command) => Task::Pack(command),
            Command::Epoch(command) => Task::Epoch(command),
            Command::Policy(command) => Task::Policy(command),
            Command::Config(ConfigCommand::Init { path, force }) => Task::ConfigInit { path, force },
            Command::Config(ConfigCommand::Show { config, json }) => {
                Task::ConfigShow { source: config.resolve()?, json }
            }
            Command::Config(ConfigCommand::Schema) => Task::ConfigSchema,
            Command::Config(ConfigCommand::Reference) => Task::ConfigReference,
            Command::Docs(DocsCommand::Concurrency { dir, check }) => Task::DocsConcurrency { dir, check },
            Command::Docs(DocsCommand::Dashboards { dir, check }) => Task::DocsDashboards { dir, check },
            Command::Docs(DocsCommand::Manuals { dir }) => Task::DocsManuals { dir },
            Command::Completions { shell } => Task::Completions(shell),
            Command::Man { dir } => Task::Man { dir },
            Command::Version { json } => Task::Version { json },
        })
    }
}

#[cfg(test)]
mod documented;

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_well_formed() {
        Cli::command().debug_assert();
    }

    #[test]
    fn an_assignment_splits_at_its_first_equals_sign() {
        let pair = |key: &str, value: &str| Ok((key.to_owned(), value.to_owned()));
        assert_eq!(assignment("a.b=c=d"), pair("a.b", "c=d"));
        assert_eq!(assignment("a.b ="), pair("a.b", ""));
        for wrong in ["a.b", "=1", " =1", ""] {
            assert!(assignment(wrong).is_err(), "{wrong}");
        }
    }
}
