//! Every configuration that the pages show is one that `omnigate check` accepts.

use std::{
    fs,
    path::{Path, PathBuf},
};

use crate::cli_run::{omnigate, run};
use ron_transport::tls::testkit::{TestCa, write_file};

/// A block of TOML and where it stands.
struct Example {
    page: String,
    line: usize,
    text: String,
}

/// Warnings that are true in the folder of this test: an example names files that are not here, and may leave the routes to
/// the next one.
const OF_THIS_FOLDER: [&str; 3] = ["there is no route", "there is no file", "does not exist"];

#[test]
fn every_example_in_the_pages_passes_the_check() {
    let dir = tempfile::tempdir().unwrap();
    write_what_examples_name(dir.path());
    let examples = examples();
    let shown = |page: &str| examples.iter().filter(|example| example.page == page).count();
    assert!(shown("gateway.md") > 10 && shown("README.md") > 0, "the pages have lost their examples");
    let wrong: Vec<String> = examples.iter().filter_map(|example| complaint(dir.path(), example)).collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// What the program says against an example, if it does; a warning counts.
fn complaint(dir: &Path, example: &Example) -> Option<String> {
    fs::write(dir.join("omnigate.toml"), &example.text).unwrap();
    let ran = run(omnigate(dir, &["check"]));
    let Example { page, line, .. } = example;
    let is_of_this_folder = |line: &str| OF_THIS_FOLDER.iter().any(|words| line.contains(words));
    let mut warnings = ran.err.lines().filter(|line| line.starts_with("warning:"));
    let accepted = ran.code == Some(0) && ran.out == "ok: omnigate.toml\n" && warnings.all(is_of_this_folder);
    (!accepted).then(|| format!("{page}, line {line}:\n{}", ran.err))
}

/// The keys and certificates that examples name, as an operator would have them.
fn write_what_examples_name(dir: &Path) {
    for folder in ["keys", "tls"] {
        fs::create_dir(dir.join(folder)).unwrap();
    }
    for path in ["root.key", "keys/root.key"] {
        let keygen = run(omnigate(dir, &["token", "keygen", path]));
        assert_eq!(keygen.code, Some(0), "{}", keygen.err);
    }
    write_file(dir, "keys/revoked", "", 0o644);
    let hash = bcrypt::hash_with_salt("secret", 4, [7; 16]).unwrap();
    write_file(dir, "users", &format!("ann:{hash}\n"), 0o644);
    write_file(dir, "tls/ca.pem", &TestCa::new("ca").pem(), 0o644);
    write_file(dir, "tls/revoked.pem", &TestCa::new("ca").revoked_client("client").1, 0o644);
    // A successful OCSP response, as far as anybody looks at it here.
    fs::write(dir.join("tls/cert.ocsp"), [0x30, 6, 0x0a, 1, 0, 0x30, 1, 0]).unwrap();
    for (name, cert, key) in [
        ("localhost", "tls/cert.pem", "tls/key.pem"),
        ("*.example.org", "tls/org.pem", "tls/org.key"),
        ("client", "tls/client.pem", "tls/client.key"),
    ] {
        let files = TestCa::new("ca").server(&[name]).write(dir, "made");
        fs::rename(files.cert_path, dir.join(cert)).unwrap();
        fs::rename(files.key_path, dir.join(key)).unwrap();
    }
}

/// The examples of the README and of all pages under `docs/`.
fn examples() -> Vec<Example> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages: Vec<PathBuf> =
        fs::read_dir(root.join("docs")).unwrap().map(|entry| entry.unwrap().path()).collect();
    pages.retain(|page| page.extension().is_some_and(|extension| extension == "md"));
    pages.push(root.join("README.md"));
    pages.iter().flat_map(|page| examples_of(page)).collect()
}

fn examples_of(page: &Path) -> Vec<Example> {
    let name = page.file_name().unwrap().to_str().unwrap();
    let text = fs::read_to_string(page).unwrap();
    let mut lines = text.lines().enumerate();
    let mut found = Vec::new();
    while let Some((line, _)) = lines.find(|(_, line)| *line == "```toml") {
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        found.push(Example { page: name.to_owned(), line: line + 1, text: block.join("\n") + "\n" });
    }
    found
}
