//! The accept loop of a server: one socket at a time, exchanged live, closed without resets.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use ron_kernel::{
    supervisor::{TaskCtx, TaskFault, TaskResult},
    topology::Stage,
};
use tokio::time::Instant;

use super::{
    connection::{self, Accepted},
    server::Shared,
    spare,
};
use crate::{
    caps::ClientKey,
    descriptors,
    listen::{AcceptFault, Listener},
    service::Service,
    stream::{Peer, RawStream},
};

/// How long to leave the backlog alone when the system is out of descriptors or memory.
const OUT_OF_RESOURCES: Duration = Duration::from_millis(50);

/// How long a connection of a client that is turned away is left open, unread. A client that waits for its end before it
/// opens the next cannot make accepting and closing its only work.
const TARPIT_TIME: Duration = Duration::from_secs(1);
/// Connections that are left open like that, and no more than an eighth of the files that the process may open; beyond them,
/// the oldest is closed. The system keeps up to a receive window of unread bytes for each, 64 KiB at first.
const TARPIT_SIZE: usize = 1024;

/// Connections of clients that are turned away. Dropping a connection closes it.
struct Tarpit {
    /// Oldest first, each with the moment at which it is closed.
    held: VecDeque<(Instant, RawStream)>,
    /// How many are held at most.
    size: usize,
}

impl Tarpit {
    const fn new(size: usize) -> Self {
        Self { held: VecDeque::new(), size }
    }

    fn hold(&mut self, stream: RawStream) {
        if self.held.len() >= self.size {
            self.held.pop_front();
        }
        self.held.push_back((Instant::now() + TARPIT_TIME, stream));
    }

    /// Closes the oldest connection when its time is over. Never ends if there is none.
    ///
    /// Cancel safe: a connection is taken only in the moment in which it is closed.
    async fn release(&mut self) {
        match self.held.front() {
            Some((until, _)) => tokio::time::sleep_until(*until).await,
            None => std::future::pending().await,
        }
        self.held.pop_front();
    }
}

/// Resolves when no more connections are to be accepted: at the task's own stage, or as soon as the node drains if another
/// process accepts from the same socket, because that one has all of its services.
///
/// Cancel safe.
async fn stopping(ctx: &TaskCtx) {
    let shutdown = ctx.scope.shutdown();
    tokio::select! {
        () = ctx.stopping() => {}
        () = shutdown.reached(Stage::Intake) => if !shutdown.has_successor() { ctx.stopping().await },
    }
}

/// Accepts until the node stops taking in work.
pub(super) async fn run<S: Service>(server: Arc<Shared<S>>, ctx: TaskCtx) -> TaskResult {
    // Half as many as a listener may have connections, which these are not counted among.
    let mut tarpit = Tarpit::new((descriptors::share(2 * TARPIT_SIZE) / 2).max(1));
    // The socket is gone if this task stopped in good order before.
    while let Some(listener) = server.listening() {
        let accepted = tokio::select! {
            () = stopping(&ctx) => {
                drop(listener);
                retire(&server, server.stop_listening());
                return Ok(());
            }
            () = server.changed.notified() => {
                drop(listener);
                retire(&server, server.take_replaced());
                continue;
            }
            () = tarpit.release() => continue,
            accepted = listener.accept() => accepted,
        };
        match accepted {
            Ok((stream, peer)) if turns_away(&server, &peer) => tarpit.hold(stream),
            Ok((stream, peer)) => admit(&server, stream, peer),
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

/// Closes listening sockets; connections in the backlog are still served.
fn retire<S: Service>(server: &Arc<Shared<S>>, listeners: Vec<Arc<Listener>>) {
    for listener in listeners {
        let waiting = match Arc::try_unwrap(listener) {
            Ok(listener) => listener.close(),
            Err(shared) => shared.drain_backlog(usize::from(crate::listen::BACKLOG)),
        };
        for (stream, peer) in waiting {
            if !turns_away(server, &peer) {
                admit(server, stream, peer);
            }
        }
    }
}

/// Whether the service wants nothing of this client now. A proxy that names its client is heard first.
fn turns_away<S: Service>(server: &Shared<S>, peer: &Peer) -> bool {
    !server.proxy_protocol.load().trusts(peer) && server.turns_away(peer)
}

/// Applies the caps and places the connection on a core.
fn admit<S: Service>(server: &Arc<Shared<S>>, stream: RawStream, peer: Peer) {
    // Decided once: a permit on a proxy's account must be booked on a client's later.
    let proxied = server.proxy_protocol.load().trusts(&peer);
    let client = if proxied { ClientKey::TrustedProxy } else { server.account_of(&peer) };
    let (mut permit, spare) = match server.caps.try_admit(client) {
        Ok(permit) => (permit, None),
        Err(cap) => match server.spare.try_admit(client) {
            Some((permit, spare)) => (permit, Some(spare)),
            None => return server.count_refused(&cap),
        },
    };
    let seat = server.workers.seat(server.scope.planes());
    let core = Arc::clone(seat.core());
    // Before its task has run: a crowd that is only just accepted must not keep others out.
    let given_away = permit.give_way();
    let accepted = Accepted { stream, peer, proxied, permit, given_away, spare: spare.is_some(), seat };
    let server = Arc::clone(server);
    let (workers, connections) = (&server.workers, &server.connections);
    match spare {
        None => workers.place(connections, &core, connection::run(Arc::clone(&server), accepted)),
        Some(spare) => workers.place(connections, &core, spare::run(Arc::clone(&server), accepted, spare)),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::{io::Read, os::unix::net::UnixStream};

    use super::*;

    /// Whether the other end has been closed.
    fn is_closed(mut client: &UnixStream) -> bool {
        client.read(&mut [0]).is_ok_and(|bytes| bytes == 0)
    }

    fn turned_away(tarpit: &mut Tarpit) -> UnixStream {
        let (client, server) = UnixStream::pair().unwrap();
        client.set_nonblocking(true).unwrap();
        tarpit.hold(RawStream::Unix(server));
        client
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_is_turned_away_waits_for_the_end_of_its_connection() {
        let mut tarpit = Tarpit::new(1);
        let client = turned_away(&mut tarpit);
        assert!(tokio::time::timeout(TARPIT_TIME / 2, tarpit.release()).await.is_err());
        assert!(!is_closed(&client));
        tarpit.release().await;
        assert!(is_closed(&client));
        assert!(tokio::time::timeout(TARPIT_TIME * 2, tarpit.release()).await.is_err(), "none is left");
    }

    #[tokio::test(start_paused = true)]
    async fn the_oldest_makes_room_when_too_many_are_turned_away() {
        let mut tarpit = Tarpit::new(3);
        let clients: Vec<UnixStream> = (0..4).map(|_| turned_away(&mut tarpit)).collect();
        let closed: Vec<bool> = clients.iter().map(is_closed).collect();
        assert_eq!(closed, [true, false, false, false]);
    }
}
