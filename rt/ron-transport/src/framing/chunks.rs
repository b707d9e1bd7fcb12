//! A body in chunks: sizes in hexadecimal digits, extensions that nobody reads, trailers.

use super::{Flaw, Line};

/// How far the chunks have come.
#[derive(Clone, Debug)]
pub(super) struct Chunks(Place);

#[derive(Clone, Debug)]
enum Place {
    /// In a size; none yet.
    Size(Option<u64>),
    /// Behind the size, in white space or an extension.
    Extension(u64, Line),
    /// Behind the carriage return that ends a size without extension.
    SizeFeed(u64),
    /// In data of which so much is to come.
    Data(u64),
    DataReturn,
    DataFeed,
    /// At the beginning of a line behind the last chunk.
    TrailerStart,
    Trailer(Line),
    /// In the empty line that ends the body.
    LastLine,
}

impl Default for Chunks {
    fn default() -> Self {
        Self(Place::Size(None))
    }
}

impl Chunks {
    /// Takes bytes up to the body's end; returns how many, and whether that was the end.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(usize, bool), Flaw> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match &mut self.0 {
                Place::Data(rest) => {
                    let taken = usize::try_from(*rest).unwrap_or(usize::MAX).min(bytes.len() - at);
                    (*rest, at) = (*rest - taken as u64, at + taken);
                    if *rest == 0 {
                        self.0 = Place::DataReturn;
                    }
                    continue;
                }
                Place::Extension(_, line) | Place::Trailer(line) => {
                    let (taken, ended) = line.take(&bytes[at..])?;
                    at += taken;
                    if ended {
                        self.line_ended();
                    }
                    continue;
                }
                Place::LastLine if byte == b'\n' => return Ok((at + 1, true)),
                place => *place = step(place, byte)?,
            }
            at += 1;
        }
        Ok((at, false))
    }

    fn line_ended(&mut self) {
        self.0 = match self.0 {
            Place::Extension(size, _) => behind_size(size),
            _ => Place::TrailerStart,
        };
    }
}

/// Where one byte leads, of those that are looked at one by one.
fn step(place: &Place, byte: u8) -> Result<Place, Flaw> {
    Ok(match (place, byte) {
        (Place::Size(Some(size)), b'\r') => Place::SizeFeed(*size),
        (Place::Size(Some(size)), b';' | b' ' | b'\t') => Place::Extension(*size, Line::default()),
        (Place::Size(size), _) => {
            let digit = char::from(byte).to_digit(16).ok_or(Flaw::Chunk)?;
            let shifted = size.unwrap_or(0).checked_mul(16).ok_or(Flaw::Chunk)?;
            Place::Size(Some(shifted + u64::from(digit)))
        }
        (Place::SizeFeed(size), b'\n') => behind_size(*size),
        (Place::DataReturn, b'\r') => Place::DataFeed,
        (Place::DataFeed, b'\n') => Place::Size(None),
        (Place::TrailerStart, b'\r') => Place::LastLine,
        (Place::TrailerStart, b'\n') => return Err(Flaw::BareLineFeed),
        (Place::TrailerStart, _) => Place::Trailer(Line::default()),
        _ => return Err(Flaw::Chunk),
    })
}

/// The chunk of size 0 is the last.
const fn behind_size(size: u64) -> Place {
    if size == 0 { Place::TrailerStart } else { Place::Data(size) }
}
