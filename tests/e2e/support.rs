//! A node as a child process, an upstream to put behind it, and a small HTTP client.

use std::{
    io::{self, BufRead, BufReader, Read, Write},
    net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    os::unix::process::ExitStatusExt,
    path::{Path, PathBuf},
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

/// Ample for anything on a loaded machine; nothing is asserted about how long it took.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// The length of the answer to `/big`: more than all buffers on the way hold.
pub(crate) const BIG: usize = 8 << 20;

/// A running node. Killed when dropped.
pub(crate) struct Node {
    child: Child,
    dir: tempfile::TempDir,
    pub(crate) gateway: SocketAddr,
    pub(crate) admin: SocketAddr,
}

impl Node {
    /// Starts a node with `[gateway]` settings (TOML lines) and waits until it is ready.
    pub(crate) fn start(gateway: &str) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let (gateway_addr, admin) = (free_addr(), free_addr());
        write_config(dir.path(), &config(gateway_addr, admin, gateway));
        let child = spawn(dir.path());
        let mut node = Self { child, dir, gateway: gateway_addr, admin };
        node.wait_until_ready();
        node
    }

    /// A node that passes everything to `upstream`.
    pub(crate) fn in_front_of(upstream: SocketAddr) -> Self {
        Self::start(&to(upstream))
    }

    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Replaces the configuration file at once, as editors and orchestrators do.
    pub(crate) fn write_config(&self, text: &str) {
        write_config(self.dir.path(), text);
    }

    pub(crate) fn signal(&self, name: &str) {
        signal(self.child.id(), name);
    }

    /// The node's exit status, once it has ended by itself.
    pub(crate) fn wait(&mut self) -> ExitStatus {
        eventually("the node exits", || self.child.try_wait().unwrap())
    }

    /// The exit code, or a description of how it died instead.
    pub(crate) fn exit_code(&mut self) -> i32 {
        let status = self.wait();
        status.code().unwrap_or_else(|| panic!("killed by signal {:?}", status.signal()))
    }

    pub(crate) fn wait_until_ready(&mut self) {
        let admin = self.admin;
        eventually("the node is ready", || {
            assert!(self.child.try_wait().unwrap().is_none(), "the node ended while starting");
            get(admin, "/readyz").ok().filter(|r| r.status == 200)
        });
    }

    /// One sample of a metric, by the start of its line.
    pub(crate) fn metric(&self, start: &str) -> f64 {
        let scrape = get(self.admin, "/metrics").unwrap().body;
        let line = scrape.lines().find(|line| line.starts_with(start));
        line.and_then(|line| line.rsplit(' ').next()?.parse().ok()).unwrap_or(0.0)
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
        if thread::panicking() {
            eprintln!(
                "the node's log:\n{}",
                std::fs::read_to_string(self.path().join("node.log")).unwrap_or_default()
            );
        }
    }
}

/// `[gateway]` settings for load from one address: without the rates that are meant for clients.
pub(crate) const UNLIMITED: &str = "quotas.per_ip_rps = 0\ndrr.rate_limit_rps = 0\n";

/// `[gateway]` settings that pass everything to `upstream`, however much it is.
pub(crate) fn to(upstream: SocketAddr) -> String {
    format!(
        "{UNLIMITED}route = [{{ path = \"/\", upstream = \"up\" }}]\nupstream.up.endpoints = [\"http://{upstream}\"]\n"
    )
}

/// A whole configuration file.
pub(crate) fn config(gateway: SocketAddr, admin: SocketAddr, settings: &str) -> String {
    format!(
        "[log]\nlevel = \"warn\"\n[admin]\nlisten = \"{admin}\"\n[gateway]\nlisten = \"{gateway}\"\n{settings}"
    )
}

fn write_config(dir: &Path, text: &str) {
    let aside = dir.join("omnigate.toml.new");
    std::fs::write(&aside, text).unwrap();
    std::fs::rename(aside, config_path(dir)).unwrap();
}

fn config_path(dir: &Path) -> PathBuf {
    dir.join("omnigate.toml")
}

fn spawn(dir: &Path) -> Child {
    Command::new(env!("CARGO_BIN_EXE_omnigate"))
        .args(["up", "--config"])
        .arg(config_path(dir))
        .env_clear()
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(std::fs::File::create(dir.join("node.log")).unwrap())
        .spawn()
        .unwrap()
}

/// Sends a signal to a process that a test started.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([format!("-{name}"), pid.to_string()]).status().unwrap();
    assert!(sent.success(), "kill -{name} {pid}");
}

/// An address on loopback that was free a moment ago.
pub(crate) fn free_addr() -> SocketAddr {
    TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap()
}

/// Polls until `probe` finds something.
pub(crate) fn eventually<T>(what: &str, mut probe: impl FnMut() -> Option<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        if let Some(found) = probe() {
            return found;
        }
        assert!(Instant::now() < end, "gave up waiting until {what}");
        thread::park_timeout(Duration::from_millis(5));
    }
}

/// A server that answers every request with its own path, after a wait if the path is `/wait/<ms>`, or with
/// [`BIG`] bytes if it is `/big`. It is told how many requests have arrived.
pub(crate) struct Upstream {
    pub(crate) addr: SocketAddr,
    arrived: std::sync::Arc<std::sync::atomic::AtomicUsize>,
}

impl Upstream {
    pub(crate) fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let addr = listener.local_addr().unwrap();
        let arrived = std::sync::Arc::default();
        let counted = std::sync::Arc::clone(&arrived);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let counted = std::sync::Arc::clone(&counted);
                thread::spawn(move || serve(stream, &counted));
            }
        });
        Self { addr, arrived }
    }

    /// Waits until that many requests have arrived.
    pub(crate) fn wait_for(&self, requests: usize) {
        eventually("the upstream was asked", || {
            (self.arrived.load(std::sync::atomic::Ordering::Relaxed) >= requests).then_some(())
        });
    }
}

fn serve(stream: TcpStream, arrived: &std::sync::atomic::AtomicUsize) {
    let mut reader = BufReader::new(stream);
    while let Ok(Some((path, length))) = read_head(&mut reader) {
        arrived.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let mut body = vec![0; length];
        if reader.read_exact(&mut body).is_err() {
            return;
        }
        if let Some(ms) = path.strip_prefix("/wait/") {
            thread::sleep(Duration::from_millis(ms.parse().unwrap()));
        }
        let answered =
            if path == "/big" { answer_big(reader.get_mut()) } else { answer(reader.get_mut(), &path) };
        if answered.is_err() {
            return;
        }
    }
}

fn answer(stream: &mut TcpStream, body: &str) -> io::Result<()> {
    stream.write_all(format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len()).as_bytes())
}

fn answer_big(stream: &mut TcpStream) -> io::Result<()> {
    write!(stream, "HTTP/1.1 200 OK\r\ncontent-length: {BIG}\r\n\r\n")?;
    let piece = [b'x'; 64 << 10];
    (0..BIG / piece.len()).try_for_each(|_| stream.write_all(&piece))
}

/// The path and the content length of a request's head; `None` at the end of the stream.
fn read_head(reader: &mut BufReader<TcpStream>) -> io::Result<Option<(String, usize)>> {
    let (mut path, mut length) = (None, 0);
    loop {
        let mut line = String::new();
        if reader.read_line(&mut line)? == 0 {
            return Ok(None);
        }
        let line = line.trim_end();
        match &path {
            None => path = line.split(' ').nth(1).map(str::to_owned),
            Some(_) if line.is_empty() => return Ok(path.map(|path| (path, length))),
            Some(_) => {
                if let Some(value) = line.to_ascii_lowercase().strip_prefix("content-length:") {
                    length = value.trim().parse().map_err(io::Error::other)?;
                }
            }
        }
    }
}

/// A response, as far as tests care.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) closes: bool,
    pub(crate) body: String,
}

/// A client's keep-alive connection.
pub(crate) struct Client(BufReader<TcpStream>);

impl Client {
    pub(crate) fn connect(to: SocketAddr) -> io::Result<Self> {
        let stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        stream.set_nodelay(true)?;
        Ok(Self(BufReader::new(stream)))
    }

    /// Connects from another loopback address, as another client would.
    pub(crate) fn connect_from(from: u8, to: SocketAddr) -> io::Result<Self> {
        let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None)?;
        let source = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(127, 0, 0, from)), 0);
        socket.bind(&source.into())?;
        socket.connect(&to.into())?;
        let stream = TcpStream::from(socket);
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Self(BufReader::new(stream)))
    }

    pub(crate) fn send(&mut self, path: &str) -> io::Result<()> {
        write!(self.0.get_mut(), "GET {path} HTTP/1.1\r\nhost: localhost\r\n\r\n")
    }

    /// The next response; an end of the stream before it is `UnexpectedEof`.
    pub(crate) fn receive(&mut self) -> io::Result<Answer> {
        let (mut status, mut length, mut closes) = (None, 0, false);
        loop {
            let mut line = String::new();
            if self.0.read_line(&mut line)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let line = line.trim_end().to_ascii_lowercase();
            if status.is_none() {
                status = line.split(' ').nth(1).and_then(|s| s.parse().ok());
            } else if line.is_empty() {
                break;
            } else if let Some(value) = line.strip_prefix("content-length:") {
                length = value.trim().parse().map_err(io::Error::other)?;
            } else if line == "connection: close" {
                closes = true;
            }
        }
        let mut body = vec![0; length];
        self.0.read_exact(&mut body)?;
        let status = status.ok_or(io::ErrorKind::InvalidData)?;
        Ok(Answer { status, closes, body: String::from_utf8(body).map_err(io::Error::other)? })
    }

    pub(crate) fn get(&mut self, path: &str) -> io::Result<Answer> {
        self.send(path)?;
        self.receive()
    }

    /// Reads until the server ends the stream; a reset is an error.
    pub(crate) fn wait_for_end(&mut self) -> io::Result<Vec<u8>> {
        let mut rest = Vec::new();
        self.0.read_to_end(&mut rest)?;
        Ok(rest)
    }
}

/// One request on a connection of its own.
pub(crate) fn get(to: SocketAddr, path: &str) -> io::Result<Answer> {
    Client::connect(to)?.get(path)
}
