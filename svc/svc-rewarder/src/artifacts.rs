//! The files of an epoch: `run.json`, `allocations.jsonl` and what belongs to them. In a folder, or in RAM for a node that
//! must not write. Blocking.
//!
//! An epoch's folder appears whole or not at all: it is written under another name, synced, and renamed.

mod sorted;

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, BufReader, BufWriter, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use bytes::Bytes;
use rewards::bundle;
use ron_kernel::lock::Ranked;

use crate::{crash, store::Record, topology::ARTIFACTS};
use sorted::SortedLines;

/// A function that writes one file.
pub(crate) type Fill<'a> = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()> + 'a>;

/// One file to write: its name, and what is in it.
pub(crate) type FileToWrite<'a> = (String, Fill<'a>);

/// The files of epochs.
#[derive(Clone, Debug)]
pub(crate) enum Artifacts {
    /// A folder on disk.
    Folder(PathBuf),
    /// In RAM, and gone with the process.
    Memory(Arc<Ranked<InMemory>>),
}

type InMemory = BTreeMap<u64, BTreeMap<String, Bytes>>;

/// Where an epoch's files are: in its folder, and in these below it.
pub(crate) const FOLDERS: [&str; 5] = ["", "snapshots/", "attestations/", "corrections/", "disputes/"];

/// The longest line of a file.
const MAX_LINE: u64 = 16 << 10;

/// Begins the names of folders that are not whole yet.
const UNFINISHED: &str = ".unfinished-";

#[expect(clippy::disallowed_methods, reason = "every caller is on the blocking pool")]
impl Artifacts {
    /// In a folder, made if it is not there. What an interrupted writer left is removed.
    pub(crate) fn at(folder: PathBuf) -> io::Result<Self> {
        fs::create_dir_all(&folder)?;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
                fs::remove_dir_all(entry.path())?;
            }
        }
        Ok(Self::Folder(folder))
    }

    pub(crate) fn in_memory() -> Self {
        Self::Memory(Arc::new(Ranked::new(&ARTIFACTS, InMemory::default())))
    }

    /// Writes all files of an epoch; durable when this returns. What was there before is replaced: the same epoch has the
    /// same files, unless a disk has lost some of them.
    pub(crate) fn write(&self, epoch: u64, files: Vec<FileToWrite<'_>>) -> io::Result<()> {
        crash::point("write.before_files");
        match self {
            Self::Folder(folder) => write_folder(folder, epoch, files),
            Self::Memory(epochs) => {
                let mut written = BTreeMap::new();
                for (name, fill) in files {
                    let mut bytes = Vec::new();
                    fill(&mut bytes)?;
                    written.insert(name, Bytes::from(bytes));
                }
                epochs.lock().insert(epoch, written);
                Ok(())
            }
        }
    }

    /// Adds a file to an epoch, which may have no other files; durable when this returns.
    pub(crate) fn put(&self, epoch: u64, name: &str, bytes: &[u8]) -> io::Result<()> {
        match self.add(epoch, name, bytes) {
            // Only then: what is there must not be replaced because the disk is full.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.write(epoch, vec![(name.to_owned(), Box::new(|out| out.write_all(bytes)))])
            }
            other => other,
        }
    }

    /// Adds a file to an epoch that has its files; durable when this returns.
    pub(crate) fn add(&self, epoch: u64, name: &str, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Folder(folder) => {
                let folder = folder.join(epoch.to_string());
                let place = folder.join(name);
                let below = place.parent().unwrap_or(&folder).to_owned();
                // Only below: an epoch without files has no folder.
                if folder.is_dir() {
                    fs::create_dir_all(&below)?;
                }
                let bare = place.file_name().unwrap_or_default().to_string_lossy().into_owned();
                let aside = below.join(format!("{UNFINISHED}{bare}"));
                let mut file = File::create(&aside)?;
                file.write_all(bytes)?;
                file.sync_all()?;
                fs::rename(&aside, &place)?;
                File::open(&below)?.sync_all()
            }
            Self::Memory(epochs) => {
                let mut epochs = epochs.lock();
                let files = epochs.get_mut(&epoch).ok_or(io::ErrorKind::NotFound)?;
                files.insert(name.to_owned(), Bytes::copy_from_slice(bytes));
                Ok(())
            }
        }
    }

    /// Removes one file of an epoch, if it is there; durable when this returns.
    pub(crate) fn remove_file(&self, epoch: u64, name: &str) -> io::Result<()> {
        match self {
            Self::Folder(folder) => {
                let folder = folder.join(epoch.to_string());
                match fs::remove_file(folder.join(name)) {
                    Ok(()) => File::open(&folder)?.sync_all(),
                    Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                    Err(error) => Err(error),
                }
            }
            Self::Memory(epochs) => {
                if let Some(files) = epochs.lock().get_mut(&epoch) {
                    files.remove(name);
                }
                Ok(())
            }
        }
    }

    /// A file of an epoch; `None` if it is not there.
    pub(crate) fn read(&self, epoch: u64, name: &str) -> io::Result<Option<Bytes>> {
        match self {
            Self::Folder(folder) => match fs::read(folder.join(epoch.to_string()).join(name)) {
                Ok(bytes) => Ok(Some(bytes.into())),
                // A folder of an epoch is no file of it.
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::IsADirectory) =>
                {
                    Ok(None)
                }
                Err(error) => Err(error),
            },
            Self::Memory(epochs) => Ok(epochs.lock().get(&epoch).and_then(|files| files.get(name)).cloned()),
        }
    }

    /// The commitment of the run whose files an epoch has here; `None` if it has none of a run.
    pub(crate) fn commitment(&self, epoch: u64) -> io::Result<Option<String>> {
        let found = self.read(epoch, bundle::COMMITMENT)?;
        Ok(found.map(|bytes| String::from_utf8_lossy(&bytes).trim_end().to_owned()))
    }

    /// Whether the files that an epoch has here are of a run that does not stand: it was taken back, here or elsewhere.
    pub(crate) fn is_stale(&self, record: &Record) -> io::Result<bool> {
        let here = self.commitment(record.epoch)?;
        Ok(here.is_some() && here != record.commitment)
    }

    /// Gives the lines of a sorted file to `take`, without their line feeds, from the first that is not before what is looked
    /// for, until it wants no more; none if there is no such file. Few of the lines before that are read.
    pub(crate) fn sorted_lines(
        &self,
        epoch: u64,
        name: &str,
        is_before: impl Fn(&[u8]) -> bool,
        take: impl FnMut(&[u8]) -> bool,
    ) -> io::Result<()> {
        match self {
            Self::Folder(folder) => {
                let file = match File::open(folder.join(epoch.to_string()).join(name)) {
                    Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
                    other => other?,
                };
                SortedLines::new(BufReader::new(file), MAX_LINE)?.each_from(is_before, take)
            }
            Self::Memory(epochs) => {
                let file = epochs.lock().get(&epoch).and_then(|files| files.get(name)).cloned();
                let file = io::Cursor::new(file.unwrap_or_default());
                SortedLines::new(file, MAX_LINE)?.each_from(is_before, take)
            }
        }
    }

    /// The names of an epoch's files, in order; those in a folder below with its name.
    pub(crate) fn names(&self, epoch: u64) -> io::Result<Vec<String>> {
        match self {
            Self::Folder(folder) => {
                let folder = folder.join(epoch.to_string());
                let mut names = Vec::new();
                for below in FOLDERS {
                    let Ok(entries) = fs::read_dir(folder.join(below)) else { continue };
                    for entry in entries {
                        let entry = entry?;
                        if entry.file_type()?.is_file() {
                            names.push(format!("{below}{}", entry.file_name().to_string_lossy()));
                        }
                    }
                }
                names.sort_unstable();
                Ok(names)
            }
            Self::Memory(epochs) => {
                Ok(epochs.lock().get(&epoch).map(|files| files.keys().cloned().collect()).unwrap_or_default())
            }
        }
    }

    /// Removes the files of an epoch; says whether there were any.
    pub(crate) fn remove(&self, epoch: u64) -> io::Result<bool> {
        match self {
            Self::Folder(folder) => match fs::remove_dir_all(folder.join(epoch.to_string())) {
                Ok(()) => Ok(true),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
                Err(error) => Err(error),
            },
            Self::Memory(epochs) => Ok(epochs.lock().remove(&epoch).is_some()),
        }
    }

    /// The epochs that have files.
    pub(crate) fn epochs(&self) -> io::Result<Vec<u64>> {
        match self {
            Self::Folder(folder) => {
                let names = fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name()));
                let names = names.collect::<io::Result<Vec<_>>>()?;
                Ok(names.iter().filter_map(|name| name.to_str()?.parse().ok()).collect())
            }
            Self::Memory(epochs) => Ok(epochs.lock().keys().copied().collect()),
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "every caller is on the blocking pool")]
fn write_folder(folder: &Path, epoch: u64, files: Vec<FileToWrite<'_>>) -> io::Result<()> {
    // A name of its own for each attempt: another process may be writing the same epoch into the same folder.
    let aside = folder.join(format!("{UNFINISHED}{epoch}-{}", std::process::id()));
    let place = folder.join(epoch.to_string());
    match fs::remove_dir_all(&aside) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => fs::create_dir_all(&aside)?,
    }
    for (name, fill) in files {
        let path = aside.join(name);
        path.parent().map_or(Ok(()), fs::create_dir_all)?;
        let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
        fill(&mut file)?;
        file.into_inner().map_err(io::IntoInnerError::into_error)?.sync_all()?;
    }
    File::open(&aside)?.sync_all()?;
    crash::point("write.after_files");
    match fs::rename(&aside, &place) {
        // It is there, from before a crash or by somebody else.
        Err(error)
            if matches!(error.kind(), io::ErrorKind::DirectoryNotEmpty | io::ErrorKind::AlreadyExists) =>
        {
            fs::remove_dir_all(&place)?;
            fs::rename(&aside, &place)?;
        }
        other => other?,
    }
    File::open(folder)?.sync_all()?;
    crash::point("write.after_rename");
    Ok(())
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use super::*;

    fn fill(text: &'static str) -> Fill<'static> {
        Box::new(move |out| out.write_all(text.as_bytes()))
    }

    fn file<'a>(name: &str, fill: Fill<'a>) -> FileToWrite<'a> {
        (name.to_owned(), fill)
    }

    fn both() -> (tempfile::TempDir, [Artifacts; 2]) {
        let dir = tempfile::tempdir().unwrap();
        let folder = Artifacts::at(dir.path().join("rewards")).unwrap();
        (dir, [folder, Artifacts::in_memory()])
    }

    #[test]
    fn an_epochs_files_are_written_added_to_read_and_removed() {
        let (_dir, kinds) = both();
        for artifacts in kinds {
            artifacts.write(7, vec![file("run.json", fill("{}")), file("commitment", fill("c"))]).unwrap();
            artifacts
                .write(7, vec![file("run.json", fill("{}")), file("snapshots/commitment", fill("d"))])
                .unwrap();
            artifacts.add(7, "attestation.json", b"a").unwrap();
            artifacts.add(7, "disputes/00.json", b"d").unwrap();
            assert_eq!(artifacts.read(7, "disputes/00.json").unwrap(), Some("d".into()));
            artifacts.remove_file(7, "disputes/00.json").unwrap();
            artifacts.remove_file(7, "disputes/00.json").unwrap();
            let read = |name| artifacts.read(7, name).unwrap();
            assert_eq!(
                (read("snapshots/commitment").unwrap(), read("attestation.json").unwrap()),
                ("d".into(), "a".into())
            );
            assert_eq!((read("other"), artifacts.read(8, "run.json").unwrap()), (None, None));
            assert_eq!(read("snapshots"), None, "a folder is no file");
            assert_eq!(artifacts.names(7).unwrap(), ["attestation.json", "run.json", "snapshots/commitment"]);
            assert_eq!(artifacts.epochs().unwrap(), [7]);
            assert_eq!((artifacts.remove(7).unwrap(), artifacts.remove(7).unwrap()), (true, false));
        }
    }

    #[test]
    #[expect(clippy::disallowed_methods, reason = "a test puts something in the way")]
    fn a_file_that_cannot_be_added_replaces_no_others() {
        let (dir, kinds) = both();
        for artifacts in &kinds {
            artifacts.put(7, "quarantine.json", b"q").unwrap();
            assert_eq!(artifacts.names(7).unwrap(), ["quarantine.json"], "there were no others");
            artifacts.put(7, "parked.json", b"p").unwrap();
            assert_eq!(artifacts.names(7).unwrap(), ["parked.json", "quarantine.json"]);
        }
        std::fs::create_dir(dir.path().join("rewards/7/.unfinished-orders.jsonl")).unwrap();
        assert!(kinds[0].put(7, "orders.jsonl", b"o").is_err());
        assert_eq!(kinds[0].names(7).unwrap(), ["parked.json", "quarantine.json"]);
    }

    #[test]
    fn a_write_that_fails_leaves_nothing_that_looks_whole() {
        let (dir, kinds) = both();
        for artifacts in &kinds {
            let broken: Fill<'_> = Box::new(|_| Err(io::Error::other("the disk is full")));
            assert!(
                artifacts.write(7, vec![file("run.json", fill("{}")), file("commitment", broken)]).is_err()
            );
            assert_eq!(artifacts.epochs().unwrap(), [0_u64; 0]);
        }
        let again = Artifacts::at(dir.path().join("rewards")).unwrap();
        assert_eq!(fs_names(&dir.path().join("rewards")), [""; 0], "the next start sweeps");
        assert_eq!(again.read(7, "run.json").unwrap(), None);
    }

    #[expect(clippy::disallowed_methods, reason = "a test looks")]
    fn fs_names(folder: &Path) -> Vec<String> {
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
    }
}
