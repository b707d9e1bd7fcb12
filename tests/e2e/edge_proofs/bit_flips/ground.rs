//! What is served, and the judge of what came.

use std::{
    fmt,
    fs::{self, File},
    io::ErrorKind::{ConnectionReset, UnexpectedEof},
    ops::Range,
    path::{Path, PathBuf},
    sync::Arc,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use super::rot::{LONG_AGO, set_time};
use crate::{
    edge_proofs::{
        edge_node::EdgeNode,
        making::{Place, gzip, id, mbtiles_pack, noise, places, pmtiles_pack, tag},
        origin::{Origin, send},
        wire::{Asker, Got},
    },
    support::eventually,
};

/// So many that there are leaf directories.
const PMTILES_ZOOM: u8 = 6;
const MBTILES_ZOOM: u8 = 3;
/// Of one group, of some, and of more than is read at once.
const OBJECT_LENGTHS: [usize; 6] = [100, 5_000, 16_384, 40_000, 100_000, 400_000];
/// One that is kept as a whole, and one that never is.
const FILE_LENGTHS: [usize; 3] = [3_000, 100_000, 1_200_000];

/// Counts, and finds wrong bytes.
#[derive(Debug, Default)]
pub(super) struct Judge {
    pub(super) flips: usize,
    pub(super) right: usize,
    pub(super) errors: usize,
    pub(super) broken_off: usize,
}

impl Judge {
    /// Asks for a whole thing. `Some(true)` if it came, `Some(false)` if it broke off, `None` if it was refused.
    #[track_caller]
    pub(super) fn whole(
        &mut self,
        asker: &mut Asker,
        path: &str,
        fields: &str,
        right: &[u8],
    ) -> Option<bool> {
        let Some(got) = self.ask(asker, path, fields) else { return Some(false) };
        if got.status == 200 && got.whole && fields.is_empty() && !got.header("etag").contains('+') {
            assert_eq!(got.header("etag"), tag(right), "{path}: another tag");
        }
        self.count(path, &got, right)
    }

    /// The same for a part.
    #[track_caller]
    pub(super) fn part(
        &mut self,
        asker: &mut Asker,
        path: &str,
        fields: &str,
        all: &[u8],
        range: Range<usize>,
    ) -> Option<bool> {
        let Some(got) = self.ask(asker, path, fields) else { return Some(false) };
        assert_ne!(got.status, 200, "{path}: a part was asked for");
        self.count(path, &got, &all[range])
    }

    /// An answer; `None` if it broke off before its head was sent, which is as honest as later.
    fn ask(&mut self, asker: &mut Asker, path: &str, fields: &str) -> Option<Got> {
        let got = asker.ask(path, fields);
        match &got {
            Err(error) if matches!(error.kind(), UnexpectedEof | ConnectionReset) => self.broken_off += 1,
            Err(error) => panic!("{path}: {error}"),
            Ok(_) => {}
        }
        got.ok()
    }

    #[track_caller]
    fn count(&mut self, path: &str, got: &Got, right: &[u8]) -> Option<bool> {
        if !got.is_served() {
            assert!(matches!(got.status, 410 | 500..), "{path}: {} {}", got.status, got.reason());
            self.errors += 1;
            return None;
        }
        // What came before it broke off has to be right, too.
        assert!(right.starts_with(&got.body), "{path}: WRONG BYTES with {}", got.status);
        if got.whole {
            assert_eq!(got.body.len(), right.len(), "{path}: too short, and called whole");
            self.right += 1;
        } else {
            self.broken_off += 1;
        }
        Some(got.whole)
    }
}

impl fmt::Display for Judge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { flips, right, errors, broken_off } = self;
        write!(
            f,
            "{flips} bits turned; {right} answers right, {errors} refused, {broken_off} broken off, 0 wrong"
        )
    }
}

/// A pack as it should be.
pub(super) struct Pack {
    pub(super) path: PathBuf,
    pub(super) bytes: Vec<u8>,
    /// The path of each tile, its plain bytes, and those that a client gets who takes gzip.
    pub(super) tiles: Vec<(String, Vec<u8>, Vec<u8>)>,
    /// Where each tile begins in the file.
    begins: Vec<usize>,
    /// How often it was put in place; each time it is a second younger, to be told from the one before.
    written: u64,
    /// When the one that is served was modified, as the edge says it.
    served: String,
}

impl Pack {
    /// The file's path as an asset.
    pub(super) fn raw(&self) -> String {
        format!("/edge/assets/{}", self.path.file_name().unwrap().display())
    }

    /// The tile that this byte is part of, or one near by.
    pub(super) fn tile_at(&self, at: usize) -> usize {
        let nearest = self.begins.iter().enumerate().filter(|(_, begin)| **begin <= at);
        nearest.max_by_key(|(_, begin)| **begin).map_or(0, |(tile, _)| tile)
    }

    fn write(&mut self) {
        self.written += 1;
        let aside = self.path.with_extension("aside");
        fs::write(&aside, &self.bytes).unwrap();
        set_time(&File::options().write(true).open(&aside).unwrap(), self.modified());
        fs::rename(aside, &self.path).unwrap();
    }

    fn modified(&self) -> SystemTime {
        UNIX_EPOCH + LONG_AGO + Duration::from_secs(self.written)
    }
}

/// A static file as it should be.
pub(super) struct Static {
    pub(super) path: PathBuf,
    pub(super) url: String,
    pub(super) bytes: Vec<u8>,
}

/// An object as it should be.
pub(super) struct Object {
    pub(super) asset: String,
    pub(super) bytes: Arc<Vec<u8>>,
}

/// A node and everything that it serves.
pub(super) struct Ground {
    dir: tempfile::TempDir,
    settings: String,
    node: Option<EdgeNode>,
    pub(super) asker: Asker,
    pub(super) packs: Vec<Pack>,
    pub(super) files: Vec<Static>,
    pub(super) objects: Vec<Object>,
    _origin: Origin,
}

impl Ground {
    pub(super) fn new() -> Self {
        let dir = tempfile::tempdir().unwrap();
        let mut packs = vec![pmtiles(dir.path()), mbtiles(dir.path())];
        packs.iter_mut().for_each(Pack::write);
        let files = statics(&dir.path().join("public"));
        let bodies: Vec<_> =
            (0..24).map(|number| Arc::new(noise(number + 7, OBJECT_LENGTHS[number % 6] + number))).collect();
        let sent = bodies.clone();
        let origin = Origin::start(move |path, stream| {
            let number: usize = path.trim_start_matches("/o").parse().unwrap();
            send(stream, &sent[number])
        });
        let object = |(number, bytes)| Object { asset: origin.asset(&format!("/o{number}")), bytes };
        let objects = bodies.into_iter().enumerate().map(object).collect();
        let settings = settings(dir.path(), &packs, &origin);
        let node = EdgeNode::start(dir.path(), "", &settings);
        for pack in &mut packs {
            pack.served = node.ask(&pack.raw()).header("last-modified").to_owned();
        }
        let asker = node.asker();
        Self { dir, settings, node: Some(node), asker, packs, files, objects, _origin: origin }
    }

    pub(super) fn stop(&mut self) {
        if let Some(mut node) = self.node.take() {
            node.signal("TERM");
            assert!(node.wait().success());
        }
    }

    pub(super) fn start(&mut self) {
        let node = EdgeNode::start(self.dir.path(), "", &self.settings);
        self.asker = node.asker();
        self.node = Some(node);
    }

    /// Has an object in the store: it may have to be asked for again, but then it comes.
    pub(super) fn fill(&mut self, judge: &mut Judge, number: usize) {
        let object = &self.objects[number];
        eventually("what was set aside is filled again", || {
            (judge.whole(&mut self.asker, &object.asset, "", &object.bytes) == Some(true)).then_some(())
        });
        let path = self.object_path(number);
        eventually("the object is stored", || path.exists().then_some(()));
    }

    pub(super) fn object_path(&self, number: usize) -> PathBuf {
        let name = id(&self.objects[number].bytes);
        let hex = name.strip_prefix("b3:").unwrap();
        self.dir.path().join("data/cas/objects").join(&hex[..2]).join(hex)
    }

    /// The kept hashes of packs.
    pub(super) fn outboards(&self) -> Vec<PathBuf> {
        let kept: Vec<_> = fs::read_dir(self.dir.path().join("data/outboards"))
            .unwrap()
            .map(|e| e.unwrap().path())
            .collect();
        assert_eq!(kept.len(), self.packs.len(), "{kept:?}");
        kept
    }

    /// Asks for everything.
    pub(super) fn check_all(&mut self, judge: &mut Judge) {
        for pack in &self.packs {
            judge.whole(&mut self.asker, &pack.raw(), "", &pack.bytes);
            for (path, plain, coded) in pack.tiles.iter().step_by(7) {
                judge.whole(&mut self.asker, path, "", plain);
                judge.whole(&mut self.asker, path, "accept-encoding: gzip\r\n", coded);
            }
        }
        for file in &self.files {
            judge.whole(&mut self.asker, &file.url, "", &file.bytes);
        }
        for number in 0..self.objects.len() {
            let object = &self.objects[number];
            let by_id = format!("/edge/cas/{}", id(&object.bytes));
            judge.whole(&mut self.asker, &by_id, "", &object.bytes);
            self.fill(judge, number);
        }
    }

    /// Puts good files in the place of packs, and waits until they are served.
    pub(super) fn renew(&mut self, numbers: Range<usize>) {
        self.packs[numbers.clone()].iter_mut().for_each(Pack::write);
        for pack in &mut self.packs[numbers] {
            pack.served = eventually("the good pack is served", || {
                let got = self.asker.ask(&pack.raw(), "range: bytes=0-0\r\n").ok().filter(Got::is_served)?;
                Some(got.header("last-modified").to_owned()).filter(|time| *time != pack.served)
            });
        }
    }
}

fn settings(dir: &Path, packs: &[Pack], origin: &Origin) -> String {
    // Each is pinned: while the node is down, a pack that rots cannot be told from another one otherwise.
    let pinned: Vec<_> = packs
        .iter()
        .map(|pack| format!("{{ path = {:?}, b3 = \"{}\" }}", pack.path, id(&pack.bytes)))
        .collect();
    format!(
        "{}packs = [{}]\nroots = [{:?}]\nram_bytes = \"0B\"\ncas.ram_bytes = \"0B\"\n",
        origin.settings(),
        pinned.join(", "),
        dir.join("public")
    )
}

fn tile((zoom, column, row): Place, len: usize) -> Vec<u8> {
    let seed =
        (usize::from(zoom) << 20) + (usize::try_from(column).unwrap() << 10) + usize::try_from(row).unwrap();
    noise(seed + 1, len + seed % 50)
}

fn tile_path(pack: &str, (zoom, column, row): Place, ending: &str) -> String {
    format!("/edge/tiles/{pack}/{zoom}/{column}/{row}.{ending}")
}

fn pmtiles(dir: &Path) -> Pack {
    let content = |place| tile(place, 100);
    let bytes = pmtiles_pack(PMTILES_ZOOM, content);
    let mut next = usize::try_from(pmtiles::Header::parse(&bytes).unwrap().tiles.offset).unwrap();
    let (mut tiles, mut begins) = (Vec::new(), Vec::new());
    for place in places(PMTILES_ZOOM) {
        let plain = content(place);
        begins.push(next);
        next += plain.len();
        tiles.push((tile_path("plain", place, "png"), plain.clone(), plain));
    }
    Pack { path: dir.join("plain.pmtiles"), bytes, tiles, begins, written: 0, served: String::new() }
}

fn mbtiles(dir: &Path) -> Pack {
    let content = |place| tile(place, 2_000);
    let made = dir.join("made");
    mbtiles_pack(&made, "pbf", MBTILES_ZOOM, |place| gzip(&content(place)));
    let bytes = fs::read(&made).unwrap();
    fs::remove_file(made).unwrap();
    let (mut tiles, mut begins) = (Vec::new(), Vec::new());
    for place in places(MBTILES_ZOOM) {
        let (plain, coded) = (content(place), gzip(&content(place)));
        // Behind what all gzip files have in common, and before the database splits it.
        let begin = bytes.windows(24).position(|window| *window == coded[16..40]);
        begins.push(begin.expect("the tile is in the file"));
        tiles.push((tile_path("coded", place, "pbf"), plain, coded));
    }
    Pack { path: dir.join("coded.mbtiles"), bytes, tiles, begins, written: 0, served: String::new() }
}

fn statics(folder: &Path) -> Vec<Static> {
    fs::create_dir(folder).unwrap();
    let file = |len: usize| {
        let path = folder.join(format!("f{len}.bin"));
        let bytes = noise(len, len);
        fs::write(&path, &bytes).unwrap();
        set_time(&File::options().write(true).open(&path).unwrap(), UNIX_EPOCH + LONG_AGO);
        Static { url: format!("/edge/assets/f{len}.bin"), path, bytes }
    };
    FILE_LENGTHS.into_iter().map(file).collect()
}
