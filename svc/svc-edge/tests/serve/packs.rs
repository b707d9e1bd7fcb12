//! Packs: mounted, refused, swapped, changed and damaged while others are served.

use std::{
    fs,
    os::unix::fs::FileExt,
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::SystemTime,
};

use ron_kernel::readiness::Effect;
use svc_edge::{PackConfig, RefusedPacks};

use crate::support::{Running, eventually, raster_pack, rename_over, tile_text, write};

const TILE: &str = "/edge/tiles/world/1/1/0.png";

#[test]
fn a_pack_that_is_no_good_is_named_and_the_others_are_served() {
    let edge = Running::start(
        |dir| {
            write(&dir.join("world.pmtiles"), &raster_pack("one"));
            write(&dir.join("broken.pmtiles"), b"PMTiles\x03 and no more");
        },
        |config| {
            config.packs = ["world.pmtiles", "broken.pmtiles", "absent.pmtiles"]
                .map(|path| PackConfig::new(path.into()))
                .to_vec();
        },
    );
    edge.wait_for_pack("world", "served");
    let problem = edge.wait_for_pack("broken", "refused");
    assert!(problem["problem"].as_str().is_some_and(|problem| !problem.is_empty()), "{problem}");
    edge.wait_for_pack("absent", "refused");
    assert_eq!(edge.get(TILE).text(), tile_text((1, 1, 0), "one"));
    for (path, told) in [("/edge/tiles/broken/0/0/0", ""), ("/edge/tiles/absent.json", "does not exist")] {
        let answer = edge.get(path);
        assert_eq!((answer.status, answer.reason().as_str()), (502, "quarantined"), "{path}");
        assert!(answer.text().contains(told), "{}", answer.text());
    }
    eventually("readiness names both", || {
        let standing = edge.standing();
        standing.contains("broken:") && standing.contains("absent:") && !standing.contains("world")
    });
    // What comes later is taken as well.
    rename_over(&edge.path("absent.pmtiles"), &raster_pack("late"));
    rename_over(&edge.path("broken.pmtiles"), &raster_pack("mended"));
    edge.wait_for_pack("absent", "served");
    edge.wait_for_pack("broken", "served");
    eventually("readiness is content", || edge.standing().is_empty());
}

/// An edge with one good pack and one broken one, or with the broken one alone.
fn with_broken_pack(names: &[&str], refused: RefusedPacks) -> Running {
    let edge = Running::start(
        |dir| {
            write(&dir.join("world.pmtiles"), &raster_pack("one"));
            write(&dir.join("broken.pmtiles"), b"PMTiles\x03 and no more");
        },
        |config| {
            config.packs = names.iter().map(|path| PackConfig::new(path.into())).collect();
            config.refused_packs = refused;
        },
    );
    edge.wait_for_pack("broken", "refused");
    edge
}

#[test]
fn an_edge_whose_packs_are_all_refused_is_not_ready_and_with_down_one_is_enough() {
    let down = |edge: &Running| edge.standing().contains("packs_refused");
    let both = ["world.pmtiles", "broken.pmtiles"];
    for (names, refused, is_down) in [
        (&both[1..], RefusedPacks::Report, true),
        (&both[..], RefusedPacks::Report, false),
        (&both[..], RefusedPacks::Down, true),
    ] {
        let edge = with_broken_pack(names, refused);
        if names.len() == 2 {
            edge.wait_for_pack("world", "served");
        }
        eventually("readiness tells", || edge.standing().contains("broken:") && down(&edge) == is_down);
        let worst = if is_down { Effect::ServiceDown } else { Effect::Report };
        assert_eq!(edge.scope.readiness().worst(Some("edge")), Some(worst), "{names:?} {refused:?}");
        rename_over(&edge.path("broken.pmtiles"), &raster_pack("mended"));
        edge.wait_for_pack("broken", "served");
        eventually("readiness is content", || edge.standing().is_empty());
    }
}

#[test]
fn a_pack_that_is_not_the_one_that_was_meant_is_refused() {
    let bytes = raster_pack("one");
    let id = format!("b3:{}", blake3::hash(&bytes).to_hex());
    let edge = Running::start(
        |dir| {
            write(&dir.join("world.pmtiles"), &bytes);
            write(&dir.join("other.pmtiles"), &raster_pack("two"));
        },
        |config| {
            config.packs = ["world.pmtiles", "other.pmtiles"]
                .map(|path| {
                    let mut pack = PackConfig::new(path.into());
                    pack.b3.clone_from(&id);
                    pack
                })
                .to_vec();
        },
    );
    edge.wait_for_pack("world", "served");
    edge.wait_for_pack("other", "refused");
}

#[test]
fn a_pack_renamed_over_another_takes_its_place_and_no_answer_is_of_both() {
    let edge = Running::with_pack(&raster_pack("gen0 "));
    let done = AtomicBool::new(false);
    thread::scope(|scope| {
        let readers: Vec<_> = (0..3)
            .map(|_| {
                scope.spawn(|| {
                    let mut count = 0;
                    while !done.load(Ordering::Relaxed) {
                        let answer = edge.get(TILE);
                        assert_eq!(answer.status, 200, "{}", answer.text());
                        let text = answer.text();
                        let mark = text.split(' ').next().unwrap();
                        assert_eq!(text, tile_text((1, 1, 0), &format!("{mark} ")), "a mixture");
                        count += 1;
                    }
                    count
                })
            })
            .collect();
        for generation in 1..4 {
            let mark = format!("gen{generation} ");
            rename_over(&edge.path("world.pmtiles"), &raster_pack(&mark));
            eventually("the next generation is served", || {
                edge.get(TILE).text() == tile_text((1, 1, 0), &mark)
            });
        }
        done.store(true, Ordering::Relaxed);
        let served: usize = readers.into_iter().map(|reader| reader.join().unwrap()).sum();
        assert!(served > 0);
    });
}

#[test]
fn a_bad_pack_does_not_take_the_place_of_a_good_one() {
    let edge = Running::with_pack(&raster_pack("good"));
    rename_over(&edge.path("world.pmtiles"), b"no pack at all");
    eventually("readiness tells", || edge.standing().contains("what was mounted before is served"));
    assert_eq!(edge.get(TILE).text(), tile_text((1, 1, 0), "good"));
    fs::remove_file(edge.path("world.pmtiles")).unwrap();
    eventually("readiness tells", || edge.standing().contains("does not exist"));
    assert_eq!(edge.get(TILE).status, 200, "what was mounted is still whole");
    rename_over(&edge.path("world.pmtiles"), &raster_pack("better"));
    eventually("the good one does", || edge.get(TILE).text() == tile_text((1, 1, 0), "better"));
}

#[test]
fn a_pack_that_is_written_to_is_served_no_more_until_it_is_replaced() {
    let edge = Running::with_pack(&raster_pack("one"));
    assert_eq!(edge.get(TILE).status, 200);
    let file = fs::File::options().append(true).open(edge.path("world.pmtiles")).unwrap();
    std::io::Write::write_all(&mut &file, b"more").unwrap();
    let pack = edge.wait_for_pack("world", "refused");
    assert!(pack["problem"].as_str().unwrap().contains("changed in place"), "{pack}");
    let answer = edge.get(TILE);
    assert_eq!((answer.status, answer.reason().as_str()), (502, "quarantined"), "not even from RAM");
    rename_over(&edge.path("world.pmtiles"), &raster_pack("two"));
    edge.wait_for_pack("world", "served");
    assert_eq!(edge.get(TILE).text(), tile_text((1, 1, 0), "two"));
}

#[test]
fn a_tile_that_rots_is_refused_and_the_rest_of_its_pack_served() {
    // Tiles of a group each, so that one flip damages one tile.
    let mut writer = pmtiles::Writer::new(pmtiles::Settings::default());
    let mut places: Vec<_> = (0..4).map(|at| (1u8, at / 2, at % 2)).collect();
    places
        .sort_by_key(|(zoom, column, row)| pmtiles::Coord::new(*zoom, *column, *row).unwrap().id().number());
    for (zoom, column, row) in places {
        let tile = tile_text((zoom, column, row), "x").repeat(200);
        writer.push(pmtiles::Coord::new(zoom, column, row).unwrap().id(), tile.as_bytes()).unwrap();
    }
    let bytes = writer.finish().unwrap();
    let edge = Running::with_pack(&bytes);
    let (path, last) = (edge.path("world.pmtiles"), bytes.len() as u64 - 1);
    let modified = fs::metadata(&path).unwrap().modified().unwrap();
    let file = fs::File::options().write(true).open(&path).unwrap();
    file.write_all_at(&[bytes[bytes.len() - 1] ^ 0x10], last).unwrap();
    file.set_modified(modified).unwrap();
    drop(file);
    let statuses: Vec<u16> =
        ["0/0", "0/1", "1/0", "1/1"].map(|at| edge.get(&format!("/edge/tiles/world/1/{at}")).status).to_vec();
    assert_eq!(statuses.iter().filter(|status| **status == 502).count(), 1, "{statuses:?}");
    assert_eq!(statuses.iter().filter(|status| **status == 200).count(), 3, "{statuses:?}");
    eventually("readiness tells", || edge.standing().contains("pack world"));
    assert!(SystemTime::now() >= modified);
}

#[test]
fn many_packs_are_all_mounted_a_few_at_a_time_and_each_can_be_swapped() {
    let names: Vec<String> = (0..11).map(|number| format!("pack{number}")).collect();
    let edge = Running::start(
        |dir| names.iter().for_each(|name| write(&dir.join(name), &raster_pack(name))),
        |config| config.packs = names.iter().map(|name| PackConfig::new(name.into())).collect(),
    );
    for name in &names {
        edge.wait_for_pack(name, "served");
        assert_eq!(edge.get(&format!("/edge/tiles/{name}/1/1/0")).text(), tile_text((1, 1, 0), name));
    }
    rename_over(&edge.path(&names[10]), &raster_pack("new"));
    let url = format!("/edge/tiles/{}/1/1/0", names[10]);
    eventually("the last of them is swapped", || edge.get(&url).text() == tile_text((1, 1, 0), "new"));
}
