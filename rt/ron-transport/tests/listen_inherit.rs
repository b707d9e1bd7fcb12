//! Listeners that pass from process to process, with this test executable as the other process.

#![expect(clippy::unwrap_used, reason = "tests")]

mod listen_support;

use std::{
    env,
    io::{self, Read, Write},
    net::TcpStream,
    os::{
        fd::OwnedFd,
        unix::{
            net::{UnixDatagram, UnixStream},
            process::parent_id,
        },
    },
    path::Path,
    process::{Child, Command, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
};

use command_fds::{CommandFdExt, FdMapping};
use listen_support::{connect, tcp_listener};
use ron_transport::{
    addr::ListenAddr,
    inherit::{Inherited, MAX_INHERITED, hand_over, spawn_successor},
    listen::{BindError, BindOptions, Listener},
    stream::RawStream,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    runtime,
};

/// Sent by a client that wants the successor to end.
const QUIT: u8 = b'q';
/// Sent by a client that wants an answer.
const ASK: u8 = b'?';
/// Tells the reporting process which address to listen on.
const TAKE_VAR: &str = "TEST_TAKE_ADDR";

/// Descriptors are the process's, not the thread's: while one test forks, another must not open and close some.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

fn unix_listener(path: &Path) -> Listener {
    Listener::bind(&ListenAddr::Unix(path.to_owned()), BindOptions::default()).unwrap()
}

/// The arguments that make this executable run one of the processes below.
fn role(name: &str) -> [&str; 5] {
    ["--exact", name, "--ignored", "--nocapture", "--test-threads=1"]
}

#[test]
#[ignore = "not a test: the process that the tests start as a successor"]
fn successor_process() {
    let mut inherited = Inherited::from_env().unwrap();
    let by_name = "inherit:web".parse().unwrap();
    let Ok(web) = inherited.listen(&by_name, BindOptions::default()) else {
        return;
    };
    let facts = format!(
        "{} {:?} predecessor={}",
        web.local_addr(),
        inherited.unused().map(|(name, _)| name.to_owned()).collect::<Vec<_>>(),
        inherited.predecessor() == Some(parent_id()),
    );
    let runtime = runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        loop {
            let (raw, _) = web.accept().await.unwrap();
            let mut stream = raw.register().unwrap();
            let asked = stream.read_u8().await.unwrap();
            stream.write_all(facts.as_bytes()).await.unwrap();
            stream.shutdown().await.unwrap();
            if asked == QUIT {
                break;
            }
        }
    });
    inherited.close_unused();
    drop(web.close());
}

#[test]
#[ignore = "not a test: the process that reports what it inherited"]
fn reporting_process() {
    // The test harness has begun a line of its own.
    println!();
    match Inherited::from_env() {
        Err(error) => println!("refused: {error}"),
        Ok(mut inherited) => {
            for (name, addr) in inherited.unused() {
                println!("listener: {name} {addr}");
            }
            for unusable in inherited.unusable() {
                println!("unusable: {}: {}", unusable.name, unusable.why);
            }
            println!("predecessor: {:?}", inherited.predecessor());
            println!("stops: {:?}", inherited.take_stop_notice().map(|notice| notice.is_given()));
            take_twice(&mut inherited);
            inherited.close_unused();
        }
    }
}

/// Listens twice on the address in the environment, if there is one, and reports both outcomes.
fn take_twice(inherited: &mut Inherited) {
    let Ok(addr) = env::var(TAKE_VAR) else { return };
    let addr = addr.parse().unwrap();
    let first = inherited.listen(&addr, BindOptions::default()).unwrap();
    println!("taken: {} leaves {}", first.local_addr(), inherited.unused().count());
    println!("again: {}", inherited.listen(&addr, BindOptions::default()).unwrap_err().problem());
    first.release();
}

fn ask(mut client: impl Read + Write, question: u8) -> String {
    client.write_all(&[question]).unwrap();
    let mut answer = String::new();
    client.read_to_string(&mut answer).unwrap();
    answer
}

fn ended_well(mut child: Child) {
    assert!(child.wait().unwrap().success());
}

/// Runs the reporting process and returns what it prints.
fn printed(command: &mut Command) -> String {
    let output = command.stdout(Stdio::piped()).output().unwrap();
    assert!(output.status.success());
    String::from_utf8(output.stdout).unwrap()
}

/// Runs the reporting process and returns its lines about sockets.
fn report(command: &mut Command) -> Vec<String> {
    let text = printed(command);
    let ours = ["refused:", "listener:", "unusable:", "predecessor:", "taken:", "again:"];
    let of_report = |line: &&str| ours.iter().any(|prefix| line.starts_with(prefix));
    text.lines().filter(of_report).map(str::to_owned).collect()
}

fn reporter() -> Command {
    let mut command = Command::new(env::current_exe().unwrap());
    command.args(role("reporting_process"));
    command
}

#[test]
fn a_successor_answers_who_came_before_during_and_after_the_hand_over() {
    let _alone = alone();
    let listener = tcp_listener();
    let before: Vec<TcpStream> = (0..20).map(|_| connect(&listener)).collect();
    let exe = env::current_exe().unwrap();
    let child = spawn_successor(&exe, &role("successor_process"), &[("web", &listener)]).unwrap();
    let during: Vec<TcpStream> = (0..20).map(|_| connect(&listener)).collect();
    let addr = listener.local_addr().clone();
    let ListenAddr::Tcp(socket_addr) = addr else { panic!("not TCP") };
    listener.release();
    let expected = format!("{addr} [] predecessor=true");
    #[expect(clippy::disallowed_methods, reason = "the successor answers from another process")]
    let after = (0..20).map(|_| TcpStream::connect(socket_addr).unwrap());
    for client in before.into_iter().chain(during).chain(after) {
        assert_eq!(ask(client, ASK), expected);
    }
    #[expect(clippy::disallowed_methods, reason = "the successor answers from another process")]
    let last = TcpStream::connect(socket_addr).unwrap();
    assert_eq!(ask(last, QUIT), expected);
    ended_well(child);
}

#[test]
fn a_successor_that_ends_first_leaves_the_files_to_its_predecessor() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (path, spare_path) = (dir.path().join("web.sock"), dir.path().join("spare.sock"));
    let (web, spare) = (unix_listener(&path), unix_listener(&spare_path));
    let exe = env::current_exe().unwrap();
    let child =
        spawn_successor(&exe, &role("successor_process"), &[("spare", &spare), ("web", &web)]).unwrap();
    web.release();
    spare.release();
    let answer = ask(UnixStream::connect(&path).unwrap(), QUIT);
    assert_eq!(answer, format!("unix:{} [\"spare\"] predecessor=true", path.display()));
    ended_well(child);
    assert!(path.exists() && spare_path.exists(), "this process, its predecessor, could serve on");
}

#[test]
fn a_successor_that_cannot_start_is_reported_and_harms_nothing() {
    let _alone = alone();
    let listener = tcp_listener();
    let listeners = [("web", &listener), ("also", &listener)];
    let failed = spawn_successor(Path::new("/nonexistent/exe"), &["x"], &listeners).unwrap_err();
    assert_eq!(failed.kind(), io::ErrorKind::NotFound);
    let _client = connect(&listener);
    let waiting = listener.close();
    assert!(matches!(waiting[..], [(RawStream::Tcp(_), _)]));
}

#[test]
fn names_that_cannot_travel_and_too_many_listeners_are_refused() {
    let _alone = alone();
    let listener = tcp_listener();
    for name in ["", "a:b", "a b"] {
        let refused = hand_over(&mut reporter(), &[(name, &listener)]).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    }
    let mut most = vec![("web", &listener); MAX_INHERITED];
    let mut command = reporter();
    hand_over(&mut command, &most).unwrap();
    assert_eq!(report(&mut command).len(), MAX_INHERITED + 1);
    most.push(("web", &listener));
    let refused = hand_over(&mut reporter(), &most).unwrap_err();
    assert_eq!(refused.kind(), io::ErrorKind::InvalidInput);
    listener.release();
}

#[test]
fn a_successor_learns_that_its_predecessor_was_told_to_stop() {
    let _alone = alone();
    let listener = tcp_listener();
    for given in [true, false] {
        let mut command = reporter();
        let notifier = hand_over(&mut command, &[("web", &listener)]).unwrap();
        if given {
            notifier.notify();
        }
        drop(notifier);
        let printed = printed(&mut command);
        assert!(printed.contains(&format!("stops: Some({given})")), "{printed}");
    }
    let mut command = reporter();
    hand_over(&mut command, &[("web", &listener)]).unwrap().notify();
    let managed = printed(command.env_remove("RON_PREDECESSOR_PID"));
    assert!(managed.contains("stops: None"), "only a predecessor gives notice: {managed}");
    listener.release();
}

/// The reporting process with descriptors passed as a service manager would.
fn managed(fds: Vec<OwnedFd>, names: Option<&str>, listen_pid: &str) -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", &format!("LISTEN_PID={listen_pid} exec \"$0\" \"$@\"")]);
    command.arg(env::current_exe().unwrap()).args(role("reporting_process"));
    command.env("LISTEN_FDS", fds.len().to_string());
    if let Some(names) = names {
        command.env("LISTEN_FDNAMES", names);
    }
    let mappings =
        fds.into_iter().zip(3..).map(|(parent_fd, child_fd)| FdMapping { parent_fd, child_fd }).collect();
    command.fd_mappings(mappings).unwrap();
    command
}

#[test]
fn a_service_managers_sockets_are_taken_by_name_and_left_in_its_care() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("web.sock");
    let (tcp, unix) = (tcp_listener(), unix_listener(&path));
    let fds = || vec![tcp.try_clone_fd().unwrap(), unix.try_clone_fd().unwrap()];
    let none = "predecessor: None".to_owned();
    let tcp_line = |name: &str| format!("listener: {name} {}", tcp.local_addr());
    let unix_line = |name: &str| format!("listener: {name} unix:{}", path.display());

    let named = report(&mut managed(fds(), Some("http:app.socket"), "$$"));
    assert_eq!(named, [tcp_line("http"), unix_line("app.socket"), none.clone()]);
    let unnamed = report(&mut managed(fds(), None, "$$"));
    assert_eq!(unnamed, [tcp_line("fd3"), unix_line("fd4"), none.clone()]);
    let for_another = report(&mut managed(fds(), Some("http:app.socket"), "1"));
    assert_eq!(for_another, [none]);
    assert!(path.exists(), "the manager's file stays");
    tcp.release();
    drop(unix.close());
}

#[test]
fn an_inherited_listener_is_found_by_its_address_once() {
    let _alone = alone();
    let dir = tempfile::tempdir().unwrap();
    let (tcp, unix) = (tcp_listener(), unix_listener(&dir.path().join("web.sock")));
    // TCP last: whoever leaves the Unix socket untaken removes its file.
    for (wanted, again) in [(&unix, "another process answers"), (&tcp, "is in use")] {
        let mut command = reporter();
        hand_over(&mut command, &[("a", &unix), ("b", &tcp)]).unwrap();
        let lines = report(command.env(TAKE_VAR, wanted.local_addr().to_string()));
        assert_eq!(lines[3], format!("taken: {} leaves 1", wanted.local_addr()));
        assert!(lines[4].contains(again), "{lines:?}");
    }
    tcp.release();
    drop(unix.close());
}

#[test]
fn descriptors_that_cannot_listen_are_listed_and_an_absurd_count_refused() {
    let _alone = alone();
    let datagram = UnixDatagram::unbound().unwrap().into();
    let (connected, _far) = UnixStream::pair().unwrap();
    let lines = report(&mut managed(vec![datagram, connected.into()], Some("one:two"), "$$"));
    assert_eq!(
        lines,
        [
            "unusable: one: not a TCP or Unix stream socket",
            "unusable: two: the socket is not listening",
            "predecessor: None",
        ]
    );
    let refused = report(reporter().env("LISTEN_FDS", "65"));
    assert_eq!(refused, ["refused: LISTEN_FDS=65 announces more than 64 listeners: pass fewer, or unset it"]);
}

#[test]
fn without_an_inheritance_addresses_are_bound_and_names_are_not_found() {
    let _alone = alone();
    let mut inherited = Inherited::default();
    let listener = inherited.listen(&"127.0.0.1:0".parse().unwrap(), BindOptions::default()).unwrap();
    drop(listener.close());
    let missing = inherited.listen(&"inherit:web".parse().unwrap(), BindOptions::default()).unwrap_err();
    assert!(
        matches!(&missing, BindError::NotInherited { name, offered } if name == "web" && offered.is_empty())
    );
    assert!(inherited.predecessor().is_none());
}
