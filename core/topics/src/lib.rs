//! Patterns of topics with wildcards, for subscriptions and for the caveats of tokens.
//!
//! | pattern | means |
//! |---|---|
//! | `metrics.db.cpu` | this topic alone |
//! | `metrics.*.cpu` | any one token in that place: `metrics.db.cpu`, not `metrics.cpu` nor `metrics.eu.db.cpu` |
//! | `metrics.>` | one or more tokens at the end: `metrics.db` and `metrics.eu.db.cpu`, not `metrics` |
//! | `>` | every topic |
//!
//! Dots separate tokens; all other characters of a topic are ordinary. `*` and `>` are wildcards only as whole
//! tokens, and no topic has either of them in its name.

mod cover;
mod filter;
mod list;
mod pattern;
mod pattern_shares;
mod share;

pub use cover::cover;
pub use filter::{FILTER_MAX, Filter, InvalidFilter};
pub use list::{LIST_MAX, PatternList};
pub use pattern::{InvalidPattern, PATTERN_MAX, Pattern};
pub use pattern_shares::{PatternShares, TooManyPatterns};
pub use share::has_share;
