//! A node with an edge, in a folder that outlives it.

use std::{
    ffi::OsStr,
    fs::{self, File},
    net::SocketAddr,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
};

use super::wire::{Asker, Got};
use crate::support::{assert_known, be_patient, eventually, free_addr, get, signal};

/// A running node. Killed when dropped.
pub(super) struct EdgeNode {
    child: Child,
    dir: PathBuf,
    pub(super) edge: SocketAddr,
    pub(super) admin: SocketAddr,
}

impl EdgeNode {
    /// Starts a node in `dir` with these tables, and waits until it is ready and its packs are mounted or refused.
    pub(super) fn start(dir: &Path, node: &str, edge: &str) -> Self {
        Self::start_under(&[] as &[&str], dir, node, edge)
    }

    /// The same under another program, which has to become the node.
    pub(super) fn start_under<S: AsRef<OsStr>>(program: &[S], dir: &Path, node: &str, edge: &str) -> Self {
        let (edge_addr, admin) = (free_addr(), free_addr());
        let config = write_config(dir, edge_addr, admin, node, edge);
        let child = spawn(program, dir, &config);
        let mut started = Self { child, dir: dir.to_owned(), edge: edge_addr, admin };
        started.wait_until_ready();
        started
    }

    fn wait_until_ready(&mut self) {
        eventually("the node is ready", || {
            let ended = self.child.try_wait().unwrap();
            assert!(ended.is_none(), "the node ended while starting: {}", self.log());
            get(self.admin, "/readyz").ok().filter(|answer| answer.status == 200)
        });
        // The list, because the gauge lags behind it.
        eventually("no pack is being mounted", || {
            let listed = String::from_utf8(self.ask("/edge/packs").body).ok()?;
            (!listed.contains("\"mounting\"")).then_some(())
        });
    }

    /// Puts other settings into force.
    pub(super) fn reload(&self, node: &str, edge: &str) {
        let before = self.metric("config_update_total");
        write_config(&self.dir, self.edge, self.admin, node, edge);
        self.signal("HUP");
        eventually("the settings are in force", || {
            (self.metric("config_update_total") > before).then_some(())
        });
    }

    pub(super) fn asker(&self) -> Asker {
        Asker::new(self.edge)
    }

    #[track_caller]
    pub(super) fn ask(&self, path: &str) -> Got {
        self.asker().ask(path, "").unwrap_or_else(|error| panic!("{path}: {error}"))
    }

    pub(super) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// Its exit status, once it has ended.
    pub(super) fn wait(&mut self) -> ExitStatus {
        eventually("the node exits", || self.child.try_wait().unwrap())
    }

    /// One sample of a metric, by the start of its line.
    pub(super) fn metric(&self, start: &str) -> f64 {
        let scraped = || get(self.admin, "/metrics").ok().filter(|answer| answer.status == 200);
        let scrape = eventually("the node tells its metrics", scraped).body;
        assert_known(start);
        let line = scrape.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }

    /// The most memory that the process has had at once so far, in bytes.
    pub(super) fn peak_memory(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.join("node.log")).unwrap_or_default()
    }
}

impl Drop for EdgeNode {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            let log = self.log();
            let end: Vec<&str> = log.lines().rev().take(40).collect();
            eprintln!("the end of the node's log, last line first:\n{}", end.join("\n"));
        }
    }
}

/// Puts a configuration in place, and gives it.
fn write_config(
    dir: &Path,
    edge: SocketAddr,
    admin: SocketAddr,
    node_table: &str,
    edge_table: &str,
) -> String {
    let text = format!(
        "[admin]\nlisten = \"{admin}\"\n\
         [node]\ndata_dir = {:?}\n{node_table}\n\
         [edge]\nlisten = \"{edge}\"\ningress.rps_limit = 0\ningress.fill_rps_limit = 0\n{edge_table}\n",
        dir.join("data")
    );
    let aside = dir.join("omnigate.toml.new");
    fs::write(&aside, &text).unwrap();
    fs::rename(aside, dir.join("omnigate.toml")).unwrap();
    text
}

fn spawn<S: AsRef<OsStr>>(program: &[S], dir: &Path, config: &str) -> Child {
    let omnigate = OsStr::new(env!("CARGO_BIN_EXE_omnigate"));
    let file = dir.join("omnigate.toml");
    let own = [omnigate, OsStr::new("edge"), OsStr::new("--config"), file.as_os_str()];
    let words: Vec<&OsStr> = program.iter().map(AsRef::as_ref).chain(own).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).env_clear();
    be_patient(&mut command, config);
    command
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(File::options().create(true).append(true).open(dir.join("node.log")).unwrap())
        .spawn()
        .unwrap_or_else(|error| panic!("{:?}: {error}", words[0]))
}
