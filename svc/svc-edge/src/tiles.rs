//! Tiles of packs: found, verified, and given in a coding that the client takes.

mod load;
mod tilejson;

pub(crate) use load::{Kind, load, takes};
pub(crate) use tilejson::TileJson;
