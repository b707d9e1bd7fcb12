//! The frames of one direction of an HTTP/2 connection, one after the other, as their bytes pass.

use super::{
    fields::Table,
    flood::{BYTES_PER_FRAME_OF_FIELDS, FRAMES_PER_LONG_HEAD},
};
use crate::client::MAX_INTERIM;

pub(super) const PREFACE: usize = 24;
const FRAME_HEAD: usize = 9;
/// The largest frame that is looked at. The library takes no larger ones than 16 KiB.
const LONGEST_FRAME: usize = 64 * 1024;
/// The longest field block that is put together from several frames.
const LONGEST_BLOCK: usize = 256 * 1024;
/// The longest padding of a frame, with its length.
const LONGEST_PADDING: usize = 256;
/// How many streams are remembered of which the rest of a response may come; beyond that the oldest is forgotten.
const MOST_OPEN: usize = 1024;

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;

const END_STREAM: u8 = 0x1;
const END_HEADERS: u8 = 0x4;
const PADDED: u8 = 0x8;
const PRIORITY: u8 = 0x20;

/// The side whose frames are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sender {
    /// A client, which sends its preface and then requests.
    Client,
    /// A server, which sends responses.
    Server,
}

/// Why a connection ends: its stream alone cannot be made to end by the library.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum Unsound {
    #[error(
        "pseudo-header fields where they have no place, or trailers after a field block that is too long"
    )]
    Malformed,
    #[error("too many interim responses before the answer")]
    Interim,
    #[error("too many frames that carry nothing")]
    Flood,
}

/// What a frame with fields is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Judged {
    Fine,
    /// Trailers with pseudo-header fields.
    BadTrailers,
    /// The head of a response with pseudo-header fields of requests.
    BadHead,
    /// One more interim response than there may be before the answer.
    InterimTooMany,
}

#[derive(Debug)]
pub(super) struct Scan {
    sender: Sender,
    table: Table,
    /// Bytes that matter to nobody here.
    skip: usize,
    /// The beginning of a frame's head.
    head: Vec<u8>,
    /// A frame that has begun and is needed whole.
    frame: Option<Frame>,
    payload: Vec<u8>,
    /// A field block that goes on in the next frame.
    block: Option<(Frame, Vec<u8>)>,
    /// The highest stream that a client has opened.
    highest: u32,
    /// In order: of a server, streams whose response has begun and not ended; of a client, streams that it has opened in
    /// this turn and not reset.
    open: Vec<u32>,
    /// Of a server, in order: streams that have had interim responses and no answer yet, and how many.
    interim: Vec<(u32, usize)>,
    /// Whether it is unknown what the dynamic table holds.
    is_table_unknown: bool,
    /// The size of a head that a client may send, as [`Summary`](super::fields::Summary) counts it; the library refuses others.
    longest_head: usize,
    /// Frames that carry nothing, since this was asked last.
    idle: u32,
}

#[derive(Clone, Copy, Debug)]
struct Frame {
    kind: u8,
    flags: u8,
    stream: u32,
    length: usize,
}

impl Scan {
    pub(super) fn new(sender: Sender) -> Self {
        Self {
            sender,
            table: Table::default(),
            skip: if sender == Sender::Client { PREFACE } else { 0 },
            head: Vec::new(),
            frame: None,
            payload: Vec::new(),
            block: None,
            highest: 0,
            open: Vec::new(),
            interim: Vec::new(),
            is_table_unknown: false,
            longest_head: usize::MAX,
            idle: 0,
        }
    }

    /// The same for a client whose heads may have so many bytes.
    pub(super) fn with_longest_head(self, bytes: usize) -> Self {
        Self { longest_head: bytes, ..self }
    }

    /// How many frames have come that carry nothing since this was asked last.
    pub(super) const fn take_idle(&mut self) -> u32 {
        std::mem::replace(&mut self.idle, 0)
    }

    /// A turn of a client's connection begins.
    pub(super) fn begin_turn(&mut self) {
        if self.sender == Sender::Client {
            self.open.clear();
        }
    }

    /// How many streams a client has opened in this turn and not reset. Those that it resets at once are left for the
    /// library to count, which ends the connection if they are many.
    pub(super) fn opened_in_turn(&self) -> usize {
        if self.sender == Sender::Client { self.open.len() } else { 0 }
    }

    /// Looks at the next bytes, up to the frame that opens the `most`th stream of the turn, and returns how many those are.
    /// Of trailers with pseudo-header fields the flag that ends their stream is taken away, which the library answers with
    /// a stream error, as RFC 9113 8.1.1 wants.
    pub(super) fn look(&mut self, bytes: &mut [u8], most: usize) -> Result<usize, Unsound> {
        let mut looked_at = 0;
        while looked_at < bytes.len() && self.opened_in_turn() < most {
            looked_at += self.step(&mut bytes[looked_at..])?;
        }
        Ok(looked_at)
    }

    /// Looks at some of the bytes; returns how many.
    fn step(&mut self, bytes: &mut [u8]) -> Result<usize, Unsound> {
        if self.skip > 0 {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            return Ok(skipped);
        }
        if let Some(frame) = self.frame {
            return self.collect(frame, bytes);
        }
        let missing = FRAME_HEAD - self.head.len();
        if missing < FRAME_HEAD || bytes.len() < FRAME_HEAD {
            let taken = missing.min(bytes.len());
            self.head.extend_from_slice(&bytes[..taken]);
            let Some(frame) = Frame::read(&self.head) else { return Ok(taken) };
            self.head.clear();
            self.begin(frame);
            // A frame of nothing is whole already.
            if let Some(frame) = self.frame.filter(|frame| frame.length == 0) {
                self.collect(frame, &[])?;
            }
            return Ok(taken);
        }
        self.whole_or_begun(bytes)
    }

    /// Takes more of a frame that is needed whole.
    fn collect(&mut self, frame: Frame, bytes: &[u8]) -> Result<usize, Unsound> {
        let taken = (frame.length - self.payload.len()).min(bytes.len());
        self.payload.extend_from_slice(&bytes[..taken]);
        if self.payload.len() < frame.length {
            return Ok(taken);
        }
        self.frame = None;
        let payload = std::mem::take(&mut self.payload);
        match self.fields(frame, &payload) {
            Judged::Fine => Ok(taken),
            Judged::BadTrailers | Judged::BadHead => Err(Unsound::Malformed),
            Judged::InterimTooMany => Err(Unsound::Interim),
        }
    }

    /// A frame's head is here, and perhaps all of the frame.
    fn whole_or_begun(&mut self, bytes: &mut [u8]) -> Result<usize, Unsound> {
        let Some(frame) = Frame::read(bytes) else { return Ok(bytes.len()) };
        let end = FRAME_HEAD + frame.length;
        if !frame.has_fields() || bytes.len() < end {
            self.begin(frame);
            return Ok(FRAME_HEAD);
        }
        match self.fields(frame, &bytes[FRAME_HEAD..end]) {
            Judged::Fine => Ok(end),
            Judged::BadTrailers if frame.kind == HEADERS => {
                bytes[4] &= !END_STREAM;
                Ok(end)
            }
            Judged::BadTrailers | Judged::BadHead => Err(Unsound::Malformed),
            Judged::InterimTooMany => Err(Unsound::Interim),
        }
    }

    /// A frame begins whose payload is not here, or of no interest.
    fn begin(&mut self, frame: Frame) {
        if frame.has_fields() {
            if frame.length > LONGEST_FRAME {
                self.is_table_unknown = true;
                self.skip = frame.length;
            } else {
                self.frame = Some(frame);
            }
            return;
        }
        self.idle = self.idle.saturating_add(u32::from(!frame.carries_data()));
        let ends_response =
            self.sender == Sender::Server && frame.kind == DATA && frame.flags & END_STREAM != 0;
        if ends_response || frame.kind == RST_STREAM {
            self.close(frame.stream);
        }
        self.skip = frame.length;
    }

    /// Follows a frame with fields.
    fn fields(&mut self, frame: Frame, payload: &[u8]) -> Judged {
        let Some(part) = frame.block_in(payload) else {
            // The library ends the connection.
            self.is_table_unknown = true;
            return Judged::Fine;
        };
        let ends = frame.flags & END_HEADERS != 0;
        match (self.block.take(), frame.kind) {
            (Some((first, mut block)), CONTINUATION) => {
                if block.len() + part.len() > LONGEST_BLOCK {
                    self.is_table_unknown = true;
                    block.clear();
                } else {
                    block.extend_from_slice(part);
                }
                if ends {
                    return self.block_ended(first, &block);
                }
                self.block = Some((first, block));
                Judged::Fine
            }
            (None, HEADERS | PUSH_PROMISE) if ends => self.block_ended(frame, part),
            (None, HEADERS | PUSH_PROMISE) => {
                self.block = Some((frame, part.to_vec()));
                Judged::Fine
            }
            // The library ends the connection.
            _ => Judged::Fine,
        }
    }

    fn block_ended(&mut self, frame: Frame, block: &[u8]) -> Judged {
        let summary = self.table.read(block);
        self.is_table_unknown |= summary.is_none();
        if frame.kind == PUSH_PROMISE {
            return Judged::Fine;
        }
        let summary = summary.unwrap_or_default();
        let ends_stream = frame.flags & END_STREAM != 0;
        let is_bad = ends_stream && (summary.has_pseudo || self.is_table_unknown);
        let trailers = if is_bad { Judged::BadTrailers } else { Judged::Fine };
        match self.sender {
            Sender::Client if frame.stream > self.highest => {
                self.highest = frame.stream;
                self.open(frame.stream);
                if summary.size >= self.longest_head {
                    self.idle = self.idle.saturating_add(FRAMES_PER_LONG_HEAD);
                }
                Judged::Fine
            }
            Sender::Client => {
                let frames = 1 + block.len() / BYTES_PER_FRAME_OF_FIELDS;
                self.idle = self.idle.saturating_add(u32::try_from(frames).unwrap_or(u32::MAX));
                trailers
            }
            Sender::Server => {
                let is_trailers = self.open.binary_search(&frame.stream).is_ok();
                if summary.is_informational && !self.interim_may_come(frame.stream) {
                    return Judged::InterimTooMany;
                }
                if ends_stream {
                    self.close(frame.stream);
                } else if !is_trailers && !summary.is_informational {
                    self.open(frame.stream);
                }
                if is_trailers {
                    trailers
                } else if summary.has_requests_pseudo {
                    Judged::BadHead
                } else {
                    Judged::Fine
                }
            }
        }
    }

    /// Counts an interim response of a stream; says whether there may be that many.
    fn interim_may_come(&mut self, stream: u32) -> bool {
        let at = self.interim.binary_search_by_key(&stream, |(of, _)| *of).unwrap_or_else(|at| {
            self.interim.insert(at, (stream, 0));
            at
        });
        self.interim[at].1 += 1;
        let may_come = self.interim[at].1 <= MAX_INTERIM;
        if self.interim.len() > MOST_OPEN {
            self.interim.remove(0);
        }
        may_come
    }

    fn forget_interim(&mut self, stream: u32) {
        if let Ok(at) = self.interim.binary_search_by_key(&stream, |(of, _)| *of) {
            self.interim.remove(at);
        }
    }

    fn open(&mut self, stream: u32) {
        self.forget_interim(stream);
        if let Err(at) = self.open.binary_search(&stream) {
            self.open.insert(at, stream);
        }
        if self.open.len() > MOST_OPEN {
            self.open.remove(0);
        }
    }

    fn close(&mut self, stream: u32) {
        self.forget_interim(stream);
        if let Ok(at) = self.open.binary_search(&stream) {
            self.open.remove(at);
        }
    }
}

impl Frame {
    /// `None` unless the head of the frame is here.
    fn read(bytes: &[u8]) -> Option<Self> {
        let [a, b, c, kind, flags, s0, s1, s2, s3] = *bytes.first_chunk::<FRAME_HEAD>()?;
        Some(Self {
            kind,
            flags,
            stream: u32::from_be_bytes([s0 & 0x7f, s1, s2, s3]),
            length: usize::from(a) << 16 | usize::from(b) << 8 | usize::from(c),
        })
    }

    /// Whether it is part of a body. A short frame with padding may be nothing else.
    const fn carries_data(self) -> bool {
        let least = if self.flags & PADDED == 0 { 1 } else { LONGEST_PADDING + 1 };
        self.kind == DATA && (self.length >= least || self.flags & END_STREAM != 0)
    }

    const fn has_fields(self) -> bool {
        matches!(self.kind, HEADERS | PUSH_PROMISE | CONTINUATION)
    }

    /// What of a payload belongs to the field block; `None` if the frame is not sound.
    fn block_in(self, payload: &[u8]) -> Option<&[u8]> {
        if self.kind == CONTINUATION {
            return Some(payload);
        }
        let (mut rest, mut padding) = (payload, 0);
        if self.flags & PADDED != 0 {
            let (first, after) = rest.split_first()?;
            (padding, rest) = (usize::from(*first), after);
        }
        let ahead = match self.kind {
            PUSH_PROMISE => 4,
            _ if self.flags & PRIORITY != 0 => 5,
            _ => 0,
        };
        let rest = rest.get(ahead..)?;
        rest.get(..rest.len().checked_sub(padding)?)
    }
}
