//! The server behind the gateway: a fixed number of slots, each taken for a fixed time. Its capacity is slots, not CPU.

use std::{sync::Arc, time::Duration};

use ron_transport::{Body, Conn, Request, Response, Service};
use tokio::sync::Semaphore;
use types::{Reason, Refusal};

/// The length of the answer to `/big`: more than the buffers on the way hold.
const BIG: usize = 1 << 20;

/// How long requests to `/slow` take: beyond what counts as slow.
pub(super) const SLOW: Duration = Duration::from_millis(300);

/// The sleeping server's handler.
#[derive(Clone, Debug)]
pub(super) struct Sleeper {
    slots: Arc<Semaphore>,
    service_time: Duration,
}

impl Sleeper {
    pub(super) fn new(slots: usize, service_time: Duration) -> Self {
        Self { slots: Arc::new(Semaphore::new(slots)), service_time }
    }
}

impl Service for Sleeper {
    type PerConn = ();

    async fn call(&self, _: &Arc<Conn<()>>, request: Request) -> Result<Response, Refusal> {
        let slot = Arc::clone(&self.slots).acquire_owned().await;
        let slot = slot.map_err(|_| Refusal::from(Reason::Draining))?;
        let is_slow = request.uri().path() == "/slow";
        tokio::time::sleep(if is_slow { SLOW } else { self.service_time }).await;
        let body = if request.uri().path() == "/big" { Body::from(vec_of(BIG)) } else { Body::from("ok\n") };
        Ok(Response::new(body.holding(slot)))
    }
}

fn vec_of(len: usize) -> bytes::Bytes {
    bytes::Bytes::from(vec![b'.'; len])
}
