//! Servers that do as they are told, byte by byte, and a gateway in front of them.

use std::{
    io::{Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use ron_kernel::{
    Exit, Kernel, Scope,
    config::{Loader, Schema, Snapshot, Sources},
    reload::Reconfigure as _,
};
use ron_transport::{addr::ListenAddr, inherit::Inherited};
use socket2::SockRef;
use svc_gateway::{AuthConfig, Gateway, GatewayConfig, GatewaySettings, LocalServices, TOPOLOGY};

/// The longest any test waits for anything: only what hangs meets it, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// What a server does once it has read a request's head.
pub(crate) enum Act {
    /// Sends this and keeps the connection.
    Say(String),
    /// Sends this and closes.
    Last(String),
    /// Sends this and resets the connection.
    Reset(String),
    /// Waits until the other side closes.
    Hold,
}

/// An answer with this status and body.
pub(crate) fn answer(status: u16, body: &str) -> Act {
    Act::Say(format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n\r\n{body}", body.len()))
}

/// A server of raw bytes.
pub(crate) struct RawServer {
    pub(crate) addr: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    open: Arc<AtomicUsize>,
    most_open: Arc<AtomicUsize>,
    accepted: Arc<AtomicUsize>,
}

impl RawServer {
    /// Does what `script` says of each request, which it gets with its number and its head.
    pub(crate) fn start(script: impl Fn(usize, &str) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Self {
            addr: listener.local_addr().unwrap(),
            heads: Arc::default(),
            open: Arc::default(),
            most_open: Arc::default(),
            accepted: Arc::default(),
        };
        let accepted = Arc::clone(&server.accepted);
        let (heads, open, most) =
            (Arc::clone(&server.heads), Arc::clone(&server.open), Arc::clone(&server.most_open));
        let script = Arc::new(script);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                accepted.fetch_add(1, Ordering::SeqCst);
                most.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
                let (heads, open, script) = (Arc::clone(&heads), Arc::clone(&open), Arc::clone(&script));
                thread::spawn(move || {
                    serve(stream, &heads, &*script);
                    open.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
        server
    }

    /// The heads of the requests so far.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// How many requests there were.
    pub(crate) fn asked(&self) -> usize {
        self.heads.lock().unwrap().len()
    }

    /// The most connections there were at once.
    pub(crate) fn most_open(&self) -> usize {
        self.most_open.load(Ordering::SeqCst)
    }

    /// How many connections there were.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.addr)
    }
}

fn serve(mut stream: TcpStream, heads: &Mutex<Vec<String>>, script: &dyn Fn(usize, &str) -> Act) {
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    while let Some(head) = read_head(&mut stream) {
        let number = {
            let mut heads = heads.lock().unwrap();
            heads.push(head.clone());
            heads.len() - 1
        };
        match script(number, &head) {
            Act::Say(text) => stream.write_all(text.as_bytes()).unwrap(),
            Act::Last(text) => {
                stream.write_all(text.as_bytes()).unwrap();
                return;
            }
            Act::Reset(text) => {
                stream.write_all(text.as_bytes()).unwrap();
                SockRef::from(&stream).set_linger(Some(Duration::ZERO)).unwrap();
                return;
            }
            Act::Hold => {
                let _ = stream.read(&mut [0; 1]);
                return;
            }
        }
    }
}

fn read_head(stream: &mut TcpStream) -> Option<String> {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") {
        if stream.read(&mut byte).ok()? == 0 {
            return None;
        }
        head.push(byte[0]);
    }
    Some(String::from_utf8_lossy(&head).to_ascii_lowercase())
}

/// An address nobody listens at. It stays taken, or another test's server could get it.
pub(crate) fn nobody() -> SocketAddr {
    let socket = socket2::Socket::new(socket2::Domain::IPV4, socket2::Type::STREAM, None).unwrap();
    socket.bind(&SocketAddr::from(([127, 0, 0, 1], 0)).into()).unwrap();
    let addr = socket.local_addr().unwrap().as_socket().unwrap();
    std::mem::forget(socket);
    addr
}

/// A gateway with one route, `/` to the upstream `up`.
pub(crate) struct Node {
    pub(crate) addr: SocketAddr,
    pub(crate) scope: Scope,
    pub(crate) gateway: Arc<Gateway>,
    conductor: Option<thread::JoinHandle<Exit>>,
    runtime: tokio::runtime::Runtime,
}

impl Node {
    /// With these lines in `[gateway.upstream.up]`.
    pub(crate) fn start(upstream: &str) -> Self {
        Self::start_with("", upstream)
    }

    /// With these lines in `[gateway]` as well.
    pub(crate) fn start_with(gateway: &str, upstream: &str) -> Self {
        let kernel = Kernel::builder("test").drain_deadline(PATIENCE).build().unwrap();
        let scope = kernel.scope(&TOPOLOGY);
        let snapshot = snapshot(gateway, upstream);
        let (gateway, auth) = (snapshot.get::<GatewayConfig>(), snapshot.get::<AuthConfig>());
        let settings = GatewaySettings { gateway: &gateway, auth: &auth, data_dir: None };
        let mut inherited = Inherited::from_env().unwrap();
        let gateway = kernel
            .block_on(Gateway::build(&scope, settings, LocalServices::default(), &mut inherited))
            .unwrap();
        let ListenAddr::Tcp(addr) = gateway.local_addr() else { panic!("a TCP address") };
        let conductor = Some(thread::spawn(move || kernel.run().unwrap()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { addr, scope, gateway, conductor, runtime }
    }

    /// Puts other lines into force.
    pub(crate) fn reload(&self, upstream: &str) {
        let commit = self.runtime.block_on(self.gateway.prepare(Arc::new(snapshot("", upstream))));
        commit.unwrap()();
    }

    pub(crate) fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    /// The answer to a request without a body, as lower-case text.
    pub(crate) fn ask(&self, method: &str) -> String {
        self.ask_with(method, "")
    }

    /// The same with more header lines, each with its line end.
    pub(crate) fn ask_with(&self, method: &str, headers: &str) -> String {
        ask(self.addr, method, headers)
    }

    /// The value of a metric: all series whose line begins so, summed.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> u64 {
        let text = self.scope.all_metrics().prometheus_text();
        let page = include_str!("../../../../docs/concurrency/gateway.md");
        let listed = format!("| `{}`", name.trim_end_matches("_count"));
        assert!(page.contains(&listed), "no metric is called {name}");
        let lines =
            text.lines().filter(|line| line.starts_with(name) && labels.iter().all(|l| line.contains(l)));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.scope.shutdown().request("the test is over");
        let exit = self.conductor.take().expect("dropped once").join();
        if !thread::panicking() {
            assert_eq!(exit.unwrap().code, ron_kernel::ExitCode::Clean);
        }
    }
}

fn snapshot(gateway: &str, upstream: &str) -> Snapshot {
    // All requests of a test come from one address, and how fast is the machine's business. What a test says nothing of
    // has all the time that a busy machine may need.
    let patient = |keys: &[&str], said: &str| -> String {
        let unsaid =
            keys.iter().filter(|key| !said.lines().any(|line| line.starts_with(&format!("{key} ="))));
        unsaid.map(|key| format!("{key} = \"60s\"\n")).collect()
    };
    let (ours, theirs) = (
        patient(&["handshake_timeout", "read_timeout", "write_timeout"], gateway),
        patient(&["timeout", "connect_timeout"], upstream),
    );
    let text = format!(
        "[gateway]\nlisten = \"127.0.0.1:0\"\nquotas.per_ip_rps = 0\ndrr.rate_limit_rps = 0\nroute = [{{ path = \"/\", upstream = \"up\" }}]\n{ours}{gateway}\n\
         [gateway.upstream.up]\n{theirs}{upstream}\n"
    );
    let loader = Loader::new(Schema::new().table::<GatewayConfig>().table::<AuthConfig>(), "TEST_");
    let sources = Sources { file: Some(("test.toml".into(), text)), ..Sources::default() };
    loader.load(sources).unwrap_or_else(|report| panic!("{}", report.render(false)))
}

/// The answer to a request without a body, as lower-case text.
pub(crate) fn ask(addr: SocketAddr, method: &str, headers: &str) -> String {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(
        stream,
        "{method} / HTTP/1.1\r\nhost: test\r\nconnection: close\r\ncontent-length: 0\r\n{headers}\r\n"
    )
    .unwrap();
    let mut answer = Vec::new();
    // A connection that is broken off is an answer too.
    let _ = stream.read_to_end(&mut answer);
    String::from_utf8_lossy(&answer).to_ascii_lowercase()
}

/// The status of an answer.
pub(crate) fn status(answer: &str) -> u16 {
    answer.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("{answer:?}"))
}

/// Asks again until it is so.
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::yield_now();
    }
}
