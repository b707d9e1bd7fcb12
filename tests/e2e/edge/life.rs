//! How an edge starts, follows its configuration, and ends.

use std::{
    fs,
    net::SocketAddr,
    process::{Command, Stdio},
};

use crate::support::{Answer, Client, Running, be_patient, eventually, free_addr, get, signal};

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
    let mut command = serve(Command::new(env!("CARGO_BIN_EXE_omnigate")), addr, admin);
    let told = fs::File::create(dir.path().join("told")).unwrap();
    let child = command.current_dir(dir.path()).stdout(told).stderr(Stdio::null()).spawn().unwrap();
    let mut child = Running(child);
    let answer = wait_for_tile(addr, admin, "1/0/1");
    assert_eq!(answer.body, tile((1, 0, 1), 3));
    assert_eq!(get(addr, "/edge/assets/a.txt").unwrap().body, "a file");
    assert_eq!(get(admin, "/readyz/gateway").unwrap().status, 404, "the gateway does not run");
    let url = format!("http://{addr}/edge/tiles/world\n");
    eventually("it says where", || {
        fs::read_to_string(dir.path().join("told")).unwrap().contains(&url).then_some(())
    });
    signal(child.0.id(), "TERM");
    assert!(eventually("it ends", || child.0.try_wait().unwrap()).success());
}

/// The command that serves a pack and a folder, after the words of `program`.
fn serve(mut program: Command, addr: SocketAddr, admin: SocketAddr) -> Command {
    program
        .args(["edge", "--pack", "world.pmtiles", "--dir", "public", "--listen", &addr.to_string()])
        .args(["--set", &format!("admin.listen={admin}")])
        .env_clear();
    be_patient(&mut program, "");
    program
}

/// A tile of the pack, once that is mounted and the node is up: it serves before it is.
fn wait_for_tile(addr: SocketAddr, admin: SocketAddr, tile: &str) -> Answer {
    let ok = |addr, path: &str| get(addr, path).ok().filter(|answer| answer.status == 200);
    eventually("the node is ready", || ok(admin, "/readyz"));
    eventually("the pack is mounted", || ok(addr, &format!("/edge/tiles/world/{tile}")))
}

/// An edge under a tracer.
struct Traced {
    node: Running,
    dir: tempfile::TempDir,
    addr: SocketAddr,
    admin: SocketAddr,
}

impl Traced {
    /// Starts an edge with a pack and a folder, and notes those system calls.
    fn start(calls: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("world.pmtiles"), &pack(2, 0));
        write(&dir.path().join("public/a.txt"), b"a file");
        write(&dir.path().join("public/large.bin"), &vec![7; 3_000_000]);
        let (addr, admin) = (free_addr(), free_addr());
        let mut strace = Command::new("strace");
        // The tracer is nobody's business: the node is our child.
        strace.args([
            "-D",
            "-f",
            "-e",
            &format!("trace={calls}"),
            "-o",
            "trace",
            env!("CARGO_BIN_EXE_omnigate"),
        ]);
        let node = serve(strace, addr, admin)
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("strace comes with Debian");
        let traced = Self { node: Running(node), dir, addr, admin };
        wait_for_tile(addr, admin, "2/1/1");
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
        signal(self.node.0.id(), "TERM");
        // How it ended is not asked: under a tracer the drain may take longer than its deadline.
        eventually("it ends", || self.node.0.try_wait().unwrap());
        fs::read_to_string(self.dir.path().join("trace")).unwrap()
    }
}

#[test]
fn offline_no_connection_is_ever_opened() {
    let edge = Traced::start("connect,sendto,sendmsg,accept4");
    edge.ask_for_everything();
    for host in ["example.org", "127.0.0.1", "localhost:9"] {
        assert_eq!(get(edge.addr, &format!("/edge/assets/{host}/a.png")).unwrap().status, 404, "{host}");
    }
    let trace = edge.finish();
    let outgoing: Vec<&str> = trace.lines().filter(|line| line.contains("connect(")).collect();
    assert!(trace.contains("accept4("), "the trace has seen the workload");
    assert!(outgoing.is_empty(), "{outgoing:#?}");
}
