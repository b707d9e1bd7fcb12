//! What one subscription is of.

use crate::{InvalidPattern, Pattern};

/// Topics and patterns of one subscription at most.
pub const FILTER_MAX: usize = 16;

/// The topics and patterns of one subscription: at least one, each once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    /// Names of single topics.
    exact: Vec<String>,
    /// Patterns with wildcards; none that another of them covers.
    wild: Vec<String>,
}

/// The texts do not say what a subscription is of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidFilter {
    /// One of them is no pattern.
    #[error(transparent)]
    Pattern(#[from] InvalidPattern),
    /// There are none, or too many.
    #[error("a subscription is of 1 to {FILTER_MAX} topics and patterns")]
    Count,
}

impl Filter {
    /// A subscription to these topics and patterns. What a wildcard covers is not named again.
    ///
    /// # Errors
    /// [`InvalidFilter`].
    pub fn new<'a>(texts: impl IntoIterator<Item = &'a str>) -> Result<Self, InvalidFilter> {
        let (mut exact, mut wild) = (Vec::<Pattern<'_>>::new(), Vec::<Pattern<'_>>::new());
        for (at, text) in texts.into_iter().enumerate() {
            if at == FILTER_MAX {
                return Err(InvalidFilter::Count);
            }
            let pattern = Pattern::new(text)?;
            if exact.iter().chain(&wild).any(|other| other.covers(pattern)) {
                continue;
            }
            exact.retain(|other| !pattern.covers(*other));
            wild.retain(|other| !pattern.covers(*other));
            if pattern.is_exact() { &mut exact } else { &mut wild }.push(pattern);
        }
        if exact.is_empty() && wild.is_empty() {
            return Err(InvalidFilter::Count);
        }
        let owned = |list: Vec<Pattern<'_>>| list.iter().map(|pattern| pattern.as_str().to_owned()).collect();
        Ok(Self { exact: owned(exact), wild: owned(wild) })
    }

    /// The names of single topics.
    pub fn exact(&self) -> impl Iterator<Item = &str> {
        self.exact.iter().map(String::as_str)
    }

    /// Whether there is a pattern with wildcards among them.
    #[must_use]
    pub fn is_wild(&self) -> bool {
        !self.wild.is_empty()
    }

    /// The one topic it is of, if it is of one topic.
    #[must_use]
    pub fn single(&self) -> Option<&str> {
        match (self.exact.as_slice(), self.wild.is_empty()) {
            ([one], true) => Some(one),
            _ => None,
        }
    }

    /// The patterns with wildcards.
    pub fn wild(&self) -> impl Iterator<Item = Pattern<'_>> {
        self.wild.iter().filter_map(|text| Pattern::new(text).ok())
    }

    /// All of it, single topics first.
    pub fn patterns(&self) -> impl Iterator<Item = Pattern<'_>> {
        self.exact.iter().chain(&self.wild).filter_map(|text| Pattern::new(text).ok())
    }

    /// Whether a topic is one of those it is of.
    #[must_use]
    pub fn matches(&self, topic: &str) -> bool {
        self.exact.iter().any(|one| one == topic) || self.matches_wild(topic)
    }

    /// Whether a pattern with wildcards means a topic.
    #[must_use]
    pub fn matches_wild(&self, topic: &str) -> bool {
        self.wild.iter().any(|one| Pattern::new(one).is_ok_and(|one| one.matches(topic)))
    }
}
