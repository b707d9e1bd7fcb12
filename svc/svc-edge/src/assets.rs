//! Static files: folders that are served, and nothing outside of them.

mod damage;
mod load;
mod media;
mod root;

pub(crate) use damage::{Damages, STATE_META};
pub(crate) use load::{FileRecord, Loaded, Roots};
