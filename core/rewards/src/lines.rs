//! A proof made from `allocations.jsonl` alone, for those who have the file and not the inputs.

use crate::{
    AllocationLine, Digest, DocumentError, Int, Manifest, Proof, Tree, digest::Domain, rows::read_actor,
};

/// Looks for an actor's line, and remembers the hashes of all.
#[derive(Debug)]
pub struct LineSearch {
    actor: String,
    found: Option<(usize, AllocationLine)>,
    leaves: Vec<Digest>,
    room: String,
}

/// The reason why a line cannot be proved.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineError {
    /// Something is no line.
    #[error("line {line} of allocations.jsonl: {error}")]
    Malformed {
        /// Line number, counted from zero.
        line: usize,
        /// What is wrong with the line.
        error: DocumentError,
    },
    /// There is no line of that actor.
    #[error("there is no line of that actor")]
    Absent,
    /// The lines are not those of the run.
    #[error("the lines are not those that run.json names")]
    OtherRun,
}

impl LineSearch {
    /// Looks for the line of `actor`.
    #[must_use]
    pub fn new(actor: &str) -> Self {
        Self { actor: actor.to_owned(), found: None, leaves: Vec::new(), room: String::new() }
    }

    /// Takes the next line, given without its line feed.
    ///
    /// # Errors
    /// [`LineError::Malformed`], if it cannot be a line.
    pub fn line(&mut self, line: &[u8]) -> Result<(), LineError> {
        let at = self.leaves.len();
        let malformed = |error| LineError::Malformed { line: at, error };
        let text = str::from_utf8(line).ok().and_then(|text| text.strip_prefix("{\"actor\":\""));
        let actor = text.and_then(|text| read_actor(text, &mut self.room));
        let (actor, _) = actor.ok_or(malformed(DocumentError::Wrong("actor")))?;
        if actor == self.actor {
            self.found = Some((at, AllocationLine::read(line).map_err(malformed)?));
        }
        self.leaves.push(Domain::LEAF.hash(line));
        Ok(())
    }

    /// The proof.
    ///
    /// # Errors
    /// [`LineError`], if there was no line of the actor, or the lines are not those of the run.
    pub fn finish(self, manifest: &Manifest) -> Result<Proof, LineError> {
        let tree = Tree::new(self.leaves);
        if tree.root() != manifest.allocations.root {
            return Err(LineError::OtherRun);
        }
        let (at, allocation) = self.found.ok_or(LineError::Absent)?;
        Ok(Proof {
            epoch: manifest.epoch,
            commitment: manifest.commitment(),
            allocation,
            index: u64::try_from(at).ok().and_then(Int::new).ok_or(LineError::OtherRun)?,
            lines: manifest.allocations.lines,
            root: manifest.allocations.root,
            path: tree.path(at),
        })
    }
}
