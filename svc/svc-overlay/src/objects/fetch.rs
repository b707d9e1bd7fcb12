//! An object that this node asks a peer for: checked chunk by chunk, and given out as fast as it is wanted.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::Bytes;
use oap::{Checker, Get, Start};

use super::{
    ObjectError,
    line::{Line, Told},
    metrics::{ObjectMetrics, Op, Outcome},
    store::{Arriving, Store},
};
use crate::session::Conn;

/// An object, or a part of it, on its way from a peer. Dropped, the peer is told to stop.
#[derive(Debug)]
pub(super) struct Fetch {
    line: Line,
    store: Store,
    metrics: ObjectMetrics,
    patience: Duration,
    /// [`None`] once all has come, or something went wrong.
    arriving: Option<Arriving>,
    pieces: VecDeque<Bytes>,
    /// The object's length, once its last byte has come.
    proven_len: Option<u64>,
}

impl Fetch {
    /// Asks for it. What comes is kept if `keeps`, which takes all of the object.
    ///
    /// Cancel safe.
    pub(super) async fn open(conn: &Arc<Conn>, get: Get, keeps: bool) -> Result<Self, ObjectError> {
        let shared = conn.shared();
        let objects = &shared.objects;
        let patience = shared.settings.load().objects.patience.as_duration();
        let arriving = objects.store.begin(Checker::of_get(get), keeps).await?;
        let line = objects.open_line(conn, Start::Get(get))?;
        let (store, metrics) = (objects.store.clone(), objects.metrics.clone());
        let (arriving, pieces) = (Some(arriving), VecDeque::new());
        Ok(Self { line, store, metrics, patience, arriving, pieces, proven_len: None })
    }

    /// The next bytes that were asked for, checked; [`None`] once all have come and what is to be kept is stored.
    ///
    /// Not cancel safe: dropped in the middle, it gives nothing more.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>, ObjectError> {
        loop {
            if let Some(piece) = self.pieces.pop_front() {
                return Ok(Some(piece));
            }
            let Some(arriving) = self.arriving.take() else { return Ok(None) };
            let more = self.more(arriving).await;
            self.arriving = more.inspect_err(|error| self.count(error))?;
        }
    }

    /// The object's length, once it is proven.
    ///
    /// Not cancel safe.
    pub(super) async fn proven_len(&mut self) -> Result<u64, ObjectError> {
        loop {
            if let Some(len) = self.proven_len {
                return Ok(len);
            }
            let arriving = self.arriving.take().ok_or(ObjectError::Mismatch)?;
            let more = self.more(arriving).await;
            self.arriving = more.inspect_err(|error| self.count(error))?;
        }
    }

    async fn more(&mut self, arriving: Arriving) -> Result<Option<Arriving>, ObjectError> {
        match self.line.next(self.patience).await? {
            Told::Credit => Ok(Some(arriving)),
            Told::End => self.finish(arriving).await,
            Told::Data(first) => {
                let (chunks, is_end) = self.line.gather(first);
                let cost = chunks.iter().map(oap::Data::cost).sum();
                let (arriving, pieces) = self.store.take(arriving, chunks).await?;
                self.proven_len = self.proven_len.or(arriving.checker.proven_len());
                self.metrics.received(pieces.iter().map(Bytes::len).sum());
                self.line.used(cost);
                // The last piece is given out when all is stored: who counts bytes does not ask for what follows them.
                let is_all = is_end || arriving.checker.finish().is_ok() && self.ends().await?;
                let arriving = if is_all { self.finish(arriving).await? } else { Some(arriving) };
                self.pieces.extend(pieces.into_iter().filter(|piece| !piece.is_empty()));
                Ok(arriving)
            }
        }
    }

    /// All chunks have come: so has to END, and nothing else.
    async fn ends(&mut self) -> Result<bool, ObjectError> {
        loop {
            match self.line.next(self.patience).await? {
                Told::End => return Ok(true),
                Told::Data(_) => return Err(ObjectError::Mismatch),
                Told::Credit => {}
            }
        }
    }

    async fn finish(&mut self, arriving: Arriving) -> Result<Option<Arriving>, ObjectError> {
        self.store.finish(arriving).await?;
        self.metrics.ended(Op::Get, Outcome::Done);
        Ok(None)
    }

    fn count(&self, error: &ObjectError) {
        let outcome = match error {
            ObjectError::Mismatch => Outcome::Mismatch,
            ObjectError::Broken | ObjectError::Silent | ObjectError::Store(_) => Outcome::Broken,
            _ => Outcome::Refused,
        };
        self.metrics.ended(Op::Get, outcome);
        if outcome == Outcome::Mismatch {
            let conn = &self.line.conn;
            conn.shared().metrics.rejected("mismatch");
            self.line.reset(oap::Fault::new(oap::ErrorCode::Mismatch, "these bytes are not the object's"));
            tracing::warn!(peer = %conn.peer, "a peer sent wrong bytes for an object");
        }
    }
}
