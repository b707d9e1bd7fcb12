//! The file of the audit trail, and the task that writes it.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, UNIX_EPOCH},
};

use arc_swap::ArcSwapOption;
use ron_kernel::{
    LogFile, Scope,
    lines::{self, LineLog, LineSink},
    readiness::Effect,
    topology::{Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec},
};

use crate::{
    audit_outlet::{AuditOutlet, Fields},
    settings::AdminConfig,
};

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
    doc: "lines of the audit trail; when it is full, new lines are only in the ordinary log, and counted",
};

/// The mode of a file that is made: the trail tells who did what.
const MODE: u32 = 0o600;

const AUDIT_LOG: LineLog = LineLog { task: &AUDIT_WRITER, name: "audit log", job: "write the audit log" };

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
        let current = file.clone();
        let lost = scope.condition("audit_log", Effect::Report, Duration::ZERO);
        lines::start_writer(scope, AUDIT_LOG, receiver.share(), lost, move || {
            current.0.load_full().map(|path| Arc::new(TrailFile(path)) as _)
        });
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

/// A file that the trail is appended to.
struct TrailFile(Arc<PathBuf>);

impl LineSink<Vec<u8>> for TrailFile {
    fn add(&self, line: Vec<u8>, batch: &mut Vec<u8>) {
        batch.extend_from_slice(&line);
    }

    fn write(&self, batch: &[u8]) -> io::Result<()> {
        // Opened each time, so that the file can be moved away and a new one begins.
        open(&self.0)?.append(batch)
    }
}

/// Appends one event to a file, for a command that ends after it. Blocking.
pub(crate) fn append_now(path: &Path, at: Duration, fields: Fields) -> io::Result<()> {
    open(path)?.append(&line(at, fields))
}

fn open(path: &Path) -> io::Result<LogFile> {
    LogFile::open(path, MODE)
}
