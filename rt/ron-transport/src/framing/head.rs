//! A request's head: lines up to an empty one, and of them the two fields that frame the body.

use super::{Body, Flaw, Line};

/// The fields that matter, up to and with the colon.
const CONTENT_LENGTH: &[u8] = b"content-length:";
const TRANSFER_ENCODING: &[u8] = b"transfer-encoding:";

/// The longest body that the library can count; it takes a longer one for a head that is too large.
const LONGEST: u64 = u64::MAX - 2;

/// How far a head has come.
#[derive(Clone, Debug)]
pub(super) struct Head {
    place: Place,
    length: Option<u64>,
    chunked: bool,
}

#[derive(Clone, Debug)]
enum Place {
    /// At the beginning of a line after the first.
    LineStart,
    /// In the empty line that ends the head.
    LastLine,
    /// In a name that has agreed with one of those that matter so far.
    Name { name: &'static [u8], matched: usize },
    /// In the value of a `Content-Length`.
    Length(Number),
    /// In anything else.
    Line(Line),
}

/// A decimal number with white space around it.
#[derive(Clone, Copy, Debug, Default)]
struct Number {
    value: Option<u64>,
    place: NumberPlace,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum NumberPlace {
    #[default]
    Digits,
    SpaceBehind,
    LineEnd,
}

impl Default for Head {
    /// At the request line.
    fn default() -> Self {
        Self { place: Place::Line(Line::default()), length: None, chunked: false }
    }
}

impl Head {
    /// Takes bytes up to the head's end; returns how many, and how the body is framed if that was the end.
    pub(super) fn take(&mut self, bytes: &[u8]) -> Result<(usize, Option<Body>), Flaw> {
        let mut at = 0;
        while let Some(&byte) = bytes.get(at) {
            match &mut self.place {
                Place::Line(line) => {
                    let (taken, ended) = line.take(&bytes[at..])?;
                    at += taken;
                    if ended {
                        self.place = Place::LineStart;
                    }
                    continue;
                }
                Place::LineStart => {
                    self.place = line_beginning_with(byte)?;
                    if let Place::Name { name, .. } = self.place
                        && let Some(start) = bytes.get(at..at + name.len())
                    {
                        // Nearly always the whole name is here; byte by byte it would cost ten times as much.
                        at += self.whole_name(name, start)?;
                        continue;
                    }
                }
                Place::LastLine if byte == b'\n' => return Ok((at + 1, Some(self.body()))),
                // A carriage return inside a line; the library says so.
                Place::LastLine => self.place = Place::Line(Line::after(byte)),
                Place::Name { name, matched } => {
                    if !byte.eq_ignore_ascii_case(&name[*matched]) {
                        self.place = Place::Line(Line::default());
                        // The byte may be the one that ends the line.
                        continue;
                    }
                    *matched += 1;
                    if *matched == name.len() {
                        let name = *name;
                        self.field(name)?;
                    }
                }
                Place::Length(number) => {
                    if let Some(length) = number.take(byte)? {
                        self.has_length(length)?;
                        self.place = Place::LineStart;
                    }
                }
            }
            at += 1;
        }
        Ok((at, None))
    }

    /// A line begins with as many bytes as a name that matters has; returns how many of them are taken.
    fn whole_name(&mut self, name: &'static [u8], start: &[u8]) -> Result<usize, Flaw> {
        if start.eq_ignore_ascii_case(name) {
            self.field(name)?;
            return Ok(name.len());
        }
        self.place = Place::Line(Line::default());
        Ok(0)
    }

    /// One of the fields that matter stands at its value.
    fn field(&mut self, name: &'static [u8]) -> Result<(), Flaw> {
        if name == CONTENT_LENGTH {
            self.place = Place::Length(Number::default());
            return if self.chunked { Err(Flaw::TwoFramings) } else { Ok(()) };
        }
        self.place = Place::Line(Line::default());
        self.chunked = true;
        if self.length.is_some() { Err(Flaw::TwoFramings) } else { Ok(()) }
    }

    fn has_length(&mut self, length: u64) -> Result<(), Flaw> {
        match self.length.replace(length) {
            Some(before) if before != length => Err(Flaw::Length),
            _ => Ok(()),
        }
    }

    /// The library refuses a transfer coding whose last is not `chunked`.
    fn body(&self) -> Body {
        if self.chunked { Body::Chunked } else { Body::Sized(self.length.unwrap_or(0)) }
    }
}

fn line_beginning_with(byte: u8) -> Result<Place, Flaw> {
    Ok(match byte {
        b'\n' => return Err(Flaw::BareLineFeed),
        b'\r' => Place::LastLine,
        b'c' | b'C' => Place::Name { name: CONTENT_LENGTH, matched: 1 },
        b't' | b'T' => Place::Name { name: TRANSFER_ENCODING, matched: 1 },
        _ => Place::Line(Line::default()),
    })
}

impl Number {
    /// Takes one byte; returns the number if that ended the line.
    fn take(&mut self, byte: u8) -> Result<Option<u64>, Flaw> {
        self.place = match (self.place, byte) {
            (NumberPlace::Digits, b'0'..=b'9') => {
                let shifted = self.value.unwrap_or(0).checked_mul(10);
                let value = shifted.and_then(|value| value.checked_add(u64::from(byte - b'0')));
                self.value = Some(value.filter(|value| *value <= LONGEST).ok_or(Flaw::Length)?);
                NumberPlace::Digits
            }
            (NumberPlace::Digits, b' ' | b'\t') if self.value.is_none() => NumberPlace::Digits,
            (NumberPlace::Digits | NumberPlace::SpaceBehind, b' ' | b'\t') => NumberPlace::SpaceBehind,
            (NumberPlace::Digits | NumberPlace::SpaceBehind, b'\r') => NumberPlace::LineEnd,
            (NumberPlace::LineEnd, b'\n') => return self.value.map(Some).ok_or(Flaw::Length),
            (_, b'\n') => return Err(Flaw::BareLineFeed),
            _ => return Err(Flaw::Length),
        };
        Ok(None)
    }
}
