//! A message on its way out: its head and as much of its body as is there, in as few writes as possible.

use std::{
    io::{self, IoSlice, Write},
    pin::Pin,
    task::{Context, Poll, ready},
};

use bytes::{Buf, Bytes};
use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Body as HttpBody;
use tokio::io::AsyncWrite;

use crate::{Body, BodyError, trailers};

/// Pieces up to this length are copied behind what is to be written anyway.
const SMALL: usize = 2 * 1024;
/// The end of a chunked body.
const LAST_CHUNK: &[u8] = b"0\r\n\r\n";

/// Puts several pieces behind each other.
pub(crate) fn put(out: &mut Vec<u8>, parts: &[&[u8]]) {
    parts.iter().for_each(|part| out.extend_from_slice(part));
}

/// How the receiver is told where a body ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Announced {
    /// By its length; this much is left of it.
    Length(u64),
    /// By chunks, and with the trailers that this `Trailer` field names.
    Chunked(Option<HeaderValue>),
    /// By the end of the connection.
    Connection,
}

/// Why a message was not sent as a whole.
#[derive(Debug)]
pub(crate) enum Unfinished {
    /// The body of the message failed.
    Body(BodyError),
    /// The receiver takes no more.
    Wire(io::Error),
}

/// What is to be written. Empty between messages.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// The head, the frames of chunks, and pieces that are small.
    small: Vec<u8>,
    /// How much of that is written.
    written: usize,
    /// A piece of the body that is not small, and follows.
    piece: Bytes,
    /// The bytes that end the current piece.
    piece_end: &'static [u8],
    /// What the rest of the body comes from.
    upload: Option<(Body, Announced)>,
    writes: u64,
}

impl Outbox {
    /// Where the head of a message is to be put.
    pub(crate) fn head(&mut self) -> &mut Vec<u8> {
        &mut self.small
    }

    /// Has a body follow.
    pub(crate) fn follow(&mut self, body: Body, announced: Announced) {
        self.upload = Some((body, announced));
    }

    /// Lets go of a body that failed; what was taken of it before is still to be written.
    pub(crate) fn give_up_body(&mut self) {
        self.upload = None;
    }

    /// Returns how often bytes were written.
    pub(crate) fn writes(&self) -> u64 {
        self.writes
    }

    /// Returns true if everything is written.
    pub(crate) fn is_done(&self) -> bool {
        self.upload.is_none() && self.is_empty()
    }

    /// Gives its buffer up if nothing is in it.
    pub(crate) fn rest(&mut self) {
        if self.is_done() {
            self.small = Vec::new();
        }
    }

    fn is_empty(&self) -> bool {
        self.small.is_empty() && self.piece.is_empty() && self.piece_end.is_empty()
    }

    /// Writes what can be written. Ready once all of it is, or no more of it can be.
    pub(crate) fn poll_send<IO: AsyncWrite + Unpin>(
        &mut self,
        io: &mut IO,
        cx: &mut Context<'_>,
    ) -> Poll<Result<(), Unfinished>> {
        loop {
            self.take_from_body(cx).map_err(Unfinished::Body)?;
            if self.is_empty() {
                ready!(Pin::new(&mut *io).poll_flush(cx)).map_err(Unfinished::Wire)?;
                return if self.upload.is_none() { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
            match ready!(self.poll_write(io, cx)) {
                Ok(0) => return Poll::Ready(Err(Unfinished::Wire(io::ErrorKind::WriteZero.into()))),
                Ok(written) => self.advance(written),
                Err(error) => return Poll::Ready(Err(Unfinished::Wire(error))),
            }
        }
    }

    fn poll_write<IO: AsyncWrite + Unpin>(
        &mut self,
        io: &mut IO,
        cx: &mut Context<'_>,
    ) -> Poll<io::Result<usize>> {
        let rest = &self.small[self.written..];
        if self.piece.is_empty() && self.piece_end.is_empty() {
            return Pin::new(io).poll_write(cx, rest);
        }
        let pieces = [IoSlice::new(rest), IoSlice::new(&self.piece), IoSlice::new(self.piece_end)];
        Pin::new(io).poll_write_vectored(cx, &pieces)
    }

    fn advance(&mut self, written: usize) {
        self.writes += 1;
        let of_small = written.min(self.small.len() - self.written);
        self.written += of_small;
        if self.written == self.small.len() {
            self.small.clear();
            self.written = 0;
        }
        let of_piece = (written - of_small).min(self.piece.len());
        self.piece.advance(of_piece);
        self.piece_end = &self.piece_end[written - of_small - of_piece..];
    }

    /// Takes what is there of the body, up to a piece that is not small.
    fn take_from_body(&mut self, cx: &mut Context<'_>) -> Result<(), BodyError> {
        while self.piece.is_empty()
            && self.piece_end.is_empty()
            && self.small.len() <= SMALL
            && let Some((body, announced)) = &mut self.upload
        {
            let Poll::Ready(frame) = Pin::new(body).poll_frame(cx) else { break };
            let Some(frame) = frame.transpose()? else {
                match announced {
                    Announced::Length(0) | Announced::Connection => {}
                    Announced::Length(_) => return Err(BodyError::new("it is shorter than announced")),
                    Announced::Chunked(_) => self.small.extend_from_slice(LAST_CHUNK),
                }
                self.upload = None;
                break;
            };
            match frame.into_data() {
                Ok(data) => self.add(data)?,
                Err(other) => {
                    if let Ok(trailers) = other.into_trailers() {
                        self.end_with(trailers);
                    }
                }
            }
        }
        Ok(())
    }

    /// Ends a chunked body with those of its trailers that were announced.
    fn end_with(&mut self, mut trailers: HeaderMap) {
        let Some((_, Announced::Chunked(Some(announced)))) = &self.upload else { return };
        let announced = announced.as_bytes().split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
        trailers::clean(&mut trailers);
        self.small.extend_from_slice(b"0\r\n");
        for name in announced.filter_map(|name| HeaderName::from_bytes(name).ok()) {
            for value in trailers.get_all(&name) {
                put(&mut self.small, &[name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"]);
            }
            trailers.remove(name);
        }
        self.small.extend_from_slice(b"\r\n");
        self.upload = None;
    }

    fn add(&mut self, data: Bytes) -> Result<(), BodyError> {
        let Some((_, announced)) = &mut self.upload else { return Ok(()) };
        let end: &[u8] = match announced {
            _ if data.is_empty() => return Ok(()),
            Announced::Length(left) => {
                let longer = || BodyError::new("it is longer than announced");
                *left = left.checked_sub(data.len() as u64).ok_or_else(longer)?;
                b""
            }
            Announced::Connection => b"",
            Announced::Chunked(_) => {
                let framed = write!(self.small, "{:x}\r\n", data.len());
                framed.expect("memory can be written to");
                b"\r\n"
            }
        };
        if matches!(announced, Announced::Length(0)) {
            // Nothing can follow, so nothing is waited for.
            self.upload = None;
        }
        if data.len() <= SMALL {
            self.small.extend_from_slice(&data);
            self.small.extend_from_slice(end);
        } else {
            (self.piece, self.piece_end) = (data, end);
        }
        Ok(())
    }
}
