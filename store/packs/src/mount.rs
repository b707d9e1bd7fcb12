//! Mounting: opening a file once, hashing it, and checking all of it before anything is served from it.

use std::{
    fs::File,
    io,
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::Arc,
    time::SystemTime,
};

use b3tree::Tree;
use cas::{BuildError, ReadError, Verified};
use pmtiles::{CheckError, Checked, Header, ROOT_END};
use rustix::fs::{Mode, OFlags};
use serde_json::{Map, Value};
use types::ObjectId;

use crate::{
    error::{MbtilesError, MountError},
    info::{Described, Format, PackInfo},
    mbtiles::{Database, Table},
    options::{MountOptions, Stage},
    outboard::{Hashes, Outboard},
    pack::{Pack, Tiles},
    pmtiles_pack::Directories,
    sniff,
    stamp::{FileState, Stamp},
};

/// Mounts the pack at `path`.
pub(crate) fn mount(path: &Path, options: MountOptions<'_>) -> Result<Pack, MountError> {
    let path = std::path::absolute(path).map_err(MountError::Open)?;
    let file = open(&path)?;
    let metadata = file.metadata().map_err(MountError::Read)?;
    let stamp = Stamp::of(&metadata);
    let modified = metadata.modified().map_err(MountError::Read)?;
    let outboard = options.outboard_dir.as_deref().map(|dir| Outboard::new(dir, &path));
    let beginning = read_at_most(&file, sniff::BEGINNING)?;
    let mounting = Mounting { path, file, stamp, modified, outboard, options };
    match sniff::format(&beginning) {
        Some(Format::Pmtiles) => mounting.pmtiles(),
        Some(Format::Mbtiles) => mounting.mbtiles(sniff::pages(&beginning)),
        None => Err(MountError::NotAPack),
    }
}

/// A mount in progress.
struct Mounting<'a> {
    path: PathBuf,
    file: File,
    stamp: Stamp,
    modified: SystemTime,
    outboard: Option<Outboard>,
    options: MountOptions<'a>,
}

impl Mounting<'_> {
    fn pmtiles(mut self) -> Result<Pack, MountError> {
        // What is no pack at all is told before it is hashed.
        let beginning = read_at_most(&self.file, usize::try_from(ROOT_END).unwrap_or(usize::MAX))?;
        let header = Header::parse(&beginning);
        let sound = header.and_then(|header| header.fits(self.stamp.size));
        sound.map_err(|error| MountError::Pmtiles(CheckError::Header(error)))?;

        let kept = self.kept();
        let fresh = kept.is_none();
        let hashes = match kept {
            Some(hashes) => hashes,
            None => Hashes { tree: self.hash()?, table: Table::default() },
        };
        self.judge_content(hashes.tree.root())?;
        let file = self.verified(&hashes)?;
        let limits = self.options.limits;
        let checked = pmtiles::check(file.len(), &limits.pmtiles, |range| file.read(range));
        let checked = checked.map_err(|error| match error {
            // Hashed a moment ago: somebody is writing.
            CheckError::Read(ReadError::Corrupt { .. }) if fresh => MountError::Changed,
            other => other.into(),
        })?;
        let mut info = self.info(Format::Pmtiles, hashes.tree.root(), described(&checked)?);
        self.finish(fresh, &hashes, &mut info)?;
        let tiles = Tiles::Pmtiles(Directories::new(checked.header, checked.root, &limits));
        Ok(Pack::new(info, self.stamp, self.file, file, tiles))
    }

    fn mbtiles(mut self, said: Option<u64>) -> Result<Pack, MountError> {
        let size = self.stamp.size;
        if let Some(said) = said.filter(|said| *said > size) {
            return Err(MbtilesError::CutShort { said, size }.into());
        }
        let database = Database::open(&self.path, &self.options.limits)?;
        // The database opened the file by its name: it has to be the one that is open here.
        if self.stamp.state_at(&self.path).map_err(MountError::Read)? != FileState::Same {
            return Err(MountError::Changed);
        }
        let kept = self.kept();
        let fresh = kept.is_none();
        let hashes = match kept {
            Some(hashes) => hashes,
            None => {
                // The tiles first: what changes meanwhile is in the hash of the file.
                let table = database.scan(&mut self.options, size)?;
                Hashes { tree: self.hash()?, table }
            }
        };
        self.judge_content(hashes.tree.root())?;
        let described = database.describe(&hashes.table)?;
        let mut info = self.info(Format::Mbtiles, hashes.tree.root(), described);
        self.finish(fresh, &hashes, &mut info)?;
        let file = self.verified(&hashes)?;
        Ok(Pack::new(info, self.stamp, self.file, file, Tiles::Mbtiles(database, hashes.table)))
    }

    fn kept(&self) -> Option<Hashes> {
        self.outboard.as_ref()?.load(&self.stamp, self.options.limits.mbtiles_tiles)
    }

    /// Hashes the whole file.
    fn hash(&mut self) -> Result<Arc<Tree>, MountError> {
        let file = self.file.try_clone().map_err(MountError::Read)?;
        let (options, total) = (&mut self.options, self.stamp.size);
        let built = Verified::build(file, |done| options.tell(Stage::Hashing, done, total));
        match built {
            Ok(verified) if verified.len() == total => Ok(Arc::clone(verified.tree())),
            Ok(_) => Err(MountError::Changed),
            Err(BuildError::Io(error)) => Err(MountError::Read(error)),
            Err(BuildError::Stopped) => Err(MountError::Stopped),
        }
    }

    fn verified(&self, hashes: &Hashes) -> Result<Arc<Verified>, MountError> {
        let file = self.file.try_clone().map_err(MountError::Read)?;
        Ok(Arc::new(Verified::of_file(file, Arc::clone(&hashes.tree))))
    }

    /// Whether it is what was asked for, and signed by whom it has to be.
    fn judge_content(&self, found: ObjectId) -> Result<(), MountError> {
        match self.options.expect {
            Some(expected) if expected != found => return Err(MountError::OtherContent { expected, found }),
            _ => {}
        }
        if let Some(signer) = &self.options.signer {
            signer.judge(&self.path, found)?;
        }
        Ok(())
    }

    fn info(&self, format: Format, id: ObjectId, described: Described) -> PackInfo {
        let stem = || self.path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let Described { metadata, tiles, tile_type, coding, min_zoom, max_zoom, bounds, center, notes } =
            described;
        let name = metadata.get("name").and_then(Value::as_str).filter(|name| !name.is_empty());
        PackInfo {
            path: self.path.clone(),
            name: name.map_or_else(stem, str::to_owned),
            format,
            id,
            size: self.stamp.size,
            modified: self.modified,
            tiles,
            tile_type,
            coding,
            min_zoom,
            max_zoom,
            bounds,
            center,
            metadata,
            notes,
        }
    }

    /// The last look at the file; then its hashes are worth keeping.
    fn finish(&self, fresh: bool, hashes: &Hashes, info: &mut PackInfo) -> Result<(), MountError> {
        let now = Stamp::of_file(&self.file).map_err(MountError::Read)?;
        if !now.is_as(&self.stamp) {
            return Err(MountError::Changed);
        }
        if let Some(outboard) = self.outboard.as_ref().filter(|_| fresh)
            && let Err(error) = outboard.save(&self.stamp, hashes)
        {
            info.notes.push(format!("its hashes could not be kept for the next start: {error}"));
        }
        Ok(())
    }
}

fn open(path: &Path) -> Result<File, MountError> {
    open_regular(path).map_err(MountError::Open)?.ok_or(MountError::NotAFile)
}

/// Opens a regular file for reading, without waiting for the other end of a pipe; `None` if something else is there.
pub(crate) fn open_regular(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let is_file = file.metadata()?.is_file();
    Ok(is_file.then_some(file))
}

/// The first bytes of a file, `len` if there are as many.
fn read_at_most(file: &File, len: usize) -> Result<Vec<u8>, MountError> {
    let mut bytes = vec![0; len];
    let mut filled = 0;
    while filled < len {
        match file.read_at(&mut bytes[filled..], filled as u64) {
            Ok(0) => break,
            Ok(read) => filled += read,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(MountError::Read(error)),
        }
    }
    bytes.truncate(filled);
    Ok(bytes)
}

/// What a PMTiles pack says of itself.
fn described(checked: &Checked) -> Result<Described, MountError> {
    let header = &checked.header;
    let metadata = match checked.metadata.as_str() {
        "" => Map::new(),
        text => serde_json::from_str(text).map_err(|error| MountError::Metadata(error.to_string()))?,
    };
    let degrees = |angle: i32| f64::from(angle) / 1e7;
    let [lon, lat] = header.center.map(degrees);
    Ok(Described {
        metadata,
        tiles: checked.tiles,
        tile_type: header.tile_type,
        coding: header.tile_coding,
        min_zoom: header.min_zoom,
        max_zoom: header.max_zoom,
        bounds: header.bounds.map(degrees),
        center: Some((lon, lat, header.center_zoom)),
        notes: checked.notes.iter().map(ToString::to_string).collect(),
    })
}
