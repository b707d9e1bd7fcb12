//! `omnigate token`: what each command prints, and what it refuses to do.

use std::{
    fs,
    io::Write,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    process::{Command, Stdio},
};

use crate::cli_run::{Ran, omnigate, run};
use serde_json::{Value, json};
use tempfile::TempDir;

const VECTORS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../core/captoken/tests");
const ID: &str = "00112233445566778899aabbccddeeff";

/// A folder with a root key in `root.key`.
struct Fixture {
    dir: TempDir,
}

impl Fixture {
    fn new() -> Self {
        let fixture = Self { dir: TempDir::new().unwrap() };
        assert_eq!(fixture.token("keygen root.key").code, Some(0));
        fixture
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Runs `omnigate token` with these words.
    fn token(&self, words: &str) -> Ran {
        let args: Vec<&str> = ["token"].into_iter().chain(words.split_whitespace()).collect();
        run(omnigate(self.dir.path(), &args))
    }

    /// The same, with something on standard input.
    fn told(&self, words: &str, input: &str) -> Ran {
        let args: Vec<&str> = ["token"].into_iter().chain(words.split_whitespace()).collect();
        piped(omnigate(self.dir.path(), &args), input)
    }

    /// A token with these options, made with `root.key`.
    fn minted(&self, options: &str) -> String {
        printed(&self.token(&format!("mint --key root.key {options}")))
    }

    fn inspected(&self, token: &str) -> Value {
        serde_json::from_str(&self.told("inspect --json", token).out).unwrap()
    }
}

fn piped(mut command: Command, input: &str) -> Ran {
    let mut child =
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // Who refuses what it was told does not wait for it.
    let _ = child.stdin.take().unwrap().write_all(input.as_bytes());
    let output = child.wait_with_output().unwrap();
    Ran {
        code: output.status.code(),
        out: String::from_utf8(output.stdout).unwrap(),
        err: String::from_utf8(output.stderr).unwrap(),
    }
}

/// What `mint` says of a token without a tenant.
const FOR_EVERY_TENANT: &str = "warning: whoever holds this token may act for every tenant";

/// The one line a command printed.
#[track_caller]
fn printed(ran: &Ran) -> String {
    let quiet = ran.err.is_empty() || ran.err.starts_with(FOR_EVERY_TENANT);
    assert!(ran.code == Some(0) && quiet, "printed: {} {}", ran.out, ran.err);
    ran.out.strip_suffix('\n').unwrap().to_owned()
}

#[track_caller]
fn assert_fails(ran: &Ran, code: i32, words: &str) {
    assert_eq!((ran.code, ran.out.as_str()), (Some(code), ""), "{}", ran.err);
    assert!(ran.err.contains(words), "{words} is missing in\n{}", ran.err);
}

/// The token with another tag. Its last character has bits that do not count and must be zero; of these two they are.
fn altered(token: &str) -> String {
    let last = if token.ends_with('A') { 'Q' } else { 'A' };
    format!("{}{last}", &token[..token.len() - 1])
}

fn set_mode(path: &Path, mode: u32) {
    fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
}

#[test]
fn a_key_is_written_for_its_owner_alone_and_never_overwritten() {
    let fixture = Fixture::new();
    let key = fixture.path("root.key");
    assert_eq!(fs::metadata(&key).unwrap().permissions().mode() & 0o7777, 0o600);
    let text = fs::read_to_string(&key).unwrap();
    assert_fails(&fixture.token("keygen root.key"), 1, "root.key exists already and is not overwritten");
    assert_eq!(fs::read_to_string(&key).unwrap(), text);
    let ran = fixture.token("keygen other.key");
    assert!(
        ran.out.starts_with("wrote other.key: key ") && ran.out.contains("auth.root_keys"),
        "{}",
        ran.out
    );
    assert!(!ran.out.contains(text.trim()) && !ran.out.contains("ogk1"), "{}", ran.out);
    assert_ne!(fs::read_to_string(fixture.path("other.key")).unwrap(), text);
    assert_fails(&fixture.token("keygen no/such.key"), 1, "no/such.key cannot be written");
}

#[test]
fn a_key_that_others_may_read_is_not_used() {
    let fixture = Fixture::new();
    set_mode(&fixture.path("root.key"), 0o644);
    for words in ["mint --key root.key --tenant a", "verify --key root.key og1.AAAA"] {
        assert_fails(&fixture.token(words), 1, "run: chmod 600 root.key");
    }
}

#[test]
fn a_minted_token_says_what_was_asked_for() {
    let fixture = Fixture::new();
    let token = fixture.minted(&format!(
        "--id {ID} --tenant acme --path /api --method get,POST --expires 1h --not-before 1m --ip 10.0.0.0/8,::1 \
         --class internal --scope rewarder.run,rewarder.read"
    ));
    let said = fixture.inspected(&token);
    assert_eq!(said["verified"], false);
    assert_eq!(said["id"], ID);
    assert_eq!(said["class"], "internal");
    assert_eq!(said["scopes"], json!(["rewarder.run", "rewarder.read"]));
    let kinds: Vec<&str> =
        said["caveats"].as_array().unwrap().iter().map(|c| c["kind"].as_str().unwrap()).collect();
    assert_eq!(kinds, ["tenant", "path", "methods", "networks", "not_before", "expires"]);
    assert_eq!(said["caveats"][2]["value"], json!(["GET", "POST"]));
    assert_eq!(said["caveats"][3]["value"], json!(["10.0.0.0/8", "::1/128"]));
    let moment = |at: usize| said["caveats"][at]["value"].as_u64().unwrap();
    assert!((3539..=3541).contains(&(moment(5) - moment(4))), "{said}");
}

#[test]
fn a_token_is_for_one_tenant_and_one_hour_unless_said_otherwise() {
    let fixture = Fixture::new();
    assert_fails(&fixture.token("mint --key root.key"), 2, "--any-tenant");
    let usual = fixture.inspected(&fixture.minted("--tenant acme"));
    assert_eq!((&usual["class"], &usual["scopes"]), (&json!("authed"), &json!([])));
    assert_eq!(usual["caveats"][1]["kind"], "expires");
    let free = fixture.inspected(&fixture.minted("--any-tenant --never-expires"));
    assert_eq!(free["caveats"], json!([]));
    assert_ne!(free["id"], usual["id"], "ids are random");
    assert_fails(
        &fixture.token("mint --key root.key --tenant a --never-expires --expires 1h"),
        2,
        "cannot be used",
    );
}

#[test]
fn what_a_token_says_is_shown_with_the_warning_that_it_is_not_verified() {
    let fixture = Fixture::new();
    let token = fixture.minted(&format!("--id {ID} --tenant acme --expires 1h"));
    let shown = printed(&fixture.token(&format!("inspect {token}")));
    assert!(shown.starts_with("not verified: "), "{shown}");
    for words in [ID, "class   authed", "scopes  none", "  tenant: acme", "  expires: ", "Z)"] {
        assert!(shown.contains(words), "{words} is missing in\n{shown}");
    }
    let free = fixture.minted("--any-tenant --never-expires");
    assert!(fixture.told("inspect", &free).out.contains("every request, for ever"));
    let forged = altered(&token);
    assert_eq!(fixture.inspected(&forged)["id"], ID, "nothing is verified here");
}

#[test]
fn verdicts_are_printed_and_told_by_the_exit_code() {
    let fixture = Fixture::new();
    let token =
        fixture.minted("--tenant acme --path /api --method GET --ip 10.0.0.0/8 --scope x --expires 1h");
    for (request, code, words) in [
        ("--path /api/x --ip 10.1.1.1", 0, "allowed: tenant acme, class authed, scopes x, expires "),
        ("--path /api/x --ip 10.1.1.1 --scope x --tenant acme", 0, "allowed: "),
        ("--path /apix --ip 10.1.1.1", 1, "refused: 403 wrong_path: the token does not cover this path\n"),
        ("--path /api --ip 10.1.1.1 --method PUT", 1, "refused: 403 wrong_method: "),
        ("--path /api", 1, "refused: 403 wrong_address: "),
        ("--path /api --ip 10.1.1.1 --tenant other", 1, "refused: 403 wrong_tenant: "),
        ("--path /api --ip 10.1.1.1 --scope y", 1, "refused: 403 wrong_scope: "),
        ("--path /api --ip 10.1.1.1 --at 99999999999", 1, "refused: 401 expired: the token has expired\n"),
    ] {
        let ran = fixture.told(&format!("verify --key root.key {request}"), &token);
        assert_eq!((ran.code, ran.err.as_str()), (Some(code), ""), "{request}: {}", ran.out);
        assert!(ran.out.starts_with(words), "{request}: {}", ran.out);
    }
    let ran = fixture.told("verify --key root.key --json", &token);
    let verdict: Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!((ran.code, &verdict["allowed"], &verdict["status"]), (Some(1), &json!(false), &json!(403)));
}

#[test]
fn a_token_is_good_with_the_key_it_was_made_with_and_no_other() {
    let fixture = Fixture::new();
    assert_eq!(fixture.token("keygen new.key").code, Some(0));
    let token = fixture.minted("--tenant acme");
    let verdict = |keys: &str| fixture.told(&format!("verify {keys}"), &token).out;
    assert!(verdict("--key new.key --key root.key").starts_with("allowed"), "a rotated ring knows both");
    assert!(verdict("--key new.key").starts_with("refused: 401 unknown_key: "));
    let forged = altered(&token);
    let ran = fixture.told("verify --key root.key", &forged);
    assert!(ran.out.starts_with("refused: 401 forged: "), "{}", ran.out);
    assert!(!ran.out.contains(&forged[4..]) && !ran.err.contains(&forged[4..]), "tokens are never repeated");
}

#[test]
fn attenuation_needs_no_key_and_only_narrows() {
    let fixture = Fixture::new();
    let token = fixture.minted("--tenant acme --class internal --scope x,y");
    fs::rename(fixture.path("root.key"), fixture.path("away.key")).unwrap();
    let narrow =
        printed(&fixture.told("attenuate --path /api --class authed --scope y,z", &format!("{token}\n")));
    fs::rename(fixture.path("away.key"), fixture.path("root.key")).unwrap();
    let verdict = |token: &str, path: &str| {
        let ran = fixture.told(&format!("verify --json --key root.key --path {path}"), token);
        serde_json::from_str::<Value>(&ran.out).unwrap()
    };
    assert_eq!(verdict(&token, "/other")["allowed"], true);
    assert_eq!(verdict(&narrow, "/other")["verdict"], "wrong_path");
    let allowed = verdict(&narrow, "/api");
    assert_eq!((&allowed["class"], &allowed["scopes"]), (&json!("authed"), &json!(["y"])));
    let wider = printed(&fixture.told("attenuate --class internal --scope x", &narrow));
    let still = verdict(&wider, "/api");
    assert_eq!((&still["class"], &still["scopes"]), (&json!("authed"), &json!([])));
    let other = printed(&fixture.told("attenuate --tenant other", &narrow));
    assert_eq!(verdict(&other, "/api")["verdict"], "wrong_tenant");
    assert_fails(&fixture.told("attenuate", &token), 2, "there is nothing to add");
}

#[test]
fn a_revoked_token_is_refused_with_everything_made_from_it() {
    let fixture = Fixture::new();
    let token = fixture.minted(&format!("--id {ID} --tenant acme"));
    let narrow = printed(&fixture.told("attenuate --path /", &token));
    let verdict = |token: &str| fixture.told("verify --key root.key --revoked list", token).out;
    fs::write(fixture.path("list"), "# lost laptops").unwrap();
    assert!(verdict(&narrow).starts_with("allowed"));
    assert_eq!(printed(&fixture.told("revoke --file list", &token)), format!("revoked {ID} in list"));
    assert_eq!(fs::read_to_string(fixture.path("list")).unwrap(), format!("# lost laptops\n{ID}\n"));
    for token in [&token, &narrow] {
        assert_eq!(verdict(token), "refused: 401 revoked: the token is revoked\n");
    }
    assert_eq!(
        printed(&fixture.token(&format!("revoke --file list {ID}"))),
        format!("{ID} was revoked in list already")
    );
    let other = "f".repeat(32);
    assert_eq!(printed(&fixture.told("revoke --file fresh", &other)), format!("revoked {other} in fresh"));
    assert_eq!(fs::read_to_string(fixture.path("fresh")).unwrap(), format!("{other}\n"));
    assert_fails(&fixture.told("revoke --file list", "nonsense"), 1, "give a token, or its id");
    fs::write(fixture.path("list"), "nonsense\n").unwrap();
    assert_fails(&fixture.told("revoke --file list", &token), 1, "list is no revocation list: line 1");
}

#[test]
fn what_cannot_be_is_refused_with_the_option_named() {
    let fixture = Fixture::new();
    for (options, words) in [
        ("--tenant é", "--tenant: a tenant is named with 1 to 128"),
        ("--tenant a --path api", "--path: a path begins with `/`"),
        ("--tenant a --path /a/../b", "--path: "),
        ("--tenant a --method G@T", "--method: a name has 1 to 64"),
        ("--tenant a --ip 10.0.0.1/8", "bits behind the prefix are set"),
        ("--tenant a --ip nowhere", "write an address or a network"),
        ("--tenant a --scope ,", "--scope: "),
        ("--tenant a --class root", "possible values: authed, internal"),
        ("--tenant a --expires 5", "write a number with a unit"),
        ("--tenant a --id 12", "32 hexadecimal digits"),
    ] {
        assert_fails(&fixture.token(&format!("mint --key root.key {options}")), 2, words);
    }
    let long = "x".repeat(255);
    assert_fails(
        &fixture.token(&format!("mint --key root.key --tenant a --path /{long}")),
        2,
        "--path: there is no room",
    );
    assert_fails(&fixture.token("mint --key none.key --tenant a"), 1, "none.key does not exist");
    fs::write(fixture.path("bad.key"), "nonsense").unwrap();
    set_mode(&fixture.path("bad.key"), 0o600);
    assert_fails(&fixture.token("mint --key bad.key --tenant a"), 1, "bad.key holds no root key");
    assert_fails(&fixture.told("inspect", "  \n"), 2, "there is no token");
    assert_fails(
        &fixture.told("inspect", "nonsense"),
        1,
        "the token is malformed: a token begins with `og1.`",
    );
    assert_fails(&fixture.told("inspect", &format!("og1.{}", "A".repeat(1021))), 1, "the token is too long");
}

#[test]
fn the_check_of_the_configuration_looks_at_keys_and_revocations() {
    let fixture = Fixture::new();
    fs::write(fixture.path("omnigate.toml"), "[auth]\nroot_keys = [\"root.key\"]\nrevoked = \"list\"\n")
        .unwrap();
    let check = || run(omnigate(fixture.dir.path(), &["check"]));
    assert_fails(&check(), 2, "list does not exist");
    fs::write(fixture.path("list"), "").unwrap();
    assert_eq!(check().code, Some(0));
    set_mode(&fixture.path("root.key"), 0o640);
    assert_fails(&check(), 2, "has mode 0640 and is open to others than its owner; run: chmod 600 ");
}

#[test]
fn the_program_comes_to_the_verdicts_of_the_test_vectors() {
    let fixture = Fixture::new();
    let text = fs::read_to_string(format!("{VECTORS}/vectors.json")).unwrap();
    let vectors: Vec<Value> = serde_json::from_str(&text).unwrap();
    // One of each verdict: the library's own tests judge all of them. The empty token is no argument for a program.
    let mut seen = std::collections::BTreeSet::new();
    // No command has a connection that a token could be bound to.
    let new = |vector: &&Value| {
        vector["token"] != ""
            && vector["request"]["channel"].is_null()
            && seen.insert(vector["verdict"].to_string())
    };
    for vector in vectors.iter().filter(new) {
        let request = vector_options(&fixture, vector);
        let ran = fixture.told(&format!("verify --json{request}"), vector["token"].as_str().unwrap());
        let verdict: Value =
            serde_json::from_str(&ran.out).unwrap_or_else(|_| panic!("{vector}: {}", ran.err));
        let said = if verdict["allowed"] == true { "ok" } else { verdict["verdict"].as_str().unwrap() };
        assert_eq!(vector["verdict"], said, "{vector}");
    }
    assert_eq!(seen.len(), 18, "{seen:?}");
}

/// A vector's keys and revocations in files, and the options that name them and its request.
fn vector_options(fixture: &Fixture, vector: &Value) -> String {
    let mut options = " --revoked list".to_owned();
    let strings = |list: &Value| -> Vec<String> {
        list.as_array().unwrap().iter().map(|item| item.as_str().unwrap().to_owned()).collect()
    };
    fs::write(fixture.path("list"), strings(&vector["revoked"]).join("\n")).unwrap();
    for (at, key) in strings(&vector["keys"]).iter().enumerate() {
        let name = format!("vector{at}.key");
        fs::write(fixture.path(&name), key_text(key)).unwrap();
        set_mode(&fixture.path(&name), 0o600);
        options += &format!(" --key {name}");
    }
    for (key, value) in vector["request"].as_object().unwrap() {
        let key = if key == "now" { "at" } else { key };
        match value {
            Value::Null => {}
            Value::String(id) if key == "node" => options += &format!(" --node b3:{id}"),
            Value::String(text) => options += &format!(" --{key} {text}"),
            other => options += &format!(" --{key} {other}"),
        }
    }
    options
}

/// The text of a key file, for a secret in hexadecimal. Written out here so that the file's form is tested too.
fn key_text(hex: &str) -> String {
    const ALPHABET: &[u8] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    let digits = hex.chars().map(|digit| digit.to_digit(16).unwrap());
    let mut bits: Vec<u32> = digits.flat_map(|digit| (0..4).rev().map(move |at| digit >> at & 1)).collect();
    bits.resize(bits.len().next_multiple_of(6), 0);
    let sextets = bits.chunks(6).map(|bits| bits.iter().fold(0, |sum, bit| sum << 1 | bit));
    format!("ogk1.{}\n", sextets.map(|sextet| char::from(ALPHABET[sextet as usize])).collect::<String>())
}

#[test]
fn an_independent_implementation_agrees_with_the_test_vectors() {
    let python = Command::new("python3").arg("--version").output();
    if !python.is_ok_and(|output| output.status.success()) {
        eprintln!("skipped: there is no python3, so the second implementation of tokens was not run");
        return;
    }
    let mut command = Command::new("python3");
    command.current_dir(VECTORS).args(["-B", "vectors.py", "check", "vectors.json"]);
    let ran = run(command);
    assert_eq!((ran.code, ran.err.as_str()), (Some(0), ""), "{}", ran.out);
    assert!(ran.out.ends_with("vectors agree\n"), "{}", ran.out);
}

#[test]
fn minting_for_every_tenant_warns_and_for_one_does_not() {
    let fixture = Fixture::new();
    let warned = fixture.token("mint --key root.key --scope read --any-tenant");
    assert_eq!(warned.code, Some(0));
    assert!(warned.err.starts_with(FOR_EVERY_TENANT), "{}", warned.err);
    assert_eq!(fixture.token("mint --key root.key --scope read --tenant acme").err, "");
}

#[test]
fn what_is_made_and_revoked_is_in_the_audit_log_and_no_secret_is() {
    let fixture = Fixture::new();
    let words =
        format!("mint --key root.key --id {ID} --tenant acme --scope rewarder.run --audit-log audit.log");
    let minted = fixture.token(&words);
    assert_eq!(minted.code, Some(0), "{}", minted.err);
    assert_eq!(fixture.token("keygen next.key --audit-log audit.log").code, Some(0));
    assert_eq!(fixture.token(&format!("revoke {ID} --file list --audit-log audit.log")).code, Some(0));
    let text = fs::read_to_string(fixture.path("audit.log")).unwrap();
    let lines: Vec<Value> = text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let actions: Vec<&str> = lines.iter().map(|line| line["action"].as_str().unwrap()).collect();
    assert_eq!(actions, ["token mint", "token keygen", "token revoke"]);
    let mint = &lines[0];
    assert_eq!((mint["token"].as_str(), mint["tenant"].as_str()), (Some(ID), Some("acme")), "{mint}");
    assert!(mint["actor"].as_str().unwrap().starts_with("user "), "{mint}");
    assert!(mint["time"].is_string() && mint["key"].is_string() && mint["expires"].is_string(), "{mint}");
    assert!(!text.contains(minted.out.trim()), "the token itself is nowhere: {text}");
    let mode = fs::metadata(fixture.path("audit.log")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn nothing_is_handed_out_that_the_audit_log_cannot_tell() {
    let fixture = Fixture::new();
    let refused = fixture.token("mint --key root.key --tenant acme --audit-log no/such/folder/audit.log");
    assert_eq!(refused.code, Some(1), "{}", refused.err);
    assert!(refused.out.is_empty() && refused.err.contains("audit.log cannot be written"));
}
