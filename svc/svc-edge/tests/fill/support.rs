//! Origins that do as they are told, byte by byte, and a fill that asks them.

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

use cas::{Cas, Hot, Limits, UrlIndex};
use httprules::{cache_control::RequestDirectives, freshness::Time};
use ron_kernel::{Exit, Kernel, Scope};
use ron_transport::resolve::Resolver;
use svc_edge::{
    AllowConfig, EdgeConfig, OriginEtag, OriginScheme, TOPOLOGY,
    fill::{Entry, Fill, FillParts, FillSettings, Found, OriginUrl},
};
use types::{Deadline, Reason, Refusal};

/// The longest any test waits for anything: only what hangs meets it, however busy the machine is.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test in which something has to be quicker than a timeout. What fails while the machine stood still says nothing, and
/// is run again with a longer one; what fails on a machine that runs is wrong.
pub(crate) fn with_time(test: impl Fn(Duration)) {
    let mut time = Duration::from_secs(1);
    loop {
        let stalls = Stalls::watch();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| test(time)));
        let Err(failed) = ended else { return };
        let longest = stalls.longest();
        if longest < time / 20 || time > Duration::from_secs(20) {
            std::panic::resume_unwind(failed);
        }
        println!("run again: with {time:?} to go by, a thread was late by {longest:?}");
        time *= 3;
    }
}

/// A thread that wants to wake up every few milliseconds, and sees how late it does.
struct Stalls {
    longest: Arc<AtomicUsize>,
}

impl Stalls {
    fn watch() -> Self {
        const STEP: Duration = Duration::from_millis(5);
        let longest = Arc::<AtomicUsize>::default();
        let seen = Arc::downgrade(&longest);
        thread::spawn(move || {
            loop {
                let begun = Instant::now();
                thread::sleep(STEP);
                let Some(seen) = seen.upgrade() else { return };
                let late = begun.elapsed().saturating_sub(STEP).as_micros();
                seen.fetch_max(usize::try_from(late).unwrap_or(usize::MAX), Ordering::Relaxed);
            }
        });
        Self { longest }
    }

    fn longest(&self) -> Duration {
        Duration::from_micros(self.longest.load(Ordering::Relaxed) as u64)
    }
}

/// How long an origin that failed is left alone with the same question.
const LEFT_ALONE: Duration = Duration::from_secs(2);

/// Runs a test in which an origin that failed is left alone. One that took longer than that lasts says nothing, and is run again;
/// what fails sooner is wrong.
pub(crate) fn within_a_moment(test: impl Fn()) {
    let end = Instant::now() + PATIENCE;
    loop {
        let begun = Instant::now();
        let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(&test));
        let Err(failed) = ended else { return };
        if begun.elapsed() < LEFT_ALONE || Instant::now() > end {
            std::panic::resume_unwind(failed);
        }
        println!("run again: it took {:?}", begun.elapsed());
    }
}

/// An address nobody listens at. A connection that was made before keeps it taken, or another test's origin could get it.
pub(crate) fn nobody() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let addr = listener.local_addr().unwrap();
    let client = TcpStream::connect(addr).unwrap();
    std::mem::forget((client, listener.accept().unwrap()));
    addr
}

/// What an origin does once it has read a request's head.
pub(crate) enum Act {
    /// Sends this and keeps the connection.
    Say(Vec<u8>),
    /// Sends this and closes.
    Last(Vec<u8>),
    /// Sends the first, and then the second again and again until nobody takes it.
    Forever(Vec<u8>, Vec<u8>),
    /// Sends the first, the second again and again, with a pause before each, while the third says so, and then the last.
    Trickle(Vec<u8>, Vec<u8>, Box<dyn Fn() -> bool + Send>, Vec<u8>),
    /// Sends the first, waits, and sends the second.
    Parts(Vec<u8>, Box<dyn FnOnce() + Send>, Vec<u8>),
    /// Sends these one after the other, with a pause before each, and keeps the connection.
    Slowly(Vec<Vec<u8>>, Duration),
    /// Waits until the other side closes.
    Hold,
}

/// An answer with these further header lines, each with its line end.
pub(crate) fn answer(status: u16, headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    let body = body.as_ref();
    let head = format!("HTTP/1.1 {status} X\r\ncontent-length: {}\r\n{headers}\r\n", body.len());
    [head.as_bytes(), body].concat()
}

/// An answer that is stored: it has a strong tag.
pub(crate) fn tagged(headers: &str, body: impl AsRef<[u8]>) -> Vec<u8> {
    answer(200, &format!("etag: \"t\"\r\n{headers}"), body)
}

/// An origin of raw bytes.
pub(crate) struct Origin {
    pub(crate) addr: SocketAddr,
    heads: Arc<Mutex<Vec<String>>>,
    accepted: Arc<AtomicUsize>,
    closed: Arc<AtomicUsize>,
}

impl Origin {
    /// Does what `script` says of each request, which it gets with its number and its head in lower case.
    pub(crate) fn start(script: impl Fn(usize, &str) -> Act + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let addr = listener.local_addr().unwrap();
        let origin = Self { addr, heads: Arc::default(), accepted: Arc::default(), closed: Arc::default() };
        let (heads, accepted) = (Arc::clone(&origin.heads), Arc::clone(&origin.accepted));
        let closed = Arc::clone(&origin.closed);
        let script = Arc::new(script);
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                accepted.fetch_add(1, Ordering::SeqCst);
                let (heads, script) = (Arc::clone(&heads), Arc::clone(&script));
                let closed = Arc::clone(&closed);
                thread::spawn(move || {
                    serve(stream, &heads, &*script);
                    closed.fetch_add(1, Ordering::SeqCst);
                });
            }
        });
        origin
    }

    /// Answers every request alike.
    pub(crate) fn saying(text: Vec<u8>) -> Self {
        Self::start(move |_, _| Act::Say(text.clone()))
    }

    /// The heads of the requests so far, in lower case.
    pub(crate) fn heads(&self) -> Vec<String> {
        self.heads.lock().unwrap().clone()
    }

    /// How many requests there were.
    pub(crate) fn asked(&self) -> usize {
        self.heads.lock().unwrap().len()
    }

    /// How many connections there were.
    pub(crate) fn accepted(&self) -> usize {
        self.accepted.load(Ordering::SeqCst)
    }

    /// How many connections there were that are over.
    pub(crate) fn closed(&self) -> usize {
        self.closed.load(Ordering::SeqCst)
    }

    /// Its entry on the list: in the clear, on this machine.
    pub(crate) fn entry(&self) -> AllowConfig {
        AllowConfig { scheme: OriginScheme::Http, private: true, ..AllowConfig::new(&self.addr.to_string()) }
    }

    /// The same, for answers without a strong tag too.
    pub(crate) fn lenient_entry(&self) -> AllowConfig {
        AllowConfig { origin_etag: OriginEtag::Any, ..self.entry() }
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
        // Whoever hung up has heard enough.
        let _ = match script(number, &head) {
            Act::Say(text) => stream.write_all(&text),
            Act::Last(text) => {
                let _ = stream.write_all(&text);
                return;
            }
            Act::Forever(first, again) => {
                let mut sent = stream.write_all(&first);
                while sent.is_ok() {
                    sent = stream.write_all(&again);
                }
                return;
            }
            Act::Trickle(first, again, goes_on, last) => {
                let mut sent = stream.write_all(&first);
                while sent.is_ok() && goes_on() {
                    thread::sleep(Duration::from_millis(10));
                    sent = stream.write_all(&again);
                }
                sent.and_then(|()| stream.write_all(&last))
            }
            Act::Parts(first, wait, second) => {
                let _ = stream.write_all(&first);
                wait();
                stream.write_all(&second)
            }
            Act::Slowly(parts, pause) => parts.iter().try_for_each(|part| {
                thread::sleep(pause);
                stream.write_all(part)
            }),
            Act::Hold => stream.read(&mut [0; 1]).map(drop),
        };
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

/// What a test's fill stands on.
pub(crate) struct Ground {
    pub(crate) config: EdgeConfig,
    pub(crate) cas: Arc<Cas>,
    pub(crate) index: Option<UrlIndex>,
    pub(crate) amnesia: bool,
    pub(crate) drain: Duration,
}

impl Ground {
    /// With these origins, and everything in memory.
    pub(crate) fn new(allow: Vec<AllowConfig>) -> Self {
        let mut config = EdgeConfig { allow, fill_timeout: PATIENCE.into(), ..EdgeConfig::default() };
        config.fill.connect_timeout = PATIENCE.into();
        let cas = Arc::new(Cas::in_memory(Limits::default()));
        Self { config, cas, index: None, amnesia: false, drain: PATIENCE }
    }
}

/// A running fill; it stops when the test drops it.
pub(crate) struct Node {
    pub(crate) scope: Scope,
    pub(crate) fill: Arc<Fill>,
    pub(crate) cas: Arc<Cas>,
    conductor: Option<thread::JoinHandle<Exit>>,
    runtime: tokio::runtime::Runtime,
}

impl Node {
    /// One that asks these origins.
    pub(crate) fn start(allow: Vec<AllowConfig>) -> Self {
        Self::on(Ground::new(allow))
    }

    pub(crate) fn on(ground: Ground) -> Self {
        let kernel = Kernel::builder("test").drain_deadline(ground.drain).build().unwrap();
        let scope = kernel.scope(&TOPOLOGY);
        let config = &ground.config;
        let parts = FillParts {
            settings: FillSettings::load(config).unwrap(),
            workers: config.fill.workers,
            max_entries: config.fill.max_entries,
            inflight_bytes: config.fill.inflight_bytes.as_u64(),
            amnesia: ground.amnesia,
            resolver: Resolver::new(&scope),
            cas: Arc::clone(&ground.cas),
            hot: Arc::new(Hot::new(1 << 20, 1 << 16)),
            index: ground.index,
            read_only: None,
        };
        let fill = kernel.block_on(Fill::start(&scope, parts)).unwrap();
        let conductor = Some(thread::spawn(move || kernel.run().unwrap()));
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        Self { scope, fill, cas: ground.cas, conductor, runtime }
    }

    pub(crate) fn block_on<F: Future>(&self, work: F) -> F::Output {
        self.runtime.block_on(work)
    }

    pub(crate) fn url(&self, origin: &Origin, path: &str) -> OriginUrl {
        self.fill.url(&format!("{}{path}", origin.addr), None).unwrap()
    }

    pub(crate) fn now(&self) -> Time {
        let clock = self.scope.clock();
        Time { unix: clock.unix().as_secs(), steady: clock.steady_unix().as_secs() }
    }

    pub(crate) fn deadline(&self) -> Deadline {
        self.scope.clock().within(PATIENCE)
    }

    /// Fetches without further wishes.
    pub(crate) fn fetch(&self, url: &OriginUrl) -> Result<Arc<Entry>, Refusal> {
        self.fetch_with(url, "")
    }

    /// Fetches with a `Cache-Control`.
    pub(crate) fn fetch_with(&self, url: &OriginUrl, cache_control: &str) -> Result<Arc<Entry>, Refusal> {
        self.block_on(self.fill.fetch(url, &wishes(cache_control), self.deadline()))
    }

    /// Looks without asking.
    pub(crate) fn find(&self, url: &OriginUrl, cache_control: &str) -> Found {
        self.fill.find(url, &wishes(cache_control), self.now())
    }

    /// The bytes of an entry, as they are stored or held.
    pub(crate) fn bytes(&self, entry: &Entry) -> Vec<u8> {
        match entry.held() {
            Some(bytes) => bytes.to_vec(),
            None => self.cas.open(entry.id).unwrap().expect("it is stored").read_all().unwrap().to_vec(),
        }
    }

    /// How many objects are stored.
    pub(crate) fn stored(&self) -> u64 {
        self.cas.stat().objects
    }

    /// The value of a metric: all series whose line begins so and has these labels, summed.
    pub(crate) fn metric(&self, name: &str, labels: &[&str]) -> u64 {
        let text = self.scope.all_metrics().prometheus_text();
        let page = include_str!("../../../../docs/concurrency/edge.md");
        assert!(page.contains(&format!("| `{name}`")), "no metric is called {name}");
        let lines =
            text.lines().filter(|line| line.starts_with(name) && labels.iter().all(|l| line.contains(l)));
        lines.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok()).sum()
    }

    /// Ends the node, and says how that went.
    pub(crate) fn stop(mut self) -> Exit {
        self.scope.shutdown().request("the test is over");
        self.conductor.take().expect("stopped once").join().unwrap()
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        self.scope.shutdown().request("the test is over");
        self.conductor.take().map(thread::JoinHandle::join);
    }
}

/// What a request says in `Cache-Control`.
pub(crate) fn wishes(cache_control: &str) -> RequestDirectives {
    RequestDirectives::parse([cache_control.as_bytes()])
}

/// Why there is no entry.
#[track_caller]
pub(crate) fn reason(fetched: Result<Arc<Entry>, Refusal>) -> Reason {
    fetched.expect_err("there is nothing to be had").reason
}

/// Asks again until it is so.
#[track_caller]
pub(crate) fn eventually(what: &str, mut is_so: impl FnMut() -> bool) {
    let begun = Instant::now();
    while !is_so() {
        assert!(begun.elapsed() < PATIENCE, "never: {what}");
        thread::yield_now();
    }
}
