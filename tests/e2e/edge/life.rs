//! How an edge starts, follows its configuration, and ends.

use std::{
    io::Read,
    net::TcpStream,
    process::{Command, Stdio},
};

use crate::support::{Client, eventually, free_addr, get, signal};

use super::{EdgeNode, pack, tile, write};

#[test]
fn a_reload_adds_and_removes_packs_and_folders_without_touching_the_others() {
    let dir = tempfile::tempdir().unwrap();
    for (name, generation) in [("one", 1), ("two", 2)] {
        write(&dir.path().join(format!("{name}.pmtiles")), &pack(2, generation));
        write(&dir.path().join(name).join("a.txt"), name.as_bytes());
    }
    let edge = EdgeNode::start_in(dir, "packs = [\"one.pmtiles\"]\nroots = [\"one\"]");
    edge.wait_for_pack("one", "served");
    assert_eq!(edge.get("/edge/assets/a.txt").body, "one");
    assert_eq!(edge.get("/edge/tiles/two/0/0/0").status, 404);
    edge.reload("packs = [\"one.pmtiles\", \"two.pmtiles\"]\nroots = [\"two\", \"one\"]");
    edge.wait_for_pack("two", "served");
    assert_eq!(edge.get("/edge/tiles/two/0/0/0").body, tile((0, 0, 0), 2));
    assert_eq!(edge.get("/edge/assets/a.txt").body, "two", "not what is in RAM of the old folder");
    assert_eq!(edge.get("/edge/tiles/one/0/0/0").body, tile((0, 0, 0), 1));
    // Another file under the same name: the old one is served until the new one is mounted.
    edge.reload("packs = [{ path = \"two.pmtiles\", name = \"one\" }]");
    let newest = tile((0, 0, 0), 2);
    eventually("the other file is served", || {
        let answer = edge.get("/edge/tiles/one/0/0/0");
        assert_eq!(answer.status, 200, "{}", answer.body);
        (answer.body == newest).then_some(())
    });
    edge.reload("packs = [\"two.pmtiles\"]\ncache_control.tiles = \"no-store\"");
    assert_eq!(edge.get("/edge/tiles/one/0/0/0").status, 404, "not even from RAM");
    assert_eq!(edge.get("/edge/assets/a.txt").status, 404);
    // It was mounted under another name a moment ago, and under this one it is a new pack.
    edge.wait_for_pack("two", "served");
    let answer = edge.get("/edge/tiles/two/0/0/0");
    assert_eq!((answer.status, answer.header("cache-control")), (200, Some("no-store")));
}

#[test]
fn a_drain_lets_a_download_finish_and_then_exits_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let content: Vec<u8> = (0..8_000_000u32).map(|at| at.to_le_bytes()[0] ^ at.to_le_bytes()[1]).collect();
    write(&dir.path().join("public/large.bin"), &content);
    let mut edge = EdgeNode::start_in(dir, "roots = [\"public\"]");
    let mut idle = Client::connect(edge.addr).unwrap();
    assert_eq!(idle.get("/edge/packs").unwrap().status, 200);
    let mut slow = Client::connect(edge.addr).unwrap();
    slow.send("/edge/assets/large.bin").unwrap();
    eventually("it is being sent", || (edge.node.metric("edge_inflight") > 0.0).then_some(()));
    edge.node.signal("TERM");
    eventually("the drain has begun", || {
        get(edge.node.admin, "/readyz").ok().filter(|answer| answer.body.contains("draining"))
    });
    let answer = slow.receive().expect("what was begun is finished");
    assert!(answer.status == 200 && answer.bytes == content);
    assert_eq!(idle.wait_for_end().expect("FIN, not RST"), b"");
    assert_eq!(edge.node.exit_code(), 0);
}

#[test]
fn one_command_serves_a_pack_and_a_folder_and_says_where() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("world.pmtiles"), &pack(1, 3));
    write(&dir.path().join("public/a.txt"), b"a file");
    let (addr, admin) = (free_addr(), free_addr());
    let mut child = Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(["edge", "--pack", "world.pmtiles", "--dir", "public", "--listen", &addr.to_string()])
        .args(["--set", &format!("admin.listen={admin}")])
        .current_dir(dir.path())
        .env_clear()
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    eventually("it serves", || TcpStream::connect(addr).ok());
    let answer = eventually("the pack is mounted", || {
        get(addr, "/edge/tiles/world/1/0/1").ok().filter(|answer| answer.status == 200)
    });
    assert_eq!(answer.body, tile((1, 0, 1), 3));
    assert_eq!(get(addr, "/edge/assets/a.txt").unwrap().body, "a file");
    assert_eq!(get(admin, "/readyz/gateway").unwrap().status, 404, "the gateway does not run");
    signal(child.id(), "TERM");
    let mut told = String::new();
    child.stdout.take().unwrap().read_to_string(&mut told).unwrap();
    assert!(child.wait().unwrap().success());
    assert!(told.contains(&format!("http://{addr}/edge/tiles/world\n")), "{told}");
}

/// An edge under a tracer.
struct Traced {
    tracer: std::process::Child,
    dir: tempfile::TempDir,
    addr: std::net::SocketAddr,
    admin: std::net::SocketAddr,
}

impl Traced {
    /// Starts an edge with a pack and a folder, and notes those system calls.
    fn start(calls: &str, settings: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("world.pmtiles"), &pack(2, 0));
        write(&dir.path().join("public/a.txt"), b"a file");
        write(&dir.path().join("public/large.bin"), &vec![7; 3_000_000]);
        let (addr, admin) = (free_addr(), free_addr());
        let tracer = Command::new("strace")
            .args(["-f", "-e", &format!("trace={calls}"), "-o", "trace"])
            .arg(env!("CARGO_BIN_EXE_omnigate"))
            .args(["edge", "--pack", "world.pmtiles", "--dir", "public", "--listen", &addr.to_string()])
            .args(["--set", &format!("admin.listen={admin}")])
            .args(settings.iter().flat_map(|setting| ["--set", setting]))
            .current_dir(dir.path())
            .env_clear()
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("strace comes with Debian");
        let traced = Self { tracer, dir, addr, admin };
        eventually("the pack is mounted", || {
            get(addr, "/edge/tiles/world/2/1/1").ok().filter(|answer| answer.status == 200)
        });
        traced
    }

    /// Asks for some of everything.
    fn ask_for_everything(&self) {
        for path in [
            "assets/a.txt",
            "assets/large.bin",
            "assets/world.pmtiles",
            "tiles/world.json",
            "tiles/world",
            "packs",
        ] {
            assert_eq!(get(self.addr, &format!("/edge/{path}")).unwrap().status, 200, "{path}");
        }
        assert_eq!(get(self.addr, &format!("/edge/cas/b3:{}", "0".repeat(64))).unwrap().status, 404);
        assert_eq!(get(self.admin, "/metrics").unwrap().status, 200);
    }

    /// Ends the edge and returns what was noted.
    fn finish(mut self) -> String {
        // The tracer does not pass signals on; the program is its child.
        let tracer = self.tracer.id();
        let pid = eventually("the program runs", || {
            let children = std::fs::read_to_string(format!("/proc/{tracer}/task/{tracer}/children")).ok()?;
            children.split_whitespace().next()?.parse::<u32>().ok()
        });
        signal(pid, "TERM");
        // How it ended is not asked: under a tracer the drain may take longer than its deadline.
        self.tracer.wait().unwrap();
        std::fs::read_to_string(self.dir.path().join("trace")).unwrap()
    }
}

#[test]
fn offline_no_connection_is_ever_opened() {
    let edge = Traced::start("connect,sendto,sendmsg,accept4", &[]);
    edge.ask_for_everything();
    for host in ["example.org", "127.0.0.1", "localhost:9"] {
        assert_eq!(get(edge.addr, &format!("/edge/assets/{host}/a.png")).unwrap().status, 404, "{host}");
    }
    let trace = edge.finish();
    let outgoing: Vec<&str> = trace.lines().filter(|line| line.contains("connect(")).collect();
    assert!(trace.contains("accept4("), "the trace has seen the workload");
    assert!(outgoing.is_empty(), "{outgoing:#?}");
}
