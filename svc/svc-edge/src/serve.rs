//! Responses: which part of a representation is sent, in which dress, and how its bytes get there unspoilt.

mod body;
mod dress;
mod representation;
mod respond;

pub(crate) use body::Reader;
pub(crate) use dress::{Class, Dress};
pub(crate) use representation::{Owner, Representation, Source, tag, tag_of_decoded};
pub(crate) use respond::{Asked, Plan, TO_THE_END, plan};
