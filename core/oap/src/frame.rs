//! Frames: where one ends and the next begins, before anything is known of what they say.
//!
//! `u32 length · u8 kind · u8 flags · u16 header length · u32 stream · header · body · u32 checksum, where agreed`,
//! big-endian. The length counts what comes after it.

use bytes::{Buf, BufMut, Bytes, BytesMut};

use crate::{code::ErrorCode, crc32c::crc32c};

/// The longest frame there may be, counted as in its length field.
pub const FRAME_MAX: u32 = 1024 * 1024;

/// The least that a node may ask others to keep their frames to: every message that the rules allow fits.
pub const FRAME_FLOOR: u32 = 128 * 1024;

/// The longest frame before HELLO: who has not introduced itself gets no more memory than that.
pub const HELLO_FRAME_MAX: u32 = 64 * 1024;

/// The bytes of the length field.
pub(crate) const LENGTH_LEN: usize = 4;

/// Kind, flags, header length and stream: what every frame has after its length.
pub(crate) const FIXED_LEN: usize = 8;

/// The bytes of a checksum.
const CHECKSUM_LEN: usize = 4;

/// A whole frame, with its parts where they were received: they share one piece of memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RawFrame {
    /// The kind of frame, as the peer sent it.
    pub kind: u8,
    /// What the kind makes of them.
    pub flags: u8,
    /// The stream it belongs to.
    pub stream: u32,
    /// The fields of its kind.
    pub header: Bytes,
    /// The payload of the frame.
    pub body: Bytes,
}

/// The bytes are no frames. There is no way to find the next one: the connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// Longer than was agreed.
    #[error("a frame of {len} bytes, where {max} are allowed")]
    TooLong {
        /// The announced length of the frame.
        len: u32,
        /// The agreed maximum.
        max: u32,
    },
    /// Shorter than the parts that every frame has.
    #[error("a frame of {len} bytes, too short for what every frame has")]
    TooShort {
        /// The announced length of the frame.
        len: u32,
    },
    /// Its header would be longer than itself.
    #[error("a header that is longer than its frame")]
    Header,
    /// The checksum is not that of the frame.
    #[error("a checksum that is not the frame's")]
    Checksum,
}

impl FrameError {
    /// Returns the error code that is sent to the peer.
    #[must_use]
    pub fn code(self) -> ErrorCode {
        match self {
            Self::TooLong { .. } => ErrorCode::FrameCap,
            Self::TooShort { .. } | Self::Header => ErrorCode::Malformed,
            Self::Checksum => ErrorCode::Checksum,
        }
    }
}

/// Takes frames from the front of what was received, however it was cut into pieces.
///
/// It keeps nothing itself: what is not a whole frame yet stays in the caller's buffer, which never needs to hold more
/// than one frame of the agreed length and what was received behind it.
#[derive(Clone, Copy, Debug)]
pub struct Decoder {
    max_frame: u32,
    has_checksums: bool,
}

impl Default for Decoder {
    /// For the first frame of a connection, which has to be HELLO.
    fn default() -> Self {
        Self::new(HELLO_FRAME_MAX, false)
    }
}

impl Decoder {
    /// For frames of up to `max_frame` bytes (at most [`FRAME_MAX`]), with checksums or without.
    #[must_use]
    pub fn new(max_frame: u32, has_checksums: bool) -> Self {
        Self { max_frame: max_frame.min(FRAME_MAX), has_checksums }
    }

    /// The next frame, if all of it has been received.
    ///
    /// # Errors
    /// [`FrameError`]. A length that is too long is refused by its four bytes, before there is room for the rest.
    pub fn next(&self, received: &mut BytesMut) -> Result<Option<RawFrame>, FrameError> {
        let missing = self.missing(received)?;
        if missing > 0 {
            return Ok(None);
        }
        let len = LENGTH_LEN + self.length(received)?.unwrap_or_default();
        let mut frame = received.split_to(len).freeze();
        if self.has_checksums {
            let checksum = frame.split_off(len - CHECKSUM_LEN).get_u32();
            if checksum != crc32c(&frame) {
                return Err(FrameError::Checksum);
            }
        }
        frame.advance(LENGTH_LEN);
        let (kind, flags, header_len, stream) =
            (frame.get_u8(), frame.get_u8(), usize::from(frame.get_u16()), frame.get_u32());
        if header_len > frame.len() {
            return Err(FrameError::Header);
        }
        let body = frame.split_off(header_len);
        Ok(Some(RawFrame { kind, flags, stream, header: frame, body }))
    }

    /// How many bytes are to be received at least before there is another frame: what to make room for.
    ///
    /// # Errors
    /// [`FrameError`] if the length that was received cannot be right.
    pub fn missing(&self, received: &BytesMut) -> Result<usize, FrameError> {
        let len = self.length(received)?.unwrap_or_default();
        Ok((LENGTH_LEN + len).saturating_sub(received.len()))
    }

    /// The length of the first frame, once it has been received.
    fn length(&self, received: &BytesMut) -> Result<Option<usize>, FrameError> {
        let Some(length) = received.first_chunk::<LENGTH_LEN>() else { return Ok(None) };
        let len = u32::from_be_bytes(*length);
        let least = if self.has_checksums { FIXED_LEN + CHECKSUM_LEN } else { FIXED_LEN };
        if len > self.max_frame {
            return Err(FrameError::TooLong { len, max: self.max_frame });
        }
        match usize::try_from(len) {
            Ok(len) if len >= least => Ok(Some(len)),
            _ => Err(FrameError::TooShort { len }),
        }
    }
}

/// Appends a frame that was encoded without a checksum, with one: what is encoded once for all peers serves those with
/// and those without.
pub fn put_with_checksum(encoded: &[u8], out: &mut BytesMut) {
    let start = out.len();
    let len = encoded.len() - LENGTH_LEN + CHECKSUM_LEN;
    out.reserve(LENGTH_LEN + len);
    out.put_u32(u32::try_from(len).expect("frames are at most 1 MiB long"));
    out.put_slice(&encoded[LENGTH_LEN..]);
    let checksum = crc32c(&out[start..]);
    out.put_u32(checksum);
}
