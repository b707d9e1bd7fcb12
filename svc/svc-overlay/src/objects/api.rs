//! Objects as the rest of the node sees them: looked for here and with the peers, read, written, handed over.

use std::{
    future::poll_fn,
    ops::Range,
    pin::Pin,
    sync::{Arc, atomic::Ordering::Relaxed},
    task::Poll,
};

use bytes::Bytes;
use cas::{Committed, Writer};
use oap::{Chunks, Features, Get, Start};
use ron_kernel::blocking::BlockingDrop;
use types::{NodeId, ObjectId};

use super::{
    ObjectError,
    fetch::Fetch,
    line::Told,
    metrics::{Op, Outcome},
    store::{AT_ONCE, Stored},
};
use crate::{session::Conn, shared::Shared};

/// Peers that are asked for an object at a time.
const ASKED: usize = 8;
/// What is read at once of an object that is stored here.
const PIECE: u64 = 256 * 1024;

/// The objects of this node and its peers.
#[derive(Clone, Debug)]
pub struct ObjectStore(pub(crate) Arc<Shared>);

/// An object that was found.
#[derive(Debug)]
pub struct Object {
    shared: Arc<Shared>,
    id: ObjectId,
    len: u64,
    source: Source,
}

#[derive(Debug)]
enum Source {
    Here(Stored),
    There(Arc<Conn>),
}

/// A part of an object, as it is read.
#[derive(Debug)]
pub struct ObjectReader(Reading);

#[derive(Debug)]
enum Reading {
    Here { shared: Arc<Shared>, stored: Stored, rest: Range<u64> },
    There { first: Option<Bytes>, fetch: Box<Fetch> },
}

/// An object that is being written to this node's store. Dropped, nothing stays behind.
#[derive(Debug)]
pub struct Upload {
    shared: Arc<Shared>,
    writer: Option<BlockingDrop<Writer>>,
}

impl ObjectStore {
    /// Looks for an object, here and then with the peers; [`None`] if nobody has it.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// [`ObjectError`] if it cannot be told, or if all who say they have it have something else.
    pub async fn open(&self, id: ObjectId) -> Result<Option<Object>, ObjectError> {
        let shared = Arc::clone(&self.0);
        if let Some(stored) = shared.objects.store.find(id).await? {
            let len = stored.len();
            return Ok(Some(Object { shared, id, len, source: Source::Here(stored) }));
        }
        let found = ask_peers(&shared, id).await?;
        Ok(found.map(|(conn, len)| Object { shared, id, len, source: Source::There(conn) }))
    }

    /// Begins to write an object to this node's store.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn create(&self) -> Result<Upload, ObjectError> {
        let writer = self.0.objects.store.writer().await?;
        Ok(Upload { shared: Arc::clone(&self.0), writer: Some(writer) })
    }

    /// Hands an object of this node's store to a peer, and returns when it is stored there. `progress` is told how many
    /// bytes have been sent.
    ///
    /// Cancel safe: dropped, the peer is told that it gets no more.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn offer(
        &self,
        id: ObjectId,
        to: NodeId,
        mut progress: impl FnMut(u64) + Send,
    ) -> Result<(), ObjectError> {
        let objects = &self.0.objects;
        let stored = objects.store.find(id).await?.ok_or(ObjectError::NotFound)?;
        let conn = self.0.peers.get(&to).ok_or(ObjectError::NoPeer(to))?;
        let sent = send(&conn, id, &stored, &mut progress).await;
        let outcome = match &sent {
            Ok(()) => Outcome::Done,
            Err(ObjectError::Broken | ObjectError::Silent | ObjectError::Store(_)) => Outcome::Broken,
            Err(_) => Outcome::Refused,
        };
        objects.metrics.ended(Op::Put, outcome);
        sent
    }
}

async fn send(
    conn: &Arc<Conn>,
    id: ObjectId,
    stored: &Stored,
    progress: &mut (impl FnMut(u64) + Send),
) -> Result<(), ObjectError> {
    let objects = &conn.shared().objects;
    let (patience, chunk_len) = {
        let settings = conn.shared().settings.load();
        (settings.objects.patience.as_duration(), settings.chunk)
    };
    let prover = objects.store.prover(stored).await?;
    let mut line = objects.open_line(conn, Start::Put { id, len: stored.len() })?;
    let mut chunks = Chunks::of_put(stored.len()).of_len(chunk_len);
    let mut sent = 0;
    loop {
        let ranges: Vec<_> = chunks.by_ref().take(AT_ONCE).collect();
        if ranges.is_empty() {
            break;
        }
        for data in objects.store.prove(stored, &prover, ranges).await? {
            sent += data.body.len() as u64;
            objects.metrics.sent(data.body.len());
            line.send(data, patience).await?;
            progress(sent);
        }
    }
    line.send_end().await?;
    loop {
        if matches!(line.next(patience).await?, Told::End) {
            return Ok(());
        }
    }
}

/// Asks peers for the object's last group, all at once: whoever sends it first has it, and has proven its length.
async fn ask_peers(shared: &Arc<Shared>, id: ObjectId) -> Result<Option<(Arc<Conn>, u64)>, ObjectError> {
    let candidates = shared.peers.all().into_iter().map(|(_, conn)| conn);
    let may_have =
        |conn: &Arc<Conn>| conn.agreed.features.has(Features::OBJECTS) && !conn.going.load(Relaxed);
    let mut asked: Vec<_> =
        candidates.filter(may_have).take(ASKED).map(|conn| Box::pin(ask(conn, id))).collect();
    let mut worst = ObjectError::NotFound;
    let found = poll_fn(|cx| {
        let mut at = 0;
        while at < asked.len() {
            match Pin::new(&mut asked[at]).poll(cx) {
                Poll::Ready(Ok(found)) => return Poll::Ready(Some(found)),
                Poll::Ready(Err(error)) => {
                    // Wrong bytes are worth more than silence, and silence more than a no: that is what the caller hears.
                    if rank(&error) > rank(&worst) {
                        worst = error;
                    }
                    drop(asked.swap_remove(at));
                }
                Poll::Pending => at += 1,
            }
        }
        if asked.is_empty() { Poll::Ready(None) } else { Poll::Pending }
    })
    .await;
    match (found, worst) {
        (Some(found), _) => Ok(Some(found)),
        (None, ObjectError::NotFound) => Ok(None),
        (None, worst) => Err(worst),
    }
}

fn rank(error: &ObjectError) -> u8 {
    match error {
        ObjectError::NotFound => 0,
        ObjectError::Mismatch => 2,
        _ => 1,
    }
}

async fn ask(conn: Arc<Conn>, id: ObjectId) -> Result<(Arc<Conn>, u64), ObjectError> {
    let mut fetch = Fetch::open(&conn, Get { id, offset: 0, len: 0, tail: true }, false).await?;
    let len = fetch.proven_len().await?;
    Ok((conn, len))
}

impl Object {
    /// Returns the name of the object.
    #[must_use]
    pub fn id(&self) -> ObjectId {
        self.id
    }

    /// Returns the proven length of the object in bytes.
    #[must_use]
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Returns true if the object has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns true if the object is stored on this node.
    #[must_use]
    pub fn is_here(&self) -> bool {
        matches!(self.source, Source::Here(_))
    }

    /// Reads a part. If it is all of an object that a peer has, it is stored here on the way. Of what a peer has the first
    /// bytes are here, and checked, when this returns.
    ///
    /// Cancel safe.
    ///
    /// # Errors
    /// [`ObjectError`].
    pub async fn read(self, range: Range<u64>) -> Result<ObjectReader, ObjectError> {
        if range.start > range.end || range.end > self.len {
            return Err(ObjectError::Range);
        }
        let reading = match self.source {
            Source::Here(stored) => Reading::Here { shared: self.shared, stored, rest: range },
            Source::There(conn) => {
                let keeps = range == (0..self.len)
                    && self.len <= self.shared.settings.load().objects.max_object_bytes.as_u64();
                // A range of no bytes is asked for as the length was: by the last group.
                let (len, tail) = (range.end - range.start, range.is_empty());
                let get = Get { id: self.id, offset: range.start, len, tail };
                let mut fetch = Box::new(Fetch::open(&conn, get, keeps).await?);
                Reading::There { first: fetch.next().await?, fetch }
            }
        };
        Ok(ObjectReader(reading))
    }
}

impl ObjectReader {
    /// The next bytes; [`None`] at the end. No byte is given out that was not checked.
    ///
    /// Not cancel safe: dropped in the middle, bytes are missing.
    ///
    /// # Errors
    /// [`ObjectError`]; there is no more then.
    pub async fn next(&mut self) -> Result<Option<Bytes>, ObjectError> {
        match &mut self.0 {
            Reading::There { first, fetch } => match first.take() {
                Some(first) => Ok(Some(first)),
                None => fetch.next().await,
            },
            Reading::Here { shared, stored, rest } => {
                if rest.is_empty() {
                    return Ok(None);
                }
                let end = ((rest.start / PIECE + 1) * PIECE).min(rest.end);
                let piece = shared.objects.store.read(stored, rest.start..end).await?;
                rest.start = end;
                Ok(Some(piece))
            }
        }
    }
}

impl Upload {
    /// Takes the next bytes.
    ///
    /// Not cancel safe: dropped in the middle, the object is given up.
    ///
    /// # Errors
    /// [`ObjectError`]; the object is given up then.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), ObjectError> {
        let given_up = || ObjectError::Store("an earlier part of it could not be written".to_owned());
        let mut writer = self.writer.take().ok_or_else(given_up)?;
        let written = self.shared.objects.store.write(move || writer.write(&bytes).map(|()| writer)).await?;
        self.writer = Some(written);
        Ok(())
    }

    /// Stores the object, for good when this returns: its name and length.
    ///
    /// Cancel safe in that it is stored or not; nobody hears which.
    ///
    /// # Errors
    /// [`ObjectError`]; nothing is stored then.
    pub async fn commit(mut self) -> Result<(ObjectId, u64), ObjectError> {
        let given_up = || ObjectError::Store("a part of it could not be written".to_owned());
        let writer = self.writer.take().ok_or_else(given_up)?;
        let Committed { id, len, .. } =
            self.shared.objects.store.write(move || writer.into_inner().commit()).await?;
        Ok((id, len))
    }
}
