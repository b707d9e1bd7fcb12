//! An object that is sent while it is fetched: what those who send it follow, and what the worker that fetches it tells them.
//!
//! Everybody reads the spool at their own pace, checked as everything that is read from a disk, so nobody slows the fill or
//! anybody else. The end is told only when the whole object has been checked and stored; a fill that fails is told by letting go.

use std::{
    ops::Range,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use cas::{ReadError, Tail};
use tokio::sync::watch;
use types::ObjectId;

use super::{
    Entry,
    entry::{Filled, Landed},
    worker::Job,
};

/// Objects up to this length are stored before they are served, whatever is configured.
pub(super) const STREAMED_OVER: u64 = 1024 * 1024;

/// The fill failed, or the object is not what it was announced to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the fill broke off")]
pub struct BrokenOff;

/// The progress of a fill.
#[derive(Clone, Copy, Debug, Default)]
struct Progress {
    /// Bytes that can be read.
    available: u64,
    /// Whether that is all, checked and stored.
    whole: bool,
}

/// An object that is sent while it is fetched.
#[derive(Debug)]
pub struct StreamingFill {
    /// What the origin said of the object. Its name and its length are not known yet.
    pub(crate) head: Entry,
    /// Its length in bytes, if the origin told it.
    pub(crate) len: Option<u64>,
    /// The name that its bytes will have, or it breaks off; `None` if nobody told it.
    pub(crate) expected: Option<ObjectId>,
    tail: Tail,
    progress: watch::Receiver<Progress>,
}

impl StreamingFill {
    /// Waits until bytes behind `at` can be sent, and says up to where. That is `at` itself at the end of the object, or at
    /// `end` if only what is before it is wanted. The last byte can be sent only once the object is whole: whoever gets it
    /// takes what it got for good.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// The fill has failed, and nothing more is to be sent.
    pub(crate) async fn sendable(&self, at: u64, end: Option<u64>) -> Result<u64, BrokenOff> {
        let mut progress = self.progress.clone();
        loop {
            let Progress { available, whole } = *progress.borrow_and_update();
            if whole {
                return Ok(end.map_or(available, |end| end.min(available)));
            }
            // Not a byte more of what is known to be wrong.
            progress.has_changed().map_err(|_gone| BrokenOff)?;
            let sendable = end.map_or(available, |end| available.min(end.saturating_sub(1)));
            if sendable > at {
                return Ok(sendable);
            }
            progress.changed().await.map_err(|_gone| BrokenOff)?;
        }
    }

    /// Reads bytes that are there. Blocking.
    ///
    /// # Errors
    /// They are not what was received, or cannot be read.
    pub(crate) fn read(&self, range: Range<u64>) -> Result<Bytes, ReadError> {
        self.tail.read(range)
    }
}

/// What the worker has in hand of an object that is being sent. Dropped before the end, it breaks off whatever is being sent.
#[derive(Debug)]
pub(super) struct StreamSource {
    tail: Tail,
    /// What the flight has, and each who sends it.
    sent: Weak<StreamingFill>,
    progress: watch::Sender<Progress>,
}

impl StreamSource {
    /// Gives those who asked for an object what there is of it, and what comes.
    pub(super) fn begin(job: &Job, announced: &Announced, tail: Tail) -> Self {
        let (progress, followed) = watch::channel(Progress { available: tail.len(), whole: false });
        let Announced { head, len, expected } = announced.clone();
        let fill = Arc::new(StreamingFill { head, len, expected, tail: tail.clone(), progress: followed });
        let sent = Arc::downgrade(&fill);
        job.flight.tell(Landed::asked(Ok(Filled::Streaming(fill))));
        Self { tail, sent, progress }
    }

    /// Whether it is being sent to anybody.
    pub(super) fn is_read(&self) -> bool {
        // The flight has one, for those who come.
        self.sent.strong_count() > 1
    }

    /// Records that more bytes have arrived.
    pub(super) fn grew(&self) {
        self.progress.send_replace(Progress { available: self.tail.len(), whole: false });
    }

    /// The object is whole, checked and stored.
    pub(super) fn end(self) {
        self.progress.send_replace(Progress { available: self.tail.len(), whole: true });
    }
}

/// What the head of an answer says of an object.
#[derive(Clone, Debug)]
pub(super) struct Announced {
    pub(super) head: Entry,
    pub(super) len: Option<u64>,
    pub(super) expected: Option<ObjectId>,
}
