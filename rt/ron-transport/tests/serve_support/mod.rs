//! What the serve-loop tests share: a node with one HTTP server on real sockets, and clients that see every byte.

#![allow(dead_code, reason = "each test file uses its own part")]

pub(crate) mod client;
pub(crate) mod frames;
pub(crate) mod h2_client;
pub(crate) mod relay;
pub(crate) mod service;
pub(crate) mod tls;

use std::{io, net::SocketAddr, num::NonZeroUsize, sync::LazyLock, thread, time::Duration};

use ron_kernel::{Exit, ExitCode, Kernel, Scope, topology::Topology};
use ron_transport::{
    addr::ListenAddr,
    client::{Drivers, H2_UPSTREAM},
    listen::{BindOptions, Listener},
    proxy_protocol::TrustedSources,
    serve::{CONNECTION, H2_STREAM, HttpLimits, HttpServer, LISTENER, ListenPlan, Roles, TIMEOUTS},
    tls::ServerTls,
};
use tokio::{
    net::{TcpSocket, TcpStream},
    sync::oneshot,
};
use types::Reason;

use client::Client;
use service::{Desk, TestService};

/// Longer than anything here takes on a busy machine: only a hanging test meets it.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// A timeout that is the subject of a test, and that nothing has to be quicker than.
pub(crate) const SHORT: Duration = Duration::from_millis(250);

/// Runs a test in which something has to be quicker than a timeout, with ever longer ones until the machine keeps up: one
/// that is busy with other things takes a moment for anything, but what is wrong is wrong each time.
#[expect(clippy::disallowed_methods, reason = "so that a try may fail")]
pub(crate) async fn with_growing_time<F>(test: impl Fn(Duration) -> F)
where
    F: Future<Output = ()> + Send + 'static,
{
    for time in [SHORT, SHORT * 4, SHORT * 16] {
        if tokio::spawn(test(time)).await.is_ok() {
            return;
        }
    }
    test(SHORT * 64).await;
}

static TOPOLOGY: Topology = Topology {
    service: "t",
    purpose: "answers the tests",
    last_reviewed: "2026-01-01",
    invariants: &[],
    tasks: &[LISTENER],
    children: &[CONNECTION, H2_STREAM, H2_UPSTREAM],
    queues: &[],
    locks: &[],
    timeouts: &TIMEOUTS,
    metrics: &[],
    trade_offs: &[],
};

/// A node with one HTTP server.
pub(crate) struct Node {
    pub(crate) scope: Scope,
    pub(crate) server: HttpServer<TestService>,
    pub(crate) desk: Desk,
    exit: oneshot::Receiver<Exit>,
}

/// Limits under which nothing times out while a test runs.
pub(crate) fn patient() -> HttpLimits {
    HttpLimits {
        handshake_timeout: PATIENCE * 2,
        read_timeout: PATIENCE * 2,
        write_timeout: PATIENCE * 2,
        idle_timeout: PATIENCE * 3,
        min_rate: 0,
        request_timeout: Duration::ZERO,
        ..HttpLimits::default()
    }
}

/// A plan on a free port of the loopback interface.
pub(crate) fn plan(limits: HttpLimits) -> ListenPlan {
    ListenPlan {
        listener: Some(bind("127.0.0.1:0")),
        tls: None,
        proxy_protocol: TrustedSources::new(Vec::new()),
        limits,
    }
}

pub(crate) async fn connect(addr: SocketAddr) -> io::Result<TcpStream> {
    TcpSocket::new_v4()?.connect(addr).await
}

pub(crate) fn bind(addr: &str) -> Listener {
    Listener::bind(&addr.parse().unwrap(), BindOptions::default()).unwrap()
}

impl Node {
    /// A node on two cores.
    pub(crate) fn start(limits: HttpLimits) -> Self {
        Self::start_with(plan(limits), 2)
    }

    /// A node over TLS, with both protocols on offer.
    pub(crate) fn start_tls(limits: HttpLimits, tls: ServerTls) -> Self {
        Self::start_with(ListenPlan { tls: Some(tls), ..plan(limits) }, 2)
    }

    #[expect(clippy::disallowed_methods, reason = "the thread a node's conductor has in production")]
    pub(crate) fn start_with(plan: ListenPlan, cores: usize) -> Self {
        let cores = NonZeroUsize::new(cores).unwrap();
        let kernel = Kernel::builder("test").cores(cores).drain_deadline(PATIENCE).build().unwrap();
        let scope = kernel.scope(&TOPOLOGY);
        let desk = Desk::new(Drivers::new(&scope), scope.clock());
        let server = HttpServer::start(&scope, Roles::default(), plan, |_| desk.service());
        let (done, exit) = oneshot::channel();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
            let _ = done.send(runtime.block_on(kernel.conduct()).unwrap());
        });
        Self { scope, server, desk, exit }
    }

    pub(crate) fn addr(&self) -> SocketAddr {
        match self.server.local_addr() {
            ListenAddr::Tcp(addr) => addr,
            other => panic!("{other} is not TCP"),
        }
    }

    pub(crate) async fn connect(&self) -> Client<TcpStream> {
        Client::new(self.tcp().await)
    }

    pub(crate) async fn tcp(&self) -> TcpStream {
        let stream = connect(self.addr()).await.unwrap();
        stream.set_nodelay(true).unwrap();
        stream
    }

    pub(crate) fn rejected(&self, reason: Reason) -> u64 {
        self.scope.metrics().rejected(reason).get()
    }

    pub(crate) fn timeouts(&self, op: &'static str) -> u64 {
        self.scope.metrics().io_timeouts(op).get()
    }

    pub(crate) fn refused(&self, cap: &'static str) -> u64 {
        self.scope.metrics().connections_refused("t", cap).get()
    }

    /// Idle connections closed to make room so far.
    pub(crate) fn evicted(&self) -> u64 {
        self.scope.metrics().connections_evicted("t").get()
    }

    /// Live children of a kind.
    pub(crate) fn live(&self, kind: &str) -> usize {
        let all = self.scope.supervisor().children();
        all.iter().find(|(_, k, _)| *k == kind).map_or(0, |(_, _, live)| *live)
    }

    /// Waits until every connection and stream has ended.
    pub(crate) async fn all_gone(&self) {
        eventually("connections end", || self.live("connection") == 0).await;
        eventually("streams end", || self.live("h2_stream") == 0).await;
    }

    /// Asks the node to stop, without waiting for it.
    pub(crate) fn begin_stop(&self) {
        self.scope.shutdown().request("the test is over");
    }

    /// What HTTP/2 connections to servers run on.
    pub(crate) fn drivers(&self) -> Drivers {
        Drivers::new(&self.scope)
    }

    /// Stops the node and insists that it drained cleanly and lost nobody.
    pub(crate) async fn stop(self) -> u64 {
        self.begin_stop();
        self.stopped().await
    }

    /// Waits for the end of a node that was asked to stop, and insists that it was clean. Returns how many connections
    /// ended only because of that.
    pub(crate) async fn stopped(self) -> u64 {
        let exit = tokio::time::timeout(PATIENCE * 2, self.exit).await.unwrap().unwrap();
        assert_eq!(exit.code, ExitCode::Clean, "{exit}");
        let children = self.scope.supervisor().children();
        assert!(children.iter().all(|(_, _, live)| *live == 0), "{children:?}");
        self.scope.metrics().tasks("connection").canceled.get()
    }
}

/// Waits until `holds`, which some other thread brings about.
pub(crate) async fn eventually(what: &str, holds: impl Fn() -> bool) {
    let waiting = async {
        while !holds() {
            tokio::time::sleep(Duration::from_millis(2)).await;
        }
    };
    let in_time = tokio::time::timeout(PATIENCE, waiting).await;
    assert!(in_time.is_ok(), "waited in vain: {what}");
}

/// Bytes that show whether any went missing, twice or astray.
pub(crate) fn pattern(len: usize) -> Vec<u8> {
    static UNIT: LazyLock<Vec<u8>> = LazyLock::new(|| {
        // A prime length, so that no block repeats itself.
        let scatter = |i: u32| (i.wrapping_mul(2_654_435_761) >> 13).to_le_bytes()[0];
        (0..65_521).map(scatter).collect()
    });
    let mut bytes = UNIT.repeat(len / UNIT.len() + 1);
    bytes.truncate(len);
    bytes
}
