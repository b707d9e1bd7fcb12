//! Encoders of response bodies: gzip and zstd, in bounded steps, flushed whenever a reader waits.
//!
//! An [`Encoder`] takes at most [`STEP_MAX`] bytes at a time, so that a caller that shares its thread with other
//! tasks decides how long it works. [`Encoder::flush`] returns what was taken and not yet written, so that a reader
//! that waits for the next event of a stream does not wait for the encoder.
//!
//! Memory of an encoder, at most: 320 KiB (gzip), 2 MiB (zstd); see [`Coding::memory`].
//!
//! ```
//! use encode::{Coding, Encoder};
//!
//! let mut encoder = Encoder::new(Coding::Gzip).expect("memory");
//! let mut encoded = Vec::new();
//! assert_eq!(encoder.encode(b"hello, hello, hello", &mut encoded).expect("room"), 19);
//! encoder.finish(&mut encoded).expect("room");
//! assert!(encoded.starts_with(b"\x1f\x8b\x08"));
//! ```

use std::io::{self, Write};

use flate2::{Compression, write::GzEncoder};
use zstd::zstd_safe::CParameter;

/// The most bytes that one step takes.
pub const STEP_MAX: usize = 16 * 1024;

/// Compresses text to a third or less at some 100 MB/s; higher levels gain a few per cent for a multiple of the time.
const GZIP_LEVEL: u32 = 4;
/// Compression level of zstd, chosen for speed like the level of gzip.
const ZSTD_LEVEL: i32 = 3;
/// How far back zstd looks, as a power of two: 256 KiB. Readers need as much memory.
const ZSTD_WINDOW_LOG: u32 = 18;

/// A content coding that responses can be compressed with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// The gzip format (RFC 1952).
    Gzip,
    /// The Zstandard format (RFC 8878).
    Zstd,
}

impl Coding {
    /// Its name in `Accept-Encoding` and `Content-Encoding`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Zstd => "zstd",
        }
    }

    /// The coding of this name.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        [Self::Gzip, Self::Zstd].into_iter().find(|coding| coding.name() == name)
    }

    /// The most bytes that an encoder of it holds.
    #[must_use]
    pub const fn memory(self) -> u64 {
        match self {
            Self::Gzip => 320 * 1024,
            Self::Zstd => 2 * 1024 * 1024,
        }
    }
}

/// An encoder of one body.
pub struct Encoder {
    engine: Engine,
    /// Whether it has taken bytes since it was last flushed.
    holds_back: bool,
}

enum Engine {
    Gzip(GzEncoder<Vec<u8>>),
    Zstd(zstd::stream::write::Encoder<'static, Vec<u8>>),
}

impl Encoder {
    /// An encoder of this coding.
    ///
    /// # Errors
    /// The library's, if there is no memory.
    pub fn new(coding: Coding) -> io::Result<Self> {
        let engine = match coding {
            Coding::Gzip => Engine::Gzip(GzEncoder::new(Vec::new(), Compression::new(GZIP_LEVEL))),
            Coding::Zstd => {
                let mut encoder = zstd::stream::write::Encoder::new(Vec::new(), ZSTD_LEVEL)?;
                encoder.set_parameter(CParameter::WindowLog(ZSTD_WINDOW_LOG))?;
                Engine::Zstd(encoder)
            }
        };
        Ok(Self { engine, holds_back: false })
    }

    /// Takes bytes from the front of `input`, at most [`STEP_MAX`], and appends what is ready of their coding to `out`.
    /// Returns how many were taken.
    ///
    /// # Errors
    /// The library's; it has none for a sound encoder.
    pub fn encode(&mut self, input: &[u8], out: &mut Vec<u8>) -> io::Result<usize> {
        let taken = &input[..input.len().min(STEP_MAX)];
        match &mut self.engine {
            Engine::Gzip(gzip) => gzip.write_all(taken)?,
            Engine::Zstd(zstd) => zstd.write_all(taken)?,
        }
        self.holds_back |= !taken.is_empty();
        self.hand_over(out);
        Ok(taken.len())
    }

    /// Whether it may hold bytes that it was given and that no reader can have decoded yet.
    #[must_use]
    pub const fn holds_back(&self) -> bool {
        self.holds_back
    }

    /// Appends everything that was taken so far to `out`, so that a reader can decode it.
    ///
    /// # Errors
    /// See [`Encoder::encode`].
    pub fn flush(&mut self, out: &mut Vec<u8>) -> io::Result<()> {
        match &mut self.engine {
            Engine::Gzip(gzip) => gzip.flush()?,
            Engine::Zstd(zstd) => zstd.flush()?,
        }
        self.holds_back = false;
        self.hand_over(out);
        Ok(())
    }

    /// Appends the end of the body to `out`.
    ///
    /// # Errors
    /// See [`Encoder::encode`].
    pub fn finish(self, out: &mut Vec<u8>) -> io::Result<()> {
        let rest = match self.engine {
            Engine::Gzip(gzip) => gzip.finish()?,
            Engine::Zstd(zstd) => zstd.finish()?,
        };
        out.extend_from_slice(&rest);
        Ok(())
    }

    fn hand_over(&mut self, out: &mut Vec<u8>) {
        let ready = match &mut self.engine {
            Engine::Gzip(gzip) => gzip.get_mut(),
            Engine::Zstd(zstd) => zstd.get_mut(),
        };
        out.append(ready);
    }
}

impl std::fmt::Debug for Encoder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let coding = match self.engine {
            Engine::Gzip(_) => Coding::Gzip,
            Engine::Zstd(_) => Coding::Zstd,
        };
        f.debug_struct("Encoder").field("coding", &coding).finish_non_exhaustive()
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::io::Read;

    use proptest::prelude::*;

    use super::*;

    const CODINGS: [Coding; 2] = [Coding::Gzip, Coding::Zstd];

    /// What a reader can decode of bytes that may be cut.
    fn decoded(coding: Coding, bytes: &[u8]) -> Vec<u8> {
        let mut plain = Vec::new();
        // A body that is cut is decoded as far as it goes.
        let _ = match coding {
            Coding::Gzip => flate2::read::GzDecoder::new(bytes).read_to_end(&mut plain),
            Coding::Zstd => zstd::stream::read::Decoder::new(bytes).unwrap().read_to_end(&mut plain),
        };
        plain
    }

    fn encoded(coding: Coding, pieces: &[Vec<u8>], flush: bool) -> Vec<u8> {
        let (mut encoder, mut out) = (Encoder::new(coding).unwrap(), Vec::new());
        for piece in pieces {
            let mut rest = &piece[..];
            while !rest.is_empty() {
                let taken = encoder.encode(rest, &mut out).unwrap();
                assert!((1..=STEP_MAX).contains(&taken));
                rest = &rest[taken..];
            }
            if flush {
                encoder.flush(&mut out).unwrap();
            }
        }
        encoder.finish(&mut out).unwrap();
        out
    }

    #[test]
    fn what_was_flushed_can_be_read_before_the_end() {
        for coding in CODINGS {
            let (mut encoder, mut out) = (Encoder::new(coding).unwrap(), Vec::new());
            assert!(!encoder.holds_back());
            encoder.encode(b"data: first\n\n", &mut out).unwrap();
            assert!(encoder.holds_back());
            encoder.flush(&mut out).unwrap();
            assert!(!encoder.holds_back());
            assert_eq!(decoded(coding, &out), b"data: first\n\n", "{coding:?}");
            encoder.encode(b"data: second\n\n", &mut out).unwrap();
            encoder.flush(&mut out).unwrap();
            assert_eq!(decoded(coding, &out), b"data: first\n\ndata: second\n\n", "{coding:?}");
        }
    }

    #[test]
    fn a_step_takes_so_much_and_no_more_and_an_empty_body_is_one() {
        for coding in CODINGS {
            let (mut encoder, mut out) = (Encoder::new(coding).unwrap(), Vec::new());
            assert_eq!(encoder.encode(&[7; STEP_MAX + 1], &mut out).unwrap(), STEP_MAX);
            assert_eq!(encoder.encode(&[7; STEP_MAX], &mut out).unwrap(), STEP_MAX);
            encoder.finish(&mut out).unwrap();
            assert_eq!(decoded(coding, &out), [7; 2 * STEP_MAX], "{coding:?}");
            assert_eq!(decoded(coding, &encoded(coding, &[], false)), b"", "{coding:?}");
        }
    }

    #[test]
    fn names_are_those_of_the_registry() {
        assert_eq!(Coding::named("gzip"), Some(Coding::Gzip));
        assert_eq!(Coding::named("zstd"), Some(Coding::Zstd));
        assert_eq!(Coding::named("br"), None);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]
        #[test]
        fn whatever_is_encoded_is_read_again(
            pieces in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40_000), 0..6),
            flush: bool,
        ) {
            for coding in CODINGS {
                prop_assert_eq!(decoded(coding, &encoded(coding, &pieces, flush)), pieces.concat());
            }
        }
    }
}
