//! Objects over sessions: streams that peers open are served, streams of our own ask for objects and hand them over.
//!
//! ```text
//! reader ─▶ object_stream ─▶ serve: store ─▶ DATA with proofs ─▶ outbox, bulk lane
//!                         ─▶ fetch: checked against the name ─▶ whoever asked, and the store
//! ```
//!
//! Nothing is passed on or stored that was not checked; a peer that sends wrong bytes has its stream reset, and is counted.

mod api;
mod error;
mod fetch;
mod line;
mod metrics;
mod serve;
mod store;
mod unfinished;

use std::{collections::HashMap, sync::Arc};

use cas::Cas;
use oap::{ErrorCode, Fault, Frame, Incoming, Message, Start};
use ron_kernel::{Scope, lock::Ranked, queue::SendError, supervisor::Children};
use tokio::sync::Semaphore;
use topics::has_share;

pub use api::{Object, ObjectReader, ObjectStore, Upload};
pub use error::ObjectError;
pub(crate) use line::OBJECT_STREAM;
pub(crate) use metrics::{OBJECT_BYTES, OBJECTS_TOTAL};
pub(crate) use serve::STREAM;
pub(crate) use store::open;

use crate::{ObjectsConfig, locks, session::Conn};
use line::{Ear, Line, Told};
use metrics::ObjectMetrics;
use store::Store;
use unfinished::Unfinished;

/// The object streams of all sessions.
#[derive(Debug)]
pub(crate) struct Objects {
    store: Store,
    metrics: ObjectMetrics,
    /// Who hears what is said on which stream of which session. Nothing else is locked under it.
    ears: Ranked<HashMap<(u64, u32), Ear>>,
    /// Places for streams that peers open.
    places: Arc<Semaphore>,
    /// What peers have begun to hand over.
    unfinished: Arc<Unfinished>,
    serving: Children,
}

impl Objects {
    /// The streams of a store that may hold `capacity` bytes.
    pub(crate) fn new(scope: &Scope, config: &ObjectsConfig, cas: Cas, capacity: u64) -> Self {
        Self {
            store: Store::new(cas, scope.blocking()),
            metrics: ObjectMetrics::new(scope),
            ears: Ranked::new(&locks::TRANSFERS, HashMap::new()),
            places: Arc::new(Semaphore::new(config.streams)),
            unfinished: Unfinished::new(capacity),
            serving: scope.children(&STREAM),
        }
    }

    /// Something was said on a stream.
    pub(crate) fn receive(&self, conn: &Arc<Conn>, incoming: Incoming) {
        match incoming {
            Incoming::Start { stream, start } => self.serve(conn, stream, start),
            Incoming::Refuse { stream, code } => refuse(conn, stream, Fault::new(code, refusal(code))),
            Incoming::Data { stream, data } => self.tell(conn, stream, Told::Data(data)),
            Incoming::End { stream } => self.tell(conn, stream, Told::End),
            Incoming::Credit { stream } => self.tell(conn, stream, Told::Credit),
            Incoming::Reset { stream, fault } => self.over(conn, stream, fault),
            _ => {}
        }
    }

    /// The peer asks for too much at the moment: the stream it has opened is refused.
    pub(crate) fn refuse(&self, conn: &Conn, stream: u32, retry_after_ms: u32) {
        let fault = Fault::new(ErrorCode::Quota, "more frames than the rate told in HELLO");
        refuse(conn, stream, fault.retry_after_ms(retry_after_ms));
    }

    /// The peer goes away and does not serve these streams of ours.
    pub(crate) fn closed(&self, conn: &Arc<Conn>, streams: &[u32], code: ErrorCode) {
        for stream in streams {
            self.over(conn, *stream, Fault::new(code, "the peer goes away"));
        }
    }

    /// The session has ended, and all its streams with it.
    pub(crate) fn gone(&self, conn: &Arc<Conn>) {
        self.ears.lock().retain(|(number, _), _| *number != conn.number);
    }

    /// Opens a stream of ours.
    fn open_line(&self, conn: &Arc<Conn>, start: Start) -> Result<Line, ObjectError> {
        let opened = conn.with_session(|session| session.streams().map(|all| all.open(&start)));
        let number = opened.ok_or(ObjectError::Broken)??;
        let line = self.listen(conn, number);
        // Whoever ended the session before now has not seen the ear.
        if conn.ending.reason().is_some() {
            return Err(ObjectError::Broken);
        }
        conn.control(&Frame::on(number, Message::Start(start)));
        Ok(line)
    }

    fn serve(&self, conn: &Arc<Conn>, stream: u32, start: Start) {
        // The new stream is open already.
        let opened = conn.with_session(|session| session.streams().map_or(0, |all| all.opened_there()));
        let may_take = has_place(opened.saturating_sub(1), self.places.available_permits());
        let place = may_take.then(|| Arc::clone(&self.places).try_acquire_owned().ok()).flatten();
        let Some(place) = place else {
            conn.shared().metrics.rejected("busy");
            let fault = Fault::new(ErrorCode::Busy, "too many objects are under way");
            return refuse(conn, stream, fault.retry_after_ms(serve::COME_BACK_MS));
        };
        let line = self.listen(conn, stream);
        self.serving.spawn(async move {
            let _place = place;
            Box::pin(serve::serve(line, start)).await;
        });
    }

    fn listen(&self, conn: &Arc<Conn>, stream: u32) -> Line {
        let (line, ear) = Line::new(conn, stream);
        self.ears.lock().insert((conn.number, stream), ear);
        line
    }

    fn tell(&self, conn: &Conn, stream: u32, told: Told) {
        let queue = self.ears.lock().get(&(conn.number, stream)).map(|ear| ear.queue.clone());
        let Some(queue) = queue else { return };
        match queue.try_send(told) {
            // Who has something to hear looks at its credit anyway.
            Ok(()) | Err(SendError::Busy(Told::Credit) | SendError::Closed(_)) => {}
            Err(SendError::Busy(_)) => {
                conn.shared().metrics.rejected("limit");
                let fault = Fault::new(ErrorCode::Limit, "too many frames for their credit");
                self.over(conn, stream, fault.clone());
                refuse(conn, stream, fault);
            }
        }
    }

    /// The stream is over; its owner hears why after all that was said before.
    fn over(&self, conn: &Conn, stream: u32, fault: Fault) {
        let ear = self.ears.lock().remove(&(conn.number, stream));
        if let Some(ear) = ear {
            // The first reason stands.
            let _ = ear.fate.set(fault);
        }
    }

    fn forget(&self, conn: u64, stream: u32) {
        self.ears.lock().remove(&(conn, stream));
    }
}

/// Whether a peer that has opened so many streams may open another while `free` places are left. The last place is for peers that
/// have none.
const fn has_place(opened: usize, free: usize) -> bool {
    has_share(opened, free) && (opened == 0 || free > 1)
}

/// What a peer is told whose stream the session's rules refuse.
const fn refusal(code: ErrorCode) -> &'static str {
    match code {
        ErrorCode::Limit => "more streams than HELLO allows",
        ErrorCode::Draining => "the node stops",
        _ => "objects were not agreed on",
    }
}

fn refuse(conn: &Conn, stream: u32, fault: Fault) {
    conn.with_session(|session| session.streams().map(|all| all.reset(stream)));
    conn.control(&Frame::on(stream, Message::Error(fault)));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_few_places_there_are_one_peer_does_not_take_them_all() {
        for places in 2..200 {
            let (mut opened, mut free) = (0, places);
            while has_place(opened, free) {
                (opened, free) = (opened + 1, free - 1);
            }
            assert!(opened > 0 && free > 0 && has_place(0, free), "{opened} of {places}");
        }
        assert!(has_place(0, 1) && !has_place(0, 0));
    }
}
