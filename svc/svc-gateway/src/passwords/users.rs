//! A file of users: a line `name:hash` for each.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
};

use ron_transport::files::{self, FileError};

use super::hash::{Hash, HashError};

/// Largest file, in bytes.
const MAX_FILE_BYTES: u64 = 1024 * 1024;
/// Most users of a file.
const MAX_USERS: usize = 10_000;
/// Longest name of a user, in bytes.
const MAX_NAME: usize = 256;

/// The users of a file.
#[derive(Debug)]
pub(crate) struct Users {
    by_name: HashMap<String, usize>,
    hashes: Vec<Hash>,
}

/// Why a file of users cannot be used. Names the line, and repeats nothing of it.
#[derive(Debug, thiserror::Error)]
pub enum UsersError {
    /// It cannot be read.
    #[error(transparent)]
    File(#[from] FileError),
    /// It is no text.
    #[error("{} is not a file of users: it is not UTF-8 text", .path.display())]
    NotText {
        /// The file of users that could not be used.
        path: PathBuf,
    },
    /// A line is wrong.
    #[error("{} line {line}: {problem}; `omnigate password NAME` prints a line", .path.display())]
    BadLine {
        /// The file of users that could not be used.
        path: PathBuf,
        /// The line, from 1.
        line: usize,
        /// What is wrong with it.
        problem: LineProblem,
    },
    /// It has too many users.
    #[error("{} has more than 10,000 users", .path.display())]
    TooMany {
        /// The file of users that could not be used.
        path: PathBuf,
    },
    /// It has no users.
    #[error("{} has no users, so nobody could log in; `omnigate password NAME` prints a line", .path.display())]
    Empty {
        /// The file of users that could not be used.
        path: PathBuf,
    },
}

/// What is wrong with a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LineProblem {
    /// It is no name and a hash.
    #[error("it is not `name:hash`")]
    NoPair,
    /// The name is none.
    #[error("a name has 1 to 256 bytes and no control characters")]
    BadName,
    /// The user is there already.
    #[error("this user is in the file twice")]
    Twice,
    /// The hash cannot be used.
    #[error("its hash {0}")]
    Hash(#[from] HashError),
}

impl Users {
    /// Reads a file. Blocking.
    ///
    /// # Errors
    /// [`UsersError`].
    pub(crate) fn load(path: &Path) -> Result<Self, UsersError> {
        let bytes = files::read_public(path, MAX_FILE_BYTES)?;
        let text = str::from_utf8(&bytes).map_err(|_| UsersError::NotText { path: path.to_owned() })?;
        let mut users = Self { by_name: HashMap::new(), hashes: Vec::new() };
        for (index, line) in text.lines().enumerate() {
            let line = line.trim_end();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let bad = |problem| UsersError::BadLine { path: path.to_owned(), line: index + 1, problem };
            users.add(line).map_err(bad)?;
            if users.hashes.len() > MAX_USERS {
                return Err(UsersError::TooMany { path: path.to_owned() });
            }
        }
        if users.hashes.is_empty() {
            return Err(UsersError::Empty { path: path.to_owned() });
        }
        Ok(users)
    }

    fn add(&mut self, line: &str) -> Result<(), LineProblem> {
        let (name, hash) = line.split_once(':').ok_or(LineProblem::NoPair)?;
        if name.is_empty() || name.len() > MAX_NAME || name.chars().any(char::is_control) {
            return Err(LineProblem::BadName);
        }
        let hash = hash.parse()?;
        if self.by_name.insert(name.to_owned(), self.hashes.len()).is_some() {
            return Err(LineProblem::Twice);
        }
        self.hashes.push(hash);
        Ok(())
    }

    /// The hash to compare a password with, and whether there is such a user. For a name that is not there it is the hash of
    /// another user, which one depends on `chance`, so that the answer takes as long.
    pub(super) fn hash_of(&self, name: &str, chance: usize) -> (&Hash, bool) {
        match self.by_name.get(name) {
            Some(&index) => (&self.hashes[index], true),
            None => (&self.hashes[chance % self.hashes.len()], false),
        }
    }
}

#[cfg(test)]
#[expect(clippy::unwrap_used, clippy::disallowed_methods, reason = "tests")]
mod tests {
    use super::*;

    // Both are of the password `secret`.
    const BCRYPT: &str = "$2y$04$";
    const CHEAP: &str = "$argon2id$v=19$m=8,t=1,p=1$";

    fn load(text: impl AsRef<[u8]>) -> Result<Users, UsersError> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("users");
        std::fs::write(&path, text).unwrap();
        Users::load(&path)
    }

    fn bcrypt_hash(password: &str, cost: u32) -> String {
        bcrypt::hash_with_salt(password, cost, [7; 16]).unwrap().format_for_version(bcrypt::Version::TwoY)
    }

    #[test]
    fn both_kinds_of_hashes_are_checked() {
        let argon2 = super::super::hash_password(b"other").unwrap();
        let bcrypt = bcrypt_hash("secret", 4);
        assert!(bcrypt.starts_with(BCRYPT), "{bcrypt}");
        let users = load(format!("# staff\nann:{bcrypt}\n\nbob:{argon2}\r\n")).unwrap();
        let fits = |name, password: &str| users.hash_of(name, 0).0.fits(password.as_bytes());
        assert!(fits("ann", "secret") && !fits("ann", "other") && !fits("ann", ""));
        assert!(fits("bob", "other") && !fits("bob", "secret"));
        assert!(users.hash_of("ann", 0).1 && !users.hash_of("Ann", 0).1 && !users.hash_of("", 1).1);
        assert!(!format!("{users:?}").contains("$2y$"), "nothing prints a hash");
    }

    #[test]
    fn what_is_no_file_of_users_is_told_with_its_line() {
        let ann = format!("ann:{}\n", bcrypt_hash("x", 4));
        let costly = ann.replace("$04$", "$15$");
        for (text, words) in [
            (String::new(), "has no users"),
            ("# nobody\n".to_owned(), "has no users"),
            (format!("{ann}bob\n"), "line 2: it is not `name:hash`"),
            (format!(":{}", &ann[4..]), "line 1: a name has"),
            (format!("{ann}{ann}"), "line 2: this user is in the file twice"),
            ("ann:$apr1$x$y\n".to_owned(), "is of no known kind"),
            ("ann:plain\n".to_owned(), "is of no known kind"),
            ("ann:$2y$04$short\n".to_owned(), "is damaged"),
            (format!("ann:{CHEAP}\n"), "is damaged"),
            ("ann:$argon2id$v=19$m=8,t=1,p=1$c2FsdHNhbHQ\n".to_owned(), "is damaged"),
            (costly, "costs too much"),
        ] {
            let error = load(&text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
            let is_repeated =
                ["apr1", "plain", "short", "c2FsdHNhbHQ"].iter().any(|part| error.contains(part));
            assert!(!is_repeated, "nothing of the line is repeated: {error}");
        }
        assert!(matches!(load([0xff]), Err(UsersError::NotText { .. })));
        let costly = super::super::hash_password(b"x").unwrap().replace("m=19456", "m=262144");
        assert!(load(format!("ann:{costly}")).unwrap_err().to_string().contains("costs too much"));
    }
}
