//! What a proxy changes in a message on its way, and which messages it does not pass on.
//!
//! ```text
//! request ─▶ Survey::of, check ─▶ (route, client, trace, …) ─▶ onward ─▶ upstream ─▶ back ─▶ response
//! ```
//!
//! [`Survey`] walks the header once and refuses what could be read in two ways. [`onward`] then touches only the fields
//! that the survey has seen; most requests have none of them.

mod fields;
pub(crate) mod identity;
mod onward;
mod response;
mod rules;
mod survey;
#[cfg(test)]
mod tests;
mod trailers;
mod upgrade;

pub(crate) use fields::{Field, Fields, is_plain, is_proxys_word};
pub(crate) use onward::{Onward, joined_cookies, onward};
pub(crate) use response::{back, mark_unstorable};
pub(crate) use rules::{GuardedFields, HeaderRules};
pub(crate) use survey::{Survey, is_several};
pub(crate) use trailers::clean_trailers;
pub(crate) use upgrade::upgrade_wanted;
