//! The task of an HTTP/2 connection to a server: moves frames, and finds out whether the server is still there.

use std::{pin::pin, sync::Arc};

use ::h2::{Ping, PingPong, client::Connection};
use bytes::Bytes;
use ron_kernel::Shutdown;
use tokio::{
    sync::Semaphore,
    time::{sleep, timeout},
};

use super::{H2_UPSTREAM, H2Options};
use crate::{
    client::counted::{Counted, Moves},
    frame_guard::Guarded,
};

/// Runs until the connection ends, its users are gone, its server is, or the node stops.
pub(super) async fn run(
    mut connection: Connection<Guarded<Counted>, Bytes>,
    moves: Moves,
    slots: Arc<Semaphore>,
    options: H2Options,
    shutdown: Shutdown,
) {
    let pings = connection.ping_pong();
    let idle = || slots.available_permits() == options.streams as usize;
    let silence = pin!(silence(pings, &moves, idle, &options));
    // Requests that are out when the node closes its connections are let finish.
    let closing = pin!(async {
        shutdown.reached(H2_UPSTREAM.stop).await;
        let _ = slots.acquire_many(options.streams).await;
    });
    tokio::select! {
        ended = connection => {
            if let Err(error) = ended {
                tracing::debug!(%error, "an HTTP/2 connection to a server broke off");
            }
        }
        () = silence => tracing::debug!("a server has not answered a ping: its connection closes"),
        () = closing => {}
    }
}

/// Resolves once the server owes an answer and does not even return a ping.
async fn silence(pings: Option<PingPong>, moves: &Moves, idle: impl Fn() -> bool, options: &H2Options) {
    let Some(mut pings) = pings else {
        return std::future::pending().await;
    };
    loop {
        let before = moves.reads();
        sleep(options.ping_every).await;
        if idle() || moves.reads() != before {
            continue;
        }
        match timeout(options.ping_timeout, pings.ping(Ping::opaque())).await {
            Ok(Ok(_)) => {}
            // The connection has ended, which it tells itself.
            Ok(Err(_)) => return std::future::pending().await,
            Err(_) => return,
        }
    }
}
