//! Reads everything that is stored, so that rot is found before somebody asks for it.

use std::{io, ops::ControlFlow};

use types::ObjectId;

use crate::{
    store::{Cas, Fate},
    verified::ReadError,
};

/// How far a scrub has got.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ScrubProgress {
    /// Objects that have been looked at.
    pub objects_done: u64,
    /// Objects there were at the start.
    pub objects: u64,
    /// Bytes that have been checked.
    pub bytes_done: u64,
    /// Bytes there were at the start.
    pub bytes: u64,
}

/// The result of a scrub.
#[derive(Debug, Default)]
pub struct ScrubReport {
    /// How many objects and bytes were checked so far.
    pub progress: ScrubProgress,
    /// Objects whose tree was damaged and has been rebuilt.
    pub repaired: Vec<ObjectId>,
    /// Objects that were corrupt and have been set aside.
    pub quarantined: Vec<ObjectId>,
    /// Objects that could not be read, or not be moved though they are corrupt, and why.
    pub unreadable: Vec<(ObjectId, io::Error)>,
    /// Whether it was stopped before the end.
    pub stopped: bool,
}

impl Cas {
    /// Checks every object; sets aside what is corrupt. The callback is told of the progress after each MiB or object,
    /// and says whether to go on. Others can read and write meanwhile; what comes in is not looked at.
    pub fn scrub(&self, mut progress: impl FnMut(ScrubProgress) -> ControlFlow<()>) -> ScrubReport {
        let stat = self.stat();
        let mut report = ScrubReport::default();
        report.progress.bytes = stat.object_bytes;
        report.progress.objects = stat.objects;
        for id in self.ids() {
            let mut step = |bytes| {
                report.progress.bytes_done += bytes;
                progress(report.progress)
            };
            let looked =
                self.open(id).and_then(|found| found.map_or(Ok(true), |object| object.check(&mut step)));
            report.stopped = match looked {
                Ok(finished) => !finished,
                Err(error) => {
                    report.look_into(self, id, error);
                    false
                }
            };
            if report.stopped {
                break;
            }
            report.progress.objects_done += 1;
            if progress(report.progress).is_break() {
                report.stopped = true;
                break;
            }
        }
        report
    }
}

impl ScrubReport {
    /// Whether every object was looked at and was, or is now, what it should be.
    #[must_use]
    pub fn is_clean(&self) -> bool {
        !self.stopped && self.quarantined.is_empty() && self.unreadable.is_empty()
    }

    fn look_into(&mut self, cas: &Cas, id: ObjectId, error: ReadError) {
        let fate = match error {
            ReadError::Io(error) => Err(ReadError::Io(error)),
            ReadError::Corrupt { .. } | ReadError::OutOfRange => cas.quarantine(id),
        };
        match fate {
            Ok(Fate::Missing | Fate::Sound) => {}
            Ok(Fate::Repaired) => self.repaired.push(id),
            Ok(Fate::Quarantined) => self.quarantined.push(id),
            Err(ReadError::Io(error)) => self.unreadable.push((id, error)),
            Err(other) => self.unreadable.push((id, io::Error::other(other))),
        }
    }
}
