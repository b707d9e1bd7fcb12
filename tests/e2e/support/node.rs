//! A node as a child process.

use std::{
    net::SocketAddr,
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use super::{be_patient, eventually, free_addr, get, listener_pid, signal};

/// A running node. Killed when dropped, and its successor with it.
pub(crate) struct Node {
    child: Child,
    dir: tempfile::TempDir,
    /// Whether it was told to hand over.
    succeeded: AtomicBool,
    pub(crate) gateway: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Node {
    /// Starts a node with `[gateway]` settings (TOML lines) and waits until it is ready.
    pub(crate) fn start(gateway: &str) -> Self {
        Self::start_in(tempfile::tempdir().unwrap(), gateway)
    }

    /// The same in a folder that has something the settings name.
    pub(crate) fn start_in(dir: tempfile::TempDir, gateway: &str) -> Self {
        let mut node = Self::begin_in(dir, gateway);
        node.wait_until_ready();
        node
    }

    /// The same with lines before the first table of the file.
    pub(crate) fn start_with_top(dir: tempfile::TempDir, top: &str, gateway: &str) -> Self {
        let (gateway_addr, admin) = (free_addr(), free_addr());
        let text = format!("{top}{}", config(gateway_addr, admin, gateway));
        write_config(dir.path(), &text);
        let child = spawn(dir.path(), &text, Stdio::null());
        let mut node = Self { child, dir, succeeded: AtomicBool::default(), gateway: gateway_addr, admin };
        node.wait_until_ready();
        node
    }

    /// Starts a copy of the program, `bin/omnigate` in the node's folder, that may be replaced, and waits until it is ready.
    pub(crate) fn start_copy(gateway: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        std::fs::copy(program(), dir.path().join("bin/omnigate")).unwrap();
        Self::start_in(dir, gateway)
    }

    /// Starts a node that may open `files` files, and waits until it is ready.
    pub(crate) fn start_with_files(files: usize, gateway: &str) -> Self {
        Self::start_by(tempfile::tempdir().unwrap(), (&format!("ulimit -n {files}"), ""), gateway)
    }

    /// Starts a node by a shell, which first runs the one command and redirects the node's output by the other text.
    pub(crate) fn start_by(dir: tempfile::TempDir, (before, redirect): (&str, &str), gateway: &str) -> Self {
        std::fs::create_dir(dir.path().join("bin")).unwrap();
        let starter = dir.path().join("bin/omnigate");
        let script = format!("#!/bin/sh\n{before}\nexec {} \"$@\" {redirect}\n", program().display());
        std::fs::write(&starter, script).unwrap();
        std::fs::set_permissions(&starter, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
        Self::start_in(dir, gateway)
    }

    /// Starts a node whose standard output nobody reads.
    pub(crate) fn start_unread(gateway: &str) -> Self {
        let mut node = Self::begin_with(tempfile::tempdir().unwrap(), free_addr(), gateway, Stdio::piped());
        node.wait_until_ready();
        node
    }

    /// The same as [`start_in`](Self::start_in) without waiting.
    pub(crate) fn begin_in(dir: tempfile::TempDir, gateway: &str) -> Self {
        Self::begin_with(dir, free_addr(), gateway, Stdio::null())
    }

    /// Starts a node whose gateway listens there, and waits until it is ready.
    pub(crate) fn start_at(addr: SocketAddr, dir: tempfile::TempDir, gateway: &str) -> Self {
        let mut node = Self::begin_with(dir, addr, gateway, Stdio::null());
        node.wait_until_ready();
        node
    }

    fn begin_with(dir: tempfile::TempDir, gateway_addr: SocketAddr, gateway: &str, output: Stdio) -> Self {
        let admin = free_addr();
        let text = config(gateway_addr, admin, gateway);
        write_config(dir.path(), &text);
        let child = spawn(dir.path(), &text, output);
        Self { child, dir, succeeded: AtomicBool::default(), gateway: gateway_addr, admin }
    }

    /// A node that passes everything to `upstream`.
    pub(crate) fn in_front_of(upstream: SocketAddr) -> Self {
        Self::start(&to(upstream))
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Replaces the configuration file at once, as editors and orchestrators do.
    pub(crate) fn write_config(&self, text: &str) {
        write_config(self.dir.path(), text);
    }

    /// Puts other `[gateway]` settings into force and waits until they are.
    pub(crate) fn reload(&self, gateway: &str) {
        let before = self.metric("config_update_total");
        self.write_config(&config(self.gateway, self.admin, gateway));
        self.signal("HUP");
        eventually("the settings are in force", || {
            (self.metric("config_update_total") > before).then_some(())
        });
    }

    pub(crate) fn signal(&self, name: &str) {
        self.succeeded.fetch_or(name == "USR2", Ordering::Relaxed);
        signal(self.child.id(), name);
    }

    /// Sets the node's wall clock forward or back by so many seconds, if it was started under libfaketime.
    pub(crate) fn set_clock(&self, seconds: i64) {
        set_clock(self.path(), seconds);
    }

    /// Ends the process without a word.
    pub(crate) fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    /// Starts the program again, in the same folder and with the same settings.
    pub(crate) fn start_again(&mut self) {
        let text = std::fs::read_to_string(config_path(self.path())).unwrap();
        self.child = spawn(self.dir.path(), &text, Stdio::null());
        self.wait_until_ready();
    }

    /// Whether the process that was started has ended.
    pub(crate) fn has_ended(&mut self) -> bool {
        self.child.try_wait().unwrap().is_some()
    }

    /// The node's exit status, once it has ended by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the node exits", || self.child.try_wait().unwrap())
    }

    /// The exit code, or a description of how it died instead.
    pub(crate) fn exit_code(&mut self) -> i32 {
        let status = self.wait();
        status.code().unwrap_or_else(|| panic!("killed by signal {:?}", status.signal()))
    }

    pub(crate) fn wait_until_ready(&mut self) {
        let admin = self.admin;
        eventually("the node is ready", || {
            assert!(
                self.child.try_wait().unwrap().is_none(),
                "the node ended while starting: {}",
                self.log()
            );
            get(admin, "/readyz").ok().filter(|r| r.status == 200)
        });
    }

    /// All metrics. They are asked for again where the machine stalled so long that the node gave the connection up.
    pub(crate) fn scrape(&self) -> String {
        let scraped = || get(self.admin, "/metrics").ok().filter(|answer| answer.status == 200);
        eventually("the node tells its metrics", scraped).body
    }

    /// One sample of a metric, by the start of its line.
    pub(crate) fn metric(&self, start: &str) -> f64 {
        let scrape = self.scrape();
        assert_known(start);
        let line = scrape.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }

    /// How many requests the gateway has refused for a reason.
    pub(crate) fn rejected(&self, reason: &str) -> f64 {
        self.metric(&format!("rejected_total{{node=\"omnigate\",service=\"gateway\",reason=\"{reason}\"}}"))
    }

    /// The number of files and sockets that the process has open.
    pub(crate) fn open_files(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.child.id())).unwrap().count()
    }

    /// The most memory that the process has had at once so far, in bytes.
    pub(crate) fn peak_memory(&self) -> u64 {
        self.memory("VmHWM:")
    }

    /// The memory that the process has now, in bytes.
    pub(crate) fn resident_memory(&self) -> u64 {
        self.memory("VmRSS:")
    }

    fn memory(&self, field: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix(field)).unwrap();
        line.trim().strip_suffix(" kB").unwrap().parse::<u64>().unwrap() * 1024
    }

    /// Everything that the node has said.
    pub(crate) fn log(&self) -> String {
        std::fs::read_to_string(self.path().join("node.log")).unwrap_or_default()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let successor = || self.succeeded.load(Ordering::Relaxed).then(|| listener_pid(self.admin.port()));
        if let Some(pid) = successor().flatten() {
            let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
        }
        if thread::panicking() {
            eprintln!("the node's log:\n{}", self.log());
        }
    }
}

/// `[gateway]` settings for load from one address: without the rates that are meant for clients.
pub(crate) const UNLIMITED: &str = "quotas.per_ip_rps = 0\ndrr.rate_limit_rps = 0\n";

/// `[gateway]` settings that pass everything to `upstream`, however much it is.
pub(crate) fn to(upstream: SocketAddr) -> String {
    format!(
        "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\" }}]\n\
         upstream.up.endpoints = [\"http://{upstream}\"]\n"
    )
}

/// A whole configuration file.
pub(crate) fn config(gateway: SocketAddr, admin: SocketAddr, settings: &str) -> String {
    format!("[admin]\nlisten = \"{admin}\"\n[gateway]\nlisten = \"{gateway}\"\n{settings}")
}

fn write_config(dir: &Path, text: &str) {
    let aside = dir.join("omnigate.toml.new");
    std::fs::write(&aside, text).unwrap();
    std::fs::rename(aside, config_path(dir)).unwrap();
}

fn config_path(dir: &Path) -> PathBuf {
    dir.join("omnigate.toml")
}

/// The file that says how far a node's clock is off, where the node may read it.
const CLOCK: &str = "data/clock";

fn set_clock(dir: &Path, seconds: i64) {
    std::fs::create_dir_all(dir.join("data")).unwrap();
    std::fs::write(dir.join(CLOCK), format!("{seconds:+}")).unwrap();
}

fn spawn(dir: &Path, config: &str, output: Stdio) -> Child {
    let copy = dir.join("bin/omnigate");
    let mut command = Command::new(if copy.is_file() { copy } else { program() });
    command.args(["up", "--config"]).arg(config_path(dir)).current_dir(dir).env_clear();
    be_patient(&mut command, config);
    if let Ok(library) = std::env::var("OMNIGATE_FAKETIME") {
        let clock = dir.join(CLOCK);
        if !clock.exists() {
            set_clock(dir, 0);
        }
        command.env("LD_PRELOAD", library).env("FAKETIME_TIMESTAMP_FILE", clock);
        command.env("FAKETIME_CACHE_DURATION", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }
    command
        .stdin(Stdio::null())
        .stdout(output)
        .stderr(std::fs::File::create(dir.join("node.log")).unwrap())
        .spawn()
        .unwrap()
}

/// The program: another build of it if `OMNIGATE_BIN` says so, such as to measure the one that is shipped.
fn program() -> PathBuf {
    std::env::var_os("OMNIGATE_BIN").map_or_else(|| env!("CARGO_BIN_EXE_omnigate").into(), PathBuf::from)
}

/// The pages that list every metric.
const PAGES: [&str; 9] = [
    include_str!("../../../docs/operations.md"),
    include_str!("../../../docs/concurrency/admin.md"),
    include_str!("../../../docs/concurrency/edge.md"),
    include_str!("../../../docs/concurrency/gateway.md"),
    include_str!("../../../docs/concurrency/kernel.md"),
    include_str!("../../../docs/concurrency/overlay.md"),
    include_str!("../../../docs/concurrency/overlay_api.md"),
    include_str!("../../../docs/concurrency/rewarder.md"),
    include_str!("../../../docs/concurrency/traces.md"),
];

/// Fails if there is no metric of this name: a series that was never counted is zero, and one of another name is a mistake.
#[track_caller]
pub(crate) fn assert_known(start: &str) {
    let name = start.split(['{', ' ']).next().unwrap_or_default();
    let endings = ["_count", "_sum", "_bucket"].into_iter().find_map(|ending| name.strip_suffix(ending));
    let listed = format!("`{}`", endings.unwrap_or(name));
    assert!(PAGES.iter().any(|page| page.contains(&listed)), "no metric is called {name}");
}
