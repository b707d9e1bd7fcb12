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

/// What precedes the path of a socket that is only connected to: a server's or a peer's.
const CONNECTED: [&str; 2] = ["+unix:", "@unix:"];

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
        let here = |folder: &PathBuf| if folder.as_os_str().is_empty() { ".".into() } else { folder.clone() };
        folders.read.extend(config.included_folders().iter().map(here));
        folders.read.extend(config.referenced_files().iter().flat_map(|path| around(path)));
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

/// Every path that a configuration names.
fn named(config: &Snapshot) -> Vec<Named> {
    let mut found: Vec<Named> =
        config.paths().filter_map(|(setting, text)| named_by(setting, text)).collect();
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

/// What a setting names; nothing for the data folder, which counts only if something is kept there.
fn named_by(setting: &str, text: &str) -> Option<Named> {
    if setting == "node.data_dir" {
        return None;
    }
    if let Some(socket) = text.strip_prefix("unix:") {
        return Some(Named::Write(socket.into()));
    }
    if let Some((_, socket)) = CONNECTED.iter().find_map(|sign| text.split_once(sign)) {
        return Some(Named::Read(socket.into()));
    }
    let path = PathBuf::from(text.strip_prefix("file:").unwrap_or(text));
    Some(match setting {
        "edge.cas.url" => Named::Data(path),
        _ if WRITTEN.contains(&setting) => Named::Write(path),
        _ => Named::Read(path),
    })
}

/// The files that a configuration has the node read, apart from what is served: keys, certificates, lists.
pub(crate) fn files_read_by(config: &Snapshot) -> Vec<PathBuf> {
    let is_served = |setting: &str, text: &str| {
        // A pack is served, the key that must have signed it is not.
        ["edge.packs", "edge.roots"].iter().any(|served| setting.starts_with(served))
            && !setting.ends_with(".signed_by")
            || CONNECTED.iter().any(|sign| text.contains(sign))
    };
    let paths = config.paths().filter(|(setting, text)| !is_served(setting, text));
    let mut files: Vec<PathBuf> = paths
        .filter_map(|(setting, text)| match named_by(setting, text)? {
            Named::Read(path) => Some(path),
            // The node's own key is read, and made if it does not exist.
            Named::Write(path) if setting == "rewarder.node_key" => Some(path),
            Named::Write(_) | Named::Data(_) | Named::Run(_) => None,
        })
        .collect();
    files.sort_unstable();
    files.dedup();
    files
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
    fn what_a_setting_names_is_read_written_or_ours() {
        let shown = |setting, text| match named_by(setting, text) {
            Some(Named::Read(path)) => format!("read {}", path.display()),
            Some(Named::Write(path)) => format!("write {}", path.display()),
            Some(Named::Data(path)) => format!("data {}", path.display()),
            Some(Named::Run(path)) => format!("run {}", path.display()),
            None => String::new(),
        };
        for (setting, text, expected) in [
            ("gateway.tls.cert_path", "/a.pem", "read /a.pem"),
            ("auth.jwks_url", "file:/keys.json", "read /keys.json"),
            ("edge.cas.url", "file:/cas", "data /cas"),
            ("admin.listen", "unix:/a.sock", "write /a.sock"),
            ("gateway.upstream.app.endpoints[0]", "http+unix:/a.sock", "read /a.sock"),
            ("overlay.peers", "b3:00@unix:/a.sock", "read /a.sock"),
            ("admin.audit_log", "/audit", "write /audit"),
            ("node.data_dir", "/data", ""),
        ] {
            assert_eq!(shown(setting, text), expected, "{setting}");
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
