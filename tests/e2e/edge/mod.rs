//! The edge as a program: what it serves, how it starts, reloads and stops. What it withstands is in `edge_proofs`.

mod clients;
mod life;
mod packs;
mod preview;
mod serving;

use std::{fs, net::SocketAddr, path::Path};

use pmtiles::{Coord, Settings, Writer};

use crate::support::{Answer, Node, ask, eventually, free_addr, get};

/// A node that runs the edge, and where that listens.
struct EdgeNode {
    node: Node,
    addr: SocketAddr,
}

impl EdgeNode {
    /// Starts a node with `[edge]` settings (TOML lines) in a folder that has what they name.
    fn start_in(dir: tempfile::TempDir, settings: &str) -> Self {
        Self::start_with(dir, "enabled = false\n", settings)
    }

    /// The same beside a gateway.
    fn start_with(dir: tempfile::TempDir, gateway: &str, settings: &str) -> Self {
        let addr = free_addr();
        let node = Node::start_in(dir, &edge_settings(addr, gateway, settings));
        Self { node, addr }
    }

    /// Puts other `[edge]` settings into force.
    fn reload(&self, settings: &str) {
        self.node.reload(&edge_settings(self.addr, "enabled = false\n", settings));
    }

    #[track_caller]
    fn get(&self, path: &str) -> Answer {
        get(self.addr, path).unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    #[track_caller]
    fn get_with(&self, path: &str, fields: &str) -> Answer {
        ask(self.addr, format!("GET {path} HTTP/1.1\r\nhost: edge.test\r\n{fields}\r\n")).unwrap()
    }

    /// Waits until the edge has a pack in a state.
    #[track_caller]
    fn wait_for_pack(&self, name: &str, state: &str) {
        eventually(&format!("{name} is {state}"), || {
            let list = self.get("/edge/packs").json();
            let packs = list["packs"].as_array().unwrap();
            packs.iter().any(|pack| pack["name"] == name && pack["state"] == state).then_some(())
        });
    }
}

fn edge_settings(addr: SocketAddr, gateway: &str, settings: &str) -> String {
    // Tests ask from one address, and as fast as they can.
    let edge = format!(
        "[edge]\nenabled = true\nlisten = \"{addr}\"\ningress.rps_limit = 0\ningress.fill_rps_limit = 0\n{settings}\n"
    );
    format!("{gateway}[node]\ndata_dir = \"./data\"\n{edge}")
}

fn write(path: &Path, bytes: &[u8]) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(path, bytes).unwrap();
}

/// Puts a file in another's place, as a new pack is put there.
fn rename_over(path: &Path, bytes: &[u8]) {
    let aside = path.with_extension("aside");
    write(&aside, bytes);
    fs::rename(aside, path).unwrap();
}

/// The places of the zoom levels up to `max`, in the order of a pack.
fn places(max: u8) -> Vec<(u8, u32, u32)> {
    let level = |zoom: u8| (0..1u32 << zoom).flat_map(move |x| (0..1u32 << zoom).map(move |y| (zoom, x, y)));
    let mut all: Vec<_> = (0..=max).flat_map(level).collect();
    all.sort_by_key(|(zoom, x, y)| Coord::new(*zoom, *x, *y).unwrap().id().number());
    all
}

/// A pack whose every tile says its place and its generation, over and over.
fn pack(max: u8, generation: usize) -> Vec<u8> {
    let mut writer = Writer::new(Settings::default());
    for place in places(max) {
        let id = Coord::new(place.0, place.1, place.2).unwrap().id();
        writer.push(id, tile(place, generation).as_bytes()).unwrap();
    }
    writer.finish().unwrap()
}

fn tile((zoom, x, y): (u8, u32, u32), generation: usize) -> String {
    format!("generation {generation} tile {zoom}/{x}/{y}; ").repeat(60)
}
