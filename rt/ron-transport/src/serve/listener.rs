//! The accept loop of a server: one socket at a time, exchanged live, closed without resets.

use std::{sync::Arc, time::Duration};

use ron_kernel::{
    supervisor::{TaskCtx, TaskFault, TaskResult},
    topology::Stage,
};

use super::{
    connection::{self, Accepted},
    server::Shared,
    spare,
};
use crate::{
    caps::ClientKey,
    listen::{AcceptFault, Listener},
    service::Service,
    stream::{Peer, RawStream},
};

/// How long to leave the backlog alone when the system is out of descriptors or memory.
const OUT_OF_RESOURCES: Duration = Duration::from_millis(50);

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
            accepted = listener.accept() => accepted,
        };
        match accepted {
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

/// Closes listening sockets; whoever waited in a backlog is still served.
fn retire<S: Service>(server: &Arc<Shared<S>>, listeners: Vec<Arc<Listener>>) {
    for listener in listeners {
        let waiting = match Arc::try_unwrap(listener) {
            Ok(listener) => listener.close(),
            Err(shared) => shared.drain_backlog(usize::from(crate::listen::BACKLOG)),
        };
        for (stream, peer) in waiting {
            admit(server, stream, peer);
        }
    }
}

/// Applies the caps and places the connection on a core.
fn admit<S: Service>(server: &Arc<Shared<S>>, stream: RawStream, peer: Peer) {
    // Decided once: a permit on a proxy's account must be booked on a client's later.
    let proxied = server.proxy_protocol.load().trusts(&peer);
    let client = if proxied { ClientKey::TrustedProxy } else { ClientKey::of(&peer) };
    if !proxied && server.services.first().is_some_and(|service| service.turns_away(&peer)) {
        return server.count_turned_away();
    }
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
