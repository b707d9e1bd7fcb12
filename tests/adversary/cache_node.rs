//! A node with a cached route, whose folder outlasts it: killed, stopped and started again.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
    thread,
};

use crate::{
    cache_origin::Origin,
    support::{Answer, UNLIMITED, ask, be_patient, config, eventually, free_addr, get},
};

/// A node in a folder that outlasts it.
pub(crate) struct Lives {
    pub(crate) dir: tempfile::TempDir,
    pub(crate) node: Option<Child>,
    pub(crate) gateway: SocketAddr,
    pub(crate) admin: SocketAddr,
    pub(crate) text: String,
}

impl Lives {
    /// A node with a cached route to the origin, not yet started.
    pub(crate) fn of(origin: &Origin, cache: &str, settings: &str) -> Self {
        let (gateway, admin) = (free_addr(), free_addr());
        let text = config(
            gateway,
            admin,
            &format!(
                "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\", cache = {cache} }}]\n\
                 upstream.up.endpoints = [\"http://{}\"]\n{settings}\n",
                origin.addr
            ),
        );
        Self { dir: tempfile::tempdir().unwrap(), node: None, gateway, admin, text }
    }

    pub(crate) fn start(&mut self) {
        fs::write(self.dir.path().join("omnigate.toml"), &self.text).unwrap();
        let mut command = Command::new(program());
        command.args(["up", "--config", "omnigate.toml"]).current_dir(self.dir.path()).env_clear();
        be_patient(&mut command, &self.text);
        let log = fs::File::create(self.dir.path().join("node.log")).unwrap();
        let node = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        self.node = Some(node);
        self.wait_until_ready();
    }

    pub(crate) fn wait_until_ready(&mut self) {
        eventually("the node is ready", || {
            let ended = self.node.as_mut().unwrap().try_wait().unwrap();
            assert!(ended.is_none(), "it ended while starting: {}", self.log());
            get(self.admin, "/readyz").ok().filter(|answer| answer.status == 200)
        });
    }

    /// Ends the node as kill −9 does.
    pub(crate) fn kill(&mut self) {
        let mut node = self.node.take().unwrap();
        node.kill().unwrap();
        node.wait().unwrap();
    }

    /// Has the node drain and end.
    pub(crate) fn stop(&mut self) {
        let mut node = self.node.take().unwrap();
        Command::new("kill").args(["-TERM", &node.id().to_string()]).status().unwrap();
        assert!(node.wait().unwrap().success(), "{}", self.log());
    }

    pub(crate) fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("node.log")).unwrap_or_default()
    }

    pub(crate) fn get(&self, target: &str, fields: &str) -> Answer {
        send(self.gateway, "GET", target, fields).unwrap()
    }

    pub(crate) fn put(&self, target: &str) {
        assert_eq!(send(self.gateway, "PUT", target, EMPTY).unwrap().status, 200);
    }

    /// What `/cache` says.
    pub(crate) fn cache(&self, url: &str) -> serde_json::Value {
        get(self.admin, &format!("/cache{url}")).unwrap().json()
    }

    pub(crate) fn is_on_disk(&self, target: &str) -> bool {
        self.cache(&format!("?url=http://a{target}"))["responses"][0]["on_disk"] == true
    }

    pub(crate) fn wait_for_disk(&self, targets: usize) {
        for nth in 0..targets {
            let target = format!("/{nth}");
            eventually("it is on the disk", || self.is_on_disk(&target).then_some(()));
        }
    }

    pub(crate) fn metric(&self, name: &str) -> u64 {
        let scrape = get(self.admin, "/metrics").unwrap().body;
        let values = scrape.lines().filter(|line| line.starts_with(name) && line.contains("gateway"));
        values.map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum()
    }

    pub(crate) fn folder(&self) -> PathBuf {
        self.dir.path().join("data/gateway-cache")
    }

    /// Runs a command of the program against the node.
    pub(crate) fn run(&self, args: &[&str]) -> std::process::Output {
        let mut command = Command::new(program());
        command.args(args).args(["--config", "omnigate.toml"]).current_dir(self.dir.path()).env_clear();
        command.output().unwrap()
    }
}

impl Drop for Lives {
    fn drop(&mut self) {
        if let Some(mut node) = self.node.take() {
            let _ = node.kill();
            let _ = node.wait();
        }
        if thread::panicking() {
            eprintln!("the node's log:\n{}", self.log());
        }
    }
}

/// What says that a write has no body.
pub(crate) const EMPTY: &str = "content-length: 0\r\n";

pub(crate) fn program() -> String {
    std::env::var("OMNIGATE_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_omnigate").to_owned())
}

pub(crate) fn send(to: SocketAddr, method: &str, target: &str, fields: &str) -> std::io::Result<Answer> {
    ask(to, format!("{method} {target} HTTP/1.1\r\nhost: a\r\n{fields}\r\n"))
}
