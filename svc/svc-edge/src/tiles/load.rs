//! From a tile's place to an answer that is ready: read, verified, decoded if need be.

use std::sync::Arc;

use bytes::Bytes;
use decode::{Coding, DecodeError, Decoder, Limits, STEP_MAX};
use http::{HeaderMap, HeaderValue, header::ACCEPT_ENCODING};
use httprules::negotiate::{self, IDENTITY};
use packs::{PackError, Tile, TileType};
use types::{Reason, Refusal};

use crate::{
    packs::Mounted,
    ram::{Of, Ready, Variant},
    route::TilePath,
    serve::{Owner as _, Representation, Source, tag, tag_of_decoded},
};

/// What the tiles of a pack are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Kind {
    /// What a path may end with; the first is the usual one.
    extensions: &'static [&'static str],
}

impl Kind {
    /// What tiles of a type are.
    pub(crate) const fn of(tile_type: TileType) -> Self {
        Self {
            extensions: match tile_type {
                TileType::Mvt => &["mvt", "pbf", "vector.pbf"],
                TileType::Png => &["png"],
                TileType::Jpeg => &["jpg", "jpeg"],
                TileType::Webp => &["webp"],
                TileType::Avif => &["avif"],
                TileType::Mlt => &["mlt"],
                TileType::Other(_) => &["bin"],
            },
        }
    }

    /// What a path to such a tile usually ends with.
    pub(crate) const fn extension(&self) -> &'static str {
        self.extensions[0]
    }

    /// Whether a path that ends so can be of such a tile.
    pub(crate) fn may_end_with(&self, extension: Option<&str>) -> bool {
        extension.is_none_or(|extension| self.extensions.contains(&extension))
    }
}

/// Whether a client takes a representation as it is stored.
pub(crate) fn takes(headers: &HeaderMap, stored: &Representation) -> bool {
    let Some(coding) = stored.coding.as_ref().and_then(|coding| coding.to_str().ok()) else { return true };
    let mut values = headers.get_all(ACCEPT_ENCODING).iter().map(HeaderValue::as_bytes);
    let offered = [coding, IDENTITY];
    let chosen = match (values.next(), values.next()) {
        (None, _) => negotiate::choose([], &offered),
        (Some(only), None) => negotiate::choose([only], &offered),
        (Some(first), Some(second)) => {
            let all: Vec<_> = [first, second].into_iter().chain(values).collect();
            negotiate::choose(all, &offered)
        }
    };
    // A client that takes neither gets what costs nothing.
    chosen != Some(IDENTITY)
}

/// Reads a tile. Blocking.
///
/// # Errors
/// It is damaged, or cannot be read, or does not decode within the limits.
pub(crate) fn load(
    mounted: &Arc<Mounted>,
    at: &TilePath<'_>,
    variant: Variant,
    limits: Limits,
) -> Result<Arc<Ready>, Refusal> {
    let of = || Of::Pack(Arc::clone(mounted));
    let Some(tile) =
        mounted.pack.tile(at.zoom, at.column, at.row).map_err(|error| refused(mounted, &error))?
    else {
        return Ok(Arc::new(Ready { representation: None, coded: Box::default(), of: of() }));
    };
    let representation = if variant == Variant::TileDecoded { decoded(&tile, limits)? } else { stored(tile) };
    Ok(Arc::new(Ready { representation: Some(representation), coded: Box::default(), of: of() }))
}

fn stored(tile: Tile) -> Representation {
    let media_type = HeaderValue::from_static(tile.media_type);
    let mut representation = Representation::new(Source::Ram(tile.bytes), tag(tile.id), media_type);
    representation.coding = tile.coding.and_then(name_of).map(HeaderValue::from_static);
    representation.varies = representation.coding.is_some();
    representation
}

fn decoded(tile: &Tile, limits: Limits) -> Result<Representation, Refusal> {
    let bytes =
        decode_all(tile.coding.unwrap_or(Coding::Identity), &tile.bytes, limits).map_err(undecoded)?;
    let media_type = HeaderValue::from_static(tile.media_type);
    let mut representation = Representation::new(Source::Ram(bytes), tag_of_decoded(tile.id), media_type);
    representation.varies = true;
    Ok(representation)
}

fn decode_all(coding: Coding, encoded: &[u8], limits: Limits) -> Result<Bytes, DecodeError> {
    let mut decoder = Decoder::new(coding, limits);
    let (mut decoded, mut at) = (Vec::new(), 0);
    loop {
        let filled = decoded.len();
        decoded.resize(filled + STEP_MAX, 0);
        let step = decoder.decode(&encoded[at..], &mut decoded[filled..])?;
        at += step.consumed;
        decoded.truncate(filled + step.produced);
        if at == encoded.len() && decoder.is_drained() {
            break;
        }
    }
    decoder.finish()?;
    decoded.shrink_to_fit();
    Ok(decoded.into())
}

/// What a pack has is not the client's fault, whatever is wrong with it.
fn undecoded(error: DecodeError) -> Refusal {
    match error {
        DecodeError::Cap | DecodeError::Ratio | DecodeError::Parts => {
            Refusal::new(Reason::SourceExpands, "the tile expands more than allowed")
        }
        DecodeError::Malformed | DecodeError::Trailing | DecodeError::Truncated => {
            Refusal::new(Reason::Quarantined, "the tile is not what its pack says it is")
        }
    }
}

const fn name_of(coding: Coding) -> Option<&'static str> {
    match coding {
        Coding::Identity => None,
        Coding::Gzip => Some("gzip"),
        Coding::Deflate => Some("deflate"),
        Coding::Brotli => Some("br"),
        Coding::Zstd => Some("zstd"),
    }
}

fn refused(mounted: &Mounted, error: &PackError) -> Refusal {
    match error {
        PackError::Corrupt | PackError::Changed => {
            mounted.damaged(&error.to_string());
            Reason::Quarantined.into()
        }
        PackError::Io(_) | PackError::Slow => {
            tracing::warn!(pack = &*mounted.name, %error, "a tile could not be read");
            Refusal::new(Reason::Internal, "the tile cannot be read")
        }
    }
}
