//! A running node: started in a folder of its own, ended with the test.

use std::{
    fs::{self, File},
    io::{BufRead, BufReader},
    path::{Path, PathBuf},
    process::{Child, ChildStdout, Command, Stdio},
};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use crate::{
    cli_run::omnigate,
    http::{self, Reply},
};

/// A running node.
pub(crate) struct Node {
    child: Child,
    out: BufReader<ChildStdout>,
    dir: TempDir,
    pub(crate) gateway: String,
    pub(crate) admin: String,
}

impl Node {
    /// Starts a node on ports the system chooses; returns once it says what listens where.
    pub(crate) fn start(args: &[&str]) -> Self {
        Self::start_with(args, |_, _| ())
    }

    /// The same, after `prepare` has had its way with the folder and the command.
    pub(crate) fn start_with(args: &[&str], prepare: impl FnOnce(&Path, &mut Command)) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let any_port = ["up", "--set", "admin.listen=127.0.0.1:0", "--set", "gateway.listen=127.0.0.1:0"];
        let mut command = omnigate(dir.path(), &[&any_port, args].concat());
        prepare(dir.path(), &mut command);
        Self::spawn(dir, command)
    }

    /// Starts a node whose file says everything.
    pub(crate) fn from_file(dir: TempDir) -> Self {
        Self::from_file_with(dir, |_| ())
    }

    /// The same, after `prepare` has had its way with the command.
    pub(crate) fn from_file_with(dir: TempDir, prepare: impl FnOnce(&mut Command)) -> Self {
        let mut command = omnigate(dir.path(), &["up"]);
        prepare(&mut command);
        Self::spawn(dir, command)
    }

    fn spawn(dir: TempDir, mut command: Command) -> Self {
        let log = File::create(dir.path().join("log")).unwrap();
        command.stdout(Stdio::piped()).stderr(log);
        // As long as there is to drain may be too short where the machine stalls.
        command.env("OMNIGATE_NODE__DANGER_OK", "true").env("OMNIGATE_NODE__DRAIN_DEADLINE", "30s");
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let (gateway, admin) = (String::new(), String::new());
        let mut node = Self { child, out, dir, gateway, admin };
        (node.gateway, node.admin) = node.read_banner();
        node
    }

    /// Reads what listens where; a successor on the same pipe announces itself the same way.
    pub(crate) fn read_banner(&mut self) -> (String, String) {
        let mut gateway = String::new();
        loop {
            let mut line = String::new();
            let read = self.out.read_line(&mut line).unwrap();
            assert!(read > 0, "the node ended before it was up:\n{}", self.log());
            match line.split_whitespace().collect::<Vec<_>>()[..] {
                ["gateway", addr] => gateway = addr.to_owned(),
                ["admin", addr] => return (gateway, addr.to_owned()),
                _ => {}
            }
        }
    }

    /// Asks the admin listener.
    pub(crate) fn get(&self, path: &str) -> Reply {
        http::get(&self.admin, path)
    }

    /// What readiness says of the node, or of a part of it.
    pub(crate) fn readiness(&self, path: &str) -> Reply {
        http::readiness(&self.admin, path)
    }

    /// Asks the admin listener in any way.
    pub(crate) fn ask(&self, method: &str, path: &str, headers: &[&str]) -> Reply {
        http::ask(&self.admin, method, path, headers)
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }

    /// Waits for the end and returns the exit code.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.child.wait().unwrap().code()
    }

    /// Asks the node to stop as a service manager would, and returns its exit code.
    pub(crate) fn stop(mut self) -> (Option<i32>, String) {
        self.signal(Signal::TERM);
        (self.wait(), self.log())
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.path("log")).unwrap()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        // Long gone in most tests.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
