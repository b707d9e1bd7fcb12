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
        (Some(stat), known) if stat == *mounted => {
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
