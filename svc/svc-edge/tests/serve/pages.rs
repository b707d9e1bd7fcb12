//! Descriptions and pages.

use svc_edge::PackConfig;

use crate::support::{Running, raster_pack, vector_pack, write};

#[test]
fn a_pack_describes_itself_as_tilejson() {
    let edge = Running::with_pack(&vector_pack());
    let answer = edge.get("/edge/tiles/world.json");
    assert_eq!((answer.status, answer.header("content-type")), (200, "application/json"));
    let described = answer.json();
    assert_eq!(described["tilejson"], "3.0.0");
    assert_eq!(described["tiles"][0], "http://edge.test/edge/tiles/world/{z}/{x}/{y}.mvt");
    assert_eq!((&described["minzoom"], &described["maxzoom"]), (&0.into(), &2.into()));
    assert_eq!(described["vector_layers"][0]["id"], "roads");
    assert_eq!(described["bounds"].as_array().map(Vec::len), Some(4));
    assert_eq!(described["tile_count"], 20);
    let known = edge.get_with("/edge/tiles/world.json", &[("if-none-match", answer.header("etag"))]);
    assert_eq!(known.status, 304);
}

#[test]
fn addresses_begin_with_what_is_configured() {
    let edge = Running::start(
        |dir| write(&dir.join("world.pmtiles"), &raster_pack("one")),
        |config| {
            config.packs.push(PackConfig::new("world.pmtiles".into()));
            config.tiles.public_url = "https://tiles.example/".into();
        },
    );
    edge.wait_for_pack("world", "served");
    let described = edge.get("/edge/tiles/world.json").json();
    assert_eq!(described["tiles"][0], "https://tiles.example/edge/tiles/world/{z}/{x}/{y}.png");
    assert_eq!(described["attribution"], "us");
}

#[test]
fn the_list_is_for_programs_and_for_people() {
    let edge = Running::with_pack(&raster_pack("one"));
    let list = edge.get("/edge/packs").json();
    let pack = &list["packs"][0];
    assert_eq!(
        (&pack["name"], &pack["format"], &pack["tiles"]),
        (&"world".into(), &"pmtiles".into(), &"png".into())
    );
    assert_eq!(
        (&pack["min_zoom"], &pack["max_zoom"], &pack["tile_count"]),
        (&0.into(), &2.into(), &20.into())
    );
    assert!(pack["id"].as_str().unwrap().starts_with("b3:"));
    let page = edge.get_with("/edge/packs", &[("accept", "text/html,*/*")]);
    assert_eq!(page.header("content-type"), "text/html; charset=utf-8");
    assert!(page.text().contains("<a href=\"tiles/world\">world</a>"));
    assert_eq!(edge.get("/").header("location"), "/edge/packs");
}

#[test]
fn a_map_is_a_page_that_runs_nothing_from_elsewhere() {
    let edge = Running::with_pack(&raster_pack("one"));
    let page = edge.get("/edge/tiles/world");
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.contains("default-src 'none'") && policy.contains("script-src 'self'"), "{policy}");
    assert!(!policy.contains("unsafe") && !policy.contains("http"), "{policy}");
    for (file, media_type) in
        [("map.js", "text/javascript; charset=utf-8"), ("map.css", "text/css; charset=utf-8")]
    {
        let answer = edge.get(&format!("/edge/preview/{file}"));
        assert_eq!((answer.status, answer.header("content-type")), (200, media_type));
    }
    assert_eq!(edge.get("/edge/preview/other.js").status, 404);
    assert_eq!(edge.get("/edge/tiles/other").status, 404);
}
