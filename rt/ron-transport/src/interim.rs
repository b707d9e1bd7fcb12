//! Interim responses (1xx) of servers on their way to a client of HTTP/1.1, before the answer to its request.
//!
//! Whoever forwards a request takes an [`Interim`] from the request's connection and hands in what the server sends. The
//! connection writes it when it has the time, and not once the answer has begun. What is too much is left out: an interim
//! response is a hint. Clients of HTTP/1.0 must not be sent any, and clients of HTTP/2 are not, because the library that
//! serves them cannot send any.

use std::{
    fmt,
    sync::{
        Arc, OnceLock,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    task::Waker,
};

use http::{HeaderMap, StatusCode, header};
use ron_kernel::lock::Ranked;

use crate::{client::MAX_INTERIM, h1::outbox::put, locks};

/// The most bytes of interim responses that one request gets.
const MAX_BYTES: usize = 16 * 1024;

/// Passes interim responses on to the client of one request.
#[derive(Clone, Debug)]
pub struct Interim {
    queue: Arc<InterimQueue>,
    request: u64,
}

impl Interim {
    /// Has an interim response sent, unless the answer has begun or the client was sent as many as it may get. Not 100,
    /// which the connection sends itself, and 101, which is an answer.
    pub fn pass(&self, status: StatusCode, headers: &HeaderMap) {
        let is_ours = matches!(status, StatusCode::CONTINUE | StatusCode::SWITCHING_PROTOCOLS);
        if status.is_informational() && !is_ours {
            self.queue.add(self.request, status, headers);
        }
    }
}

/// What a connection is to send before the answer to its present request.
pub(crate) struct InterimQueue {
    /// The number of the present request. Those before it have been answered.
    present: AtomicU64,
    has_some: AtomicBool,
    /// Locked for a few instructions.
    pending: Ranked<Pending>,
}

impl Default for InterimQueue {
    fn default() -> Self {
        Self {
            present: AtomicU64::new(0),
            has_some: AtomicBool::new(false),
            pending: Ranked::new(&locks::INTERIM, Pending::default()),
        }
    }
}

#[derive(Default)]
struct Pending {
    /// The request for which they are.
    request: u64,
    /// How many the request has got.
    heads: usize,
    /// Total size of the forwarded interim responses in bytes.
    taken: usize,
    bytes: Vec<u8>,
    /// The task of the connection.
    waker: Option<Waker>,
}

impl InterimQueue {
    fn add(&self, request: u64, status: StatusCode, headers: &HeaderMap) {
        let mut pending = self.pending.lock();
        if self.present.load(Ordering::Acquire) != request {
            return;
        }
        if pending.request != request {
            let waker = pending.waker.take();
            *pending = Pending { request, waker, ..Pending::default() };
        }
        let before = pending.bytes.len();
        if pending.heads == MAX_INTERIM {
            return;
        }
        write(status, headers, &mut pending.bytes);
        let length = pending.bytes.len() - before;
        if pending.taken + length > MAX_BYTES {
            pending.bytes.truncate(before);
            return;
        }
        pending.heads += 1;
        pending.taken += length;
        self.has_some.store(true, Ordering::Release);
        let waker = pending.waker.take();
        drop(pending);
        waker.iter().for_each(Waker::wake_by_ref);
    }

    /// What is to be sent before the answer to the present request, if there is anything new. The task is woken when there
    /// is more.
    pub(crate) fn take(&self, waker: &Waker) -> Option<Vec<u8>> {
        let mut pending = self.pending.lock();
        if pending.waker.as_ref().is_none_or(|known| !known.will_wake(waker)) {
            pending.waker = Some(waker.clone());
        }
        drop(pending);
        self.take_for(self.present.load(Ordering::Relaxed))
    }

    /// The same for the last time: the answer begins.
    pub(crate) fn answered(&self) -> Option<Vec<u8>> {
        let request = self.present.fetch_add(1, Ordering::AcqRel);
        self.take_for(request)
    }

    fn take_for(&self, request: u64) -> Option<Vec<u8>> {
        if !self.has_some.load(Ordering::Acquire) {
            return None;
        }
        let mut pending = self.pending.lock();
        self.has_some.store(false, Ordering::Relaxed);
        let bytes = std::mem::take(&mut pending.bytes);
        // What was handed in too late for the request before is for nobody.
        (pending.request == request && !bytes.is_empty()).then_some(bytes)
    }
}

/// Writes the head of an interim response. It has no content, so that nothing may say how long that is.
fn write(status: StatusCode, headers: &HeaderMap, out: &mut Vec<u8>) {
    let reason = status.canonical_reason().unwrap_or_default();
    put(out, &[b"HTTP/1.1 ", status.as_str().as_bytes(), b" ", reason.as_bytes(), b"\r\n"]);
    let frames = [header::CONNECTION, header::CONTENT_LENGTH, header::TRANSFER_ENCODING, header::UPGRADE];
    for (name, value) in headers.iter().filter(|(name, _)| !frames.contains(name)) {
        put(out, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
    }
    put(out, &[b"\r\n"]);
}

/// The queue of a connection, once somebody has asked for it.
#[derive(Debug, Default)]
pub(crate) struct InterimSlot(OnceLock<Arc<InterimQueue>>);

impl InterimSlot {
    /// Where interim responses to the present request go.
    pub(crate) fn present(&self) -> Interim {
        let queue = Arc::clone(self.0.get_or_init(Arc::default));
        let request = queue.present.load(Ordering::Acquire);
        Interim { queue, request }
    }

    pub(crate) fn queue(&self) -> Option<&InterimQueue> {
        self.0.get().map(|queue| &**queue)
    }
}

impl fmt::Debug for InterimQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("InterimQueue")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hints(value: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("link", value.parse().expect("a value"));
        headers.insert("content-length", 5.into());
        headers
    }

    fn text(bytes: Option<Vec<u8>>) -> Option<String> {
        bytes.map(|bytes| String::from_utf8(bytes).expect("text"))
    }

    #[test]
    fn what_comes_before_the_answer_is_sent_in_its_order_and_nothing_after_it() {
        let slot = InterimSlot::default();
        assert!(slot.queue().is_none());
        let interim = slot.present();
        let queue = slot.queue().expect("it was asked for");
        interim.pass(StatusCode::EARLY_HINTS, &hints("</a>"));
        interim.pass(StatusCode::PROCESSING, &HeaderMap::new());
        interim.pass(StatusCode::CONTINUE, &HeaderMap::new());
        interim.pass(StatusCode::SWITCHING_PROTOCOLS, &HeaderMap::new());
        interim.pass(StatusCode::OK, &HeaderMap::new());
        let expected = "HTTP/1.1 103 Early Hints\r\nlink: </a>\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n";
        assert_eq!(text(queue.take(Waker::noop())).as_deref(), Some(expected));
        assert_eq!(queue.take(Waker::noop()), None);
        interim.pass(StatusCode::PROCESSING, &HeaderMap::new());
        assert_eq!(text(queue.answered()).as_deref(), Some("HTTP/1.1 102 Processing\r\n\r\n"));
        interim.pass(StatusCode::PROCESSING, &HeaderMap::new());
        assert_eq!(queue.take(Waker::noop()), None, "the answer has begun");
        slot.present().pass(StatusCode::PROCESSING, &HeaderMap::new());
        assert!(queue.take(Waker::noop()).is_some(), "the next request");
    }

    #[test]
    fn a_request_gets_so_many_and_so_long() {
        let slot = InterimSlot::default();
        let interim = slot.present();
        let queue = slot.queue().expect("it was asked for");
        let mut got = String::new();
        for _ in 0..MAX_INTERIM + 1 {
            interim.pass(StatusCode::PROCESSING, &HeaderMap::new());
            got.extend(text(queue.take(Waker::noop())));
        }
        assert_eq!(got.matches("HTTP/1.1 102").count(), MAX_INTERIM);
        queue.answered();
        let interim = slot.present();
        interim.pass(StatusCode::EARLY_HINTS, &hints(&"x".repeat(MAX_BYTES)));
        assert_eq!(queue.take(Waker::noop()), None, "too long");
        interim.pass(StatusCode::EARLY_HINTS, &hints(&"x".repeat(MAX_BYTES / 2)));
        interim.pass(StatusCode::EARLY_HINTS, &hints(&"z".repeat(MAX_BYTES / 2)));
        let got = text(queue.take(Waker::noop())).expect("the first");
        assert!(got.contains('x') && !got.contains('z'));
    }
}
