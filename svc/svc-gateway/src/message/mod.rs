//! What a proxy changes in a message on its way.

mod forward;
mod rules;

pub(crate) use forward::{request, response};
pub(crate) use rules::HeaderRules;
