//! One end of a stream: what its peer says on it, and what is said to the peer.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use oap::{Data, ErrorCode, Fault, Frame, Message, SendError};
use ron_kernel::{
    queue::{Receiver, Sender},
    topology::{Policy, QueueSpec},
};

use super::store::AT_ONCE;
use crate::session::Conn;

/// What a stream's owner has not taken yet.
pub(crate) const OBJECT_STREAM: QueueSpec = QueueSpec {
    name: "object_stream",
    capacity: 64,
    policy: Policy::RejectNew,
    from: "reader",
    to: "object_stream",
    doc: "frames of one stream from a peer, within its credit; a stream with more frames is reset with limit",
};

/// What is heard on a stream.
#[derive(Debug)]
pub(super) enum Told {
    /// A piece of the object.
    Data(Data),
    /// All was sent, or all is stored.
    End,
    /// There is more credit.
    Credit,
}

/// Why a stream is over before its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Stop {
    /// The peer said so.
    Reset(Fault),
    /// The session has ended.
    Gone,
    /// Nothing was heard for too long.
    Silent,
}

/// What the reader of a session holds of a stream.
#[derive(Debug)]
pub(super) struct Ear {
    pub(super) queue: Sender<Told>,
    /// Why it is over, if the peer said so. Set before the ear goes.
    pub(super) fate: Arc<OnceLock<Fault>>,
}

/// A stream, as its owner holds it. Dropped before its end, the peer is told that it is not wanted any more.
#[derive(Debug)]
pub(super) struct Line {
    pub(super) conn: Arc<Conn>,
    pub(super) number: u32,
    inbox: Receiver<Told>,
    fate: Arc<OnceLock<Fault>>,
}

impl Line {
    /// A line and the ear that hears for it.
    pub(super) fn new(conn: &Arc<Conn>, number: u32) -> (Self, Ear) {
        let (queue, inbox) = conn.shared().scope.queue(&OBJECT_STREAM, "objects");
        let fate: Arc<OnceLock<Fault>> = Arc::default();
        let line = Self { conn: Arc::clone(conn), number, inbox, fate: Arc::clone(&fate) };
        (line, Ear { queue, fate })
    }

    /// What is heard next, if it is heard in time.
    ///
    /// Cancel safe.
    pub(super) async fn next(&mut self, patience: Duration) -> Result<Told, Stop> {
        let clock = self.conn.shared().clock;
        match clock.by(clock.within(patience), self.inbox.recv()).await {
            Some(Some(told)) => Ok(told),
            Some(None) => Err(self.fate.get().cloned().map_or(Stop::Gone, Stop::Reset)),
            None => {
                self.conn.shared().scope.metrics().io_timeouts("object").inc();
                Err(Stop::Silent)
            }
        }
    }

    /// The chunk, those that have come behind it, and whether the end has as well.
    pub(super) fn gather(&mut self, first: Data) -> (Vec<Data>, bool) {
        let mut chunks = vec![first];
        while chunks.len() < AT_ONCE {
            match self.inbox.try_recv() {
                Some(Told::Data(data)) => chunks.push(data),
                Some(Told::End) => return (chunks, true),
                Some(Told::Credit) => {}
                None => break,
            }
        }
        (chunks, false)
    }

    /// What was received has been used: the peer may send more.
    pub(super) fn used(&self, cost: u64) {
        let number = self.number;
        let credit = self.conn.with_session(|session| session.streams()?.used(number, cost));
        if let Some(credit) = credit {
            self.conn.control(&Frame::on(number, Message::Ack { credit }));
        }
    }

    /// Sends a chunk once there is credit for it and its turn has come.
    ///
    /// Not cancel safe: credit may have been taken for nothing; the stream is over then.
    pub(super) async fn send(&mut self, data: Data, patience: Duration) -> Result<(), Stop> {
        while !self.take_credit(data.cost())? {
            self.next(patience).await?;
        }
        self.bulk(Message::Data(data)).await
    }

    /// Says that all was sent, behind the last chunk.
    ///
    /// Not cancel safe: the end may not be said; the stream is over then.
    pub(super) async fn send_end(&mut self) -> Result<(), Stop> {
        self.end()?;
        self.bulk(Message::End).await
    }

    /// Says that what was offered is stored.
    pub(super) fn send_stored(&mut self) -> Result<(), Stop> {
        self.end()?;
        self.conn.control(&Frame::on(self.number, Message::End));
        Ok(())
    }

    /// Closes the stream, and says why.
    pub(super) fn reset(&self, fault: Fault) {
        let number = self.number;
        let was_open =
            self.conn.with_session(|session| session.streams().is_some_and(|all| all.reset(number)));
        if was_open {
            self.conn.control(&Frame::on(number, Message::Error(fault)));
        }
    }

    fn end(&self) -> Result<(), Stop> {
        let number = self.number;
        let sent = self.conn.with_session(|session| session.streams().map(|all| all.send_end(number)));
        if matches!(sent, Some(Ok(()))) { Ok(()) } else { Err(self.over()) }
    }

    fn take_credit(&self, cost: u64) -> Result<bool, Stop> {
        let number = self.number;
        let taken =
            self.conn.with_session(|session| session.streams().map(|all| all.send_data(number, cost)));
        match taken {
            Some(Ok(())) => Ok(true),
            Some(Err(SendError::Credit)) => Ok(false),
            Some(Err(SendError::Closed | SendError::Direction)) | None => Err(self.over()),
        }
    }

    fn over(&self) -> Stop {
        self.fate.get().cloned().map_or(Stop::Gone, Stop::Reset)
    }

    async fn bulk(&self, message: Message) -> Result<(), Stop> {
        let is_sent = self.conn.bulk(&Frame::on(self.number, message)).await;
        if is_sent { Ok(()) } else { Err(self.over()) }
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        self.conn.shared().objects.forget(self.conn.number, self.number);
        self.reset(Fault::new(ErrorCode::Cancelled, "not wanted any more"));
    }
}
