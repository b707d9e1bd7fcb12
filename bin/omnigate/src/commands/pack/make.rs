//! `omnigate pack make --demo`: a pack of a world that does not exist.

use std::{ffi::OsString, fs, io, path::Path};

use packs::Coord;
use pmtiles::{Settings, TileId, Writer};
use serde_json::json;

use super::{args::MakeArgs, mounting::bar, show, world::World};
use crate::failure::Failure;

/// Draws every tile, puts them into a file beside the place where it is to be, and moves it there.
#[expect(clippy::disallowed_methods, reason = "a command that writes a file and ends; no runtime is running")]
pub(super) fn run(args: &MakeArgs) -> Result<(), Failure> {
    let shown = args.out.display();
    if !args.force && args.out.symlink_metadata().is_ok() {
        return Err(Failure::failed(format!("{shown} already exists"))
            .help("choose another path, or replace it with --force"));
    }
    // Drawing takes a while; this is known before.
    if let Some(folder) =
        args.out.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.is_dir())
    {
        return Err(Failure::failed(format!("there is no folder {}", folder.display())));
    }
    let is_mbtiles = args.out.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("mbtiles"));
    let mut temporary = OsString::from(&args.out);
    temporary.push(".tmp");
    let temporary = Path::new(&temporary);
    let written =
        if is_mbtiles { mbtiles(temporary, args.zoom) } else { make_demo_pack(temporary, args.zoom) };
    let moved = written.and_then(|tiles| {
        fs::rename(temporary, &args.out)?;
        Ok((tiles, fs::metadata(&args.out)?.len()))
    });
    let (tiles, size) = moved.map_err(|error| {
        // Nobody needs half a pack; if it cannot be removed either, that is not what went wrong first.
        let _ = fs::remove_file(temporary);
        Failure::failed(format!("{shown} cannot be written: {error}"))
    })?;
    super::super::print(&format!(
        "wrote {shown}: {tiles} tiles, zoom 0 to {}, {}\n",
        args.zoom,
        show::bytes(size)
    ))
}

/// The name, and what is said about it.
const NAME: &str = "Omnigate demo world";
const ABOUT: &str = "Islands that do not exist, drawn by `omnigate pack make --demo`";

/// Draws a world down to `zoom` into a PMTiles file; returns of how many tiles. Blocking.
pub(crate) fn make_demo_pack(path: &Path, zoom: u8) -> io::Result<u64> {
    let metadata = json!({ "name": NAME, "description": ABOUT, "type": "baselayer", "version": "1" });
    let mut writer = Writer::new(Settings {
        metadata: metadata.to_string(),
        center_zoom: 2.min(zoom),
        ..Settings::default()
    });
    let tiles = draw(zoom, |tile, content| writer.push(tile.id(), content).map_err(io::Error::other))?;
    let pack = writer.finish().map_err(io::Error::other)?;
    #[expect(
        clippy::disallowed_methods,
        reason = "a command that writes a file and ends; no runtime is running"
    )]
    fs::write(path, pack)?;
    Ok(tiles)
}

fn mbtiles(path: &Path, zoom: u8) -> io::Result<u64> {
    let mut database = rusqlite::Connection::open(path).map_err(io::Error::other)?;
    // What an earlier attempt left is no use, and a crash costs a demo.
    let schema = "PRAGMA journal_mode = OFF; PRAGMA synchronous = OFF;
        DROP TABLE IF EXISTS metadata; DROP TABLE IF EXISTS tiles;
        CREATE TABLE metadata (name text, value text);
        CREATE TABLE tiles (zoom_level integer, tile_column integer, tile_row integer, tile_data blob);
        CREATE UNIQUE INDEX tile_index ON tiles (zoom_level, tile_column, tile_row);";
    database.execute_batch(schema).map_err(io::Error::other)?;
    let transaction = database.transaction().map_err(io::Error::other)?;
    let tiles = draw(zoom, |tile, content| {
        let row = (tile.z(), tile.x(), tile.tms_row(), content);
        let inserted = transaction.execute("INSERT INTO tiles VALUES (?1, ?2, ?3, ?4)", row);
        inserted.map(drop).map_err(io::Error::other)
    })?;
    let max_zoom = zoom.to_string();
    let metadata = [
        ("name", NAME),
        ("description", ABOUT),
        ("format", "png"),
        ("type", "baselayer"),
        ("version", "1"),
        ("minzoom", "0"),
        ("maxzoom", &max_zoom),
        ("bounds", "-180,-85.0511287,180,85.0511287"),
        ("center", "0,0,0"),
    ];
    for row in metadata {
        transaction.execute("INSERT INTO metadata VALUES (?1, ?2)", row).map_err(io::Error::other)?;
    }
    transaction.commit().map_err(io::Error::other)?;
    Ok(tiles)
}

/// Draws the tiles in the order of their ids; how many there were.
fn draw(zoom: u8, mut put: impl FnMut(Coord, &[u8]) -> io::Result<()>) -> io::Result<u64> {
    let count: u64 = (0..=zoom).map(|z| 1 << (2 * z)).sum();
    let bar = bar("{bar:30} {pos}/{len} tiles {msg}");
    bar.set_length(count);
    let mut world = World::new();
    let mut told = None;
    for tile in (0..count).filter_map(TileId::new).map(TileId::coord) {
        if told != Some(tile.z()) {
            told = Some(tile.z());
            let what = format!("drawing zoom {}", tile.z());
            if bar.is_hidden() {
                eprintln!("{what}");
            }
            bar.set_message(what);
        }
        put(tile, &world.tile(tile))?;
        bar.inc(1);
    }
    bar.finish_and_clear();
    Ok(count)
}
