//! Pages for people: the map of a pack, and the list of packs. No script or style is anybody else's.

mod escape;
mod list;
mod page;

pub(crate) use list::{packs_html, packs_json};
pub(crate) use page::{CONTENT_SECURITY_POLICY, file, map_html};
