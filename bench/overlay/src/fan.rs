//! One publisher, many subscribers, one server between them.

use std::{
    io,
    net::{SocketAddr, TcpStream},
    str::FromStr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicU64, Ordering::Relaxed},
    },
    thread,
    time::{Duration, Instant},
};

use serde_json::{Value, json};

use crate::{Outcome, measure, nats, oap_client};

/// Publications that the slowest subscriber may be behind; within what every server here holds for a subscriber.
const WINDOW: u64 = 1000;

/// The parameters of a measurement.
pub(crate) struct Case {
    pub(crate) subscribers: usize,
    pub(crate) bytes: usize,
    pub(crate) time: Duration,
    /// Publications a second; zero for as many as the slowest takes.
    pub(crate) rate: u64,
}

/// Which protocol the server speaks.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    Oap,
    Nats,
}

/// What a subscriber has got.
#[derive(Default)]
pub(crate) struct Got {
    pub(crate) count: AtomicU64,
    pub(crate) latencies: Mutex<Vec<u64>>,
}

/// Writes publications into a buffer, in its protocol.
pub(crate) trait Publish: Send {
    fn put(&mut self, body: &[u8], out: &mut Vec<u8>);
}

impl Case {
    pub(crate) fn read(subscribers: u64, bytes: u64, seconds: u64, rate: u64) -> Self {
        let (subscribers, bytes) = (subscribers as usize, (bytes as usize).max(16));
        Self { subscribers, bytes, time: Duration::from_secs(seconds), rate }
    }
}

impl FromStr for Kind {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match text {
            "oap" => Ok(Self::Oap),
            "nats" => Ok(Self::Nats),
            _ => Err("oap, nats, or gossipsub if it was built with that feature"),
        }
    }
}

impl Kind {
    /// A session that has said what it must and nothing more.
    pub(crate) fn connect(self, addr: SocketAddr, number: u64) -> Outcome<TcpStream> {
        match self {
            Self::Oap => oap_client::connect(addr, number),
            Self::Nats => nats::connect(addr),
        }
    }

    fn listen(self, stream: TcpStream, got: &Got) -> Outcome<()> {
        match self {
            Self::Oap => oap_client::listen(stream, got),
            Self::Nats => nats::listen(stream, got),
        }
    }

    fn publisher(self) -> Box<dyn Publish> {
        match self {
            Self::Oap => Box::new(oap_client::Publisher::new()),
            Self::Nats => Box::new(nats::Publisher),
        }
    }
}

impl Got {
    /// A publication came; its first eight bytes say when it was published.
    pub(crate) fn add(&self, body: &[u8], latencies: &mut Vec<u64>) {
        let count = self.count.fetch_add(1, Relaxed);
        if let Some(at) = body.first_chunk::<8>() {
            latencies.push(measure::now().saturating_sub(u64::from_le_bytes(*at)));
        }
        if count.is_multiple_of(256) {
            self.hand_in(latencies);
        }
    }

    pub(crate) fn hand_in(&self, latencies: &mut Vec<u64>) {
        self.latencies.lock().expect("nobody panics with it").append(latencies);
    }
}

/// Runs a case.
pub(crate) fn run(kind: Kind, addr: SocketAddr, pid: &str, case: &Case) -> Outcome<Value> {
    let got: Vec<Arc<Got>> = (0..case.subscribers).map(|_| Arc::default()).collect();
    for (number, got) in (2..).zip(&got) {
        let (stream, got) = (kind.connect(addr, number)?, Arc::clone(got));
        thread::spawn(move || kind.listen(stream, &got));
    }
    let publisher = kind.connect(addr, 1)?;
    drain(kind, &publisher)?;
    thread::sleep(Duration::from_millis(500));
    let (server, own) = (measure::cpu_us(pid)?, measure::cpu_us("self")?);
    let start = Instant::now();
    let sent = publish(kind, publisher, case, &got)?;
    let elapsed = start.elapsed();
    let within = total(&got);
    let end = Instant::now() + Duration::from_secs(3);
    while total(&got) < sent * case.subscribers as u64 && Instant::now() < end {
        thread::sleep(Duration::from_millis(20));
    }
    let delivered = total(&got);
    let cpu = (measure::cpu_us(pid)? - server) as f64 / delivered.max(1) as f64;
    let client_cpu = (measure::cpu_us("self")? - own) as f64 / delivered.max(1) as f64;
    thread::sleep(Duration::from_millis(50));
    Ok(report(
        case,
        &got,
        sent,
        within as f64 / elapsed.as_secs_f64(),
        (cpu, client_cpu),
        measure::rss_kib(pid)?,
    ))
}

/// What there is to say of a run.
pub(crate) fn report(
    case: &Case,
    got: &[Arc<Got>],
    sent: u64,
    per_second: f64,
    (cpu, client_cpu): (f64, f64),
    rss_kib: i64,
) -> Value {
    let mut latencies: Vec<u64> = Vec::new();
    for got in got {
        latencies.append(&mut got.latencies.lock().expect("nobody panics with it"));
    }
    latencies.sort_unstable();
    json!({
        "subscribers": case.subscribers, "bytes": case.bytes, "rate": case.rate, "sent": sent,
        "delivered_per_s": per_second.round(),
        "ratio": total(got) as f64 / (sent * case.subscribers as u64).max(1) as f64,
        "cpu_us": cpu, "client_cpu_us": client_cpu, "rss_kib": rss_kib,
        "p50_ms": measure::quantile_ms(&latencies, 0.5), "p99_ms": measure::quantile_ms(&latencies, 0.99),
    })
}

fn total(got: &[Arc<Got>]) -> u64 {
    got.iter().map(|got| got.count.load(Relaxed)).sum()
}

/// Whatever the server says to the publisher is read and answered, or it would stop reading.
fn drain(kind: Kind, publisher: &TcpStream) -> Outcome<()> {
    let stream = publisher.try_clone()?;
    thread::spawn(move || kind.listen(stream, &Got::default()));
    Ok(())
}

fn publish(kind: Kind, mut stream: TcpStream, case: &Case, got: &[Arc<Got>]) -> io::Result<u64> {
    let mut publisher = kind.publisher();
    let (mut body, mut out) = (vec![b'x'; case.bytes], Vec::new());
    let start = Instant::now();
    let slowest = || got.iter().map(|got| got.count.load(Relaxed)).min().unwrap_or(0);
    let mut sent = 0u64;
    while start.elapsed() < case.time {
        let allowed = match case.rate {
            0 => (slowest() + WINDOW).saturating_sub(sent).min(64),
            rate => ((start.elapsed().as_secs_f64() * rate as f64) as u64).saturating_sub(sent),
        };
        if allowed == 0 {
            thread::sleep(Duration::from_micros(if case.rate == 0 { 100 } else { 500 }));
            continue;
        }
        out.clear();
        for _ in 0..allowed {
            body[..8].copy_from_slice(&measure::now().to_le_bytes());
            body[8..16].copy_from_slice(&sent.to_le_bytes());
            publisher.put(&body, &mut out);
            sent += 1;
        }
        io::Write::write_all(&mut stream, &out)?;
    }
    Ok(sent)
}
