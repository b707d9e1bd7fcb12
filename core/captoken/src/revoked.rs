//! The tokens that are no longer good, by id.

use crate::{BadId, TokenId};

/// Ids of revoked tokens. Revoking an id revokes everything that was attenuated from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RevocationList {
    /// Sorted: a search touches few of them, and takes the same time for any choice of ids.
    ids: Vec<TokenId>,
}

/// Why a text is not a revocation list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RevocationError {
    /// A line is not an id.
    #[error("line {line}: {problem}; a comment begins with `#`")]
    Line {
        /// The line, counted from 1.
        line: usize,
        /// The reason why the line is not a valid id.
        problem: BadId,
    },
    /// There are more ids than a list holds.
    #[error("there are more than {max} ids; drop those whose tokens have expired", max = RevocationList::MAX_IDS)]
    TooMany,
}

impl RevocationList {
    /// The most ids in a list; they take a mebibyte.
    pub const MAX_IDS: usize = 65_536;

    /// A list of these ids.
    ///
    /// # Errors
    /// [`RevocationError::TooMany`] if there are more than [`RevocationList::MAX_IDS`] different ones.
    pub fn new(mut ids: Vec<TokenId>) -> Result<Self, RevocationError> {
        ids.sort_unstable();
        ids.dedup();
        if ids.len() > Self::MAX_IDS { Err(RevocationError::TooMany) } else { Ok(Self { ids }) }
    }

    /// Reads one id per line. What follows a `#` is a comment; empty lines do not matter.
    ///
    /// # Errors
    /// [`RevocationError`] at the first line that is something else, or if there are too many.
    pub fn parse(text: &str) -> Result<Self, RevocationError> {
        let mut ids = Vec::new();
        for (at, line) in text.lines().enumerate() {
            let id = line.split('#').next().unwrap_or_default().trim();
            if id.is_empty() {
                continue;
            }
            // Before the ids are sorted, so that a list of nothing but repetitions is bounded too.
            if ids.len() == 2 * Self::MAX_IDS {
                return Err(RevocationError::TooMany);
            }
            ids.push(id.parse().map_err(|problem| RevocationError::Line { line: at + 1, problem })?);
        }
        Self::new(ids)
    }

    /// Whether the token of this id is revoked.
    #[must_use]
    pub fn contains(&self, id: TokenId) -> bool {
        self.ids.binary_search(&id).is_ok()
    }

    /// Returns the number of revoked ids.
    #[must_use]
    pub fn len(&self) -> usize {
        self.ids.len()
    }

    /// Returns true if no id is revoked.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> TokenId {
        TokenId::new((number as u128).to_be_bytes())
    }

    #[test]
    fn a_list_is_one_id_per_line_with_comments() {
        let text = format!("# lost laptop\n\n{}\n  {}  # found\r\n{}", id(9), id(1), id(9));
        let list = RevocationList::parse(&text).expect("a list");
        assert_eq!((list.len(), list.is_empty()), (2, false));
        assert!(list.contains(id(1)) && list.contains(id(9)) && !list.contains(id(2)));
        assert!(RevocationList::parse("").is_ok_and(|list| list.is_empty()));
    }

    #[test]
    fn a_line_that_is_no_id_is_named() {
        let text = format!("{}\n#\nnonsense\n", id(1));
        assert_eq!(RevocationList::parse(&text), Err(RevocationError::Line { line: 3, problem: BadId }));
    }

    #[test]
    fn a_list_is_bounded() {
        let full = (0..RevocationList::MAX_IDS).map(id);
        assert!(RevocationList::new(full.clone().collect()).is_ok());
        let over = full.chain([id(RevocationList::MAX_IDS)]).collect();
        assert_eq!(RevocationList::new(over), Err(RevocationError::TooMany));
        let repeated = |times: usize| format!("{}\n", id(1)).repeat(times);
        let most = 2 * RevocationList::MAX_IDS;
        assert!(RevocationList::parse(&repeated(most)).is_ok());
        assert_eq!(RevocationList::parse(&repeated(most + 1)), Err(RevocationError::TooMany));
    }
}
