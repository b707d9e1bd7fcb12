//! A pack in words and in JSON.

use decode::Coding;
use packs::{PackInfo, Tile};
use serde_json::{Value, json};

/// A pack in one line.
pub(super) fn line(info: &PackInfo) -> String {
    let PackInfo { format, tiles, min_zoom, max_zoom, size, id, .. } = info;
    let tile_type = info.tile_type.name();
    format!("{format}, {tiles} {tile_type} tiles, zoom {min_zoom} to {max_zoom}, {}, {id}", bytes(*size))
}

/// A pack in JSON, without its metadata.
pub(super) fn json(info: &PackInfo) -> Value {
    json!({
        "path": info.path.display().to_string(),
        "name": info.name,
        "format": info.format.to_string(),
        "id": info.id.to_string(),
        "size": info.size,
        "modified": humantime::format_rfc3339_seconds(info.modified).to_string(),
        "tiles": info.tiles,
        "tile_type": info.tile_type.name(),
        "media_type": info.tile_type.media_type(),
        "coding": info.coding.map(coding),
        "min_zoom": info.min_zoom,
        "max_zoom": info.max_zoom,
        "bounds": info.bounds,
        "center": info.center.map(|(lon, lat, zoom)| json!([lon, lat, zoom])),
        "notes": info.notes,
    })
}

/// A tile in JSON, without its bytes.
pub(super) fn tile_json(tile: &Tile) -> Value {
    json!({
        "id": tile.id.to_string(),
        "size": tile.bytes.len(),
        "media_type": tile.media_type,
        "coding": tile.coding.map(coding),
    })
}

/// The name of a coding.
pub(super) fn coding(coding: Coding) -> &'static str {
    match coding {
        Coding::Identity => "identity",
        Coding::Gzip => "gzip",
        Coding::Deflate => "deflate",
        Coding::Brotli => "br",
        Coding::Zstd => "zstd",
    }
}

/// A number of bytes as people read it.
pub(super) fn bytes(count: u64) -> String {
    indicatif::BinaryBytes(count).to_string()
}
