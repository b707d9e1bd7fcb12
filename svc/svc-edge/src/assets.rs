//! Static files: folders that are served, and nothing outside of them.

mod damage;
mod hashing;
mod load;
mod media;
mod root;
mod settle;
mod siblings;

pub(crate) use damage::{Damages, STATE_META};
pub(crate) use hashing::{Hashing, HashingShare, HashingTurn};
pub(crate) use load::{FileRecord, Loaded, Roots};
pub(crate) use settle::{FILE_SETTLER, UNSETTLED, Unsettled, start as start_settler};
pub(crate) use siblings::chosen;
