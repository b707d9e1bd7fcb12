//! `omnigate pack inspect`: what a pack says of itself, or one of its tiles.

use std::path::Path;

use packs::{Coord, MountOptions, Pack, PackInfo, Tile};
use serde_json::Value;

use super::{args::InspectArgs, mounting::mount, show};
use crate::failure::Failure;

/// Shows a pack or a tile of it.
pub(super) fn run(args: &InspectArgs) -> Result<(), Failure> {
    let file = args.file.display();
    let pack = mount(&args.file, MountOptions::default())
        .map_err(|error| Failure::failed(format!("{file} is refused: {error}")))?;
    let Some(coord) = args.tile else {
        let mut shown = show::json(pack.info());
        shown["metadata"] = Value::Object(pack.info().metadata.clone());
        return super::super::print(&if args.json {
            super::super::pretty(&shown)
        } else {
            text(pack.info())
        });
    };
    let tile = tile(&pack, coord)?;
    if let Some(path) = &args.save {
        save(path, &tile)?;
    }
    super::super::print(&if args.json {
        super::super::pretty(&show::tile_json(&tile))
    } else {
        let coding = tile.coding.map(|coding| format!(", {}", show::coding(coding))).unwrap_or_default();
        format!("{coord}: {} bytes of {}{coding}, {}\n", tile.bytes.len(), tile.media_type, tile.id)
    })
}

fn tile(pack: &Pack, coord: Coord) -> Result<Tile, Failure> {
    let read = pack.tile(coord.z(), coord.x(), coord.y());
    let read = read.map_err(|error| Failure::failed(format!("tile {coord} cannot be read: {error}")))?;
    read.ok_or_else(|| {
        let PackInfo { min_zoom, max_zoom, .. } = pack.info();
        Failure::failed(format!("the pack has no tile {coord}"))
            .help(format!("it has zooms {min_zoom} to {max_zoom}"))
    })
}

fn text(info: &PackInfo) -> String {
    let mut rows = vec![
        ("name", info.name.clone()),
        ("format", info.format.to_string()),
        ("id", info.id.to_string()),
        ("size", format!("{} ({} bytes)", show::bytes(info.size), info.size)),
        ("modified", humantime::format_rfc3339_seconds(info.modified).to_string()),
        ("tiles", info.tiles.to_string()),
        ("type", format!("{} ({})", info.tile_type.name(), info.tile_type.media_type())),
        ("coding", info.coding.map_or("told by each tile", show::coding).to_owned()),
        ("zooms", format!("{} to {}", info.min_zoom, info.max_zoom)),
        ("bounds", info.bounds.map(|angle| angle.to_string()).join(", ")),
    ];
    rows.extend(info.center.map(|(lon, lat, zoom)| ("centre", format!("{lon}, {lat} at zoom {zoom}"))));
    rows.extend(info.notes.iter().map(|note| ("note", note.clone())));
    let mut shown: String = rows.iter().map(|(name, value)| format!("{name:9} {value}\n")).collect();
    let keys: Vec<_> = info.metadata.keys().map(String::as_str).collect();
    if !keys.is_empty() {
        shown.push_str(&format!("{:9} {} (all of it with --json)\n", "metadata", keys.join(", ")));
    }
    shown
}

#[expect(clippy::disallowed_methods, reason = "a command that writes a file and ends; no runtime is running")]
fn save(path: &Path, tile: &Tile) -> Result<(), Failure> {
    std::fs::write(path, &tile.bytes)
        .map_err(|error| Failure::failed(format!("{} cannot be written: {error}", path.display())))
}
