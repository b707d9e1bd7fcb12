//! How connections reach the cores: the product's acceptor against one `SO_REUSEPORT` socket per core.
//!
//! A third model, an acceptor in front of the bare HTTP library, tells what of the difference is the accepting and
//! what is the serve loop.

mod client;
mod process;
mod servers;

use crate::{
    Failure,
    paired::Pair,
    report::{Group, Report},
};
use client::Load;
use process::Server;

pub(crate) use servers::{SERVE, serve};

/// How often the connections of the balance test are made.
const TRIALS: usize = 40;

/// A way to get connections to cores.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Model {
    /// The product: `HttpServer`.
    Acceptor,
    /// One socket, the least loaded core, and the bare HTTP library.
    HandOver,
    /// A socket per core, the system's choice, and the bare HTTP library.
    ReusePort,
}

impl Model {
    const ALL: [Self; 3] = [Self::Acceptor, Self::HandOver, Self::ReusePort];

    const fn name(self) -> &'static str {
        match self {
            Self::Acceptor => "acceptor",
            Self::HandOver => "hand-over",
            Self::ReusePort => "reuse-port",
        }
    }
}

/// The comparisons, ours first.
const COMPARED: [(Model, Model, &str); 3] = [
    (Model::Acceptor, Model::ReusePort, "SO_REUSEPORT, bare hyper"),
    (Model::HandOver, Model::ReusePort, "SO_REUSEPORT, bare hyper"),
    (Model::Acceptor, Model::HandOver, "acceptor, bare hyper"),
];

/// Runs every model `rounds` times in turn, a connection per request, then looks at the balance between cores.
pub(crate) fn run(rounds: usize, secs: u64, report: &mut Report) -> Result<(), Failure> {
    let mut servers = Vec::new();
    for model in Model::ALL {
        servers.push(Server::start(model.name())?);
    }
    let mut loads: Vec<Vec<Load>> = vec![Vec::new(); servers.len()];
    // One round to warm up, not counted.
    for round in 0..=rounds {
        for turn in 0..servers.len() {
            let at = (round + turn) % servers.len();
            let load = Load::run(&servers[at], secs)?;
            if round > 0 {
                loads[at].push(load);
            }
        }
    }
    let balances =
        servers.iter().map(|server| client::balance(server, TRIALS)).collect::<Result<Vec<_>, _>>()?;
    for (ours, bare, against) in COMPARED {
        let (a, b) = (ours as usize, bare as usize);
        let mut add = |unit, pair| {
            let group = Group { name: "accept", unit, against, goal: None };
            report.add(group, ours.name(), pair);
        };
        let pairs = |of: fn(&Load) -> f64| -> Vec<_> {
            loads[a].iter().map(of).zip(loads[b].iter().map(of)).collect()
        };
        add("req/s", Pair::of(&pairs(|load| load.per_second)));
        add("µs CPU/req", Pair::of(&pairs(|load| load.cpu_us)));
        let balance: Vec<_> = balances[a].iter().copied().zip(balances[b].iter().copied()).collect();
        add("max/mean", Pair::of(&balance));
    }
    Ok(())
}
