//! What is to be done about a pack, from what it is now and what its file is.

use super::slot::{Found, Problem, State};
use crate::file_stat::FileStat;

/// The next step for a pack.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Todo {
    /// Nothing is to be done.
    Nothing,
    /// Go on serving what is served, and tell of this problem, or that there is none any more.
    Keep(Option<Problem>),
    /// Serve it no more.
    Refuse(Problem),
    /// Mount the file that is there.
    Mount(FileStat),
}

/// Compares a pack with the file that is there; `None` if there is none.
pub(super) fn judge(state: &State, stat: Option<FileStat>) -> Todo {
    match state {
        State::Served { mounted, problem } => judge_served(&mounted.stat, problem.as_ref(), stat),
        State::Mounting(_) => stat.map_or_else(|| Todo::Refuse(absent()), Todo::Mount),
        State::Refused(problem) => match (problem.found, stat) {
            (Found::Nothing, None) => Todo::Nothing,
            (_, None) => Todo::Refuse(absent()),
            (Found::Bad(known), Some(stat)) if known == stat => Todo::Nothing,
            (Found::Changed(known), Some(stat)) if known.is_same_file(&stat) => Todo::Nothing,
            (_, Some(stat)) => Todo::Mount(stat),
        },
    }
}

fn judge_served(mounted: &FileStat, problem: Option<&Problem>, stat: Option<FileStat>) -> Todo {
    match (stat, problem.map(|problem| problem.found)) {
        (Some(stat), known) if stat.is_unwritten(mounted) => {
            if known.is_some() {
                Todo::Keep(None)
            } else {
                Todo::Nothing
            }
        }
        (Some(stat), _) if stat.is_same_file(mounted) => {
            let reason = "its file was changed in place: rename a new one over it instead";
            Todo::Refuse(Problem::new(Found::Changed(stat), reason))
        }
        (Some(stat), Some(Found::Bad(known))) if known == stat => Todo::Nothing,
        (Some(stat), _) => Todo::Mount(stat),
        (None, Some(Found::Nothing)) => Todo::Nothing,
        // The file is open, so what was mounted is still whole.
        (None, _) => Todo::Keep(Some(absent())),
    }
}

fn absent() -> Problem {
    Problem::new(Found::Nothing, "its file does not exist")
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;
    use std::{
        fs::{self, File},
        path::Path,
        time::SystemTime,
    };

    fn unpack(path: &Path) -> FileStat {
        fs::write(path, b"pack").unwrap();
        File::options().write(true).open(path).unwrap().set_modified(SystemTime::UNIX_EPOCH).unwrap();
        FileStat::at(path).unwrap()
    }

    #[test]
    fn a_pack_that_was_refused_is_mounted_from_a_new_file_of_the_same_length_and_time() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("pack");
        for found in [Found::Bad, Found::Changed] {
            let refused = unpack(&path);
            let state = State::Refused(Problem::new(found(refused), "no good"));
            assert_eq!(judge(&state, Some(refused)), Todo::Nothing);
            // The file system uses the number of the old file again, and its times have a grain.
            let judged = (0..1_000_000).map(|_| {
                fs::remove_file(&path).unwrap();
                let replaced = unpack(&path);
                judge(&state, Some(replaced)) == Todo::Mount(replaced)
            });
            assert!(judged.into_iter().any(|is_mounted| is_mounted));
        }
    }
}
