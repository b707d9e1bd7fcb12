//! The rules of this repository that no lint can see, as functions over its files.
//!
//! A rule takes a [`Tree`] (or the [`Workspace`] in it) and returns its [`Finding`]s. Each one has a unit test with a
//! bad example, because a check that cannot fail is worth nothing; `tests/tidy.rs` runs them all on the real files.

pub mod rules;
pub mod rust_code;
pub mod tree;
pub mod workspace;

use std::fmt;

pub use tree::Tree;
pub use workspace::Workspace;

/// One breach of one rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// The file, from the root of the repository.
    pub path: String,
    /// The line, counted from 1.
    pub line: usize,
    /// What is wrong and what to do about it.
    pub what: String,
}

impl Finding {
    /// A finding about `line` of `path`.
    pub fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        let (path, what) = (path.to_owned(), what.into());
        Self { path, line, what }
    }

    /// A finding about the place `offset` bytes into `text`.
    pub fn at(path: &str, text: &str, offset: usize, what: impl Into<String>) -> Self {
        let line = 1 + text.as_bytes()[..offset].iter().filter(|b| **b == b'\n').count();
        Self::new(path, line, what)
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.what)
    }
}

/// What unit tests compare: the places of the findings, without their wording.
#[cfg(test)]
pub(crate) fn places(findings: &[Finding]) -> Vec<(&str, usize)> {
    findings.iter().map(|f| (f.path.as_str(), f.line)).collect()
}
