//! Stored objects that lost, gained or changed bytes while nobody looked: the built program gives out the bytes that were
//! stored, or none.

use std::{
    collections::BTreeSet,
    fs,
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    path::{Path, PathBuf},
    process::{Command, Output},
};

use cas::{Cas, Limits};
use types::ObjectId;

use crate::{
    damage::{Damage, LENGTHS},
    support::{Node, PATIENCE, free_addr},
};

/// An object, and what was done to it.
struct Case {
    bytes: Vec<u8>,
    id: ObjectId,
    what: String,
    differs: bool,
}

/// Stores an object for every length and damage, and damages each.
fn damaged_store(folder: &Path) -> Vec<Case> {
    let cas = Cas::at(folder, Limits::default()).unwrap();
    let pairs = LENGTHS.iter().flat_map(|len| Damage::ALL.map(|damage| (*len, damage)));
    let store = |(seed, (len, damage)): (usize, (usize, Damage))| {
        let mut bytes = vec![0; len];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        let id = cas.put(&bytes).unwrap().id;
        Case {
            bytes,
            id,
            what: format!("{len} bytes, {damage:?}"),
            differs: damage.inflict(&file(folder, id)),
        }
    };
    let mut cases: Vec<Case> = pairs.enumerate().map(store).collect();
    // There is only one object without bytes; whatever was done to it, it is the last state that counts.
    cases.retain(|case| !case.bytes.is_empty());
    cases
}

fn file(folder: &Path, id: ObjectId) -> PathBuf {
    let hex = id.hex();
    folder.join("objects").join(&hex[..2]).join(hex)
}

fn omnigate(args: &[&str], store: &Path) -> Output {
    let program = std::env::var("OMNIGATE_BIN").unwrap_or_else(|_| env!("CARGO_BIN_EXE_omnigate").to_owned());
    Command::new(program).args(args).arg("--dir").arg(store).env_clear().output().unwrap()
}

#[test]
fn the_cas_commands_never_take_a_damaged_object_for_a_good_one() {
    let dir = tempfile::tempdir().unwrap();
    let store = dir.path().join("cas");
    let cases = damaged_store(&store);
    for Case { bytes, id, what, differs } in &cases {
        let got = omnigate(&["cas", "get", &id.to_string()], &store);
        assert_eq!(got.status.success(), !differs, "{what}");
        assert!(bytes.starts_with(&got.stdout), "{what}: standard output got wrong bytes");
        assert!(*differs || got.stdout == *bytes, "{what}");
    }
    let scrubbed = omnigate(&["cas", "scrub"], &store);
    assert_eq!(scrubbed.status.code(), Some(1), "{scrubbed:?}");
    let told = String::from_utf8(scrubbed.stdout).unwrap();
    let quarantined: BTreeSet<&str> =
        told.lines().filter_map(|line| line.strip_prefix("quarantined ")).collect();
    for Case { id, what, differs, .. } in &cases {
        assert_eq!(quarantined.contains(&*id.to_string()), *differs, "{what}");
    }
}

/// An answer as far as it came: damage that is found late breaks the connection.
struct Got {
    status: u16,
    length: usize,
    body: Vec<u8>,
}

fn ask(method: &str, addr: SocketAddr, path: &str, fields: &str) -> Got {
    let mut stream = TcpStream::connect(addr).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    write!(stream, "{method} {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n{fields}\r\n").unwrap();
    let mut answer = Vec::new();
    // What came before a reset stays in the buffer.
    let _ = stream.read_to_end(&mut answer);
    let end = answer.windows(4).position(|four| four == b"\r\n\r\n").unwrap();
    let head = String::from_utf8(answer[..end].to_vec()).unwrap().to_ascii_lowercase();
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")).unwrap_or("0");
    let status = head.split(' ').nth(1).unwrap().parse().unwrap();
    Got { status, length: length.parse().unwrap(), body: answer.split_off(end + 4) }
}

/// Asks in every way a client can; each answer is right, breaks off, or is a refusal.
fn ask_for(case: &Case, addr: SocketAddr, folder: &str) {
    let Case { bytes, id, what, differs } = case;
    let (len, path) = (bytes.len(), format!("{folder}{id}"));
    let head = ask("HEAD", addr, &path, "");
    assert!(head.status != 200 || head.length == len, "{path} {what}: HEAD says {}", head.length);
    for range in [0..1, len - 1..len, 0..len] {
        let part = ask("GET", addr, &path, &format!("range: bytes={}-{}\r\n", range.start, range.end - 1));
        assert!(!matches!(part.status, 200 | 304), "{path} {what} {range:?}: {}", part.status);
        if part.status == 206 {
            assert!(bytes[range.clone()].starts_with(&part.body), "{path} {what} {range:?}: wrong bytes");
            assert_eq!(part.length, range.len(), "{path} {what} {range:?}");
        }
    }
    let whole = ask("GET", addr, &path, "");
    let is_served = whole.status == 200 && whole.body.len() == whole.length;
    assert_eq!(is_served, !differs, "{path} {what}: {} with {} bytes", whole.status, whole.body.len());
    assert!(whole.status != 200 || bytes.starts_with(&whole.body), "{path} {what}: wrong bytes");
}

#[test]
fn the_edge_never_serves_a_damaged_object_as_the_right_one() {
    let (dir, edge) = (tempfile::tempdir().unwrap(), free_addr());
    let cases = damaged_store(&dir.path().join("data/cas"));
    let _node = Node::start_in(
        dir,
        &format!(
            "enabled = false\n[node]\ndata_dir = \"./data\"\n[edge]\nenabled = true\nlisten = \"{edge}\"\n\
             ingress.rps_limit = 0\n"
        ),
    );
    for case in &cases {
        ask_for(case, edge, "/edge/cas/");
    }
}

#[test]
fn the_overlay_never_serves_a_damaged_object_as_the_right_one() {
    let dir = tempfile::tempdir().unwrap();
    let cases = damaged_store(&dir.path().join("data/cas"));
    let settings = format!(
        "quotas.per_ip_rps = 0\ndrr.rate_limit_rps = 0\nroute = [{{ path = \"/v1/o\", service = \"objects\" }}]\n\
         [node]\ndata_dir = \"./data\"\n[overlay]\nenabled = true\nlisten = \"{}\"\n",
        free_addr()
    );
    let node = Node::start_in(dir, &settings);
    for case in &cases {
        ask_for(case, node.gateway, "/v1/o/");
    }
    assert!(fs::exists(node.path().join("data/cas/cas-format")).unwrap(), "the right folder");
}
