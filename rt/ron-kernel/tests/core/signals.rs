//! Signals, in a process of its own: the first drains, the second ends at once, SIGHUP reloads.

use std::{
    io::{BufRead, BufReader, Lines},
    process::{Child, ChildStdout, Command, Stdio},
    sync::{
        Arc, Once,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ron_kernel::{
    Exit, Kernel, Scope, Signals,
    config::ConfigStore,
    planes::RuntimeMode,
    reload::{self, Preparing, Reconfigure, ReloadDesk, Reloader},
    topology::{Stage, TaskSpec, Topology},
};
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    reload::{parse, settled},
    support::{PATIENCE, USUAL, kernel, task, topology},
};

/// What the child process is to do; unset in an ordinary run.
const ROLE: &str = "RON_KERNEL_TEST_CHILD";
const WORKER: TaskSpec = task("worker", USUAL, Stage::Workers);

static TOPOLOGY: Topology = topology(&[WORKER], &[], &[]);

/// The child: a node whose worker is quick or slow to stop.
#[test]
fn child() {
    let Ok(role) = std::env::var(ROLE) else { return };
    let kernel = kernel(RuntimeMode::PerCore, PATIENCE);
    let signals = kernel.watch_signals().unwrap();
    let scope = kernel.scope(&TOPOLOGY);
    let opens = role == "opening";
    scope.task(&WORKER, move |ctx| {
        let slow = role == "slow";
        let patient = role == "asked";
        async move {
            // Should the test die first, the child does not outlive it for long.
            if tokio::time::timeout(PATIENCE * 5, ctx.stopping()).await.is_err() {
                std::process::exit(1);
            }
            println!("\ndraining");
            if slow {
                std::future::pending::<()>().await;
            }
            if patient {
                // Long enough for a signal to arrive in the middle of it.
                tokio::time::sleep(Duration::from_millis(500)).await;
            }
            Ok(())
        }
    });
    watch_hangups(kernel.own());
    // The first sample is taken by the conductor's tick, so the signals are watched by then.
    let once = Once::new();
    let asks_itself = std::env::var(ROLE).is_ok_and(|role| role == "asked").then(|| scope.shutdown().clone());
    scope.sampled(move || once.call_once(|| println!("\nready")));
    // At a later sample, when everything is up.
    let samples = AtomicU32::new(0);
    scope.sampled(move || {
        if samples.fetch_add(1, Ordering::Relaxed) == 3 {
            asks_itself.iter().for_each(|shutdown| shutdown.request("a test says so"));
        }
    });
    let exit = start_and_run(kernel, signals, opens);
    println!("\n{exit}");
    std::process::exit(exit.code as i32);
}

/// Conducts the node at once, or, if it `opens` something first that takes forever, after a signal put an end to that.
fn start_and_run(kernel: Kernel, mut signals: Signals, opens: bool) -> Exit {
    if opens {
        println!("\nready");
        let opened = kernel.block_on(signals.unless_told_to_stop(std::future::pending::<()>()));
        assert_eq!(opened, None);
    }
    kernel.run_watching(signals).unwrap()
}

struct SaysSo;

impl Reconfigure for SaysSo {
    fn prepare(&self, _: Arc<ron_kernel::config::Snapshot>) -> Preparing<'_> {
        Box::pin(async { Ok(Box::new(|| println!("\nreloaded")) as reload::Commit) })
    }
}

fn watch_hangups(scope: &Scope) {
    let store = Arc::new(ConfigStore::new(&parse("").unwrap()));
    let read = Arc::new(|| settled(""));
    reload::start(
        scope,
        Reloader::new(scope, store, read, vec![Arc::new(SaysSo)]),
        None,
        ReloadDesk::default(),
    );
}

struct Node {
    process: Child,
    lines: Lines<BufReader<ChildStdout>>,
    /// What it said while something else was waited for.
    said: Vec<String>,
}

impl Node {
    fn start(role: &str) -> Self {
        let mut process = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "signals::child", "--nocapture"])
            .env(ROLE, role)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let lines = BufReader::new(process.stdout.take().unwrap()).lines();
        let mut node = Self { process, lines, said: Vec::new() };
        // Its watcher looks at the configuration once when it starts.
        node.hears(&["reloaded", "ready"]);
        node
    }

    /// Waits until lines that begin like these have come, in any order; the end of the output fails the test.
    fn hears(&mut self, wanted: &[&str]) {
        wanted.iter().for_each(|wanted| drop(self.hears_one(wanted)));
    }

    /// Waits for a line that begins so and returns it; others are kept for whoever waits for them later.
    fn hears_one(&mut self, wanted: &str) -> String {
        if let Some(at) = self.said.iter().position(|line| line.starts_with(wanted)) {
            return self.said.remove(at);
        }
        for line in self.lines.by_ref().map_while(Result::ok) {
            if line.starts_with(wanted) {
                return line;
            }
            self.said.push(line);
        }
        panic!("the node ended without saying {wanted:?}")
    }

    fn send(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.process), signal).unwrap();
    }

    fn code(&mut self) -> Option<i32> {
        self.process.wait().unwrap().code()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

#[test]
fn the_first_signal_drains_and_exits_with_zero() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let mut node = Node::start("quick");
        node.send(signal);
        let line = node.hears_one("stopped in");
        assert!(line.ends_with(&format!("received {name}")), "{line}");
        assert_eq!(node.code(), Some(0));
    }
}

#[test]
fn a_second_signal_during_a_slow_drain_ends_the_node_at_once() {
    let mut node = Node::start("slow");
    node.send(Signal::TERM);
    node.hears(&["draining"]);
    node.send(Signal::INT);
    let line = node.hears_one("stopped in");
    assert!(line.contains("svc/worker"), "what is cut off is named: {line}");
    assert!(!line.contains("stuck"), "nothing was: {line}");
    assert_eq!(node.code(), Some(5));
}

#[test]
fn one_signal_after_another_request_to_stop_is_not_a_second_one() {
    let mut node = Node::start("asked");
    node.hears(&["draining"]);
    node.send(Signal::TERM);
    let line = node.hears_one("stopped in");
    assert!(line.ends_with("a test says so"), "{line}");
    assert_eq!(node.code(), Some(0));
}

#[test]
fn a_hangup_reloads_and_does_not_end_the_node() {
    let mut node = Node::start("quick");
    node.send(Signal::HUP);
    node.hears(&["reloaded"]);
    node.send(Signal::TERM);
    node.hears_one("stopped in");
    assert_eq!(node.code(), Some(0));
}

#[test]
fn a_signal_to_a_node_that_is_still_opening_drains_what_is_open() {
    for (signal, name) in [(Signal::TERM, "SIGTERM"), (Signal::INT, "SIGINT")] {
        let mut node = Node::start("opening");
        node.send(signal);
        node.hears(&["draining"]);
        let line = node.hears_one("stopped in");
        assert!(line.ends_with(&format!("received {name}")), "{line}");
        assert_eq!(node.code(), Some(0));
    }
}
