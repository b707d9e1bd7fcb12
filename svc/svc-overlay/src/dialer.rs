//! Dialling: one task per peer in the configuration, which keeps a session with it.

use std::{collections::HashMap, fmt, sync::Arc, time::Duration};

use ron_kernel::{
    Scope,
    lock::Ranked,
    retry::Backoff,
    supervisor::Children,
    topology::{ChildSpec, LockSpec, Plane, Stage},
};
#[cfg(feature = "quic")]
use ron_transport::dial::resolve;
use ron_transport::{
    dial::{DialError, dial, dial_through},
    resolve::Resolver,
};

use crate::{
    IsHeldElsewhere, PeerAddr,
    session::{self, Began, CloseReason, Ending, Link},
    shared::Shared,
};
#[cfg(feature = "quic")]
use crate::{config::Transport, quic::QuicLink};

/// Keeps a session with one peer.
pub(crate) const DIALER: ChildSpec = ChildSpec {
    kind: "dialer",
    plane: Plane::Data,
    stop: Stage::Writers,
    bound: "one for each of `peers`",
    doc: "dials a peer, supervises the session, and dials again after a pause that doubles from 50-100 ms to 2 s",
};

/// The lock of the dialers.
pub(crate) const CFG_SNAPSHOT: LockSpec = LockSpec {
    name: "cfg_snapshot",
    rank: 10,
    doc: "which peers are dialled: changed by a reload; held while dialers are started and told to stop",
};

/// The pauses between attempts.
const BACKOFF: Backoff = Backoff::Spread {
    min: Duration::from_millis(50),
    max: Duration::from_millis(100),
    cap: Duration::from_secs(2),
};
/// A session that lasted so long was a good one: the pauses start again.
const GOOD: Duration = Duration::from_secs(5);

/// How long a proxy may take to connect: one of Tor builds a circuit first.
const PROXY_PATIENCE: Duration = Duration::from_secs(60);

/// How long another process may keep this node's sessions: longer than a drain safely takes. One that has ended and was not
/// reaped by whoever started it counts as alive.
pub(crate) const HELD_FOR: Duration = Duration::from_secs(8);
/// How often it is looked whether it does.
pub(crate) const HELD_LOOK: Duration = Duration::from_millis(20);

/// The dialers of a node.
pub(crate) struct Dialers {
    shared: Arc<Shared>,
    children: Children,
    resolver: Resolver,
    held_elsewhere: Option<IsHeldElsewhere>,
    /// How each is told to stop.
    running: Ranked<HashMap<String, Arc<Ending>>>,
}

impl fmt::Debug for Dialers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Dialers").field("running", &self.running).finish_non_exhaustive()
    }
}

impl Dialers {
    pub(crate) fn new(scope: &Scope, shared: &Arc<Shared>, held_elsewhere: Option<IsHeldElsewhere>) -> Self {
        Self {
            shared: Arc::clone(shared),
            children: scope.children(&DIALER),
            resolver: Resolver::new(scope),
            held_elsewhere,
            running: scope.lock(&CFG_SNAPSHOT, HashMap::new()),
        }
    }

    /// Dials these peers from now on, and no others.
    pub(crate) fn follow(&self, peers: &[PeerAddr]) {
        let mut running = self.running.lock();
        running.retain(|name, stop| {
            let stays = peers.iter().any(|peer| peer.to_string() == *name);
            if !stays {
                stop.say(CloseReason::Removed);
            }
            stays
        });
        for peer in peers {
            let stop = running.entry(peer.to_string());
            if let std::collections::hash_map::Entry::Vacant(vacant) = stop {
                let stop = Arc::clone(vacant.insert(Arc::default()));
                self.start(peer.clone(), stop);
            }
        }
    }

    fn start(&self, peer: PeerAddr, stop: Arc<Ending>) {
        let (shared, resolver) = (Arc::clone(&self.shared), self.resolver.clone());
        let held_elsewhere = self.held_elsewhere.clone();
        let seat = shared.scope.planes().seat();
        let core = Arc::clone(seat.core());
        self.children.spawn_on(&core, async move {
            let _seat = seat;
            let work = async {
                if let Some(is_held) = held_elsewhere {
                    wait_while(&shared, &stop, &*is_held).await;
                }
                keep(&shared, &resolver, &peer, &stop).await;
            };
            tokio::pin!(work);
            let draining = shared.scope.shutdown().reached(Stage::Writers);
            tokio::select! {
                biased;
                () = &mut work => {}
                // Sessions end by themselves then; only what has not become one is let go.
                () = draining => {
                    let clock = shared.clock;
                    let _ = clock.by(clock.within(session::LINGER * 2), work).await;
                }
            }
        });
    }
}

/// Waits until another process has let go of this node's sessions, but not for ever.
async fn wait_while(shared: &Shared, stop: &Ending, is_held: &(dyn Fn() -> bool + Send + Sync)) {
    let end = shared.clock.within(HELD_FOR);
    while is_held() && !end.has_passed(shared.clock.now()) {
        tokio::select! {
            biased;
            _ = stop.heard() => return,
            () = shared.scope.shutdown().reached(Stage::Intake) => return,
            () = tokio::time::sleep(HELD_LOOK) => {}
        }
    }
}

/// Keeps a session with `peer` until told to stop.
async fn keep(shared: &Arc<Shared>, resolver: &Resolver, peer: &PeerAddr, stop: &Ending) {
    let retries = shared.scope.metrics().retries("dial");
    let (mut attempt, mut rng) = (0, fastrand::Rng::new());
    let intake = || shared.scope.shutdown().reached(Stage::Intake);
    loop {
        if let Some(id) = &peer.id {
            tokio::select! {
                biased;
                _ = stop.heard() => return,
                () = intake() => return,
                () = shared.peers.absent(id) => {}
            }
        }
        let began = shared.clock.now();
        attempt_once(shared, resolver, peer, attempt, stop).await;
        attempt = if shared.clock.now().since(began) >= GOOD { 0 } else { attempt + 1 };
        let pause = BACKOFF.delay(attempt, &mut rng);
        tokio::select! {
            biased;
            _ = stop.heard() => return,
            () = intake() => return,
            () = tokio::time::sleep(pause) => {}
        }
        retries.inc();
    }
}

/// Dials once, and sees the session, if there is one, to its end.
async fn attempt_once(
    shared: &Arc<Shared>,
    resolver: &Resolver,
    peer: &PeerAddr,
    attempt: u32,
    stop: &Ending,
) {
    let link = tokio::select! {
        biased;
        _ = stop.heard() => return,
        () = shared.scope.shutdown().reached(Stage::Intake) => return,
        reached = reach(shared, resolver, peer, attempt) => match reached {
            Ok(link) => link,
            Err(error) => return tracing::debug!(%peer, %error, "a peer cannot be reached"),
        },
    };
    let place = peer.to_string();
    let began = Began::Here { expected: peer.id, place: place.clone() };
    let session = session::run(shared, link, began, None);
    tokio::pin!(session);
    let outcome = tokio::select! {
        biased;
        outcome = &mut session => outcome,
        _ = stop.heard() => {
            for (_, conn) in shared.peers.all() {
                if conn.dialled && conn.place == place {
                    conn.close(CloseReason::Removed);
                }
            }
            session.await
        }
    };
    if let Err(error) = outcome {
        tracing::info!(%peer, "no session: {error}");
    }
}

/// What a session with `peer` can be made of. Over QUIC each attempt is for the next address of its name.
#[cfg_attr(not(feature = "quic"), expect(unused_variables, reason = "TCP tries all addresses at once"))]
async fn reach(
    shared: &Shared,
    resolver: &Resolver,
    peer: &PeerAddr,
    attempt: u32,
) -> Result<Link, DialError> {
    let timeout = shared.settings.load().handshake;
    #[cfg(feature = "quic")]
    if peer.transport == Transport::Quic {
        let addresses = resolve(&peer.endpoint, resolver, timeout).await?;
        let turn = attempt as usize % addresses.len().max(1);
        return Ok(Link::Quic(QuicLink::To(addresses[turn])));
    }
    let dialled = match &shared.settings.load_full().proxy {
        None => dial(&peer.endpoint, resolver, timeout).await,
        Some(proxy) => dial_through(proxy, &peer.endpoint, resolver, PROXY_PATIENCE).await,
    };
    dialled.map(Link::Socket)
}
