//! Packs that are replaced under load: every response is of one generation, and none is an error.

use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{
    Chance,
    edge_node::EdgeNode,
    making::{Place, mbtiles_pack, places, pmtiles_pack, tag},
    size,
    wire::Asker,
};
use crate::support::{Flag, eventually};

/// More than are mounted at once.
const PACKS: usize = 10;
const CLIENTS: u64 = 4;
const MAX_ZOOM: u8 = 3;

/// The tags of the whole files that there were, with the pack and the generation of each.
type Files = Mutex<BTreeMap<String, (usize, usize)>>;

/// A tile that says what it is, many times over, so that parts of two would show.
fn tile(pack: usize, generation: usize, (zoom, column, row): Place) -> Vec<u8> {
    format!("pack {pack} generation {generation} tile {zoom}/{column}/{row}\n").repeat(60).into_bytes()
}

/// Two of the packs are databases.
fn file_name(pack: usize) -> String {
    let ending = if pack % 5 == 4 { "mbtiles" } else { "pmtiles" };
    format!("p{pack}.{ending}")
}

/// Puts a generation of a pack in place.
fn put(dir: &Path, files: &Files, pack: usize, generation: usize) {
    let (path, aside) = (dir.join(file_name(pack)), dir.join("aside"));
    let tile = |place| tile(pack, generation, place);
    if file_name(pack).ends_with("mbtiles") {
        mbtiles_pack(&aside, "png", MAX_ZOOM, tile);
    } else {
        fs::write(&aside, pmtiles_pack(MAX_ZOOM, tile)).unwrap();
    }
    let known = tag(&fs::read(&aside).unwrap());
    files.lock().unwrap().insert(known, (pack, generation));
    fs::rename(aside, path).unwrap();
}

/// The generation that a tile says it is of.
fn generation_of(body: &[u8]) -> usize {
    let text = str::from_utf8(body).unwrap();
    text.split(' ').nth(3).unwrap().parse().unwrap()
}

/// A client that never sees an error, a mixture, or a generation older than one it has seen.
struct Client<'a> {
    asker: Asker,
    chance: Chance,
    files: &'a Files,
    newest: [usize; PACKS],
}

impl Client<'_> {
    fn tile(&mut self, all: &[Place]) {
        let (pack, place) = (self.chance.below(PACKS), *self.chance.one_of(all));
        let path = format!("/edge/tiles/p{pack}/{}/{}/{}.png", place.0, place.1, place.2);
        let got = self.asker.ask(&path, "").unwrap();
        assert_eq!((got.status, got.whole), (200, true), "{path}: {}", got.reason());
        let generation = generation_of(&got.body);
        assert!(got.body == tile(pack, generation, place), "{path}: a mixture");
        assert_eq!(got.header("etag"), tag(&got.body), "{path}");
        self.saw(pack, generation);
    }

    fn file(&mut self) {
        let pack = self.chance.below(PACKS);
        let path = format!("/edge/assets/{}", file_name(pack));
        let got = self.asker.ask(&path, "").unwrap();
        assert_eq!((got.status, got.whole), (200, true), "{path}: {}", got.reason());
        let known = tag(&got.body);
        assert_eq!(got.header("etag"), known, "{path}");
        let file = self.files.lock().unwrap().get(&known).copied();
        let Some((of, generation)) = file else { panic!("{path}: a file that there never was") };
        assert_eq!(of, pack, "{path}");
        self.saw(pack, generation);
    }

    fn saw(&mut self, pack: usize, generation: usize) {
        assert!(generation >= self.newest[pack], "pack {pack}: {generation} after {}", self.newest[pack]);
        self.newest[pack] = generation;
    }
}

#[test]
fn packs_swapped_under_load_are_never_mixed_and_cost_no_error() {
    let dir = tempfile::tempdir().unwrap();
    let files = Files::default();
    (0..PACKS).for_each(|pack| put(dir.path(), &files, pack, 0));
    let named: Vec<String> =
        (0..PACKS).map(|pack| format!("{:?}", dir.path().join(file_name(pack)))).collect();
    let node = EdgeNode::start(dir.path(), "", &format!("packs = [{}]\n", named.join(", ")));
    let (over, answered) = (Flag::default(), AtomicUsize::new(0));
    let (rounds, seed) = (size(20, 1000).div_ceil(PACKS), Chance::new("swaps").0);
    thread::scope(|scope| {
        let _over = over.set_at_the_end();
        for number in 0..CLIENTS {
            let (over, answered, files, node) = (&over, &answered, &files, &node);
            scope.spawn(move || {
                let chance = Chance(seed.wrapping_add(number << 32));
                let mut client = Client { asker: node.asker(), chance, files, newest: [0; PACKS] };
                let all = places(MAX_ZOOM);
                while !over.is_set() {
                    (0..20).for_each(|_| client.tile(&all));
                    client.file();
                    answered.fetch_add(21, Ordering::Relaxed);
                }
            });
        }
        for generation in 1..=rounds {
            (0..PACKS).for_each(|pack| put(dir.path(), &files, pack, generation));
            for pack in 0..PACKS {
                let path = format!("/edge/tiles/p{pack}/0/0/0.png");
                eventually("the new generation is served", || {
                    (generation_of(&node.ask(&path).body) == generation).then_some(())
                });
            }
        }
    });
    println!("swaps: {} swaps, {} answers", rounds * PACKS, answered.load(Ordering::Relaxed));
    assert!(answered.load(Ordering::Relaxed) > rounds * PACKS);
}
