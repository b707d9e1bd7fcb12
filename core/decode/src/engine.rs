//! The codecs behind one face: some bytes in, some bytes out, and whether the stream is at its end.

use brotli_decompressor::{BrotliDecompressStream, BrotliResult, BrotliState, SliceWrapper};
use flate2::{Decompress, FlushDecompress, Status};
use zstd::stream::raw::{DParameter, Operation};

use crate::{Coding, DecodeError, Step, counted::Counted};

/// The largest window of a deflate stream, as a power of two; all decoders must know it.
const DEFLATE_WINDOW: u8 = 15;
/// The largest window of a zstd frame, as a power of two: what HTTP allows (RFC 9659).
const ZSTD_WINDOW: u32 = 23;

/// What an inflater holds, window and all.
const INFLATE_BYTES: usize = 48 * 1024;
/// What a zstd decoder holds beside its window: its tables and two blocks.
const ZSTD_BYTES: usize = 448 * 1024;

type Brotli = BrotliState<Counted, Counted, Counted>;

/// The state of a codec.
pub(crate) enum Engine {
    Identity,
    Gzip(Decompress),
    Deflate(Deflate),
    Brotli(Box<Brotli>),
    Zstd(zstd::stream::raw::Decoder<'static>),
}

impl Engine {
    pub(crate) fn new(coding: Coding) -> Self {
        match coding {
            Coding::Identity => Self::Identity,
            Coding::Gzip => Self::Gzip(Decompress::new_gzip(DEFLATE_WINDOW)),
            Coding::Deflate => Self::Deflate(Deflate::Unknown { first: None }),
            Coding::Brotli => {
                let alloc = Counted::default;
                // Strict: without windows beyond the 16 MiB of the standard.
                Self::Brotli(Box::new(BrotliState::new_strict(alloc(), alloc(), alloc())))
            }
            Coding::Zstd => Self::Zstd(zstd_decoder()),
        }
    }

    /// One run of the codec.
    pub(crate) fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        match self {
            Self::Identity => {
                let len = input.len().min(output.len());
                output[..len].copy_from_slice(&input[..len]);
                Ok(Step { consumed: len, produced: len, finished: true })
            }
            Self::Gzip(inflate) => run_inflate(inflate, input, output),
            Self::Deflate(deflate) => deflate.run(input, output),
            Self::Brotli(state) => run_brotli(state, input, output),
            Self::Zstd(decoder) => {
                let status = decoder.run_on_buffers(input, output).map_err(|_| DecodeError::Malformed)?;
                let finished = status.remaining == 0;
                Ok(Step { consumed: status.bytes_read, produced: status.bytes_written, finished })
            }
        }
    }

    /// What it holds: beside its window, and of the window when it is full.
    pub(crate) fn memory(&self) -> (usize, usize) {
        match self {
            Self::Identity | Self::Deflate(Deflate::Unknown { .. }) => (0, 0),
            Self::Gzip(_) | Self::Deflate(Deflate::Known(_)) => (INFLATE_BYTES, 0),
            Self::Brotli(state) => {
                let window = state.ringbuffer.slice().len();
                let all = state.alloc_u8.bytes() + state.alloc_u32.bytes() + state.alloc_hc.bytes();
                (all.saturating_sub(window) + size_of::<Brotli>(), window)
            }
            Self::Zstd(_) => (ZSTD_BYTES, 1 << ZSTD_WINDOW),
        }
    }

    /// Prepares for bytes behind the end of a stream, where the coding allows them.
    pub(crate) fn go_on(&mut self) -> Result<(), DecodeError> {
        match self {
            Self::Identity | Self::Zstd(_) => Ok(()),
            Self::Gzip(inflate) => {
                // Its own reset would forget that this is gzip.
                *inflate = Decompress::new_gzip(DEFLATE_WINDOW);
                Ok(())
            }
            Self::Deflate(_) | Self::Brotli(_) => Err(DecodeError::Trailing),
        }
    }
}

/// `deflate` means a zlib stream, but some clients send one without its header and checksum. The first two bytes tell.
pub(crate) enum Deflate {
    Unknown { first: Option<u8> },
    Known(Decompress),
}

impl Deflate {
    fn run(&mut self, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
        match self {
            Self::Known(inflate) => run_inflate(inflate, input, output),
            Self::Unknown { first } => match (*first, input) {
                (_, []) => Ok(Step::default()),
                (None, [only]) => {
                    *first = Some(*only);
                    Ok(Step { consumed: 1, ..Step::default() })
                }
                (None, [one, two, ..]) => {
                    *self = Self::Known(Decompress::new(is_zlib_header(*one, *two)));
                    self.run(input, output)
                }
                (Some(one), [two, ..]) => {
                    let mut inflate = Decompress::new(is_zlib_header(one, *two));
                    // One byte is too few to decode to anything; it has been counted when it was put aside.
                    run_inflate(&mut inflate, &[one], output)?;
                    *self = Self::Known(inflate);
                    self.run(input, output)
                }
            },
        }
    }
}

/// Whether two bytes are the header of a zlib stream (RFC 1950, 2.2): method 8, a window of at most 32 KiB, and a check.
const fn is_zlib_header(one: u8, two: u8) -> bool {
    one & 0x0f == 8 && one >> 4 <= 7 && u16::from_be_bytes([one, two]).is_multiple_of(31)
}

fn run_inflate(inflate: &mut Decompress, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
    let (read, written) = (inflate.total_in(), inflate.total_out());
    let status = inflate.decompress(input, output, FlushDecompress::None);
    let finished = status.map_err(|_| DecodeError::Malformed)? == Status::StreamEnd;
    let moved = |after: u64, before: u64| usize::try_from(after - before).unwrap_or(usize::MAX);
    let (consumed, produced) = (moved(inflate.total_in(), read), moved(inflate.total_out(), written));
    Ok(Step { consumed, produced, finished })
}

fn run_brotli(state: &mut Brotli, input: &[u8], output: &mut [u8]) -> Result<Step, DecodeError> {
    let (mut to_read, mut consumed) = (input.len(), 0);
    let (mut to_write, mut produced, mut total) = (output.len(), 0, 0);
    let result = BrotliDecompressStream(
        &mut to_read,
        &mut consumed,
        input,
        &mut to_write,
        &mut produced,
        output,
        &mut total,
        state,
    );
    let finished = match result {
        BrotliResult::ResultSuccess => true,
        BrotliResult::NeedsMoreInput | BrotliResult::NeedsMoreOutput => false,
        BrotliResult::ResultFailure => return Err(DecodeError::Malformed),
    };
    Ok(Step { consumed, produced, finished })
}

fn zstd_decoder() -> zstd::stream::raw::Decoder<'static> {
    let mut decoder = zstd::stream::raw::Decoder::new().expect("memory for it, as for any other value");
    decoder.set_parameter(DParameter::WindowLogMax(ZSTD_WINDOW)).expect("the window is one that zstd knows");
    decoder
}
