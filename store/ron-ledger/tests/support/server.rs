//! A PostgreSQL server of the tests' own, on a Unix socket in a temporary folder, gone when the last test is done.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

/// Where Debian keeps the programs.
const PROGRAMS: &str = "/usr/lib/postgresql/15/bin";

/// Between two looks at whether it is up, which it does not tell anybody.
const PAUSE: Duration = Duration::from_millis(10);

static SHARED: Mutex<Weak<Server>> = Mutex::new(Weak::new());
static NEXT: AtomicU64 = AtomicU64::new(0);

/// A database that nobody else uses.
#[derive(Debug)]
pub(crate) struct Database {
    pub(crate) server: Arc<Server>,
    /// The server that takes over when the first one fails, if there is one.
    standby: Option<Server>,
    name: String,
}

impl Database {
    /// On the server that all tests share.
    pub(crate) fn new() -> Self {
        let mut shared = SHARED.lock().unwrap_or_else(PoisonError::into_inner);
        let server = shared.upgrade().unwrap_or_else(|| {
            let server = Arc::new(Server::start());
            *shared = Arc::downgrade(&server);
            server
        });
        drop(shared);
        Self::on(server)
    }

    pub(crate) fn on(server: Arc<Server>) -> Self {
        let name = format!("test_{}", NEXT.fetch_add(1, Ordering::Relaxed));
        server.connect("postgres").batch_execute(&format!("CREATE DATABASE {name}")).unwrap();
        Self { server, standby: None, name }
    }

    /// On a server of its own, with a standby that confirms every commit.
    pub(crate) fn replicated() -> Self {
        let primary = Arc::new(Server::start());
        let standby = Server::standby_of(&primary);
        Self { standby: Some(standby), ..Self::on(primary) }
    }

    /// Kills the server and has its standby take over.
    pub(crate) fn fail_over(&self) {
        self.server.kill();
        let standby = self.standby.as_ref().unwrap();
        assert!(standby.connect("postgres").query_one("SELECT pg_promote()", &[]).unwrap().get::<_, bool>(0));
    }

    pub(crate) fn url(&self) -> String {
        let hosts = std::iter::once(&*self.server).chain(&self.standby).map(Server::host);
        url(&hosts.collect::<Vec<_>>().join(","), &self.name)
    }

    /// A connection for whoever tampers with the tables.
    pub(crate) fn connect(&self) -> postgres::Client {
        self.server.connect(&self.name)
    }
}

/// A running server, and the thread that started it: the server gets a signal when that thread ends, however it ends.
#[derive(Debug)]
pub(crate) struct Server {
    folder: tempfile::TempDir,
    keeper: Mutex<Option<Keeper>>,
}

#[derive(Debug)]
struct Keeper {
    pid: u32,
    stop: mpsc::Sender<()>,
    thread: thread::JoinHandle<()>,
}

impl Server {
    pub(crate) fn start() -> Self {
        assert!(
            Path::new(PROGRAMS).is_dir(),
            "install the Debian package postgresql-15: {PROGRAMS} is missing"
        );
        let folder = folder();
        let data = folder.path().join("data");
        let initdb = ["--no-sync", "--auth=trust", "--username=omnigate", "--encoding=UTF8", "--locale=C"];
        run(unprivileged("initdb").args(initdb).arg("-D").arg(&data));
        let server = Self { folder, keeper: Mutex::default() };
        server.launch();
        server
    }

    /// A standby of another server, which waits from then on until the standby has every commit.
    fn standby_of(primary: &Self) -> Self {
        let folder = folder();
        let data = folder.path().join("data");
        let copy =
            ["--no-sync", "--write-recovery-conf", "--checkpoint=fast", "--username=omnigate", "--host"];
        run(unprivileged("pg_basebackup").args(copy).arg(primary.host()).arg("-D").arg(&data));
        let standby = Self { folder, keeper: Mutex::default() };
        standby.launch();
        let mut client = primary.connect("postgres");
        client.batch_execute("ALTER SYSTEM SET synchronous_standby_names = '*'").unwrap();
        client.batch_execute("SELECT pg_reload_conf()").unwrap();
        let deadline = Instant::now() + Duration::from_secs(60);
        let is_synchronous = "SELECT count(*) FROM pg_stat_replication WHERE sync_state = 'sync'";
        while client.query_one(is_synchronous, &[]).unwrap().get::<_, i64>(0) == 0 {
            assert!(Instant::now() < deadline, "the standby does not follow: {:?}", standby.log());
            thread::sleep(PAUSE);
        }
        standby
    }

    fn host(&self) -> String {
        self.folder.path().display().to_string()
    }

    /// Kills every process of the server at once, as a power cut would.
    pub(crate) fn kill(&self) {
        let pid = self.keeper.lock().unwrap().as_ref().unwrap().pid;
        // Those it started first, so that none of them outlives it and none is started again.
        run(Command::new("kill").args(["-STOP", &pid.to_string()]));
        let children = fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap();
        for process in children.split_whitespace().chain([pid.to_string().as_str()]) {
            let _ = Command::new("kill").args(["-KILL", process]).stderr(Stdio::null()).status();
        }
        self.end();
        // Another server does not start before the last of them has let go of the memory they share.
        let deadline = Instant::now() + Duration::from_secs(60);
        while children.split_whitespace().any(|process| Path::new("/proc").join(process).exists()) {
            assert!(Instant::now() < deadline, "a process of PostgreSQL outlives its killing");
            thread::sleep(PAUSE);
        }
    }

    /// Starts it again after [`Self::kill`].
    pub(crate) fn launch(&self) {
        let folder = self.folder.path().to_owned();
        let (stop, stopped) = mpsc::channel();
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let mut child = launch(&folder);
            tell.send(child.id()).unwrap();
            let _ = stopped.recv();
            let _ = child.kill();
            child.wait().unwrap();
        });
        let pid = told.recv().unwrap();
        *self.keeper.lock().unwrap() = Some(Keeper { pid, stop, thread });
        let deadline = Instant::now() + Duration::from_secs(60);
        while postgres::Client::connect(&self.url("postgres"), postgres::NoTls).is_err() {
            assert!(Instant::now() < deadline, "PostgreSQL did not start: {:?}", self.log());
            thread::sleep(PAUSE);
        }
    }

    pub(crate) fn url(&self, database: &str) -> String {
        url(&self.host(), database)
    }

    pub(crate) fn connect(&self, database: &str) -> postgres::Client {
        postgres::Client::connect(&self.url(database), postgres::NoTls).unwrap()
    }

    fn log(&self) -> Option<String> {
        let log = fs::read_to_string(self.folder.path().join("log")).ok()?;
        Some(log.lines().rev().take(20).collect::<Vec<_>>().join("\n"))
    }

    fn end(&self) {
        if let Some(keeper) = self.keeper.lock().unwrap_or_else(PoisonError::into_inner).take() {
            let _ = keeper.stop.send(());
            let _ = keeper.thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.end();
    }
}

fn url(hosts: &str, database: &str) -> String {
    format!("host={hosts} user=omnigate dbname={database}")
}

/// A folder that the server can write to.
fn folder() -> tempfile::TempDir {
    let folder = tempfile::Builder::new().prefix("omnigate-pg-").tempdir().unwrap();
    if is_root() {
        run(Command::new("chown").arg("postgres:").arg(folder.path()));
    }
    folder
}

fn launch(folder: &Path) -> Child {
    let log = fs::File::options().create(true).append(true).open(folder.join("log")).unwrap();
    let mut command = unprivileged("postgres");
    command.arg("-D").arg(folder.join("data")).arg("-k").arg(folder);
    for setting in ["listen_addresses=", "max_connections=50", "shared_buffers=64MB", "logging_collector=off"]
    {
        command.arg("-c").arg(setting);
    }
    command.stdout(Stdio::null()).stderr(log).spawn().unwrap()
}

/// A program of PostgreSQL, which refuses to run as root. It is told to end when the thread that starts it does.
pub(crate) fn unprivileged(program: &str) -> Command {
    let mut command = Command::new("setpriv");
    command.args(["--pdeathsig", "INT"]).current_dir("/");
    if is_root() {
        command.args(["--reuid=postgres", "--regid=postgres", "--clear-groups"]);
    }
    command.arg(PathBuf::from(PROGRAMS).join(program));
    command
}

fn is_root() -> bool {
    use std::os::unix::fs::MetadataExt;
    fs::metadata("/proc/self").unwrap().uid() == 0
}

pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
