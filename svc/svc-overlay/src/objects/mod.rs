//! Objects over sessions. None are served yet: whoever asks is told so.

use std::sync::Arc;

use oap::{ErrorCode, Fault, Frame, Incoming, Message};

use crate::session::Conn;

/// The object streams of all sessions.
#[derive(Debug, Default)]
pub(crate) struct Objects;

impl Objects {
    /// A frame of a stream has come.
    pub(crate) fn receive(&self, conn: &Arc<Conn>, incoming: Incoming) {
        let (Incoming::Start { stream, .. } | Incoming::Refuse { stream, .. }) = incoming else { return };
        conn.with_session(|session| session.streams().map(|streams| streams.reset(stream)));
        let fault = Fault::new(ErrorCode::Forbidden, "objects are not served here");
        conn.control(&Frame::on(stream, Message::Error(fault)));
    }

    /// The peer goes away and does not serve these streams of ours.
    pub(crate) fn closed(&self, _conn: &Arc<Conn>, _streams: &[u32], _code: ErrorCode) {}

    /// The session has ended, and all its streams with it.
    pub(crate) fn gone(&self, _conn: &Arc<Conn>) {}
}
