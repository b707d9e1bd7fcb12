//! Packs under way: bad ones beside good ones, and swaps under load.

use std::{
    sync::atomic::{AtomicUsize, Ordering},
    thread,
};

use crate::support::{Client, Flag, eventually, get};

use super::{EdgeNode, pack, places, rename_over, tile, write};

#[test]
fn a_bad_pack_is_named_by_readiness_and_the_others_are_served() {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("good.pmtiles"), &pack(2, 0));
    let mut bad = pack(2, 0);
    let cut = bad.len() / 2;
    bad.truncate(cut);
    write(&dir.path().join("bad.pmtiles"), &bad);
    let edge = EdgeNode::start_in(dir, "packs = [\"good.pmtiles\", \"bad.pmtiles\"]");
    edge.wait_for_pack("good", "served");
    edge.wait_for_pack("bad", "refused");
    assert_eq!(edge.get("/edge/tiles/good/2/1/1").body, tile((2, 1, 1), 0));
    assert_eq!(edge.get("/edge/tiles/bad/2/1/1").status, 502);
    let ready = eventually("readiness tells", || {
        get(edge.node.admin, "/readyz").ok().filter(|answer| answer.body.contains("bad:"))
    });
    assert_eq!(ready.status, 200, "the node still serves: {}", ready.body);
    assert!(!ready.body.contains("good:"), "{}", ready.body);
    rename_over(&edge.node.path().join("bad.pmtiles"), &pack(2, 7));
    edge.wait_for_pack("bad", "served");
    assert_eq!(edge.get("/edge/tiles/bad/2/1/1").body, tile((2, 1, 1), 7));
}

#[test]
fn swaps_under_load_mix_no_generations_and_fail_nobody() {
    swap_under_load(12);
}

/// E2, in full.
#[test]
#[ignore = "takes minutes: run by name"]
fn a_thousand_swaps_under_load_mix_no_generations_and_fail_nobody() {
    swap_under_load(1000);
}

fn swap_under_load(swaps: usize) {
    let dir = tempfile::tempdir().unwrap();
    write(&dir.path().join("world.pmtiles"), &pack(3, 0));
    let edge = EdgeNode::start_in(dir, "packs = [\"world.pmtiles\"]");
    edge.wait_for_pack("world", "served");
    let path = edge.node.path().join("world.pmtiles");
    let (over, answered) = (Flag::default(), AtomicUsize::new(0));
    thread::scope(|scope| {
        let _over = over.set_at_the_end();
        for seed in 0..4 {
            let (edge, over, answered) = (&edge, &over, &answered);
            scope.spawn(move || read_until(edge, over, answered, seed));
        }
        for generation in 1..=swaps {
            rename_over(&path, &pack(3, generation));
            // A reload looks at once, which spares most of a second.
            edge.node.signal("HUP");
            let newest = tile((1, 0, 0), generation);
            eventually("the new generation is served", || {
                (edge.get("/edge/tiles/world/1/0/0").body == newest).then_some(())
            });
        }
    });
    let answered = answered.load(Ordering::Relaxed);
    assert!(answered > swaps, "{answered} answers");
    println!("{swaps} swaps, {answered} answers: none mixed, none refused");
}

/// Reads tiles and parts of the raw pack; each answer is of one generation.
fn read_until(edge: &EdgeNode, over: &Flag, answered: &AtomicUsize, seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let places = places(3);
    let mut client = Client::connect(edge.addr).unwrap();
    while !over.is_set() {
        let place = places[random.usize(..places.len())];
        let answer = client.get(&format!("/edge/tiles/world/{}/{}/{}", place.0, place.1, place.2)).unwrap();
        assert_eq!(answer.status, 200, "{}", answer.body);
        let generation = answer.body.split(' ').nth(1).and_then(|text| text.parse().ok());
        let generation = generation.unwrap_or_else(|| panic!("seed {seed}: {}", answer.body));
        assert_eq!(answer.body, tile(place, generation), "seed {seed}: a mixture");
        let tag = format!("\"b3:{}\"", blake3::hash(&answer.bytes).to_hex());
        assert_eq!(answer.header("etag"), Some(tag.as_str()));
        let raw = client.get("/edge/assets/world.pmtiles").unwrap();
        assert_eq!(raw.status, 200);
        let whole = format!("\"b3:{}\"", blake3::hash(&raw.bytes).to_hex());
        assert_eq!(raw.header("etag"), Some(whole.as_str()), "seed {seed}: a mixture");
        answered.fetch_add(2, Ordering::Relaxed);
    }
}
