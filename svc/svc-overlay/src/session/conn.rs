//! One session with a peer, as its tasks and the rest of the node see it.

use std::{
    fmt,
    future::poll_fn,
    net::IpAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering::Relaxed},
    },
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use oap::{Agreed, ErrorCode, Fault, Frame, Goaway, Hello, Message, MessageId, Session};
use quota::Bucket;
use ron_kernel::lock::Ranked;
use ron_transport::tls::raw_key::PeerKey;
use tokio::sync::{Notify, Semaphore};
use types::{Moment, NodeId};

use super::{
    activity::Activity,
    close::{CloseReason, Ending},
    send_rate::SendRate,
};
use crate::{
    gossip::Pushed,
    locks,
    outbox::{Outbox, Parcel, Refused},
    shared::Shared,
    toll::Party,
};

/// A frame on its way out.
#[derive(Debug)]
pub(crate) struct OutFrame {
    /// Encoded; shared by all peers it goes to.
    pub(crate) bytes: Bytes,
    /// What the gossip engine wants to hear of when it was written or given up.
    pub(crate) pushed: Option<Pushed>,
    /// Its topic, as far as taking turns goes.
    pub(crate) flow: u64,
    /// Since when it waits.
    pub(crate) since: Moment,
}

impl Parcel for OutFrame {
    fn len(&self) -> usize {
        self.bytes.len()
    }

    fn flow(&self) -> u64 {
        self.flow
    }
}

/// What is known of a peer when its session begins.
#[derive(Debug)]
pub(crate) struct Greeted {
    pub(crate) session: Session,
    pub(crate) agreed: Agreed,
    pub(crate) peer: NodeId,
    pub(crate) topics: Vec<oap::Topic>,
    /// Whether this node dialled the peer.
    pub(crate) dialled: bool,
    /// The address of the peer.
    pub(crate) place: String,
    /// The group whose keys were exchanged; none without TLS.
    pub(crate) key_exchange: Option<&'static str>,
    /// The key the peer has proven; none without TLS.
    pub(crate) key: Option<PeerKey>,
    /// What let the peer in; absent if it is listed, or nobody has to be.
    pub(crate) admitted_by: Option<Admission>,
}

/// What let in a peer that is not listed: it is looked at again, because tokens expire and are revoked.
#[derive(Debug)]
pub(crate) struct Admission {
    /// The peer's HELLO, with its token.
    pub(crate) hello: Hello,
    /// What the token has to be bound to.
    pub(crate) channel: Option<[u8; captoken::CHANNEL_LEN]>,
    /// Where it came from; absent if this node dialled.
    pub(crate) ip: Option<IpAddr>,
}

/// The state of one session.
pub(crate) struct Conn {
    /// Unlike any other of this node's life.
    pub(crate) number: u64,
    pub(crate) peer: NodeId,
    pub(crate) dialled: bool,
    pub(crate) place: String,
    pub(crate) key_exchange: Option<&'static str>,
    pub(crate) key: Option<PeerKey>,
    admitted_by: Option<Admission>,
    pub(crate) agreed: Agreed,
    pub(crate) began: Moment,
    pub(crate) activity: Activity,
    pub(crate) ending: Ending,
    /// Whether the peer said that it goes away.
    pub(crate) going: AtomicBool,
    /// Whether it was told that this node does.
    said_goaway: AtomicBool,
    /// Messages that may come from this peer before the gossip engine has finished with earlier ones.
    pub(crate) ingress: Arc<Semaphore>,
    /// The total number of permits.
    pub(crate) ingress_limit: usize,
    /// The peer's small number in the index.
    slot: AtomicU32,
    /// The rate limit of the peer.
    pub(crate) rate: Bucket,
    /// What the peer takes a second.
    send_rate: SendRate,
    pub(crate) frames_in: AtomicU64,
    pub(crate) frames_out: AtomicU64,
    pub(crate) outbox: Outbox<OutFrame>,
    /// Streams and their states. Nothing else is locked under it.
    streams: Ranked<Session>,
    /// Tasks of this session that are alive: the reader and the writer.
    tasks: AtomicU64,
    task_ended: Notify,
    /// Nothing more is waited for.
    abandoned: Ending,
    shared: Arc<Shared>,
}

impl Conn {
    pub(crate) fn new(shared: &Arc<Shared>, greeted: Greeted) -> Arc<Self> {
        let settings = shared.settings.load();
        let now = shared.clock.now();
        Arc::new(Self {
            number: shared.next_number(),
            peer: greeted.peer,
            dialled: greeted.dialled,
            place: greeted.place,
            key_exchange: greeted.key_exchange,
            key: greeted.key,
            admitted_by: greeted.admitted_by,
            send_rate: SendRate::new(greeted.agreed.send_rate),
            agreed: greeted.agreed,
            began: now,
            activity: Activity::new(now),
            ending: Ending::default(),
            going: AtomicBool::new(false),
            said_goaway: AtomicBool::new(false),
            ingress: Arc::new(Semaphore::new(settings.inflight_frames)),
            ingress_limit: settings.inflight_frames,
            slot: AtomicU32::new(u32::MAX),
            rate: Bucket::default(),
            frames_in: AtomicU64::new(0),
            frames_out: AtomicU64::new(0),
            outbox: Outbox::new(settings.egress()),
            streams: Ranked::new(&locks::SESSION, greeted.session),
            tasks: AtomicU64::new(0),
            task_ended: Notify::new(),
            abandoned: Ending::default(),
            shared: Arc::clone(shared),
        })
    }

    /// Returns the state that all sessions share.
    pub(crate) fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// The peer's small number in the index, once it has one.
    pub(crate) fn slot(&self) -> u32 {
        self.slot.load(Relaxed)
    }

    pub(super) fn set_slot(&self, slot: u32) {
        self.slot.store(slot, Relaxed);
    }

    /// How many of these frames the peer takes now, and how long until it takes another.
    pub(super) fn allowed(&self, frames: &[OutFrame], now: Moment) -> (usize, Duration) {
        self.send_rate.allowed(frames, now)
    }

    /// Says something urgent. A peer that does not take it does not read, and is given up.
    pub(crate) fn control(&self, frame: &Frame) {
        if let Some(bytes) = self.encoded(frame) {
            self.control_bytes(bytes, false, self.shared.clock.now());
        }
    }

    /// The same, encoded for this peer. What may be dropped is not said while much waits, and is no reason to give the peer up:
    /// this node asks for it, not the peer.
    pub(crate) fn control_bytes(&self, bytes: Bytes, may_be_dropped: bool, now: Moment) {
        let frame = OutFrame { bytes, pushed: None, flow: 0, since: now };
        if may_be_dropped && self.outbox.has_much_control() {
            return;
        }
        if let Err(Refused::Busy(_)) = self.outbox.control(frame) {
            self.close(CloseReason::NeverReads);
        }
    }

    /// Sends a piece of an object once its turn has come; false if the session has ended.
    ///
    /// Cancel safe: what was not taken is not sent.
    pub(crate) async fn bulk(&self, frame: &Frame) -> bool {
        let Some(bytes) = self.encoded(frame) else { return false };
        let mut frame = OutFrame { bytes, pushed: None, flow: 0, since: self.shared.clock.now() };
        loop {
            poll_fn(|cx| self.outbox.poll_bulk(cx)).await;
            frame = match self.outbox.bulk(frame) {
                Ok(()) => return true,
                Err(Refused::Busy(frame) | Refused::Displaced(frame)) => frame,
                Err(Refused::Closed(_)) => return false,
            };
        }
    }

    /// Looks at or changes the streams and their states.
    pub(crate) fn with_session<T>(&self, change: impl FnOnce(&mut Session) -> T) -> T {
        change(&mut self.streams.lock())
    }

    /// Why the peer may not stay, if what let it in does so no more: it is not listed any more, or its token is not good any more.
    pub(crate) fn expired(&self) -> Option<&'static str> {
        let settings = self.shared.settings.load();
        match &self.admitted_by {
            Some(by) => {
                let admitted = settings.admits(&by.hello, by.channel, by.ip, self.shared.clock.unix());
                admitted.err().map(|_| "the token has expired or was revoked")
            }
            None => (!settings.lists(self.peer)).then_some("the node is not listed any more"),
        }
    }

    /// Refuses something the peer said, and says why.
    pub(crate) fn refuse(&self, code: ErrorCode, why: &str, about: Option<MessageId>, retry_after_ms: u32) {
        let fault = Fault { retry_after_ms, about, ..Fault::new(code, why) };
        self.control(&Frame::connection(Message::Error(fault)));
    }

    /// Says that this node goes away, once.
    pub(crate) fn goaway(&self, reason: ErrorCode) {
        self.goaway_saying(reason, "");
    }

    fn goaway_saying(&self, reason: ErrorCode, why: &str) {
        if self.said_goaway.swap(true, Relaxed) {
            return;
        }
        let last = self.with_session(|session| session.streams().map_or(0, |streams| streams.goaway()));
        self.control(&Frame::connection(Message::Goaway(Goaway::new(reason, last, why))));
    }

    /// Ends the session: the peer is told why, what waits is written, then the connection closes.
    pub(crate) fn close(&self, reason: CloseReason) {
        self.end(reason, reason.text());
    }

    /// Ends the session of a peer that broke a rule, and tells it which.
    pub(crate) fn dismiss(&self, code: ErrorCode, rule: &str) {
        self.end(CloseReason::Refused(code), rule);
    }

    fn end(&self, reason: CloseReason, why: &str) {
        if !self.ending.say(reason) {
            return;
        }
        match reason {
            CloseReason::Refused(code) => {
                self.control(&Frame::connection(Message::Error(Fault::new(code, why))));
            }
            other => other.told().into_iter().for_each(|code| self.goaway_saying(code, why)),
        }
        self.outbox.finish();
    }

    /// A frame as this peer reads it.
    fn encoded(&self, frame: &Frame) -> Option<Bytes> {
        match frame.to_bytes() {
            Ok(bytes) => Some(self.with_checksum(bytes)),
            Err(error) => {
                // Ours to get right, so it is a mistake of this program; the peer is not to blame.
                tracing::error!(%error, "a frame could not be encoded");
                None
            }
        }
    }

    /// An encoded frame as this peer reads it.
    pub(crate) fn with_checksum(&self, bytes: Bytes) -> Bytes {
        if !self.agreed.has_checksums() {
            return bytes;
        }
        let mut out = BytesMut::with_capacity(bytes.len() + 4);
        oap::put_with_checksum(&bytes, &mut out);
        out.freeze()
    }

    /// Counts a task of this session until what is returned goes.
    pub(super) fn task(self: &Arc<Self>) -> TaskOf {
        self.tasks.fetch_add(1, Relaxed);
        TaskOf { conn: Arc::clone(self), _party: self.shared.losses.party() }
    }

    /// Resolves once the reader and the writer are gone.
    ///
    /// Cancel safe.
    pub(super) async fn tasks_gone(&self) {
        loop {
            let mut ended = std::pin::pin!(self.task_ended.notified());
            ended.as_mut().enable();
            if self.tasks.load(Relaxed) == 0 {
                return;
            }
            ended.await;
        }
    }

    /// Nothing more is waited for: the reader and the writer are to let go of the socket.
    pub(super) fn abandon(&self) {
        self.abandoned.say(CloseReason::Broken);
    }

    /// Resolves once nothing more is waited for.
    ///
    /// Cancel safe.
    pub(super) async fn abandoned(&self) {
        self.abandoned.heard().await;
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Conn").field("number", &self.number).field("peer", &self.peer).finish_non_exhaustive()
    }
}

/// One of the session's two tasks. However it ends, the session ends with it.
#[derive(Debug)]
pub(super) struct TaskOf {
    conn: Arc<Conn>,
    _party: Party,
}

impl Drop for TaskOf {
    fn drop(&mut self) {
        self.conn.close(CloseReason::Crashed);
        self.conn.tasks.fetch_sub(1, Relaxed);
        self.conn.task_ended.notify_waiters();
    }
}
