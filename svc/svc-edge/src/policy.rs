//! What is in force: everything that a reload replaces, replaced as a whole.

use std::{collections::BTreeMap, sync::Arc};

use decode::Limits as DecodeLimits;

use crate::{
    EdgeConfig, EmptyTile, SiteConfig,
    assets::Roots,
    ingress::Limits,
    packs::{Packs, Slot},
    serve::Dress,
};

/// What is in force. Cores have copies of their own, because a reference count that all of them change costs more than
/// what it protects.
#[derive(Debug)]
pub(crate) struct Policy {
    pub(crate) limits: Limits,
    pub(crate) dress: Dress,
    pub(crate) roots: Arc<Roots>,
    pub(crate) packs: Packs,
    /// The packs by their files' names, under which they can be had whole.
    pub(crate) pack_files: BTreeMap<String, Arc<Slot>>,
    /// The folders as a website.
    pub(crate) site: SiteConfig,
    pub(crate) empty_tile: EmptyTile,
    /// What a tile may expand to.
    pub(crate) decode: DecodeLimits,
    /// What the addresses in descriptions begin with, if not with what the client asked for.
    pub(crate) public_url: Option<String>,
}

impl Policy {
    pub(crate) fn new(config: &EdgeConfig, roots: Arc<Roots>, packs: Packs) -> Self {
        let file_name = |slot: &Arc<Slot>| {
            let name = slot.config().path.file_name()?.to_str()?.to_owned();
            Some((name, Arc::clone(slot)))
        };
        Self {
            limits: Limits::new(config),
            dress: Dress::new(&config.cache_control, &config.cors),
            roots,
            pack_files: packs.values().filter_map(file_name).collect(),
            packs,
            site: config.site.clone(),
            empty_tile: config.tiles.empty,
            decode: DecodeLimits {
                max_ratio: config.ingress.decompress_max_ratio,
                max_bytes: config.ingress.decompress_abs_bytes.as_u64(),
                ..DecodeLimits::default()
            },
            public_url: Some(config.tiles.public_url.trim_end_matches('/').to_owned())
                .filter(|url| !url.is_empty()),
        }
    }
}
