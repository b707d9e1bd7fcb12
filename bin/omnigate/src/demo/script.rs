//! The demo's files and addresses.

use std::{
    io,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::{Path, PathBuf},
};

use crate::commands::make_demo_pack;

/// How deep the demo's map is: drawn in a moment, and enough to look at. Without optimisation drawing takes fifty times
/// as long.
pub(super) const ZOOM: u8 = if cfg!(debug_assertions) { 1 } else { 4 };

/// Where the demo's node listens.
#[derive(Clone, Copy, Debug)]
pub(super) struct Places {
    pub(super) gateway: SocketAddr,
    pub(super) edge: SocketAddr,
    pub(super) admin: SocketAddr,
}

impl Places {
    /// Finds free ports. Held all at once, so that none is found twice, and let go for the node to take.
    pub(super) fn find() -> io::Result<Self> {
        let held = [(); 3].map(|()| TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let [gateway, edge, admin] = held.map(|listener| listener.and_then(|held| held.local_addr()));
        Ok(Self { gateway: gateway?, edge: edge?, admin: admin? })
    }
}

/// Writes the map and the configuration; returns where the latter is. Blocking.
#[expect(clippy::disallowed_methods, reason = "no runtime is running yet")]
pub(super) fn write(dir: &Path, places: &Places, upstream: SocketAddr) -> io::Result<PathBuf> {
    make_demo_pack(&dir.join("world.pmtiles"), ZOOM)?;
    let file = dir.join("omnigate.toml");
    std::fs::write(&file, config(dir, places, upstream))?;
    Ok(file)
}

/// Nothing but fairness protects anybody here: rates are out of the way.
fn config(dir: &Path, places: &Places, upstream: SocketAddr) -> String {
    let Places { gateway, edge, admin } = places;
    let text = |path: PathBuf| toml::Value::String(path.to_string_lossy().into_owned());
    let (data, pack) = (text(dir.join("data")), text(dir.join("world.pmtiles")));
    format!(
        r#"[node]
name = "demo"
data_dir = {data}
[log]
level = "warn"
[admin]
listen = "{admin}"
[gateway]
listen = "{gateway}"
max_conns_per_client = 1024
tenant_from = ["header:x-tenant", "ip"]
quotas = {{ per_ip_rps = 0, per_cap_rps = 0 }}
drr = {{ rate_limit_rps = 0 }}
fair_queue = {{ max_inflight = {slots} }}
route = [{{ path = "/edge/", service = "edge" }}, {{ path = "/", upstream = "app" }}]
[gateway.upstream.app]
endpoints = ["http://{upstream}"]
[edge]
enabled = true
listen = "{edge}"
packs = [{pack}]
"#,
        slots = super::SLOTS,
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_demos_configuration_is_a_good_one() {
        let addr = |port| SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let places = Places { gateway: addr(1), edge: addr(2), admin: addr(3) };
        let text = config(Path::new("/tmp/with \"quotes\""), &places, addr(4));
        let loader = ron_kernel::config::Loader::new(crate::config_file::schema(), "OMNIGATE_");
        let file = Some((PathBuf::from("demo.toml"), text));
        let loaded = loader.load(ron_kernel::config::Sources { file, env: vec![], flags: vec![] });
        assert!(loaded.is_ok(), "{loaded:?}");
    }
}
