//! What a topic is called.

use std::{borrow::Borrow, fmt, str::FromStr, sync::Arc};

/// The most bytes a topic's name has.
pub const TOPIC_MAX: usize = 128;

/// The name of a topic: 1 to [`TOPIC_MAX`] bytes of `a-z 0-9 / . _ -`. A clone shares the text.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Topic(Arc<str>);

/// The text does not name a topic.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a topic is named by 1 to {TOPIC_MAX} characters of a-z, 0-9, `/`, `.`, `_` and `-`")]
pub struct InvalidTopic;

impl Topic {
    /// The topic of this name.
    ///
    /// # Errors
    /// [`InvalidTopic`] if it is empty, too long, or has other characters.
    pub fn new(name: &str) -> Result<Self, InvalidTopic> {
        let is_fit = |byte| matches!(byte, b'a'..=b'z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-');
        if name.is_empty() || name.len() > TOPIC_MAX || !name.bytes().all(is_fit) {
            return Err(InvalidTopic);
        }
        Ok(Self(name.into()))
    }

    /// Returns the name as a string.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Topic {
    type Err = InvalidTopic;

    fn from_str(name: &str) -> Result<Self, InvalidTopic> {
        Self::new(name)
    }
}

/// So that a map by topic is asked with a borrowed name.
impl Borrow<str> for Topic {
    fn borrow(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

impl fmt::Debug for Topic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&self.0, f)
    }
}
