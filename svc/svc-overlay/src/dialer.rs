//! Dialling: one task per peer in the configuration, which keeps a session with it.

use std::{collections::HashMap, sync::Arc, time::Duration};

use ron_kernel::{
    Scope,
    lock::Ranked,
    retry::Backoff,
    supervisor::Children,
    topology::{ChildSpec, LockSpec, Plane, Stage},
};
use ron_transport::{dial::dial, resolve::Resolver};

use crate::{
    PeerAddr,
    session::{self, Began, CloseReason, Ending},
    shared::Shared,
};

/// Keeps a session with one peer.
pub(crate) const DIALER: ChildSpec = ChildSpec {
    kind: "dialer",
    plane: Plane::Data,
    stop: Stage::Writers,
    bound: "one for each of `peers`",
    doc: "dials a peer, supervises the session, and dials again after a pause that doubles from 50-100 ms to 2 s",
};

/// The dialers' lock.
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
/// A session that lasted so long was a good one: the pauses begin anew.
const GOOD: Duration = Duration::from_secs(5);

/// The dialers of a node.
#[derive(Debug)]
pub(crate) struct Dialers {
    shared: Arc<Shared>,
    children: Children,
    resolver: Resolver,
    /// How each is told to stop.
    running: Ranked<HashMap<String, Arc<Ending>>>,
}

impl Dialers {
    pub(crate) fn new(scope: &Scope, shared: &Arc<Shared>) -> Self {
        Self {
            shared: Arc::clone(shared),
            children: scope.children(&DIALER),
            resolver: Resolver::new(scope),
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
        let seat = shared.scope.planes().seat();
        let core = Arc::clone(seat.core());
        self.children.spawn_on(&core, async move {
            let _seat = seat;
            let work = keep(&shared, &resolver, &peer, &stop);
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
        attempt_once(shared, resolver, peer, stop).await;
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
async fn attempt_once(shared: &Arc<Shared>, resolver: &Resolver, peer: &PeerAddr, stop: &Ending) {
    let timeout = shared.settings.load().handshake;
    let stream = tokio::select! {
        biased;
        _ = stop.heard() => return,
        () = shared.scope.shutdown().reached(Stage::Intake) => return,
        dialled = dial(&peer.endpoint, resolver, timeout) => match dialled {
            Ok(stream) => stream,
            Err(error) => return tracing::debug!(%peer, %error, "a peer cannot be reached"),
        },
    };
    let place = peer.to_string();
    let began = Began::Here { expected: peer.id, place: place.clone() };
    let session = session::run(shared, stream, began, None);
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
