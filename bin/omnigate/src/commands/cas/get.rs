//! `omnigate cas get`.

#![expect(
    clippy::disallowed_methods,
    reason = "a command that writes a file and ends; no runtime is running"
)]

use std::{
    ffi::OsString,
    fs::{self, File},
    io::{self, Write},
    ops::Range,
    path::{Path, PathBuf},
    str::FromStr,
};

use ::cas::{Cas, ReadError, Verified};
use types::ObjectId;

use super::progress::Progress;
use crate::failure::Failure;

/// The bytes that are read and checked at once.
const PIECE_LEN: u64 = 1 << 20;

/// A range as it is typed: from here to there, from here on, or so many at the end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ByteRange {
    Between(u64, u64),
    From(u64),
    Last(u64),
}

/// Writes an object, or a part of it.
pub(super) fn run(
    id: ObjectId,
    store: &Cas,
    range: Option<ByteRange>,
    output: Option<&Path>,
) -> Result<(), Failure> {
    let object = match store.open(id) {
        Ok(Some(object)) => object,
        Ok(None) => return Err(Failure::failed(format!("{id} is not stored"))),
        Err(error) => return Err(unreadable(id, &error)),
    };
    let range = match range {
        None => 0..object.len(),
        Some(range) => range.within(object.len()).ok_or_else(|| {
            Failure::failed(format!("the range is beyond the end: {id} has {} bytes", object.len()))
        })?,
    };
    match output {
        Some(path) => to_file(&object, range, path),
        None => match copy(&object, range, &mut io::stdout().lock()) {
            // Whoever reads it has seen enough.
            Err(CopyError::Write(error)) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            other => other.map_err(|error| error.told(id, "standard output")),
        },
    }
}

/// The reason why a copy ended early.
enum CopyError {
    Read(ReadError),
    Write(io::Error),
}

impl CopyError {
    fn told(&self, id: ObjectId, output: &str) -> Failure {
        match self {
            Self::Read(error) => unreadable(id, error),
            Self::Write(error) => Failure::failed(format!("cannot write {output}: {error}")),
        }
    }
}

fn unreadable(id: ObjectId, error: &ReadError) -> Failure {
    let failure = Failure::failed(format!("{id}: {error}"));
    match error {
        ReadError::Corrupt { .. } => failure.help("`omnigate cas scrub` sets aside what is corrupt"),
        _ => failure,
    }
}

fn copy(object: &Verified, range: Range<u64>, output: &mut dyn Write) -> Result<(), CopyError> {
    let mut progress = Progress::new("written", range.end - range.start);
    let mut at = range.start;
    while at < range.end {
        let end = range.end.min(at + PIECE_LEN);
        let piece = object.read(at..end).map_err(CopyError::Read)?;
        output.write_all(&piece).map_err(CopyError::Write)?;
        progress.set(end - range.start);
        at = end;
    }
    output.flush().map_err(CopyError::Write)
}

/// Whole or not at all: written beside it, then renamed.
fn to_file(object: &Verified, range: Range<u64>, path: &Path) -> Result<(), Failure> {
    let mut draft = OsString::from(path);
    draft.push(".part");
    let draft = PathBuf::from(draft);
    let write = || -> Result<(), CopyError> {
        let mut file = File::create(&draft).map_err(CopyError::Write)?;
        copy(object, range, &mut file)?;
        fs::rename(&draft, path).map_err(CopyError::Write)
    };
    write().map_err(|error| {
        // The failure is what matters, whether or not the remains can be removed.
        let _ = fs::remove_file(&draft);
        error.told(object.id(), &path.display().to_string())
    })
}

impl ByteRange {
    /// The range in an object of this length; [`None`] if there is nothing of it.
    fn within(self, len: u64) -> Option<Range<u64>> {
        let range = match self {
            Self::Between(first, last) => first..last.saturating_add(1).min(len),
            Self::From(first) => first..len,
            Self::Last(count) => len.saturating_sub(count)..len,
        };
        (!range.is_empty()).then_some(range)
    }
}

impl FromStr for ByteRange {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, &'static str> {
        const WRONG: &str = "write 0-99, 100- or -100";
        let number = |text: &str| match text.bytes().all(|digit| digit.is_ascii_digit()) {
            true => text.parse::<u64>().map_err(|_| WRONG),
            false => Err(WRONG),
        };
        match text.split_once('-').ok_or(WRONG)? {
            ("", count) => number(count).map(Self::Last),
            (first, "") => number(first).map(Self::From),
            (first, last) => match (number(first)?, number(last)?) {
                (first, last) if first <= last => Ok(Self::Between(first, last)),
                _ => Err(WRONG),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_read_as_they_are_in_requests() {
        for (text, of_ten) in [
            ("0-0", Some(0..1)),
            ("3-5", Some(3..6)),
            ("9-99", Some(9..10)),
            ("10-11", None),
            ("4-", Some(4..10)),
            ("10-", None),
            ("-3", Some(7..10)),
            ("-30", Some(0..10)),
            ("-0", None),
            ("0-18446744073709551615", Some(0..10)),
        ] {
            let range: ByteRange = text.parse().unwrap_or_else(|wrong| panic!("{text}: {wrong}"));
            assert_eq!(range.within(10), of_ten, "{text}");
        }
        assert_eq!(ByteRange::Last(5).within(0), None, "there is nothing of an empty object");
    }

    #[test]
    fn what_is_no_range_is_refused() {
        for text in ["", "-", "5", "5-3", "a-b", "1-2-3", "+1-2", "-18446744073709551616", "1 - 2"] {
            assert!(text.parse::<ByteRange>().is_err(), "{text}");
        }
    }
}
