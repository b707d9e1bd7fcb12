//! What post-quantum key exchange costs two nodes: `cargo run -p ron-transport --release --example handshakes [rounds]`.
//!
//! Full handshakes as the overlay makes them, over loopback: TLS 1.3, raw Ed25519 keys on both sides, nothing resumed. Both
//! ends live on one thread, so its processor time is theirs together. The kinds take turns, 250 at a time; what counts is
//! the median of the rounds, and the ratio within a round. Each handshake must agree on the group that its kind is about.

use std::{
    env, io,
    net::{Ipv4Addr, SocketAddr},
    pin::Pin,
    task::{Context, Poll, ready},
    time::{Duration, Instant},
};

use ron_transport::tls::{
    Pq, PqFallback, PqMode, TlsStream,
    raw_key::{NodeKey, RawClientTls, RawKeyOptions, RawServerTls},
};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpListener, TcpSocket, TcpStream},
};

/// Handshakes of one kind in a row.
const IN_A_ROW: u32 = 250;
/// Rounds, unless told.
const ROUNDS: usize = 20;
/// No handshake takes this long.
const LIMIT: Duration = Duration::from_secs(10);

const OFF: Pq = Pq { mode: PqMode::Off, fallback: PqFallback::Allow };
const HYBRID: Pq = Pq { mode: PqMode::Hybrid, fallback: PqFallback::Allow };

/// Two ends, and what they must agree on.
struct Kind {
    name: &'static str,
    dialer: RawClientTls,
    listener: RawServerTls,
    agreed: &'static str,
}

/// The result of one handshake.
struct Shaken {
    wall: Duration,
    /// Bytes of the dialer, and of the listener.
    bytes: (u64, u64),
}

/// A row of handshakes of one kind.
struct Round {
    cpu_us: f64,
    walls_us: Vec<f64>,
    bytes: (u64, u64),
}

#[tokio::main(flavor = "current_thread")]
async fn main() -> io::Result<()> {
    let rounds = env::args().nth(1).and_then(|rounds| rounds.parse().ok()).unwrap_or(ROUNDS);
    let kinds = kinds();
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let mut done: Vec<Vec<Round>> = kinds.iter().map(|_| Vec::new()).collect();
    for _ in 0..=rounds {
        for (kind, done) in kinds.iter().zip(&mut done) {
            done.push(round(kind, &listener).await?);
        }
    }
    // The first one is for caches and branch predictors.
    done.iter_mut().for_each(|rounds| drop(rounds.remove(0)));
    println!(
        "| handshake | agreed | CPU µs, both ends | of classical | wall µs, median | bytes there | bytes back |"
    );
    println!("|---|---|---|---|---|---|---|");
    for (kind, rounds) in kinds.iter().zip(&done) {
        print(kind, rounds, &done[0]);
    }
    Ok(())
}

/// The classical one first: the others are compared with it.
fn kinds() -> [Kind; 3] {
    let kind = |name, dialer, listener, agreed| {
        let options = |pq| RawKeyOptions { alpn: vec![b"oap/1".to_vec()], pq };
        let key = || NodeKey::generate().expect("the system has randomness");
        Kind {
            name,
            dialer: RawClientTls::new(&key(), &options(dialer), |_| true).expect("a short protocol name"),
            listener: RawServerTls::new(&key(), &options(listener), |_| true).expect("a short protocol name"),
            agreed,
        }
    };
    [
        kind("classical", OFF, OFF, "X25519"),
        kind("hybrid", HYBRID, HYBRID, "X25519MLKEM768"),
        kind("hybrid offered, classical taken", HYBRID, OFF, "X25519"),
    ]
}

async fn round(kind: &Kind, listener: &TcpListener) -> io::Result<Round> {
    let before = processor_time().await;
    let (mut walls_us, mut bytes) = (Vec::new(), None);
    for _ in 0..IN_A_ROW {
        let shaken = shake(kind, listener).await?;
        walls_us.push(shaken.wall.as_secs_f64() * 1e6);
        assert_eq!(*bytes.get_or_insert(shaken.bytes), shaken.bytes, "as long as the one before");
    }
    let cpu_us = (processor_time().await - before).as_secs_f64() * 1e6 / f64::from(IN_A_ROW);
    Ok(Round { cpu_us, walls_us, bytes: bytes.unwrap_or_default() })
}

async fn shake(kind: &Kind, listener: &TcpListener) -> io::Result<Shaken> {
    let addr: SocketAddr = listener.local_addr()?;
    let (dialled, accepted) = tokio::join!(TcpSocket::new_v4()?.connect(addr), listener.accept());
    let (dialled, accepted) = (Counted::new(dialled?)?, Counted::new(accepted?.0)?);
    let begun = Instant::now();
    let (dialled, accepted) =
        tokio::join!(kind.dialer.connect(dialled, LIMIT), kind.listener.accept(accepted, LIMIT));
    let wall = begun.elapsed();
    let (dialled, accepted) = (dialled.map_err(io::Error::other)?, accepted.map_err(io::Error::other)?);
    for end in [&dialled, &accepted] {
        let agreed = (end.version(), end.key_exchange(), end.resumed());
        assert_eq!(agreed, ("TLSv1.3", Some(kind.agreed), false), "{}", kind.name);
    }
    let written = |end: &TlsStream<Counted>| end.get_ref().written;
    Ok(Shaken { wall, bytes: (written(&dialled), written(&accepted)) })
}

fn print(kind: &Kind, rounds: &[Round], classical: &[Round]) {
    let cpu = median(rounds.iter().map(|round| round.cpu_us));
    let ratio = median(rounds.iter().zip(classical).map(|(round, other)| round.cpu_us / other.cpu_us));
    let wall = median(rounds.iter().flat_map(|round| round.walls_us.iter().copied()));
    let (there, back) = rounds.first().map_or((0, 0), |round| round.bytes);
    println!("| {} | {} | {cpu:.0} | {ratio:.2} | {wall:.0} | {there} | {back} |", kind.name, kind.agreed);
}

fn median(of: impl Iterator<Item = f64>) -> f64 {
    let mut all: Vec<f64> = of.collect();
    all.sort_unstable_by(f64::total_cmp);
    all.get(all.len() / 2).copied().unwrap_or(f64::NAN)
}

/// What this thread has had of a processor, the system's work for it included.
#[expect(clippy::disallowed_methods, reason = "a program that measures itself, between measurements")]
async fn processor_time() -> Duration {
    // The system brings the account up to date when a thread gives its processor up.
    tokio::time::sleep(Duration::from_millis(2)).await;
    let account = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = account.split(' ').next().and_then(|nanos| nanos.parse().ok());
    Duration::from_nanos(nanos.expect("Linux accounts for threads in nanoseconds"))
}

/// A connection that counts what is written to it.
struct Counted {
    socket: TcpStream,
    written: u64,
}

impl Counted {
    fn new(socket: TcpStream) -> io::Result<Self> {
        socket.set_nodelay(true)?;
        Ok(Self { socket, written: 0 })
    }
}

impl AsyncRead for Counted {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_read(cx, buf)
    }
}

impl AsyncWrite for Counted {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        let this = self.get_mut();
        let written = ready!(Pin::new(&mut this.socket).poll_write(cx, buf))?;
        this.written += written as u64;
        Poll::Ready(Ok(written))
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_flush(cx)
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.get_mut().socket).poll_shutdown(cx)
    }
}
