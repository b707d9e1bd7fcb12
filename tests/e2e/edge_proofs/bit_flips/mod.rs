//! Bits that turn over in whatever the edge serves from: an answer is right or an error, never a wrong byte.
//!
//! Packs rot while the node runs: a bit is turned, the time of modification is put back, and it is turned back afterwards.
//! Stored objects rot while it runs, and with their trees and the kept hashes of packs while it is down. Nothing is kept in
//! RAM. A static file that is changed is another file, also if its time of modification is put back: that is served, whole.

mod ground;
mod rot;

use ground::{Ground, Judge};
use rot::{change, turn};

use super::{Chance, making, size};

/// Bits that are turned while the node is down, before each start.
const COLD: usize = 25;

#[test]
fn turned_bits_are_never_served() {
    let flips = size(200, 10_000);
    let (cold_rounds, warm) = (flips / 4 / COLD, flips - flips / 4);
    let mut chance = Chance::new("bit flips");
    let mut judge = Judge::default();
    let mut ground = Ground::new();
    for round in 0..cold_rounds {
        for _ in 0..warm / cold_rounds {
            match chance.below(10) {
                0..5 => rot_of_a_pack(&mut ground, &mut judge, &mut chance),
                5..7 => rot_of_an_object(&mut ground, &mut judge, &mut chance),
                _ => change_of_a_file(&mut ground, &mut judge, &mut chance),
            }
            judge.flips += 1;
        }
        rot_while_it_is_down(&mut ground, &mut judge, &mut chance, round);
    }
    println!("bit flips: {judge}");
    assert!(judge.flips >= flips && judge.errors > flips / 4 && judge.right > flips, "{judge}");
}

/// A bit of a mounted pack turns: the range that it is in is refused, and every tile is right or refused.
fn rot_of_a_pack(ground: &mut Ground, judge: &mut Judge, chance: &mut Chance) {
    let number = chance.below(ground.packs.len());
    let pack = &ground.packs[number];
    let at = chance.below(pack.bytes.len());
    let bit = chance.below(8);
    turn(&pack.path, at, bit);
    let (begin, end) =
        (at.saturating_sub(chance.below(500)), (at + chance.below(500)).min(pack.bytes.len() - 1));
    let range = format!("range: bytes={begin}-{end}\r\n");
    let got = judge.part(&mut ground.asker, &pack.raw(), &range, &pack.bytes, begin..end + 1);
    assert!(got.is_none_or(|whole| !whole), "{} at {at}: the rotten range was served", pack.raw());
    judge.whole(&mut ground.asker, &pack.raw(), "", &pack.bytes);
    let some = [pack.tile_at(at), chance.below(pack.tiles.len()), chance.below(pack.tiles.len())];
    for tile in some {
        let (path, plain, coded) = &pack.tiles[tile];
        judge.whole(&mut ground.asker, path, "", plain);
        judge.whole(&mut ground.asker, path, "accept-encoding: gzip\r\n", coded);
    }
    turn(&pack.path, at, bit);
    // A look at the file may fall between the turn and the time put back: then another file is needed.
    let mended = judge.part(&mut ground.asker, &pack.raw(), &range, &pack.bytes, begin..end + 1);
    if mended != Some(true) {
        ground.renew(number..number + 1);
    }
}

/// A bit of a stored object turns: it is set aside, and filled again.
fn rot_of_an_object(ground: &mut Ground, judge: &mut Judge, chance: &mut Chance) {
    let number = chance.below(ground.objects.len());
    ground.fill(judge, number);
    let object = &ground.objects[number];
    turn(&ground.object_path(number), chance.below(object.bytes.len()), chance.below(8));
    let begin = chance.below(object.bytes.len());
    judge.whole(&mut ground.asker, &format!("/edge/cas/{}", making::id(&object.bytes)), "", &object.bytes);
    let range = format!("range: bytes={begin}-\r\n");
    judge.part(&mut ground.asker, &object.asset, &range, &object.bytes, begin..object.bytes.len());
    ground.fill(judge, number);
}

/// A bit of a static file is changed, by a tool that sets the time of modification or by one that keeps it: it is another
/// file, with another tag.
fn change_of_a_file(ground: &mut Ground, judge: &mut Judge, chance: &mut Chance) {
    let number = chance.below(ground.files.len());
    let file = &mut ground.files[number];
    let (at, bit) = (chance.below(file.bytes.len()), chance.below(8));
    file.bytes[at] ^= 1 << bit;
    if chance.below(2) == 0 {
        change(&file.path, at, bit);
    } else {
        turn(&file.path, at, bit);
    }
    // Until it is looked at again it is the old file, of which no wrong byte is sent: such an answer breaks off.
    let mut ask = || judge.whole(&mut ground.asker, &file.url, "", &file.bytes);
    let got = (0..5).map(|_| ask()).find(|got| *got == Some(true));
    assert!(got.is_some(), "{}: the new file is not served", file.url);
}

/// Bits turn in many files while nobody looks. What was promised of a pack is in the settings, of an object in its name.
fn rot_while_it_is_down(ground: &mut Ground, judge: &mut Judge, chance: &mut Chance, round: usize) {
    (0..ground.objects.len()).for_each(|number| ground.fill(judge, number));
    ground.stop();
    let mut turned = 0;
    for number in 0..ground.packs.len() {
        let pack = &ground.packs[number];
        // Not both: without the hashes that were kept, and with other bytes, it would be another pack.
        if (round + number).is_multiple_of(2) {
            turn(&pack.path, chance.below(pack.bytes.len()), chance.below(8));
            turned += 1;
        }
    }
    for path in ground.outboards() {
        turned += usize::from(rot::turn_any(&path, chance));
    }
    while turned < COLD {
        let number = chance.below(ground.objects.len());
        let object = ground.object_path(number);
        let tree = object.with_extension("tree");
        let path = if tree.exists() && chance.below(2) == 0 { tree } else { object };
        turned += usize::from(rot::turn_any(&path, chance));
    }
    judge.flips += turned;
    ground.start();
    ground.check_all(judge);
    ground.renew(0..ground.packs.len());
}
