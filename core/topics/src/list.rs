//! A list of patterns in one text, as tokens carry it.

use crate::{InvalidPattern, Pattern};

/// Patterns in one list at most.
pub const LIST_MAX: usize = 16;

/// Patterns with commas between them, one to [`LIST_MAX`] of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PatternList<'a>(&'a str);

impl<'a> PatternList<'a> {
    /// Reads patterns separated by commas.
    ///
    /// # Errors
    /// [`InvalidPattern`] if there is none in it, more than [`LIST_MAX`], or one that is no pattern.
    pub fn new(text: &'a str) -> Result<Self, InvalidPattern> {
        if text.split(',').count() > LIST_MAX {
            return Err(InvalidPattern);
        }
        text.split(',').try_for_each(|pattern| Pattern::new(pattern).map(drop))?;
        Ok(Self(text))
    }

    /// The list as it is written.
    #[must_use]
    pub const fn as_str(self) -> &'a str {
        self.0
    }

    /// The patterns, in order.
    pub fn iter(self) -> impl Iterator<Item = Pattern<'a>> {
        self.0.split(',').filter_map(|pattern| Pattern::new(pattern).ok())
    }

    /// Whether one of them covers a pattern. What only several of them cover together is not covered.
    #[must_use]
    pub fn covers(self, pattern: Pattern<'_>) -> bool {
        self.iter().any(|one| one.covers(pattern))
    }
}
