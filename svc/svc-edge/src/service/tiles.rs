//! `/edge/tiles/…`: tiles, from RAM or from their pack.

use std::sync::Arc;

use http::StatusCode;
use ron_transport::{Body, Response};
use types::{Reason, Refusal};

use super::{Answer, Visit};
use crate::{
    EmptyTile,
    deny::Deny,
    flights::Flights,
    packs,
    ram::{Ready, Variant},
    route::TilePath,
    serve::Class,
    tiles::{self, Kind},
};

impl Visit<'_> {
    /// A tile that is in RAM, of the generation of its pack that is served.
    pub(super) fn hot_tile(&self) -> Option<Answer> {
        let path = self.request.uri.path();
        let stored = self.kept(Variant::Tile, path)?;
        let Some(representation) = &stored.representation else { return Some(self.no_tile()) };
        if tiles::takes(self.headers(), representation) {
            return self.ready(&stored, Class::Tile);
        }
        let decoded = self.kept(Variant::TileDecoded, path)?;
        self.ready(&decoded, Class::Tile)
    }

    fn kept(&self, variant: Variant, path: &str) -> Option<Arc<Ready>> {
        self.shared().ram.get(variant, path).filter(|ready| ready.holds(self.began))
    }

    /// Any tile: read from its pack.
    pub(super) async fn tile(&self, at: TilePath<'_>) -> Answer {
        let mounted = packs::find(&self.policy.packs, at.pack)?;
        if !Kind::of(mounted.pack.info().tile_type).may_end_with(at.extension) {
            let kind = Kind::of(mounted.pack.info().tile_type).extension();
            return Err(
                Refusal::new(Reason::NotFound, format!("the tiles of this pack end with .{kind}")).into()
            );
        }
        let stored = self.tile_as(at, Variant::Tile, &mounted).await?;
        let Some(representation) = &stored.representation else { return self.no_tile() };
        if tiles::takes(self.headers(), representation) {
            return self.in_ram(&stored);
        }
        let decoded = self.tile_as(at, Variant::TileDecoded, &mounted).await?;
        self.in_ram(&decoded)
    }

    fn in_ram(&self, ready: &Ready) -> Answer {
        self.ready(ready, Class::Tile).unwrap_or_else(|| Err(Reason::Internal.into()))
    }

    async fn tile_as(
        &self,
        at: TilePath<'_>,
        variant: Variant,
        mounted: &Arc<packs::Mounted>,
    ) -> Result<Arc<Ready>, Deny> {
        let shared = self.shared();
        let path = self.request.uri.path();
        if let Some(ready) = self.kept(variant, path) {
            return Ok(ready);
        }
        // Of this generation of the pack, whatever others wait for.
        let what = format!("{variant:?}{:p}{path}", Arc::as_ptr(mounted));
        let (ram, mounted, wanted) = (Arc::clone(&shared.ram), Arc::clone(mounted), path.to_owned());
        let (zoom, column, row, limits) = (at.zoom, at.column, at.row, self.policy.decode);
        let load = move || {
            let at = TilePath { pack: "", zoom, column, row, extension: None };
            let loaded = tiles::load(&mounted, &at, variant, limits);
            if let Ok(ready) = &loaded {
                ram.put(variant, &wanted, Arc::clone(ready));
            }
            loaded
        };
        Flights::load(&shared.tiles, &what, shared.scope.blocking(), "read a tile", load)
            .await?
            .map_err(Deny::from)
    }

    /// There is no tile at a place of the grid.
    fn no_tile(&self) -> Answer {
        self.shared().metrics.misses.inc();
        match self.policy.empty_tile {
            EmptyTile::NotFound => Err(Refusal::new(Reason::NotFound, "the pack has no such tile").into()),
            EmptyTile::NoContent => {
                let mut response = Response::new(Body::empty());
                *response.status_mut() = StatusCode::NO_CONTENT;
                self.policy.dress.cache(Class::Tile, response.headers_mut());
                Ok(response)
            }
        }
    }
}
