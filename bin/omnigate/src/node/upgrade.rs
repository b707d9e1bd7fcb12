//! Upgrade without a refused connection: SIGUSR2 starts the program again with our listening sockets.
//!
//! Both processes then accept from the same sockets. Once the successor is up it asks us to drain with SIGTERM, which
//! we do as for anybody. If it ends first, or is not up in time, nothing has changed here. If somebody else asks us to stop
//! before, the successor gets notice and stops too, as soon as it is up: a node that is told to stop leaves no process.

use std::{
    ffi::OsString,
    io,
    num::NonZeroU32,
    path::PathBuf,
    process::{Child, Command},
    sync::{
        Arc,
        atomic::{AtomicU32, Ordering},
    },
    time::Duration,
};

use ron_kernel::{
    Scope, audit,
    config::ConfigStore,
    lock::Ranked,
    readiness::Effect,
    supervisor::{TaskCtx, TaskFault, TaskResult},
    topology::{Escalation, Plane, Restart, Stage, TaskSpec},
};
use ron_transport::{
    inherit::{StopNotifier, hand_over},
    listen::Listener,
};
use rustix::process::{Pid, Signal, kill_process, test_kill_process};
use tokio::signal::unix::{Signal as Signals, SignalKind, signal};

use super::parts::Parts;
use crate::{admin::locks::UPGRADE_SIGNALS, sandbox, settings::NodeConfig};

/// How long a successor may take to be ready.
pub(crate) const READY_WITHIN: Duration = Duration::from_secs(30);
/// How often a successor is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// The task that waits for SIGUSR2.
pub(crate) const UPGRADER: TaskSpec = TaskSpec {
    name: "upgrader",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    stop: Stage::Support,
    doc: "on SIGUSR2 starts the program again with our sockets, and keeps them open until it has taken over",
};

/// Sockets by the name under which they are handed over.
type Sockets = Vec<(String, Arc<Listener>)>;

/// The successor that is starting or has taken over, if there is one.
#[derive(Debug, Default)]
pub(super) struct Successor(AtomicU32);

impl Successor {
    /// Returns the id of the new process.
    pub(super) fn pid(&self) -> Option<NonZeroU32> {
        NonZeroU32::new(self.0.load(Ordering::Relaxed))
    }

    fn set(&self, pid: u32) {
        self.0.store(pid, Ordering::Relaxed);
    }

    fn clear(&self) {
        self.set(0);
    }
}

/// What a successor is started with.
struct Upgrade {
    /// Whether there may be a successor at all.
    may_start: bool,
    exe: PathBuf,
    args: Vec<OsString>,
    parts: Arc<Parts>,
    store: Arc<ConfigStore>,
    /// Watched from before anybody can know that the node is there: until then the signal would end the process.
    asked: Ranked<Option<Signals>>,
    successor: Arc<Successor>,
}

/// Starts waiting for SIGUSR2, which is watched already. Gives where to find the successor then.
pub(super) fn start(
    scope: &Scope,
    parts: Arc<Parts>,
    store: Arc<ConfigStore>,
    asked: Signals,
) -> Result<Arc<Successor>, String> {
    // Asked now: once the file is replaced, the system only knows the path of the deleted one.
    let exe =
        std::env::current_exe().map_err(|error| format!("cannot find the program's own file: {error}"))?;
    let successor = Arc::new(Successor::default());
    let upgrade = Arc::new(Upgrade {
        may_start: store.current().get::<NodeConfig>().upgrades,
        exe,
        args: std::env::args_os().skip(1).collect(),
        parts,
        store,
        asked: Ranked::new(&UPGRADE_SIGNALS, Some(asked)),
        successor: Arc::clone(&successor),
    });
    scope.task(&UPGRADER, move |ctx| run(ctx, Arc::clone(&upgrade)));
    Ok(successor)
}

/// Whether the process that handed its sockets over has not ended yet.
pub(super) fn is_alive(predecessor: u32) -> bool {
    let pid = i32::try_from(predecessor).ok().and_then(Pid::from_raw);
    pid.is_some_and(|pid| test_kill_process(pid).is_ok())
}

/// Asks the process that handed its sockets over to drain.
pub(super) fn dismiss(predecessor: u32) {
    let pid = i32::try_from(predecessor).ok().and_then(Pid::from_raw);
    let asked = pid.map(|pid| kill_process(pid, Signal::TERM));
    match asked {
        Some(Ok(())) => tracing::info!(predecessor, "took over; the predecessor drains"),
        _ => tracing::warn!(predecessor, "took over, but the predecessor could not be asked to drain"),
    }
}

async fn run(ctx: TaskCtx, upgrade: Arc<Upgrade>) -> TaskResult {
    let watched = upgrade.asked.lock().take();
    let mut asked = match watched {
        Some(asked) => asked,
        None => watch().map_err(TaskFault::new)?,
    };
    loop {
        tokio::select! {
            () = ctx.stopping() => return Ok(()),
            signal = asked.recv() => if signal.is_none() { return Err(TaskFault::new("signals are gone")) },
        }
        if !upgrade.may_start {
            tracing::warn!("SIGUSR2 starts no successor: node.upgrades is false");
            continue;
        }
        if ctx.scope.shutdown().is_draining() {
            tracing::warn!("SIGUSR2 starts no successor: the node is stopping");
            continue;
        }
        let Some(sockets) = upgrade.parts.listeners(&upgrade.store.current()) else {
            continue;
        };
        tracing::info!(target: audit::TARGET, action = "upgrade", actor = "SIGUSR2", outcome = "starting");
        match upgrade.spawn(&ctx.scope, &sockets).await {
            Ok((child, notifier)) => {
                upgrade.successor.set(child.id());
                ctx.scope.shutdown().set_successor(true);
                if taken_over(&ctx, child, &notifier).await {
                    release(sockets).await;
                    return Ok(());
                }
                upgrade.successor.clear();
                ctx.scope.shutdown().set_successor(false);
            }
            Err(problem) => {
                tracing::error!(problem, "the successor could not be started; this process goes on");
            }
        }
    }
}

/// Watches for SIGUSR2.
pub(super) fn watch() -> io::Result<Signals> {
    signal(SignalKind::user_defined2())
}

impl Upgrade {
    async fn spawn(&self, scope: &Scope, sockets: &Sockets) -> Result<(Child, StopNotifier), String> {
        let (exe, args, sockets) = (self.exe.clone(), self.args.clone(), sockets.clone());
        tracing::info!(exe = %exe.display(), "starting a successor");
        let spawned = scope.blocking().run("start the successor", move || {
            let named: Vec<(&str, &Listener)> =
                sockets.iter().map(|(name, socket)| (name.as_str(), &**socket)).collect();
            let mut command = Command::new(exe);
            command.args(args);
            sandbox::tell_successor(&mut command);
            let notifier = hand_over(&mut command, &named)?;
            Ok((command.spawn()?, notifier))
        });
        let started: io::Result<_> = spawned.await.map_err(|error| error.to_string())?;
        started.map_err(|error| error.to_string())
    }
}

/// Waits until this process is told to drain, usually by the successor that has taken over. Returns whether it was. The
/// successor gets notice, which it heeds if it has not taken over yet.
async fn taken_over(ctx: &TaskCtx, mut successor: Child, notifier: &StopNotifier) -> bool {
    let deadline = ctx.scope.clock().within(READY_WITHIN);
    loop {
        tokio::select! {
            () = ctx.stopping() => {
                notifier.notify();
                return true;
            }
            () = tokio::time::sleep(LOOK) => {}
        }
        if ctx.scope.shutdown().is_draining() {
            notifier.notify();
            ctx.stopping().await;
            return true;
        }
        if let Ok(Some(status)) = successor.try_wait() {
            tracing::error!(%status, "the successor ended before it was ready; this process goes on");
            return false;
        }
        if deadline.has_passed(ctx.scope.clock().now()) {
            tracing::error!("the successor was not ready in time and is ended; this process goes on");
            let end = move || successor.kill().and_then(|()| successor.wait());
            let _ = ctx.scope.blocking().run("end the successor", end).await;
            return false;
        }
    }
}

/// Lets go of sockets that the successor serves: their backlogs and files are its own now.
async fn release(sockets: Sockets) {
    for (_, mut socket) in sockets {
        loop {
            match Arc::try_unwrap(socket) {
                Ok(socket) => break socket.release(),
                // Our own listener still holds it. It must not be the last to, or it would remove a socket's file.
                Err(shared) => socket = shared,
            }
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
