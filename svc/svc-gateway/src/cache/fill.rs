//! A response on its way into the store: read from its server as fast as it comes, and given out meanwhile to everybody who
//! asked for it. No client's pace slows it down. If all of them have left, it ends soon after.

use std::{
    pin::{Pin, pin},
    sync::Arc,
    task::{Context, Poll, Waker},
    time::Duration,
};

use bytes::{Bytes, BytesMut};
use http_body::{Body as HttpBody, Frame, SizeHint};
use http_body_util::BodyExt;
use ron_kernel::lock::{Ranked, RankedGuard};
use ron_transport::{Body, BodyError};
use tokio::time::{Instant, timeout_at};

use super::entry::Head;
use crate::{
    buffers::{BufferMemory, Reserved},
    locks,
    tenant::Tenant,
};

/// How often it is looked at whether anybody still wants a body.
const LOOK: Duration = Duration::from_secs(1);

/// What is reserved at a time for a body of unknown length.
const PORTION: u64 = 64 * 1024;

/// Shorter pieces are joined.
const SMALL: usize = 4 * 1024;
/// What was joined becomes a piece when it is this long.
const JOINED: usize = 16 * 1024;

/// Why a body that is given out while it is stored ends early.
#[derive(Debug, thiserror::Error)]
#[error("the server broke off")]
struct BrokenOff;

/// A response whose body is still on its way.
#[derive(Debug)]
pub(crate) struct Fresh {
    pub(super) head: Head,
    /// The length of its body, if that is known.
    pub(super) len: Option<u64>,
    pub(super) fill: Arc<Fill>,
}

/// A body on its way.
#[derive(Debug)]
pub(super) struct Fill(Ranked<State>);

impl Default for Fill {
    fn default() -> Self {
        Self(Ranked::new(&locks::CACHE_FILL, State::default()))
    }
}

#[derive(Debug, Default)]
struct State {
    pieces: Vec<Bytes>,
    /// What came after them, as long as that is little. Otherwise a server that sends byte by byte would have each of them
    /// take a piece of its own.
    tail: BytesMut,
    end: Option<End>,
    /// The memory that the pieces take, for as long as somebody reads them.
    room: Option<Room>,
    /// Those who wait for more, by their number.
    waiting: Vec<Option<Waker>>,
    /// The numbers of those who have left.
    free: Vec<usize>,
    /// Number of clients that read the response.
    readers: usize,
}

#[derive(Debug)]
enum End {
    /// All pieces have arrived.
    Whole,
    /// The response broke off.
    Broken,
    /// It became too large to be stored: the first client reads the rest itself.
    Rest(Option<Body>),
}

/// What became of a body that was read.
#[derive(Debug)]
pub(super) enum Read {
    /// The whole body.
    Whole(Bytes),
    /// It broke off, or cannot be stored.
    NotStored,
}

/// The memory that a body takes until it is stored.
#[derive(Debug)]
pub(super) struct Room {
    pub(super) memory: Arc<BufferMemory>,
    pub(super) tenant: Arc<Tenant>,
    pub(super) most: u64,
    pub(super) reserved: Vec<Reserved>,
    pub(super) bytes: u64,
}

impl Room {
    /// Makes room for a body of a known length, or for the beginning of one; `None` if there is none.
    pub(super) fn reserve(
        memory: &Arc<BufferMemory>,
        tenant: &Arc<Tenant>,
        len: Option<u64>,
        most: u64,
    ) -> Option<Self> {
        if len.is_some_and(|len| len > most) {
            return None;
        }
        let bytes = len.unwrap_or(PORTION);
        let reserved = vec![memory.reserve(tenant, bytes)?];
        Some(Self { memory: Arc::clone(memory), tenant: Arc::clone(tenant), most, reserved, bytes })
    }

    /// Makes room for so many bytes in all; whether there is.
    fn grow(&mut self, bytes: u64) -> bool {
        while self.bytes < bytes {
            let Some(reserved) = self.memory.reserve(&self.tenant, PORTION) else { return false };
            self.reserved.push(reserved);
            self.bytes += PORTION;
        }
        bytes <= self.most
    }
}

impl Fill {
    /// Reads a body to its end, or until nobody has wanted it for a while. The last piece is given out only after `store` was told of all of them, so that whoever has
    /// read the whole finds it stored.
    pub(super) async fn read(&self, mut body: Body, mut room: Room, store: impl FnOnce(Read) + Send) {
        let _unfinished = Unfinished(self);
        let (mut len, mut wanted) = (0, Wanted::begin());
        loop {
            let Some(frame) = wanted.unless_abandoned(self, body.frame()).await else {
                return store(Read::NotStored);
            };
            let last = match frame {
                Some(Ok(frame)) => match frame.into_data() {
                    Ok(data) => {
                        len += data.len() as u64;
                        let fits = room.grow(len);
                        if !fits {
                            store(Read::NotStored);
                            return self.end(Some(data), End::Rest(Some(body)), room);
                        }
                        if !body.is_end_stream() {
                            self.more(data);
                            continue;
                        }
                        Some(data)
                    }
                    // What has trailers is passed on without them, and not stored.
                    Err(_trailers) => {
                        store(Read::NotStored);
                        return self.end(None, End::Whole, room);
                    }
                },
                Some(Err(_)) => {
                    store(Read::NotStored);
                    return self.end(None, End::Broken, room);
                }
                None => None,
            };
            store(Read::Whole(self.whole(last.as_ref())));
            return self.end(last, End::Whole, room);
        }
    }

    /// All pieces and a last one as one.
    fn whole(&self, last: Option<&Bytes>) -> Bytes {
        let state = self.state();
        match (state.pieces.as_slice(), state.tail.is_empty(), last) {
            ([], true, Some(only)) | ([only], true, None) => return only.clone(),
            _ => {}
        }
        let pieces = state.pieces.iter().map(Bytes::as_ref).chain([state.tail.as_ref()]);
        let pieces = pieces.chain(last.map(Bytes::as_ref));
        let mut whole = BytesMut::with_capacity(pieces.clone().map(<[u8]>::len).sum());
        pieces.for_each(|piece| whole.extend_from_slice(piece));
        whole.freeze()
    }

    fn more(&self, piece: Bytes) {
        let mut state = self.state();
        state.add(piece);
        state.wake();
    }

    fn end(&self, last: Option<Bytes>, end: End, room: Room) {
        let mut state = self.state();
        state.seal();
        state.pieces.extend(last);
        state.room = Some(room);
        state.end = Some(end);
        state.wake();
    }

    fn state(&self) -> RankedGuard<'_, State> {
        self.0.lock()
    }

    /// Gives the body out from its beginning. The first who has read all that was kept of a body that became too large reads
    /// the rest from the server.
    pub(super) fn follow(self: &Arc<Self>, len: Option<u64>) -> Body {
        Body::streaming(self.follower(len))
    }

    fn follower(self: &Arc<Self>, len: Option<u64>) -> Follow {
        let mut state = self.state();
        let number = state.free.pop().unwrap_or_else(|| {
            state.waiting.push(None);
            state.waiting.len() - 1
        });
        state.readers += 1;
        drop(state);
        Follow { fill: Arc::clone(self), number, at: 0, before: 0, given: 0, len, rest: None }
    }
}

/// Looks now and then whether anybody wants a body.
struct Wanted {
    next_look: Instant,
    /// Whether somebody did at the last look.
    was_read: bool,
}

impl Wanted {
    fn begin() -> Self {
        Self { next_look: Instant::now() + LOOK, was_read: true }
    }

    /// What is to come of a body; `None` if nobody has wanted it at two looks.
    async fn unless_abandoned<T>(&mut self, fill: &Fill, work: impl Future<Output = T>) -> Option<T> {
        let mut work = pin!(work);
        loop {
            match timeout_at(self.next_look, work.as_mut()).await {
                // A body that comes in a trickle is looked at all the same.
                Ok(done) if Instant::now() < self.next_look => return Some(done),
                outcome => {
                    let is_read = fill.state().readers > 0;
                    if !is_read && !self.was_read {
                        return None;
                    }
                    (self.was_read, self.next_look) = (is_read, Instant::now() + LOOK);
                    if let Ok(done) = outcome {
                        return Some(done);
                    }
                }
            }
        }
    }
}

/// Ends a body that is no longer read, so that nobody waits for more of it.
struct Unfinished<'a>(&'a Fill);

impl Drop for Unfinished<'_> {
    fn drop(&mut self) {
        let mut state = self.0.state();
        if state.end.is_none() {
            state.end = Some(End::Broken);
            state.wake();
        }
    }
}

impl State {
    /// Adds what came next.
    fn add(&mut self, piece: Bytes) {
        if piece.len() >= SMALL {
            self.seal();
            self.pieces.push(piece);
            return;
        }
        self.tail.extend_from_slice(&piece);
        if self.tail.len() >= JOINED {
            self.seal();
        }
    }

    /// Makes a piece of what was joined.
    fn seal(&mut self) {
        if !self.tail.is_empty() {
            self.pieces.push(self.tail.split().freeze());
        }
    }

    fn wake(&mut self) {
        self.waiting.iter_mut().filter_map(Option::take).for_each(Waker::wake);
    }
}

/// A body given out while it is read.
struct Follow {
    fill: Arc<Fill>,
    number: usize,
    /// The piece that is next, of which some may have been given out before it was whole.
    at: usize,
    /// Bytes of the pieces before that one.
    before: u64,
    /// Bytes that were given out.
    given: u64,
    len: Option<u64>,
    /// What is read from the server without being stored.
    rest: Option<Body>,
}

impl Follow {
    /// What is here and was not given out; `None` if that is nothing.
    fn next(&mut self, state: &State) -> Option<Bytes> {
        let mut data = Bytes::new();
        while data.is_empty() {
            let given = usize::try_from(self.given - self.before).unwrap_or(usize::MAX);
            let Some(piece) = state.pieces.get(self.at) else {
                data = state.tail.get(given..).map(Bytes::copy_from_slice).filter(|data| !data.is_empty())?;
                break;
            };
            data = piece.slice(given.min(piece.len())..);
            self.at += 1;
            self.before += piece.len() as u64;
        }
        self.given += data.len() as u64;
        Some(data)
    }
}

impl Drop for Follow {
    fn drop(&mut self) {
        let mut state = self.fill.state();
        state.readers -= 1;
        state.waiting[self.number] = None;
        state.free.push(self.number);
    }
}

impl HttpBody for Follow {
    type Data = Bytes;
    type Error = BodyError;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, BodyError>>> {
        let this = self.get_mut();
        if let Some(rest) = &mut this.rest {
            return Pin::new(rest).poll_frame(cx);
        }
        let fill = Arc::clone(&this.fill);
        let mut state = fill.state();
        if let Some(data) = this.next(&state) {
            return Poll::Ready(Some(Ok(Frame::data(data))));
        }
        match &mut state.end {
            None => {
                state.waiting[this.number] = Some(cx.waker().clone());
                Poll::Pending
            }
            Some(End::Whole) => Poll::Ready(None),
            Some(End::Rest(rest)) if rest.is_some() => {
                this.rest = rest.take();
                drop(state);
                Pin::new(this).poll_frame(cx)
            }
            Some(End::Broken | End::Rest(_)) => Poll::Ready(Some(Err(BodyError::new(BrokenOff)))),
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.rest {
            Some(rest) => rest.is_end_stream(),
            None => self.len == Some(self.given),
        }
    }

    fn size_hint(&self) -> SizeHint {
        self.len.map_or_else(SizeHint::new, |len| SizeHint::with_exact(len.saturating_sub(self.given)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_that_come_one_by_one_are_joined_and_everybody_gets_them_once() {
        let fill = Arc::<Fill>::default();
        let (mut eager, mut late) = (fill.follower(None), fill.follower(None));
        let body: Vec<u8> = (0..100_000_u32).map(|at| at.to_le_bytes()[0]).collect();
        let (mut eager_has, mut late_has) = (Vec::new(), Vec::new());
        for (at, byte) in body.iter().enumerate() {
            // Now and then a long piece comes between.
            let piece = if at % 30_000 == 29_999 { vec![*byte; SMALL] } else { vec![*byte] };
            fill.more(Bytes::from(piece));
            if at % 7 == 0 {
                eager_has.extend(eager.next(&fill.state()).into_iter().flatten());
            }
        }
        fill.state().seal();
        while let Some(data) = eager.next(&fill.state()) {
            eager_has.extend_from_slice(&data);
        }
        while let Some(data) = late.next(&fill.state()) {
            late_has.extend_from_slice(&data);
        }
        assert!(fill.state().pieces.len() < 16, "{} pieces", fill.state().pieces.len());
        let whole = fill.whole(None);
        assert_eq!(whole.len(), body.len() + 3 * (SMALL - 1));
        assert_eq!((eager_has.as_slice(), late_has.as_slice()), (whole.as_ref(), whole.as_ref()));
    }

    #[test]
    fn clients_that_come_and_go_leave_nothing_behind() {
        let fill = Arc::<Fill>::default();
        let _stays = fill.follower(None);
        for _ in 0..1000 {
            drop([fill.follower(None), fill.follower(None)]);
        }
        let state = fill.state();
        assert_eq!((state.waiting.len(), state.readers), (3, 1));
    }
}
