//! The demo's files and addresses: three nodes, of which the first has all the services and counts for the others.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    ops::Range,
    path::{Path, PathBuf},
    time::Duration,
};

use svc_overlay::load_or_make_node_key;
use types::NodeId;

use super::treasury::{self, SignedTerms};
use crate::commands::make_demo_pack;

/// How deep the demo's map is: drawn in a moment, and enough to look at. Without optimisation drawing takes fifty times
/// as long.
pub(super) const ZOOM: u8 = if cfg!(debug_assertions) { 1 } else { 4 };
/// Where nodes may listen: below the ports that the system gives to connections. The guests open hundreds of those, and one
/// could have the port of a node that is about to listen.
const PORTS: Range<u16> = 10_000..32_000;
/// The nodes, the first being the one to look at.
const NAMES: [&str; 3] = ["demo", "north", "south"];

/// The listening addresses of a node.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) gateway: SocketAddr,
    pub(super) edge: SocketAddr,
    pub(super) overlay: SocketAddr,
    pub(super) rewarder: SocketAddr,
    pub(super) admin: SocketAddr,
}

/// A node of the demo.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) name: &'static str,
    pub(super) places: Places,
    /// The path of its configuration file.
    pub(super) config: PathBuf,
    id: String,
    data: PathBuf,
}

impl Places {
    /// Finds free ports. Held all at once, so that none is found twice, and let go for the nodes to take.
    fn find() -> io::Result<[Self; NAMES.len()]> {
        // Another demo begins to look elsewhere.
        let begin = usize::try_from(std::process::id()).unwrap_or(0) % PORTS.len();
        let mut ports = PORTS.cycle().skip(begin).take(PORTS.len());
        let mut hold = || {
            let free = ports.by_ref().find_map(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, port)).ok());
            free.ok_or(io::Error::from(io::ErrorKind::AddrInUse))
        };
        let held = [[(); 5]; NAMES.len()].map(|ports| ports.map(|()| hold()));
        let place = |listener: io::Result<TcpListener>| listener.and_then(|held| held.local_addr());
        let [demo, north, south] = held.map(|[gateway, edge, overlay, rewarder, admin]| {
            Ok::<_, io::Error>(Self {
                gateway: place(gateway)?,
                edge: place(edge)?,
                overlay: place(overlay)?,
                rewarder: place(rewarder)?,
                admin: place(admin)?,
            })
        });
        Ok([demo?, north?, south?])
    }
}

/// Writes the map, the policy, the ledger, and each node's key and configuration. Blocking.
#[expect(clippy::disallowed_methods, reason = "no runtime is running yet")]
pub(super) fn write(
    dir: &Path,
    upstream: SocketAddr,
    epoch: Duration,
) -> Result<[Node; NAMES.len()], String> {
    let failed = |error: io::Error| error.to_string();
    let map = dir.join("world.pmtiles");
    make_demo_pack(&map, ZOOM).map_err(failed)?;
    let policy = treasury::write_policy(dir).map_err(failed)?;
    let [demo, north, south] = Places::find().map_err(failed)?;
    let node = |name: &'static str, places: Places| -> Result<Node, String> {
        let data = dir.join(name);
        let key = load_or_make_node_key(Some(&data)).map_err(|error| error.to_string())?;
        let id = NodeId::of_key(key.public_key().ed25519()).to_string();
        Ok(Node { name, places, config: dir.join(format!("{name}.toml")), id, data })
    };
    let nodes = [node(NAMES[0], demo)?, node(NAMES[1], north)?, node(NAMES[2], south)?];
    treasury::fund(&nodes[0].data.join("ledger.db"))?;
    for (index, node) in nodes.iter().enumerate() {
        let own = if index == 0 { front(&nodes, &policy, upstream) } else { NEIGHBOUR.to_owned() };
        let text = format!("{}{own}{}", common(node, &nodes, &map), epochs(epoch));
        std::fs::write(&node.config, text).map_err(failed)?;
    }
    Ok(nodes)
}

/// What all of them have: a map, and each other.
fn common(node: &Node, nodes: &[Node], map: &Path) -> String {
    let others = nodes.iter().filter(|other| other.name != node.name);
    let peers: Vec<_> = others.map(|other| format!("\"{}@{}\"", other.id, other.places.overlay)).collect();
    let Node { name, places, data, .. } = node;
    format!(
        r#"[node]
name = "{name}"
data_dir = {data}
[log]
level = "error"
[admin]
listen = "{admin}"
[edge]
enabled = true
listen = "{edge}"
packs = [{map}]
[overlay]
enabled = true
listen = "{overlay}"
topics = ["omnigate/accounting"]
peers = [{peers}]
"#,
        data = text(data),
        map = text(map),
        admin = places.admin,
        edge = places.edge,
        overlay = places.overlay,
        peers = peers.join(", "),
    )
}

/// What the first has besides: a gateway, and the rewarder that counts for all. Nothing but fairness protects anybody
/// there: rates are out of the way.
fn front(nodes: &[Node], policy: &SignedTerms, upstream: SocketAddr) -> String {
    let ids: Vec<_> = nodes.iter().map(|node| format!("\"{}\"", node.id)).collect();
    format!(
        r#"[gateway]
listen = "{gateway}"
max_conns_per_client = 1024
tenant_from = ["header:x-tenant", "ip"]
quotas = {{ per_ip_rps = 0, per_cap_rps = 0 }}
drr = {{ rate_limit_rps = 0 }}
fair_queue = {{ max_inflight = {slots} }}
route = [{{ path = "/edge/", service = "edge" }}, {{ path = "/", upstream = "app" }}]
[gateway.upstream.app]
endpoints = ["http://{upstream}"]
[rewarder]
enabled = true
listen = "{rewarder}"
policy_files = [{policy}]
policy_keys = ["{key}"]
accounting_nodes = [{ids}]
"#,
        gateway = nodes[0].places.gateway,
        rewarder = nodes[0].places.rewarder,
        slots = super::SLOTS,
        policy = text(&policy.file),
        key = policy.key,
        ids = ids.join(", "),
    )
}

/// What the others have besides: they keep accounts, and leave it to the first to count them.
const NEIGHBOUR: &str = r#"[gateway]
enabled = false
[rewarder]
enabled = true
listen = "127.0.0.1:0"
automatic = false
"#;

/// The end of each configuration, in the table of the rewarder: clocks of one process are never apart, but announcements
/// take a moment.
fn epochs(length: Duration) -> String {
    let skew = (length / 8).min(Duration::from_secs(4));
    let text = humantime::format_duration;
    format!("epoch_duration = \"{}\"\nmax_epoch_skew = \"{}\"\n", text(length), text(skew))
}

fn text(path: &Path) -> String {
    toml::Value::String(path.to_string_lossy().into_owned()).to_string()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn the_demos_configurations_are_good_ones() {
        let dir = tempfile::tempdir().unwrap();
        let nodes =
            write(dir.path(), SocketAddr::from((Ipv4Addr::LOCALHOST, 4)), Duration::from_secs(30)).unwrap();
        for node in nodes {
            let loaded = crate::config_file::ConfigSource::of_file_alone(node.config).load();
            assert!(loaded.is_ok(), "{}: {loaded:?}", node.name);
        }
    }
}
