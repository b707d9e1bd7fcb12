//! The configuration's sources: which file, the environment, the flags; and the tables they may set.

use std::{
    env::VarError,
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use ron_kernel::{
    config::{
        Included, Loader, Lookup, MAX_FILE_BYTES, Reference, Report, Schema, Shelf, Snapshot, Sources,
        Table as _,
    },
    files,
};
use ron_traces::TracesConfig;
use ron_transport::addr::{Endpoint, ListenAddr};
use svc_edge::EdgeConfig;
use svc_gateway::{AuthConfig, GatewayConfig};
use svc_overlay::{OverlayConfig, PeerAddr};
use svc_rewarder::RewarderConfig;
use zeroize::{Zeroize as _, Zeroizing};

use crate::{
    failure::Failure,
    settings::{AdminConfig, LedgerConfig, LogConfig, NodeConfig},
};

/// The largest file that the configuration may refer to.
const MAX_REFERENCED_BYTES: u64 = 64 << 10;
/// How many files a folder may have in which included files are looked for.
const MAX_NAMES: usize = 4096;
/// The route of `--to`.
const ROUTE_TO: &str = r#"path = "/", upstream = "to", upgrade = ["websocket"], max_body_bytes = "1GiB""#;
/// How long the server of `--to` may take.
const TIMEOUT_TO: &str = "gateway.upstream.to.timeout";
/// The settings that say whether and where responses are stored on the disk.
const CACHE_ON_DISK: [&str; 2] = ["gateway.cache.disk_bytes", "node.data_dir"];
/// Where a gateway listens that obtains certificates: a CA asks there.
const PORTS: [(&str, &str); 2] = [("gateway.listen", "0.0.0.0:443"), ("gateway.redirect_http", "0.0.0.0:80")];
/// The file that is used if there is one and none is named.
pub(crate) const DEFAULT_FILE: &str = "omnigate.toml";
/// Begins the names of all environment variables that are settings.
const ENV_PREFIX: &str = "OMNIGATE_";
/// Names the file; has the prefix and is no setting.
const ENV_FILE: &str = "OMNIGATE_CONFIG";
/// Has a test build die at a point; has the prefix and is no setting.
const ENV_CRASH: &str = "OMNIGATE_CRASH_AT";

/// The tables of services, each of which has `enabled`.
const SERVICES: [&str; 4] =
    [GatewayConfig::NAME, EdgeConfig::NAME, OverlayConfig::NAME, RewarderConfig::NAME];

/// Every table of the configuration file, in the order they are shown.
pub(crate) fn schema() -> Schema {
    Schema::new()
        .table::<NodeConfig>()
        .table::<LogConfig>()
        .table::<TracesConfig>()
        .table::<AdminConfig>()
        .table::<AuthConfig>()
        .table::<GatewayConfig>()
        .table::<EdgeConfig>()
        .table::<OverlayConfig>()
        .table::<RewarderConfig>()
        .table::<LedgerConfig>()
}

/// Where a configuration comes from: everything but the text of the file, which is read at each load.
#[derive(Clone)]
pub(crate) struct ConfigSource {
    file: Option<PathBuf>,
    env: Vec<(String, String)>,
    flags: Vec<(String, String)>,
}

impl ConfigSource {
    /// Chooses the file and takes the environment as it is now.
    pub(crate) fn resolve(named: Option<PathBuf>, flags: Vec<(String, String)>) -> Result<Self, Failure> {
        let named = named.filter(|path| !path.as_os_str().is_empty());
        // A default file that cannot be looked at counts as present: its reading then says why.
        let usual = Path::new(DEFAULT_FILE);
        let file = named.or_else(|| usual.try_exists().unwrap_or(true).then(|| usual.to_owned()));
        let env = environment()?;
        Ok(Self { file, env, flags })
    }

    /// A file and nothing else: neither the environment nor the command line has a say.
    pub(crate) const fn of_file_alone(file: PathBuf) -> Self {
        Self { file: Some(file), env: Vec::new(), flags: Vec::new() }
    }

    /// The same, with one route that passes every request to `server`, and lets it be an ordinary app: with WebSockets, large
    /// uploads, and a minute for an answer or the next of its events, unless a setting says otherwise. With `cache`, its responses are stored: in memory, unless
    /// there is a file or a setting that says where on the disk.
    pub(crate) fn passing_everything_to(mut self, server: &Endpoint, cache: bool) -> Self {
        let server = toml::Value::String(server.to_string());
        if cache && self.file.is_none() && !CACHE_ON_DISK.iter().any(|setting| self.sets(setting)) {
            self.flags.push((CACHE_ON_DISK[0].to_owned(), "0B".to_owned()));
        }
        let cache = if cache { ", cache = {}" } else { "" };
        self.flags.extend([
            ("gateway.route".to_owned(), format!("[{{ {ROUTE_TO}{cache} }}]")),
            ("gateway.upstream.to.endpoints".to_owned(), format!("[{server}]")),
        ]);
        if !self.sets(TIMEOUT_TO) {
            self.flags.push((TIMEOUT_TO.to_owned(), "60s".to_owned()));
        }
        self
    }

    /// Whether the environment or the command line has a setting.
    fn sets(&self, setting: &str) -> bool {
        let variable = format!("{ENV_PREFIX}{}", setting.replace('.', "__").to_uppercase());
        self.env.iter().any(|(name, _)| *name == variable) || self.flags.iter().any(|(key, _)| key == setting)
    }

    /// The same, with a gateway that listens there, if it is given.
    pub(crate) fn listening(mut self, listen: Option<&ListenAddr>) -> Self {
        self.flags.extend(listen.map(|addr| ("gateway.listen".to_owned(), addr.to_string())));
        self
    }

    /// The same, with a gateway that obtains certificates for these names, if any are given. It listens on the ports of HTTPS
    /// and HTTP, unless a setting says otherwise.
    pub(crate) fn certified(mut self, names: &[String], email: Option<String>) -> Self {
        if names.is_empty() {
            return self;
        }
        let list = names.iter().map(|name| toml::Value::String(name.clone())).collect();
        self.flags.extend([
            ("gateway.acme.names".to_owned(), toml::Value::Array(list).to_string()),
            ("gateway.acme.agree_tos".to_owned(), "true".to_owned()),
        ]);
        self.flags.extend(email.map(|email| ("gateway.acme.email".to_owned(), email)));
        for (setting, value) in PORTS {
            if self.file.is_none() && !self.sets(setting) {
                self.flags.push((setting.to_owned(), value.to_owned()));
            }
        }
        self
    }

    /// The same, with an edge that serves these packs and folders and listens there, as far as they are given.
    pub(crate) fn serving(
        mut self,
        packs: &[PathBuf],
        folders: &[PathBuf],
        listen: Option<&ListenAddr>,
    ) -> Self {
        let text = |path: &PathBuf| toml::Value::String(path.to_string_lossy().into_owned());
        let list = |paths: &[PathBuf]| toml::Value::Array(paths.iter().map(text).collect()).to_string();
        for (key, paths) in [("edge.packs", packs), ("edge.roots", folders)] {
            if !paths.is_empty() {
                self.flags.push((key.to_owned(), list(paths)));
            }
        }
        if !folders.is_empty() {
            self.flags.push(("edge.site.enabled".to_owned(), "true".to_owned()));
        }
        self.flags.extend(listen.map(|addr| ("edge.listen".to_owned(), addr.to_string())));
        self
    }

    /// The same, with an edge that serves one page for all that do not exist.
    pub(crate) fn with_fallback(mut self, page: Option<String>) -> Self {
        self.flags.extend(page.map(|page| ("edge.site.fallback".to_owned(), page)));
        self
    }

    /// The same, with an edge that pages of these sites may read, if any is given.
    pub(crate) fn read_by_pages_of(mut self, origins: &[String]) -> Self {
        if !origins.is_empty() {
            let list = origins.iter().map(|origin| toml::Value::String(origin.clone())).collect();
            let list = toml::Value::Array(list).to_string();
            self.flags.push(("edge.cors.allow_origins".to_owned(), list));
        }
        self
    }

    /// The same, with an overlay that listens there and dials these, as far as they are given.
    pub(crate) fn linking(mut self, listen: Option<&ListenAddr>, peers: &[PeerAddr]) -> Self {
        if !peers.is_empty() {
            let list = peers.iter().map(|peer| toml::Value::String(peer.to_string())).collect();
            self.flags.push(("overlay.peers".to_owned(), toml::Value::Array(list).to_string()));
        }
        self.flags.extend(listen.map(|addr| ("overlay.listen".to_owned(), addr.to_string())));
        self
    }

    /// The same, with `service` as the only one enabled.
    pub(crate) fn only(mut self, service: &str) -> Self {
        let switch = |name: &str| (format!("{name}.enabled"), (name == service).to_string());
        self.flags.extend(SERVICES.map(switch));
        self
    }

    /// The file, if one is used.
    pub(crate) fn file(&self) -> Option<&Path> {
        self.file.as_deref()
    }

    /// The file's name, or what stands in for it.
    pub(crate) fn name(&self) -> String {
        self.file
            .as_ref()
            .map_or_else(|| "no file, defaults only".to_owned(), |file| file.display().to_string())
    }

    /// Reads and checks the configuration. Blocking.
    pub(crate) fn load(&self) -> Result<Snapshot, Failure> {
        Ok(self.load_for_node()?.snapshot)
    }

    /// The same for a node, which compares what the files say later with what they say now. Blocking.
    pub(crate) fn load_for_node(&self) -> Result<StartConfig, Failure> {
        let texts = self.read().map_err(|(file, error)| unreadable(file, &error))?;
        Ok(StartConfig { snapshot: self.load_from(&texts)?, texts })
    }

    /// The texts of the file and of those it includes, as they are now. Blocking.
    pub(crate) fn read_files(&self) -> Result<ConfigTexts, String> {
        self.read().map_err(|(file, error)| describe(file, &error))
    }

    fn read(&self) -> Result<ConfigTexts, (&Path, io::Error)> {
        let Some(file) = &self.file else { return Ok(ConfigTexts::default()) };
        let text = read_text(file).map_err(|error| (file.as_path(), error))?;
        let included = Included::gather(file, &text, &Disk);
        Ok(ConfigTexts { file: Some((file.clone(), Zeroizing::new(text))), included })
    }

    /// The `[admin]` table, by which a running node is asked. Other settings may be wrong: the node has not taken them over, and
    /// those who look after it need to know how it is now more than ever. Blocking.
    pub(crate) fn load_admin(&self) -> Result<Arc<AdminConfig>, Failure> {
        let texts = self.read().map_err(|(file, error)| unreadable(file, &error))?;
        let report = match self.load_from(&texts) {
            Ok(snapshot) => return Ok(snapshot.get::<AdminConfig>()),
            Err(report) => report,
        };
        let admin = loader().load_alone::<AdminConfig>(self.sources(&texts)).ok_or(report)?;
        eprintln!(
            "note: the configuration files have errors, which `omnigate check` shows; only [admin] is read"
        );
        Ok(admin)
    }

    /// Checks the configuration that has these texts for its files.
    pub(crate) fn load_from(&self, texts: &ConfigTexts) -> Result<Snapshot, Report> {
        loader().load(self.sources(texts))
    }

    fn sources(&self, texts: &ConfigTexts) -> Sources {
        Sources {
            file: texts.file.as_ref().map(|(path, text)| (path.clone(), text.as_str().to_owned())),
            included: texts.included.clone(),
            working_folder: std::env::current_dir().ok(),
            references: Some(references()),
            env: self.env.clone(),
            flags: self.flags.clone(),
        }
    }
}

fn loader() -> Loader {
    Loader::new(schema(), ENV_PREFIX).ignoring([ENV_FILE, ENV_CRASH])
}

/// The texts of a configuration's files. They may hold secrets, hence no `Debug`.
#[derive(Clone, Default)]
pub(crate) struct ConfigTexts {
    /// `None` without a file.
    file: Option<(PathBuf, Zeroizing<String>)>,
    included: Included,
}

impl ConfigTexts {
    /// The files, the first one first, each with its text.
    pub(crate) fn files(&self) -> impl Iterator<Item = (&Path, &str)> {
        let first = self.file.iter().map(|(path, text)| (path.as_path(), text.as_str()));
        first.chain(self.included.files())
    }

    /// The folders in which included files are looked for.
    pub(crate) fn folders(&self) -> &[PathBuf] {
        self.included.folders()
    }
}

/// What finds the variables and files that the file refers to.
fn references() -> Lookup {
    Arc::new(move |reference| match reference {
        Reference::Variable(name) => match std::env::var(name) {
            Ok(value) => Ok(Some(value)),
            Err(VarError::NotPresent) => Ok(None),
            Err(VarError::NotUnicode(_)) => Err(format!("the environment variable {name} is not UTF-8 text")),
        },
        Reference::File(path) => match read_referenced(path) {
            Ok(content) => Ok(Some(content)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(format!("the file {} cannot be read: {error}", full(path).display())),
        },
    })
}

/// A path as it is looked for, for messages.
fn full(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

/// Included files on the disk.
struct Disk;

#[expect(
    clippy::disallowed_methods,
    reason = "callers run it on the blocking pool, or before the runtimes start"
)]
impl Shelf for Disk {
    fn names(&self, folder: &Path) -> Result<Vec<String>, String> {
        let failed = |error| format!("the folder {} cannot be read: {error}", full(folder).display());
        let here = if folder.as_os_str().is_empty() { Path::new(".") } else { folder };
        let names = std::fs::read_dir(here).map_err(failed)?.take(MAX_NAMES + 1);
        // A name that is not UTF-8 is not passed over: if it matches, the file of the name as it is shown is missed.
        let name = |entry: io::Result<std::fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        let names: Vec<String> = names.map(name).collect::<Result<_, _>>().map_err(failed)?;
        if names.len() > MAX_NAMES {
            return Err(format!("the folder {} has more than {MAX_NAMES} files", full(folder).display()));
        }
        Ok(names)
    }

    fn read(&self, file: &Path) -> Result<String, String> {
        read_text(file).map_err(|error| describe(&full(file), &error))
    }
}

/// The content of a file that the configuration refers to, without the newline at its end.
fn read_referenced(path: &Path) -> io::Result<String> {
    let mut content = text_of(files::read_regular(path, MAX_REFERENCED_BYTES)?)?;
    if content.len() as u64 > MAX_REFERENCED_BYTES {
        content.zeroize();
        return Err(io::Error::other(format!("it is larger than {MAX_REFERENCED_BYTES} bytes")));
    }
    let kept = content.trim_end_matches('\n').trim_end_matches('\r').len();
    content.truncate(kept);
    Ok(content)
}

impl Drop for ConfigSource {
    /// Variables and flags may hold secrets.
    fn drop(&mut self) {
        self.env.iter_mut().chain(&mut self.flags).for_each(|(_, value)| value.zeroize());
    }
}

/// What a node starts with. It may hold secrets, hence no `Debug`.
pub(crate) struct StartConfig {
    /// The configuration as it was read and checked.
    pub(crate) snapshot: Snapshot,
    /// The texts of the files that it came from.
    pub(crate) texts: ConfigTexts,
}

impl std::fmt::Debug for ConfigSource {
    /// Variables and flags may hold secrets.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ConfigSource").field("file", &self.file).finish_non_exhaustive()
    }
}

/// The variables that are settings.
fn environment() -> Result<Vec<(String, String)>, Failure> {
    let ours = std::env::vars_os().filter_map(|(name, value)| {
        let name = name.into_string().ok()?;
        name.starts_with(ENV_PREFIX).then_some((name, value))
    });
    ours.map(|(name, value)| match value.into_string() {
        Ok(value) => Ok((name, value)),
        Err(_) => Err(Failure::bad_config(format!("the variable {name} is not UTF-8 text"))
            .help("write its value as UTF-8, or unset it")),
    })
    .collect()
}

/// The text of a file, of which no more is read than a configuration may have.
fn read_text(path: &Path) -> io::Result<String> {
    // One byte more than allowed is read, so that the loader can tell that there is more.
    let bytes = files::read_regular(path, MAX_FILE_BYTES as u64)?;
    text_of(bytes)
}

fn text_of(bytes: Vec<u8>) -> io::Result<String> {
    String::from_utf8(bytes).map_err(|error| {
        // What is no text may hold secrets all the same.
        error.into_bytes().zeroize();
        io::ErrorKind::InvalidData.into()
    })
}

fn describe(file: &Path, error: &io::Error) -> String {
    let file = file.display();
    match error.kind() {
        io::ErrorKind::NotFound => format!("the configuration file {file} does not exist"),
        io::ErrorKind::InvalidData => format!("the configuration file {file} is not UTF-8 text"),
        _ => format!("the configuration file {file} cannot be read: {error}"),
    }
}

fn unreadable(file: &Path, error: &io::Error) -> Failure {
    let failure = Failure::bad_config(describe(file, error));
    match error.kind() {
        io::ErrorKind::NotFound => failure
            .help(format!("write one with `omnigate config init {}`, or correct the path", file.display())),
        io::ErrorKind::PermissionDenied => failure.help("let this process's user read it"),
        _ => failure.help("name a text file in TOML"),
    }
}
