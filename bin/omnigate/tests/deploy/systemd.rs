//! systemd takes the units, finds them hardened, and lets the node make every system call that it makes.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    process::{Child, Command, Stdio},
};

use crate::{repository, tool};

const UNITS: [&str; 3] = ["omnigate.service", "omnigate.socket", "omnigate-http.socket"];

/// Of 10, as `systemd-analyze security` counts; a node must listen and dial, and that is what is left.
const EXPOSURE_MAX: &str = "15";

/// The units as they would be installed, with the program where it is now.
fn install(dir: &Path) -> Vec<String> {
    let install = |unit: &&str| {
        let text = fs::read_to_string(repository("deploy/systemd").join(unit)).unwrap();
        let path = dir.join(unit);
        fs::write(&path, text.replace("/usr/bin/omnigate", env!("CARGO_BIN_EXE_omnigate"))).unwrap();
        path.to_str().unwrap().to_owned()
    };
    UNITS.iter().map(install).collect()
}

#[test]
fn systemd_finds_no_fault_in_the_units() {
    let dir = tempfile::tempdir().unwrap();
    let units = install(dir.path());
    let said = tool(Command::new("systemd-analyze").args(["verify", "--man=no"]).args(&units), "systemd");
    let about_us: Vec<&str> = said.lines().filter(|line| line.contains("omnigate")).collect();
    assert!(about_us.is_empty(), "{about_us:#?}");
}

#[test]
fn the_service_is_exposed_to_what_it_serves_and_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let units = install(dir.path());
    let threshold = format!("--threshold={EXPOSURE_MAX}");
    tool(
        Command::new("systemd-analyze").args([
            "security",
            "--offline=true",
            "--no-pager",
            &threshold,
            &units[0],
        ]),
        "systemd",
    );
}

/// A short life: start, answer, stop. What it asks the kernel for must be within the unit's filter.
#[test]
fn the_filter_of_system_calls_lets_the_node_live() {
    let dir = tempfile::tempdir().unwrap();
    let trace = dir.path().join("trace");
    let socket = dir.path().join("admin.sock");
    // The tracer is nobody's business: the node is our child.
    let node = Command::new("strace")
        .args(["-D", "-f", "-qq", "-o", trace.to_str().unwrap(), "-e", "trace=all", env!("CARGO_BIN_EXE_omnigate")])
        .args(["up", "--set", "gateway.listen=127.0.0.1:0"])
        .args(["--set", "edge.enabled=true", "--set", "edge.listen=127.0.0.1:0"])
        .args(["--set", &format!("admin.listen=unix:{}", socket.display())])
        .current_dir(dir.path())
        .env_clear()
        .env("PATH", std::env::var_os("PATH").unwrap())
        // As long as there is to drain may be too short for who is traced.
        .env("OMNIGATE_NODE__DANGER_OK", "true")
        .env("OMNIGATE_NODE__DRAIN_DEADLINE", "30s")
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("strace comes with Debian's strace package");
    let mut node = Running(node);
    // The banner is printed once it is up.
    let mut first = [0_u8; 1];
    std::io::Read::read_exact(node.0.stdout.as_mut().unwrap(), &mut first).unwrap();
    let asked = |path: &str, method: &str| {
        tool(
            Command::new("curl")
                .args(["-sS", "-X", method, "-H", "X-Omnigate: 1", "--unix-socket", socket.to_str().unwrap()])
                .arg(format!("http://localhost{path}")),
            "curl",
        )
    };
    assert!(asked("/metrics", "GET").contains("connections{"));
    asked("/shutdown", "POST");
    assert!(node.0.wait().unwrap().success());
    let allowed = allowed_calls();
    let traced = fs::read_to_string(&trace).unwrap();
    let called: BTreeSet<&str> = traced.lines().filter_map(name_of_call).collect();
    assert!(called.len() > 30, "only {called:?}");
    let refused: Vec<&&str> = called.iter().filter(|call| !allowed.contains(**call)).collect();
    assert!(refused.is_empty(), "the unit refuses {refused:?}");
}

/// A process that is killed when dropped, if it has not ended.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A line is the thread's number, then the call.
fn name_of_call(line: &str) -> Option<&str> {
    let rest = line.split_once(' ')?.1.trim_start();
    let name = rest.split_once('(')?.0;
    name.bytes().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'_').then_some(name)
}

/// What the unit's filters leave: the sets they name, less those after a tilde.
fn allowed_calls() -> BTreeSet<String> {
    let unit = fs::read_to_string(repository("deploy/systemd/omnigate.service")).unwrap();
    let mut allowed = BTreeSet::new();
    for filter in unit.lines().filter_map(|line| line.strip_prefix("SystemCallFilter=")) {
        match filter.strip_prefix('~') {
            Some(taken) => taken.split(' ').flat_map(calls_in).for_each(|call| {
                allowed.remove(&call);
            }),
            None => allowed.extend(filter.split(' ').flat_map(calls_in)),
        }
    }
    allowed
}

/// The calls of a set, and of the sets in it.
fn calls_in(set: &str) -> Vec<String> {
    if !set.starts_with('@') {
        return vec![set.to_owned()];
    }
    let listed = tool(Command::new("systemd-analyze").args(["syscall-filter", "--no-pager", set]), "systemd");
    let inside =
        listed.lines().filter_map(|line| line.strip_prefix("    ")).filter(|line| !line.starts_with('#'));
    inside
        .flat_map(|name| if name.starts_with('@') { calls_in(name) } else { vec![name.to_owned()] })
        .collect()
}
