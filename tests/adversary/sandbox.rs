//! Whoever takes a node over: the process can reach the folders that its configuration names and no other, and make only
//! the system calls that a node needs.

use std::os::{
    linux::net::SocketAddrExt as _,
    unix::net::{SocketAddr, UnixListener},
};

use ron_transport::tls::testkit::TestCa;

use crate::support::{Node, config, eventually, get, listener_pid, signal};

/// What `/topology` says of the sandbox.
fn held(node: &Node) -> String {
    get(node.admin, "/topology").unwrap().json()["sandbox"].as_str().unwrap().to_owned()
}

/// Threads of a process that no filter of system calls holds, or that could gain rights by starting a program.
fn free_threads(pid: u32) -> Vec<String> {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap().flatten();
    let statuses = threads.filter_map(|thread| std::fs::read_to_string(thread.path().join("status")).ok());
    let is_free = |status: &String| !status.contains("Seccomp:\t2\n") || !status.contains("NoNewPrivs:\t1\n");
    statuses.filter(is_free).collect()
}

#[test]
fn a_node_is_held_in_all_its_threads_unless_told_otherwise() {
    let node = Node::start("[log]\nlevel = \"info\"\n");
    let topology = get(node.admin, "/topology").unwrap().json();
    assert_eq!((topology["sandbox"].as_str(), topology["syscalls"].as_str()), (Some("on"), Some("on")));
    let pid = listener_pid(node.admin.port()).unwrap();
    assert_eq!(free_threads(pid), Vec::<String>::new());
    let log = node.log();
    let told: Vec<&str> = log.lines().filter(|line| line.contains("sandbox: files: on")).collect();
    assert!(told.len() == 1 && told[0].contains("system calls: on"), "{log}");
    let off = Node::start("[log]\nlevel = \"info\"\n[node]\nsandbox = \"off\"\n");
    assert!(off.log().contains("files: off, because node.sandbox is off"), "{}", off.log());
}

/// `[gateway]` settings with certificates.
fn with_tls(files: &ron_transport::tls::IdentityFiles) -> String {
    format!(
        "tls = {{ cert_path = \"{}\", key_path = \"{}\" }}\n",
        files.cert_path.display(),
        files.key_path.display()
    )
}

#[test]
fn a_node_reaches_only_the_folders_that_its_configuration_names() {
    // The path of a route is no folder that is named.
    let route = "route = [{ path = \"/\", redirect = { to = \"https://a.example\", status = 301 } }]\n";
    let node = Node::start(&format!("{route}[node]\nsandbox = \"on\"\n"));
    assert_eq!(held(&node), "on");
    let ca = TestCa::new("sandbox");
    let outside = tempfile::tempdir().unwrap();
    let files = ca.server(&["localhost"]).write(outside.path(), "outside");
    let settings = with_tls(&files) + "[node]\nsandbox = \"on\"\n";
    node.write_config(&config(node.gateway, node.admin, &settings));
    node.signal("HUP");
    let said = eventually("the certificate outside is refused", || {
        let answer = get(node.admin, "/readyz").ok()?;
        answer.body.contains("bad_reload").then_some(answer.body)
    });
    assert!(said.contains("outside the sandbox") && said.contains("restart the node"), "{said}");
    assert_eq!(get(node.gateway, "/").unwrap().status, 301, "the old configuration serves on");
    // Beside the configuration file it is taken, though nobody named it before.
    let files = ca.server(&["localhost"]).write(node.path(), "inside");
    node.write_config(&config(node.gateway, node.admin, &(with_tls(&files) + "[node]\nsandbox = \"on\"\n")));
    node.signal("HUP");
    eventually("the certificate inside is in force", || {
        get(node.admin, "/readyz").ok().filter(|answer| !answer.body.contains("bad_reload"))
    });
    assert!(get(node.gateway, "/").is_err(), "it speaks TLS now");
}

#[test]
fn a_successor_is_held_as_its_predecessor_was() {
    let mut node = Node::start("[node]\nsandbox = \"on\"\n");
    assert_eq!(held(&node), "on");
    node.signal("USR2");
    node.wait();
    eventually("the successor answers", || {
        get(node.admin, "/topology").ok().filter(|answer| answer.status == 200)
    });
    assert_eq!(held(&node), "inherited");
    assert_eq!(get(node.gateway, "/").unwrap().status, 404);
    let successor = listener_pid(node.admin.port()).unwrap();
    assert_eq!(free_threads(successor), Vec::<String>::new());
    // It knows what its predecessor was held to, and says so of a file that is elsewhere.
    let outside = tempfile::tempdir().unwrap();
    let files = TestCa::new("sandbox").server(&["localhost"]).write(outside.path(), "outside");
    node.write_config(&config(node.gateway, node.admin, &with_tls(&files)));
    signal(successor, "HUP");
    let said = eventually("the certificate outside is refused", || {
        let answer = get(node.admin, "/readyz").ok()?;
        answer.body.contains("bad_reload").then_some(answer.body)
    });
    assert!(said.contains("outside the sandbox, which was set up at start"), "{said}");
}

#[test]
fn a_successor_that_needs_more_than_its_sandbox_says_so_and_the_node_goes_on() {
    let node = Node::start("");
    let outside = tempfile::tempdir().unwrap();
    let files = TestCa::new("sandbox").server(&["localhost"]).write(outside.path(), "outside");
    node.write_config(&config(node.gateway, node.admin, &with_tls(&files)));
    node.signal("USR2");
    let log = eventually("the successor gives up", || {
        let log = node.log();
        log.contains("the successor ended before it was ready").then_some(log)
    });
    // Of the successor, which ends with an error, and not of the reload, which is refused as well.
    let folder = outside.path().display().to_string();
    let is_error = |line: &str| line.starts_with("error: ") && line.contains(&folder);
    assert!(log.lines().any(is_error), "{log}");
    assert_eq!(get(node.gateway, "/").unwrap().status, 404, "the node goes on");
}

/// What a program that is started inside a node's sandbox tries, as a script of Perl: each line of its output is a name and the
/// error, 0 for none.
fn attempts(other: u32, abstract_name: &str, file: &std::path::Path) -> String {
    let calls = [
        ("memfd_create", libc::SYS_memfd_create, "$name, 0"),
        ("execveat", libc::SYS_execveat, "-1, $name, 0, 0, 0"),
        ("fchownat", libc::SYS_fchownat, "-100, $file, $>, $)+0, 0"),
    ];
    let calls = calls.map(|(name, number, arguments)| {
        format!("$r = syscall({number}, {arguments}); told('{name}', $r >= 0);\n")
    });
    format!(
        "use Socket; my ($r, $name, $file) = (0, 'x', '{file}'); $| = 1;\n\
         sub told {{ print STDERR \"tried $_[0] \", ($_[1] ? 0 : $!+0), \"\\n\" }}\n\
         told('open', open(my $f, '<', $file));\n\
         {calls}told('signal', kill(0, {other}));\n\
         told('signal_inside', kill(0, getppid()));\n\
         socket(my $s, AF_UNIX, SOCK_STREAM, 0) or die;\n\
         told('abstract', connect($s, pack_sockaddr_un(\"\\0{abstract_name}\")));\n\
         print STDERR \"tried all\\n\";\n",
        file = file.display(),
        calls = calls.concat(),
    )
}

#[test]
fn what_is_started_inside_reaches_no_process_outside_and_runs_nothing_from_memory() {
    let node = Node::start_copy("[node]\nsandbox = \"on\"\n");
    let outside = tempfile::NamedTempFile::new().unwrap();
    let name = format!("omnigate-sandbox-{}", std::process::id());
    let _listener = UnixListener::bind_addr(&SocketAddr::from_abstract_name(&name).unwrap()).unwrap();
    // Perl takes the name of the command, `up`, for a script's.
    std::fs::write(node.path().join("up"), attempts(std::process::id(), &name, outside.path())).unwrap();
    std::fs::copy("/usr/bin/perl", node.path().join("bin/new")).unwrap();
    std::fs::rename(node.path().join("bin/new"), node.path().join("bin/omnigate")).unwrap();
    node.signal("USR2");
    let log = eventually("all is tried", || {
        let log = node.log();
        log.contains("tried all").then_some(log)
    });
    let error = |tried: &str| {
        let line = log.lines().find_map(|line| line.strip_prefix(&format!("tried {tried} ")));
        line.unwrap_or_else(|| panic!("{tried}: {log}")).parse::<i32>().unwrap()
    };
    let refused = ["memfd_create", "execveat", "fchownat", "signal", "abstract"];
    assert_eq!(refused.map(error), [libc::EPERM; 5], "{refused:?}: {log}");
    assert_eq!((error("open"), error("signal_inside")), (libc::EACCES, 0));
    assert_eq!(get(node.gateway, "/").unwrap().status, 404, "the node goes on");
}

#[test]
fn a_node_without_upgrades_starts_no_program() {
    let node = Node::start("[node]\nupgrades = false\n");
    node.signal("USR2");
    eventually("the signal is refused", || node.log().contains("node.upgrades is false").then_some(()));
    assert_eq!(get(node.gateway, "/").unwrap().status, 404, "the node goes on");
}

#[test]
fn a_node_with_all_its_stores_works_in_its_sandbox_and_without_one_if_told() {
    let [edge, overlay, rewarder] = [(); 3].map(|()| crate::support::free_addr());
    let services = format!(
        "[edge]\nenabled = true\nlisten = \"{edge}\"\n[overlay]\nenabled = true\nlisten = \"{overlay}\"\n\
         [rewarder]\nenabled = true\nlisten = \"{rewarder}\"\n"
    );
    for (mode, expected) in [("on", "on"), ("off", "off")] {
        let node = Node::start(&format!("{services}[node]\nsandbox = \"{mode}\"\n"));
        assert_eq!(held(&node), expected);
        assert!(node.path().join("data/ledger.db").is_file());
    }
}
