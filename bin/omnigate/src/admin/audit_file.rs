//! The file of the audit trail, and the task that writes it.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    os::unix::fs::OpenOptionsExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use arc_swap::ArcSwapOption;
use futures_util::FutureExt as _;
use ron_kernel::{
    Scope,
    queue::SharedReceiver,
    readiness::{Condition, Effect},
    supervisor::{TaskCtx, TaskResult},
    topology::{Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec},
};

use crate::{
    audit_outlet::{AuditOutlet, Fields},
    settings::AdminConfig,
};

/// How much is written at once, in bytes, about.
const BATCH: usize = 64 * 1024;

/// The task that writes the file.
pub(super) const AUDIT_WRITER: TaskSpec = TaskSpec {
    name: "audit_writer",
    plane: Plane::Control,
    restart: Restart::usual(Escalation::Degrade(Effect::Report)),
    // After the admin listener's last request.
    stop: Stage::Support,
    doc: "appends the audit trail to its file, some lines at a time",
};

/// The lines on their way to it.
pub(super) const AUDIT_QUEUE: QueueSpec = QueueSpec {
    name: "audit",
    capacity: 1024,
    policy: Policy::RejectNew,
    from: "the log",
    to: "audit_writer",
    doc: "lines of the audit trail; when full, new lines are in the ordinary log alone, and counted",
};

/// The file in use; `None` for none. Clones share it.
#[derive(Clone, Debug, Default)]
pub(super) struct AuditFile(Arc<ArcSwapOption<PathBuf>>);

impl AuditFile {
    /// Starts the writer, and has the log feed it.
    pub(super) fn start(scope: &Scope, outlet: &AuditOutlet) -> Self {
        let file = Self::default();
        let (sender, receiver) = scope.queue::<Vec<u8>>(&AUDIT_QUEUE, "audit");
        let (clock, switch) = (scope.clock(), file.clone());
        outlet.connect(Box::new(move |fields| {
            if switch.0.load().is_some() {
                // A full queue counts what it does not take.
                drop(sender.try_send(line(clock.unix(), fields)));
            }
        }));
        let condition = scope.condition("audit_log", Effect::Report, Duration::ZERO);
        let writer = Arc::new(Writer { lines: receiver.share(), file: file.clone(), condition });
        scope.task(&AUDIT_WRITER, move |ctx| Arc::clone(&writer).run(ctx));
        file
    }

    /// Makes sure that the file that `config` names can be written.
    pub(super) async fn try_open(scope: &Scope, config: &AdminConfig) -> Result<(), String> {
        let path = config.audit_log.clone();
        if path.as_os_str().is_empty() {
            return Ok(());
        }
        let shown = path.display().to_string();
        let opened = scope.blocking().run("open the audit log", move || open(&path)).await;
        let opened = opened.map_err(|error| error.to_string())?;
        opened.map(drop).map_err(|error| {
            format!("admin.audit_log {shown}: {error}: name a file in a folder that the node may write to")
        })
    }

    /// Puts the file that `config` names into use.
    pub(super) fn reconfigure(&self, config: &AdminConfig) {
        let path = &config.audit_log;
        self.0.store((!path.as_os_str().is_empty()).then(|| Arc::new(path.clone())));
    }
}

/// An event as it is written.
fn line(at: Duration, mut fields: Fields) -> Vec<u8> {
    let time = humantime::format_rfc3339_millis(UNIX_EPOCH + at).to_string();
    fields.shift_insert(0, "time".to_owned(), time.into());
    let mut line = serde_json::Value::Object(fields).to_string().into_bytes();
    line.push(b'\n');
    line
}

struct Writer {
    lines: SharedReceiver<Vec<u8>>,
    file: AuditFile,
    /// Raised while lines are lost.
    condition: Condition,
}

impl Writer {
    /// Writes until the node stops, then what is left.
    async fn run(self: Arc<Self>, ctx: TaskCtx) -> TaskResult {
        loop {
            tokio::select! {
                biased;
                line = self.lines.recv() => match line {
                    Some(line) => self.write(&ctx.scope, line).await,
                    None => return Ok(()),
                },
                () = ctx.stopping() => return Ok(()),
            }
        }
    }

    /// Writes a line and those that wait behind it.
    async fn write(&self, scope: &Scope, first: Vec<u8>) {
        let mut batch = first;
        while batch.len() < BATCH
            && let Some(line) = self.lines.recv().now_or_never().flatten()
        {
            batch.extend_from_slice(&line);
        }
        let Some(path) = self.file.0.load_full() else { return };
        // Opened each time, so that the file can be moved away and a new one begins.
        let append = move || open(&path).and_then(|mut file| file.write_all(&batch));
        let written = scope.blocking().run("write the audit log", append).await;
        match written.map_err(io::Error::other).and_then(|done| done) {
            Ok(()) => self.condition.clear(),
            Err(error) => self.condition.raise(format!("lines of the audit log are lost: {error}")),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "on the blocking pool")]
fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().append(true).create(true).mode(0o600).open(path)
}
