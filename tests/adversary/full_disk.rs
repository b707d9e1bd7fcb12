//! An edge whose disk has no room left, while it runs and when it starts: it serves what it cannot store, and says so.

use std::{
    fs,
    io::{BufRead, BufReader, Write},
    net::{SocketAddr, TcpStream},
    process::{Child, Command, Stdio},
    thread,
};

use crate::{
    scripted_server,
    support::{Client, be_patient, eventually, free_addr, get},
};

/// The length of every object of the origin.
const LEN: usize = 300_000;

/// What the origin has at a path.
fn object(path: &str) -> Vec<u8> {
    let mut bytes = vec![0; LEN];
    blake3::Hasher::new().update(path.as_bytes()).finalize_xof().fill(&mut bytes);
    bytes
}

fn origin() -> SocketAddr {
    scripted_server::start(answer)
}

fn answer(stream: TcpStream) -> std::io::Result<()> {
    let (mut reader, mut writer) = (BufReader::new(stream.try_clone()?), stream);
    loop {
        let (mut path, mut line) = (String::new(), String::new());
        while reader.read_line(&mut line)? > 2 {
            if path.is_empty() {
                path = line.split(' ').nth(1).unwrap_or_default().to_owned();
            }
            line.clear();
        }
        if path.is_empty() {
            return Ok(());
        }
        write!(
            writer,
            "HTTP/1.1 200 OK\r\netag: \"v1\"\r\ncache-control: max-age=60\r\ncontent-length: {LEN}\r\n\r\n"
        )?;
        writer.write_all(&object(&path))?;
    }
}

/// A node whose data is on a disk of its own, which is small.
struct SmallDisk {
    node: Child,
    dir: tempfile::TempDir,
    edge: SocketAddr,
    admin: SocketAddr,
    origin: SocketAddr,
}

impl SmallDisk {
    /// Starts one after a command has run in its folder of data.
    fn start(before: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (edge, admin, origin) = (free_addr(), free_addr(), origin());
        let config = format!(
            "[admin]\nlisten = \"{admin}\"\n[gateway]\nenabled = false\n[node]\ndata_dir = \"./data\"\n\
             [edge]\nenabled = true\nlisten = \"{edge}\"\nmode = \"live\"\ningress.rps_limit = 0\ningress.fill_rps_limit = 0\n\
             allow = [{{ host = \"{origin}\", scheme = \"http\", private = true }}]\n"
        );
        fs::create_dir(dir.path().join("data")).unwrap();
        fs::write(dir.path().join("omnigate.toml"), &config).unwrap();
        let program =
            std::env::var("OMNIGATE_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_omnigate").to_owned());
        // A namespace of its own, in which anybody may mount a disk of memory.
        let script = format!(
            "mount -t tmpfs -o size=1m none data && (cd data && {before}); exec {program} up --config omnigate.toml"
        );
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]).current_dir(dir.path()).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        be_patient(&mut command, &config);
        let log = fs::File::create(dir.path().join("node.log")).unwrap();
        let node = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut started = Self { node, dir, edge, admin, origin };
        eventually("the node is ready", || {
            let ended = started.node.try_wait().unwrap();
            assert!(ended.is_none(), "it ended while starting");
            get(started.admin, "/readyz").ok().filter(|answer| answer.status == 200)
        });
        started
    }

    /// Asks for an object, and expects it.
    fn is_served(&self, path: &str) {
        let answer =
            Client::connect(self.edge).unwrap().get(&format!("/edge/assets/{}{path}", self.origin)).unwrap();
        assert!(
            answer.status == 200 && answer.bytes == object(path),
            "{path}: {} {}",
            answer.status,
            answer.body
        );
    }

    fn says_that_it_is_full(&self) -> bool {
        get(self.admin, "/readyz").is_ok_and(|answer| answer.body.contains("store_full"))
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.node.kill();
        let _ = self.node.wait();
        if thread::panicking() {
            let log = fs::read_to_string(self.dir.path().join("node.log")).unwrap_or_default();
            eprintln!("the node's log:\n{log}");
        }
    }
}

#[test]
fn what_does_not_fit_on_the_disk_is_served_all_the_same() {
    let edge = SmallDisk::start("true");
    edge.is_served("/first");
    assert!(!edge.says_that_it_is_full());
    for nth in 0..6 {
        edge.is_served(&format!("/{nth}"));
    }
    eventually("readiness says that the disk is full", || edge.says_that_it_is_full().then_some(()));
    edge.is_served("/first");
    edge.is_served("/5");
}

#[test]
fn a_node_starts_on_a_full_disk_and_serves() {
    let edge = SmallDisk::start("dd if=/dev/zero of=filler bs=4k 2>/dev/null");
    assert!(edge.says_that_it_is_full());
    for path in ["/a", "/b", "/a"] {
        edge.is_served(path);
    }
}
