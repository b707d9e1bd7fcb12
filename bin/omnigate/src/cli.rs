//! The command line: as typed ([`Cli`]), and as used ([`Task`]) once files, variables and flags are known.

mod config;
pub(crate) mod help;
mod node;
mod overlay;
mod running;

use std::{path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand};
use clap_complete::Shell;
use ron_transport::addr::{Endpoint, ListenAddr};
use svc_overlay::PeerAddr;
use types::{NodeId, ObjectId};

use crate::{
    commands::{
        Bench, CacheCommand, CasCommand, EpochCommand, LedgerCommand, PackCommand, PolicyCommand, Publish,
        PutObject, Running, Subscribe, TokenCommand,
    },
    config_file::ConfigSource,
    demo,
    failure::Failure,
    fairness::{self, Plan},
    preflight,
};
use config::ConfigCommand;
use node::NodeCommand;
use overlay::OverlayCommand;
use running::{AskArgs, StopArgs, TopArgs};

/// The first commands, shown at the end of the help.
const FIRST_STEPS: &str = "\
First steps:
  omnigate demo                                a whole node with a crowd, to look at
  omnigate gateway --to http://127.0.0.1:3000  in front of a server of yours
  omnigate config init                         a file with every setting, explained";

/// A node of an edge network in one program: a fair gateway, an edge that verifies what it serves, an overlay
/// between nodes, and rewards that anyone can verify.
///
/// Exit codes: 0: done, or drained cleanly; 1: could not start, or failed; 2: wrong command line or configuration;
/// 3: the drain deadline passed; 4: a thread or blocking call did not stop before the deadline; 5: a second signal
/// ended the process at once.
#[derive(Debug, Parser)]
#[command(name = "omnigate", version, propagate_version = true, after_help = FIRST_STEPS)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run every service that the configuration enables.
    ///
    /// SIGTERM and SIGINT drain the node, and a second one ends it at once. SIGHUP reloads the configuration and
    /// certificates. SIGUSR2 starts the program again with the same sockets and drains this process once the new
    /// one is ready.
    #[command(visible_alias = "start")]
    Up {
        #[command(flatten)]
        config: ConfigArgs,
        /// Forward every request to this server, such as `http://127.0.0.1:3000`; no file needed.
        #[arg(long, value_name = "URL")]
        to: Option<Endpoint>,
    },
    /// Run a demonstration: three nodes with clients, a flood, a map and payouts.
    ///
    /// Everything runs in this process, on free loopback ports and in a temporary folder: a server, clients with a
    /// modest load, a client that floods, a map, and two more nodes. All nodes are paid for what they served at the
    /// end of each epoch. Ctrl-C drains it, and nothing is left behind.
    Demo {
        /// Exit after this time.
        #[arg(long = "for", value_name = "TIME", value_parser = duration)]
        length: Option<Duration>,
        /// The length of an epoch.
        #[arg(long, value_name = "TIME", default_value = "30s", value_parser = duration)]
        epoch: Duration,
    },
    /// Run only the gateway, whatever else the configuration enables.
    ///
    /// Signals work as for `up`.
    Gateway {
        #[command(flatten)]
        config: ConfigArgs,
        /// Forward every request to this server, such as `http://127.0.0.1:3000`; no file needed.
        #[arg(long, value_name = "URL")]
        to: Option<Endpoint>,
        /// Store and reuse that server's responses, as a shared HTTP cache does: in memory only, unless there is a
        /// configuration file, or `node.data_dir` or `gateway.cache.disk_bytes` is set.
        #[arg(long, requires = "to")]
        cache: bool,
        /// Obtain a certificate for this DNS name from Let's Encrypt and renew it; listens on ports 443 and 80, unless
        /// `--listen` or a setting says otherwise. May be repeated. You agree to the CA's terms of service.
        #[arg(long, value_name = "NAME")]
        acme: Vec<String>,
        /// The address at which the CA may reach you.
        #[arg(long, value_name = "ADDRESS", requires = "acme")]
        acme_email: Option<String>,
        /// Listen on this address, such as `0.0.0.0:8080`.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<ListenAddr>,
    },
    /// Run only the edge: serve tile packs and folders, with every byte verified.
    ///
    /// Signals work as for `up`. Folders are a website at `/`, and also at `/edge/assets/`; maps are at
    /// `/edge/tiles/<pack>`, and the list of packs is at `/edge/packs`.
    Edge {
        #[command(flatten)]
        config: ConfigArgs,
        /// Serve this tile pack, PMTiles or MBTiles, instead of those in the file. May be repeated.
        #[arg(long, value_name = "FILE")]
        pack: Vec<PathBuf>,
        /// Serve this folder as a website, instead of those in the file. May be repeated; the first folder that has
        /// a file is used.
        #[arg(long, value_name = "FOLDER")]
        dir: Vec<PathBuf>,
        /// Serve this file of the folder for pages that do not exist, such as `index.html` for a single-page
        /// application.
        #[arg(long, value_name = "FILE", requires = "dir")]
        fallback: Option<String>,
        /// Let pages of this site read the responses (CORS), such as `https://map.example.org`; `*` for all. May be
        /// repeated.
        #[arg(long, value_name = "ORIGIN")]
        allow_origin: Vec<String>,
        /// Listen on this address, such as `0.0.0.0:8081`.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<ListenAddr>,
    },
    /// Run only the rewarder: record usage, compute epochs, and pay them.
    ///
    /// Signals work as for `up`. The HTTP interface is described at `/rewarder/openapi.json`.
    Rewarder {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Run only the overlay: sessions with other nodes, publications, objects. `top` and `bench` query a running
    /// one.
    ///
    /// Signals work as for `up`.
    #[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
    Overlay {
        #[command(subcommand)]
        look: Option<OverlayCommand>,
        #[command(flatten)]
        config: ConfigArgs,
        /// Listen on this address, such as `0.0.0.0:9500`.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<ListenAddr>,
        /// Dial this node, such as `b3:<node id>@node-b.example:9500`, instead of those in the file. May be repeated.
        #[arg(long, value_name = "PEER")]
        peer: Vec<PeerAddr>,
    },
    /// Show the running node: readiness, services, upstreams with their last errors, certificates, routes, tenants.
    ///
    /// Queries the admin listener that the configuration names, with its token if it has one. Exit code 1 if the
    /// node does not answer.
    Status(AskArgs),
    /// Check whether the running node accepts requests: exit code 0 if it is ready, 1 if it is not or does not
    /// answer.
    ///
    /// Needs no token. The container image uses it as its HEALTHCHECK.
    Health(AskArgs),
    /// Show the running node's requests every second: rates, latencies, busiest routes and tenants, failing
    /// servers.
    ///
    /// On a terminal it is redrawn until Ctrl-C; otherwise each update is one line.
    Top(TopArgs),
    /// Reload the running node's configuration and the files it names, and print the result.
    ///
    /// Exit code 1 if the configuration is refused; the old one then stays in force.
    Reload(AskArgs),
    /// Drain and stop the running node, and wait until it has exited.
    Stop(StopArgs),
    /// Publish in a topic, through the running node that uses this configuration.
    ///
    /// Prints `accepted` once a neighbour has acknowledged the publication, and `local_only` if only that node has
    /// it.
    Pub {
        #[command(flatten)]
        config: ConfigArgs,
        /// The topic to publish in.
        topic: String,
        /// The text to publish; without it, standard input is read.
        message: Option<String>,
        /// Publish each line of standard input separately.
        #[arg(long, conflicts_with = "message")]
        lines: bool,
        /// How long to retry each publication while the node is busy or sheds publications.
        #[arg(long, value_name = "TIME", value_parser = duration, default_value = "30s")]
        wait: Duration,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Subscribe to a topic, through the running node that uses this configuration.
    ///
    /// Publications are printed on standard output, one per line; missing ones are reported on standard error. The
    /// node keeps the latest events of a topic: `--resume` shows those after an event, and says how many are gone.
    /// `--json` has the id of each event as `event_id`.
    Sub {
        #[command(flatten)]
        config: ConfigArgs,
        /// The topic to subscribe to.
        topic: String,
        /// Resume after the event with this id.
        #[arg(long, value_name = "ID")]
        resume: Option<String>,
        /// Exit after this many publications.
        #[arg(long, value_name = "NUMBER")]
        count: Option<u64>,
        /// Print everything as JSON, one line each, on standard output.
        #[arg(long)]
        json: bool,
    },
    /// Show the peers of the running node that uses this configuration.
    Peers {
        #[command(flatten)]
        config: ConfigArgs,
        /// Keep running, and print a line whenever a peer joins or leaves.
        #[arg(long)]
        watch: bool,
        /// Interval between two checks.
        #[arg(long, value_name = "TIME", default_value = "1s", value_parser = duration, requires = "watch")]
        interval: Duration,
        /// Print JSON; with `--watch`, one line each.
        #[arg(long)]
        json: bool,
    },
    /// Show the publications that the running node lost, and the gaps that its subscribers were told of.
    ///
    /// Totals by topic, reason and peer come first, then each loss and each gap, with the sequence numbers of the
    /// publications.
    Losses {
        #[command(flatten)]
        config: ConfigArgs,
        /// List only losses with a higher number than this.
        #[arg(long, value_name = "NUMBER", default_value_t = 0)]
        after: u64,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Store and fetch objects, through the running node that uses this configuration.
    #[command(subcommand)]
    Object(ObjectCommand),
    /// Show this node's id and public key.
    #[command(subcommand)]
    Node(NodeCommand),
    /// Measure on this machine whether a flooding tenant affects another one.
    ///
    /// Starts a server with a few slots, puts this gateway in front, floods it, and prints what the victim sees
    /// with admission off, with a FIFO queue, and with fair queueing. Uses only loopback and exits by itself. Exit
    /// code 1 if a test fails.
    Fairness {
        /// Run only these tests: T1 (elephant), T4 (weights), T5 (slow requests and readers), T8 (many keys). These
        /// run only if named: T2 (0.5× to 10×), T3 (a flood that ends), T9 (reloads), T10 (hostile clients), retry
        /// (`Retry-After`).
        #[arg(long, value_name = "TEST", value_delimiter = ',', value_parser = fairness::TESTS, ignore_case = true)]
        only: Vec<String>,
        /// Run only the cases whose names contain this, and the baselines they are compared with.
        #[arg(long, value_name = "TEXT")]
        case: Option<String>,
        /// Measuring time per case.
        #[arg(long, value_name = "TIME", default_value = "5s", value_parser = duration)]
        length: Duration,
        /// Number of runs; after the first, only cases with a target are run.
        #[arg(long, value_name = "TIMES", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
        repeat: u32,
        /// Slots of the server behind the gateway.
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(2..=1000))]
        slots: u16,
        /// Average time that a request holds a slot; single requests vary by a fifth.
        #[arg(long, value_name = "TIME", default_value = "10ms", value_parser = duration)]
        service_time: Duration,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
        /// Run only the hostile clients of the case, against a gateway on this machine; the command uses this itself.
        #[arg(long, value_name = "ADDRESS", hide = true, requires = "case")]
        attack: Option<std::net::SocketAddr>,
    },
    /// Check the configuration without opening anything.
    Check {
        #[command(flatten)]
        config: ConfigArgs,
    },
    /// Mint, attenuate, inspect, verify and revoke capability tokens.
    #[command(subcommand)]
    Token(TokenCommand),
    /// Print a user's line for a file of users, with a hash of the password that is read from standard input.
    Password {
        /// The user's name.
        user: String,
    },
    /// Store, fetch and check objects by the hash of their bytes.
    #[command(subcommand)]
    Cas(CasCommand),
    /// Show and purge the gateway's stored responses, through the running node that uses this configuration.
    #[command(subcommand)]
    Cache(CacheCommand),
    /// Show, verify, export, sign and back up the ledger, and post transfers.
    #[command(subcommand)]
    Ledger(LedgerCommand),
    /// Check, inspect and make packs of map tiles.
    #[command(subcommand)]
    Pack(PackCommand),
    /// Verify, prove and recompute the payouts of an epoch.
    #[command(subcommand)]
    Epoch(EpochCommand),
    /// Sign, verify and show reward policies.
    #[command(subcommand)]
    Policy(PolicyCommand),
    /// Write, show and describe the configuration.
    #[command(subcommand)]
    Config(ConfigCommand),
    /// Write the generated documentation.
    #[command(subcommand)]
    Docs(DocsCommand),
    /// Print a completion script for a shell.
    Completions {
        /// The shell that the script is for.
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
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
}

#[derive(Debug, Subcommand)]
enum ObjectCommand {
    /// Store a file as an object, print its name, and send it to peers.
    Put {
        #[command(flatten)]
        config: ConfigArgs,
        /// The file; `-` is standard input.
        file: PathBuf,
        /// Send it to the peer with this node id, and wait until it is stored there. May be repeated.
        #[arg(long, value_name = "NODE")]
        to: Vec<NodeId>,
        /// Print the result as JSON.
        #[arg(long)]
        json: bool,
    },
    /// Fetch an object by its name, from the node or its peers. Every byte is verified, on the way and again at the
    /// end.
    Get {
        #[command(flatten)]
        config: ConfigArgs,
        /// The object: `b3:` and 64 hexadecimal digits.
        id: ObjectId,
        /// The file to write, completely or not at all; without it, standard output.
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
    },
}

#[derive(Debug, Subcommand)]
enum DocsCommand {
    /// Write one page per service: its tasks, queues, timeouts and how it stops.
    Concurrency {
        /// The folder of the pages.
        #[arg(long, value_name = "FOLDER", default_value = "docs/concurrency")]
        dir: PathBuf,
        /// Write nothing; fail if a page is out of date.
        #[arg(long)]
        check: bool,
    },
    /// Write a Grafana dashboard and Prometheus alert rules for every metric, task and queue that is declared.
    Dashboards {
        /// The folder of the files.
        #[arg(long, value_name = "FOLDER", default_value = "deploy/observability")]
        dir: PathBuf,
        /// Write nothing; fail if a file is out of date.
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

/// The source of the configuration.
#[derive(Args, Debug)]
pub(crate) struct ConfigArgs {
    /// The configuration file. Without it, ./omnigate.toml if it exists, else the defaults.
    #[arg(long, value_name = "FILE", env = "OMNIGATE_CONFIG")]
    config: Option<PathBuf>,
    /// Override one setting of the file and the environment: `--set gateway.max_conns=100`. May be repeated.
    ///
    /// Other users of the machine can see the command line; put secrets into the file or the environment, as in
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
    NodeId { source: ConfigSource, rewarder: bool },
    NodeKey { source: ConfigSource, rewarder: bool },
    Running { source: ConfigSource, what: Running },
    Fairness { plan: Plan, json: bool },
    Check(ConfigSource),
    Password(String),
    Token(TokenCommand),
    Cas(CasCommand),
    Cache(CacheCommand),
    Ledger(LedgerCommand),
    Pack(PackCommand),
    Epoch(EpochCommand),
    Policy(PolicyCommand),
    ConfigInit { path: PathBuf, full: bool, force: bool },
    ConfigDiff { source: ConfigSource, json: bool },
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
            Command::Gateway { config, to, cache, acme, acme_email, listen } => {
                let source = config.resolve()?.only("gateway").listening(listen.as_ref());
                let source = source.certified(&acme, acme_email);
                Task::Up(passing_to(source, to.as_ref(), cache))
            }
            Command::Edge { config, pack, dir, fallback, allow_origin, listen } => {
                preflight::refuse_what_is_no_pack(&pack)?;
                preflight::refuse_what_is_no_folder(&dir)?;
                let source = config.resolve()?.only("edge").read_by_pages_of(&allow_origin);
                Task::Up(source.serving(&pack, &dir, listen.as_ref()).with_fallback(fallback))
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
            Command::Node(command) => command.resolve()?,
            Command::Fairness { only, case, length, repeat, slots, service_time, json, attack } => {
                let plan = Plan { only, case, length, repeat, slots: slots.into(), service_time, attack };
                Task::Fairness { plan, json }
            }
            Command::Status(args) => args.status()?,
            Command::Health(args) => args.health()?,
            Command::Top(args) => args.resolve()?,
            Command::Reload(args) => args.reload()?,
            Command::Stop(args) => args.resolve()?,
            Command::Check { config } => Task::Check(config.resolve()?),
            Command::Password { user } => Task::Password(user),
            Command::Token(command) => Task::Token(command),
            Command::Cas(command) => Task::Cas(command),
            Command::Cache(command) => Task::Cache(command),
            Command::Ledger(command) => Task::Ledger(command),
            Command::Pack(command) => Task::Pack(command),
            Command::Epoch(command) => Task::Epoch(command),
            Command::Policy(command) => Task::Policy(command),
            Command::Config(command) => command.resolve()?,
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
