//! Logs on a disk that has no room for a while: a line that was torn takes no other line with it.

use std::{
    fs,
    net::SocketAddr,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

use serde_json::Value;

use crate::support::{be_patient, eventually, free_addr, get, signal};

/// A node whose logs are on a disk of 64 KiB.
struct SmallDisk {
    node: Child,
    dir: tempfile::TempDir,
    gateway: SocketAddr,
    admin: SocketAddr,
}

impl SmallDisk {
    fn start() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (gateway, admin) = (free_addr(), free_addr());
        let config = format!(
            "[admin]\nlisten = \"{admin}\"\naudit_log = \"small/audit.log\"\n[gateway]\nlisten = \"{gateway}\"\n\
             quotas.per_ip_rps = 0\nquotas.refusals_rps = 0\n\
             access_log = {{ enabled = true, path = \"small/access.log\" }}\n\
             route = [{{ path = \"/\", redirect = {{ to = \"https://a.example\", status = 301 }} }}]\n"
        );
        fs::create_dir(dir.path().join("small")).unwrap();
        fs::write(dir.path().join("omnigate.toml"), &config).unwrap();
        let program =
            std::env::var("OMNIGATE_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_omnigate").to_owned());
        // A namespace of its own, in which anybody may mount a disk of memory.
        let script =
            format!("mount -t tmpfs -o size=64k none small && exec {program} up --config omnigate.toml");
        let mut command = Command::new("unshare");
        command.args(["--map-root-user", "--mount", "sh", "-c", &script]).current_dir(dir.path()).env_clear();
        command.env("PATH", "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin");
        be_patient(&mut command, &config);
        let log = fs::File::create(dir.path().join("node.log")).unwrap();
        let node = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(log).spawn().unwrap();
        let mut started = Self { node, dir, gateway, admin };
        eventually("the node is ready", || {
            assert!(started.node.try_wait().unwrap().is_none(), "it ended: {}", started.log());
            get(started.admin, "/readyz").ok().filter(|answer| answer.status == 200)
        });
        started
    }

    fn log(&self) -> String {
        fs::read_to_string(self.dir.path().join("node.log")).unwrap_or_default()
    }

    /// A file of the small disk, as the node sees it.
    fn at(&self, name: &str) -> PathBuf {
        let pid = self.node.id();
        format!("/proc/{pid}/root{}", self.dir.path().join("small").join(name).display()).into()
    }

    /// Takes all room but a part of a line.
    fn fill(&self) {
        let mut bytes = 64 * 1024;
        while bytes > 0 {
            let written = fs::OpenOptions::new().append(true).create(true).open(self.at("fill"));
            let written = written.and_then(|mut file| std::io::Write::write_all(&mut file, &vec![0; bytes]));
            bytes = if written.is_err() { bytes / 2 } else { bytes };
        }
    }

    fn says(&self, condition: &str) -> bool {
        get(self.admin, "/readyz").is_ok_and(|answer| answer.body.contains(condition))
    }

    /// The lines of a log: those that can be read, and those that cannot.
    fn lines(&self, name: &str) -> (Vec<Value>, Vec<String>) {
        let bytes = fs::read(self.at(name)).unwrap();
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
        let (mut good, mut torn) = (Vec::new(), Vec::new());
        for line in lines {
            match serde_json::from_slice(line) {
                Ok(line) => good.push(line),
                Err(_) => torn.push(String::from_utf8_lossy(line).into_owned()),
            }
        }
        (good, torn)
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        let _ = self.node.kill();
        let _ = self.node.wait();
    }
}

/// A node whose disk is full inside a line of this log. `add` has it write another line. A disk may also be full just at
/// the end of a line, which is of no use here.
fn full_inside_a_line(log: &str, condition: &str, add: impl Fn(&SmallDisk)) -> SmallDisk {
    for _ in 0..5 {
        let node = SmallDisk::start();
        eventually("the log begins", || {
            add(&node);
            (!node.lines(log).0.is_empty()).then_some(())
        });
        node.fill();
        eventually("lines are lost", || {
            add(&node);
            node.says(condition).then_some(())
        });
        if node.lines(log).1.len() == 1 {
            return node;
        }
    }
    panic!("the disk was full at the end of a line each time");
}

/// The next line is whole, once there is room for it.
fn assert_next_line_is_whole(node: &SmallDisk, log: &str, add: impl Fn(&SmallDisk)) {
    let before = node.lines(log).0.len();
    fs::remove_file(node.at("fill")).unwrap();
    eventually("the next line is in the log", || {
        add(node);
        (node.lines(log).0.len() > before).then_some(())
    });
    let torn = node.lines(log).1;
    assert_eq!(torn.len(), 1, "{torn:?}");
    assert_eq!(torn[0].matches("\"time\":").count(), 1, "another line hangs on the torn one: {}", torn[0]);
}

#[test]
fn a_line_of_the_access_log_that_a_full_disk_tore_takes_no_other_with_it() {
    let ask = |node: &SmallDisk| drop(get(node.gateway, "/").unwrap());
    let node = full_inside_a_line("access.log", "access_log", ask);
    assert_next_line_is_whole(&node, "access.log", ask);
}

#[test]
fn a_line_of_the_audit_log_that_a_full_disk_tore_takes_no_other_with_it() {
    let reload = |node: &SmallDisk| {
        fs::write(node.dir.path().join("omnigate.toml"), "[nonsense]\n").unwrap();
        signal(node.node.id(), "HUP");
    };
    let node = full_inside_a_line("audit.log", "audit_log", reload);
    assert_next_line_is_whole(&node, "audit.log", reload);
}
