//! Tiles: from raster and vector packs, in codings that clients take.

use svc_edge::{EmptyTile, PackConfig};

use crate::support::{Running, eventually, gzip, raster_pack, tile_text, vector_pack, write};

#[test]
fn a_raster_tile_is_served_with_the_id_of_its_bytes() {
    let edge = Running::with_pack(&raster_pack("one"));
    for path in ["/edge/tiles/world/2/1/3", "/edge/tiles/world/2/1/3.png"] {
        let (cold, hot) = (edge.get(path), edge.get(path));
        for answer in [&cold, &hot] {
            assert_eq!((answer.status, answer.header("content-type")), (200, "image/png"), "{path}");
            assert_eq!(answer.text(), tile_text((2, 1, 3), "one"));
            assert_eq!(answer.header("etag"), format!("\"b3:{}\"", blake3::hash(&answer.body).to_hex()));
            assert_eq!((answer.header("vary"), answer.header("content-encoding")), ("", ""));
        }
        let known = edge.get_with(path, &[("if-none-match", cold.header("etag"))]);
        assert_eq!(known.status, 304);
        let part = edge.get_with(path, &[("range", "bytes=4-8")]);
        assert_eq!((part.status, part.text()), (206, tile_text((2, 1, 3), "one")[4..9].to_owned()));
    }
    // Four requests for each of two paths; the tile is in the pack from the beginning, and in RAM under both.
    let counted = |name| edge.metric(name);
    assert_eq!((counted("edge_cache_hits_total{"), counted("edge_cache_misses_total{")), (8.0, 0.0));
    eventually("the tile is in RAM", || edge.metric("edge_ram_entries{") == 2.0);
}

#[test]
fn a_vector_tile_keeps_its_coding_for_those_who_take_it() {
    let edge = Running::with_pack(&vector_pack());
    let (text, path) = (tile_text((1, 0, 1), "vector"), "/edge/tiles/world/1/0/1.mvt");
    for _ in 0..2 {
        let coded = edge.get_with(path, &[("accept-encoding", "br, gzip")]);
        assert_eq!((coded.status, coded.header("content-encoding")), (200, "gzip"));
        assert_eq!(coded.header("content-type"), "application/vnd.mapbox-vector-tile");
        assert!(coded.body == gzip(text.as_bytes()));
        assert_eq!(coded.header("vary"), "Accept-Encoding");
        for accepted in ["identity", "br", "gzip;q=0"] {
            let plain = edge.get_with(path, &[("accept-encoding", accepted)]);
            assert_eq!((plain.text(), plain.header("content-encoding")), (text.clone(), ""), "{accepted}");
            assert_eq!(plain.header("vary"), "Accept-Encoding");
            assert_ne!(plain.header("etag"), coded.header("etag"), "other bytes have another tag");
            let known = edge
                .get_with(path, &[("accept-encoding", accepted), ("if-none-match", plain.header("etag"))]);
            assert_eq!(known.status, 304);
        }
        assert_eq!(edge.get(path).text(), text, "a client that says nothing gets it plain");
    }
}

#[test]
fn a_place_without_a_tile_is_answered_as_configured() {
    let edge = Running::with_pack(&raster_pack("one"));
    for _ in 0..2 {
        let answer = edge.get("/edge/tiles/world/2/3/3.png");
        assert_eq!((answer.status, answer.body.len()), (204, 0));
        assert!(answer.header("cache-control").contains("max-age"));
        // Beyond the levels of the pack, but inside of the grid.
        assert_eq!(edge.get("/edge/tiles/world/9/1/1").status, 204);
    }
    let strict = Running::start(
        |dir| write(&dir.join("world.pmtiles"), &raster_pack("one")),
        |config| {
            config.packs.push(PackConfig::new("world.pmtiles".into()));
            config.tiles.empty = EmptyTile::NotFound;
        },
    );
    strict.wait_for_pack("world", "served");
    for _ in 0..2 {
        assert_eq!(strict.get("/edge/tiles/world/2/3/3.png").status, 404);
    }
}

#[test]
fn a_place_outside_of_the_grid_or_of_another_kind_is_refused() {
    let edge = Running::with_pack(&raster_pack("one"));
    for (path, status) in [
        ("world/0/0/1", 404),
        ("world/1/2/0", 404),
        ("world/32/0/0", 404),
        ("world/0/0/0.mvt", 404),
        ("world/0/0/0.", 404),
        ("other/0/0/0", 404),
        ("world/0/0", 404),
        ("world/a/0/0", 400),
        ("world/1/-1/0", 400),
        ("world/00/0/0", 400),
        ("world/0/0/99999999999999", 400),
    ] {
        assert_eq!(edge.get(&format!("/edge/tiles/{path}")).status, status, "{path}");
    }
}

#[test]
fn a_pack_can_be_read_whole_and_by_range_by_those_who_know_its_format() {
    let bytes = raster_pack("one");
    let edge = Running::with_pack(&bytes);
    let whole = edge.get("/edge/assets/world.pmtiles");
    assert_eq!((whole.status, whole.header("content-type")), (200, "application/vnd.pmtiles"));
    assert!(whole.body == bytes);
    let header = edge.get_with("/edge/assets/world.pmtiles", &[("range", "bytes=0-126")]);
    assert_eq!((header.status, &header.body[..7]), (206, b"PMTiles".as_slice()));
    assert_eq!(header.header("etag"), whole.header("etag"));
}

#[test]
fn a_tile_that_is_a_bomb_is_not_unpacked() {
    let bomb = gzip(&vec![0; 30 * 1024 * 1024]);
    let mut writer = pmtiles::Writer::new(pmtiles::Settings {
        tile_type: pmtiles::TileType::Mvt,
        tile_coding: Some(decode::Coding::Gzip),
        ..pmtiles::Settings::default()
    });
    writer.push(pmtiles::Coord::new(0, 0, 0).unwrap().id(), &bomb).unwrap();
    let edge = Running::with_pack(&writer.finish().unwrap());
    let coded = edge.get_with("/edge/tiles/world/0/0/0", &[("accept-encoding", "gzip")]);
    assert_eq!((coded.status, coded.body.len()), (200, bomb.len()), "whoever takes it gets it as it is");
    let plain = edge.get("/edge/tiles/world/0/0/0");
    assert_eq!((plain.status, plain.reason().as_str()), (502, "source_expands"));
    assert_eq!(
        edge.metric("edge_rejects_total{node=\"test\",service=\"edge\",reason=\"decompress_cap\"}"),
        1.0
    );
}
