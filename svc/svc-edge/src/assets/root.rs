//! One folder, whose files are opened so that no path leads out of it: not by dots, not by links.

use std::fs::File;

use rustix::{
    fd::OwnedFd,
    fs::{CWD, Mode, OFlags, ResolveFlags, openat, openat2},
    io::Errno,
};

use super::{
    media::type_of,
    siblings::{self, Sibling},
};
use crate::{RootConfig, file_stat::FileStat};

/// The kernel says so when a rename goes on meanwhile and it cannot be sure where a path leads.
const RACES: usize = 8;

/// A folder that is served.
#[derive(Debug)]
pub(super) struct Root {
    config: RootConfig,
}

/// What a path names in a folder.
#[derive(Debug)]
pub(super) enum Found {
    /// An open file.
    File(OpenFile),
    /// A folder, asked for without the slash at its end.
    Folder,
    /// Nothing that is served.
    Nothing,
}

/// A file that is open.
#[derive(Debug)]
pub(super) struct OpenFile {
    pub(super) file: File,
    pub(super) stat: FileStat,
    /// What its name says is in it.
    pub(super) media_type: &'static str,
    /// The same in content codings, as far as the names say so.
    pub(super) siblings: Vec<Sibling>,
}

impl Root {
    pub(super) fn new(config: RootConfig) -> Self {
        Self { config }
    }

    pub(super) fn config(&self) -> &RootConfig {
        &self.config
    }

    /// Opens what a decoded path names. Blocking.
    ///
    /// # Errors
    /// The system is out of something, or does not let us; what is not there is no error.
    pub(super) fn open(&self, path: &str) -> Result<Found, Errno> {
        if !self.config.dotfiles && is_hidden(path) {
            return Ok(Found::Nothing);
        }
        let beneath = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        // Anew each time, so that a folder that is replaced is noticed.
        let folder = match openat(CWD, &self.config.path, beneath, Mode::empty()) {
            Ok(folder) => folder,
            Err(error) => return absent(error),
        };
        let (inside, is_folder) = match path.strip_suffix('/') {
            Some(inside) => (inside, true),
            None => (path, path.is_empty()),
        };
        if !is_folder {
            return open_beneath(&folder, inside);
        }
        if self.config.index.is_empty() {
            return Ok(Found::Nothing);
        }
        let index = if inside.is_empty() {
            self.config.index.clone()
        } else {
            format!("{inside}/{}", self.config.index)
        };
        match open_beneath(&folder, &index)? {
            Found::Folder => Ok(Found::Nothing),
            found => Ok(found),
        }
    }
}

/// Whether a path leads to a name that begins with a dot. `.well-known` is where servers are asked for what concerns the whole
/// site (RFC 8615), and hides nothing.
fn is_hidden(path: &str) -> bool {
    let mut segments = path.split('/').enumerate();
    segments.any(|(at, segment)| segment.starts_with('.') && (at, segment) != (0, ".well-known"))
}

fn open_beneath(folder: &OwnedFd, path: &str) -> Result<Found, Errno> {
    let opened = match open_file(folder, path)? {
        Ok(opened) => opened,
        Err(found) => return Ok(found),
    };
    let (file, stat) = opened;
    let siblings = siblings::look_for(&stat, |ending| {
        // What cannot be opened is as good as not there: the file itself is.
        open_file(folder, &format!("{path}.{ending}")).ok()?.ok()
    });
    Ok(Found::File(OpenFile { file, stat, media_type: type_of(path), siblings }))
}

/// Opens a file and nothing else.
fn open_file(folder: &OwnedFd, path: &str) -> Result<Result<(File, FileStat), Found>, Errno> {
    // Not waiting: a pipe in a folder of files must not keep a thread.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS;
    let mut races = 0;
    let opened = loop {
        match openat2(folder, path, flags, Mode::empty(), resolve) {
            Ok(opened) => break opened,
            Err(Errno::AGAIN | Errno::INTR) if races < RACES => races += 1,
            Err(error) => return absent(error).map(Err),
        }
    };
    let file = File::from(opened);
    let metadata = file.metadata().map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))?;
    Ok(match FileStat::regular(&metadata) {
        Some(stat) => Ok((file, stat)),
        None if metadata.is_dir() => Err(Found::Folder),
        None => Err(Found::Nothing),
    })
}

/// What is not there, or is out of bounds, is nothing; all else is for whoever runs the node.
fn absent(error: Errno) -> Result<Found, Errno> {
    match error {
        Errno::NOENT
        | Errno::NOTDIR
        | Errno::XDEV
        | Errno::LOOP
        | Errno::NAMETOOLONG
        | Errno::ACCESS
        | Errno::PERM
        | Errno::INVAL
        | Errno::NXIO => Ok(Found::Nothing),
        error => Err(error),
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink, path::Path};

    fn folder() -> (tempfile::TempDir, Root) {
        let outer = tempfile::tempdir().unwrap();
        let inner = outer.path().join("public");
        fs::create_dir_all(inner.join("sub/deep")).unwrap();
        fs::write(outer.path().join("secret"), "secret").unwrap();
        for (name, text) in [("a.txt", "a"), ("sub/index.html", "index"), (".hidden", "h"), ("sub/.git", "g")]
        {
            fs::write(inner.join(name), text).unwrap();
        }
        let root = Root::new(RootConfig::new(inner));
        (outer, root)
    }

    fn kind(root: &Root, path: &str) -> &'static str {
        match root.open(path).unwrap() {
            Found::File(..) => "file",
            Found::Folder => "folder",
            Found::Nothing => "nothing",
        }
    }

    #[test]
    fn files_are_found_and_folders_by_their_index() {
        let (_outer, root) = folder();
        for (path, expected) in [
            ("a.txt", "file"),
            ("sub", "folder"),
            ("sub/", "file"),
            ("sub/deep/", "nothing"),
            ("", "nothing"),
            ("a.txt/", "nothing"),
            ("a.txt/b", "nothing"),
            ("absent", "nothing"),
            (".hidden", "nothing"),
            ("sub/.git", "nothing"),
            (&"x".repeat(300), "nothing"),
            ("a\0b", "nothing"),
        ] {
            assert_eq!(kind(&root, path), expected, "{path}");
        }
    }

    #[test]
    fn dotfiles_are_served_where_that_is_configured() {
        let (outer, _) = folder();
        let path = outer.path().join("public");
        let root = Root::new(RootConfig { dotfiles: true, ..RootConfig::new(path) });
        assert_eq!(kind(&root, ".hidden"), "file");
    }

    #[test]
    fn what_is_well_known_is_served_and_nothing_hidden_in_it() {
        let (outer, root) = folder();
        let inner = outer.path().join("public");
        for name in [".well-known/acme-challenge/token", ".well-known/.hidden", "sub/.well-known/a"] {
            fs::create_dir_all(inner.join(name).parent().unwrap()).unwrap();
            fs::write(inner.join(name), "text").unwrap();
        }
        assert_eq!(kind(&root, ".well-known/acme-challenge/token"), "file");
        for path in [".well-known/.hidden", "sub/.well-known/a", ".well-known2/a", "..well-known"] {
            assert_eq!(kind(&root, path), "nothing", "{path}");
        }
    }

    #[test]
    fn no_dots_and_no_link_lead_out_of_the_folder() {
        let (outer, root) = folder();
        let inner = outer.path().join("public");
        symlink(outer.path().join("secret"), inner.join("absolute")).unwrap();
        symlink("../secret", inner.join("relative")).unwrap();
        symlink("..", inner.join("up")).unwrap();
        symlink("a.txt", inner.join("within")).unwrap();
        symlink("/proc/self/root", inner.join("magic")).unwrap();
        symlink("circle", inner.join("circle")).unwrap();
        for path in [
            "absolute",
            "relative",
            "up/secret",
            "../secret",
            "sub/../../secret",
            "magic/etc/passwd",
            "circle",
        ] {
            // Dots are refused before; here, a folder would refuse them once more.
            let open = Root::new(RootConfig { dotfiles: true, ..RootConfig::new(inner.clone()) }).open(path);
            assert!(matches!(open, Ok(Found::Nothing)), "{path}: {open:?}");
        }
        assert_eq!(kind(&root, "within"), "file");
        assert_eq!(kind(&root, "/etc/passwd"), "nothing");
    }

    #[test]
    fn a_pipe_and_a_missing_folder_are_nothing() {
        let (outer, root) = folder();
        let pipe = outer.path().join("public/pipe");
        rustix::fs::mknodat(CWD, &pipe, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        assert_eq!(kind(&root, "pipe"), "nothing");
        assert_eq!(kind(&Root::new(RootConfig::new(Path::new("/no/such/folder").into())), "a"), "nothing");
    }
}
