//! Decoding as a whole what is small: directories and metadata, up to a limit.

use decode::{Coding, DecodeError, Decoder, STEP_MAX};

use crate::{directory::DirectoryError, limits::Limits};

/// Decodes a pack's metadata, which is JSON text in the coding of its directories. Empty bytes are no metadata.
///
/// # Errors
/// [`DirectoryError`] if it is larger than allowed, damaged, or not text.
pub fn metadata(bytes: &[u8], coding: Coding, limits: &Limits) -> Result<String, DirectoryError> {
    if bytes.is_empty() {
        return Ok(String::new());
    }
    let text = inflate(bytes, coding, limits.metadata_bytes)?;
    String::from_utf8(text).map_err(|_| DirectoryError::NotText)
}

/// Decodes `bytes`, to `max` bytes at most.
///
/// Nothing is said about the ratio: directories of equal entries may well be a thousand times smaller than what they
/// mean, and the cap alone bounds what one may cost.
pub(crate) fn inflate(bytes: &[u8], coding: Coding, max: u64) -> Result<Vec<u8>, DirectoryError> {
    if bytes.len() as u64 > max {
        return Err(DirectoryError::TooLarge);
    }
    if coding == Coding::Identity {
        return Ok(bytes.to_vec());
    }
    let limits = decode::Limits { max_ratio: u32::MAX, slack: u64::MAX, max_bytes: max };
    let mut decoder = Decoder::new(coding, limits);
    let (mut rest, mut decoded) = (bytes, Vec::new());
    while !(rest.is_empty() && decoder.is_drained()) {
        let filled = decoded.len();
        decoded.resize(filled + STEP_MAX, 0);
        let step = decoder.decode(rest, &mut decoded[filled..])?;
        decoded.truncate(filled + step.produced);
        rest = &rest[step.consumed..];
    }
    decoder.finish()?;
    Ok(decoded)
}

impl From<DecodeError> for DirectoryError {
    fn from(error: DecodeError) -> Self {
        match error {
            DecodeError::Cap | DecodeError::Ratio | DecodeError::Parts => Self::TooLarge,
            DecodeError::Malformed | DecodeError::Trailing | DecodeError::Truncated => Self::Coding,
        }
    }
}
