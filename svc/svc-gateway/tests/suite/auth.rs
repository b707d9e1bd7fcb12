//! What the `[auth]` table accepts, and what is loaded for it.

use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use captoken::{Grant, KeyRing, RevocationList, RootKey, Token, TokenError, TokenId, authenticate, key_text};
use ron_kernel::config::{Loader, Schema, Snapshot, Sources};
use svc_gateway::{AuthConfig, load_auth};
use tempfile::TempDir;

fn snapshot(lines: &str) -> Result<Snapshot, String> {
    let loader = Loader::new(Schema::new().table::<AuthConfig>(), "TEST_");
    let file = Some(("test.toml".into(), format!("[auth]\n{lines}\n")));
    let loaded = loader.load(Sources { file, ..Sources::default() });
    loaded.map_err(|report| report.render(false))
}

/// Loads the table from TOML lines; an error is the whole report.
fn load(lines: &str) -> Result<Arc<AuthConfig>, String> {
    snapshot(lines).map(|snapshot| snapshot.get::<AuthConfig>())
}

/// What is warned about.
fn warnings(lines: &str) -> String {
    snapshot(lines).unwrap().warnings().render(false)
}

#[track_caller]
fn assert_boundary(accepted: &str, refused: &str, words: &str) {
    load(accepted).unwrap_or_else(|report| panic!("{accepted} is refused:\n{report}"));
    let report = load(refused).expect_err(refused);
    assert!(report.contains(words), "{refused}: `{words}` is missing in\n{report}");
}

/// Files in a folder of their own.
struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        Self { dir: TempDir::new().unwrap() }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn write(&self, name: &str, text: impl AsRef<[u8]>, mode: u32) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(mode)).unwrap();
        path
    }

    fn key(&self, name: &str, seed: u8) -> PathBuf {
        self.write(name, key_text(&[seed; 32]).as_bytes(), 0o600)
    }

    /// Loads these and returns the message, with the folder's name replaced.
    fn refused(&self, root_keys: Vec<PathBuf>, revoked: &Path) -> String {
        let config = AuthConfig { root_keys, revoked: revoked.to_owned(), ..AuthConfig::default() };
        let error = load_auth(&config).expect_err("a mistake").to_string();
        error.replace(&self.dir.path().display().to_string(), "DIR")
    }
}

#[test]
fn the_keys_issuer_is_asked_neither_too_often_nor_too_rarely() {
    assert_boundary("jwks_refresh = \"10s\"", "jwks_refresh = \"9s\"", "must be at least 10s");
    assert_boundary("jwks_refresh = \"24h\"", "jwks_refresh = \"86401s\"", "above the safe maximum");
}

#[test]
fn a_key_is_listed_once_and_no_more_than_sixteen_are() {
    assert_boundary("root_keys = [\"a\", \"b\"]", "root_keys = [\"a\", \"a\"]", "a is listed twice");
    assert_boundary("root_keys = [\"a\"]", "root_keys = [\"\"]", "must name a file");
    let keys =
        |count: usize| format!("root_keys = {:?}", (0..count).map(|n| n.to_string()).collect::<Vec<_>>());
    assert_boundary(&keys(KeyRing::MAX_KEYS), &keys(KeyRing::MAX_KEYS + 1), "more than 16 keys");
}

#[test]
fn keys_come_over_a_way_that_nobody_can_tamper_with() {
    let url = |url: &str| format!("jwks_url = \"{url}\"");
    for good in [
        "https://id.example/keys.json",
        "http://127.0.0.1:9/keys",
        "http://[::1]/k",
        "http://localhost/k",
        "file:/k",
    ] {
        load(&url(good)).unwrap_or_else(|report| panic!("{good}:\n{report}"));
    }
    for (bad, words) in [
        ("id.example/keys", "names no key set"),
        ("ftp://id.example/keys", "names no key set"),
        ("file:keys", "names no key set"),
        ("http://id.example/keys", "anybody on the way"),
        ("https://me:secret@id.example/keys", "carries credentials"),
    ] {
        let report = load(&url(bad)).unwrap_err();
        assert!(report.contains(words) && !report.contains("secret"), "{bad}: {report}");
    }
}

#[test]
fn each_of_several_issuers_has_a_name_of_its_own() {
    let listed = |name: &str| {
        format!("[[auth.issuer]]\nissuer = \"{name}\"\naudience = \"us\"\njwks_url = \"file:/k.json\"\n")
    };
    let first = |name: &str| format!("jwks_url = \"file:/k.json\"\njwt_issuer = \"{name}\"\n");
    let two = |a: &str, b: &str| first(a) + &listed(b);
    assert_boundary(&two("a", "b"), &two("a", "a"), "`a` is listed twice");
    assert_boundary(&first(""), &two("", "b"), "must name the issuer, because there are several");
    assert_boundary(&listed("a"), &two("a", ""), "must name the issuer, because there are several");
    let many = |count: usize| (0..count).map(|index| listed(&index.to_string())).collect::<String>();
    assert_boundary(&many(16), &many(17), "more than 16 issuers");
    let leeway = |leeway: &str| listed("a") + &format!("leeway = \"{leeway}\"\n");
    assert_boundary(&leeway("5m"), &leeway("301s"), "above the safe maximum");
    assert_boundary("jwt_leeway = \"0s\"", "jwt_leeway = \"6m\"", "above the safe maximum");
    let exposed = listed("a").replace("file:/k.json", "http://id.example/k");
    assert_boundary(&listed("a"), &exposed, "put keys of their own in place");
    let names: Vec<_> = load(&two("a", "b")).unwrap().issuers().into_iter().map(|it| it.issuer).collect();
    assert_eq!(names, ["a", "b"]);
}

#[test]
fn settings_that_do_nothing_or_too_much_are_warned_about() {
    assert!(snapshot("").unwrap().warnings().is_empty());
    assert!(warnings("revoked = \"list\"").contains("without `root_keys`"));
    assert!(warnings("jwt_issuer = \"me\"").contains("without `jwks_url`"));
    let open = warnings("jwks_url = \"https://id.example/k\"\njwt_issuer = \"me\"");
    assert!(open.contains("jwt_audience") && !open.contains("jwt_issuer"), "{open}");
    let whole = "jwks_url = \"https://id.example/k\"\njwt_issuer = \"me\"\njwt_audience = \"us\"";
    assert!(snapshot(whole).unwrap().warnings().is_empty());
}

#[test]
fn tokens_of_every_listed_key_are_good_until_they_are_revoked() {
    let files = Fixture::new();
    let id = |seed: u8| TokenId::new([seed; 16]);
    let revoked = files.write("revoked", format!("{} # lost\n", id(9)), 0o644);
    let root_keys = vec![files.key("new", 2), files.key("old", 1)];
    let (ring, revoked) = load_auth(&AuthConfig { root_keys, revoked, ..AuthConfig::default() }).unwrap();
    let judged = |seed: u8, id: TokenId| {
        let token = Token::mint(&RootKey::new(&[seed; 32]), id, &Grant::default(), &[]).unwrap();
        authenticate(token.encode().as_bytes(), &ring, &revoked, 0).map(|bearer| bearer.id())
    };
    assert_eq!(judged(1, id(0)), Ok(id(0)));
    assert_eq!(judged(2, id(0)), Ok(id(0)));
    assert_eq!(judged(2, id(9)), Err(TokenError::Revoked));
    assert_eq!(judged(3, id(0)), Err(TokenError::UnknownKey));
}

#[test]
fn without_settings_there_are_no_keys_and_no_revocations() {
    let (ring, revoked) = load_auth(&AuthConfig::default()).unwrap();
    assert!(ring.is_empty());
    assert_eq!(revoked, RevocationList::default());
}

#[test]
fn a_key_that_others_may_read_is_refused_with_the_remedy() {
    let files = Fixture::new();
    for mode in [0o640, 0o604, 0o660] {
        let key = files.write("key", key_text(&[1; 32]).as_bytes(), mode);
        let words = format!(
            "key DIR/key has mode {mode:04o} and is open to others than its owner; run: chmod 600 DIR/key"
        );
        assert_eq!(files.refused(vec![key], Path::new("")), words);
    }
}

#[test]
fn every_other_mistake_names_the_file_and_the_remedy() {
    let files = Fixture::new();
    let none = Path::new("");
    let secret = "ogk1.not-a-key-but-secret";
    let damaged = files.refused(vec![files.write("damaged", secret, 0o600)], none);
    assert!(
        damaged.contains("DIR/damaged holds no root key") && damaged.contains("token keygen"),
        "{damaged}"
    );
    assert!(!damaged.contains("secret"), "{damaged}");
    let missing = files.refused(vec![files.path("none")], none);
    assert!(missing.contains("DIR/none does not exist"), "{missing}");
    let twice = files.refused(vec![files.key("a", 1), files.key("b", 1)], none);
    assert!(twice.contains("listed twice"), "{twice}");
    let huge = files.refused(vec![files.write("huge", vec![b' '; 5000], 0o600)], none);
    assert!(huge.contains("DIR/huge is larger than 4096 bytes"), "{huge}");

    let key = || vec![files.key("key", 1)];
    let missing = files.refused(key(), &files.path("none"));
    assert!(missing.contains("DIR/none does not exist"), "{missing}");
    let line = files.refused(key(), &files.write("list", "\nnonsense\n", 0o644));
    assert!(line.contains("DIR/list is no revocation list: line 2"), "{line}");
    let binary = files.refused(key(), &files.write("list", [0xff], 0o644));
    assert!(binary.contains("DIR/list is no revocation list: it is not UTF-8"), "{binary}");
}
