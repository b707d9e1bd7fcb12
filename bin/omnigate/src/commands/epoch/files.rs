//! The files of a bundle: small ones whole, large ones line by line.
#![expect(
    clippy::disallowed_methods,
    reason = "commands that read and write files and end; no runtime is running"
)]

use std::{
    fmt,
    fs::{self, File},
    io::{self, BufRead, BufReader, BufWriter, Read, Write},
    path::{Path, PathBuf},
};

use rewards::bundle;
use ron_accounting::MAX_ROW_BYTES;
use ron_kernel::files::open_regular;

use super::plain::plain;
use crate::failure::Failure;

/// The most bytes of a document that is read whole: as many as a rewarder takes of a registry of payees at most.
const MAX_DOCUMENT: u64 = 64 << 20;

/// The most bytes of a line. Even 64 metrics with the longest names and numbers take half of it.
const MAX_LINE: u64 = 16 << 10;

/// Files are read and written so many bytes at a time.
const BUFFER: usize = 256 << 10;

/// A folder with an epoch's files.
#[derive(Debug)]
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        if path.is_dir() { Ok(Self(path.to_owned())) } else { Err(unreadable(path, "it is no folder")) }
    }

    /// The folder of an epoch; of the latest, if this one has such folders.
    pub(super) fn of_epoch(path: &Path) -> Result<Self, Failure> {
        let folder = Self::open(path)?;
        if folder.is_epoch() {
            return Ok(folder);
        }
        let latest = Self::epochs(path)?.into_iter().rfind(|(_, folder)| folder.is_epoch());
        let none = || unreadable(path, format_args!("it has no {} and no epochs", bundle::RUN));
        latest.map(|(_, folder)| folder).ok_or_else(none)
    }

    /// The folders of epochs in a folder, in the order of their numbers. Each is named by the number as it is written in
    /// documents, so that no epoch is there twice.
    pub(super) fn epochs(path: &Path) -> Result<Vec<(u64, Self)>, Failure> {
        let entries = fs::read_dir(path).map_err(|error| unreadable(path, error))?.filter_map(Result::ok);
        let number = |name: &str| name.parse::<u64>().ok().filter(|number| number.to_string() == name);
        let numbers = entries.filter_map(|entry| number(entry.file_name().to_str()?));
        let folders = numbers.map(|epoch| (epoch, Self(path.join(epoch.to_string()))));
        let mut epochs: Vec<_> = folders.filter(|(_, folder)| folder.0.is_dir()).collect();
        epochs.sort_by_key(|(epoch, _)| *epoch);
        Ok(epochs)
    }

    /// Whether it has what an epoch came to: a run, or why there is none.
    fn is_epoch(&self) -> bool {
        self.has(bundle::RUN) || self.has(bundle::QUARANTINE)
    }

    pub(super) fn create(path: &Path) -> Result<Self, Failure> {
        fs::create_dir_all(path).map_err(|error| unwritable(path, error))?;
        Ok(Self(path.to_owned()))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    /// Whether there is something of this name. If it is no file, it cannot be read, and is not overlooked.
    pub(super) fn has(&self, name: &str) -> bool {
        let absent = [io::ErrorKind::NotFound, io::ErrorKind::NotADirectory];
        fs::symlink_metadata(self.0.join(name)).map_or_else(|error| !absent.contains(&error.kind()), |_| true)
    }

    /// Reads a document of the bundle.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, Failure> {
        let path = self.0.join(name);
        read_bounded(&path, open_regular(&path), MAX_DOCUMENT)
    }

    /// A file of rows as a node sealed it, whole.
    pub(super) fn read_rows(&self, name: &str) -> Result<Vec<u8>, Failure> {
        let path = self.0.join(name);
        read_bounded(&path, open_regular(&path), MAX_ROW_BYTES as u64)
    }

    /// The names of everything in a folder below, in order; none if there is no such folder. A name that is not printable
    /// text is an error.
    pub(super) fn names(&self, below: &str) -> Result<Vec<String>, Failure> {
        let path = self.0.join(below);
        let entries = match fs::read_dir(&path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            entries => entries.map_err(|error| unreadable(&path, error))?,
        };
        let mut names = Vec::new();
        for entry in entries {
            let name = entry.map_err(|error| unreadable(&path, error))?.file_name();
            let printable = name.to_str().filter(|name| *name == plain(name));
            let odd = || Failure::failed(format!("{below} has a file of the name {name:?}"));
            names.push(format!("{below}/{}", printable.ok_or_else(odd)?));
        }
        names.sort_unstable();
        Ok(names)
    }

    /// Gives every line to `take`, without its line feed. Each line, also the last one, has to have one.
    pub(super) fn lines<E: fmt::Display>(
        &self,
        name: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), Failure> {
        let path = self.0.join(name);
        let file = open_regular(&path).map_err(|error| unreadable(&path, error))?;
        let mut file = BufReader::with_capacity(BUFFER, file);
        let mut line = Vec::new();
        loop {
            line.clear();
            let read = (&mut file).take(MAX_LINE).read_until(b'\n', &mut line);
            if read.map_err(|error| unreadable(&path, error))? == 0 {
                return Ok(());
            }
            let whole = line.strip_suffix(b"\n").ok_or_else(|| unreadable(&path, "a line does not end"))?;
            take(whole).map_err(|wrong| Failure::failed(format!("{}: {wrong}", path.display())))?;
        }
    }

    /// Writes a file, which is there whole or not at all.
    pub(super) fn write(
        &self,
        name: &str,
        fill: impl FnOnce(&mut dyn Write) -> io::Result<()>,
    ) -> Result<(), Failure> {
        let path = self.0.join(name);
        replace(&path, fill).map_err(|error| unwritable(&path, error))
    }
}

/// A document by its path, as somebody named it who may mean a pipe.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_bounded(path, File::open(path), MAX_DOCUMENT)
}

fn read_bounded(path: &Path, opened: io::Result<File>, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = opened.and_then(|file| {
        let length = usize::try_from(file.metadata()?.len().min(most)).unwrap_or_default();
        bytes.reserve_exact(length + 1); // One more, which says that the file ends there.
        file.take(most + 1).read_to_end(&mut bytes)
    });
    read.map_err(|error| unreadable(path, error))?;
    if bytes.len() as u64 > most {
        return Err(unreadable(path, format_args!("it is larger than {} MiB", most >> 20)));
    }
    Ok(bytes)
}

/// Writes beside `path` and puts it there once it is on the disk.
pub(super) fn replace(path: &Path, fill: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    let mut file = BufWriter::with_capacity(BUFFER, File::create(&beside)?);
    fill(&mut file)?;
    file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    fs::rename(&beside, path)
}

fn unreadable(path: &Path, why: impl fmt::Display) -> Failure {
    Failure::failed(format!("{} cannot be read: {why}", path.display()))
}

fn unwritable(path: &Path, why: impl fmt::Display) -> Failure {
    Failure::failed(format!("{} cannot be written: {why}", path.display()))
}
