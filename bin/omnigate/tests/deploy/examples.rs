//! Every example configuration is one that the program takes, and the three nodes serve through each other.

use std::{
    fs,
    path::{Path, PathBuf},
};

use ron_transport::tls::testkit::{TestCa, write_file};

use crate::{
    cli_run::{omnigate, run},
    repository,
};

#[test]
fn every_example_passes_the_check() {
    let files = configurations();
    assert!(files.len() >= 7, "{files:?}");
    for file in files {
        let dir = tempfile::tempdir().unwrap();
        furnish(dir.path());
        fs::copy(&file, dir.path().join("omnigate.toml")).unwrap();
        let ran = run(omnigate(dir.path(), &["check", "--config", "omnigate.toml"]));
        let said = (ran.code, ran.out.as_str());
        assert_eq!(said, (Some(0), "ok: omnigate.toml\n"), "{}: {}", file.display(), ran.err);
        // An example names packs and folders that its reader has, and may leave the routes to its reader.
        let expected = ["there is no file", "does not exist", "there is no route"];
        let mut warnings = ran.err.lines().filter(|line| line.starts_with("warning:"));
        let all_expected = warnings.all(|line| expected.iter().any(|words| line.contains(words)));
        assert!(all_expected, "{}: {}", file.display(), ran.err);
    }
}

/// Every configuration under `deploy/`.
fn configurations() -> Vec<PathBuf> {
    let (mut folders, mut found) = (vec![repository("deploy")], Vec::new());
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            match path.is_dir() {
                true => folders.push(path),
                false if path.extension().is_some_and(|ending| ending == "toml") => found.push(path),
                false => {}
            }
        }
    }
    found
}

/// The keys and certificates that examples name, as an operator would have them.
fn furnish(dir: &Path) {
    for folder in ["keys", "tls", "packs", "public"] {
        fs::create_dir(dir.join(folder)).unwrap();
    }
    let keygen = run(omnigate(dir, &["token", "keygen", "keys/root.key"]));
    assert_eq!(keygen.code, Some(0), "{}", keygen.err);
    write_file(dir, "keys/revoked", "", 0o644);
    let authority = TestCa::new("ours");
    write_file(dir, "tls/ca.pem", &authority.pem(), 0o644);
    for (name, cert, key) in [
        ("front.example.org", "tls/cert.pem", "tls/key.pem"),
        ("front.internal", "tls/a.pem", "tls/a.key"),
        ("edge.internal", "tls/b.pem", "tls/b.key"),
        ("edge.internal", "tls/c.pem", "tls/c.key"),
    ] {
        let files = authority.server(&[name]).write(dir, "made");
        fs::rename(files.cert_path, dir.join(cert)).unwrap();
        fs::rename(files.key_path, dir.join(key)).unwrap();
    }
}
