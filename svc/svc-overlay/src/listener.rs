//! The listening socket: accepted from, exchanged live, closed without resets; and the wait for a handshake.

use std::{
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ron_kernel::{
    Scope,
    lock::{Ranked, RankedGuard},
    queue::{SendError, Sender, SharedReceiver},
    supervisor::{Children, TaskCtx, TaskFault, TaskResult},
    topology::{Escalation, Plane, Policy, QueueSpec, Restart, Stage, TaskSpec},
};
use ron_transport::{
    addr::ListenAddr,
    caps::{CapError, ClientKey, ConnPermit},
    listen::{AcceptFault, BACKLOG, BindError, BindOptions, Listener},
    stream::{Peer, RawStream},
};
use tokio::sync::Notify;

#[cfg(feature = "quic")]
use crate::quic::QuicLink;
use crate::{
    handshakes::Place,
    locks,
    session::{self, Began, CONNECTION, Link, NoSession},
    shared::Shared,
};

/// The usual policy of the overlay's tasks: 100 ms doubling to 2 s, five a minute, then the node fails closed.
pub(crate) const RESTART: Restart = Restart::OnFailure {
    base: Duration::from_millis(100),
    cap: Duration::from_secs(2),
    per_minute: 5,
    then: Escalation::FailClosed,
};

/// The task that accepts connections.
pub(crate) const LISTENER: TaskSpec = TaskSpec {
    name: "listener",
    plane: Plane::Control,
    restart: RESTART,
    stop: Stage::Intake,
    doc: "accepts connections and applies the caps; one that finds no room is closed",
};

/// Gives connections their turn.
pub(crate) const GREETER: TaskSpec = TaskSpec {
    name: "greeter",
    plane: Plane::Control,
    restart: RESTART,
    stop: Stage::Intake,
    doc: "places accepted connections on the core with the fewest, 256 handshakes at a time; beyond that, a new one \
     replaces the oldest of the address that has the most",
};

/// Connections that wait for a handshake.
pub(crate) const INGRESS_WORK: QueueSpec = QueueSpec {
    name: "ingress_work",
    capacity: 512,
    policy: Policy::RejectNew,
    from: "listener",
    to: "greeter",
    doc: "accepted connections that wait for the greeter; beyond that, new connections are closed at once",
};

/// How long to leave the backlog alone when the system is out of descriptors or memory.
const OUT_OF_RESOURCES: Duration = Duration::from_millis(50);

/// A connection that has come, before its handshake.
#[derive(Debug)]
pub(crate) enum Arrived {
    /// Over a socket of its own.
    Socket(RawStream),
    /// A connection over QUIC.
    #[cfg(feature = "quic")]
    Quic(QuicLink),
}

/// A connection that was accepted.
#[derive(Debug)]
struct Accepted {
    arrived: Arrived,
    peer: Peer,
    permit: ConnPermit,
}

/// The door of a node.
#[derive(Debug)]
pub(crate) struct Door {
    shared: Arc<Shared>,
    waiting: Sender<Accepted>,
    changed: Notify,
    /// Nothing else is locked under it.
    sockets: Ranked<Sockets>,
}

#[derive(Debug)]
struct Sockets {
    /// `None` once the node takes in no more.
    listening: Option<Arc<Listener>>,
    addr: ListenAddr,
    asked_for: ListenAddr,
    /// Replaced, with backlogs that are still to be served.
    replaced: Vec<Arc<Listener>>,
}

impl Door {
    /// Starts to accept connections.
    pub(crate) fn open(scope: &Scope, shared: &Arc<Shared>, listener: Listener) -> Arc<Self> {
        let (waiting, accepted) = scope.queue(&INGRESS_WORK, "session");
        let door = Arc::new(Self {
            shared: Arc::clone(shared),
            waiting,
            changed: Notify::new(),
            sockets: Ranked::new(
                &locks::OAP_SOCKETS,
                Sockets {
                    addr: listener.local_addr().clone(),
                    asked_for: listener.asked_for().clone(),
                    listening: Some(Arc::new(listener)),
                    replaced: Vec::new(),
                },
            ),
        });
        let accepting = Arc::clone(&door);
        scope.task(&LISTENER, move |ctx| accept(Arc::clone(&accepting), ctx));
        let (greeting, accepted) = (Arc::clone(shared), accepted.share());
        let connections = scope.children(&CONNECTION);
        scope.task(&GREETER, move |ctx| {
            greet(Arc::clone(&greeting), connections.clone(), accepted.clone(), ctx)
        });
        door
    }

    /// Where it listens, with the port the system chose; where it last did, once the node drains.
    pub(crate) fn local_addr(&self) -> ListenAddr {
        self.sockets().addr.clone()
    }

    /// The listening socket; `None` once the node drains.
    pub(crate) fn listener(&self) -> Option<Arc<Listener>> {
        self.sockets().listening.clone()
    }

    /// Binds the socket that `addr` asks for, unless it is the present one.
    pub(crate) fn bind(&self, addr: &ListenAddr) -> Result<Option<Listener>, BindError> {
        let (present, asked_for) = {
            let sockets = self.sockets();
            (sockets.addr.clone(), sockets.asked_for.clone())
        };
        if *addr == asked_for || is_same(addr, &present) {
            return Ok(None);
        }
        match (Listener::bind(addr, BindOptions::default()), present) {
            (Err(BindError::InUse { addr }), ListenAddr::Tcp(present)) if overlap(addr, present) => {
                Err(BindError::OwnPort { addr, present })
            }
            (bound, _) => bound.map(Some),
        }
    }

    /// Listens on another socket from now on. It accepts before the old one stops.
    pub(crate) fn replace(&self, listener: Listener) {
        let mut sockets = self.sockets();
        if sockets.listening.is_none() {
            // Too late: the node drains, and nobody would accept.
            return drop(listener.close());
        }
        sockets.addr = listener.local_addr().clone();
        sockets.asked_for = listener.asked_for().clone();
        let before = sockets.listening.replace(Arc::new(listener));
        sockets.replaced.extend(before);
        drop(sockets);
        self.changed.notify_one();
    }

    fn sockets(&self) -> RankedGuard<'_, Sockets> {
        self.sockets.lock()
    }

    fn stop(&self) -> Vec<Arc<Listener>> {
        let mut sockets = self.sockets();
        let mut all = std::mem::take(&mut sockets.replaced);
        all.extend(sockets.listening.take());
        all
    }

    /// Closes sockets; connections in the backlog are still served.
    fn retire(&self, listeners: Vec<Arc<Listener>>) {
        for listener in listeners {
            let waiting = match Arc::try_unwrap(listener) {
                Ok(listener) => listener.close(),
                Err(shared) => shared.drain_backlog(usize::from(BACKLOG)),
            };
            waiting.into_iter().for_each(|(stream, peer)| self.admit(Arrived::Socket(stream), peer));
        }
    }

    /// Lets a connection wait for its handshake, if it finds room.
    pub(crate) fn admit(&self, arrived: Arrived, peer: Peer) {
        let metrics = self.shared.scope.metrics();
        let cap = match self.shared.caps.try_admit(ClientKey::of(&peer)) {
            Ok(permit) => {
                // A full queue has counted it; the connection closes as it goes.
                if let Err(SendError::Busy(_)) = self.waiting.try_send(Accepted { arrived, peer, permit }) {
                    self.shared.metrics.rejected("busy");
                }
                return;
            }
            Err(CapError::Total { .. }) => "total",
            Err(CapError::PerClient { .. }) => "per_client",
        };
        metrics.connections_refused(self.shared.scope.service(), cap).inc();
    }
}

async fn accept(door: Arc<Door>, ctx: TaskCtx) -> TaskResult {
    while let Some(listener) = door.listener() {
        let accepted = tokio::select! {
            () = ctx.stopping() => {
                drop(listener);
                let last = door.stop();
                door.retire(last);
                return Ok(());
            }
            () = door.changed.notified() => {
                drop(listener);
                let replaced = std::mem::take(&mut door.sockets().replaced);
                door.retire(replaced);
                continue;
            }
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) => door.admit(Arrived::Socket(stream), peer),
            Err(error) => match AcceptFault::of(&error) {
                AcceptFault::Connection => {}
                AcceptFault::Resources => {
                    tracing::warn!(%error, "cannot accept for now");
                    tokio::time::sleep(OUT_OF_RESOURCES).await;
                }
                AcceptFault::Fatal => return Err(TaskFault::new(error)),
            },
        }
    }
    Ok(())
}

/// Gives each connection a place among the handshakes, and a core.
async fn greet(
    shared: Arc<Shared>,
    connections: Children,
    accepted: SharedReceiver<Accepted>,
    ctx: TaskCtx,
) -> TaskResult {
    // Whoever still waits at the stop is let go: this node takes in nobody any more.
    while let Some(accepted) = accepted.recv_until_stop(&ctx).await {
        let (place, displaced) = shared.handshakes.take(ClientKey::of(&accepted.peer));
        if displaced {
            shared.metrics.rejected("busy");
        }
        let seat = shared.scope.planes().seat();
        let core = Arc::clone(seat.core());
        let shared = Arc::clone(&shared);
        connections.spawn_on(&core, async move {
            let _seat = seat;
            serve(&shared, accepted, place).await;
        });
    }
    Ok(())
}

async fn serve(shared: &Arc<Shared>, accepted: Accepted, place: Place) {
    let Accepted { arrived, peer, permit } = accepted;
    let link = match arrived {
        Arrived::Socket(stream) => match stream.register() {
            Ok(stream) => Link::Socket(stream),
            Err(error) => return tracing::warn!(%error, "a connection cannot be watched"),
        },
        #[cfg(feature = "quic")]
        Arrived::Quic(link) => Link::Quic(link),
    };
    match session::run(shared, link, Began::There(peer), Some(place)).await {
        Ok(_) => {}
        // Counted when it lost its place; whoever floods is not to fill the log.
        Err(error @ NoSession::Displaced) => tracing::debug!(%peer, "no session: {error}"),
        Err(NoSession::Io(error)) => {
            tracing::debug!(%peer, %error, "a connection broke off before its session");
        }
        Err(error) => tracing::info!(%peer, "no session: {error}"),
    }
    drop(permit);
}

/// Whether a wanted address is the one a listener has; port 0 asks for any and is content with what it got.
fn is_same(wanted: &ListenAddr, have: &ListenAddr) -> bool {
    match (wanted, have) {
        (ListenAddr::Tcp(wanted), ListenAddr::Tcp(have)) => {
            wanted.ip() == have.ip() && (wanted.port() == 0 || wanted.port() == have.port())
        }
        _ => wanted == have,
    }
}

/// Whether two addresses cannot be listened on at once.
fn overlap(one: SocketAddr, other: SocketAddr) -> bool {
    let covers = |all: IpAddr, ip: IpAddr| all.is_unspecified() && (all.is_ipv6() || ip.is_ipv4());
    let (a, b) = (one.ip().to_canonical(), other.ip().to_canonical());
    one.port() == other.port() && (a == b || covers(a, b) || covers(b, a))
}
