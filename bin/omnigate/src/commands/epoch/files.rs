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

use crate::failure::Failure;

/// The most bytes of a document that is read whole.
const MAX_DOCUMENT: u64 = 16 << 20;

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
        let entries = fs::read_dir(path).into_iter().flatten().filter_map(Result::ok);
        let epochs = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
        let computed = epochs.map(|epoch| (epoch, Self(path.join(epoch.to_string()))));
        let latest = computed.filter(|(_, folder)| folder.is_epoch()).max_by_key(|(epoch, _)| *epoch);
        let none = || unreadable(path, format_args!("it has no {} and no epochs", bundle::RUN));
        latest.map(|(_, folder)| folder).ok_or_else(none)
    }

    /// The folders of epochs in a folder, in the order of their numbers.
    pub(super) fn epochs(path: &Path) -> Result<Vec<(u64, Self)>, Failure> {
        let entries = fs::read_dir(path).map_err(|error| unreadable(path, error))?.filter_map(Result::ok);
        let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u64>().ok());
        let mut epochs: Vec<_> = numbers.map(|epoch| (epoch, Self(path.join(epoch.to_string())))).collect();
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

    pub(super) fn has(&self, name: &str) -> bool {
        self.0.join(name).is_file()
    }

    /// Reads a document of the bundle.
    pub(super) fn read(&self, name: &str) -> Result<Vec<u8>, Failure> {
        read(&self.0.join(name))
    }

    /// A file of rows as a node sealed it, whole.
    pub(super) fn read_rows(&self, name: &str) -> Result<Vec<u8>, Failure> {
        read_bounded(&self.0.join(name), MAX_ROW_BYTES as u64)
    }

    /// The names of the files in a folder below that end in `suffix`, in order; none if there is no such folder.
    pub(super) fn names(&self, below: &str, suffix: &str) -> Vec<String> {
        let entries = fs::read_dir(self.0.join(below)).into_iter().flatten().filter_map(Result::ok);
        let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
        let mut names: Vec<_> = names.filter(|name| name.ends_with(suffix)).collect();
        names.sort_unstable();
        names.into_iter().map(|name| format!("{below}/{name}")).collect()
    }

    /// Gives every line to `take`, without its line feed. Each line, also the last one, has to have one.
    pub(super) fn lines<E: fmt::Display>(
        &self,
        name: &str,
        mut take: impl FnMut(&[u8]) -> Result<(), E>,
    ) -> Result<(), Failure> {
        let path = self.0.join(name);
        let file = File::open(&path).map_err(|error| unreadable(&path, error))?;
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

/// A document by its path.
pub(super) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    read_bounded(path, MAX_DOCUMENT)
}

fn read_bounded(path: &Path, most: u64) -> Result<Vec<u8>, Failure> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| {
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
