//! What is kept of ACME in the data folder: the account's key and the certificates, as PEM, by CA. Blocking.
//!
//! ```text
//! acme/acme-v02.api.letsencrypt.org-directory/account.key
//!                                             account.contact        what the CA was told last; empty for no address
//!                                             www.example.org.wait   until when the CA is not asked, after a failure
//!                                             www.example.org.pem    chain and key in one file, so that they are never apart
//!                                             lock
//! ```
//!
//! Files have mode 0600 and are replaced by renaming. Several processes may share the folder: whoever orders a certificate
//! holds the lock.

#![expect(clippy::disallowed_methods, reason = "callers run it on the blocking pool")]

use std::{
    fs::{self, DirBuilder, File, OpenOptions, TryLockError},
    io::{self, Write as _},
    os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _},
    path::{Path, PathBuf},
    time::Duration,
};

use rcgen::KeyPair;
use ron_transport::{
    files::{self, FileError},
    tls::{IdentityFiles, Inspected, TlsError, inspect},
};
use rustls_pki_types::{PrivatePkcs8KeyDer, pem::PemObject as _};

/// The folder in the node's data.
const FOLDER: &str = "acme";
const ACCOUNT_KEY: &str = "account.key";
const ACCOUNT_CONTACT: &str = "account.contact";
const LOCK: &str = "lock";
/// Written and removed to see whether there is room.
const PROBE: &str = "probe";
/// The room that a certificate may need, in bytes.
const ROOM: usize = 16 * 1024;
/// The largest account key that is read.
const MAX_KEY_BYTES: u64 = 64 * 1024;

/// Why something cannot be kept, or what is kept not be used.
#[derive(Debug, thiserror::Error)]
pub enum AcmeStoreError {
    /// The folder cannot be made or locked, or a file not be written.
    #[error("{} cannot be used: {source}; check its owner, its mode and the free space", .path.display())]
    Folder {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
    /// What a CA issued cannot be served.
    #[error("the CA's certificate cannot be served: {0}")]
    Unusable(TlsError),
    /// The account's key cannot be read.
    #[error(transparent)]
    Key(#[from] FileError),
    /// The account's key is no key.
    #[error("{} is not a private key; restore it, or move it away to create a new account", .0.display())]
    BadKey(PathBuf),
}

/// The folder of one CA.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Store {
    folder: PathBuf,
}

/// Held while a certificate is ordered; let go when dropped.
#[derive(Debug)]
pub(super) struct Lock(#[expect(dead_code, reason = "the lock ends with the file")] File);

impl Store {
    /// The folder of the CA with this directory; makes it if it is not there.
    pub(super) fn open(data_dir: &Path, directory_url: &str) -> Result<Self, AcmeStoreError> {
        let folder = data_dir.join(FOLDER).join(folder_name(directory_url));
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|source| AcmeStoreError::Folder { path: folder.clone(), source })?;
        Ok(Self { folder })
    }

    /// A file of a name.
    fn file(&self, name: &str, kind: &str) -> PathBuf {
        self.folder.join(format!("{}.{kind}", name.replace('*', "_wildcard")))
    }

    /// The file of a name's certificate and key.
    pub(super) fn identity(&self, name: &str) -> IdentityFiles {
        let path = self.file(name, "pem");
        IdentityFiles { cert_path: path.clone(), key_path: path }
    }

    /// What is kept for a name.
    ///
    /// # Errors
    /// [`TlsError`] if there is nothing, or nothing that can be served.
    pub(super) fn certificate(&self, name: &str) -> Result<Inspected, TlsError> {
        inspect(&self.identity(name), name)
    }

    /// Keeps a chain and its key for a name, in place of what was there, if they can be served.
    pub(super) fn put_certificate(&self, name: &str, pem: &str) -> Result<Inspected, AcmeStoreError> {
        let path = self.identity(name).cert_path;
        let kept = self.put(&path, pem, |draft| {
            let files = IdentityFiles { cert_path: draft.to_owned(), key_path: draft.to_owned() };
            inspect(&files, name).map_err(AcmeStoreError::Unusable)
        })?;
        let _ = fs::remove_file(self.file(name, "wait"));
        Ok(kept)
    }

    /// Until when the CA is not asked for a name, as Unix time; `None` if it has not failed.
    pub(super) fn wait(&self, name: &str) -> Option<Duration> {
        let bytes = files::read_private(&self.file(name, "wait"), MAX_KEY_BYTES).ok()?;
        std::str::from_utf8(&bytes).ok()?.trim_end().parse().ok().map(Duration::from_secs)
    }

    /// Remembers until when the CA is not asked for a name: a node that is restarted over and over must not ask each time.
    pub(super) fn put_wait(&self, name: &str, until: Duration) -> Result<(), AcmeStoreError> {
        self.put(&self.file(name, "wait"), &format!("{}\n", until.as_secs()), |_| Ok(()))
    }

    /// The account's key, if there is one.
    pub(super) fn account_key(&self) -> Result<Option<PrivatePkcs8KeyDer<'static>>, AcmeStoreError> {
        let path = self.folder.join(ACCOUNT_KEY);
        let pem = match files::read_private(&path, MAX_KEY_BYTES) {
            Err(FileError::Missing { .. }) => return Ok(None),
            read => read?,
        };
        PrivatePkcs8KeyDer::from_pem_slice(&pem).map(Some).map_err(|_| AcmeStoreError::BadKey(path))
    }

    /// Keeps the key of a new account.
    pub(super) fn put_account_key(&self, key: &PrivatePkcs8KeyDer<'_>) -> Result<(), AcmeStoreError> {
        let path = self.folder.join(ACCOUNT_KEY);
        let pair = KeyPair::try_from(key).map_err(|_| AcmeStoreError::BadKey(path.clone()))?;
        self.put(&path, &pair.serialize_pem(), |_| Ok(()))
    }

    /// The address that the CA was told last, empty for none; `None` if that is not known.
    pub(super) fn contact(&self) -> Option<String> {
        let bytes = files::read_private(&self.folder.join(ACCOUNT_CONTACT), MAX_KEY_BYTES).ok()?;
        Some(std::str::from_utf8(&bytes).ok()?.trim_end().to_owned())
    }

    /// Remembers the address that the CA was told; empty for none.
    pub(super) fn put_contact(&self, contact: &str) -> Result<(), AcmeStoreError> {
        self.put(&self.folder.join(ACCOUNT_CONTACT), &format!("{contact}\n"), |_| Ok(()))
    }

    /// Makes sure that a certificate could be kept, before a CA issues it: CAs count what they issue, and would issue it again
    /// and again.
    pub(super) fn check_room(&self) -> Result<(), AcmeStoreError> {
        let path = self.folder.join(PROBE);
        let written = write_new(&path, &" ".repeat(ROOM));
        let removed = fs::remove_file(&path);
        written.and(removed).map_err(|source| AcmeStoreError::Folder { path, source })
    }

    /// Locks the folder; `None` while another process holds the lock.
    pub(super) fn lock(&self) -> Result<Option<Lock>, AcmeStoreError> {
        let path = self.folder.join(LOCK);
        let refused = |source| AcmeStoreError::Folder { path: path.clone(), source };
        let open = OpenOptions::new().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = open.map_err(refused)?;
        match file.try_lock() {
            Ok(()) => Ok(Some(Lock(file))),
            Err(TryLockError::WouldBlock) => Ok(None),
            Err(TryLockError::Error(source)) => Err(refused(source)),
        }
    }

    /// Replaces a file by one that passes a check.
    fn put<T>(
        &self,
        path: &Path,
        text: &str,
        check: impl FnOnce(&Path) -> Result<T, AcmeStoreError>,
    ) -> Result<T, AcmeStoreError> {
        let mut draft = path.as_os_str().to_owned();
        draft.push(".new");
        let draft = PathBuf::from(draft);
        let refused = |source| AcmeStoreError::Folder { path: path.to_owned(), source };
        write_new(&draft, text).map_err(refused)?;
        let checked = check(&draft).inspect_err(|_| drop(fs::remove_file(&draft)))?;
        let rename = fs::rename(&draft, path).and_then(|()| File::open(&self.folder)?.sync_all());
        rename.map_err(refused)?;
        Ok(checked)
    }
}

/// Writes a file that is new, and has it on the disk.
fn write_new(path: &Path, text: &str) -> io::Result<()> {
    // What a process that died has left behind.
    let _ = fs::remove_file(path);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()
}

/// A CA's folder by the URL of its directory: host, port and path, with `-` between them.
fn folder_name(directory_url: &str) -> String {
    let rest = directory_url.split_once("://").map_or(directory_url, |(_, rest)| rest);
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_');
    let name: String = rest.chars().map(|c| if is_plain(c) { c } else { '-' }).take(200).collect();
    name.trim_matches(['.', '-']).to_owned()
}

#[cfg(test)]
#[expect(clippy::unwrap_used, reason = "tests")]
mod tests {
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    const URL: &str = "https://ca.example:14000/acme/directory";

    #[test]
    fn each_ca_has_a_folder_of_its_own() {
        assert_eq!(folder_name(URL), "ca.example-14000-acme-directory");
        assert_eq!(folder_name("https://../../x"), "x");
        assert_eq!(folder_name("https://[::1]:1/"), "1--1");
    }

    #[test]
    fn what_is_kept_is_its_owners_alone_and_is_replaced_whole() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), URL).unwrap();
        let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&store.folder), 0o700);
        let path = store.identity("*.a.example").cert_path;
        assert!(path.ends_with("_wildcard.a.example.pem"));
        let draft = path.with_extension("pem.new");
        fs::write(&draft, "left behind").unwrap();
        let issued = |name: &str| {
            let key = KeyPair::generate().unwrap();
            let params = rcgen::CertificateParams::new(vec![name.to_owned()]).unwrap();
            format!("{}{}", params.self_signed(&key).unwrap().pem(), key.serialize_pem())
        };
        store.put_certificate("*.a.example", &issued("*.a.example")).unwrap();
        let second = issued("*.a.example");
        let kept = store.put_certificate("*.a.example", &second).unwrap();
        for bad in ["no certificate", &issued("b.example")] {
            assert!(matches!(store.put_certificate("*.a.example", bad), Err(AcmeStoreError::Unusable(_))));
        }
        assert_eq!((fs::read_to_string(&path).unwrap(), mode(&path)), (second, 0o600));
        assert_eq!(store.certificate("*.a.example").unwrap(), kept);
        assert!(!draft.exists());
    }

    #[test]
    fn the_key_of_the_account_comes_back_as_it_was() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), URL).unwrap();
        assert!(store.account_key().unwrap().is_none());
        let key = PrivatePkcs8KeyDer::from(KeyPair::generate().unwrap().serialize_der());
        store.put_account_key(&key).unwrap();
        assert_eq!(store.account_key().unwrap().unwrap().secret_pkcs8_der(), key.secret_pkcs8_der());
    }

    #[test]
    fn where_nothing_can_be_written_there_is_no_room_for_a_certificate() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), URL).unwrap();
        store.check_room().unwrap();
        assert_eq!(fs::read_dir(&store.folder).unwrap().count(), 0, "nothing is left behind");
        fs::create_dir(store.folder.join(PROBE)).unwrap();
        assert!(matches!(store.check_room(), Err(AcmeStoreError::Folder { .. })));
    }

    #[test]
    fn what_the_ca_was_told_of_the_operator_is_remembered() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), URL).unwrap();
        assert_eq!(store.contact(), None);
        for contact in ["mailto:ops@a.example", ""] {
            store.put_contact(contact).unwrap();
            assert_eq!(store.contact().as_deref(), Some(contact));
        }
    }

    #[test]
    fn a_name_waits_until_its_certificate_is_there() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), URL).unwrap();
        assert_eq!(store.wait("a.example"), None);
        store.put_wait("a.example", Duration::from_millis(1500)).unwrap();
        assert_eq!(store.wait("a.example"), Some(Duration::from_secs(1)));
        let key = KeyPair::generate().unwrap();
        let params = rcgen::CertificateParams::new(vec!["a.example".to_owned()]).unwrap();
        let pem = format!("{}{}", params.self_signed(&key).unwrap().pem(), key.serialize_pem());
        store.put_certificate("a.example", &pem).unwrap();
        assert_eq!(store.wait("a.example"), None);
    }

    #[test]
    fn one_process_at_a_time_orders() {
        let dir = tempfile::tempdir().unwrap();
        let store = Store::open(dir.path(), URL).unwrap();
        let held = store.lock().unwrap().unwrap();
        assert!(store.lock().unwrap().is_none());
        drop(held);
        assert!(store.lock().unwrap().is_some());
    }
}
