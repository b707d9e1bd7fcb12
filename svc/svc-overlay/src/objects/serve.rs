//! What peers want of this node: objects that they ask for are sent, objects that they offer are taken.

use std::time::Duration;

use cas::WriteError;
use oap::{Checker, Chunks, ErrorCode, Fault, Get, Start};
use ron_kernel::{
    blocking::BlockingError,
    topology::{ChildSpec, Plane, Stage},
};
use types::ObjectId;

use super::{
    line::{Line, Stop, Told},
    metrics::{Op, Outcome},
    store::{AT_ONCE, Store, StoreError},
    unfinished::{NoRoom, Reserved},
};

/// Serves one stream of a peer.
pub(crate) const STREAM: ChildSpec = ChildSpec {
    kind: "object_stream",
    plane: Plane::Data,
    stop: Stage::Writers,
    bound: "objects.streams in all, 64 per connection",
    doc: "sends an object to a peer, or takes one from it, a few chunks at a time",
};

/// When a peer that found no place, or no room, may come back.
pub(super) const COME_BACK_MS: u32 = 1000;

/// Why a peer does not get, or give, what it wants.
#[derive(Debug)]
enum Failed {
    /// The peer is sent this error.
    Fault(Fault),
    /// It knows, or cannot be told.
    Stop(Stop),
}

/// Sends or takes what a peer has opened a stream for.
///
/// Cancel safe: dropped, the stream is reset.
pub(super) async fn serve(mut line: Line, start: Start) {
    let (op, result) = match start {
        Start::Get(get) => (Op::Serve, give(&mut line, get).await),
        Start::Put { id, len } => (Op::Take, take(&mut line, id, len).await),
    };
    let metrics = &line.conn.shared().objects.metrics;
    match result {
        Ok(()) => metrics.ended(op, Outcome::Done),
        Err(Failed::Stop(stop)) => {
            if stop == Stop::Silent {
                line.reset(Fault::new(ErrorCode::Timeout, "nothing was heard for too long"));
            }
            metrics.ended(op, Outcome::Broken);
        }
        Err(Failed::Fault(fault)) => {
            let is_mismatch = fault.code == ErrorCode::Mismatch;
            if is_mismatch {
                line.conn.shared().metrics.rejected("mismatch");
                tracing::warn!(peer = %line.conn.peer, detail = %fault.detail, "a peer offered wrong bytes");
            }
            metrics.ended(op, if is_mismatch { Outcome::Mismatch } else { Outcome::Refused });
            line.reset(fault);
        }
    }
}

async fn give(line: &mut Line, get: Get) -> Result<(), Failed> {
    let (store, patience) = tools(line);
    let stored = store.find(get.id).await?;
    let Some(stored) = stored else { return Err(fault(ErrorCode::NotFound, "no such object")) };
    let chunk_len = line.conn.shared().settings.load().chunk;
    let chunks = Chunks::of_get(&get, stored.len())
        .map_err(|_| fault(ErrorCode::Range, "the object ends before the range begins"))?;
    let mut chunks = chunks.of_len(chunk_len);
    let prover = store.prover(&stored).await?;
    loop {
        let ranges: Vec<_> = chunks.by_ref().take(AT_ONCE).collect();
        if ranges.is_empty() {
            return Ok(line.send_end().await?);
        }
        for data in store.prove(&stored, &prover, ranges).await? {
            line.conn.shared().objects.metrics.sent(data.body.len());
            line.send(data, patience).await?;
        }
    }
}

async fn take(line: &mut Line, id: ObjectId, len: u64) -> Result<(), Failed> {
    let (store, patience) = tools(line);
    if len > line.conn.shared().settings.load().objects.max_object_bytes.as_u64() {
        return Err(fault(ErrorCode::TooLarge, "larger than is taken"));
    }
    let _room = reserve(line, len)?;
    let mut arriving = store.begin(Checker::of_put(id, len), true).await?;
    let mut is_all = false;
    while !is_all {
        match line.next(patience).await? {
            Told::Data(first) => {
                let (chunks, is_end) = line.gather(first);
                let cost = chunks.iter().map(oap::Data::cost).sum();
                let bytes = chunks.iter().map(|chunk| chunk.body.len()).sum();
                (arriving, _) = store.take(arriving, chunks).await?;
                line.conn.shared().objects.metrics.received(bytes);
                line.used(cost);
                is_all = is_end;
            }
            Told::End => is_all = true,
            Told::Credit => {}
        }
    }
    store.finish(arriving).await?;
    Ok(line.send_stored()?)
}

/// Room for an object that a peer begins to hand over.
fn reserve(line: &Line, len: u64) -> Result<Reserved, Failed> {
    let objects = &line.conn.shared().objects;
    objects.unfinished.reserve(line.conn.peer, len).map_err(|no_room| {
        let (code, detail) = match no_room {
            NoRoom::Store => (ErrorCode::Busy, "what peers hand over already would fill the store"),
            NoRoom::Peer => (ErrorCode::Quota, "as much as one peer may is on its way already"),
        };
        line.conn.shared().metrics.rejected(code.name());
        Failed::Fault(Fault::new(code, detail).retry_after_ms(COME_BACK_MS))
    })
}

fn tools(line: &Line) -> (Store, Duration) {
    let shared = line.conn.shared();
    (shared.objects.store.clone(), shared.settings.load().objects.patience.as_duration())
}

fn fault(code: ErrorCode, detail: &str) -> Failed {
    Failed::Fault(Fault::new(code, detail))
}

impl From<Stop> for Failed {
    fn from(stop: Stop) -> Self {
        Self::Stop(stop)
    }
}

impl From<StoreError> for Failed {
    fn from(error: StoreError) -> Self {
        let busy = Fault::new(ErrorCode::Busy, "the store is busy or full").retry_after_ms(COME_BACK_MS);
        Self::Fault(match &error {
            StoreError::Object(wrong) => Fault::new(ErrorCode::Mismatch, &wrong.to_string()),
            StoreError::Write(WriteError::TooLarge) => {
                Fault::new(ErrorCode::TooLarge, "larger than the store takes")
            }
            StoreError::Write(WriteError::Full) | StoreError::Blocking(BlockingError::Busy) => busy,
            StoreError::Blocking(BlockingError::Stopped) => Fault::new(ErrorCode::Draining, "the node stops"),
            StoreError::Read(_) | StoreError::Write(_) | StoreError::Blocking(_) => {
                tracing::warn!(%error, "the store failed during a transfer with a peer");
                Fault::new(ErrorCode::Internal, "the store failed")
            }
        })
    }
}
