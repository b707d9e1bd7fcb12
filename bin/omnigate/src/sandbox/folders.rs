//! The folders that a configuration names, and whether a new configuration stays within those of the old one.

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ron_kernel::{
    Scope,
    config::{Snapshot, Table as _},
    reload::{Commit, Preparing, Reconfigure},
};
use ron_ledger::Place;
use serde_json::Value;
use svc_edge::EdgeConfig;
use svc_overlay::OverlayConfig;
use svc_rewarder::RewarderConfig;

use crate::settings::{LedgerConfig, NodeConfig};

/// What every process reads: name resolution, certificates, what the system tells of itself and of this process.
const SYSTEM: [&str; 10] = [
    "/etc",
    "/proc",
    "/sys/fs/cgroup",
    "/sys/devices/system",
    "/run/systemd/resolve",
    "/run/resolvconf",
    "/run/NetworkManager",
    "/usr/share",
    "/dev/urandom",
    "/dev/random",
];
/// Where the system's loader and libraries are, which a successor is started with.
const LIBRARIES: [&str; 4] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64"];
/// What a successor's standard input is.
const NULL: &str = "/dev/null";
/// Settings that name what is written: a file, or a folder.
const WRITTEN: [&str; 4] =
    ["gateway.access_log.path", "admin.audit_log", "rewarder.node_key", "rewarder.artifact_dir"];

/// What a process can reach.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Folders {
    /// To read.
    pub(super) read: Vec<PathBuf>,
    /// To read, and to start programs from.
    pub(super) execute: Vec<PathBuf>,
    /// To read and to write.
    pub(super) write: Vec<PathBuf>,
}

impl Folders {
    /// What a configuration needs; `file` is where it comes from.
    pub(super) fn of(config: &Snapshot, file: Option<&Path>) -> Self {
        let mut folders = Self {
            read: SYSTEM.iter().map(PathBuf::from).collect(),
            execute: LIBRARIES.iter().map(PathBuf::from).collect(),
            write: vec![NULL.into()],
        };
        let program = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
        folders.execute.extend(program);
        folders.read.extend(file.into_iter().flat_map(around));
        for named in named(config) {
            match named {
                Named::Read(path) => folders.read.extend(around(&path)),
                Named::Write(path) => folders.write.extend(around(&path)),
                Named::Data(path) => folders.write.push(path),
            }
        }
        folders
    }

    /// The first path that a configuration names and that is not within these folders.
    fn outside(&self, config: &Snapshot) -> Option<PathBuf> {
        let readable: Vec<&PathBuf> = self.read.iter().chain(&self.execute).chain(&self.write).collect();
        let writable: Vec<&PathBuf> = self.write.iter().collect();
        named(config).into_iter().find_map(|named| {
            let (path, allowed) = match named {
                Named::Read(path) => (path, &readable),
                Named::Write(path) | Named::Data(path) => (path, &writable),
            };
            let is_within = allowed.iter().any(|folder| is_beneath(&path, folder));
            (!is_within).then_some(path)
        })
    }
}

/// A path that a configuration names.
enum Named {
    /// What is read.
    Read(PathBuf),
    /// A file or folder that is written, or a socket that is made.
    Write(PathBuf),
    /// A folder that is ours.
    Data(PathBuf),
}

/// Every path that a configuration names. Of texts that may be anything, those count that name what is there.
fn named(config: &Snapshot) -> Vec<Named> {
    let mut found = Vec::new();
    for (key, shown, _) in config.entries() {
        for text in texts(shown) {
            if let Some(socket) = text.strip_prefix("unix:") {
                found.push(Named::Write(socket.into()));
            } else if WRITTEN.contains(&key) && !text.is_empty() {
                found.push(Named::Write(text.into()));
            } else if let Some(folder) = text.strip_prefix("file:").filter(|_| key == "edge.cas.url") {
                found.push(Named::Data(folder.into()));
            } else if text.contains('/') && !text.contains("://") && Path::new(&text).exists() {
                found.push(Named::Read(text.into()));
            } else if key.ends_with("path") && !text.is_empty() {
                found.push(Named::Read(text.into()));
            }
        }
    }
    let node = config.get::<NodeConfig>();
    if let Place::File(path) = config.get::<LedgerConfig>().place(&node.data_dir, node.amnesia) {
        found.extend(
            path.parent().filter(|folder| *folder != node.data_dir).map(|folder| Named::Data(folder.into())),
        );
    }
    if stores(config) {
        found.push(Named::Data(node.data_dir.clone()));
    }
    found
}

/// The texts in a value as it is shown: one, or a list.
fn texts(shown: &str) -> Vec<String> {
    fn collect(value: &Value, into: &mut Vec<String>) {
        match value {
            Value::String(text) => into.push(text.clone()),
            Value::Array(items) => items.iter().for_each(|item| collect(item, into)),
            Value::Object(fields) => fields.values().for_each(|field| collect(field, into)),
            _ => {}
        }
    }
    let mut found = Vec::new();
    match serde_json::from_str::<Value>(shown) {
        Ok(value) => collect(&value, &mut found),
        Err(_) => found.push(shown.to_owned()),
    }
    found
}

/// Whether a service is enabled that keeps something in the data folder.
fn stores(config: &Snapshot) -> bool {
    let enabled = config.get::<EdgeConfig>().enabled
        || config.get::<OverlayConfig>().enabled
        || config.get::<RewarderConfig>().enabled;
    enabled && !config.get::<NodeConfig>().amnesia
}

/// Makes the data folder if something is to be kept there: only what exists can be allowed.
#[expect(clippy::disallowed_methods, reason = "runs before the runtimes start")]
pub(super) fn make_data_folder(config: &Snapshot) -> Result<(), String> {
    for named in named(config) {
        if let Named::Data(folder) = named {
            std::fs::create_dir_all(&folder)
                .map_err(|error| format!("node.data_dir: {} cannot be made: {error}", folder.display()))?;
        }
    }
    Ok(())
}

/// The folders that hold a path: the one it is in, because files and folders are replaced by renaming, and the one that
/// its links lead to. A device is only itself.
fn around(path: &Path) -> Vec<PathBuf> {
    let parent = |path: &Path| match path.parent() {
        Some(parent) if parent == Path::new("/") || parent == Path::new("/dev") => path.to_owned(),
        Some(parent) if parent.as_os_str().is_empty() => PathBuf::from("."),
        Some(parent) => parent.to_owned(),
        None => path.to_owned(),
    };
    let real = path.canonicalize().ok().map(|real| parent(&real));
    [parent(path)].into_iter().chain(real).collect()
}

/// Whether a path, or what there is of it, is beneath a folder.
fn is_beneath(path: &Path, folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = absolute.ancestors().find_map(|ancestor| ancestor.canonicalize().ok());
    real.is_some_and(|real| real.starts_with(&folder))
}

/// Whether a sandbox holds this process already: outside of one, everybody may look at the root folder.
#[expect(clippy::disallowed_methods, reason = "runs before the runtimes start")]
pub(super) fn is_confined() -> bool {
    std::fs::read_dir("/").is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// Refuses a configuration that names what the sandbox does not let this process reach.
#[derive(Debug)]
pub(crate) struct StaysWithin {
    scope: Scope,
    /// `None` where nothing is held to anything.
    folders: Option<Arc<Folders>>,
}

impl StaysWithin {
    pub(crate) fn new(scope: &Scope, folders: Option<Folders>) -> Self {
        Self { scope: scope.clone(), folders: folders.map(Arc::new) }
    }
}

impl Reconfigure for StaysWithin {
    fn prepare(&self, new: Arc<Snapshot>) -> Preparing<'_> {
        let folders = self.folders.clone();
        Box::pin(async move {
            let commit: Commit = Box::new(|| ());
            let Some(folders) = folders else { return Ok(commit) };
            let look = move || folders.outside(&new);
            let outside = self.scope.blocking().run("look for paths outside the sandbox", look).await;
            match outside.map_err(|error| error.to_string())? {
                None => Ok(commit),
                Some(path) => Err(format!(
                    "{} is outside the folders that the configuration named when this process started, and its sandbox \
                     reaches no other: restart the node, or set {}.sandbox = \"off\" and restart",
                    path.display(),
                    NodeConfig::NAME
                )),
            }
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_in_every_form_of_value() {
        assert_eq!(texts("\"a/b\""), ["a/b"]);
        assert_eq!(texts(r#"["a", {"path": "b"}]"#), ["a", "b"]);
        assert_eq!(texts("unix:/run/a.sock"), ["unix:/run/a.sock"]);
        assert!(texts("17").is_empty());
    }

    #[test]
    fn a_path_is_beneath_a_folder_only_if_its_links_say_so_too() {
        let dir = tempfile::tempdir().unwrap();
        let (inside, outside) = (dir.path().join("inside"), dir.path().join("outside"));
        std::fs::create_dir(&inside).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("secret"), "").unwrap();
        std::os::unix::fs::symlink(outside.join("secret"), inside.join("link")).unwrap();
        assert!(is_beneath(&inside.join("new.sock"), &inside));
        assert!(!is_beneath(&outside.join("secret"), &inside));
        assert!(!is_beneath(&inside.join("link"), &inside));
        assert!(!is_beneath(&inside.join("../outside/secret"), &inside));
        assert_eq!(around(Path::new("cert.pem")), [PathBuf::from(".")]);
        assert_eq!(around(Path::new("/dev/stdout"))[0], Path::new("/dev/stdout"));
    }
}
