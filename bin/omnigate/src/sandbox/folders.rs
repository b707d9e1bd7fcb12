//! The folders that a configuration names, and whether a new configuration stays within those of the old one.

use std::{
    fmt,
    path::{Path, PathBuf},
    sync::Arc,
};

use ron_kernel::{
    Scope,
    config::Snapshot,
    reload::{Commit, Preparing, Reconfigure},
};
use ron_ledger::Place;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use svc_edge::EdgeConfig;
use svc_gateway::GatewayConfig;
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
const LIBRARIES: [&str; 5] = ["/lib", "/lib64", "/usr/lib", "/usr/lib64", "/nix/store"];
/// Where the programs are that a hook may use.
const PROGRAMS: [&str; 7] =
    ["/bin", "/sbin", "/usr/bin", "/usr/sbin", "/usr/local/bin", "/usr/local/lib", "/usr/libexec"];
/// Files of the system that may be links to other folders.
const LINKS: [&str; 3] = ["/etc/resolv.conf", "/etc/hosts", "/etc/nsswitch.conf"];
/// What a successor's standard input is.
const NULL: &str = "/dev/null";
/// Settings that name what is written: a file, or a folder.
const WRITTEN: [&str; 4] =
    ["gateway.access_log.path", "admin.audit_log", "rewarder.node_key", "rewarder.artifact_dir"];

/// Keys that name a file that is read, in whichever table.
const READ: [&str; 13] = [
    "cert_path",
    "key_path",
    "client_ca_path",
    "crl_path",
    "ocsp_path",
    "ca_path",
    "jwks_ca_path",
    "root_keys",
    "revoked",
    "signed_by",
    "policy_files",
    "node_key",
    "users_path",
];

/// The files and folders that a process can access.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Folders {
    /// Folders that the node may read, and not write to.
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
        folders.read.extend(LINKS.iter().flat_map(|link| around(Path::new(link))));
        if config.get::<NodeConfig>().upgrades {
            let program = std::env::current_exe().ok().and_then(|exe| Some(exe.parent()?.to_owned()));
            folders.execute.extend(program);
        } else if !starts_programs(config) {
            folders.read.append(&mut folders.execute);
        }
        folders.read.extend(file.into_iter().flat_map(around));
        let from = file.and_then(Path::parent).unwrap_or(Path::new(""));
        let referenced = config.referenced_files().iter().map(|name| from.join(name));
        folders.read.extend(referenced.flat_map(|path| around(&path)));
        for named in named(config) {
            match named {
                Named::Read(path) => folders.read.extend(around(&path)),
                Named::Write(path) => folders.write.extend(around(&path)),
                Named::Data(path) => folders.write.push(path),
                Named::Run(path) => {
                    folders.execute.extend(around(&path));
                    folders.execute.extend(PROGRAMS.iter().map(PathBuf::from));
                }
            }
        }
        for list in [&mut folders.read, &mut folders.execute, &mut folders.write] {
            list.sort_unstable();
            list.dedup();
        }
        folders
    }

    /// Makes sure that a configuration names nothing outside these folders.
    pub(super) fn check(&self, config: &Snapshot) -> Result<(), OutsideSandbox> {
        self.outside(config).map_or(Ok(()), |path| Err(OutsideSandbox { path }))
    }

    /// The first path that a configuration names and that is not within these folders.
    fn outside(&self, config: &Snapshot) -> Option<PathBuf> {
        let readable: Vec<&PathBuf> = self.read.iter().chain(&self.execute).chain(&self.write).collect();
        let writable: Vec<&PathBuf> = self.write.iter().collect();
        let executable: Vec<&PathBuf> = self.execute.iter().collect();
        named(config).into_iter().find_map(|named| {
            let (path, allowed) = match named {
                Named::Read(path) => (path, &readable),
                Named::Write(path) | Named::Data(path) => (path, &writable),
                Named::Run(path) => (path, &executable),
            };
            let is_within = allowed.iter().any(|folder| is_beneath(&path, folder));
            (!is_within).then_some(path)
        })
    }
}

impl fmt::Display for Folders {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown: Vec<String> = self.write.iter().map(|folder| folder.display().to_string()).collect();
        let (read, execute) = (self.read.len(), self.execute.len());
        write!(f, "{read} folders to read, {execute} to start programs from, to write {}", shown.join(" "))
    }
}

/// A path that a configuration names.
enum Named {
    /// A file or folder that is only read.
    Read(PathBuf),
    /// A file or folder that is written, or a socket that is made.
    Write(PathBuf),
    /// A folder that is ours.
    Data(PathBuf),
    /// A program that is started.
    Run(PathBuf),
}

/// Every path that a configuration names. A setting that names files must be known here: other texts, such as the paths
/// of routes, look like files too.
fn named(config: &Snapshot) -> Vec<Named> {
    let mut found = Vec::new();
    for (setting, shown, _) in config.entries() {
        for (key, text) in texts(setting, shown) {
            if let Some(socket) = text.strip_prefix("unix:") {
                // A server's socket is only connected to.
                let is_server = key == "endpoints";
                found.push(if is_server { Named::Read(socket.into()) } else { Named::Write(socket.into()) });
            } else if let Some(file) = text.strip_prefix("file:") {
                let is_store = setting == "edge.cas.url";
                found.push(if is_store { Named::Data(file.into()) } else { Named::Read(file.into()) });
            } else if WRITTEN.contains(&setting) && !text.is_empty() {
                found.push(Named::Write(text.into()));
            } else if names_file(setting, &key) && !text.is_empty() {
                found.push(Named::Read(text.into()));
            }
        }
    }
    let node = config.get::<NodeConfig>();
    let ledger = config.get::<LedgerConfig>().place(&node.data_dir, node.amnesia);
    found.extend(ledger.authority_file().map(Named::Read));
    if let Place::File(path) = ledger {
        found.extend(
            path.parent().filter(|folder| *folder != node.data_dir).map(|folder| Named::Data(folder.into())),
        );
    }
    found.extend(hook(config).map(Named::Run));
    if stores(config) {
        found.push(Named::Data(node.data_dir.clone()));
    }
    found
}

/// The files that a configuration has the node read, apart from what is served: keys, certificates, lists.
pub(crate) fn files_read_by(config: &Snapshot) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for (setting, shown, _) in config.entries() {
        for (key, text) in texts(setting, shown) {
            match text.strip_prefix("file:") {
                Some(file) if setting != "edge.cas.url" => files.push(file.into()),
                None if READ.contains(&key.as_str()) && !text.is_empty() => files.push(text.into()),
                _ => {}
            }
        }
    }
    files.sort_unstable();
    files.dedup();
    files
}

/// Whether a setting, or a key of a table in it, names a file or a folder that is read.
fn names_file(setting: &str, key: &str) -> bool {
    let is_served = ["edge.packs", "edge.roots"].iter().any(|served| setting.starts_with(served));
    READ.contains(&key) || is_served && matches!(key, "path" | "packs" | "roots")
}

/// The texts in a value as it is shown, each with the innermost key that leads to it.
fn texts(setting: &str, shown: &str) -> Vec<(String, String)> {
    fn collect(key: &str, value: &Value, into: &mut Vec<(String, String)>) {
        match value {
            Value::String(text) => into.push((key.to_owned(), text.clone())),
            Value::Array(items) => items.iter().for_each(|item| collect(key, item, into)),
            Value::Object(fields) => fields.iter().for_each(|(key, field)| collect(key, field, into)),
            _ => {}
        }
    }
    let mut names = setting.split(['.', '[', ']']).filter(|name| !name.is_empty());
    let key = names.rfind(|name| !name.bytes().all(|b| b.is_ascii_digit())).unwrap_or_default();
    let mut found = Vec::new();
    match serde_json::from_str::<Value>(shown) {
        Ok(value) => collect(key, &value, &mut found),
        Err(_) => found.push((key.to_owned(), shown.to_owned())),
    }
    found
}

/// The operator's program that the gateway starts, if there is one.
fn hook(config: &Snapshot) -> Option<PathBuf> {
    let gateway = config.get::<GatewayConfig>();
    gateway.acme.dns_hook.first().filter(|_| gateway.has_acme()).map(PathBuf::from)
}

/// Whether the node starts programs: its successor, or a hook.
pub(super) fn starts_programs(config: &Snapshot) -> bool {
    config.get::<NodeConfig>().upgrades || hook(config).is_some()
}

/// Whether a service is enabled that keeps something in the data folder.
fn stores(config: &Snapshot) -> bool {
    let enabled = config.get::<EdgeConfig>().enabled
        || config.get::<GatewayConfig>().stores_on_disk()
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
    let folders = [parent(path)].into_iter().chain(real);
    // Whatever is configured, never everything.
    folders.filter(|folder| folder != Path::new("/")).collect()
}

/// Whether a path, or what there is of it, is beneath a folder.
fn is_beneath(path: &Path, folder: &Path) -> bool {
    let Ok(folder) = folder.canonicalize() else { return false };
    let absolute = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
    let real = absolute.ancestors().find_map(|ancestor| ancestor.canonicalize().ok());
    real.is_some_and(|real| real.starts_with(&folder))
}

/// A configuration names a path that the sandbox does not let this process reach.
#[derive(Debug, thiserror::Error)]
#[error(
    "{} is outside the sandbox, which was set up at start for the folders that the configuration named then: restart the \
     node, or set node.sandbox = \"off\" and restart", .path.display()
)]
pub(super) struct OutsideSandbox {
    path: PathBuf,
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
            let look = move || folders.check(&new);
            let looked = self.scope.blocking().run("look for paths outside the sandbox", look).await;
            looked.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
            Ok(commit)
        })
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;

    #[test]
    fn only_settings_that_name_files_count() {
        let reads = |setting: &str, shown: &str| {
            let found = texts(setting, shown).into_iter().filter(|(key, _)| names_file(setting, key));
            found.map(|(_, text)| text).collect::<Vec<_>>()
        };
        assert_eq!(reads("gateway.tls.cert_path", "\"a.pem\""), ["a.pem"]);
        assert_eq!(reads("gateway.tls.cert_path", "a.pem"), ["a.pem"]);
        assert_eq!(reads("auth.root_keys", r#"["a.key", "b.key"]"#), ["a.key", "b.key"]);
        assert_eq!(reads("gateway.tls.sni", r#"[{"name": "n", "cert_path": "c"}]"#), ["c"]);
        assert_eq!(
            reads("edge.packs", r#"["a.pmtiles", {"path": "b.pmtiles", "name": "n"}]"#),
            ["a.pmtiles", "b.pmtiles"]
        );
        assert_eq!(reads("edge.roots[0].path", "\"www\""), ["www"]);
        for (setting, shown) in
            [("gateway.route", r#"[{"path": "/", "upstream": "u"}]"#), ("gateway.route[0].path", "\"/\"")]
        {
            assert!(reads(setting, shown).is_empty(), "the path of a request is no file");
        }
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
